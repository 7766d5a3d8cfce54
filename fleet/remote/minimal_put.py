"""Writes a file to a host that may lack common tools, over SFTP if it has that."""

import contextlib
import os
import shlex
from collections.abc import Callable
from pathlib import Path

from fleet.remote.output import Completed, RefusedError
from fleet.remote.sftp import SftpChannel
from fleet.remote.shell import assign_variables, posix_cksum

# exit codes of minimal_put.sh
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
        """Prepare to write `data` to the host's file `path`.

        run: runs a command there. sftp: None if the host has no SFTP.
        """
        self._run = run
        self._sftp = sftp
        self._data = data
        self._path = path
        self._mode = mode
        # the file as it arrives, before it is renamed to `path`
        self._new = f"{path}.{os.urandom(8).hex()}"

    def put(self) -> Completed:
        """Put the file. The exit code is 0 only if all of it arrived; otherwise stderr
        has the reason.
        """
        if self._is_in_place_else_remove():
            return Completed(0, b"", b"")
        sent = self._send_and_cksum()
        if sent.exit_code != 0:
            return sent
        return self._move_into_place(sent)

    def _is_in_place_else_remove(self) -> bool:
        """Report whether an identical file of ours is already there and can be run.
        Remove any other file there.
        """
        old = self._run_step("is_there")  # prints the file if our user owns it
        if old.exit_code == _NOT_THERE:
            return False
        if old.exit_code == 0 and old.stdout == self._data:
            path = shlex.quote(self._path)
            made_executable = self._run(f"[ -x {path} ] || chmod {self._mode:o} {path}")
            return made_executable.exit_code == 0
        self._remove(self._path)
        return False

    def _run_step(self, step: str, stdin: bytes = b"") -> Completed:
        """Run a function of `minimal_put.sh`, such as "receive"."""
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
        """Write the new file by SFTP, else through the shell. Return the last command
        that this took. Its stdout has the file's checksum and size if the host has
        `cksum`. Otherwise its stdout is empty, and `_has_arrived` reads the file back.
        """
        if self._sftp is not None:
            try:
                self._sftp.write(self._new, self._data, self._mode)
            except RefusedError:
                self._remove(self._new)
            else:
                return self._run(f"cksum {shlex.quote(self._new)}; exit 0")
        sent = self._run_step("receive", self._data)  # which runs cksum, too
        if sent.exit_code != _NO_PROGRAM:
            return sent
        # An SFTP that refused the file counts as none. The caller does not know the
        # exit codes of minimal_put.sh, so it gets 1.
        advice = b"There is no SFTP, and cat and chmod would have to be there."
        return Completed(1, b"", sent.stderr + advice)

    def _has_arrived(self, cksum: Completed, path: str) -> bool:
        """Report whether the file on the host is what was sent. cksum: a command whose
        stdout may have the file's checksum and size. If they do not match, the file
        itself is read back and compared.
        """
        expected_checksum_and_size = posix_cksum(self._data).encode().split()
        if cksum.stdout.split()[:2] == expected_checksum_and_size:
            return True
        read_back = self._run(f"cat {shlex.quote(path)}")
        if read_back.exit_code == 0:
            return read_back.stdout == self._data
        if self._sftp is None:
            return False
        try:
            return self._sftp.read(path) == self._data
        except RefusedError:
            return False

    def _move_into_place(self, sent: Completed) -> Completed:
        """Rename the sent file, or else copy it, if it arrived whole: by the shell, or
        else by SFTP. Remove it on failure. sent: from `_send_and_cksum`.
        """
        if not self._has_arrived(sent, self._new):
            self._remove(self._new)
            why = b"it did not arrive whole (its bytes were read back and compared)"
            return Completed(1, b"", why)
        placed = self._run_step("place")
        if placed.exit_code == 0:
            return Completed(0, b"", b"")
        if placed.exit_code == _COPIED:  # and the step has removed `_new`
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
