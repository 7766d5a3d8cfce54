"""Transfers files over SFTP, where a host has it."""

import contextlib
from collections.abc import Callable
from typing import Any

from fleet.remote.output import RefusedError


class SftpChannel:
    """An open SFTP session of paramiko's `client`. limit: wraps operations, which may
    raise RefusedError.
    """

    def __init__(
        self,
        client: Any,
        limit: Callable[[], contextlib.AbstractContextManager[object]],
    ) -> None:
        self._client = client
        self._limit = limit

    def write(self, path: str, data: bytes, mode: int) -> None:
        """Create the file, which must not exist. Raises RefusedError if its size is not
        that of `data`.
        """
        with self._limit():
            with self._client.open(path, "wx") as file:
                file.chmod(mode)
                file.set_pipelined(True)  # send on without waiting for each answer
                file.write(data)
            size = self._client.stat(path).st_size
        if size != len(data):
            raise RefusedError(f"{size} of {len(data)} bytes arrived")

    def read(self, path: str) -> bytes:
        """Return the whole file."""
        with self._limit(), self._client.open(path, "rb") as file:
            return bytes(file.read())

    def rename(self, old: str, new: str) -> None:
        """Rename a file; fails if `new` exists."""
        with self._limit():
            self._client.rename(old, new)

    def remove(self, path: str) -> None:
        """Remove a file."""
        with self._limit():
            self._client.remove(path)
