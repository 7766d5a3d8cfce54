"""A TCP proxy on loopback that does to a connection what networks and broken hosts do.

Start it before a host and point the test at `address`, `port`. Faults are given at the
start or sprung later with `freeze` and `cut`.
"""

import contextlib
import select
import socket
import struct
import threading
import time
from dataclasses import dataclass
from typing import Self

_CHUNK_BYTES = 16 << 10


@dataclass
class Faults:
    """What goes wrong; byte counts are per direction over all connections, None means
    never.

    silent: accept and say nothing. junk: sent in place of anything else. hang_up:
    accept and close. Directions are seen from the host: `down` goes to the controller,
    `up` to the host.
    """

    delay_s: float = 0.0
    bytes_per_s: float | None = None
    chunk_bytes: int = _CHUNK_BYTES
    cut_down_after: int | None = None
    cut_up_after: int | None = None
    freeze_down_after: int | None = None
    freeze_up_after: int | None = None
    reset: bool = False
    silent: bool = False
    hang_up: bool = False
    prefix: bytes = b""
    junk: bytes = b""


class FaultProxy:
    """One listening address in front of `target`, as (address, port)."""

    def __init__(self, target: tuple[str, int], faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self._target = target
        self._frozen = threading.Event()
        self._over = threading.Event()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.05)
        self.address, self.port = self._listener.getsockname()
        self.accepted = 0
        self._spawn(self._accept)

    def freeze(self) -> None:
        """Pass nothing on from now on, in either direction, and read nothing;
        connections stay open.
        """
        self._frozen.set()

    def thaw(self) -> None:
        """Go on after `freeze`."""
        self._frozen.clear()

    def cut(self, reset: bool = False) -> None:
        """End all connections: with end-of-file, or with a reset."""
        for socket_ in self._sockets:
            _end(socket_, reset)

    def close(self) -> None:
        """End everything, threads included."""
        self._over.set()
        self._frozen.clear()
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(5.0)
        for socket_ in self._sockets:
            socket_.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _spawn(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                ours, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            self.accepted += 1
            self._sockets.append(ours)
            if self.faults.silent:
                continue
            if self.faults.hang_up or self.faults.junk:
                with contextlib.suppress(OSError):
                    ours.sendall(self.faults.junk)
                _end(ours, self.faults.reset)
                continue
            theirs = socket.create_connection(self._target)
            self._sockets.append(theirs)
            ours.sendall(self.faults.prefix)
            faults = self.faults
            self._spawn(
                self._pump,
                theirs,
                ours,
                faults.cut_down_after,
                faults.freeze_down_after,
            )
            self._spawn(
                self._pump, ours, theirs, faults.cut_up_after, faults.freeze_up_after
            )

    def _pump(
        self,
        source: socket.socket,
        sink: socket.socket,
        cut_after: int | None,
        freeze_after: int | None,
    ) -> None:
        passed = 0
        with contextlib.suppress(OSError, ValueError):  # ValueError: closed by `cut`
            while not self._over.is_set():
                self._wait_while_frozen()
                # A socket that a thread is reading cannot be reset: close would wait
                # for the reader.
                if not select.select([source], [], [], 0.02)[0]:
                    continue
                try:
                    data = source.recv(self.faults.chunk_bytes)
                except (
                    ConnectionResetError
                ):  # as of a process killed before it had read everything
                    self._wait_while_frozen()
                    _end(sink, reset=False)
                    return
                self._wait_while_frozen()
                self._slow_down(len(data))
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                    return
                room = len(data) if cut_after is None else max(0, cut_after - passed)
                sink.sendall(data[:room])
                passed += len(data)
                if room < len(data):
                    self.cut(self.faults.reset)
                if freeze_after is not None and passed >= freeze_after:
                    self.freeze()

    def _wait_while_frozen(self) -> None:
        while self._frozen.is_set() and not self._over.is_set():
            time.sleep(0.01)

    def _slow_down(self, count: int) -> None:
        rate = self.faults.bytes_per_s
        time.sleep(self.faults.delay_s + (count / rate if rate else 0.0))


def _end(socket_: socket.socket, reset: bool) -> None:
    with contextlib.suppress(OSError):
        if reset:  # SO_LINGER of 0 s turns close into a reset
            socket_.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            socket_.close()
        else:
            socket_.shutdown(socket.SHUT_RDWR)
