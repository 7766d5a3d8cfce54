"""Export runs and summaries in the formats of other tools, and samples as CSV."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.exchange.imports import (
    PREFIX,
    collect_cells,
    find_summary,
    list_cpus,
    make_grid,
)
from fleet.analysis.exchange.number_table import TABLE, escape_markdown
from fleet.analysis.exchange.openmetrics import read_verdicts, render_openmetrics
from fleet.analysis.exchange.tools import (
    TOOLS,
    WRITERS,
    Cells,
    Grid,
    NewCells,
    write_matrix_csv,
)
from fleet.analysis.reduce import load
from fleet.analysis.reduce.ladders import arrange_memory, lay_out_node_matrix
from fleet.analysis.reduce.load import name_benchmarks
from fleet.analysis.reduce.numbers import ALL, Only, select_numbers
from fleet.analysis.reduce.pairs import as_float64, load_pairs, reduce_run
from fleet.analysis.views.usual import describe_interval, load_usual_numbers
from fleet.errors import UsageError
from fleet.inventory.expected import ExpectedRange
from fleet.model import (
    SHIPPED,
    Benchmark,
    Descriptions,
    Pairs,
    View,
    read_descriptions,
)
from fleet.plan.benchmark_names import (
    BenchmarkName,
    parse_benchmark_names,
    select_choices,
)
from fleet.store import RunSummary
from fleet.store.runs import Root

SAMPLES = "samples"
NUMBERS = "numbers"
HWLOC = "hwloc"
OPENMETRICS = "openmetrics"
_MATRICES = (*WRITERS, HWLOC)
EXPORT_FORMATS = (*_MATRICES, SAMPLES, NUMBERS, TABLE)
VALUES = ("median", "mean", "min", "p10", "p99", "max")
SAMPLES_AT_ONCE = 20_000
_OF_OTHERS = ("other_ticks", "other_units")


def require_matrix_format(format_: str) -> None:
    """Raise UsageError unless a format writes one number a pair, which --value
    chooses.
    """
    if format_ not in _MATRICES:
        raise UsageError(
            f"--value chooses the number of a pair in a matrix; -F {format_} writes"
            " none."
        )


def export_matrix(
    root: Root,
    run_or_summary: str,
    tool: str,
    benchmark: str | None,
    value: str | None = None,
) -> str:
    """Format a matrix of pairs as a tool does. Raises UsageError.

    run_or_summary: a published run ID, or summary:NAME. tool: a key of WRITERS, or
    HWLOC. benchmark: such as `cas/llsc`. value: the statistic of a run's pairs to
    write, one of VALUES; None for the tool's own.
    """
    if not run_or_summary.startswith(PREFIX):
        usual = TOOLS.get(tool, TOOLS["csv"]).estimator
        return _export_run(root, run_or_summary, tool, benchmark, value or usual)
    return _export_summary(root, run_or_summary, tool, benchmark, value)


def _export_summary(
    root: Root, name: str, tool: str, benchmark: str | None, value: str | None
) -> str:
    """Format a summary's matrix of pairs. Raises UsageError if `benchmark` does not
    name one of its matrices, and for options that are only for runs.

    A choice, such as "cas/llsc", names the benchmark and variant of a matrix.
    """
    if tool == HWLOC:
        raise UsageError(
            f"{name} is a summary, and hwloc orders CPUs by what they share:"
            " name a run."
        )
    if value is not None:
        raise UsageError(
            f"{name} is a summary: it has one number a pair, so leave out --value."
        )
    rows = find_summary(root, name)
    choice_of_row = name_benchmarks(rows)
    choices = choice_of_row.unique()
    # SHIPPED describes this version's benchmarks; others count as without a matrix
    matrices = [choice for choice in choices if SHIPPED[choice].view is View.MATRIX]
    matrix = _find_named_choice(matrices, benchmark, name)
    grid = make_grid(rows[choice_of_row == matrix])
    return WRITERS[tool](grid)


def export_rows(
    root: Root,
    runs: Sequence[RunSummary],
    format_: str,
    benchmark: str | None,
    on_run: Callable[[], None] = lambda: None,
) -> Iterator[str]:
    """Yield the samples or the numbers of several runs as CSV, in pieces. Raises
    UsageError if they have none. on_run: called after the samples of each run.
    """
    run_ids = [run.run_id for run in runs]
    if format_ == SAMPLES:
        yield from export_samples(root, run_ids, benchmark, on_run)
        return
    numbers = select_numbers(root, runs, Only(benchmark))
    if numbers.empty:
        raise UsageError(
            "these runs have no numbers to export; `fleet runs` lists what each has."
        )
    facts = load.load_runs(root, run_id=run_ids)
    with_facts = load.add_run_columns(numbers, facts)
    yield text.format_csv(with_facts)


def export_samples(
    root: Root,
    run_ids: Sequence[str],
    benchmark: str | None,
    on_run: Callable[[], None] = lambda: None,
) -> Iterator[str]:
    """Yield the samples of several runs as one CSV, a row per sample, in pieces.

    benchmark: see `parse_benchmark_names`; runs without this benchmark are left out.
    on_run: called after each run, to show progress. Raises UsageError if no run has
    samples of the benchmark.
    """
    has_written = False
    for run_id in run_ids:
        choices: Sequence[str | None] = [None]  # read all
        if benchmark is not None:
            measured = _list_measured_choices(root, run_id)
            choices = select_choices(benchmark, measured)
        for rows in _read_samples(root, run_id, choices):
            samples = rows
            # a choice, such as "chase/mov", may have several settings; `benchmark` may
            # name only one of them, as "chase random" does
            if benchmark is not None:
                samples = rows[load.is_chosen_benchmark(rows, benchmark)]
            if len(samples):
                yield text.format_csv(samples, header=not has_written)
                has_written = True
        on_run()
    if not has_written:
        missing = f"--benchmark {benchmark}: " if benchmark else ""
        raise UsageError(
            f"{missing}these runs have no samples to export; `fleet runs` lists what"
            " each run has."
        )


def _export_run(
    root: Root, run_id: str, tool: str, benchmark: str | None, value: str
) -> str:
    """Format a run's matrix of pairs or, for the tool `csv`, of NUMA nodes. Raises
    UsageError unless `benchmark` names exactly one matrix of the run. value: such as
    "median", the statistic to write.
    """
    run = load.load_run(root, run_id)
    cpus = load.load_cpus(root, run_id=run_id)
    descriptions = read_descriptions(run["hello"])
    column = f"{value}_ns"
    node_cells = dict[str, pd.DataFrame]()
    if tool == "csv":
        node_cells = _load_node_cells(root, run_id, cpus, descriptions)
    pair_matrices = _list_pair_matrices(root, run_id, descriptions)
    matrices = [*pair_matrices, *node_cells]
    matrix = _find_named_choice(matrices, benchmark, run_id)
    if matrix in node_cells:
        name, _, _ = matrix.partition("/")
        return _write_node_csv(node_cells[matrix], column, descriptions[name])
    are_ordered = _has_ordered_pairs(run)
    grid = _load_grid(root, run_id, matrix, column, ordered=are_ordered)
    if tool == HWLOC:
        return _write_hwloc(grid, cpus)
    return WRITERS[tool](grid)


def _has_ordered_pairs(run: Mapping[str, Any]) -> bool:
    """Report whether a run measured each pair in both orders."""
    pairs = run["plan"].get("pairs") or {}
    return bool(pairs.get("which") == Pairs.ORDERED)


def _load_node_cells(
    root: Root, run_id: str, cpus: pd.DataFrame, descriptions: Descriptions
) -> dict[str, pd.DataFrame]:
    """Load the cells of a run's matrices of NUMA nodes, by benchmark, variant and
    setting, such as "chase/mov random"; {} if the run has no such matrix. A row of a
    frame is a cell of the matrix.
    """
    choices = _list_measured_choices(root, run_id)
    names = dict.fromkeys(choice.partition("/")[0] for choice in choices)
    node_benchmarks = [name for name in names if descriptions[name].node]
    if not node_benchmarks:
        return {}
    pairs = load_pairs(root, run_id=run_id, benchmark=node_benchmarks)
    memory = arrange_memory(as_float64(pairs), cpus, descriptions)
    cells = memory.nodes
    # the name of each row's matrix
    matrices = name_benchmarks(cells) + " " + cells["setting"].astype(str)
    cells_by_matrix = {}
    for matrix, cells_of_matrix in cells.groupby(matrices, sort=False):
        cells_by_matrix[str(matrix)] = cells_of_matrix
    return cells_by_matrix


def _write_node_csv(cells: pd.DataFrame, column: str, benchmark: Benchmark) -> str:
    """Write CSV with a row per CPU node and a column per memory node."""
    rows, columns, ns_by_ends = lay_out_node_matrix(cells, column)
    values = {}
    for ends, ns in ns_by_ends.items():
        values[ends] = text.convert_to_shown(benchmark, ns)
    return write_matrix_csv("node", rows, columns, values)


def _load_grid(
    root: Root, run_id: str, matrix: str, column: str, *, ordered: bool
) -> Grid:
    """Load the matrix of pairs that `_list_pair_matrices` names `matrix`, such as
    "cas/llsc n0". Raises UsageError without samples.

    column: the number of each pair, such as "median_ns". ordered: whether the pair (1,
    0) was measured as well as (0, 1). If so, the matrix has all cells but those on the
    diagonal, else only the cells below the diagonal.
    """
    choice, node = _split_matrix_name(matrix)
    all_pairs = reduce_run(root, run_id, choice, ordered=ordered)
    pairs = _select_pairs_by_node(all_pairs, node)
    if pairs.empty:
        raise UsageError(f"{run_id}: has no samples of {matrix} to export.")
    cells = collect_cells(pairs, column)
    if not ordered:
        # put each pair into the row of its higher CPU
        cells = _move_below_diagonal(cells)
    benchmark = pairs["benchmark"].iloc[0]
    return Grid(list_cpus(cells), cells, benchmark)


def _move_below_diagonal(cells: Cells) -> NewCells:
    """Return cells above the diagonal, (lower CPU, higher CPU), with their CPUs
    swapped.
    """
    swapped = NewCells()
    for (lower, higher), ns in cells.items():
        swapped[higher, lower] = ns
    return swapped


def _split_matrix_name(matrix: str) -> tuple[str, str]:
    """Split the name of a matrix into choice and node: "cas/llsc n0" -> ("cas/llsc",
    "0"). The node is "" if the lines are not placed.
    """
    choice, _, node = matrix.partition(" n")
    return choice, node


def _select_pairs_by_node(pairs: pd.DataFrame, node: str) -> pd.DataFrame:
    """Select the pairs whose lines lie on a requested node; without one, those whose
    lines are not placed.
    """
    if pairs.empty:
        return pairs
    if node:
        return pairs[pairs["memory_node"] == int(node)]
    return pairs[pairs["memory_node"].isna()]


def _write_hwloc(grid: Grid, cpus: pd.DataFrame) -> str:
    """Write a matrix in ps for `hwloc-annotate in.xml out.xml -- all -- distances
    FILE`.

    The format is that of the manual page of hwloc-annotate: a name; the kind, in which
    6 is FROM_USER | MEANS_LATENCY of hwloc/distances.h; the number of CPUs; a line per
    CPU; a line per cell, row by row. cpus: from `load_cpus`. Raises UsageError for a
    missing pair.
    """
    numbers = _number_pus(cpus)
    name = f"name=fleet-{grid.benchmark}-ps"
    kind = "6"
    count = str(len(grid.cpus))
    lines = [name, kind, count]
    lines += [f"PU:{numbers[cpu]}" for cpu in grid.cpus]
    lines += [str(ps) for ps in _iter_picoseconds(grid)]
    return "\n".join([*lines, ""])


def _iter_picoseconds(grid: Grid) -> Iterator[int]:
    """Yield the latency of each cell in ps, row by row; 0 on the diagonal. Raises
    UsageError for a missing pair.
    """
    latencies = dict(grid.fill_both_halves())
    for cpu in grid.cpus:
        latencies[cpu, cpu] = 0.0
    for row, column in itertools.product(grid.cpus, repeat=2):
        if (row, column) not in latencies:
            raise UsageError(
                "hwloc takes a number for every pair of CPUs, and"
                f" {row}-{column} has none."
            )
        yield round(latencies[row, column] * 1000)


def _number_pus(cpus: pd.DataFrame) -> dict[int, int]:
    """Number the CPUs that are online as hwloc numbers its PUs: in the order of its
    tree of packages, NUMA nodes and so on. hwloc sorts nodes by their lowest CPU, not
    by their numbers. Return the numbers by CPU.
    """
    is_online = cpus["online"].astype(bool)
    online = cpus[is_online]
    levels = ["package", "node", "die", "llc", "cluster", "core", "cpu"]
    cpus_by_node = online.groupby("node", dropna=False)["cpu"]
    lowest_cpu_of_node = cpus_by_node.transform("min")  # for each row
    tree = online[levels].assign(node=lowest_cpu_of_node)
    # CPUs whose groups are unknown are alike at that level; the levels below order them
    in_order = tree.fillna(0).sort_values(levels)
    numbers = {}
    for number, cpu in enumerate(in_order["cpu"]):
        numbers[int(cpu)] = number
    return numbers


def _list_measured_choices(root: Root, run_id: str) -> list[str]:
    """List each `benchmark/variant` that has stored samples, regardless of what the
    host planned.
    """
    columns = ["benchmark", "variant"]
    choices = dict[str, None]()
    for part in load.load_samples_in_parts(root, run_id, columns=columns):
        choices |= dict.fromkeys(name_benchmarks(part))
    return list(choices)


def _list_pair_matrices(
    root: Root, run_id: str, descriptions: Descriptions
) -> list[str]:
    """List the matrices of pairs with samples by name: benchmark and variant, such as
    "cas/llsc". If the pairs' cache lines were placed on a NUMA node, the node follows,
    as in "cas/llsc n0".
    """
    names = dict[str, None]()  # in the order in which the samples come
    columns = ["benchmark", "variant", "memory_node"]
    for part in load.load_samples_in_parts(root, run_id, columns=columns):
        views = load.get_views(part["benchmark"], descriptions)
        matrices = part[views == View.MATRIX].drop_duplicates()
        choices = name_benchmarks(matrices)  # one for each row of `matrices`
        for choice, node in zip(choices, matrices["memory_node"], strict=True):
            name = choice
            if not pd.isna(node):
                name = f"{choice} n{int(node)}"
            names[name] = None
    return list(names)


def _find_named_choice(choices: Sequence[str], benchmark: str | None, what: str) -> str:
    """Return the only one of `choices`, such as "cas/llsc", that `benchmark` names, or
    the only choice there is if `benchmark` is None. Raises UsageError if there is no
    such choice, or several. what: the run or summary, for the message.
    """
    if not choices:
        raise UsageError(
            f"{what}: has no pairs of CPUs to export. `fleet show` lists what it has."
        )
    matching = choices
    hint = ""  # the end of the message
    if benchmark:
        names = parse_benchmark_names(benchmark)
        matching = [choice for choice in choices if _is_named(choice, names)]
        hint = f", not {benchmark!r}; `fleet show --csv` has the points of others"
    if len(matching) != 1:
        raise UsageError(
            f"{what}: --benchmark must name one of {', '.join(choices)}{hint}."
        )
    return matching[0]


def _is_named(matrix: str, names: Iterable[BenchmarkName]) -> bool:
    """Report whether a matrix has one of these names. The name of a matrix, "cas/llsc"
    or "cas/llsc n0", consists of a choice and, if its lines are placed, a node; as a
    point, it is "cas/llsc" or "cas/llsc.n0".
    """
    choice, _ = _split_matrix_name(matrix)
    point = matrix.replace(" ", ".")
    return any(
        name.matches_choice(choice) and name.matches_point(point) for name in names
    )


def _read_samples(
    root: Root, run_id: str, choices: Sequence[str | None]
) -> Iterator[pd.DataFrame]:
    """Yield the samples of a run, in frames of at most SAMPLES_AT_ONCE rows. choices:
    the benchmarks and variants to read, such as "cas/llsc"; [None] for all.
    """
    facts = load.load_runs(root, run_id=run_id)
    run = load.load_run(root, run_id)
    descriptions = read_descriptions(run["hello"])
    for choice in choices:
        parts = load.load_samples_in_parts(root, run_id, benchmark=choice)
        for bursts in parts:
            for samples in _cut_into_samples(bursts, descriptions):
                yield load.add_run_columns(samples, facts)


def _cut_into_samples(
    bursts: pd.DataFrame, descriptions: Descriptions
) -> Iterator[pd.DataFrame]:
    """Yield frames with a row per sample, in the columns of `_list_samples`. A frame
    has at most SAMPLES_AT_ONCE rows, so that it takes little memory.

    A frame has the samples of several bursts; a burst of more than SAMPLES_AT_ONCE
    samples is cut into several frames. bursts: a row per burst; `ticks` is an array of
    the burst's samples.
    """
    lengths = bursts["ticks"].map(len)
    longest = max(lengths, default=1)
    # A batch of so many bursts has at most SAMPLES_AT_ONCE samples. Only a batch of a
    # single burst can have more, and is then cut.
    bursts_at_once = max(1, SAMPLES_AT_ONCE // longest)
    for begin in range(0, len(bursts), bursts_at_once):
        end = begin + bursts_at_once
        batch = bursts.iloc[begin:end]
        longest_of_batch = max(lengths.iloc[begin:end])
        for first in range(0, longest_of_batch, SAMPLES_AT_ONCE):
            cut = slice(first, first + SAMPLES_AT_ONCE)
            yield _list_samples(batch, cut, descriptions)


def _list_samples(
    bursts: pd.DataFrame, cut: slice, descriptions: Descriptions
) -> pd.DataFrame:
    """List the samples of each burst that are in `cut`, a slice of places in the burst;
    a row per sample.

    The columns are those of `load.samples_long`, and _OF_OTHERS: the ticks and units of
    the other threads, as lists.
    """
    ticks_in_cut = [ticks[cut] for ticks in bursts["ticks"]]
    part = bursts.assign(ticks=ticks_in_cut)
    # `warmup` counts the first samples of a burst; those before the cut are left out
    part["warmup"] = (bursts["warmup"] - cut.start).clip(lower=0)
    samples = load.samples_long(part, descriptions)
    samples["sample"] += cut.start  # from the place in the cut to that in the burst
    for name in _OF_OTHERS:
        numbers = _list_numbers_of_others(bursts, name, cut)
        samples[name] = pd.Series(numbers, dtype=object)
    return samples


def _list_numbers_of_others(
    bursts: pd.DataFrame, name: str, cut: slice
) -> list[list[int] | None]:
    """List for each sample in `cut` the numbers of the other threads, a number per
    thread; None if there are no other threads.

    name: the column of the numbers, which has for each burst an array of samples for
    each thread.
    """
    numbers = list[list[int] | None]()
    for ticks, threads in zip(bursts["ticks"], bursts[name], strict=True):
        if threads is None or not len(threads):
            samples = len(ticks[cut])
            numbers += [None] * samples
        else:
            by_thread = [thread[cut] for thread in threads]
            by_sample = np.stack(by_thread, axis=1)  # a row per sample
            numbers += by_sample.tolist()
    return numbers


def export_numbers(
    root: Root,
    runs: Sequence[RunSummary],
    tool: str,
    only: Only = ALL,
    ranges: Sequence[ExpectedRange] = (),
) -> str:
    """Format the usual numbers of each host for another program, `tool`, one of
    DASHBOARDS. OPENMETRICS takes all numbers. Other tools take only latencies between
    CPUs and of single CPUs.

    ranges: the numbers expected of machines, by which OPENMETRICS judges hosts. Raises
    UsageError if the tool takes no number of these runs.
    """
    table, rows, descriptions = load_usual_numbers(root, runs, only)
    last_start_by_host = rows.groupby("host_id")["started_utc"].max()
    measured_utc = table["host_id"].map(last_start_by_host)
    table = table.assign(measured_utc=measured_utc)
    if tool != OPENMETRICS:
        views = load.get_views(table["benchmark"], descriptions)
        table = table[views.isin((View.MATRIX, View.CPUS))]
    if table.empty:
        raise UsageError(
            "these runs have no latencies between CPUs; -F samples exports every"
            " sample."
        )
    if tool == OPENMETRICS:
        verdicts = read_verdicts(root, runs, only, ranges)
        return render_openmetrics(table, descriptions, verdicts)
    return _RENDERERS[tool](table)


def _list_medians_and_intervals(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows as dicts, with the ends of the median's 95 % interval, `lower`
    and `upper`, or None.
    """
    rows = table.copy()
    rows["lower"] = table["median_ns"] * (1 - table["half"])
    rows["upper"] = table["median_ns"] * (1 + table["half"])
    return text.to_records(rows)


def render_bmf(table: pd.DataFrame) -> str:
    """Render the Bencher Metric Format: latency in ns with its 95 % interval, for
    `bencher run`.

    Format: https://bencher.dev/docs/reference/bencher-metric-format/. table: from
    `summarize_hosts`.
    """
    metrics = {}
    for row in _list_medians_and_intervals(table):
        latency = {"value": row["median_ns"]}
        if row["lower"] is not None:
            latency["lower_value"] = row["lower"]
        if row["upper"] is not None:
            latency["upper_value"] = row["upper"]
        name = f"{row['host_name']} {text.name_benchmark(row)} {row['relation']}"
        metrics[name] = {"latency": latency}
    return text.format_json(metrics) + "\n"


def render_markdown(table: pd.DataFrame) -> str:
    """Render a table for a pull request: a row per host, benchmark and relation. If the
    numbers of runs form several levels, the runs of each level are counted.
    """
    interval = f"±95% {describe_interval(table)}"
    lines = [
        f"| host | benchmark | relation | runs | ns, one way | {interval} |",
        "| --- | --- | --- | ---: | ---: | ---: |",
    ]
    for row in text.to_records(table):
        cells = (
            escape_markdown(row["host_name"]),
            escape_markdown(text.name_benchmark(row)),
            escape_markdown(row["relation"]),
            _count_runs_by_level(row),
            f"{row['median_ns']:.1f}",
            text.format_half_width(row["half"]),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _count_runs_by_level(row: Mapping[str, Any]) -> str:
    """Count a host's runs; if they are at several levels, those at each."""
    levels = row["levels"]
    if len(levels) <= 1:
        return str(row["runs"])
    counts = [f"{level.runs} at {level.ns:.1f}" for level in levels]
    return ", ".join(counts)


_RENDERERS: Mapping[str, Callable[[pd.DataFrame], str]] = {
    "bmf": render_bmf,
    "markdown": render_markdown,
}
DASHBOARDS = (*_RENDERERS, OPENMETRICS)
