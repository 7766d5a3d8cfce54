"""What `fleet resume` would do, as text for people and JSON for programs. Prints nothing."""

from collections.abc import Sequence

from fleet.session.resume import Remaining


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
