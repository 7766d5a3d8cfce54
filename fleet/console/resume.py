"""What `fleet resume` would do, as text for people and JSON for programs. Prints nothing."""

from fleet.session.resume import Left


def left_text(left: Left) -> str:
    """What `fleet resume` would do, a line per host."""
    lines = [f"Session {left.session_id}:"]
    lines += [f"  {run.host.name}: go on with {run.run_id}, begun {run.started_utc}" for run in left.runs]
    lines += [f"  {name}: begin, nothing was measured" for name in left.hosts]
    return "\n".join([*lines, "Dry run: nothing was connected to, nothing is stored."])


def left_object(left: Left) -> list[dict[str, str | None]]:
    """The same for programs: {host, run, session} of each."""
    runs = [(run.host.name, run.run_id) for run in left.runs]
    both: list[tuple[str, str | None]] = [*runs, *((name, None) for name in left.hosts)]
    return [{"host": name, "run": run, "session": left.session_id} for name, run in both]
