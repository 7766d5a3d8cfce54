"""What a session, `fleet resume` and `fleet clean` did, as text for people and as JSON. Prints nothing."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from textwrap import indent

from fleet.hostnames import group_messages, join_names, strip_host_name
from fleet.model import FORECAST
from fleet.session.clean import CleanedHost
from fleet.session.outcome import Outcome, State
from fleet.session.resume import Remaining
from fleet.text import as_json, counted, table

MANY = 20  # hosts; above it people want groups, not rows
NOTES_AS_THEY_ARRIVE = 3  # hosts; of more, notes are shown at the end, equal ones once
MESSAGES_SHOWN = 20
MESSAGE_LIMIT = 3_000  # characters of one message; the session's log has all of it


@dataclass(frozen=True, slots=True)
class Hints:
    """The options to repeat in commands to paste, such as "-r lab/results" or "", and the folder of logs.

    resumes: whether `fleet resume` can continue what is missing.
    """

    results: str = ""
    inventory: str = ""
    logs: str = ""
    resumes: bool = True

    def command(self, *words: str) -> str:
        """A command that can be pasted; empty words are left out."""
        return " ".join(word for word in ("fleet", *words) if word)


_NO_HINTS = Hints()


def outcomes_text(
    outcomes: Sequence[Outcome], seconds: float, hints: Hints = _NO_HINTS, medians: str = ""
) -> str:
    """How a session ended, and what to type next; of many hosts a row per state and stage."""
    many = len(outcomes) > MANY
    listed = [o for o in outcomes if o.state is not State.COMPLETE or not medians]
    parts = [_by_ending(outcomes) if many else _by_host(listed)] if listed else []
    parts += failures(outcomes)
    parts += [medians] if medians else []
    notes = _common_notes(outcomes) if len(outcomes) > NOTES_AS_THEY_ARRIVE else []
    return "\n\n".join([*parts, *notes, _ending(outcomes, seconds, hints)])


def _ending(outcomes: Sequence[Outcome], seconds: float, hints: Hints) -> str:
    stored = [outcome for outcome in outcomes if outcome.is_stored]
    settled = all(outcome.is_settled for outcome in outcomes)
    bursts = counted(sum(outcome.bursts for outcome in stored), "burst")
    once = len({outcome.host.name for outcome in outcomes}) == len(outcomes)
    total = counted(len(outcomes), "host" if once else "run")
    measured = f", {bursts}, {seconds:.1f} s" if stored else ""
    lines = [f"{len(stored)} of {total} stored{measured}."]
    if stored:
        one = stored[0].host.name if len(outcomes) > 1 else ""
        lines.append(f"Next: {hints.command('show', hints.results)}")
        lines += [f"  {hints.command('show', one, hints.results)}"] if one and settled else []
    if not settled and hints.resumes:
        resume = hints.command("resume", hints.results, hints.inventory)
        lines.append(f"To measure what is missing: {resume}")
    if hints.logs and any(outcome.message for outcome in outcomes):
        lines.append(f"Full log: {hints.logs}")
    return "\n".join(lines)


def _by_host(outcomes: Sequence[Outcome]) -> str:
    rows = [
        (o.host.name, str(o.state), o.stage, o.run_id or "-", str(o.bursts), f"{o.seconds:.1f} s")
        for o in outcomes
    ]
    return table(("host", "state", "stage", "run", "bursts", "time"), rows)


def _by_ending(outcomes: Sequence[Outcome]) -> str:
    alike: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        alike[str(outcome.state), outcome.stage].append(outcome)
    rows = []
    for ending, same in sorted(alike.items(), key=lambda item: -len(item[1])):
        time = f"{median(o.seconds for o in same):.1f} s, {max(o.seconds for o in same):.1f} s"
        which = join_names((o.host.name for o in same), 60)
        rows.append((f"{len(same):,}", *ending, f"{sum(o.bursts for o in same):,}", time, which))
    return table(("hosts", "state", "stage", "bursts", "time: median, longest", "which"), rows)


def failures(outcomes: Sequence[Outcome]) -> list[str]:
    """Each message once, the most frequent first; hosts whose messages differ by their names share it."""
    stages = {outcome.host.name: outcome.stage for outcome in outcomes}
    groups = group_messages((o.host, f"{o.stage}: {o.message}") for o in outcomes if o.message)
    texts = []
    for text, names in groups[:MESSAGES_SHOWN]:
        stage, message = stages[names[0]], shortened(text.partition(": ")[2])
        if len(names) == 1:
            texts.append(f"{stage}: {message}")
        else:
            texts.append(
                f"{counted(len(names), 'host')}, {stage}: {join_names(names)}\n  the first: {message}"
            )
    if rest := groups[MESSAGES_SHOWN:]:
        hosts = sum(len(group.names) for group in rest)
        texts.append(f"{counted(len(rest), 'other failure')} on {counted(hosts, 'host')}: see --json.")
    return texts


def _common_notes(outcomes: Sequence[Outcome]) -> list[str]:
    """The notes of many hosts, the most frequent first; those of few hosts were shown as they arrived."""
    groups = group_messages(
        (
            (o.host, strip_host_name(o.host, note))
            for o in outcomes
            for note in o.notes
            if not note.startswith(FORECAST)
        ),
        numbers_alike=True,
    )
    lines = [
        f"{counted(len(group.names), 'host')} ({join_names(group.names, 60)}): {shortened(group.text)}"
        for group in groups[:MESSAGES_SHOWN]
    ]
    hidden = len(groups) - MESSAGES_SHOWN
    lines += [f"and {counted(hidden, 'other note')}: see --json."] if hidden > 0 else []
    return ["Notes\n" + "\n".join(f"  {line}" for line in lines)] if lines else []


def shortened(text: str) -> str:
    """A message of at most about MESSAGE_LIMIT characters; the middle of a longer one is left out."""
    hidden = len(text) - MESSAGE_LIMIT
    if hidden <= 0:
        return text
    half = MESSAGE_LIMIT // 2
    return f"{text[:half]} … ({hidden:,} characters) … {text[-half:]}"


def outcomes_json(outcomes: Sequence[Outcome]) -> str:
    """The same for programs: a list, one object a host."""
    found = []
    for o in outcomes:
        own = {"host_id": o.host.host_id, "run_id": o.run_id, "bursts": o.bursts}
        found.append(outcome_object(o) | own | {"seconds": round(o.seconds, 3), "notes": list(o.notes)})
    return as_json(found)


def outcome_object(outcome: Outcome) -> dict[str, object]:
    """How a host ended, for the objects of all commands."""
    return {
        "host": outcome.host.name,
        "state": outcome.state,
        "stage": outcome.stage,
        "exit_code": outcome.exit_code,
        "message": outcome.message,
    }


def cleaned_text(cleaned: Sequence[CleanedHost], *, dry_run: bool = False) -> str:
    """What was removed and left on each host, equal hosts grouped; then the failures."""
    verb = "would remove" if dry_run else "removed"
    blocks = []
    for one in cleaned:
        if not one.outcome.message:
            lines = [f"{verb} {path}" for path in one.removed] + [f"left {text}" for text in one.left]
            blocks.append((one.outcome.host, "\n".join(lines) or "nothing of ours is there"))
    parts = [f"{join_names(names)}:\n{indent(text, '  ')}" for text, names in group_messages(blocks)]
    parts += failures([one.outcome for one in cleaned])
    paths = counted(sum(len(one.removed) for one in cleaned), "path")
    parts.append(f"{paths} {'to be removed' if dry_run else 'removed'} on {counted(len(blocks), 'host')}.")
    return "\n\n".join(parts)


def cleaned_json(cleaned: Sequence[CleanedHost]) -> str:
    """The same for programs: a list, one object a host."""
    return as_json(
        [
            outcome_object(one.outcome) | {"removed": list(one.removed), "left": list(one.left)}
            for one in cleaned
        ]
    )


def remaining_text(remaining: Remaining) -> str:
    """What `fleet resume` would do, a line per host."""
    lines = [f"Session {remaining.session_id}:"]
    lines += [f"  {run.host.name}: continue {run.run_id}, begun {run.started_utc}" for run in remaining.runs]
    lines += [f"  {name}: begin, nothing was measured" for name in remaining.hosts]
    return "\n".join([*lines, "Dry run: nothing was connected to, nothing is stored."])


def remaining_object(remaining: Remaining) -> list[dict[str, str | None]]:
    """The same for programs: {host, run, session} of each."""
    runs = [(run.host.name, run.run_id) for run in remaining.runs]
    both: list[tuple[str, str | None]] = [*runs, *((name, None) for name in remaining.hosts)]
    return [{"host": name, "run": run, "session": remaining.session_id} for name, run in both]


def given_up_text(remaining: Remaining, damaged: Sequence[str]) -> str:
    """What became of a session of which nothing could be stored."""
    why = "the damaged journals named above are kept" if damaged else "nothing of it had been measured"
    return f"Session {remaining.session_id} is given up; {why}."
