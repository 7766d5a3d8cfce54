"""Puts a file on a host with minimal tools, by SFTP or `cat`; verifies it, then renames or copies it."""

import os
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING

from fleet.model.frozen import dataclass, field
from fleet.remote.output import Completed, RefusedError
from fleet.remote.shell import cksum

if TYPE_CHECKING:
    from fleet.remote.ssh.sftp import SftpChannel

_NO_PROGRAM = 127
_NOT_THERE = 95
_COPIED = 96
_HAS_CAT = f"cat </dev/null || exit {_NO_PROGRAM}"  # asked first: a redirection makes the file even so


@dataclass(slots=True)
class Sending:
    """One file being sent."""

    _run: Callable[..., Completed]
    _sftp: "SftpChannel | None"
    _data: bytes
    _path: str
    _mode: int
    _new: str = field(init=False)

    def __post_init__(self) -> None:
        self._new = f"{self._path}.{os.urandom(8).hex()}"

    def put(self) -> Completed:
        """Put the file: exit code 0 only if it is whole there; else stderr says why. LinkError passes."""
        if self._is_there():
            return Completed(0, b"", b"")
        sent = self._send()
        if sent.exit_code != 0:
            return sent
        if not self._arrived(sent, self._new):
            return self._failed(self._new, "it did not arrive whole (its bytes were read back and compared)")
        placed = self._run(_place(self._new, self._path, self._mode))
        if placed.exit_code == _COPIED and not self._arrived(placed, self._path):
            return self._failed(self._path, "its copy is not whole")
        if placed.exit_code in (0, _COPIED):
            return Completed(0, b"", b"")
        return self._rename_by_sftp(placed)

    def _is_there(self) -> bool:
        """Whether the whole file is there already, and is ours. Anything else there is removed."""
        path = shlex.quote(self._path)
        old = self._run(
            f"[ -e {path} ] || [ -L {path} ] || exit {_NOT_THERE}; "
            f"uid=$(id -u 2>/dev/null); set -- $(ls -dn {path} 2>/dev/null); "
            f'if [ -n "$uid" ] && [ $# -gt 2 ]; then [ "$3" = "$uid" ]; else [ -O {path} ]; fi '
            f"&& [ ! -L {path} ] && cat {path}"
        )
        if old.exit_code == _NOT_THERE:
            return False
        if old.exit_code == 0 and old.stdout == self._data:
            return self._run(f"[ -x {path} ] || chmod {self._mode:o} {path}").exit_code == 0
        self._remove(self._path)
        return False

    def _send(self) -> Completed:
        if self._sftp is not None:
            try:
                self._sftp.write(self._new, self._data, self._mode)
            except RefusedError:
                self._remove(self._new)
            else:
                return self._run(f"cksum {shlex.quote(self._new)}; exit 0")
        sent = self._run(_receive(self._new, self._mode, len(self._data)), stdin=self._data)
        if sent.exit_code != _NO_PROGRAM:
            return sent
        return Completed(1, b"", sent.stderr + b"There is no SFTP, and cat and chmod would have to be there.")

    def _arrived(self, sums: Completed, path: str) -> bool:
        """Whether the host's `cksum` of the file, or the file itself, is what was sent."""
        if sums.stdout.split()[:2] == cksum(self._data).encode().split():
            return True
        back = self._run(f"cat {shlex.quote(path)}")
        if back.exit_code == 0:
            return back.stdout == self._data
        try:
            return self._sftp is not None and self._sftp.read(path) == self._data
        except RefusedError:
            return False

    def _rename_by_sftp(self, failed: Completed) -> Completed:
        try:
            if self._sftp is not None:
                self._sftp.rename(self._new, self._path)
                return Completed(0, b"", b"")
        except RefusedError as err:
            failed = Completed(1, b"", failed.stderr + f"SFTP cannot rename it: {err}".encode())
        self._remove(self._new)
        return failed

    def _failed(self, path: str, why: str) -> Completed:
        self._remove(path)
        return Completed(1, b"", why.encode())

    def _remove(self, path: str) -> None:
        if self._run(f"rm -f {shlex.quote(path)}").exit_code != 0 and self._sftp is not None:
            try:
                self._sftp.remove(path)
            except RefusedError:
                return


def _receive(path: str, mode: int, size: int) -> str:
    """Write stdin to `path` and print checksum and size; by cksum an incomplete file is removed."""
    new = shlex.quote(path)
    return (
        f"{_HAS_CAT}; umask 077; set -C; "
        f"cat > {new} && chmod {mode:o} {new} || {{ code=$?; rm -f {new}; exit $code; }}; "
        f"set -- $(cksum {new} 2>/dev/null); "
        f'[ "${{2:-{size}}}" = {size} ] && echo "$1 $2" && exit 0; '
        f'rm -f {new}; echo "$2 of {size} bytes arrived" >&2; exit 1'
    )


def _place(new: str, path: str, mode: int) -> str:
    """Rename, else copy, and print the copy's checksum if the host can."""
    old, to = shlex.quote(new), shlex.quote(path)
    return (
        f"mv {old} {to} 2>/dev/null && exit 0; {_HAS_CAT}; umask 077; set -C; "
        f"cat {old} > {to} && chmod {mode:o} {to} || {{ rm -f {to}; exit 1; }}; "
        f"rm -f {old}; cksum {to} 2>/dev/null; exit {_COPIED}"
    )
