"""Check where a report or card may be written: never over a file that is neither."""

from contextlib import suppress
from pathlib import Path

from fleet.errors import UsageError

GENERATOR, CARD = "fleet report", "fleet card"
CARDS = (".svg", ".png")
_SUFFIXES = ("", ".html", ".htm", *CARDS)
_MARKS = (f'<meta name="generator" content="{GENERATOR} '.encode(), CARD.encode())
_HEAD = 2048  # bytes; the mark stands at the top of every report


def check(path: Path, *, force: bool = False) -> None:
    """Raise UsageError if nothing may be written to `path`.

    Unless `force`, only reports and cards are replaced.
    """
    if path.is_dir():
        raise UsageError(f"{path}: is a directory; name a file, such as {path / 'report.html'}.")
    if path.suffix not in _SUFFIXES:
        raise UsageError(
            f"{path}: is no page (.html), card (.png, .svg) or site (a folder, with a / behind)."
        )
    if path.exists() and not path.is_file():  # to replace a device would break it for all
        raise UsageError(f"{path}: is a device, a FIFO or a socket; name a file with --output.")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: there is no directory {path.parent}; create it, or name another file.")
    if path.exists() and not force:
        with suppress(OSError), path.open("rb") as file:
            head = file.read(_HEAD)
            if any(mark in head for mark in _MARKS):
                return
        raise UsageError(
            f"{path}: exists and is not a report of fleet; it was not changed. "
            f"Name another file, or replace it with --force."
        )
