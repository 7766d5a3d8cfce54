"""What `fleet runs` prints, as text and as JSON. Reads no samples and needs no pandas."""

from collections.abc import Container, Sequence
from dataclasses import asdict
from datetime import UTC

from fleet.analysis.views.text import json_text, labels_alike, labels_text, with_labels_alike
from fleet.errors import UsageError
from fleet.store import RunSummary
from fleet.text import counted, one_line, table

_MOST_KINDS = 4  # benchmarks and variants that are all named; of more some, and --json has all


def with_labels(runs: Sequence[RunSummary], labels: Sequence[str]) -> list[RunSummary]:
    """The runs that have all these labels, each KEY=VALUE. Raises UsageError for what is no label."""
    for label in labels:
        if "=" not in label:
            raise UsageError(f"--label {label}: a label is KEY=VALUE.")
    wanted = {tuple(label.split("=", 1)) for label in labels}
    return [run for run in runs if not wanted - set(run.labels)]


def runs_text(runs: Sequence[RunSummary], *, of: int = 0, width: int | None = None) -> str:
    """A line per run, oldest first. of: how many runs there were before filtering. width: of the terminal."""
    if not runs and not of:
        return "No runs are stored here. `fleet run` measures; --results names another root."
    if not runs:
        return f"None of {counted(of, 'run')} matches. `fleet runs` lists all."
    titles = ("run", "host", "started (UTC)", "target", "benchmarks", "pairs", "bursts", "state", "labels")
    drop = ("target", "bursts", "pairs", "started (UTC)", "benchmarks")
    alike = labels_alike([dict(run.labels) for run in runs])
    listed = table(titles, [_run_line(run, alike) for run in runs], right={5, 6}, width=width, drop=drop)
    return with_labels_alike(listed, alike)


def runs_json(runs: Sequence[RunSummary]) -> str:
    """The runs as a list of objects, oldest first."""
    return json_text([asdict(run) | {"labels": dict(run.labels)} for run in runs])


def _kinds(names: Sequence[str]) -> str:
    most = _MOST_KINDS - 1
    return ",".join(names) if len(names) <= _MOST_KINDS else f"{','.join(names[:most])},+{len(names) - most}"


def _run_line(run: RunSummary, alike: Container[str]) -> tuple[str, ...]:
    started = run.started_utc.astimezone(UTC)
    failed = f", {run.failed} failed" if run.failed else ""
    counts = ("-" if count is None else str(count) for count in (run.pairs, run.bursts))
    return (
        run.run_id,
        one_line(run.host_name),
        f"{started:%Y-%m-%d %H:%M:%S}",
        run.target,
        _kinds(run.benchmarks),
        *counts,
        f"{run.state}{failed}",
        labels_text(dict(run.labels), without=alike),
    )
