"""Export runs and summaries in the formats of other tools, and samples as CSV."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.exchange.imports import (
    PREFIX,
    find_summary,
    make_grid,
    name_benchmarks,
)
from fleet.analysis.exchange.tools import TOOLS, WRITERS, Grid, write_matrix_csv
from fleet.analysis.reduce import load
from fleet.analysis.reduce.ladders import lay_out_node_matrix, select_node_cells
from fleet.analysis.reduce.numbers import ALL, Only, select_numbers
from fleet.analysis.reduce.pairs import as_float64, load_pairs, reduce_run
from fleet.analysis.views.overview import describe_interval
from fleet.analysis.views.usual import load_usual_numbers
from fleet.errors import UsageError
from fleet.model import SHIPPED, Descriptions, Pairs, View, read_descriptions
from fleet.plan.benchmark_names import parse_benchmark_names, select_kinds
from fleet.store import RunSummary
from fleet.store.runs import Root
from fleet.text import one_line, printable

SAMPLES = "samples"
NUMBERS = "numbers"
HWLOC = "hwloc"
EXPORT_FORMATS = (*WRITERS, HWLOC, SAMPLES, NUMBERS)
VALUES = ("median", "mean", "min", "p10", "p99", "max")
SAMPLES_AT_ONCE = 20_000
_OF_OTHERS = ("other_ticks", "other_units")


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
    if tool == HWLOC:
        raise UsageError(
            f"{run_or_summary} is a summary, and hwloc orders CPUs by what they share:"
            " name a run."
        )
    if value is not None:
        raise UsageError(
            f"{run_or_summary} is a summary: it has one number a pair, so leave out"
            " --value."
        )
    rows = find_summary(root, run_or_summary)
    kinds = name_benchmarks(rows)
    chosen = _choose_kind(
        _list_pair_kinds(kinds.unique(), SHIPPED), benchmark, run_or_summary
    )
    return WRITERS[tool](make_grid(rows[kinds == chosen]))


def export_rows(
    root: Root, runs: Sequence[RunSummary], format_: str, benchmark: str | None
) -> Iterator[str]:
    """Yield the samples or the numbers of several runs as CSV, in pieces. Raises
    UsageError if they have none.
    """
    run_ids = [run.run_id for run in runs]
    if format_ == SAMPLES:
        yield from export_samples(root, run_ids, benchmark)
        return
    numbers = select_numbers(root, runs, Only(benchmark))
    if numbers.empty:
        raise UsageError(
            "these runs have no numbers to export; `fleet runs` lists what each has."
        )
    facts = load.load_runs(root, run_id=run_ids)
    yield text.format_csv(load.add_run_columns(numbers, facts))


def export_samples(
    root: Root, run_ids: Sequence[str], benchmark: str | None
) -> Iterator[str]:
    """Yield the samples of several runs as one CSV, a row per sample, in pieces.

    benchmark: see `parse_benchmark_names`; runs without it are left out. Raises
    UsageError if no run has it.
    """
    header = True
    for run_id in run_ids:
        kinds: list[str | None] = [None]
        if benchmark is not None:
            kinds = [*select_kinds(benchmark, _list_measured_kinds(root, run_id))]
        for rows in _read_samples(root, run_id, kinds):
            chosen = (
                rows
                if benchmark is None
                else rows[load.is_chosen_benchmark(rows, benchmark)]
            )
            if len(chosen):
                yield text.format_csv(chosen, header=header)
                header = False
    if header:
        missing = f"--benchmark {benchmark}: " if benchmark else ""
        raise UsageError(
            f"{missing}these runs have no samples to export; `fleet runs` lists what"
            " each run has."
        )


def _export_run(
    root: Root, run_id: str, tool: str, benchmark: str | None, value: str
) -> str:
    """Format a run's matrix of pairs or, for the tool `csv`, of NUMA nodes. Raises
    UsageError if none.
    """
    run, cpus = load.load_run(root, run_id), load.load_cpus(root, run_id=run_id)
    ordered = (run["plan"].get("pairs") or {}).get("which") == Pairs.ORDERED
    descriptions, kinds = (
        read_descriptions(run["hello"]),
        _list_measured_kinds(root, run_id),
    )
    placed = dict[str, pd.DataFrame]()
    names = [
        name
        for name in {kind.partition("/")[0] for kind in kinds}
        if descriptions[name].node
    ]
    if tool == "csv" and names:
        pairs = as_float64(load_pairs(root, run_id=run_id, benchmark=names))
        cells = select_node_cells(pairs, cpus, descriptions)
        settings = name_benchmarks(cells) + " " + cells["setting"].astype(str)
        placed = {str(name): part for name, part in cells.groupby(settings, sort=False)}
    matrices = [*_list_pair_matrices(root, run_id, descriptions), *placed]
    chosen = _choose_kind(matrices, benchmark, run_id)
    if chosen in placed:
        rows, columns, by_nodes = lay_out_node_matrix(placed[chosen], f"{value}_ns")
        description = descriptions[chosen.partition("/")[0]]
        values = {
            ends: text.convert_to_shown(description, ns)
            for ends, ns in by_nodes.items()
        }
        return write_matrix_csv("node", rows, columns, values)
    kind, _, node = chosen.partition(" n")
    pairs = reduce_run(root, run_id, kind, ordered=ordered)
    if node:
        pairs = pairs[pairs["memory_node"] == int(node)]
    elif len(pairs):
        pairs = pairs[pairs["memory_node"].isna()]
    if pairs.empty:
        raise UsageError(f"{run_id}: has no samples of {chosen} to export.")
    both = pairs[["ping_cpu", "pong_cpu"]].to_numpy(dtype=int)
    ends = [*map(tuple, (both if ordered else np.sort(both, axis=1)[:, ::-1]).tolist())]
    grid = Grid(
        cpus=tuple(np.unique(both).tolist()),
        cells=dict(zip(ends, pairs[f"{value}_ns"].astype(float), strict=True)),
        benchmark=pairs["benchmark"].iloc[0],
    )
    return _write_hwloc(grid, cpus) if tool == HWLOC else WRITERS[tool](grid)


def _write_hwloc(grid: Grid, cpus: pd.DataFrame) -> str:
    """Write a matrix in ps for `hwloc-annotate in.xml out.xml -- all -- distances
    FILE`.

    Format: its manual page; kind 6 is FROM_USER | MEANS_LATENCY of hwloc/distances.h.
    hwloc numbers PUs in the order of its tree, groups by lowest CPU. cpus: from
    `load_cpus`. Raises UsageError for a missing pair.
    """
    online = cpus[cpus["online"].astype(bool)]
    node = online.groupby("node", dropna=False)["cpu"].transform("min")
    groups = online[["package", "die", "llc", "cluster", "core", "cpu"]].fillna(0)
    groups.insert(1, "node", node)
    number = {
        cpu: place
        for place, cpu in enumerate(groups.sort_values([*groups])["cpu"].tolist())
    }
    cells = {**grid.fill_both_halves(), **{(cpu, cpu): 0.0 for cpu in grid.cpus}}
    if missing := [
        f"{a}-{b}" for a in grid.cpus for b in grid.cpus if (a, b) not in cells
    ]:
        raise UsageError(
            f"hwloc takes a number for every pair of CPUs, and {missing[0]} has none."
        )
    objects = [f"PU:{number[cpu]}" for cpu in grid.cpus]
    values = [str(round(cells[a, b] * 1000)) for a in grid.cpus for b in grid.cpus]
    return "\n".join(
        [
            f"name=fleet-{grid.benchmark}-ps",
            "6",
            str(len(objects)),
            *objects,
            *values,
            "",
        ]
    )


def _list_measured_kinds(root: Root, run_id: str) -> list[str]:
    """List each `benchmark/variant` that has stored samples, regardless of what the
    host planned.
    """
    parts = load.load_samples_in_parts(root, run_id, columns=["benchmark", "variant"])
    return list(dict.fromkeys(kind for part in parts for kind in name_benchmarks(part)))


def _list_pair_matrices(
    root: Root, run_id: str, descriptions: Descriptions
) -> list[str]:
    """List the matrices of pairs with samples: benchmark and variant, and the node if
    the lines lie on a requested one, as in "cas/llsc n0".
    """
    names = list[str]()
    columns = ["benchmark", "variant", "memory_node"]
    for part in load.load_samples_in_parts(root, run_id, columns=columns):
        are_matrices = load.get_views(part["benchmark"], descriptions) == View.MATRIX
        own = part[are_matrices].drop_duplicates()
        for kind, node in zip(name_benchmarks(own), own["memory_node"], strict=True):
            name = kind
            if not pd.isna(node):
                name = f"{kind} n{int(node)}"
            names.append(name)
    return list(dict.fromkeys(names))


def _list_pair_kinds(kinds: Iterable[str], descriptions: Descriptions) -> list[str]:
    return [kind for kind in kinds if descriptions[kind].view is View.MATRIX]


def _choose_kind(kinds: Sequence[str], benchmark: str | None, what: str) -> str:
    """Return the kind, such as "cas/llsc", that `benchmark` names. Raises UsageError
    for none or several.
    """
    if not kinds:
        raise UsageError(
            f"{what}: has no pairs of CPUs to export. `fleet show` lists what it has."
        )
    names = parse_benchmark_names(benchmark) if benchmark else ()
    matching = [
        kind
        for kind in kinds
        if not names
        or any(
            name.matches_kind(kind.partition(" ")[0])
            and name.matches_point(kind.replace(" ", "."))
            for name in names
        )
    ]
    if len(matching) != 1:
        unlike = (
            f", not {benchmark!r}; `fleet show --csv` has the points of others"
            if benchmark
            else ""
        )
        raise UsageError(
            f"{what}: --benchmark must name one of {', '.join(kinds)}{unlike}."
        )
    return matching[0]


def _read_samples(
    root: Root, run_id: str, kinds: Sequence[str | None]
) -> Iterator[pd.DataFrame]:
    """Yield the samples of a run, in frames of at most SAMPLES_AT_ONCE rows. kinds:
    [None] for all.
    """
    runs = load.load_runs(root, run_id=run_id)
    descriptions = read_descriptions(load.load_run(root, run_id)["hello"])
    parts = (
        part
        for kind in kinds
        for part in load.load_samples_in_parts(root, run_id, benchmark=kind)
    )
    for bursts in parts:
        step = max(1, SAMPLES_AT_ONCE // max(map(len, bursts["ticks"]), default=1))
        for begin in range(0, len(bursts), step):
            for part in _cut_into_samples(
                bursts.iloc[begin : begin + step], descriptions
            ):
                yield load.add_run_columns(part, runs)


def _cut_into_samples(
    bursts: pd.DataFrame, descriptions: Descriptions
) -> Iterator[pd.DataFrame]:
    """Yield frames with a row per sample and the other threads' numbers; split bursts
    that are too long.
    """
    for first in range(0, max(map(len, bursts["ticks"])), SAMPLES_AT_ONCE):
        places = slice(first, first + SAMPLES_AT_ONCE)
        part = bursts.assign(
            ticks=[ticks[places] for ticks in bursts["ticks"]],
            warmup=(bursts["warmup"] - first).clip(lower=0),
        )
        others = {
            name: [
                sample
                for own, threads in zip(part["ticks"], bursts[name], strict=True)
                for sample in (
                    [None] * len(own)
                    if threads is None or not len(threads)
                    else np.stack(
                        [numbers[places] for numbers in threads], axis=1
                    ).tolist()
                )
            ]
            for name in _OF_OTHERS
        }
        long = load.samples_long(part, descriptions)
        columns = {
            name: pd.Series(numbers, dtype=object) for name, numbers in others.items()
        }
        yield long.assign(sample=long["sample"] + first, **columns)


def export_numbers(
    root: Root, runs: Sequence[RunSummary], tool: str, only: Only = ALL
) -> str:
    """Format what number each host has between CPUs and of single CPUs, for another
    program.

    tool: a key of DASHBOARDS. Raises UsageError if there are no such numbers.
    """
    table, rows, descriptions = load_usual_numbers(root, runs, only)
    views = load.get_views(table["benchmark"], descriptions)
    table = table[views.isin((View.MATRIX, View.CPUS))]
    if table.empty:
        raise UsageError(
            "these runs have no latencies between CPUs; -F samples exports every"
            " sample."
        )
    last = rows.groupby("host_id")["started_utc"].max()
    return DASHBOARDS[tool](table.assign(measured_utc=table["host_id"].map(last)))


def render_openmetrics(table: pd.DataFrame) -> str:
    """Render OpenMetrics in seconds, for the textfile collector of node_exporter.

    table: from `summarize_hosts`, with a column `measured_utc`, the start of the
    host's last run.
    """
    families: dict[str, tuple[str, list[str]]] = {
        "fleet_median_latency": (
            "Median one-way latency between CPUs of a relation, of the runs at the"
            " level of most.",
            [],
        ),
        "fleet_median_latency_lower": ("Lower end of its 95 % interval.", []),
        "fleet_median_latency_upper": ("Upper end of its 95 % interval.", []),
        "fleet_measured_timestamp": ("When the last run began.", []),
    }
    for row in _list_medians_and_intervals(table):
        names = ("host_name", "benchmark", "variant", "relation")
        labels = (
            (name.removesuffix("_name"), _escape_label(str(row[name])))
            for name in names
        )
        listed = ",".join(f'{name}="{value}"' for name, value in labels)
        ends = [
            f"{ns * 1e-9:.6g}" if ns else ""
            for ns in (row["median_ns"], row["lower"], row["upper"])
        ]
        values = [*ends, f"{row['measured_utc'].timestamp():.0f}"]
        for (name, (_, samples)), value in zip(families.items(), values, strict=True):
            if value:
                samples.append(f"{name}_seconds{{{listed}}} {value}")
    lines = list[str]()
    for name, (words, samples) in families.items():
        lines += [f"# TYPE {name}_seconds gauge", f"# UNIT {name}_seconds seconds"]
        lines += [f"# HELP {name}_seconds {words}", *samples]
    return "\n".join([*lines, "# EOF", ""])


def _list_medians_and_intervals(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows as dicts, with the ends of the median's 95 % interval, `lower`
    and `upper`, or None.
    """
    low, high = (table["median_ns"] * (1 + sign * table["half"]) for sign in (-1, 1))
    return text.to_records(table.assign(lower=low, upper=high))


def render_bmf(table: pd.DataFrame) -> str:
    """Render the Bencher Metric Format: latency in ns with its 95 % interval, for
    `bencher run`.

    Format: https://bencher.dev/docs/reference/bencher-metric-format/. table: from
    `summarize_hosts`.
    """
    metrics = {}
    for row in _list_medians_and_intervals(table):
        ends = {
            f"{end}_value": row[end]
            for end in ("lower", "upper")
            if row[end] is not None
        }
        name = f"{row['host_name']} {text.name_benchmark(row)} {row['relation']}"
        metrics[name] = {"latency": {"value": row["median_ns"], **ends}}
    return text.format_json(metrics) + "\n"


def render_markdown(table: pd.DataFrame) -> str:
    """Render a table for a pull request: a row per host, benchmark and relation. Runs
    at several levels are counted by level.
    """
    lines = [
        (
            "| host | benchmark | relation | runs | ns, one way | ±95%"
            f" {describe_interval(table)} |"
        ),
        "| --- | --- | --- | ---: | ---: | ---: |",
    ]
    for row in text.to_records(table):
        names = map(
            _escape_cell, (row["host_name"], text.name_benchmark(row), row["relation"])
        )
        runs = str(row["runs"])
        if len(row["levels"]) > 1:
            counts = (f"{level.runs} at {level.ns:.1f}" for level in row["levels"])
            runs = ", ".join(counts)
        half = text.format_half_width(row["half"])
        numbers = (runs, f"{row['median_ns']:.1f}", half)
        lines.append(f"| {' | '.join((*names, *numbers))} |")
    return "\n".join([*lines, ""])


DASHBOARDS: Mapping[str, Callable[[pd.DataFrame], str]] = {
    "bmf": render_bmf,
    "openmetrics": render_openmetrics,
    "markdown": render_markdown,
}


def _escape_cell(words: str) -> str:
    """Escape text for a Markdown cell, so that none of it is read as markup or HTML."""
    return re.sub(r"([\\`*_\[\]<>|&~])", r"\\\1", one_line(words))


def _escape_label(words: str) -> str:
    """Escape a label's value for OpenMetrics; control characters become visible."""
    return (
        printable(words).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    )
