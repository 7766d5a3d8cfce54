"""Renders how a session, `fleet resume` and `fleet clean` ended, as text and as JSON.
Prints nothing.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from textwrap import indent

from fleet.errors import StoreError
from fleet.hostnames import group_messages, join_names, strip_host_name
from fleet.model import FORECAST
from fleet.session.clean import CleanedHost
from fleet.session.events import Outcome, State
from fleet.session.resume import Remaining
from fleet.store import Listing, Store
from fleet.text import as_document, format_count, table

MANY = 20  # hosts; above it people want groups, not rows
NOTES_AS_THEY_ARRIVE = 3  # hosts; of more, notes are shown at the end, equal ones once
MESSAGES_SHOWN = 20
MESSAGE_LIMIT = 3_000  # characters of one message; the session's log has all of it
# Reducing more would delay the end of a session; `fleet show` does it.
MAX_BURSTS, MAX_HOSTS = 400_000, 50
MAX_EARLIER_RUNS = 20  # of a host, to say how far its runs differ


@dataclass(frozen=True, slots=True)
class Hints:
    """Options for suggested commands, such as "-r lab/results"; the log folder; whether
    to suggest resume.
    """

    results: str = ""
    inventory: str = ""
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
    """
    rows = [
        (
            o.host.name,
            str(o.state),
            o.stage,
            o.run_id or "-",
            str(o.bursts),
            f"{o.seconds:.1f} s",
        )
        for o in outcomes
        if o.state is not State.COMPLETE or not medians
    ]
    titles = ("host", "state", "stage", "run", "bursts", "time")
    listed = (
        _tabulate_endings(outcomes)
        if len(outcomes) > MANY
        else table(titles, rows, width=width)
    )
    parts = [
        *([listed] if rows else []),
        *render_failures(outcomes),
        *filter(None, [medians]),
    ]
    notes = _group_notes(outcomes) if len(outcomes) > NOTES_AS_THEY_ARRIVE else []
    return "\n\n".join([*parts, *notes, _render_ending(outcomes, seconds, hints)])


def render_medians(
    store: Store,
    outcomes: Sequence[Outcome],
    width: int | None,
    *,
    colour: bool,
    as_map: bool = False,
) -> str:
    """Render stored runs' medians as `fleet show` does; "" if none or too many; the
    error if unreadable.
    """
    stored = {outcome.run_id for outcome in outcomes if outcome.is_stored}
    bursts = sum(outcome.bursts for outcome in outcomes)
    if not stored or bursts > MAX_BURSTS or len(stored) > MAX_HOSTS:
        return ""
    from fleet.analysis.base.selection import (  # noqa: PLC0415  numpy takes a while
        group_by_host,
        keep_comparable_with_last,
    )
    from fleet.analysis.views.heatmap import Canvas  # noqa: PLC0415
    from fleet.analysis.views.show import render_maps, render_overview  # noqa: PLC0415

    try:
        root, canvas, many = (
            Listing(store.place),
            Canvas(width, colour),
            len(stored) > MANY,
        )
        runs = [run for run in root.runs if run.run_id in stored]
        hosts = set() if many else {run.host_id for run in runs}
        groups = group_by_host(
            [run for run in root.runs if run.host_id in hosts]
        ).values()
        last = (
            run
            for group in groups
            for run in keep_comparable_with_last(group)[-MAX_EARLIER_RUNS:]
        )
        earlier = [run for run in last if run.run_id not in stored]
        parts = [render_overview(root, runs, canvas, earlier, ends=many)]
        if as_map and len(runs) <= MANY:
            parts += [render_maps(root, run.run_id, canvas) for run in runs]
    except StoreError as err:
        return f"The runs are stored, but cannot be summarized: {err}"
    return "\n\n".join(filter(None, parts))


def _render_ending(outcomes: Sequence[Outcome], seconds: float, hints: Hints) -> str:
    stored = [outcome for outcome in outcomes if outcome.is_stored]
    settled = all(outcome.is_settled for outcome in outcomes)
    is_single_session = len({outcome.host.name for outcome in outcomes}) == len(
        outcomes
    )
    total = format_count(len(outcomes), "host" if is_single_session else "run")
    bursts = format_count(sum(outcome.bursts for outcome in stored), "burst")
    lines = [
        f"{len(stored)} of {total}"
        f" stored{f', {bursts}, {seconds:.1f} s' if stored else ''}."
    ]
    if stored:
        lines.append(f"Next: fleet show {hints.results}")
        if len(outcomes) > 1 and settled:
            lines.append(f"  fleet show {stored[0].host.name} {hints.results}")
    if not settled and hints.resumes:
        options = " ".join(filter(None, (hints.results, hints.inventory)))
        lines.append(f"To measure what is missing: fleet resume {options}")
    if hints.logs and any(outcome.message for outcome in outcomes):
        lines.append(f"Full log: {hints.logs}")
    return "\n".join(map(str.rstrip, lines))


def _tabulate_endings(outcomes: Sequence[Outcome]) -> str:
    outcomes_by_ending: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        outcomes_by_ending[str(outcome.state), outcome.stage].append(outcome)
    rows = []
    for ending, group in sorted(
        outcomes_by_ending.items(), key=lambda item: -len(item[1])
    ):
        seconds = [o.seconds for o in group]
        numbers = (
            f"{sum(o.bursts for o in group):,}",
            f"{median(seconds):.1f} s, {max(seconds):.1f} s",
        )
        rows.append(
            (
                f"{len(group):,}",
                *ending,
                *numbers,
                join_names((o.host.name for o in group), 60),
            )
        )
    return table(
        ("hosts", "state", "stage", "bursts", "time: median, longest", "which"), rows
    )


def render_failures(outcomes: Sequence[Outcome]) -> list[str]:
    """Render each failure message once, with its hosts, the most frequent first; count
    the rest.
    """
    stages = {outcome.host.name: outcome.stage for outcome in outcomes}
    groups = group_messages(
        (o.host, f"{o.stage}: {o.message}") for o in outcomes if o.message
    )
    texts = []
    for text, names in groups[:MESSAGES_SHOWN]:
        stage, message = stages[names[0]], shorten_message(text.partition(": ")[2])
        if len(names) > 1:
            stage = f"{format_count(len(names), 'host')}, {stage}"
            message = f"{join_names(names)}\n  the first: {message}"
        texts.append(f"{stage}: {message}")
    if rest := groups[MESSAGES_SHOWN:]:
        hosts = format_count(sum(len(names) for _, names in rest), "host")
        texts.append(
            f"{format_count(len(rest), 'other failure')} on {hosts}: see --json."
        )
    return texts


def _group_notes(outcomes: Sequence[Outcome]) -> list[str]:
    """Render each note once, with its hosts, the most frequent first; count the
    rest.
    """
    notes = (
        (o.host, note)
        for o in outcomes
        for note in o.notes
        if not note.startswith(FORECAST)
    )
    groups = group_messages(
        ((host, strip_host_name(host, note)) for host, note in notes),
        numbers_alike=True,
    )
    lines = [
        f"{format_count(len(names), 'host')} ({join_names(names, 60)}):"
        f" {shorten_message(text)}"
        for text, names in groups[:MESSAGES_SHOWN]
    ]
    hidden = len(groups) - MESSAGES_SHOWN
    lines += (
        [f"and {format_count(hidden, 'other note')}: see --json."] if hidden > 0 else []
    )
    return ["Notes\n" + "\n".join(f"  {line}" for line in lines)] if lines else []


def shorten_message(text: str) -> str:
    """Leave out the middle of a message longer than MESSAGE_LIMIT."""
    hidden, half = len(text) - MESSAGE_LIMIT, MESSAGE_LIMIT // 2
    return (
        f"{text[:half]} … ({hidden:,} characters) … {text[-half:]}"
        if hidden > 0
        else text
    )


def render_outcomes_json(outcomes: Sequence[Outcome]) -> str:
    """Render a JSON list, one object per host."""
    rows = [
        outcome_object(o)
        | {"host_id": o.host.host_id, "run_id": o.run_id, "bursts": o.bursts}
        | {"seconds": round(o.seconds, 3), "notes": list(o.notes)}
        for o in outcomes
    ]
    return as_document("run", rows)


def outcome_object(outcome: Outcome) -> dict[str, object]:
    """Return the keys that a host's JSON object has for every command: its name and how
    it ended.
    """
    names = ("state", "stage", "exit_code", "message")
    return {
        "host": outcome.host.name,
        **{name: getattr(outcome, name) for name in names},
    }


def render_cleaned(cleaned: Sequence[CleanedHost], *, dry_run: bool = False) -> str:
    """Render what `fleet clean` removed and left on each host, equal hosts grouped;
    then the failures.
    """
    verb = "would remove" if dry_run else "removed"
    blocks = []
    for host in cleaned:
        if not host.outcome.message:
            lines = [f"{verb} {path}" for path in host.removed] + [
                f"left {text}" for text in host.left
            ]
            blocks.append(
                (host.outcome.host, "\n".join(lines) or "nothing of ours is there")
            )
    parts = [
        f"{join_names(names)}:\n{indent(text, '  ')}"
        for text, names in group_messages(blocks)
    ]
    parts += render_failures([host.outcome for host in cleaned])
    paths = format_count(sum(len(host.removed) for host in cleaned), "path")
    ending = "to be removed" if dry_run else "removed"
    return "\n\n".join(
        [*parts, f"{paths} {ending} on {format_count(len(blocks), 'host')}."]
    )


def render_cleaned_json(cleaned: Sequence[CleanedHost]) -> str:
    """Render a JSON list, one object per host."""
    rows = (
        outcome_object(host.outcome)
        | {
            "removed": list(host.removed),
            "left": list(host.left),
        }
        for host in cleaned
    )
    return as_document("clean", list(rows))


def render_remaining(remaining: Remaining) -> str:
    """Render what `fleet resume` would do, a line per host."""
    lines = [f"Session {remaining.session_id}:"]
    lines += [
        f"  {run.host.name}: continue {run.run_id}, begun {run.started_utc}"
        for run in remaining.runs
    ]
    lines += [f"  {name}: measure from the start" for name in remaining.hosts]
    return "\n".join([*lines, "Dry run: connected to no host, stored nothing."])


def render_remaining_json(remaining: Remaining) -> str:
    """Render a JSON list of {host, run, session}; run is null for a host that was not
    begun.
    """
    rows: list[tuple[str, str | None]] = [
        (run.host.name, run.run_id) for run in remaining.runs
    ]
    rows += [(name, None) for name in remaining.hosts]
    session = {"session": remaining.session_id}
    return as_document(
        "resume", [{"host": name, "run": run, **session} for name, run in rows]
    )
