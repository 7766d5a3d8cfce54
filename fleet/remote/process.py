"""Runs a child process with pipes, for the client programs of `command`."""

import contextlib
import fcntl
import math
import os
import selectors
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import IO

from fleet.errors import LinkError

_SLICE_BYTES = 64 << 10
_GRACE_S, _TERM_S = 1.0, 2.0  # for a child to end after end-of-file on its stdin, and after SIGTERM
_BEAT_S = 10.0
_LOOK_S = 0.1  # how often to see whether a silent child has ended


class Process:
    """A child in a session of its own, with pipes that end when it does. env: added to our own."""

    def __init__(self, host_name: str, command: Sequence[str], env: Mapping[str, str]) -> None:
        try:
            child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **env},
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise LinkError(f"{host_name}: cannot start {command[0]} on this machine: {error}.") from error
        assert child.stdin is not None  # noqa: S101  we asked for three pipes
        assert child.stdout is not None  # noqa: S101
        assert child.stderr is not None  # noqa: S101
        self._child = child
        self._lock = threading.Lock()
        self._stdin: IO[bytes] | None = child.stdin
        self.heartbeat = b""  # for the child's stdin now and then, once it is fed
        self._beat_at = time.monotonic() + _BEAT_S
        self.stdout, self.stderr = child.stdout, child.stderr
        self._unread: set[IO[bytes]] = {self.stdout, self.stderr}  # those that have not ended yet

    def exchange(
        self, stdin: bytes, deadline: float, *, goes_on: bool = False, idle_timeout_s: float = math.inf
    ) -> Iterator[tuple[bool, bytes]]:
        """Write `stdin`, close it unless it goes on, and yield (is it stderr, data). Raises TimeoutError."""
        left = memoryview(stdin)
        with selectors.DefaultSelector() as selector:
            for output in self._unread:
                selector.register(output, selectors.EVENT_READ)
            if left and self._stdin:
                os.set_blocking(self._stdin.fileno(), False)
                selector.register(self._stdin, selectors.EVENT_WRITE)
            elif not goes_on:
                self.close_stdin()
            while self._unread:
                for key in self._wait_until_ready(selector, deadline, idle_timeout_s):
                    if key.fileobj is self.stdout or key.fileobj is self.stderr:
                        yield from self._read(selector, key)
                    elif not (left := self._write(left)):
                        selector.unregister(key.fileobj)
                        if not goes_on:
                            self.close_stdin()
                if self._child.poll() is not None:
                    yield from self._read_remaining()

    def write_if_open(self, data: bytes) -> None:
        """Write a few bytes to the child's stdin, if it is open and takes them. Thread-safe."""
        with self._lock, contextlib.suppress(OSError):
            if self._stdin is not None:
                os.write(self._stdin.fileno(), data)

    def write_all(self, data: bytes, deadline: float) -> None:
        """Write `data` to the child's stdin and read nothing. Raises TimeoutError at `deadline`."""
        left = memoryview(data)
        with selectors.DefaultSelector() as selector:
            if self._stdin:
                os.set_blocking(self._stdin.fileno(), False)
                selector.register(self._stdin, selectors.EVENT_WRITE)
            while left:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError
                left = self._write(left)

    def wait(self, timeout_s: float) -> int:
        """Wait for the child and return its exit code as sh reports it: 128+n for signal n."""
        try:
            code = self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        return code if code >= 0 else 128 - code

    def close_stdin(self) -> None:
        """Give the child end-of-file on stdin. Thread-safe; may be called twice."""
        with self._lock:
            stdin, self._stdin = self._stdin, None
        if stdin is not None:
            with contextlib.suppress(OSError):
                stdin.close()

    def end(self, grace_s: float = _GRACE_S) -> None:
        """End the child by end-of-file, then by signals to its group: what a killed client began lives on."""
        self.close_stdin()
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._ends_within(grace_s):
                break
            self.signal(number)
            grace_s = _TERM_S
        self._ends_within(math.inf)
        self.stdout.close()
        self.stderr.close()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the child's group; whoever reads its output sees its end. Thread-safe."""
        with self._lock:
            if self._child.poll() is None:  # not reaped yet, so the id cannot have gone to somebody else
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._child.pid, number)

    def _ends_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        try:
            for _ in self.exchange(b"", deadline):
                pass
            self.wait(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            return False
        return True

    def _wait_until_ready(
        self, selector: selectors.BaseSelector, deadline: float, idle_timeout_s: float
    ) -> list[selectors.SelectorKey]:
        """Wait until something can be read or written, or the child has ended. Raises TimeoutError."""
        silent_until = min(deadline, time.monotonic() + idle_timeout_s)
        while (time_left := silent_until - time.monotonic()) > 0:
            fed = len(selector.get_map()) == len(self._unread)
            if self.heartbeat and fed and time.monotonic() >= self._beat_at:
                self._beat_at = time.monotonic() + _BEAT_S
                self.write_if_open(self.heartbeat)
            events = selector.select(min(time_left, _LOOK_S))
            if events or self._child.poll() is not None:
                return [key for key, _ in events]
        raise TimeoutError

    def _read_remaining(self) -> Iterator[tuple[bool, bytes]]:
        """Yield the output still in the pipes of a child that has ended."""
        for output in self._unread:
            held = fcntl.ioctl(output, termios.FIONREAD, bytes(4))
            if size := int.from_bytes(held, sys.byteorder):
                yield output is self.stderr, os.read(output.fileno(), size)
        self._unread.clear()

    def _read(
        self, selector: selectors.BaseSelector, key: selectors.SelectorKey
    ) -> Iterator[tuple[bool, bytes]]:
        output = self.stdout if key.fileobj is self.stdout else self.stderr
        if data := os.read(key.fd, _SLICE_BYTES):
            yield output is self.stderr, data
        else:
            selector.unregister(output)
            self._unread.remove(output)

    def _write(self, left: memoryview) -> memoryview:
        stdin = self._stdin
        if stdin is None:
            return left[:0]
        try:
            return left[os.write(stdin.fileno(), left[:_SLICE_BYTES]) :]
        except BlockingIOError:
            return left
        except (OSError, ValueError):  # the command does not read its stdin, or we closed it
            return left[:0]
