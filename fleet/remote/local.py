"""The controller itself as a host (`via: local`): the Connection protocol over subprocess.

Same contract as `ssh`: whole process groups are ended by their id, output is bounded, stdout and stderr are
read together.
"""

import math
import threading
import time
from collections.abc import Iterator

from fleet.errors import LinkError
from fleet.model import Host
from fleet.remote import shell
from fleet.remote.base import BaseConnection
from fleet.remote.command_stream import CommandStream
from fleet.remote.connection import Completed
from fleet.remote.output import Whole
from fleet.remote.process import BY_FORCE, Process

_STOP_GRACE_S = 5.0  # for a command to end after end-of-file on its stdin
_GIVEN_UP_GRACE_S = 0.5  # the same for one that has already misbehaved


class LocalConnection(BaseConnection):
    """A connection to this machine. Commands run as the same user, each in its own session."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._lock = threading.Lock()
        self._closed = False
        self._running: list[Process] = []

    def run(self, command: str, *, stdin: bytes = b"", timeout_s: float = 30.0) -> Completed:
        """See Connection.run. On a timeout the command's whole process group is killed."""
        process = self._start(command)
        stdout, stderr = Whole(self.host_name), Whole(self.host_name)
        deadline = time.monotonic() + timeout_s
        try:
            for is_stderr, data in process.talk(stdin, deadline):
                (stderr if is_stderr else stdout).feed(data)
            exit_code = process.wait(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            raise LinkError(
                f"{self.host_name}: a local command did not end within {timeout_s:g} s and was killed."
            ) from None
        finally:
            process.end(0.0, BY_FORCE)
            self._forget(process)
        self._raise_if_closed()
        return Completed(exit_code, stdout.bytes(), stderr.bytes())

    def stream(
        self, command: str, *, idle_timeout_s: float, limit_s: float = math.inf, stdin: bytes = b""
    ) -> "LocalStream":
        """See Connection.stream."""
        return LocalStream(self, self._start(command), idle_timeout_s, limit_s, stdin)

    def close(self) -> None:
        """See Connection.close."""
        with self._lock:
            self._closed = True
            running = list(self._running)
        for process in running:
            process.close_stdin()

    def _start(self, command: str) -> Process:
        self._raise_if_closed()
        process = Process(self.host_name, ["/bin/sh", "-c", command], self._env)
        with self._lock:
            self._running.append(process)
        return process

    def _forget(self, process: Process) -> None:
        with self._lock:
            self._running.remove(process)

    def _raise_if_closed(self) -> None:
        if self._closed:
            raise LinkError(f"{self.host_name}: the connection has been closed on our side.")


class LocalStream(CommandStream):
    """A running local command; see Stream."""

    def __init__(
        self,
        connection: LocalConnection,
        process: Process,
        idle_timeout_s: float,
        limit_s: float,
        stdin: bytes,
    ) -> None:
        super().__init__(connection.host_name, idle_timeout_s, limit_s, stdin)
        self._connection = connection
        self._process = process
        self._mark = shell.new_mark()  # which nothing prints

    def stop(self) -> None:
        """See Stream.stop."""
        self._process.close_stdin()

    def _pieces(self) -> Iterator[tuple[bool, bytes]]:
        try:
            yield from self._process.talk(
                self._stdin, self._deadline, goes_on=True, idle_timeout_s=self._idle_timeout_s
            )
            self.exit_code = self._process.wait(self._idle_timeout_s)
        except TimeoutError:
            raise self._too_late() from None
        self._connection._raise_if_closed()

    def _end(self, *, given_up: bool) -> None:
        self._process.end(_GIVEN_UP_GRACE_S if given_up else _STOP_GRACE_S, BY_FORCE)
        self._connection._forget(self._process)
