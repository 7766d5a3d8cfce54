"""Writes runs and summaries as other tools print them, for their readers, and samples as CSV."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import Ints
from fleet.analysis.base.text import csv_text, kind_of, records, shown_value, within
from fleet.analysis.exchange import tools
from fleet.analysis.exchange.grid import Grid, matrix_csv
from fleet.analysis.exchange.imports import PREFIX, find_summary, grid_of
from fleet.analysis.reduce.ladders import node_cells, node_matrix
from fleet.analysis.reduce.load import (
    add_run_columns,
    is_chosen_benchmark,
    load_cpus,
    load_run,
    load_runs,
    samples_in_parts,
    samples_long,
)
from fleet.analysis.reduce.pairs import load_pairs, pairs_of_run, widened
from fleet.analysis.views.overview import describe_interval
from fleet.errors import UsageError
from fleet.model import SHIPPED, Descriptions, Pairs, View, read_descriptions
from fleet.plan.benchmark_names import parse_benchmark_names, select_kinds
from fleet.store.runs import Root
from fleet.text import one_line, printable

SAMPLES = "samples"
FORMATS = (*tools.FORMATS, SAMPLES)
VALUES = ("median", "mean", "min", "p10", "p99", "max")
SAMPLES_AT_ONCE = 20_000
_OF_OTHERS = ("other_ticks", "other_units")
_LEFT_OUT = ["line_page", "line_offset", "line_node", "line_physical"]


def export_matrix(
    root: Root, what: str, tool: str, benchmark: str | None, value: str | None = None
) -> Iterator[str]:
    """Yield the text of a matrix of pairs, in pieces.

    what: a published run id, or summary:NAME. tool: one of FORMATS. benchmark: `cas` or `cas/llsc`. value: of
    VALUES, the number of each pair of a run, by default the tool's. UsageError for what is not there.
    """
    write, estimator = tools.FORMATS[tool]
    if what.startswith(PREFIX):
        if value is not None:
            raise UsageError(f"{what} is a summary: it has one number a pair, so leave out --value.")
        yield write(grid_of(_chosen(find_summary(root, what), benchmark, what, SHIPPED)))
    else:
        made = _of_run(root, what, tool, benchmark, value or estimator)
        yield write(made) if isinstance(made, Grid) else made


def export_samples(root: Root, run_ids: Sequence[str], benchmark: str | None) -> Iterator[str]:
    """Yield the samples of several runs as one CSV, a row per sample, in pieces.

    benchmark: as to `parse_benchmark_names`; runs without it are left out. UsageError if no run has it.
    """
    header = True
    for run_id in run_ids:
        kinds: list[str | None] = [None]
        if benchmark is not None:
            kinds = [*select_kinds(benchmark, _measured(root, run_id))]
        for rows in _read_samples(root, run_id, kinds):
            if benchmark is not None:
                rows = rows[is_chosen_benchmark(rows, benchmark)]  # noqa: PLW2901  settings too
            if rows.empty:
                continue
            yield csv_text(rows, header=header)
            header = False
    if header:
        missing = f"--benchmark {benchmark}: " if benchmark else ""
        raise UsageError(
            f"{missing}these runs have no samples to export; `fleet runs` lists what runs measured."
        )


def _of_run(root: Root, run_id: str, tool: str, benchmark: str | None, value: str) -> Grid | str:
    """The matrix of pairs, or the text of one by NUMA node, which of the tools only `csv` writes."""
    run = load_run(root, run_id)
    ordered = (run["plan"].get("pairs") or {}).get("which") == Pairs.ORDERED
    descriptions = read_descriptions(run["hello"])
    kinds = _measured(root, run_id)
    placed = _by_node(root, run_id, kinds, descriptions) if tool == "csv" else {}
    chosen = _chosen_of([*_of_pairs(kinds, descriptions), *placed], benchmark, run_id)
    if chosen in placed:
        rows, columns, cells = node_matrix(placed[chosen], f"{value}_ns")
        shown = {ends: shown_value(descriptions[chosen.partition("/")[0]], ns) for ends, ns in cells.items()}
        return matrix_csv("node", rows, columns, shown)
    pairs = pairs_of_run(root, run_id, chosen, ordered=ordered)
    if pairs.empty:
        raise UsageError(f"{run_id}: has no samples of {chosen} to export.")
    parts = samples_in_parts(root, run_id, benchmark=chosen, columns=["iterations"])
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


def _by_node(
    root: Root, run_id: str, kinds: Sequence[str], descriptions: Descriptions
) -> dict[str, pd.DataFrame]:
    """The cells of each matrix by NUMA node, by benchmark/variant and setting."""
    names = [name for name in {kind.partition("/")[0] for kind in kinds} if descriptions[name].node]
    if not names:
        return {}
    pairs = widened(load_pairs(root, run_id=run_id, benchmark=names))
    cells = node_cells(pairs, load_cpus(root, run_id=run_id), descriptions)
    return dict(iter(cells.groupby(_kinds(cells) + " " + cells["setting"].astype(str), sort=False)))


def _measured(root: Root, run_id: str) -> list[str]:
    """Each benchmark/variant of the stored samples, whatever the host said it would measure."""
    parts = samples_in_parts(root, run_id, columns=["benchmark", "variant"])
    return list(dict.fromkeys(kind for part in parts for kind in _kinds(part)))


def _kinds(rows: pd.DataFrame) -> "pd.Series[str]":
    names = rows["benchmark"].astype(str)
    known = rows["variant"].notna()
    return names.where(~known, names + "/" + rows["variant"].astype(str))


def _chosen(rows: pd.DataFrame, benchmark: str | None, what: str, descriptions: Descriptions) -> pd.DataFrame:
    kinds = _kinds(rows)
    return rows[kinds == _chosen_of(_of_pairs(kinds.unique(), descriptions), benchmark, what)]


def _of_pairs(kinds: Iterable[str], descriptions: Descriptions) -> list[str]:
    return [kind for kind in kinds if descriptions[kind].view is View.MATRIX]


def _chosen_of(there: Sequence[str], benchmark: str | None, what: str) -> str:
    names = parse_benchmark_names(benchmark) if benchmark else ()
    wanted = [
        kind
        for kind in there
        if not names
        or any(
            name.is_variant_of(kind.partition(" ")[0]) and name.is_setting_of(kind.replace(" ", "."))
            for name in names
        )
    ]
    if not there:
        raise UsageError(f"{what}: has no pairs of CPUs to export. `fleet show` lists what it has.")
    if len(wanted) != 1:
        unlike = f", not {benchmark!r}; `fleet show --csv` has the points of others" if benchmark else ""
        raise UsageError(f"{what}: --benchmark must name one of {', '.join(there)}{unlike}.")
    return wanted[0]


def _read_samples(root: Root, run_id: str, kinds: Sequence[str | None]) -> Iterator[pd.DataFrame]:
    """Yield a row per sample of a run, at most about SAMPLES_AT_ONCE at once. kinds: with None for all."""
    run, descriptions = load_runs(root, run_id=run_id), read_descriptions(load_run(root, run_id)["hello"])
    parts = (part for kind in kinds for part in samples_in_parts(root, run_id, benchmark=kind))
    for bursts in parts:
        step = max(1, SAMPLES_AT_ONCE // max(map(len, bursts["ticks"]), default=1))
        for begin in range(0, len(bursts), step):
            for part in _in_parts(bursts.iloc[begin : begin + step], descriptions):
                yield add_run_columns(part.drop(columns=_LEFT_OUT), run)


def _in_parts(bursts: pd.DataFrame, descriptions: Descriptions) -> Iterator[pd.DataFrame]:
    """A row per sample, with the other threads' numbers in that sample; a burst that is too long is cut."""
    for first in range(0, max(map(len, bursts["ticks"])), SAMPLES_AT_ONCE):
        kept = slice(first, first + SAMPLES_AT_ONCE)
        part = bursts.assign(
            ticks=[ticks[kept] for ticks in bursts["ticks"]],
            warmup=(bursts["warmup"] - first).clip(lower=0),
            **{name: bursts[name].map(partial(_each, kept=kept)) for name in _OF_OTHERS},
        )
        long = samples_long(part, descriptions)
        yield long.assign(
            sample=long["sample"] + first,
            **{name: _by_sample(part["ticks"], part[name]) for name in _OF_OTHERS},
        )


def _each(lists: Sequence[Ints] | None, kept: slice) -> list[Ints] | None:
    return None if lists is None else [one[kept] for one in lists]


def _by_sample(ticks: Iterable[Ints], others: Iterable[list[Ints] | None]) -> "pd.Series[Any]":
    """For each sample of these bursts the numbers of the other threads, None where there are none."""
    found = [
        sample
        for own, lists in zip(ticks, others, strict=True)
        for sample in (np.stack(lists, axis=1).tolist() if lists else [None] * len(own))
    ]
    return pd.Series(found, dtype=object)


_NS = 1e-9
_KIND = ("benchmark", "variant", "relation")
_METRIC = "fleet_median_latency_seconds"


def openmetrics(table: pd.DataFrame) -> str:
    """OpenMetrics text, in seconds as its rules ask; for the textfile collector of node_exporter."""
    lines = [
        f"# TYPE {_METRIC} gauge",
        f"# UNIT {_METRIC} seconds",
        f"# HELP {_METRIC} Median one-way latency between CPUs of a relation.",
    ]
    for row in records(table):
        labels = {"host": row["host_name"], **{name: row[name] for name in _KIND}}
        listed = ",".join(f'{name}="{_quoted(str(value))}"' for name, value in labels.items())
        lines.append(f"{_METRIC}{{{listed}}} {row['median_ns'] * _NS:.6g}")
    return "\n".join([*lines, "# EOF", ""])


def markdown(table: pd.DataFrame) -> str:
    """A table for a pull request: a row per host, benchmark and relation."""
    lines = [
        f"| host | benchmark | relation | runs | ns, one way | ±95% {describe_interval(table)} |",
        "| --- | --- | --- | ---: | ---: | ---: |",
    ]
    for row in records(table):
        names = (row["host_name"], kind_of(row), row["relation"])
        cells = (*map(_cell, names), row["runs"], f"{row['median_ns']:.1f}", within(row["half"]))
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join([*lines, ""])


DASHBOARDS: Mapping[str, Callable[[pd.DataFrame], Any]] = {"openmetrics": openmetrics, "markdown": markdown}


def _cell(text: str) -> str:
    """Text in a table of Markdown: no character of it is markup or HTML."""
    return re.sub(r"([\\`*_\[\]<>|&~])", r"\\\1", one_line(text))


def _quoted(text: str) -> str:
    """A label's value in OpenMetrics, which escapes these three; other control characters are shown."""
    return printable(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
