"""The small change of everything that is shown: tables, percentages, safe text, plain values for JSON."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from io import StringIO
from textwrap import fill
from typing import TYPE_CHECKING, Any

from fleet.model import Relation
from fleet.text import one_line

if TYPE_CHECKING:
    import pandas as pd

_NO_LIMIT = 100_000
# What two CPUs of a relation share, for who meets the words for the first time.
SHARED = {
    Relation.SELF: "the same CPU",
    Relation.SMT: "siblings of one core",
    Relation.CLUSTER: "one cluster",
    Relation.LLC: "one last-level cache",
    Relation.DIE: "one die",
    Relation.NODE: "one NUMA node",
    Relation.PACKAGE: "one socket",
    Relation.SYSTEM: "across sockets",
    Relation.UNKNOWN: "not known",
}


def table(titles: Sequence[str], rows: Iterable[Sequence[str]], right: set[int]) -> str:
    """Columns two spaces apart, those in `right` aligned right."""
    lines = [titles, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(titles))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def fitted(text: str, width: int | None) -> str:
    """Sentences wider than the terminal broken between words; tables and colours stay as they are."""
    return text if width is None else "\n".join(_fitted(line, width) for line in text.split("\n"))


def _fitted(line: str, width: int) -> str:
    said = line.lstrip(" ")
    if len(line) <= width or "  " in said or "\x1b" in line:
        return line
    indent = " " * (len(line) - len(said))
    further = f"{indent}  "
    return fill(said, width, initial_indent=indent, subsequent_indent=further, break_on_hyphens=False)


def safe(text: str) -> str:
    """What a host or a person wrote, in one line that cannot move a terminal's cursor or change colours."""
    return one_line(text)


def within(share: float | None) -> str:
    """An interval's half width as ±1.2%, or - where there is none."""
    return "-" if is_none(share) else f"±{share:.1%}"


def percent(share: float | None) -> str:
    """A share as people read it: 0.004 -> "0.4%", 0.31 -> "31%", 0 -> "-"."""
    if is_none(share) or not share:
        return "-"
    return f"{share:.1%}" if share < 0.0995 else f"{share:.0%}"


def labels_text(labels: Mapping[str, str]) -> str:
    """Labels as people type them: "kernel=6.12 rack=b2"."""
    return safe(" ".join(f"{key}={value}" for key, value in labels.items()))


def pair_text(row: Mapping[str, Any]) -> str:
    """The CPUs of a row of `pairs`: 3-40, or the one whose clock was read, 3."""
    ping, pong = row["ping_cpu"], row["pong_cpu"]
    return f"{ping}-{pong}" if ping != pong else str(ping)


def in_words(relations: Iterable[str]) -> str:
    """What each of these relations is, each once: "smt: siblings of one core; package: ..."."""
    return "; ".join(f"{name}: {SHARED[Relation(name)]}" for name in dict.fromkeys(relations))


def is_none(value: float | None) -> bool:
    """Whether a cell says nothing: None or NaN."""
    return value is None or value != value  # noqa: PLR0124  (NaN)


def rendered(text: Any, width: int | None, *, colour: bool) -> str:
    """Turn a rich Text into characters, with colour codes if asked for."""
    from rich.console import Console  # noqa: PLC0415

    page = StringIO()
    console = Console(
        file=page,
        force_terminal=colour,
        color_system="auto" if colour else None,
        width=width or _NO_LIMIT,
        highlight=False,
        legacy_windows=False,
    )
    console.print(text, end="", soft_wrap=True)
    return page.getvalue()


def records(frame: "pd.DataFrame") -> list[dict[str, Any]]:
    """Rows as dictionaries of plain values: arrays as lists, null as None."""
    import pandas as pd  # noqa: PLC0415

    def told(value: Any) -> Any:
        if not pd.api.types.is_scalar(value):
            return value.tolist() if hasattr(value, "tolist") else value
        return None if pd.isna(value) else value

    columns = {str(name): [told(value) for value in column.tolist()] for name, column in frame.items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def json_value(value: Any) -> Any:
    """What json cannot write by itself: moments, numpy's numbers and arrays."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return value.tolist()
