"""What every connection to a host can do, as POSIX sh text; `connect` chooses one, tests replace it."""

import abc
import contextlib
import math
import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from fleet.model import Host
from fleet.remote.output import Completed, RefusedError
from fleet.remote.shell import assign_variables, posix_cksum, put_command
from fleet.remote.stream import Stream

if TYPE_CHECKING:
    from fleet.remote.ssh.sftp import SftpChannel


class Connection(abc.ABC):
    """An open connection to one host. Used by one thread at a time, except `close` and `Stream.stop`.

    Methods raise LinkError if the link breaks or the time is up. A command's own failure raises nothing:
    see its exit code. notes: sentences for the user. banner: the SSH server's name for itself; "" if
    unknown.
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
        """Start `command`, feed it `stdin`, which stays open until `stop`, and yield its lines."""

    @abc.abstractmethod
    def close(self) -> None:
        """End the connection; a command still running gets end-of-file on stdin. Safe to call twice."""

    def put(self, data: bytes, path: str, *, mode: int = 0o600, timeout_s: float = 60.0) -> Completed:
        """Write `data` to `path` atomically with sh, cat, wc, chmod and mv; exit code 0 means success."""
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


_NO_PROGRAM = 127
_NOT_THERE = 95
_COPIED = 96


@dataclass(slots=True)
class MinimalPut:
    """One file to put on a host."""

    _run: Callable[..., Completed]
    _sftp: "SftpChannel | None"
    _data: bytes
    _path: str
    _mode: int
    _new: str = field(init=False)

    def __post_init__(self) -> None:
        self._new = f"{self._path}.{os.urandom(8).hex()}"

    def put(self) -> Completed:
        """Put the file. The exit code is 0 only if all of it arrived; otherwise stderr has the reason."""
        if self._is_there():
            return Completed(0, b"", b"")
        sent = self._send()
        if sent.exit_code != 0:
            return sent
        if not self._has_arrived(sent, self._new):
            return self._remove_and_fail(
                self._new, "it did not arrive whole (its bytes were read back and compared)"
            )
        placed = self._run_step("place")
        if placed.exit_code == _COPIED and not self._has_arrived(placed, self._path):
            return self._remove_and_fail(self._path, "its copy is not whole")
        if placed.exit_code in (0, _COPIED):
            return Completed(0, b"", b"")
        return self._rename_by_sftp(placed)

    def _is_there(self) -> bool:
        """Report whether the same file is already there and is ours. Anything else there is removed."""
        path, old = shlex.quote(self._path), self._run_step("is_there")
        if old.exit_code == _NOT_THERE:
            return False
        if old.exit_code == 0 and old.stdout == self._data:
            return self._run(f"[ -x {path} ] || chmod {self._mode:o} {path}").exit_code == 0
        self._remove(self._path)
        return False

    def _run_step(self, step: str, stdin: bytes = b"") -> Completed:
        """Run a function of `minimal_put.sh`."""
        settings = {
            "NEW": self._new,
            "TO": self._path,
            "MODE": f"{self._mode:o}",
            "SIZE": str(len(self._data)),
        }
        text = Path(__file__).with_name("minimal_put.sh").read_text(encoding="utf-8")
        return self._run(f"{assign_variables(settings)}\n{text}\n{step}", stdin=stdin)

    def _send(self) -> Completed:
        if self._sftp is not None:
            try:
                self._sftp.write(self._new, self._data, self._mode)
            except RefusedError:
                self._remove(self._new)
            else:
                return self._run(f"cksum {shlex.quote(self._new)}; exit 0")
        sent = self._run_step("receive", self._data)
        if sent.exit_code != _NO_PROGRAM:
            return sent
        return Completed(1, b"", sent.stderr + b"There is no SFTP, and cat and chmod would have to be there.")

    def _has_arrived(self, sums: Completed, path: str) -> bool:
        """Report whether the host's `cksum` of the file, or its content, matches what was sent."""
        if sums.stdout.split()[:2] == posix_cksum(self._data).encode().split():
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

    def _remove_and_fail(self, path: str, why: str) -> Completed:
        self._remove(path)
        return Completed(1, b"", why.encode())

    def _remove(self, path: str) -> None:
        if self._run(f"rm -f {shlex.quote(path)}").exit_code != 0 and self._sftp is not None:
            try:
                self._sftp.remove(path)
            except RefusedError:
                return
