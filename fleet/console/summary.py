"""Renders how a session, `fleet resume` and `fleet clean` ended, as text and as JSON.
Prints nothing.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from textwrap import indent

from fleet.errors import StoreError
from fleet.hostnames import group_messages, join_names, strip_host_name
from fleet.model import FORECAST, Host
from fleet.session.clean import CleanedHost
from fleet.session.events import Outcome, State
from fleet.session.resume import Remaining
from fleet.store import Listing, RunSummary, Store
from fleet.text import as_document, format_count, table

MANY = 20  # hosts; above it people want groups, not rows
MAX_HOSTS_WITH_LIVE_NOTES = 3  # of more, notes are shown at the end, equal ones once
MESSAGES_SHOWN = 20
MESSAGE_LIMIT = 3_000  # characters of one message; the session's log has all of it
# Reducing more would delay the end of a session; `fleet show` does it.
MAX_BURSTS = 400_000
MAX_HOSTS = 50
_NAMES_LENGTH = 60  # characters of the hosts' names in a row
MAX_EARLIER_RUNS = 20  # of a host, to say how far its runs differ


@dataclass(frozen=True, slots=True)
class Hints:
    """Options for suggested commands, such as "-r lab/results"; the log folder; whether
    to suggest resume.
    """

    results_option: str = ""
    inventory_option: str = ""
    logs: str = ""
    resumes: bool = True


_NO_HINTS = Hints()


def render_outcomes(
    outcomes: Sequence[Outcome],
    seconds: float,
    hints: Hints = _NO_HINTS,
    medians: str = "",
    width: int | None = None,
) -> str:
    """Render a row per host, or per state and stage for many hosts; then failures,
    notes and next steps.

    seconds: that the session took. medians: the table that `render_medians` returns of
    the complete hosts. It replaces their rows: only hosts that are not complete have
    rows of their own then, and if there are none, there is no table of endings.
    """
    parts = []
    outcomes_to_tell = outcomes
    if medians:
        outcomes_to_tell = [
            outcome for outcome in outcomes if outcome.state is not State.COMPLETE
        ]
    if outcomes_to_tell:
        if len(outcomes) > MANY:
            endings = _tabulate_endings(outcomes)  # counts, so of all hosts
        else:
            endings = _tabulate_hosts(outcomes_to_tell, width)
        parts.append(endings)
    parts += render_failures(outcomes)
    if medians:
        parts.append(medians)
    if len(outcomes) > MAX_HOSTS_WITH_LIVE_NOTES:
        parts += _group_notes(outcomes)
    parts.append(_render_ending(outcomes, seconds, hints))
    return "\n\n".join(parts)


def _tabulate_hosts(outcomes: Sequence[Outcome], width: int | None) -> str:
    """Tabulate how the part of each host ended."""
    rows = []
    for outcome in outcomes:
        row = (
            outcome.host.name,
            str(outcome.state),
            outcome.stage,
            outcome.run_id or "-",
            str(outcome.bursts),
            f"{outcome.seconds:.1f} s",
        )
        rows.append(row)
    titles = ("host", "state", "stage", "run", "bursts", "time")
    return table(titles, rows, width=width)


def render_medians(
    store: Store,
    outcomes: Sequence[Outcome],
    width: int | None,
    *,
    colour: bool,
    as_map: bool = False,
) -> str:
    """Render the medians of the stored runs as `fleet show` does. Return "" if no run
    was stored, or too many to be read now; return the error if the store cannot be
    read.
    """
    run_ids = {outcome.run_id for outcome in outcomes if outcome.is_stored}
    bursts = sum(outcome.bursts for outcome in outcomes)
    are_too_many = bursts > MAX_BURSTS or len(run_ids) > MAX_HOSTS
    if not run_ids or are_too_many:
        return ""
    try:
        return _summarize_runs(store, run_ids, width, colour=colour, as_map=as_map)
    except StoreError as err:
        return f"The runs are stored, but cannot be summarized: {err}"


def _summarize_runs(
    store: Store,
    run_ids: Collection[str | None],
    width: int | None,
    *,
    colour: bool,
    as_map: bool,
) -> str:
    """Render an overview of these runs, and their heat maps if asked for (`as_map`). Of
    many runs, render only the extreme hosts, without maps, and read no earlier runs for
    intervals, which would take long. width: of the terminal. Raises StoreError.
    """
    from fleet.analysis.views.heatmap import Canvas  # noqa: PLC0415  it loads numpy
    from fleet.analysis.views.show import render_maps, render_overview  # noqa: PLC0415

    root = Listing(store.place)
    runs = [run for run in root.runs if run.run_id in run_ids]
    are_many = len(run_ids) > MANY
    earlier_runs = list[RunSummary]()
    if not are_many:
        earlier_runs = _find_earlier_runs(root, runs)
    canvas = Canvas(width, colour)
    overview = render_overview(root, runs, canvas, earlier_runs, ends=are_many)
    parts = [overview]
    if as_map and not are_many:
        parts += [render_maps(root, run.run_id, canvas) for run in runs]
    return "\n\n".join(filter(None, parts))


def _find_earlier_runs(root: Listing, runs: Sequence[RunSummary]) -> list[RunSummary]:
    """Return the earlier runs of the same hosts that are comparable with each host's
    last run: of a host the last MAX_EARLIER_RUNS, without `runs` themselves.
    """
    from fleet.analysis.base.selection import (  # noqa: PLC0415  it loads numpy
        group_by_host,
        keep_comparable_with_last,
    )

    host_ids = {run.host_id for run in runs}
    run_ids = {run.run_id for run in runs}
    runs_of_hosts = [run for run in root.runs if run.host_id in host_ids]
    earlier = []
    for runs_of_host in group_by_host(runs_of_hosts).values():
        last = keep_comparable_with_last(root, runs_of_host)[-MAX_EARLIER_RUNS:]
        earlier += [run for run in last if run.run_id not in run_ids]
    return earlier


def _render_ending(outcomes: Sequence[Outcome], seconds: float, hints: Hints) -> str:
    """Render how many runs were stored, and what to do next."""
    stored = [outcome for outcome in outcomes if outcome.is_stored]
    lines = [
        _count_stored(outcomes, stored, seconds),
        *_suggest_commands(outcomes, stored, hints),
    ]
    has_failures = any(outcome.message for outcome in outcomes)
    if hints.logs and has_failures:
        lines.append(f"Full log: {hints.logs}")
    return "\n".join(line.rstrip() for line in lines)


def _suggest_commands(
    outcomes: Sequence[Outcome], stored: Sequence[Outcome], hints: Hints
) -> Iterator[str]:
    """Yield lines on the commands that show what was stored, and that measure the
    rest.
    """
    # `fleet resume` has nothing to do for a host that is settled
    are_settled = all(outcome.is_settled for outcome in outcomes)
    if stored:
        yield f"Next: fleet show {hints.results_option}"
    if stored and are_settled and len(outcomes) > 1:
        name = stored[0].host.name
        yield f"  fleet show {name} {hints.results_option}"
    if not are_settled and hints.resumes:
        options = f"{hints.results_option} {hints.inventory_option}".strip()
        yield f"To measure what is missing: fleet resume {options}"


def _count_stored(
    outcomes: Sequence[Outcome], stored: Sequence[Outcome], seconds: float
) -> str:
    """Render "2 of 3 hosts stored, 48 bursts, 3.1 s."; runs are counted if a host has
    several.
    """
    names = {outcome.host.name for outcome in outcomes}
    noun = "host"
    if len(names) < len(outcomes):
        noun = "run"
    total = format_count(len(outcomes), noun)
    if not stored:
        return f"0 of {total} stored."
    count = sum(outcome.bursts for outcome in stored)
    bursts = format_count(count, "burst")
    again = sum(outcome.again for outcome in stored)
    if again:
        bursts += f", {again:,} taken again"
    return f"{len(stored)} of {total} stored, {bursts}, {seconds:.1f} s."


def _tabulate_endings(outcomes: Sequence[Outcome]) -> str:
    """Render a row per state and stage, the most frequent first."""
    outcomes_by_ending: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        ending = (str(outcome.state), outcome.stage)
        outcomes_by_ending[ending].append(outcome)
    groups = outcomes_by_ending.values()
    most_frequent_first = sorted(groups, key=len, reverse=True)
    rows = [_describe_ending(group) for group in most_frequent_first]
    titles = ("hosts", "state", "stage", "bursts", "time: median, longest", "which")
    return table(titles, rows)


def _describe_ending(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """Return the cells of hosts that ended in the same state and stage."""
    first = outcomes[0]
    seconds = [outcome.seconds for outcome in outcomes]
    bursts = sum(outcome.bursts for outcome in outcomes)
    names = [outcome.host.name for outcome in outcomes]
    return (
        f"{len(outcomes):,}",
        str(first.state),
        first.stage,
        f"{bursts:,}",
        f"{median(seconds):.1f} s, {max(seconds):.1f} s",
        join_names(names, _NAMES_LENGTH),
    )


def render_failures(outcomes: Sequence[Outcome]) -> list[str]:
    """Render each failure message once, with its hosts, the most frequent first; count
    the rest.
    """
    messages = []
    for outcome in outcomes:
        if outcome.message:
            # failures of different stages are not one, even if worded alike
            text = f"{outcome.stage}: {outcome.message}"
            messages.append((outcome.host, text))
    groups = group_messages(messages)
    shown = groups[:MESSAGES_SHOWN]
    hidden = groups[MESSAGES_SHOWN:]
    texts = [_render_failure(text, names) for text, names in shown]
    if hidden:
        failures = format_count(len(hidden), "other failure")
        texts.append(f"{failures} on {count_hosts(hidden)}: see --json.")
    return texts


def _render_failure(text: str, names: Sequence[str]) -> str:
    """Render a failure of these hosts. text: the stage and message of the first."""
    stage, _, message = text.partition(": ")
    message = shorten_message(message)
    if len(names) == 1:
        return f"{stage}: {message}"
    hosts = format_count(len(names), "host")
    return f"{hosts}, {stage}: {join_names(names)}\n  the first: {message}"


def count_hosts(groups: Iterable[tuple[object, Sequence[str]]]) -> str:
    """Count the hosts of several groups, each with the names of its own."""
    count = sum(len(names) for _, names in groups)
    return format_count(count, "host")


def _group_notes(outcomes: Sequence[Outcome]) -> list[str]:
    """Render each note once, with its hosts, the most frequent first; count the
    rest.
    """
    groups = group_messages(_list_notes(outcomes), numbers_alike=True)
    if not groups:
        return []
    lines = ["Notes"]
    lines += [_render_note(text, names) for text, names in groups[:MESSAGES_SHOWN]]
    hidden = len(groups) - MESSAGES_SHOWN
    if hidden > 0:
        lines.append(f"  and {format_count(hidden, 'other note')}: see --json.")
    return ["\n".join(lines)]


def _render_note(text: str, names: Sequence[str]) -> str:
    hosts = format_count(len(names), "host")
    which = join_names(names, _NAMES_LENGTH)
    return f"  {hosts} ({which}): {shorten_message(text)}"


def _list_notes(outcomes: Sequence[Outcome]) -> Iterator[tuple[Host, str]]:
    """Yield each host's notes, without its name and without the forecast."""
    for outcome in outcomes:
        for note in outcome.notes:
            if not note.startswith(FORECAST):
                yield outcome.host, strip_host_name(outcome.host, note)


def shorten_message(text: str) -> str:
    """Leave out the middle of a message longer than MESSAGE_LIMIT."""
    hidden = len(text) - MESSAGE_LIMIT
    if hidden <= 0:
        return text
    half = MESSAGE_LIMIT // 2
    return f"{text[:half]} … ({hidden:,} characters) … {text[-half:]}"


def render_outcomes_json(outcomes: Sequence[Outcome]) -> str:
    """Render a JSON list, one object per host."""
    rows = []
    for outcome in outcomes:
        row = outcome_object(outcome)
        row["host_id"] = outcome.host.host_id
        row["run_id"] = outcome.run_id
        row["bursts"] = outcome.bursts
        row["again"] = outcome.again
        row["seconds"] = round(outcome.seconds, 3)
        row["notes"] = list(outcome.notes)
        rows.append(row)
    return as_document("run", rows)


def outcome_object(outcome: Outcome) -> dict[str, object]:
    """Return the keys that a host's JSON object has for every command: its name and how
    it ended.
    """
    return {
        "host": outcome.host.name,
        "state": outcome.state,
        "stage": outcome.stage,
        "exit_code": outcome.exit_code,
        "message": outcome.message,
    }


def render_cleaned(cleaned: Sequence[CleanedHost], *, dry_run: bool = False) -> str:
    """Render what `fleet clean` removed and left on each host, equal hosts grouped;
    then the failures.
    """
    successes = [item for item in cleaned if not item.outcome.message]
    outcomes = [item.outcome for item in cleaned]
    verb = "would remove" if dry_run else "removed"
    parts = [*_group_cleaned(successes, verb), *render_failures(outcomes)]
    removed = sum(len(item.removed) for item in cleaned)
    paths = format_count(removed, "path")
    hosts = format_count(len(successes), "host")
    ending = "to be removed" if dry_run else "removed"
    parts.append(f"{paths} {ending} on {hosts}.")
    return "\n\n".join(parts)


def _group_cleaned(cleaned: Sequence[CleanedHost], verb: str) -> Iterator[str]:
    """Yield the names of hosts on which the same was removed and left, and below them
    what that is. verb: "removed" or "would remove".
    """
    messages = []
    for item in cleaned:
        text = _describe_cleaned(item, verb)
        messages.append((item.outcome.host, text))
    for text, names in group_messages(messages):
        yield f"{join_names(names)}:\n{indent(text, '  ')}"


def _describe_cleaned(host: CleanedHost, verb: str) -> str:
    """Render a line for each path removed or left. verb: "removed" or "would
    remove".
    """
    lines = [f"{verb} {path}" for path in host.removed]
    lines += [f"left {text}" for text in host.left]
    return "\n".join(lines) or "nothing of ours is there"


def render_cleaned_json(cleaned: Sequence[CleanedHost]) -> str:
    """Render a JSON list, one object per host."""
    rows = []
    for host in cleaned:
        row = outcome_object(host.outcome)
        row["removed"] = list(host.removed)
        row["left"] = list(host.left)
        rows.append(row)
    return as_document("clean", rows)


def render_remaining(remaining: Remaining) -> str:
    """Render what `fleet resume` would do, a line per host."""
    lines = [f"Session {remaining.session_id}:"]
    for run in remaining.runs:
        begun = f"continue {run.run_id}, begun {run.started_utc}"
        lines.append(f"  {run.host.name}: {begun}")
    lines += [f"  {name}: measure from the start" for name in remaining.hosts]
    lines.append("Dry run: connected to no host, stored nothing.")
    return "\n".join(lines)


def render_remaining_json(remaining: Remaining) -> str:
    """Render a JSON list of {host, run, session}; run is null for a host that was not
    begun.
    """
    hosts_and_runs = list[tuple[str, str | None]]()
    for run in remaining.runs:
        hosts_and_runs.append((run.host.name, run.run_id))
    for name in remaining.hosts:
        hosts_and_runs.append((name, None))
    rows = [
        {"host": name, "run": run_id, "session": remaining.session_id}
        for name, run_id in hosts_and_runs
    ]
    return as_document("resume", rows)
