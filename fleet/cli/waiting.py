"""Shows on a terminal that a command is at work, once it has been silent for long."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fleet.text import format_count

SILENT_S = 2.0
_EVERY_S = 1.0
_CLEAR = "\r\x1b[K"  # the line


@dataclass(slots=True)
class Count:
    """How many of a number of runs a command is done with, as text for a line of
    progress.
    """

    words: str
    runs: int
    done: int = 0

    def step(self) -> None:
        """Count one more run."""
        self.done += 1

    def __str__(self) -> str:
        return f"{self.words} {self.done} of {format_count(self.runs, 'run')}"


@contextmanager
def show_elapsed(progress: object) -> Iterator[None]:
    """While the block runs, show `progress` as text, such as a Count, and the time in a
    line of the terminal that is gone at the end; nothing in the first SILENT_S, and
    nothing on a pipe.
    """
    # stderr is None where the program was started with it closed
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    # Our stderr escapes control characters such as those of _CLEAR. So write to the
    # stream below it.
    terminal = getattr(sys.stderr, "below", sys.stderr)
    ended = threading.Event()

    def show() -> None:
        began = time.monotonic()
        wait_s = SILENT_S
        while not ended.wait(wait_s):
            elapsed_s = time.monotonic() - began
            terminal.write(f"{_CLEAR}{progress}: {elapsed_s:.0f} s")
            terminal.flush()
            wait_s = _EVERY_S
        terminal.write(_CLEAR)
        terminal.flush()

    thread = threading.Thread(target=show, name="waiting", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
