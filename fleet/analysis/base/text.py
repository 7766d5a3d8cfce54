"""Format what the views share: percentages, explanations of relations, plain values for
JSON.
"""

import json
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from io import StringIO
from textwrap import fill
from typing import TYPE_CHECKING, Any

from fleet.late import np
from fleet.model import (
    KINDS,
    SHIPPED,
    Benchmark,
    Descriptions,
    View,
    drop_node,
    is_relation,
    relation_sort_key,
)
from fleet.text import (
    LAST_COLUMN,
    as_document,
    as_json,
    console_class,
    one_line,
    printable,
)

if TYPE_CHECKING:
    import pandas as pd

_NO_LIMIT = 100_000
_BELOW = " " * 6  # what lines below a row of a table begin with
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what begins one, for a spreadsheet
# What two CPUs of a relation share, for the legends.
SHARED = {
    "self": "the same CPU",
    "smt": "siblings of one core",
    "cluster": "one cluster",
    "llc": "one last-level cache",
    "die": "one die",
    "node": "one NUMA node",
    "package": "one socket",
    "system": "across sockets",
    "unknown": "not known",
    **KINDS,
}


def wrap_to_width(text: str, width: int | None) -> str:
    """Wrap lines wider than `width` (None: none), tables in their last column; leave
    coloured lines.
    """
    if width is None:
        return text
    return "\n".join(_wrap_line(line, width) for line in text.split("\n"))


def _wrap_line(line: str, width: int) -> str:
    """Wrap a line if it is wider than `width`; of a row of a table, wrap only the last
    column. Leave coloured lines, whose codes have no width.
    """
    is_coloured = "\x1b" in line
    if len(line) <= width or is_coloured:
        return line
    words = line.lstrip(" ")
    is_row_of_table = "  " in words  # two spaces stand between columns
    if is_row_of_table:
        return _wrap_last_column(line, width)
    indent = " " * (len(line) - len(words))
    return _fill(words, width, first=indent, others=f"{indent}  ")


def _wrap_last_column(line: str, width: int) -> str:
    """Wrap the last column in its place, or below the line if there is no room."""
    start = line.rindex("  ") + 2
    other_columns = line[:start]
    last_column = line[start:]
    # LAST_COLUMN is a width, the least in which sentences can be wrapped
    has_room = start + LAST_COLUMN <= width
    if has_room:
        return _fill(last_column, width, first=other_columns, others=" " * start)
    below = _fill(last_column, width, first=_BELOW, others=_BELOW)
    return f"{other_columns.rstrip()}\n{below}"


def _fill(words: str, width: int, *, first: str, others: str) -> str:
    """Break words into lines. first, others: what the lines begin with."""
    return fill(
        words,
        width,
        initial_indent=first,
        subsequent_indent=others,
        break_on_hyphens=False,
        break_long_words=False,
    )


def is_too_wide(text: str, width: int | None) -> bool:
    """Report whether a line of the text is wider than the terminal."""
    if width is None:
        return False
    widest = max(map(len, text.splitlines()))
    return widest > width


def format_span(first: datetime, last: datetime) -> str:
    """Format two times in UTC: "2026-05-01 10:00 to 12:30", or just one if both are in
    the same minute.
    """
    begin = f"{first.astimezone(UTC):%Y-%m-%d %H:%M}"
    end = f"{last.astimezone(UTC):%Y-%m-%d %H:%M}"
    if begin == end:
        return begin
    day = begin[:10]
    return f"{begin} to {end.removeprefix(day).strip()}"


def format_half_width(share: float | None) -> str:
    """Format half the width of an interval: "±1.2%"; "-" if it is missing, "unsettled"
    beyond 100 %.
    """
    if share is None or is_none(share):
        return "-"
    if share > 1:
        return "unsettled"
    return f"±{share:.1%}"


def describe_half_widths(subject: str, middle: float, largest: float) -> str:
    """Describe several half-widths of intervals, given their median and the largest as
    shares: "half of them within ±1.2%, all within ±3.4%". subject: such as "half of
    them". A half-width above 100 % is called unsettled.
    """
    if middle > 1:
        return f"{subject} unsettled"
    others = "others unsettled"
    if largest <= 1:
        others = f"all within {format_half_width(largest)}"
    return f"{subject} within {format_half_width(middle)}, {others}"


def format_change(share: float, digits: int = 1) -> str:
    """Format a relative change: "+1.2%", or "-" if it is missing."""
    if is_none(share):
        return "-"
    return f"{share:+.{digits}%}"


def format_interval(low: float, high: float, digits: int = 1) -> str:
    """Format the interval from one change to another: "+1.0% to +2.0%", or "-" if an
    end is missing.
    """
    if is_none(low) or is_none(high):
        return "-"
    return f"{format_change(low, digits)} to {format_change(high, digits)}"


def format_share(share: float | None) -> str:
    """Format a share: 0.004 -> "0.4%", 0.31 -> "31%", 0 -> "0%"; "-" where there is
    none.
    """
    if share is None or is_none(share):
        return "-"
    # 0.0995 and more would round to "10.0%"
    needs_decimal = 0 < share < 0.0995
    if needs_decimal:
        return f"{share:.1%}"
    return f"{share:.0%}"


def format_labels(labels: Mapping[str, str], *, without: Container[str] = ()) -> str:
    """Format labels as on the command line: "kernel=6.12 rack=b2". without: keys to
    leave out.
    """
    words = [f"{key}={labels[key]}" for key in labels if key not in without]
    return one_line(" ".join(words))


def find_common_labels(every: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Find the labels that several runs have in common, with the same value. Return {}
    for a single run, whose labels are not common to anything.
    """
    if len(every) < 2:
        return {}
    first, *others = every
    common = dict(first)
    for labels in others:
        common = {
            key: value for key, value in common.items() if labels.get(key) == value
        }
    return common


def add_common_labels(table_of_runs: str, common: Mapping[str, str]) -> str:
    """Return a table of runs with a last line of the labels that all of them share, if
    any.
    """
    if not common:
        return table_of_runs
    return f"{table_of_runs}\nlabels of all: {format_labels(common)}"


def format_pair(row: Mapping[str, Any]) -> str:
    """Format a row of `pairs` as its point, if any, and its CPUs: "3-40", or "3" for a
    single CPU.
    """
    ping = row["ping_cpu"]
    pong = row["pong_cpu"]
    point = row.get("point")
    cpus = str(ping)
    if ping != pong:
        cpus = f"{ping}-{pong}"
    if not point:
        return cpus
    return f"{point} {cpus}"


def explain_relations(relations: Iterable[str]) -> str:
    """Render the legend of these relations, each word once: "smt: siblings of one core;
    package: ...".
    """
    names = {drop_node(name) for name in relations}
    distinct = filter(is_relation, names)
    places: dict[str, None] = {}  # what the CPUs share, once each, in order
    kinds: set[str] = set()  # of cores, such as P and E
    for name in sorted(distinct, key=relation_sort_key):
        # "llc P-E" -> "llc", ["P", "E"]
        place, *kinds_of_cores = re.split("[ -]", name)
        places[place] = None
        kinds.update(kinds_of_cores)
    ordered_kinds = [kind for kind in KINDS if kind in kinds]
    words = [*places, *ordered_kinds]
    return "; ".join(f"{word}: {SHARED[word]}" for word in words)


def is_rate(benchmark: Benchmark) -> bool:
    """Report whether a benchmark's numbers are shown as rates, GB/s or Gop/s, instead
    of times.
    """
    return benchmark.rate is not None


def describe_units(
    benchmarks: Iterable[str], descriptions: Descriptions = SHIPPED
) -> str:
    """Name the units of these benchmarks: "GB/s", or "cas: one-way latency in ns;
    bandwidth: GB/s".
    """
    names_by_heading: dict[str, list[str]] = {}
    for name in dict.fromkeys(benchmarks):
        heading = descriptions[name].heading
        names_by_heading.setdefault(heading, []).append(name)
    if len(names_by_heading) == 1:
        return next(iter(names_by_heading))
    parts = []
    for heading, names in names_by_heading.items():
        parts.append(f"{', '.join(names)}: {heading}")
    return "; ".join(parts)


def explain_a_and_b(
    benchmarks: Iterable[str], per: str = "run", descriptions: Descriptions = SHIPPED
) -> str:
    """Describe how a comparison's numbers A and B are computed, and their unit. per:
    run or host.
    """
    values = f"the median of their pairs, at the level of most bursts and {per}s"
    return (
        f"{describe_units(benchmarks, descriptions)}; geometric mean over {per}s of"
        f" {values}"
    )


def convert_to_shown(benchmark: Benchmark, ns: Any) -> Any:
    """Convert ns, one value or an array, to the number that is shown: ns, or a rate
    (infinite for 0 ns).
    """
    if not is_rate(benchmark):
        return ns
    with np.errstate(divide="ignore"):
        return np.float64(1) / ns


def format_value(benchmark: Benchmark, ns: float) -> str:
    """Format ns as the number that is shown for a benchmark, in ns, GB/s or Gop/s,
    without the unit.
    """
    return format_shown(benchmark, convert_to_shown(benchmark, ns))


def format_shown(benchmark: Benchmark, value: float) -> str:
    """Format a number of a benchmark that `convert_to_shown` converted. Numbers
    of matrices and of CPUs have one decimal. Others have the fewer decimals, the larger
    they are: 1.23, 45.6, 1234.
    """
    if benchmark.view in (View.MATRIX, View.CPUS):
        return f"{value:.1f}"
    if value < 10:
        return f"{value:.2f}"
    if value < 1000:
        return f"{value:.1f}"
    return f"{value:.0f}"


def format_values(
    row: Mapping[str, Any], names: Iterable[str], descriptions: Descriptions
) -> list[str]:
    """Format these columns of a row, in ns, as `format_value` does; "-" where a value
    is missing.
    """
    benchmark = descriptions[row["benchmark"]]
    texts = []
    for name in names:
        text = "-"
        if not is_none(row[name]):
            text = format_value(benchmark, row[name])
        texts.append(text)
    return texts


def convert_change(
    row: Mapping[str, Any], descriptions: Descriptions = SHIPPED
) -> tuple[float, float, float]:
    """Return a row's relative change and the low and high end of its interval: 0.1 for
    10 % more. It is the change of the rate for benchmarks that are shown as rates.
    Missing values are NaN.
    """
    ratio = _none_to_nan(row["ratio"])
    low = _none_to_nan(row["low"])
    high = _none_to_nan(row["high"])
    if is_rate(descriptions[row["benchmark"]]):
        # a rate is the inverse of a time: the ratio is inverted, and the high end of
        # the interval of times becomes the low end of that of rates
        ratio = 1 / ratio
        low, high = 1 / high, 1 / low
    return ratio - 1, low - 1, high - 1


def _none_to_nan(value: float | None) -> float:
    if value is None:
        return float("nan")
    return value


def is_none(value: float | None) -> bool:
    """Report whether a value is missing: None or NaN."""
    return value is None or value != value  # noqa: PLR0124  (NaN)


def render_rich(text: Any, width: int | None, *, colour: bool) -> str:
    """Turn a rich Text into characters, with colour codes if asked for."""
    if not colour:
        return printable(text.plain)
    page = StringIO()
    console = console_class()(
        file=page,
        force_terminal=True,
        width=width or _NO_LIMIT,
        highlight=False,
        legacy_windows=False,
    )
    console.print(text, end="", soft_wrap=True)
    return page.getvalue()


def to_records(frame: "pd.DataFrame") -> list[dict[str, Any]]:
    """Convert rows to dictionaries of plain values: arrays to lists, nulls and NaN in
    arrays to None.
    """
    columns = {str(name): _list_plain(column) for name, column in frame.items()}
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _list_plain(column: "pd.Series[Any]") -> list[Any]:
    """Return a column's plain values, None where one is missing."""
    if column.dtype == object:
        values = [_to_plain(value) for value in column]
    else:
        values = column.tolist()
    (missing,) = column.isna().to_numpy().nonzero()
    for place in missing:
        values[place] = None
    return values


def _to_plain(value: Any) -> Any:
    """Return an array as a list, a number of numpy as one of Python, and None for
    NaN.
    """
    plain = value
    if hasattr(value, "tolist"):
        plain = value.tolist()
    if isinstance(plain, list):
        return [_to_plain(item) for item in plain]
    is_nan = isinstance(plain, float) and is_none(plain)
    if is_nan:
        return None
    return plain


def format_csv(rows: "pd.DataFrame", *, header: bool = True) -> str:
    """Format rows as CSV: numbers unrounded, arrays as JSON, control characters
    escaped, formulas quoted.
    """
    import pandas as pd  # noqa: PLC0415

    columns = {name: _format_csv_column(column) for name, column in rows.items()}
    table = pd.DataFrame(columns, index=rows.index)
    return str(table.to_csv(index=False, header=header, lineterminator="\n"))


def _format_csv_column(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """Return a column as CSV shows it: texts so that no spreadsheet takes them for a
    formula, other objects as `_format_cell` writes them, and numbers as they are.
    """
    import pandas as pd  # noqa: PLC0415

    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    if pd.api.types.infer_dtype(column, skipna=True) == "string":
        texts = column.dropna().unique()
        return column.map({text: _quote_formula(text) for text in texts})
    if column.dtype == object:
        return column.map(_format_cell, na_action="ignore")
    return column


def _quote_formula(text: str) -> str:
    """Return a text on one line, which no spreadsheet takes for a formula."""
    if text.startswith(_FORMULA):
        text = f"'{text}"
    return one_line(text)


def _format_cell(value: Any) -> str:
    """Write a date or time in ISO 8601, and anything else that is not text as JSON."""
    if isinstance(value, date):
        return str(_to_json_value(value))
    return json.dumps(_to_plain(value))


def format_json(value: Any) -> str:
    """Format a value as JSON; it may hold data frames, dates, times, and numpy's
    numbers and arrays.
    """
    return as_json(value, _to_json_value)


def format_document(command: str, rows: Any) -> str:
    """Format the document that `command` prints with --json. rows: any values that
    `format_json` takes.
    """
    return as_document(command, rows, _to_json_value)


def _to_json_value(value: Any) -> Any:
    """Return what JSON has for a value that it has no type for: the text of a date or
    time, the records of a data frame, and a number or list for one of numpy's.
    """
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if hasattr(value, "columns"):  # a data frame
        return to_records(value)
    return value.tolist()


def name_benchmark(row: Mapping[Any, Any]) -> str:
    """Name the benchmark and variant of a row: "cas/cmpxchg", or "-" if the row is of
    all benchmarks.
    """
    return f"{row['benchmark']}/{row['variant']}" if row["benchmark"] else "-"


def indent_lines(text: str) -> str:
    """Indent each line by two spaces."""
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())
