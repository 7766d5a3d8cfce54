"""What `fleet runs --relation` prints: the latency of a relation, run by run."""

from collections.abc import Callable, Container, Sequence
from datetime import UTC
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.arrays import Floats
from fleet.analysis.reduce.cells import are_pairs, history_of, is_level
from fleet.analysis.reduce.pairs import history
from fleet.analysis.reduce.split import geometric_mean, runs_by_level
from fleet.analysis.views.text import (
    is_rate,
    kind_of,
    labels_alike,
    labels_text,
    measured,
    percent,
    records,
    units_text,
    with_labels_alike,
    within,
)
from fleet.errors import UsageError
from fleet.model import Relation, RunState
from fleet.store import RunSummary
from fleet.store.runs import Root
from fleet.text import nearest, table

SPARKS = 24
_BLOCKS = "▁▂▃▄▅▆▇█"
_CLASS = ["benchmark", "variant", "relation"]
_LEAST_SPAN = 0.05  # of the smallest value; less would make noise look like change


def of_relation(
    root: Root,
    runs: Sequence[RunSummary],
    relation: str,
    benchmark: str | None,
    note: Callable[[str], None] | None = None,
) -> pd.DataFrame:
    """The `history` of one relation or level of memory over `runs`. Raises UsageError where it has none."""
    if is_level(relation):
        found = history_of(root, _stored(root, runs), relation, benchmark=benchmark, note=note)
        if found.empty:
            why = f"none of these runs has the level {relation}. `fleet show` lists what a run has."
            raise UsageError(f"{root}: {why}")
        return found
    try:
        relation = str(Relation(relation))
    except ValueError:
        known = [str(each) for each in Relation]
        raise UsageError(
            f"--relation {relation}: no such relation{nearest(relation, known)} There are "
            f"{', '.join(known)}, and the levels of memory L1, L2, …, LLC and mem."
        ) from None
    ids = [run.run_id for run in _stored(root, runs)]
    benchmark, _, variant = (benchmark or "").partition("/")
    found = history(root, run_id=ids, relation=relation, benchmark=benchmark or None, note=note)
    if variant:
        found = found[found["variant"] == variant]
    if found.empty:
        what = f"pair of relation {relation}" + (
            f" measured with {benchmark}{'/' * bool(variant)}{variant}" if benchmark else ""
        )
        raise UsageError(f"{root}: none of {len(ids)} runs has a {what}. `fleet show` lists what a run has.")
    return found


def of_point(
    root: Root,
    runs: Sequence[RunSummary],
    point: str,
    benchmark: str | None,
    note: Callable[[str], None] | None = None,
) -> pd.DataFrame:
    """The same of one point. Raises UsageError where no run has it."""
    return history_of(root, _stored(root, runs), point, benchmark=benchmark, point=True, note=note)


def _stored(root: Root, runs: Sequence[RunSummary]) -> list[RunSummary]:
    found = [run for run in runs if run.state is not RunState.UNFINISHED]
    if not found:
        raise UsageError(
            f"{root}: no such run is stored here. `fleet runs` lists all; --results names another root."
        )
    return found


def past_text(found: pd.DataFrame, width: int | None = None) -> str:
    """A line per run, benchmark and variant, oldest first; then each host's course. width: of the page."""
    relations = list(found["relation"].unique())
    several = len(relations) > 1
    names = ["started (UTC)", "host", "run", "benchmark", *["of"] * several]
    numbers = ["pairs", "median", "min", "max", "p99", "±95%", "flagged"]
    titles, right = [*names, *numbers, "labels"], range(len(names), len(names) + len(numbers))
    rows = records(found)
    alike = labels_alike([row["labels"] for row in rows])
    lines = [_line(row, several=several, alike=alike) for row in rows]
    drop = ("p99", "min", "max", "run", "flagged", "pairs")
    listed = table(titles, lines, right=right, width=width, drop=drop)
    levels = not are_pairs(found["relation"]).any()
    number = units_text(found["benchmark"])
    shown = listed.partition("\n")[0].split()
    parts, part = ("CPUs and groups", "of them") if levels else ("pairs", "pair")
    of_pairs, of_pair = (
        ", ".join(name for name in names if name in shown)
        for names in (("median", "min", "max"), ("p99", "±95%"))
    )
    what = f"{number}; {of_pairs}: of {parts}; {of_pair}: of the median {part}"
    whole = with_labels_alike(listed, alike) + _courses(found)
    return f"{relations[0] if not several else 'levels of memory'}: {what}\n{whole}"


def _courses(found: pd.DataFrame) -> str:
    """A line per host, benchmark and variant measured several times: its runs as a sparkline."""
    keys = ["host_name", *_CLASS]
    rows = [
        (
            str(host),
            f"{name}/{variant}",
            str(relation),
            sparkline(part["median_ns"].to_numpy(dtype=float)),
        )
        for (host, name, variant, relation), part in found.groupby(keys, sort=False)
        if len(part) > 1
    ]
    return "\n\n" + table(("host", "benchmark", "of", "oldest to newest"), rows) if rows else ""


def past_of_runs(root: Root, runs: Sequence[RunSummary], benchmark: str | None = None) -> str:
    """A host's comparable runs in a table: of each relation the level that most are at, and its course."""
    only, _, kind = (benchmark or "").partition("/")
    found = history(root, run_id=[run.run_id for run in runs], benchmark=only or None)
    found = found[found["variant"] == kind] if kind else found
    rows = []
    for (name, variant, relation), part in found.groupby(_CLASS, sort=False):
        values = part["median_ns"].to_numpy(dtype=float)
        usual = runs_by_level(values)[0]
        rows.append(
            (
                f"{name}/{variant}",
                str(relation),
                f"{geometric_mean(usual):.1f}",
                f"{len(usual)} of {len(values)}",
                f"{values.min():.1f}",
                f"{values.max():.1f}",
                sparkline(values),
            )
        )
    first, last = runs[0].started_utc, runs[-1].started_utc
    titles = ("benchmark", "relation", "usual", "runs", "min", "max", "oldest to newest")
    return (
        (
            f"{len(runs)} comparable runs, {first:%Y-%m-%d} to {last:%Y-%m-%d}: medians in ns by run\n"
            + table(titles, rows, right={2, 3, 4, 5})
            + "\nusual: geometric mean of the runs at the level that most are at"
            + "\nThe last run:"
        )
        if rows
        else ""
    )


def sparkline(values: Sequence[float] | Floats) -> str:
    """The course of some values as blocks, at most the newest SPARKS; a span of 5 % is at least as tall."""
    shown = np.asarray(values, dtype=float)[-SPARKS:]
    low, high = float(shown.min()), float(shown.max())
    spare = max(_LEAST_SPAN * low - (high - low), 0.0) / 2
    low, high = low - spare, high + spare
    share = (shown - low) / (high - low) if high > low else np.full(len(shown), 0.5)
    return "".join(_BLOCKS[min(int(each * len(_BLOCKS)), len(_BLOCKS) - 1)] for each in share)


def _line(row: dict[str, Any], *, several: bool, alike: Container[str]) -> tuple[str, ...]:
    least, most = ("max_ns", "min_ns") if is_rate(row["benchmark"]) else ("min_ns", "max_ns")
    return (
        f"{row['started_utc'].astimezone(UTC):%Y-%m-%d %H:%M:%S}",
        row["host_name"],
        row["run_id"],
        kind_of(row),
        *([row["relation"]] if several else []),
        str(row["pairs"]),
        *(measured(row["benchmark"], row[name]) for name in ("median_ns", least, most, "p99_ns")),
        within(row["spread"]),
        percent(row["flagged_share"]),
        labels_text(row["labels"], without=alike),
    )
