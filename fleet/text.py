"""Text for people and JSON for programs, both safe on a terminal. Pure."""

import json
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from fleet.model import InputError

if TYPE_CHECKING:
    from rich.console import Console

LABEL_KEY = r"[A-Za-z0-9][A-Za-z0-9._-]*"
SECRET_LENGTH = 4
LONGEST_QUOTED = 60
LINES_QUOTED, LINE_QUOTED = 12, 500  # of what a host printed, and characters of each
NAME_LENGTH = 24  # characters of a host's name in a table that is too wide
LAST_COLUMN = 20  # characters, wide enough to wrap sentences in
_MAYBE_UNPRINTABLE = re.compile(r"[^\x20-\x7e\n]")


def printable(text: str, kept: str = "\n") -> str:
    """Replace control characters by visible escapes, except those in `kept`."""
    if not _MAYBE_UNPRINTABLE.search(text):
        return text
    return "".join(c if c in kept or c.isprintable() else ascii(c)[1:-1] for c in text)


def one_line(text: str) -> str:
    """Replace control characters, newlines too, by visible escapes: a host's text
    cannot fake our lines.
    """
    return printable(text).replace("\n", "\\n")


def format_command(*words: str) -> str:
    """Write a command for people to paste: on one line, each word quoted for a
    shell.
    """
    return shlex.join(map(one_line, words))


def hide_secrets(text: str, secrets: Iterable[str]) -> str:
    """Replace each secret by "…". Secrets below SECRET_LENGTH characters stay: they
    occur in plain words.
    """
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SECRET_LENGTH:
            text = text.replace(secret, "…")
    return text


def as_json(value: Any, default: Callable[[Any], Any] | None = None) -> str:
    """Return indented JSON with unprintable characters escaped. default: as in
    `json.dumps`.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False, default=default)
    return _MAYBE_UNPRINTABLE.sub(_escape_for_json, text)


def _escape_for_json(match: re.Match[str]) -> str:
    character = match[0]
    if character.isprintable():
        return character
    escaped = json.dumps(character).strip('"')
    return escaped.replace("\x7f", "\\u007f")  # which json leaves as it is


def as_document(
    command: str, rows: Any, default: Callable[[Any], Any] | None = None
) -> str:
    """Return what a command prints with --json: the name of its schema, and its
    rows.
    """
    return as_json({"schema": f"fleet.{command}/1", "rows": rows}, default)


@cache
def console_class() -> "type[Console]":
    """Return a subclass of rich's Console that escapes all text but its own control
    codes. Imports rich.
    """
    from rich.console import Console  # noqa: PLC0415
    from rich.segment import Segment  # noqa: PLC0415

    class EscapingConsole(Console):
        def render(self, *arguments: Any, **options: Any) -> Iterator[Segment]:
            for part in super().render(*arguments, **options):
                if part.control:
                    yield part
                else:
                    yield Segment(printable(part.text), part.style)

    return EscapingConsole


def raise_own_bug(err: RecursionError) -> None:
    """Raise an error of a decoder again if code of ours raised it, as a __post_init__
    does: then it says nothing of the data.
    """
    traceback = err.__traceback__
    if traceback is not None and traceback.tb_next is not None:
        raise err


def describe_msgspec_error(err: Exception, key_prefix: str = "") -> str:
    """Describe an error of msgspec in one line: "Expected `int` >= 0 - at `$.ticks[1]`"
    -> "ticks[1]: expected int >= 0". key_prefix: stands before the path.
    """
    # msgspec wraps a ValueError of a __post_init__: an InputError is about the data
    cause = err.__cause__
    if cause is not None and not isinstance(cause, InputError):
        raise cause  # a bug in the __post_init__
    message = str(err).replace("`", "")
    reason, _, path = message.partition(" - at $")
    reason = f"{reason[:1].lower()}{reason[1:200]}"
    key = f"{key_prefix}{path}".lstrip(".")
    return one_line(f"{key}: {reason}" if key else reason)


def quote_short(text: str) -> str:
    """Quote a user's word, shortened to LONGEST_QUOTED characters."""
    if len(text) > LONGEST_QUOTED:
        text = f"{text[: LONGEST_QUOTED - 3]}..."
    return repr(text)


def last_lines(output: bytes) -> str:
    """Return the end of a command's output, indented to follow the first line of a
    message.
    """
    text = output.decode("utf-8", "replace").strip()
    if not text:
        return "(no output)"
    lines = text.splitlines()[-LINES_QUOTED:]
    return "\n      ".join(line[:LINE_QUOTED] for line in lines)


def format_count(count: int, noun: str) -> str:
    """Write "1 host", "2 hosts", "1,200 hosts"."""
    plural = "" if count == 1 else "s"
    return f"{count:,} {noun}{plural}"


def table(
    titles: Sequence[str],
    rows: Iterable[Sequence[str]],
    right: Collection[int] = (),
    *,
    width: int | None = None,
    drop: Sequence[str] = (),
) -> str:
    """Lay out columns two spaces apart, cells escaped; `right` has the numbers of
    right-aligned columns.

    If the table exceeds `width`, names in a column `host` are cut to NAME_LENGTH; then
    columns with the titles in `drop` are left out, in this order. Text in the last
    column may wrap, so that at most LAST_COLUMN characters of its width count.
    """
    lines: list[Sequence[str]] = [titles]
    lines += [[one_line(cell) for cell in row] for row in rows]
    cells_of_columns = list(zip(*lines, strict=True))
    columns = [
        _Column(cells, is_right=place in right)
        for place, cells in enumerate(cells_of_columns)
    ]
    if width is not None:
        columns = _fit_columns(columns, width, drop)
    adjusted_columns = [column.adjust() for column in columns]
    adjusted_lines = zip(*adjusted_columns, strict=True)
    return "\n".join("  ".join(cells).rstrip() for cells in adjusted_lines)


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of a table. cells: the title and the texts below it."""

    cells: Sequence[str]
    is_right: bool

    @property
    def title(self) -> str:
        return self.cells[0]

    @property
    def width(self) -> int:
        return max(map(len, self.cells))

    def adjust(self) -> list[str]:
        """Return the cells, all of one width."""
        width = self.width
        if self.is_right:
            return [cell.rjust(width) for cell in self.cells]
        return [cell.ljust(width) for cell in self.cells]

    def shorten_names(self) -> "_Column":
        """Return the column with names cut to NAME_LENGTH."""
        return replace(self, cells=[shorten_name(cell) for cell in self.cells])


def _fit_columns(
    columns: list[_Column], width: int, drop: Sequence[str]
) -> list[_Column]:
    """Cut the names of hosts, then leave out columns of these titles, until the table
    is no wider than `width`.
    """
    if _measure_width(columns) > width:
        columns = [
            column.shorten_names() if column.title == "host" else column
            for column in columns
        ]
    for title in drop:
        if _measure_width(columns) <= width:
            break
        columns = [column for column in columns if column.title != title]
    return columns


def shorten_name(name: str, length: int = NAME_LENGTH) -> str:
    """Cut a name that is longer than `length` characters."""
    return name if len(name) <= length else f"{name[: length - 1]}…"


def _measure_width(columns: Sequence[_Column]) -> int:
    widths = [column.width for column in columns]
    if not columns[-1].is_right:
        widths[-1] = min(widths[-1], LAST_COLUMN)
    gaps = len(columns) - 1
    return sum(widths) + 2 * gaps


def suggest_similar(word: str, known: Iterable[str]) -> str:
    """Return the end of a sentence on an unknown word: "; did you mean 'port'?", or "."
    without a match.
    """
    import difflib  # noqa: PLC0415  only a mistake needs it

    close = difflib.get_close_matches(word, list(known), n=3, cutoff=0.6)
    if not close:
        return "."
    names = " or ".join(repr(str(name)) for name in close)
    return f"; did you mean {names}?"
