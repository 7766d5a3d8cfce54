"""Shows on a terminal that a command is at work, once it has been silent for long."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

SILENT_S = 2.0
_EVERY_S = 1.0
_CLEAR = "\r\x1b[K"  # the line


@contextmanager
def show_elapsed(words: str) -> Iterator[None]:
    """While the block runs, show `words` and the time in a line of the terminal that is
    gone at the end; nothing in the first SILENT_S, and nothing on a pipe.
    """
    # stderr is None where the program was started with it closed
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    # of the stream that would escape its moves
    terminal = getattr(sys.stderr, "below", sys.stderr)
    ended = threading.Event()

    def show() -> None:
        began = time.monotonic()
        wait_s = SILENT_S
        while not ended.wait(wait_s):
            elapsed_s = time.monotonic() - began
            terminal.write(f"{_CLEAR}{words}: {elapsed_s:.0f} s")
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
