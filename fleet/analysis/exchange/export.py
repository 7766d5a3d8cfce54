"""Writes runs and summaries as other tools print them, for their readers, and samples as CSV."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import Ints
from fleet.analysis.base.text import (
    convert_to_shown,
    format_csv,
    format_half_width,
    format_json,
    name_kind,
    to_records,
)
from fleet.analysis.exchange import tools
from fleet.analysis.exchange.grid import Grid, write_csv, write_matrix_csv
from fleet.analysis.exchange.imports import PREFIX, find_summary, make_grid
from fleet.analysis.reduce.ladders import lay_out_node_matrix, select_node_cells
from fleet.analysis.reduce.load import (
    add_run_columns,
    is_chosen_benchmark,
    load_cpus,
    load_run,
    load_runs,
    load_samples_in_parts,
    samples_long,
)
from fleet.analysis.reduce.pairs import as_float64, load_pairs, pairs_of_run
from fleet.analysis.views.overview import describe_interval
from fleet.errors import UsageError
from fleet.model import SHIPPED, Descriptions, Pairs, View, read_descriptions
from fleet.plan.benchmark_names import parse_benchmark_names, select_kinds
from fleet.store.runs import Root
from fleet.text import one_line, printable

SAMPLES = "samples"
HWLOC = "hwloc"
EXPORT_FORMATS = (*tools.FORMATS, HWLOC, SAMPLES)
VALUES = ("median", "mean", "min", "p10", "p99", "max")
SAMPLES_AT_ONCE = 20_000
_OF_OTHERS = ("other_ticks", "other_units")


def export_matrix(
    root: Root, what: str, tool: str, benchmark: str | None, value: str | None = None
) -> Iterator[str]:
    """Yield the text of a matrix of pairs, in pieces.

    what: a published run id, or summary:NAME. tool: one of FORMATS. benchmark: `cas` or `cas/llsc`. value: of
    VALUES, the number of each pair of a run, by default the tool's. UsageError for what is not there.
    """
    write, estimator = tools.FORMATS.get(tool, (write_csv, "median"))
    if what.startswith(PREFIX) and tool == HWLOC:
        raise UsageError(f"{what} is a summary, and hwloc orders CPUs by what they share: name a run.")
    if what.startswith(PREFIX):
        if value is not None:
            raise UsageError(f"{what} is a summary: it has one number a pair, so leave out --value.")
        yield write(make_grid(_choose_rows(find_summary(root, what), benchmark, what, SHIPPED)))
    else:
        exported = _export_run(root, what, tool, benchmark, value or estimator)
        if tool == HWLOC and isinstance(exported, Grid):
            exported = _write_hwloc(exported, load_cpus(root, run_id=what))
        yield write(exported) if isinstance(exported, Grid) else exported


def export_samples(root: Root, run_ids: Sequence[str], benchmark: str | None) -> Iterator[str]:
    """Yield the samples of several runs as one CSV, a row per sample, in pieces.

    benchmark: as to `parse_benchmark_names`; runs without it are left out. UsageError if no run has it.
    """
    header = True
    for run_id in run_ids:
        kinds: list[str | None] = [None]
        if benchmark is not None:
            kinds = [*select_kinds(benchmark, _list_measured_kinds(root, run_id))]
        for rows in _read_samples(root, run_id, kinds):
            if benchmark is not None:
                rows = rows[is_chosen_benchmark(rows, benchmark)]  # noqa: PLW2901  settings too
            if rows.empty:
                continue
            yield format_csv(rows, header=header)
            header = False
    if header:
        missing = f"--benchmark {benchmark}: " if benchmark else ""
        raise UsageError(
            f"{missing}these runs have no samples to export; `fleet runs` lists what runs measured."
        )


def _export_run(root: Root, run_id: str, tool: str, benchmark: str | None, value: str) -> Grid | str:
    """Return the matrix of pairs, or the text of one by NUMA node, which only the tool `csv` writes."""
    run = load_run(root, run_id)
    ordered = (run["plan"].get("pairs") or {}).get("which") == Pairs.ORDERED
    descriptions = read_descriptions(run["hello"])
    kinds = _list_measured_kinds(root, run_id)
    placed = _load_node_cells(root, run_id, kinds, descriptions) if tool == "csv" else {}
    chosen = _choose_kind([*_list_pair_kinds(kinds, descriptions), *placed], benchmark, run_id)
    if chosen in placed:
        rows, columns, cells = lay_out_node_matrix(placed[chosen], f"{value}_ns")
        values = {
            ends: convert_to_shown(descriptions[chosen.partition("/")[0]], ns) for ends, ns in cells.items()
        }
        return write_matrix_csv("node", rows, columns, values)
    pairs = pairs_of_run(root, run_id, chosen, ordered=ordered)
    if pairs.empty:
        raise UsageError(f"{run_id}: has no samples of {chosen} to export.")
    parts = load_samples_in_parts(root, run_id, benchmark=chosen, columns=["iterations"])
    both = pairs[["ping_cpu", "pong_cpu"]].to_numpy(dtype=int)
    ends = [*map(tuple, (both if ordered else np.sort(both, axis=1)[:, ::-1]).tolist())]
    return Grid(
        cpus=tuple(np.unique(both).tolist()),
        cells=dict(zip(ends, pairs[f"{value}_ns"].astype(float), strict=True)),
        benchmark=pairs["benchmark"].iloc[0],
        samples=int(pairs["samples"].median()),
        iterations=int(pd.concat([part["iterations"] for part in parts]).median()),
        cpu_model=run["cpu_model"] and one_line(run["cpu_model"]),
        variant=pairs["variant"].iloc[0],
        arch=run["arch"],
    )


def _write_hwloc(grid: Grid, cpus: pd.DataFrame) -> str:
    """Write a matrix in ps for `hwloc-annotate in.xml out.xml -- all -- distances FILE`.

    Format: its manual page; the kind is FROM_USER | MEANS_LATENCY of hwloc/distances.h. hwloc numbers PUs in
    the order of its tree, in which each group comes at its lowest CPU. cpus: as `load_cpus` returns them.
    """
    online = cpus[cpus["online"].astype(bool)]
    node = online.groupby("node", dropna=False)["cpu"].transform("min")
    groups = online[["package", "die", "llc", "cluster", "core", "cpu"]].fillna(0)
    groups.insert(1, "node", node)
    number = {cpu: place for place, cpu in enumerate(groups.sort_values([*groups])["cpu"].tolist())}
    cells = {**grid.fill_both_halves(), **{(cpu, cpu): 0.0 for cpu in grid.cpus}}
    if missing := [f"{a}-{b}" for a in grid.cpus for b in grid.cpus if (a, b) not in cells]:
        raise UsageError(f"hwloc takes a number for every pair of CPUs, and {missing[0]} has none.")
    objects = [f"PU:{number[cpu]}" for cpu in grid.cpus]
    values = [str(round(cells[a, b] * 1000)) for a in grid.cpus for b in grid.cpus]
    return "\n".join([f"name=fleet-{grid.benchmark}-ps", "6", str(len(objects)), *objects, *values, ""])


def _load_node_cells(
    root: Root, run_id: str, kinds: Sequence[str], descriptions: Descriptions
) -> dict[str, pd.DataFrame]:
    """Load the cells of each matrix by NUMA node, keyed by benchmark/variant and setting."""
    names = [name for name in {kind.partition("/")[0] for kind in kinds} if descriptions[name].node]
    if not names:
        return {}
    pairs = as_float64(load_pairs(root, run_id=run_id, benchmark=names))
    cells = select_node_cells(pairs, load_cpus(root, run_id=run_id), descriptions)
    return dict(iter(cells.groupby(_name_kinds(cells) + " " + cells["setting"].astype(str), sort=False)))


def _list_measured_kinds(root: Root, run_id: str) -> list[str]:
    """List each benchmark/variant of the stored samples, whatever the host said it would measure."""
    parts = load_samples_in_parts(root, run_id, columns=["benchmark", "variant"])
    return list(dict.fromkeys(kind for part in parts for kind in _name_kinds(part)))


def _name_kinds(rows: pd.DataFrame) -> "pd.Series[str]":
    names = rows["benchmark"].astype(str)
    has_variant = rows["variant"].notna()
    return names.where(~has_variant, names + "/" + rows["variant"].astype(str))


def _choose_rows(
    rows: pd.DataFrame, benchmark: str | None, what: str, descriptions: Descriptions
) -> pd.DataFrame:
    kinds = _name_kinds(rows)
    return rows[kinds == _choose_kind(_list_pair_kinds(kinds.unique(), descriptions), benchmark, what)]


def _list_pair_kinds(kinds: Iterable[str], descriptions: Descriptions) -> list[str]:
    return [kind for kind in kinds if descriptions[kind].view is View.MATRIX]


def _choose_kind(there: Sequence[str], benchmark: str | None, what: str) -> str:
    names = parse_benchmark_names(benchmark) if benchmark else ()
    matching = [
        kind
        for kind in there
        if not names
        or any(
            name.matches_kind(kind.partition(" ")[0]) and name.matches_point(kind.replace(" ", "."))
            for name in names
        )
    ]
    if not there:
        raise UsageError(f"{what}: has no pairs of CPUs to export. `fleet show` lists what it has.")
    if len(matching) != 1:
        unlike = f", not {benchmark!r}; `fleet show --csv` has the points of others" if benchmark else ""
        raise UsageError(f"{what}: --benchmark must name one of {', '.join(there)}{unlike}.")
    return matching[0]


def _read_samples(root: Root, run_id: str, kinds: Sequence[str | None]) -> Iterator[pd.DataFrame]:
    """Yield a row per sample of a run, at most about SAMPLES_AT_ONCE at once. kinds: with None for all."""
    run, descriptions = load_runs(root, run_id=run_id), read_descriptions(load_run(root, run_id)["hello"])
    parts = (part for kind in kinds for part in load_samples_in_parts(root, run_id, benchmark=kind))
    for bursts in parts:
        step = max(1, SAMPLES_AT_ONCE // max(map(len, bursts["ticks"]), default=1))
        for begin in range(0, len(bursts), step):
            for part in _cut_into_samples(bursts.iloc[begin : begin + step], descriptions):
                yield add_run_columns(part, run)


def _cut_into_samples(bursts: pd.DataFrame, descriptions: Descriptions) -> Iterator[pd.DataFrame]:
    """Yield a row per sample, with the other threads' numbers in it; a burst that is too long is cut."""
    for first in range(0, max(map(len, bursts["ticks"])), SAMPLES_AT_ONCE):
        places = slice(first, first + SAMPLES_AT_ONCE)
        part = bursts.assign(
            ticks=[ticks[places] for ticks in bursts["ticks"]],
            warmup=(bursts["warmup"] - first).clip(lower=0),
            **{name: bursts[name].map(partial(_slice_each, places=places)) for name in _OF_OTHERS},
        )
        long = samples_long(part, descriptions)
        yield long.assign(
            sample=long["sample"] + first,
            **{name: _turn_to_samples(part["ticks"], part[name]) for name in _OF_OTHERS},
        )


def _slice_each(lists: Sequence[Ints] | None, places: slice) -> list[Ints] | None:
    return None if lists is None else [values[places] for values in lists]


def _turn_to_samples(ticks: Iterable[Ints], others: Iterable[list[Ints] | None]) -> "pd.Series[Any]":
    """Return the numbers of the other threads for each sample, None where there are none."""
    numbers = [
        sample
        for own, lists in zip(ticks, others, strict=True)
        for sample in (np.stack(lists, axis=1).tolist() if lists else [None] * len(own))
    ]
    return pd.Series(numbers, dtype=object)


_NS = 1e-9
_KIND = ("benchmark", "variant", "relation")


def render_openmetrics(table: pd.DataFrame) -> str:
    """Render OpenMetrics in seconds, for the textfile collector of node_exporter.

    table: of `compute_host_medians`, with `measured_utc`, when the last run of the host began.
    """
    families: dict[str, tuple[str, list[str]]] = {
        "fleet_median_latency": ("Median one-way latency between CPUs of a relation.", []),
        "fleet_median_latency_lower": ("Lower end of its 95 % interval.", []),
        "fleet_median_latency_upper": ("Upper end of its 95 % interval.", []),
        "fleet_measured_timestamp": ("When the last run began.", []),
    }
    for row in to_records(table):
        labels = {"host": row["host_name"], **{name: row[name] for name in _KIND}}
        listed = ",".join(f'{name}="{_escape_label(str(value))}"' for name, value in labels.items())
        ends = [f"{seconds * _NS:.6g}" if seconds else "" for seconds in (row["median_ns"], *_find_ends(row))]
        values = [*ends, f"{row['measured_utc'].timestamp():.0f}"]
        for (name, (_, samples)), value in zip(families.items(), values, strict=True):
            if value:
                samples.append(f"{name}_seconds{{{listed}}} {value}")
    lines = [
        line
        for name, (text, samples) in families.items()
        for line in (
            f"# TYPE {name}_seconds gauge",
            f"# UNIT {name}_seconds seconds",
            f"# HELP {name}_seconds {text}",
            *samples,
        )
    ]
    return "\n".join([*lines, "# EOF", ""])


def _find_ends(row: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Return the 95 % interval of a row's median in ns; None where it has none."""
    if row["half"] is None:
        return None, None
    return row["median_ns"] * (1 - row["half"]), row["median_ns"] * (1 + row["half"])


def render_bmf(table: pd.DataFrame) -> str:
    """Render the Bencher Metric Format: latency in ns with its 95 % interval, for `bencher run`.

    Format: https://bencher.dev/docs/reference/bencher-metric-format/. table: of `compute_host_medians`.
    """
    metrics = {}
    for row in to_records(table):
        lower, upper = _find_ends(row)
        ends = {"lower_value": lower, "upper_value": upper} if lower is not None else {}
        name = f"{row['host_name']} {name_kind(row)} {row['relation']}"
        metrics[name] = {"latency": {"value": row["median_ns"], **ends}}
    return format_json(metrics) + "\n"


def render_markdown(table: pd.DataFrame) -> str:
    """Render a table for a pull request: a row per host, benchmark and relation."""
    lines = [
        f"| host | benchmark | relation | runs | ns, one way | ±95% {describe_interval(table)} |",
        "| --- | --- | --- | ---: | ---: | ---: |",
    ]
    for row in to_records(table):
        names = (row["host_name"], name_kind(row), row["relation"])
        cells = (
            *map(_escape_cell, names),
            row["runs"],
            f"{row['median_ns']:.1f}",
            format_half_width(row["half"]),
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join([*lines, ""])


DASHBOARDS: Mapping[str, Callable[[pd.DataFrame], Any]] = {
    "bmf": render_bmf,
    "openmetrics": render_openmetrics,
    "markdown": render_markdown,
}


def _escape_cell(text: str) -> str:
    """Escape a text for a cell of Markdown: no character of it is markup or HTML."""
    return re.sub(r"([\\`*_\[\]<>|&~])", r"\\\1", one_line(text))


def _escape_label(text: str) -> str:
    """Escape a label's value for OpenMetrics; control characters become visible."""
    return printable(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
