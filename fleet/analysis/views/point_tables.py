"""Tables of benchmarks with points, by the parameters of each: a table, a row and a
column for each value.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.reduce import ladders
from fleet.analysis.reduce.bursts import WORK_COLUMNS
from fleet.analysis.reduce.cells import split_parameters_by_axis
from fleet.analysis.views.benchmark_tables import (
    PointTable,
    PointTables,
    describe_bursts,
)
from fleet.model import (
    SHIPPED,
    Benchmark,
    Descriptions,
    Parameter,
    View,
    relation_sort_key,
)

_LINE = 64  # bytes
_KNEE = 1.5  # times the idle time
_RATE_SUFFIX = "_mbps"  # of the names of parameters that are rates


class _Relations(Parameter):
    __slots__ = ()

    def sort_key(self, value: Any) -> Any:
        return relation_sort_key(value)


_RELATION: Parameter = _Relations("relation", "word")
_POINT = Parameter("point", "name")
# how None and other values of a parameter sort, as the two cannot be compared
_NONE_FIRST, _VALUE, _NONE_LAST = range(3)
Key = tuple[Any, ...]  # the values of some parameters
Cells = dict[Key, dict[Key, float]]  # the numbers of a table by row, then by column


@dataclass(frozen=True, slots=True)
class _Axes:
    """The parameters whose values choose a table, a row of it and a column of it. A key
    of one of these is the tuple of its parameters' values.
    """

    tables: list[Parameter]
    rows: list[Parameter]
    columns: list[Parameter]


@dataclass(frozen=True, slots=True)
class _Grid:
    """The numbers of one table. rows, columns: the keys of both, in order. labels: the
    titles of the columns.

    other_work: what other threads did meanwhile, one or two Cells, or none: their rate
    in GB/s, or the least and the most that one of them did.
    """

    rows: list[Key]
    columns: list[Key]
    labels: list[str]
    numbers: Cells
    other_work: list[Cells]

    def get_number(self, row: Key, label: str) -> float | None:
        """Return a row's number in the column with this label, if any."""
        if label not in self.labels:
            return None
        column = self.columns[self.labels.index(label)]
        return self.numbers[row].get(column)


@dataclass(frozen=True, slots=True)
class _DerivedColumn:
    """A column computed from a row's numbers."""

    title: str
    format_cell: Callable[[_Grid, Key], str]


def tabulate_points(
    pairs: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> PointTables:
    """Return tables of one benchmark and variant, by its parameters. Each number is a
    median of pairs.
    """
    benchmark = descriptions[str(pairs["benchmark"].iloc[0])]
    axes = _choose_axes(benchmark, pairs)
    # columns that say what other threads did meanwhile
    other_work_columns = _list_other_work_columns(pairs)
    tables = _tabulate_keys(pairs, benchmark, axes, other_work_columns)
    legend = [f"{benchmark.heading}, median of pairs"]
    legend += _explain_axis_parameters(pairs, [*axes.rows, *axes.columns])
    has_other_work = len(other_work_columns) > 0
    notes = [
        describe_bursts(pairs),
        *_list_notes(benchmark, has_other_work=has_other_work),
    ]
    has_false_sharing = any(_FALSE_SHARING.title in table.titles for table in tables)
    if has_false_sharing:
        notes.append(f"{_FALSE_SHARING.title}: what false sharing costs")
    return PointTables(
        name=f"{benchmark.name}/{pairs['variant'].iloc[0]}",
        legend="; ".join(legend),
        tables=tables,
        note="; ".join(notes),
    )


def _tabulate_keys(
    pairs: pd.DataFrame,
    benchmark: Benchmark,
    axes: _Axes,
    other_work_columns: Sequence[str],
) -> list[PointTable]:
    """Return a table for each table key. A key is a tuple of values of parameters. A
    table key has those of `axes.tables`: (4,), if each number of threads has a table.

    other_work_columns: the columns of `pairs` that say what other threads did. They
    give each table further cells, which stand below its numbers.
    """
    numbers_by_table = _compute_cells(pairs, "median_ns", axes)
    work_by_table = [_compute_cells(pairs, name, axes) for name in other_work_columns]
    tables = []
    for table_key in _sort_keys(numbers_by_table, axes.tables):
        numbers = numbers_by_table[table_key]
        other_work = [by_table[table_key] for by_table in work_by_table]
        grid = _lay_out_grid(numbers, other_work, axes)
        title = _describe_table(pairs, table_key, axes.tables)
        tables.append(_tabulate_grid(title, grid, benchmark, axes.rows))
    return tables


def _choose_axes(benchmark: Benchmark, pairs: pd.DataFrame) -> _Axes:
    """Choose the parameters whose values make tables, rows and columns. Where no
    parameter makes columns, the relations of pairs do; else each relation has tables of
    its own.

    A benchmark without a parameter of rows has a row per point.
    """
    tables, rows, columns = split_parameters_by_axis(benchmark, pairs)
    if columns:
        tables = [_RELATION, *tables]
    else:
        columns = [_RELATION]
    return _Axes([*tables], rows or [_POINT], columns)


def _list_other_work_columns(pairs: pd.DataFrame) -> list[str]:
    """List the columns that say what other threads did, if they have numbers."""
    present = [name for name in WORK_COLUMNS if name in pairs]
    return [name for name in present if pairs[name].notna().any()]


def _lay_out_grid(numbers: Cells, other_work: list[Cells], axes: _Axes) -> _Grid:
    """Return the grid of one table, without columns that have no number. numbers: by
    the key of the row, then by the key of the column. other_work: the same of what
    other threads did. axes: the parameters that these keys have values of.
    """
    columns_with_numbers = {column for row in numbers.values() for column in row}
    columns = _sort_keys(columns_with_numbers, axes.columns)
    return _Grid(
        rows=_sort_keys(numbers, axes.rows),
        columns=columns,
        labels=[_format_key(column, axes.columns) for column in columns],
        numbers=numbers,
        other_work=other_work,
    )


def _describe_table(pairs: pd.DataFrame, key: Key, parameters: list[Parameter]) -> str:
    """Name a table by its parameters' values, without numbers that all tables share."""
    words = []
    for parameter, value in zip(parameters, key, strict=True):
        if parameter.type == "word":
            words.append(parameter.words.get(value) or str(value))
        elif pairs[parameter.name].nunique() > 1:
            name = _name_parameter(parameter)
            words.append(f"{name} {_format_parameter(parameter, value)}")
    return ", ".join(words)


def _tabulate_grid(
    title: str, grid: _Grid, benchmark: Benchmark, row_parameters: list[Parameter]
) -> PointTable:
    """Return a table of the numbers, with derived columns behind them and, below each
    row, what other threads did meanwhile.
    """
    derived = _choose_derived_columns(benchmark, grid)
    lines = []
    for row in grid.rows:
        name = _format_key(row, row_parameters)
        numbers = _format_numbers(grid, row, benchmark)
        derived_numbers = [column.format_cell(grid, row) for column in derived]
        lines.append((name, *numbers, *derived_numbers))
        if grid.other_work:
            work = [_format_other_work(grid, row, column) for column in grid.columns]
            empty = [""] * len(derived)
            lines.append(("", *work, *empty))
    row_title = ", ".join(map(_name_parameter, row_parameters))
    derived_titles = [column.title for column in derived]
    titles = (row_title, *grid.labels, *derived_titles)
    return PointTable(title, titles, lines)


def _name_parameter(parameter: Parameter) -> str:
    return parameter.name.removesuffix("_bytes")


def _format_numbers(grid: _Grid, row: Key, benchmark: Benchmark) -> list[str]:
    """Format a row's number in each column; "-" where there is none."""
    numbers = grid.numbers[row]
    texts = []
    for column in grid.columns:
        ns = numbers.get(column)
        if ns is None:
            texts.append("-")
        else:
            texts.append(text.format_value(benchmark, ns))
    return texts


def _choose_derived_columns(benchmark: Benchmark, grid: _Grid) -> list[_DerivedColumn]:
    """Choose the columns that are computed from the numbers of a row and stand behind
    them. The ratio and the boundary compare memory that threads share with memory of
    their own. The knee is the rate of other threads from which a row is much slower.
    False sharing compares threads that write `words` of one line with threads that have
    a line of their `own`.
    """
    if benchmark.view is View.BLOCKS:
        return [_RATIO, _BOUNDARY]
    if benchmark.other_unit == "byte" and grid.other_work:
        return [_KNEE_COLUMN]
    if "words" in grid.labels and "own" in grid.labels:
        return [_FALSE_SHARING]
    return []


def _format_false_sharing(grid: _Grid, row: Key) -> str:
    """Format the cost of words of one line relative to a line each."""
    own = grid.get_number(row, "own")
    words = grid.get_number(row, "words")
    return f"{words / own:.1f}" if own and words else "-"


def _format_shared_ratio(grid: _Grid, row: Key) -> str:
    """Format the cost of shared blocks relative to own memory."""
    own = grid.get_number(row, "own")
    shared = grid.get_number(row, "shared")
    if own is None or shared is None:
        return "-"
    return f"{shared / own:.2f}"


def _format_boundary(grid: _Grid, row: Key) -> str:
    """Format in ns what the end of a block costs: (shared - own) * lines of a block.

    Two threads write alternate blocks of one stretch of memory. Hardware fetches lines
    beyond the end of a block, which are the other thread's. So a line takes longer,
    `shared`, than in memory of a thread's own, `own`. A thread comes to one such end in
    each block, so it costs what all lines of the block together take longer.

    row: its key is the size of its blocks in bytes.
    """
    own_ns_per_line = grid.get_number(row, "own")
    shared_ns_per_line = grid.get_number(row, "shared")
    if own_ns_per_line is None or shared_ns_per_line is None:
        return "-"
    block_bytes, *_ = row
    lines_of_block = block_bytes / _LINE
    boundary_ns = (shared_ns_per_line - own_ns_per_line) * lines_of_block
    return f"{round(boundary_ns, 1) + 0.0:.1f}"  # no -0.0


def _format_knee(grid: _Grid, row: Key) -> str:
    """Format the knee: the rate of other threads, in GB/s, at which a row takes _KNEE
    times as long as without them. Between two measured rates, the time is taken to rise
    in a straight line.

    Return "not reached" if no measured rate slows the row so much. Return "-" if
    nothing was measured without other threads, or if the row was measured only without
    them.
    """
    # Often just one row of the grid, such as "idle", is measured without other threads.
    # So its time is what all rows are held against.
    idle_rate, idle_ns = _find_lowest_rate(grid)
    was_measured_idle = idle_rate == 0
    if not was_measured_idle:
        return "-"
    limit_ns = _KNEE * idle_ns
    rate, ns = idle_rate, idle_ns
    for next_rate, next_ns in _iter_rates(grid, row):
        if ns < limit_ns <= next_ns:
            # how far along the straight line from one point to the next the limit is
            part = (limit_ns - ns) / (next_ns - ns)
            return f"{rate + part * (next_rate - rate):.1f}"
        rate, ns = next_rate, next_ns
    highest_rate = rate
    was_measured_only_idle = highest_rate == 0
    return "-" if was_measured_only_idle else "not reached"


def _iter_rates(grid: _Grid, row: Key) -> Iterator[tuple[float, float]]:
    """Yield the rate of other threads in GB/s and the row's time in ns, column by
    column, which is from the lowest rate that was asked for to the highest.
    """
    rates = grid.other_work[-1][row]
    numbers = grid.numbers[row]
    for column in grid.columns:
        if column in numbers:
            yield rates[column], numbers[column]


def _find_lowest_rate(grid: _Grid) -> tuple[float, float]:
    """Return the lowest rate of other threads in all rows, 0 without other threads, and
    the time in ns at it.
    """
    points = list[tuple[float, float]]()
    for row in grid.rows:
        points += _iter_rates(grid, row)
    return min(points)


_FALSE_SHARING = _DerivedColumn("words/own", _format_false_sharing)
_RATIO = _DerivedColumn("ratio", _format_shared_ratio)
_BOUNDARY = _DerivedColumn("boundary", _format_boundary)
_KNEE_COLUMN = _DerivedColumn("knee", _format_knee)


def _format_other_work(grid: _Grid, row: Key, column: Key) -> str:
    """Format what other threads did: the least and the most, or one rate; "-" if
    unknown.
    """
    decimals = 1
    if len(grid.other_work) > 1:
        decimals = 2
    texts = []
    for cells in grid.other_work:
        value = cells[row].get(column)
        if value is not None:
            texts.append(f"{value:.{decimals}f}")
    return "-".join(texts) or "-"


def _list_notes(benchmark: Benchmark, *, has_other_work: bool) -> Iterator[str]:
    """Yield the notes below the tables. has_other_work: below each line of numbers
    stands a line on what other threads did meanwhile.
    """
    unit = benchmark.unit
    if benchmark.other_unit == "byte":
        yield "below each: GB/s of all other threads in the same samples"
        yield f"knee: where a {unit} takes {_KNEE:g} times what it does without them"
    elif benchmark.other_unit:
        units = f"{benchmark.other_unit}s of another thread in a {unit}"
        yield f"below each: the fewest and the most {units}"
    elif has_other_work:
        yield (
            "below each: what the threads that did the least and the most did, as"
            " shares of the mean"
        )
    if benchmark.view is View.BLOCKS:
        # A line takes `shared` ns where two threads write alternate blocks, `own` ns in
        # memory of one thread alone. `_format_boundary` computes it.
        yield "boundary: what each end of a block costs, (shared - own) times its lines"


def _compute_cells(pairs: pd.DataFrame, number: str, axes: _Axes) -> dict[Key, Cells]:
    """Return the cells of each table by its key: medians of the column `number`."""
    cells_by_table: dict[Key, Cells] = {}
    for values in text.to_records(_compute_medians(pairs, number, axes)):
        table = _take_key(values, axes.tables)
        row = _take_key(values, axes.rows)
        column = _take_key(values, axes.columns)
        cells = cells_by_table.setdefault(table, {})
        cells_of_row = cells.setdefault(row, {})
        cells_of_row[column] = values[number]
    return cells_by_table


def _compute_medians(pairs: pd.DataFrame, number: str, axes: _Axes) -> pd.DataFrame:
    parameters = [*axes.tables, *axes.rows, *axes.columns]
    names = [parameter.name for parameter in parameters]
    groups = pairs.groupby(names, sort=False, dropna=False, observed=True)
    return groups[number].median().reset_index()


def _take_key(values: Mapping[str, Any], parameters: list[Parameter]) -> Key:
    """Return the values of these parameters."""
    return tuple(values[parameter.name] for parameter in parameters)


def _sort_keys(keys: Iterable[Key], parameters: Sequence[Parameter]) -> list[Key]:
    """Sort keys by the value of the first parameter, then of the next, each in the
    order of its parameter. A key has a value for each parameter.

    None comes last if the parameter has a word for it, such as "full" (`none` of the
    parameter), else first.
    """

    def compute_place(key: Key) -> list[tuple[Any, ...]]:
        """Return a tuple for each value of a key."""
        places: list[tuple[Any, ...]] = []
        for parameter, value in zip(parameters, key, strict=True):
            if value is not None:
                # the sort keys of `mix` and `mix-75` are equal: the shorter comes first
                length = len(str(value))
                places.append((_VALUE, parameter.sort_key(value), length))
            elif parameter.none:  # its word for None
                places.append((_NONE_LAST,))
            else:
                places.append((_NONE_FIRST,))
        return places

    return sorted(keys, key=compute_place)


def _format_key(key: Key, parameters: Sequence[Parameter]) -> str:
    """Format a key as the name of its row or column; "all" if it is empty."""
    texts = []
    for parameter, value in zip(parameters, key, strict=True):
        texts.append(_format_parameter(parameter, value))
    return " ".join(filter(None, texts)) or "all"


def _format_parameter(parameter: Parameter, value: Any) -> str:
    """Format the value of a parameter: "64K" bytes, "2" threads, "5" GB/s, or a word;
    None as the parameter's word for it. A rate is stored in MB/s.
    """
    if value is None:
        return parameter.none or ""
    if parameter.type == "bytes":
        return ladders.format_size(int(value))
    if parameter.name.endswith(_RATE_SUFFIX):
        value = value / 1000  # GB/s
    return f"{value:g}" if parameter.type == "count" else str(value)


def _explain_axis_parameters(
    pairs: pd.DataFrame, parameters: Sequence[Parameter]
) -> Iterator[str]:
    """Yield a text on each parameter of rows or columns that needs one: "columns: what
    the CPUs share", "columns: load, GB/s each", or the meanings of its words.
    """
    for parameter in parameters:
        # Such as "full", for a load without a limit. Of the parameters of rows and
        # columns, only rates have such a word so far: the parameter is a rate.
        has_word_for_missing = bool(parameter.none)
        if parameter is _RELATION:
            yield "columns: what the CPUs share"
        elif has_word_for_missing:
            # "load_mbps" -> "load, GB/s each"
            title = parameter.name.replace(_RATE_SUFFIX, ", GB/s each")
            yield f"columns: {title}"
        elif meanings := _explain_words(parameter, pairs[parameter.name]):
            yield ", ".join(meanings)


def _explain_words(parameter: Parameter, values: "pd.Series[Any]") -> list[str]:
    """Explain the words of a parameter that occur in these values: `mix` as such, or
    before a dash as in `mix-75`.
    """
    present = {str(value).partition("-")[0] for value in values}
    return [
        f"{word}: {meaning}"
        for word, meaning in parameter.words.items()
        if word in present
    ]
