"""A shell on a terminal of its own, as a person has it: keys go in, and what it shows
is read.
"""

import os
import pty
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

_DONE = "all-of-it"
# keys of an editor of lines
_TO_BEGIN = "\x01"
_TO_END = "\x05"
_CLEAR = "\x15"  # up to the beginning


class Terminal:
    """An interactive program. Nothing waits for a time: keys that come early are read
    later.
    """

    def __init__(
        self, command: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> None:
        variables = {**environment, "TERM": "xterm", "DONE": _DONE, "COLUMNS": "200"}
        self._process, self._keyboard = pty.fork()
        if self._process == 0:
            os.chdir(folder)
            os.execvpe(command[0], command, variables)
        self._unread = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self._keyboard)

    def type(self, keys: str) -> None:
        """Press these keys."""
        os.write(self._keyboard, keys.encode())

    def read_until(self, mark: str) -> str:
        """Return what is shown up to a mark; the time limit of the test bounds it."""
        while mark not in self._unread:
            self._unread += os.read(self._keyboard, 65536).decode(errors="replace")
        shown, _, self._unread = self._unread.partition(mark)
        return shown

    def edit(self, keys: str) -> str:
        """Return the line that the shell has after these keys, without running it."""
        self.type(f'{keys}{_TO_BEGIN}echo line:{_TO_END} :"$DONE":\r')
        return self.read_until(f" :{_DONE}:").rpartition("line:")[2].rstrip()

    def list_words(self, keys: str, last: str) -> str:
        """Return what is shown after these keys and two tabs, up to the word `last`;
        clear the line.
        """
        self.type(f"{keys}\t\t")
        shown = self.read_until(last)
        self.type(f"{_TO_END}{_CLEAR}")
        return shown
