"""Runs a client program as a child process; data goes through its pipes."""

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

GRACE_S = 1.0  # for a child to end after end-of-file on its stdin
_TERM_S = 2.0  # for a child to end after SIGTERM
_BEAT_S = 10.0
_LOOK_S = 0.1  # how often to see whether a silent child has ended
SLICE_BYTES = 64 << 10  # of a reading, at most
_PIPE_BYTES = 1 << 20


class Process:
    """A child process in its own session. Reading ends when the child ends. env:
    variables added to ours.
    """

    def __init__(
        self, host_name: str, command: Sequence[str], env: Mapping[str, str]
    ) -> None:
        """Start the child, with pipes for its stdin and outputs. Raises LinkError."""
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
            raise LinkError(
                f"{host_name}: cannot start {command[0]} on this machine: {error}."
            ) from error
        assert child.stdout is not None  # noqa: S101  we asked for pipes
        assert child.stderr is not None  # noqa: S101
        self._child = child
        self._lock = threading.Lock()
        self._stdin: IO[bytes] | None = child.stdin
        self.heartbeat = b""  # for the child's stdin now and then, once it is fed
        self._beat_at = time.monotonic() + _BEAT_S
        self.stdout = child.stdout
        self.stderr = child.stderr
        # the outputs whose end was not read yet
        self._unread: set[IO[bytes]] = {self.stdout, self.stderr}

    def exchange(
        self,
        stdin: bytes,
        deadline: float,
        *,
        keep_open: bool = False,
        idle_timeout_s: float = math.inf,
    ) -> Iterator[tuple[bool, bytes]]:
        """Write `stdin` while reading: yield (is_stderr, data) until the child ends.
        Close stdin once it is written, unless `keep_open`. Raises TimeoutError at
        `deadline`, or if nothing happens for `idle_timeout_s`.
        """
        unwritten = memoryview(stdin)
        with selectors.DefaultSelector() as selector:
            # each key of the selector has as its data the output to be read, or None
            # for stdin, which is to be written
            for output in self._unread:
                selector.register(output, selectors.EVENT_READ, output)
            if stdin and self._stdin:
                self._watch_stdin(selector, self._stdin)
            elif not keep_open:
                self.close_stdin()
            while self._unread and self._child.poll() is None:
                for key in self._wait_until_ready(selector, deadline, idle_timeout_s):
                    output = key.data
                    if output is not None:
                        data = self._read_or_unregister(output, selector)
                        if data:
                            yield output is self.stderr, data
                    else:
                        unwritten = self._write(unwritten)
                        if not unwritten:
                            selector.unregister(key.fileobj)
                            if not keep_open:
                                self.close_stdin()
        yield from self._read_remaining()

    def hold_more_output(self) -> None:
        """Let the child print more before it waits for us, where the system can."""
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            with contextlib.suppress(OSError):  # the user's pipes may hold no more
                fcntl.fcntl(self.stdout, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def write_if_open(self, data: bytes) -> None:
        """Write a few bytes to the child's stdin if it is open; ignore errors.
        Thread-safe.
        """
        with self._lock, contextlib.suppress(OSError):
            if self._stdin is not None:
                os.write(self._stdin.fileno(), data)

    def write_all(self, data: bytes, deadline: float) -> None:
        """Write `data` to the child's stdin and read nothing. Raises TimeoutError at
        `deadline`.
        """
        unwritten = memoryview(data)
        with selectors.DefaultSelector() as selector:
            # if another thread has closed stdin, nothing is watched until the deadline
            if self._stdin:
                self._watch_stdin(selector, self._stdin)
            while unwritten:
                events = selector.select(max(0.0, deadline - time.monotonic()))
                if not events:
                    raise TimeoutError
                unwritten = self._write(unwritten)

    def wait(self, timeout_s: float) -> int:
        """Wait for the child; return its exit code, 128+n for signal n as in sh. Raises
        TimeoutError.
        """
        try:
            code = self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        return code if code >= 0 else 128 - code

    def close_stdin(self) -> None:
        """Give the child end-of-file on stdin. Thread-safe; may be called twice."""
        with self._lock:
            stdin = self._stdin
            self._stdin = None
        if stdin is not None:
            with contextlib.suppress(OSError):
                stdin.close()

    def end(self, grace_s: float = GRACE_S) -> None:
        """End the child by end-of-file, then by signals to its group, since its own
        children may live on.
        """
        self.close_stdin()
        has_ended = self._wait_for_end(grace_s)
        if not has_ended:
            self.signal(signal.SIGTERM)
            has_ended = self._wait_for_end(_TERM_S)
        if not has_ended:
            self.signal(signal.SIGKILL)
            self._wait_for_end(math.inf)
        self.stdout.close()
        self.stderr.close()

    def _wait_for_end(self, timeout_s: float) -> bool:
        """Discard the child's output until it ends; return False if it does not in
        time.
        """
        deadline = time.monotonic() + timeout_s
        try:
            for _ in self.exchange(b"", deadline):
                pass
            self.wait(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            return False
        return True

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the child's group; readers of its output see it end.
        Thread-safe.
        """
        with self._lock:
            # while the child is not reaped, its id cannot have gone to somebody else
            if self._child.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._child.pid, number)

    def _wait_until_ready(
        self, selector: selectors.BaseSelector, deadline: float, idle_timeout_s: float
    ) -> list[selectors.SelectorKey]:
        """Wait until something can be read or written, or the child has ended. Raises
        TimeoutError. Meanwhile write the heartbeat when it is due.
        """
        idle_deadline = min(deadline, time.monotonic() + idle_timeout_s)
        while True:
            left_s = idle_deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            # a heartbeat must not come amid the input
            if not _is_stdin_watched(selector):
                self._beat_if_due()
            events = selector.select(min(left_s, _LOOK_S))
            if events or self._child.poll() is not None:
                return [key for key, _ in events]

    def _beat_if_due(self) -> None:
        """Write the heartbeat, if there is one and the last is _BEAT_S ago."""
        if self.heartbeat and time.monotonic() >= self._beat_at:
            self._beat_at = time.monotonic() + _BEAT_S
            self.write_if_open(self.heartbeat)

    def _read_or_unregister(
        self, output: IO[bytes], selector: selectors.BaseSelector
    ) -> bytes:
        """Read what an output has; at its end, return nothing and watch it no more."""
        data = os.read(output.fileno(), SLICE_BYTES)
        if not data:
            selector.unregister(output)
            self._unread.remove(output)
        return data

    def _read_remaining(self) -> Iterator[tuple[bool, bytes]]:
        """Yield (is_stderr, data) of what is still in the pipes of a child that has
        ended. Its own children may hold them open, so that their end need not come.
        """
        for output in self._unread:
            size_bytes = fcntl.ioctl(output, termios.FIONREAD, bytes(4))
            size = int.from_bytes(size_bytes, sys.byteorder)
            if size > 0:
                data = os.read(output.fileno(), size)
                yield output is self.stderr, data
        self._unread.clear()

    def _watch_stdin(self, selector: selectors.BaseSelector, stdin: IO[bytes]) -> None:
        os.set_blocking(stdin.fileno(), False)
        selector.register(stdin, selectors.EVENT_WRITE)

    def _write(self, data: memoryview) -> memoryview:
        """Write some of the data; return the rest. It is empty if the child does not
        read its stdin any more, or if stdin was closed.
        """
        stdin = self._stdin
        if stdin is None:
            return data[:0]
        try:
            written = os.write(stdin.fileno(), data[:SLICE_BYTES])
        except BlockingIOError:
            return data
        except (OSError, ValueError):
            # the command does not read its stdin, or we closed it
            return data[:0]
        return data[written:]


def _is_stdin_watched(selector: selectors.BaseSelector) -> bool:
    """Report whether the selector of `exchange` still waits to write to stdin, the one
    key that has no output as its data.
    """
    return any(key.data is None for key in selector.get_map().values())
