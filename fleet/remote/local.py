"""The controller itself as a host (`via: local`): the Connection protocol over subprocess.

Same contract as `ssh`: whole process groups are ended by their id, output is bounded, stdout and stderr are
read together.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import IO, Self

from fleet.errors import LinkError
from fleet.model import Host
from fleet.remote import minimal_put
from fleet.remote.connection import Completed
from fleet.remote.output import Lines, Tail, Whole
from fleet.remote.shell import put_command

_SLICE_BYTES = 64 << 10
_STOP_GRACE_S = 5.0  # for a command to end after end-of-file on its stdin
_GIVEN_UP_GRACE_S = 0.5  # the same for one that has already misbehaved


class LocalConnection:
    """A connection to this machine. Commands run as the same user, each in its own session."""

    notes: tuple[str, ...] = ()

    def __init__(self, host: Host) -> None:
        self.host_name = host.name
        self._env = dict(host.env)
        self._minimal_tools = False
        self._lock = threading.Lock()
        self._closed = False
        self._running: list[_Process] = []

    def run(self, command: str, *, stdin: bytes = b"", timeout_s: float = 30.0) -> Completed:
        """See Connection.run. On a timeout the command's whole process group is killed."""
        process = self._start(command)
        stdout, stderr = Whole(self.host_name), Whole(self.host_name)
        deadline = time.monotonic() + timeout_s
        try:
            for source, data in process.talk(stdin, deadline):
                (stdout if source is process.stdout else stderr).feed(data)
            exit_code = process.wait(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            raise LinkError(
                f"{self.host_name}: a local command did not end within {timeout_s:g} s and was killed."
            ) from None
        finally:
            process.kill()
            self._forget(process)
        self._raise_if_closed()
        return Completed(exit_code, stdout.bytes(), stderr.bytes())

    def stream(self, command: str, *, idle_timeout_s: float) -> "LocalStream":
        """See Connection.stream."""
        return LocalStream(self, self._start(command), idle_timeout_s)

    def put(self, data: bytes, path: str, *, mode: int = 0o600, timeout_s: float = 60.0) -> Completed:
        """See Connection.put."""
        if self._minimal_tools:
            return minimal_put.put(self, data, path, mode, timeout_s)
        return self.run(put_command(path, mode, len(data)), stdin=data, timeout_s=timeout_s)

    def use_minimal_tools(self, path: str) -> None:
        """See Connection.use_minimal_tools."""
        self._env["PATH"] = path
        self._minimal_tools = True

    def sftp(self, timeout_s: float) -> contextlib.AbstractContextManager[None]:  # noqa: ARG002
        """There is none to ourselves."""
        return contextlib.nullcontext()

    def close(self) -> None:
        """See Connection.close."""
        with self._lock:
            self._closed = True
            running = list(self._running)
        for process in running:
            process.close_stdin()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self, command: str) -> "_Process":
        self._raise_if_closed()
        process = _Process(self.host_name, command, self._env)
        with self._lock:
            self._running.append(process)
        return process

    def _forget(self, process: "_Process") -> None:
        with self._lock:
            self._running.remove(process)

    def _raise_if_closed(self) -> None:
        if self._closed:
            raise LinkError(f"{self.host_name}: the connection has been closed on our side.")


class LocalStream:
    """A running local command; see Stream."""

    def __init__(self, connection: LocalConnection, process: "_Process", idle_timeout_s: float) -> None:
        self.exit_code: int | None = None
        self.stderr = b""
        self._connection = connection
        self._process = process
        self._idle_timeout_s = idle_timeout_s
        self._lines = Lines(connection.host_name)
        self._tail = Tail()
        self._over = False
        self._given_up = False

    def __iter__(self) -> Iterator[bytes]:
        try:
            for source, data in self._process.listen(self._idle_timeout_s):
                if source is self._process.stdout:
                    yield from self._lines.feed(data)
                else:
                    self._tail.feed(data)
            self.exit_code = self._process.wait(self._idle_timeout_s)
        except LinkError:
            self._given_up = True
            raise
        except TimeoutError:
            self._given_up = True
            raise LinkError(
                f"{self._connection.host_name}: the command printed nothing for {self._idle_timeout_s:g} s."
            ) from None
        finally:
            self.stderr = self._tail.bytes()
        self._connection._raise_if_closed()
        yield from self._lines.rest()

    def stop(self) -> None:
        """See Stream.stop."""
        self._process.close_stdin()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._over:
            return
        self._over = True
        self.stop()
        self._process.end(_GIVEN_UP_GRACE_S if kind or self._given_up else _STOP_GRACE_S)
        self._connection._forget(self._process)


class _Process:
    """A child in a session of its own, with pipes; knows how to talk with it without a deadlock."""

    def __init__(self, host_name: str, command: str, env: dict[str, str]) -> None:
        try:
            child = subprocess.Popen(
                ["/bin/sh", "-c", command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **env},
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise LinkError(f"{host_name}: cannot start /bin/sh on this machine: {error}.") from error
        assert child.stdin is not None  # noqa: S101  we asked for three pipes
        assert child.stdout is not None  # noqa: S101
        assert child.stderr is not None  # noqa: S101
        self._child = child
        self._lock = threading.Lock()
        self._stdin: IO[bytes] | None = child.stdin
        self.stdout, self.stderr = child.stdout, child.stderr
        self._unread: set[IO[bytes]] = {self.stdout, self.stderr}  # those that have not ended yet

    def talk(self, stdin: bytes, deadline: float) -> Iterator[tuple[IO[bytes], bytes]]:
        """Feed `stdin`, then close it, and yield (stdout or stderr, data) to the end of both.

        Raises TimeoutError at `deadline` (time.monotonic).
        """
        left = memoryview(stdin)
        with selectors.DefaultSelector() as selector:
            self._register(selector)
            if left and self._stdin:
                os.set_blocking(self._stdin.fileno(), False)
                selector.register(self._stdin, selectors.EVENT_WRITE)
            else:
                self.close_stdin()
            while self._unread:
                events = selector.select(max(0.0, deadline - time.monotonic()))
                if not events:
                    raise TimeoutError
                for key, _ in events:
                    if key.fileobj is self.stdout or key.fileobj is self.stderr:
                        yield from self._read(selector, key)
                    elif not (left := self._write(left)):
                        selector.unregister(key.fileobj)
                        self.close_stdin()

    def listen(self, idle_timeout_s: float) -> Iterator[tuple[IO[bytes], bytes]]:
        """Yield (stdout or stderr, data) to the end of both; TimeoutError after such a silence."""
        with selectors.DefaultSelector() as selector:
            self._register(selector)
            while self._unread:
                events = selector.select(idle_timeout_s)
                if not events:
                    raise TimeoutError
                for key, _ in events:
                    yield from self._read(selector, key)

    def wait(self, timeout_s: float) -> int:
        """Wait for the child and return its exit code as sh reports it: 128+n for signal n."""
        try:
            code = self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        return code if code >= 0 else 128 - code

    def close_stdin(self) -> None:
        """Give the child end-of-file on stdin. Safe to call twice, from any thread."""
        with self._lock:
            stdin, self._stdin = self._stdin, None
        if stdin is not None:
            with contextlib.suppress(OSError):
                stdin.close()

    def end(self, grace_s: float) -> None:
        """Wait a little for the child, its output thrown away, then kill what is left of its group."""
        with contextlib.suppress(TimeoutError):
            deadline = time.monotonic() + grace_s
            if not self.stdout.closed:
                for _ in self.talk(b"", deadline):
                    pass
            self.wait(max(0.0, deadline - time.monotonic()))
        self.kill()

    def kill(self) -> None:
        """Kill the child's group unless the child has been reaped, and give the pipes back."""
        if self._child.poll() is None:
            # Not reaped yet, so the id cannot have gone to somebody else.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()
        self.close_stdin()
        self.stdout.close()
        self.stderr.close()

    def _register(self, selector: selectors.BaseSelector) -> None:
        for output in self._unread:
            selector.register(output, selectors.EVENT_READ)

    def _read(
        self, selector: selectors.BaseSelector, key: selectors.SelectorKey
    ) -> Iterator[tuple[IO[bytes], bytes]]:
        output = self.stdout if key.fileobj is self.stdout else self.stderr
        if data := os.read(key.fd, _SLICE_BYTES):
            yield output, data
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
