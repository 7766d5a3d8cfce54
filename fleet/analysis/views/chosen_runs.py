"""Choose the runs that `fleet show` shows of a selection, and say what is left out."""

from collections.abc import Collection, Iterator, Sequence
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
    could not measure. lines_on_other_runs: on selected runs of a single host that are
    not shown but have what the last run lacks, or no samples.
    """

    runs: tuple[RunSummary, ...]
    latest: tuple[str, ...]
    left_out: int = 0
    missing: tuple[selection.MissingHost, ...] = ()
    lines_on_other_runs: tuple[str, ...] = ()


def select_runs_to_show(
    root: Listing, texts: Sequence[str], benchmark: str | None = None
) -> RunsToShow:
    """Select the runs to show of a selection or, without `texts`, of the last session.

    Of each host, these are its last run and the runs that are comparable with it, as
    they have the same benchmarks and machine. benchmark: of each host, take the last
    run that has this benchmark; a host without such a run keeps its last run. Raises
    UsageError if no run is selected, or no host has the benchmark.
    """
    selected = _select_runs(root, texts, benchmark)
    runs_by_host = selection.group_by_host(selected)
    last_run_ids = []
    run_ids = set[str]()
    for runs_of_host in runs_by_host.values():
        comparable = _keep_comparable(root, runs_of_host, benchmark)
        last_run_ids.append(comparable[-1].run_id)
        run_ids.update(run.run_id for run in comparable)
    runs = tuple(run for run in root.runs if run.run_id in run_ids)
    lines_on_other_runs = tuple[str, ...]()
    # a page about one host has room for lines on its runs that are not shown
    is_whole_page_of_host = len(last_run_ids) == 1 and benchmark is None
    if is_whole_page_of_host:
        lines_on_other_runs = tuple(_describe_others(selected, last=runs[-1]))
    left_out = 0
    if not texts:
        left_out = _count_other_hosts(root, runs_by_host)
    return RunsToShow(
        runs=runs,
        latest=tuple(last_run_ids),
        left_out=left_out,
        missing=_list_missing_hosts(root, texts, runs),
        lines_on_other_runs=lines_on_other_runs,
    )


def _count_other_hosts(root: Listing, host_ids: Collection[str]) -> int:
    """Count the hosts with runs but for these."""
    every_host = {run.host_id for run in root.runs}
    return len(every_host) - len(host_ids)


def _select_runs(
    root: Listing, texts: Sequence[str], benchmark: str | None
) -> list[RunSummary]:
    """Select runs, by default those of the last session. Raises UsageError if none has
    `benchmark`.
    """
    runs = root.runs
    selectors = texts or selection.find_last_session_runs(root, benchmark)
    selected = selection.select_runs(runs, selectors, root)
    selection.filter_runs(root, selected, benchmark)  # raises the error
    return selected


def _list_missing_hosts(
    listing: Listing, texts: Sequence[str], runs: Sequence[RunSummary]
) -> tuple[selection.MissingHost, ...]:
    """List the hosts that the session of the last run shown, or a later session, failed
    to measure, and of which no run is shown. texts: only hosts that these select; if
    empty, all.
    """
    session_of_last_run = runs[-1].session_id
    names_shown = {run.host_name for run in runs}
    missing = []
    for host in selection.list_missing_hosts(
        listing.runs, listing.place, since=session_of_last_run
    ):
        is_selected = not texts or host.is_selected_by(texts)
        if is_selected and host.name not in names_shown:
            missing.append(host)
    return tuple(missing)


def _keep_comparable(
    root: Listing, runs_of_host: Sequence[RunSummary], benchmark: str | None
) -> list[RunSummary]:
    """Keep the runs that are comparable with the last one that has `benchmark`; if none
    has it, with the last one.
    """
    comparable = selection.keep_comparable_with_last(root, runs_of_host, benchmark)
    return comparable or selection.keep_comparable_with_last(root, runs_of_host)


def _describe_others(
    runs_of_host: Sequence[RunSummary], last: RunSummary
) -> Iterator[str]:
    """Yield a line on what earlier runs of a host have and its last run lacks, and one
    on each later run without samples.
    """
    days = _find_last_days(runs_of_host)
    only_earlier = [choice for choice in days if choice not in last.benchmarks]
    if only_earlier:
        choices = ", ".join(f"{choice} of {days[choice]}" for choice in only_earlier)
        command = format_command("fleet", "show", last.host_name, "-b", only_earlier[0])
        yield one_line(f"only earlier runs have {choices}: {command}")
    for run in runs_of_host:
        if not run.samples and run.started_utc > last.started_utc:
            yield _describe_run_without_samples(run)


def _describe_run_without_samples(run: RunSummary) -> str:
    began = f"{run.started_utc:%Y-%m-%d %H:%M}"
    failed = format_count(run.failed or 0, "burst")
    return one_line(f"later, without samples: {run.run_id}, {began}, {failed} failed")


def _find_last_days(runs: Sequence[RunSummary]) -> dict[str, str]:
    """Return each benchmark and variant with the day of its last run with samples.
    runs: oldest first.
    """
    days = dict[str, str]()
    for run in runs:
        if run.samples:
            choices = sorted(run.benchmarks)
            day = f"{run.started_utc:%Y-%m-%d}"
            days |= dict.fromkeys(choices, day)
    return days
