"""What every connection to a host can do, as POSIX sh text; `connect` chooses one, tests replace it."""

import abc
import contextlib
import math
from functools import partial
from typing import TYPE_CHECKING, Self

from fleet.model import Host
from fleet.remote.minimal_put import MinimalPut
from fleet.remote.output import Completed
from fleet.remote.shell import put_command
from fleet.remote.stream import Stream

if TYPE_CHECKING:
    from fleet.remote.ssh.sftp import SftpChannel


class Connection(abc.ABC):
    """One open connection to one host. Used by one thread at a time, except `close` and `Stream.stop`.

    Every method raises LinkError if the link breaks or the time is up. A command's own failure is not an
    exception: its exit code is returned. notes: sentences for the user about the connection, for instance a
    setting of ssh_config that is ignored. banner: the SSH server's name for itself; "" if unknown.
    """

    notes: tuple[str, ...] = ()
    banner = ""

    def __init__(self, host: Host) -> None:
        self.host_name = host.name
        self._env = dict(host.env)
        self._minimal_tools = False

    @abc.abstractmethod
    def run(self, command: str, *, stdin: bytes = b"", timeout_s: float = 30.0) -> Completed:
        """Run `command` by sh with `stdin` and wait. A broken link looks like the end of stdin to it."""

    @abc.abstractmethod
    def stream(
        self, command: str, *, idle_timeout_s: float, limit_s: float = math.inf, stdin: bytes = b""
    ) -> Stream:
        """Start `command`, feed it `stdin`, and yield its lines as they come.

        stdin stays open until `stop`.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """End the connection; a command still running gets end-of-file on stdin. Safe to call twice."""

    def put(self, data: bytes, path: str, *, mode: int = 0o600, timeout_s: float = 60.0) -> Completed:
        """Write `data` to `path` atomically; the exit code is 0 only then.

        Needs sh, cat, wc, chmod and mv there.
        """
        if self._minimal_tools:
            with self.sftp(timeout_s) as sftp:
                run = partial(self.run, timeout_s=timeout_s)
                return MinimalPut(run, sftp, data, path, mode).put()
        return self.run(put_command(path, mode, data), stdin=data, timeout_s=timeout_s)

    def use_minimal_tools(self, path: str) -> None:
        """Use only tools on `path` from now on, the PATH of every command; `put` then uses `minimal_put`."""
        self._env["PATH"] = path
        self._minimal_tools = True

    def sftp(self, timeout_s: float) -> contextlib.AbstractContextManager["SftpChannel | None"]:  # noqa: ARG002
        """Open a file transfer while the block runs; None if files go through `cat`."""
        return contextlib.nullcontext()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
