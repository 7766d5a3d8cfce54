"""The interface of connections, which run POSIX sh text on hosts; `connect` chooses
one, tests replace it.
"""

import abc
import contextlib
import math
from functools import partial
from typing import Self

from fleet.model import Host
from fleet.remote.minimal_put import MinimalPut
from fleet.remote.output import Completed, Stream
from fleet.remote.sftp import SftpChannel
from fleet.remote.shell import put_command


class Connection(abc.ABC):
    """An open connection to one host. Used by one thread at a time, except `close` and
    `Stream.stop`.

    Methods raise LinkError if the link breaks or the time is up; a command's own
    failure is its exit code.
    """

    notes: tuple[str, ...] = ()  # sentences for the user
    banner = ""  # the SSH server's name for itself; "" if unknown

    def __init__(self, host: Host) -> None:
        self.host_name = host.name
        self._env = dict(host.env)
        self._minimal_tools = False

    @abc.abstractmethod
    def run(
        self, command: str, *, stdin: bytes = b"", timeout_s: float = 30.0
    ) -> Completed:
        """Run `command` by sh with `stdin` and wait. If the link breaks, the command
        sees end-of-file.
        """

    @abc.abstractmethod
    def stream(
        self,
        command: str,
        *,
        idle_timeout_s: float,
        limit_s: float = math.inf,
        stdin: bytes = b"",
    ) -> Stream:
        """Start `command`; write `stdin`, which stays open until `stop`. Iterate the
        stream for its lines.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """End the connection; a command still running gets end-of-file on stdin. Safe
        to call twice.
        """

    def put(
        self, data: bytes, path: str, *, mode: int = 0o600, timeout_s: float = 60.0
    ) -> Completed:
        """Write `data` to `path` atomically with sh, cat, wc, chmod and mv; exit code 0
        means success.
        """
        if self._minimal_tools:
            with self.sftp(timeout_s) as sftp:
                run = partial(self.run, timeout_s=timeout_s)
                return MinimalPut(run, sftp, data, path, mode).put()
        return self.run(put_command(path, mode, data), stdin=data, timeout_s=timeout_s)

    def use_minimal_tools(self, path: str) -> None:
        """Set PATH to `path` for all later commands, and let `put` use few tools
        (`minimal_put.sh`).
        """
        self._env["PATH"] = path
        self._minimal_tools = True

    def sftp(
        self,
        timeout_s: float,  # noqa: ARG002
    ) -> contextlib.AbstractContextManager[SftpChannel | None]:
        """Open an SFTP session for the block; yield None if files go through `cat`."""
        return contextlib.nullcontext()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
