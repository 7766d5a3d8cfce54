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
from fleet.remote.base import BaseConnection
from fleet.remote.connection import Completed
from fleet.remote.output import Whole
from fleet.remote.process import Process
from fleet.remote.process_stream import ProcessStream

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

    def stream(self, command: str, *, idle_timeout_s: float, limit_s: float = math.inf) -> "LocalStream":
        """See Connection.stream."""
        return LocalStream(self, self._start(command), idle_timeout_s, limit_s)

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


class LocalStream(ProcessStream):
    """A running local command; see Stream."""

    def __init__(
        self, connection: LocalConnection, process: Process, idle_timeout_s: float, limit_s: float
    ) -> None:
        super().__init__(connection.host_name, process, idle_timeout_s, limit_s)
        self._connection = connection

    def __iter__(self) -> Iterator[bytes]:
        try:
            for source, data in self._process.listen(self._idle_timeout_s, self._deadline):
                if source is self._process.stdout:
                    yield from self._lines.feed(data)
                else:
                    self._tail.feed(data)
            self.exit_code = self._process.wait(self._idle_timeout_s)
        except LinkError:
            self._given_up = True
            raise
        except TimeoutError:
            raise LinkError(f"{self._host_name}: the command {self._too_late()}.") from None
        finally:
            self.stderr = self._tail.bytes()
        self._connection._raise_if_closed()
        yield from self._lines.rest()

    def _end(self, *, given_up: bool) -> None:
        self._process.end(_GIVEN_UP_GRACE_S if given_up else _STOP_GRACE_S)
        self._connection._forget(self._process)
