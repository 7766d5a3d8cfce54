"""The interface of connections, which run POSIX sh text on hosts; `connect` chooses
one, tests replace it.
"""

import abc
import contextlib
import math
import os
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Self

from fleet.model import Host
from fleet.remote.output import Completed, RefusedError, Stream
from fleet.remote.shell import assign_variables, posix_cksum, put_command


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
    ) -> contextlib.AbstractContextManager["SftpChannel | None"]:
        """Open an SFTP session for the block; yield None if files go through `cat`."""
        return contextlib.nullcontext()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
                file.set_pipelined(True)
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


_NO_PROGRAM = 127
_NOT_THERE = 95
_COPIED = 96


class MinimalPut:
    """One file to write, over SFTP if possible, to a host that may lack common
    tools.
    """

    def __init__(
        self,
        run: Callable[..., Completed],
        sftp: SftpChannel | None,
        data: bytes,
        path: str,
        mode: int,
    ) -> None:
        self._run = run
        self._sftp = sftp
        self._data = data
        self._path = path
        self._mode = mode
        self._new = f"{path}.{os.urandom(8).hex()}"

    def put(self) -> Completed:
        """Put the file. The exit code is 0 only if all of it arrived; otherwise stderr
        has the reason.
        """
        if self._keep_or_remove():
            return Completed(0, b"", b"")
        sent = self._send_and_cksum()
        if sent.exit_code != 0:
            return sent
        return self._move_into_place(sent)

    def _keep_or_remove(self) -> bool:
        """Report whether our own identical file is already there. Remove anything else
        there.
        """
        old = self._run_step("is_there")
        if old.exit_code == _NOT_THERE:
            return False
        if old.exit_code == 0 and old.stdout == self._data:
            path = shlex.quote(self._path)
            made_executable = self._run(f"[ -x {path} ] || chmod {self._mode:o} {path}")
            return made_executable.exit_code == 0
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
        functions = Path(__file__).with_name("minimal_put.sh").read_text("utf-8")
        script = f"{assign_variables(settings)}\n{functions}\n{step}"
        return self._run(script, stdin=stdin)

    def _send_and_cksum(self) -> Completed:
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
        advice = b"There is no SFTP, and cat and chmod would have to be there."
        return Completed(1, b"", sent.stderr + advice)

    def _has_arrived(self, sums: Completed, path: str) -> bool:
        """Report whether the host's `cksum` of the file, or its content, matches what
        was sent.
        """
        expected = posix_cksum(self._data).encode().split()
        if sums.stdout.split()[:2] == expected:
            return True
        back = self._run(f"cat {shlex.quote(path)}")
        if back.exit_code == 0:
            return back.stdout == self._data
        if self._sftp is None:
            return False
        try:
            return self._sftp.read(path) == self._data
        except RefusedError:
            return False

    def _move_into_place(self, sent: Completed) -> Completed:
        """Rename the sent file, or else copy it, if it arrived whole. Remove it on
        failure.
        """
        if not self._has_arrived(sent, self._new):
            self._remove(self._new)
            why = b"it did not arrive whole (its bytes were read back and compared)"
            return Completed(1, b"", why)
        placed = self._run_step("place")
        if placed.exit_code == 0:
            return Completed(0, b"", b"")
        if placed.exit_code == _COPIED:
            if self._has_arrived(placed, self._path):
                return Completed(0, b"", b"")
            self._remove(self._path)
            return Completed(1, b"", b"its copy is not whole")
        if self._sftp is not None:
            try:
                self._sftp.rename(self._new, self._path)
                return Completed(0, b"", b"")
            except RefusedError as err:
                why = placed.stderr + f"SFTP cannot rename it: {err}".encode()
                placed = Completed(1, b"", why)
        self._remove(self._new)
        return placed

    def _remove(self, path: str) -> None:
        removed = self._run(f"rm -f {shlex.quote(path)}")
        if removed.exit_code != 0 and self._sftp is not None:
            with contextlib.suppress(RefusedError):
                self._sftp.remove(path)
