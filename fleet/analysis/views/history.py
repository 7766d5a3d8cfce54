"""What `fleet runs --relation` prints: the latency of a relation, run by run."""

from collections.abc import Callable, Sequence
from datetime import UTC
from pathlib import Path
from typing import Any

import pandas as pd

from fleet.analysis.reduce.pairs import history
from fleet.analysis.views.text import json_text, labels_text, percent, records, within
from fleet.errors import UsageError
from fleet.model import Relation, RunState
from fleet.store import RunSummary
from fleet.text import nearest, one_line, table


def of_relation(
    root: str | Path,
    runs: Sequence[RunSummary],
    relation: str,
    benchmark: str | None,
    note: Callable[[str], None] | None = None,
) -> pd.DataFrame:
    """The `history` of one relation over `runs`. Raises UsageError where it has none."""
    try:
        relation = str(Relation(relation))
    except ValueError:
        known = [str(each) for each in Relation]
        raise UsageError(
            f"--relation {relation}: no such relation{nearest(relation, known)} There are {', '.join(known)}."
        ) from None
    ids = [run.run_id for run in runs if run.state is not RunState.UNFINISHED]
    if not ids:
        raise UsageError(
            f"{root}: no such run is stored here. `fleet runs` lists all; --results names another root."
        )
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


def past_text(found: pd.DataFrame) -> str:
    """A line per run, benchmark and variant, oldest first."""
    titles = (
        "started (UTC)",
        "host",
        "run",
        "benchmark",
        "pairs",
        "median",
        "min",
        "max",
        "p99",
        "±95%",
        "flagged",
        "labels",
    )
    (relation,) = found["relation"].unique()
    listed = table(titles, [_line(row) for row in records(found)], right=set(range(4, 11)))
    what = "one-way latency in ns; median, min, max: of pairs; p99, ±95%: of the median pair"
    return f"{relation}: {what}\n{listed}"


def past_json(found: pd.DataFrame) -> str:
    """The same as a list of objects, nothing rounded."""
    return json_text(records(found))


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        f"{row['started_utc'].astimezone(UTC):%Y-%m-%d %H:%M:%S}",
        one_line(row["host_name"]),
        row["run_id"],
        f"{row['benchmark']}/{row['variant']}",
        str(row["pairs"]),
        *(f"{row[name]:.1f}" for name in ("median_ns", "min_ns", "max_ns", "p99_ns")),
        within(row["spread"]),
        percent(row["flagged_share"]),
        labels_text(row["labels"]),
    )
