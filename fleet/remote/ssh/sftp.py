"""SFTP over an open session, for hosts with minimal tools."""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import paramiko
from paramiko.sftp import SFTPError
from paramiko.ssh_exception import SSHException

from fleet.remote.output import RefusedError

OPEN_TIMEOUT_S = 15.0  # a host whose SFTP does not answer counts as having none
_FAILURES = (SSHException, SFTPError, EOFError, OSError)

Limit = Callable[[], AbstractContextManager[object]]


def open_sftp(transport: paramiko.Transport, limit: Limit) -> "SftpChannel | None":
    """Open the host's SFTP; None if it has none. Raises paramiko's errors. limit: wraps every operation."""
    channel = transport.open_session(timeout=OPEN_TIMEOUT_S)
    channel.settimeout(OPEN_TIMEOUT_S)
    try:
        channel.invoke_subsystem("sftp")
        return SftpChannel(paramiko.SFTPClient(channel), limit)
    except _FAILURES:
        channel.close()
        if not transport.is_active():
            raise
        return None


class SftpChannel:
    """An open file transfer. Raises RefusedError for what the host refuses; `limit` handles a dead link."""

    def __init__(self, client: paramiko.SFTPClient, limit: Limit) -> None:
        self._client = client
        self._limit = limit

    def write(self, path: str, data: bytes, mode: int) -> None:
        """Create the file, which must not exist. Raises RefusedError if its size is not that of `data`."""
        with self._translating_errors():
            with self._client.open(path, "wx") as file:
                file.chmod(mode)
                file.set_pipelined(True)
                file.write(data)
            size = self._client.stat(path).st_size
        if size != len(data):
            raise RefusedError(f"{size} of {len(data)} bytes arrived")

    def read(self, path: str) -> bytes:
        """Return the whole file."""
        with self._translating_errors(), self._client.open(path, "rb") as file:
            return bytes(file.read())

    def rename(self, old: str, new: str) -> None:
        """Rename a file; fails if `new` exists."""
        with self._translating_errors():
            self._client.rename(old, new)

    def remove(self, path: str) -> None:
        """Remove a file."""
        with self._translating_errors():
            self._client.remove(path)

    def close(self) -> None:
        """End the transfer, not the session."""
        with contextlib.suppress(*_FAILURES):
            self._client.close()

    @contextlib.contextmanager
    def _translating_errors(self) -> Iterator[None]:
        with self._limit():
            try:
                yield
            except _FAILURES as err:
                channel = self._client.get_channel()
                if channel is None or not channel.get_transport().is_active():
                    raise
                raise RefusedError(str(err) or type(err).__name__) from err
