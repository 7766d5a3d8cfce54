"""Choose the runs that `fleet show` shows of a selection, and say what is left out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fleet.analysis.base import selection
from fleet.store import Listing, RunSummary
from fleet.text import format_command, format_count, one_line


@dataclass(frozen=True, slots=True)
class RunsToShow:
    """The selection of `fleet show`. runs: oldest first. latest: the ID of each host's
    last run.

    left_out: if nothing was selected, how many hosts have runs but were not in the last
    session. missing: selected hosts that the session of the last run, or a later one,
    could not measure. others: lines on selected runs of a single host that are not
    shown but have what the last run lacks, or no samples.
    """

    runs: tuple[RunSummary, ...]
    latest: tuple[str, ...]
    left_out: int = 0
    missing: tuple[selection.MissingHost, ...] = ()
    others: tuple[str, ...] = ()


def select_runs_to_show(
    root: Listing, texts: Sequence[str], benchmark: str | None = None
) -> RunsToShow:
    """Select the comparable runs of a selection, or of the last session. Raises
    UsageError if none.

    benchmark: take each host's last run that has it; a host without it keeps its last
    run. Raises UsageError if no host has it.
    """
    listed = root.runs
    chosen = texts or selection.find_last_session_runs(listed, root.place, benchmark)
    selected = selection.select_runs(listed, chosen, root.place)
    selection.filter_runs(selected, benchmark)  # raises UsageError if no host has it
    runs_by_host = selection.group_by_host(selected)
    comparable_by_host = [
        _keep_comparable(runs, benchmark) for runs in runs_by_host.values()
    ]
    latest = [runs[-1].run_id for runs in comparable_by_host]
    run_ids = {run.run_id for runs in comparable_by_host for run in runs}
    shown = [run for run in listed if run.run_id in run_ids]
    last = shown[-1]
    missing = selection.list_missing_hosts(listed, root.place, last.session_id)
    left_out = 0
    if texts:
        missing = [host for host in missing if host.is_selected_by(texts)]
    else:
        left_out = len({run.host_id for run in listed}) - len(runs_by_host)
    others = list[str]()
    if len(latest) == 1 and benchmark is None:
        others = [*_describe_others(selected, last)]
    return RunsToShow(
        tuple(shown), tuple(latest), left_out, tuple(missing), tuple(others)
    )


def _keep_comparable(
    runs_of_host: Sequence[RunSummary], benchmark: str | None
) -> list[RunSummary]:
    """Keep the runs that are comparable with the last one that has `benchmark`; if none
    has it, with the last one.
    """
    comparable = selection.keep_comparable_with_last(runs_of_host, benchmark)
    return comparable or selection.keep_comparable_with_last(runs_of_host)


def _describe_others(
    runs_of_host: Sequence[RunSummary], last: RunSummary
) -> Iterator[str]:
    """Yield a line on what earlier runs of a host have and its last run lacks, and one
    on each later run without samples.
    """
    days = _find_last_days(runs_of_host)
    lacking = {kind: day for kind, day in days.items() if kind not in last.benchmarks}
    if lacking:
        listed = ", ".join(f"{kind} of {day}" for kind, day in lacking.items())
        first = next(iter(lacking))
        command = format_command("fleet", "show", last.host_name, "-b", first)
        yield one_line(f"only earlier runs have {listed}: {command}")
    for run in runs_of_host:
        if not run.samples and run.started_utc > last.started_utc:
            began = f"{run.started_utc:%Y-%m-%d %H:%M}"
            failed = format_count(run.failed or 0, "burst")
            yield one_line(
                f"later, without samples: {run.run_id}, {began}, {failed} failed"
            )


def _find_last_days(runs: Sequence[RunSummary]) -> dict[str, str]:
    """Return each benchmark and variant with the day of its last run with samples.
    runs: oldest first.
    """
    days = dict[str, str]()
    for run in runs:
        if run.samples:
            day = f"{run.started_utc:%Y-%m-%d}"
            days |= dict.fromkeys(sorted(run.benchmarks), day)
    return days
