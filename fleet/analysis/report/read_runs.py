"""Reads the runs of a report one at a time and keeps only what the page shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fleet.analysis.plots import latencies
from fleet.analysis.reduce.cross_checks import compared
from fleet.analysis.reduce.load import load_counters, load_cpus, load_run, load_samples, view_of
from fleet.analysis.reduce.matrices import matrix, relations
from fleet.analysis.reduce.pairs import load_pairs, widened
from fleet.analysis.reduce.topology import Layout, layout
from fleet.analysis.report.checks import checks_of
from fleet.analysis.report.key_numbers import KeyNumbers, key_numbers
from fleet.analysis.report.ladders import Ladder, ladders_of
from fleet.analysis.report.products import Products, products_of
from fleet.analysis.report.suspects import FLAGS, Suspect, suspects
from fleet.analysis.views.blocks import blocks
from fleet.analysis.views.counters import events, per_unit
from fleet.analysis.views.point_tables import PointTables
from fleet.analysis.views.sections import number_of
from fleet.analysis.views.states import states
from fleet.analysis.views.text import records
from fleet.analysis.views.warnings import RunWarning, run_warnings
from fleet.model import View

_TABLES = {View.STATES: states, View.BLOCKS: blocks}
_STEPS = 400  # quantiles kept of a distribution
_MOST_TRACES, _FEWER_TRACES, _MANY_RUNS = 6, 1, 6

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Part:
    """One benchmark and variant of a run; latencies one way in ns.

    pairs: a row per pair, with flags. number: the column of it that is the run's number. relations: as
    `relations` returns them. table: the matrix, None for `clock`. rounds: columns `relation`, `ns`, a row
    per round. curves: quantiles of all samples by relation. flagged: how many pairs have a serious flag.
    """

    name: str
    is_clock: bool
    number: str
    pairs: pd.DataFrame
    relations: list[dict[str, Any]]
    table: pd.DataFrame | None
    rounds: pd.DataFrame
    curves: dict[str, Floats]
    flagged: int
    suspects: list[Suspect]


@dataclass(frozen=True, slots=True)
class Reading:
    """One run. name: its host, with the run where the host has several; anchor: its place on the page.

    points: the tables of fetch and interleave, and of what was counted. checks: as `checks_of` returns them.
    """

    name: str
    anchor: str
    run: dict[str, Any]
    order: Layout
    parts: list[Part]
    points: list[PointTables]
    ladders: list[Ladder]
    products: list[Products]
    key_numbers: list[KeyNumbers]
    warnings: list[RunWarning]
    checks: list[tuple[str, ...]]


def gather(root: str | Path, run_ids: Sequence[str]) -> list[Reading]:
    """Read the runs, each once, grouped by host. Raises StoreError for one that is not stored."""
    rows = [load_run(root, run_id) for run_id in dict.fromkeys(run_ids)]
    hosts = list(dict.fromkeys(row["host_id"] for row in rows))
    rows.sort(key=lambda row: (hosts.index(row["host_id"]), row["started_utc"]))
    traces = _MOST_TRACES if len(rows) <= _MANY_RUNS else _FEWER_TRACES
    found = []
    for place, run in enumerate(rows, start=1):
        several = sum(row["host_id"] == run["host_id"] for row in rows) > 1
        name = f"{run['host_name']} {run['run_id']}" if several else run["host_name"]
        found.append(_reading(root, run, name, f"run-{place}", traces))
    return found


def _reading(root: str | Path, run: dict[str, Any], name: str, anchor: str, traces: int) -> Reading:
    samples = load_samples(root, run_id=run["run_id"])
    pairs = widened(load_pairs(root, run_id=run["run_id"]))
    measured = sorted(set(pairs["ping_cpu"]) | set(pairs["pong_cpu"]))
    cpus = load_cpus(root, run_id=run["run_id"])
    order = layout(cpus, measured)
    kinds = [*run["benchmarks"], *(pairs["benchmark"] + "/" + pairs["variant"]).unique()]
    counts = per_unit(load_counters(root, run_id=run["run_id"]), pairs)
    parts, points = [], []
    for kind in dict.fromkeys(kinds):
        benchmark, _, variant = kind.partition("/")
        own = pairs[(pairs["benchmark"] == benchmark) & (pairs["variant"] == variant)]
        if not len(own):
            continue
        if view_of(kind) in (View.MATRIX, View.CPUS):
            chosen = samples[(samples["benchmark"] == benchmark) & (samples["variant"] == variant)]
            parts.append(_part(kind, own, chosen.reset_index(drop=True), order, (number_of(run), traces)))
        elif tables := _TABLES.get(view_of(kind)):
            points.append(tables(own))
        counted = counts[(counts["benchmark"] == benchmark) & (counts["variant"] == variant)]
        if found := events(counted, run["hello"]):
            points.append(found)
    checked = compared(run, pairs, cpus)
    warnings = run_warnings(root, run, pairs, samples, checked)
    ladders, products = ladders_of(pairs, cpus, kinds), products_of(pairs, cpus)
    numbers = key_numbers(pairs, ladders, products)
    checks = checks_of(checked)
    return Reading(name, anchor, run, order, parts, points, ladders, products, numbers, warnings, checks)


def _part(kind: str, pairs: pd.DataFrame, samples: pd.DataFrame, order: Layout, how: tuple[str, int]) -> Part:
    number, traces = how
    is_clock = view_of(kind) is View.CPUS
    latency, burst, is_warmup = latencies(samples)
    latency, burst = latency[~is_warmup], burst[~is_warmup]
    relation = samples["relation"].astype(str).to_numpy()
    rows = records(relations(pairs, number))
    shares = np.linspace(0, 1, _STEPS)
    return Part(
        name=kind,
        is_clock=is_clock,
        number=number,
        pairs=pairs,
        relations=rows,
        table=None if is_clock else matrix(pairs, order.cpus, number),
        rounds=_rounds(samples, latency, burst),
        curves={
            row["relation"]: np.quantile(latency[(relation == row["relation"])[burst]], shares)
            for row in rows
        },
        flagged=sum(not set(flags.split(",")).isdisjoint(FLAGS) for flags in pairs["flags"]),
        suspects=suspects(pairs, samples, traces),
    )


def _rounds(samples: pd.DataFrame, latency: Floats, burst: npt.NDArray[np.int64]) -> pd.DataFrame:
    """The median of a relation's burst medians in each round."""
    sizes = np.bincount(burst)
    there = np.flatnonzero(sizes)
    if len(there) and (sizes[there] == sizes[there[0]]).all():  # they follow one another
        middles = pd.Series(np.median(latency.reshape(len(there), -1), axis=1), there)
    else:
        middles = pd.Series(latency).groupby(burst).median()
    keyed = samples.loc[middles.index, ["round"]].assign(
        relation=samples.loc[middles.index, "relation"].astype(str), ns=middles.to_numpy()
    )
    return keyed.groupby(["relation", "round"], sort=False)["ns"].median().reset_index()
