"""Text and JSON of `fleet runs`. Reads no samples and needs no pandas."""

from collections.abc import Container, Sequence
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

_TITLES = (
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
_COUNTS = {_TITLES.index("pairs"), _TITLES.index("bursts")}
# what a narrow terminal leaves out, in this order
_DROPPED = ("target", "bursts", "pairs", "started (UTC)", "benchmarks")
_MAX_CHOICES = 4  # benchmarks and variants up to which all are named; --json has all


def render_runs(runs: Sequence[RunSummary], *, width: int | None = None) -> str:
    """Render a line per run, oldest first. width: of the terminal."""
    if not runs:
        return (
            "No runs are stored here. `fleet run` measures; or name another results"
            " root."
        )
    common_labels = find_common_labels([dict(run.labels) for run in runs])
    lines = [_describe_run(run, common_labels) for run in runs]
    body = table(_TITLES, lines, right=_COUNTS, width=width, drop=_DROPPED)
    return add_common_labels(body, common_labels)


def _describe_run(run: RunSummary, common_labels: Container[str]) -> tuple[str, ...]:
    """Return the cells of a run, in the order of _TITLES. common_labels: keys of labels
    to leave out.
    """
    started = str(run.started_utc.astimezone(UTC))[:19]  # strftime is slow
    state = str(run.state)
    if run.failed:
        state = f"{state}, {run.failed} failed"
    return (
        run.run_id,
        run.host_name,
        started,
        run.target,
        _name_choices(run.benchmarks),
        _format_known(run.pairs),
        _format_known(run.bursts),
        state,
        format_labels(dict(run.labels), without=common_labels),
    )


def _name_choices(choices: Sequence[str]) -> str:
    """Name benchmarks and variants: "cas/c11,readwrite/mov"; of many the first ones,
    and how many more: "+3".
    """
    if len(choices) <= _MAX_CHOICES:
        return ",".join(choices)
    first_choices = choices[: _MAX_CHOICES - 1]
    more = len(choices) - len(first_choices)
    return ",".join([*first_choices, f"+{more}"])


def _format_known(count: int | None) -> str:
    return "-" if count is None else str(count)


def runs_as_json(runs: Sequence[RunSummary]) -> str:
    """Render the runs as a list of objects, oldest first."""
    rows = []
    for run in runs:
        row = asdict(run)
        del row["descriptions"]
        row["labels"] = dict(run.labels)
        rows.append(row)
    return format_document("runs", rows)
