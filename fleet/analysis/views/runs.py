"""Text and JSON of `fleet runs`. Reads no samples and needs no pandas."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC

from fleet.analysis.base.text import (
    add_common_labels,
    find_common_labels,
    format_document,
    format_labels,
)
from fleet.store import RunSummary
from fleet.text import table

_MAX_KINDS = 4  # benchmarks and variants up to which all are named; --json has all


def render_runs(runs: Sequence[RunSummary], *, width: int | None = None) -> str:
    """Render a line per run, oldest first. width: of the terminal."""
    if not runs:
        return (
            "No runs are stored here. `fleet run` measures; --results names another"
            " root."
        )
    titles = (
        "run",
        "host",
        "started (UTC)",
        "target",
        "benchmarks",
        "pairs",
        "bursts",
        "state",
        "labels",
    )
    drop = ("target", "bursts", "pairs", "started (UTC)", "benchmarks")
    common_labels, lines = find_common_labels([dict(run.labels) for run in runs]), []
    for run in runs:
        kinds, more = run.benchmarks, len(run.benchmarks) - _MAX_KINDS + 1
        kinds = (*kinds[:-more], f"+{more}") if more > 1 else kinds
        started = str(run.started_utc.astimezone(UTC))[:19]  # strftime is slow
        counts = (
            "-" if count is None else str(count) for count in (run.pairs, run.bursts)
        )
        state = f"{run.state}, {run.failed} failed" if run.failed else run.state
        labels = format_labels(dict(run.labels), without=common_labels)
        about = (run.run_id, run.host_name, started, run.target, ",".join(kinds))
        lines.append((*about, *counts, state, labels))
    return add_common_labels(
        table(titles, lines, right={5, 6}, width=width, drop=drop), common_labels
    )


def runs_as_json(runs: Sequence[RunSummary]) -> str:
    """Render the runs as a list of objects, oldest first."""
    rows = [asdict(run) | {"labels": dict(run.labels)} for run in runs]
    for row in rows:
        del row["descriptions"]
    return format_document("runs", rows)
