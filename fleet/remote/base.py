"""What the connections of `ssh`, `openssh` and `local` share: putting a file, minimal tools, `with`."""

import abc
import contextlib
from typing import Self

from fleet.model import Host
from fleet.remote import minimal_put
from fleet.remote.connection import Completed
from fleet.remote.minimal_put import Sftp
from fleet.remote.shell import put_command


class BaseConnection(abc.ABC):
    """An open connection to a host that can run a command; see Connection."""

    notes: tuple[str, ...] = ()
    banner = ""

    def __init__(self, host: Host) -> None:
        self.host_name = host.name
        self._env = dict(host.env)
        self._minimal_tools = False

    @abc.abstractmethod
    def run(self, command: str, *, stdin: bytes = b"", timeout_s: float = 30.0) -> Completed:
        """See Connection.run."""

    @abc.abstractmethod
    def close(self) -> None:
        """See Connection.close."""

    def put(self, data: bytes, path: str, *, mode: int = 0o600, timeout_s: float = 60.0) -> Completed:
        """See Connection.put."""
        if self._minimal_tools:
            return minimal_put.put(self, data, path, mode, timeout_s)
        return self.run(put_command(path, mode, len(data)), stdin=data, timeout_s=timeout_s)

    def use_minimal_tools(self, path: str) -> None:
        """See Connection.use_minimal_tools."""
        self._env["PATH"] = path
        self._minimal_tools = True

    def sftp(self, timeout_s: float) -> contextlib.AbstractContextManager[Sftp | None]:  # noqa: ARG002
        """None: files go through `cat`."""
        return contextlib.nullcontext()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
