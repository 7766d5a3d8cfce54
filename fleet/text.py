"""Text for people, escaped where it leaves: `printable` for terminals and files, `as_json` for JSON. Pure."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

LABEL_KEY = r"[A-Za-z0-9][A-Za-z0-9._-]*"
SECRET_LENGTH = 4
LONGEST_QUOTED = 60
LINES_QUOTED, LINE_QUOTED = 12, 500  # of what a host printed, and characters of each
LAST_COLUMN = 20  # characters, wide enough to wrap sentences in
_MAYBE_UNPRINTABLE = re.compile(r"[^\x20-\x7e\n]")


def printable(text: str, kept: str = "\n") -> str:
    """Safe for a terminal: control characters become visible escapes; newlines, or those `kept`, stay."""
    if not _MAYBE_UNPRINTABLE.search(text):
        return text
    return "".join(c if c in kept or c.isprintable() else ascii(c)[1:-1] for c in text)


def one_line(text: str) -> str:
    """The same with newlines escaped, where one could pass for a line of ours."""
    return printable(text).replace("\n", "\\n")


def hidden(text: str, secrets: Iterable[str]) -> str:
    """The text without these values, if of SECRET_LENGTH or more: shorter ones are parts of words."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SECRET_LENGTH:
            text = text.replace(secret, "…")
    return text


def as_json(value: Any, default: Callable[[Any], Any] | None = None) -> str:
    """JSON for programs, safe on a terminal: what is unprintable is escaped. default: as of `json.dumps`."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=default)
    return _MAYBE_UNPRINTABLE.sub(lambda found: _escaped(found[0]), text)


def _escaped(sign: str) -> str:
    return sign if sign.isprintable() else json.dumps(sign)[1:-1].replace("\x7f", "\\u007f")


@cache
def console_class() -> "type[Console]":
    """The console of rich for text of any source: what it prints is escaped, but for its own codes."""
    from rich.console import Console  # noqa: PLC0415
    from rich.segment import Segment  # noqa: PLC0415

    class EscapingConsole(Console):
        def render(self, *what: Any, **how: Any) -> Iterator[Segment]:
            for part in super().render(*what, **how):
                yield part if part.control else Segment(printable(part.text), part.style)

    return EscapingConsole


def decoding_words(err: Exception, root: str = "") -> str:
    """A complaint of msgspec in a line, key first: "ticks[1]: expected int >= 0". root: what has no key."""
    what, _, path = str(err).replace("`", "").partition(" - at $")
    where = f"{root}{path}".lstrip(".")
    what = f"{what[:1].lower()}{what[1:200]}"
    return one_line(f"{where}: {what}" if where else what)


def quoted(text: str) -> str:
    """A word of the user's in quotes, cut where it is long."""
    return repr(text if len(text) <= LONGEST_QUOTED else f"{text[: LONGEST_QUOTED - 3]}...")


def last_lines(output: bytes) -> str:
    """Return the end of what a command printed, where the cause is; indented for a message."""
    lines = output.decode("utf-8", "replace").strip().splitlines()[-LINES_QUOTED:]
    return "\n      ".join(line[:LINE_QUOTED] for line in lines) or "(no output)"


def counted(count: int, what: str) -> str:
    """Write "1 host", "2 hosts", "1,200 hosts"."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def table(
    titles: Sequence[str],
    rows: Iterable[Sequence[str]],
    right: Collection[int] = (),
    *,
    width: int | None = None,
    drop: Sequence[str] = (),
) -> str:
    """Lay out columns two spaces apart, those in `right` right-aligned, cells escaped, no trailing spaces.

    drop: titles of columns to leave out, the first one first, until the table is no wider than `width`. Of a
    last column that is text, LAST_COLUMN characters are enough, since `fitted` wraps it.
    """
    lines = [list(titles), *(_cells(row) for row in rows)]
    aligned = [column in right for column in range(len(titles))]
    for title in drop:
        if width is None or _width(lines, last_is_text=not aligned[-1]) <= width:
            break
        at = lines[0].index(title)
        for cells in (aligned, *lines):
            del cells[at]  # type: ignore[attr-defined]
    right = {column for column, is_right in enumerate(aligned) if is_right}
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _cells(row: Sequence[str]) -> list[str]:
    plain = "".join(row)
    return list(row if one_line(plain) == plain else map(one_line, row))


def _width(lines: Sequence[Sequence[str]], *, last_is_text: bool) -> int:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    if last_is_text:
        widths[-1] = min(widths[-1], LAST_COLUMN)
    return sum(widths) + 2 * (len(widths) - 1)


def nearest(word: str, known: Iterable[str]) -> str:
    """End a sentence about an unknown word: "; did you mean 'port'?", or "." if no known word is similar."""
    import difflib  # noqa: PLC0415  only a mistake needs it

    close = difflib.get_close_matches(word, list(known), n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(repr(name) for name in close)}?" if close else "."
