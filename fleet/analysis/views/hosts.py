"""What is shown of a selection: several hosts in one table, a single one in detail."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fleet.analysis.reduce.cells import ALL, Only, overview_history
from fleet.analysis.selection import by_host, comparable, select
from fleet.analysis.views import overview
from fleet.analysis.views.heatmap import Canvas
from fleet.analysis.views.show import map_text, show_text
from fleet.store import Listing, RunSummary
from fleet.store.runs import Root, last_session


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown: the runs whose numbers count, oldest first, and the last run of each host."""

    runs: tuple[RunSummary, ...]
    latest: tuple[str, ...]


def chosen(root: Listing, texts: Sequence[str]) -> Shown:
    """The last session without `texts`, else the comparable runs of each host selected. Raises UsageError."""
    listed = root.runs
    if texts:
        hosts = by_host(select(listed, texts, root.place))
    else:
        last = set(last_session(listed, root.place))
        hosts = by_host([run for run in listed if run.run_id in last])
    kept = {host: comparable(runs) for host, runs in hosts.items()}
    ids = {run.run_id for runs in kept.values() for run in runs}
    counting = tuple(run for run in listed if run.run_id in ids)
    return Shown(counting, tuple(runs[-1].run_id for runs in kept.values()))


def shown_text(root: Root, shown: Shown, canvas: Canvas, only: Only = ALL, **detail: Any) -> str:
    """The selection for people. detail: as of `show_text`; of several hosts only `as_map` applies."""
    if len(shown.latest) == 1:
        return show_text(root, shown.latest[0], canvas=canvas, only=only, earlier=shown.runs, **detail)
    parts = [overview.heading(shown.runs), overview_of(root, shown.runs, canvas, only)]
    if detail.get("as_map"):
        parts += [map_text(root, run_id, canvas, only) for run_id in shown.latest]
    parts.append(f"Details: fleet show {shown.runs[0].host_name}")
    return "\n\n".join(part for part in parts if part)


def overview_of(
    root: Root, runs: Sequence[RunSummary], canvas: Canvas, only: Only = ALL, *, ends: bool = False
) -> str:
    """The overview of runs, and what it leaves out. ends: only the fastest and the slowest host."""
    table = overview.medians(overview_history(root, runs, only))
    if ends and len(table):
        listed = overview.extremes_text(table, canvas.width)
    else:
        listed = overview.overview_text(table, canvas)
    return "\n\n".join(filter(None, (listed, overview.not_shown(table, runs, only))))
