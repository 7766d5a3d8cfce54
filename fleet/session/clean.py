"""`fleet clean`: removes what fleet made on hosts, and nothing else."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fleet.errors import LockedError, ProbeError
from fleet.model import Host
from fleet.remote.shell import assign_variables
from fleet.session.context import HostAccess
from fleet.session.events import Outcome
from fleet.session.host_progress import HostProgress
from fleet.session.runner import run_on_each
from fleet.store import Store
from fleet.text import one_line

MARK = "@fleet-clean-5d0c42e9@"
TIMEOUT_S = 60.0

_SCRIPT = Path(__file__).with_name("clean.sh")


@dataclass(frozen=True, slots=True)
class CleanedHost:
    """A host's outcome, the paths removed (or to remove) and those left, with reasons.
    Folders end in `/`.
    """

    outcome: Outcome
    removed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


class _Report(NamedTuple):
    removed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def clean_hosts(
    hosts: Sequence[Host], access: HostAccess, store: Store, *, dry_run: bool = False
) -> list[CleanedHost]:
    """Clean `hosts`; return results in order. Leave alone hosts that a session or an
    agent is using.
    """
    reports: dict[str, _Report] = {}

    def clean_one(progress: HostProgress) -> Outcome:
        host = progress.host
        _require_not_measured(host, store)
        progress.enter("connect")
        with access.connection(host) as connection:
            progress.enter("clean")
            script = render_script(host, dry_run=dry_run)
            done = connection.run("exec /bin/sh", stdin=script, timeout_s=TIMEOUT_S)
        reports[host.name] = _parse_report(host, done.stdout)
        return progress.completed_outcome()

    cleaned = []
    for outcome in run_on_each(hosts, clean_one, access):
        # a host that failed has no report
        report = reports.get(outcome.host.name, _Report())
        cleaned.append(CleanedHost(outcome, report.removed, report.left))
    return cleaned


def _require_not_measured(host: Host, store: Store) -> None:
    """Raise LockedError if a session on this machine measures the host."""
    for session_id, (process, intent) in store.running_sessions().items():
        if host.name in intent.hosts:
            raise _make_in_use_error(
                host, f"session {session_id}, process {process} here, measures it"
            )


def _parse_report(host: Host, output: bytes) -> _Report:
    """Parse what the script printed. Each line is a word and a path: "removed", "found"
    (what a dry run would remove) or "left". A line "running" names a process and the
    path that it uses.

    Raises LockedError if there is such a process, ProbeError if the output is
    incomplete.
    """
    lines = list(_extract_report_lines(host, output))
    running = _collect_values("running", lines)
    if running:
        pid, _, path = running[0].partition(" ")
        raise _make_in_use_error(host, f"process {pid} uses {path}")
    removed = _collect_values("removed", lines)
    to_remove = _collect_values("found", lines)
    left = _collect_values("left", lines)
    return _Report(removed or to_remove, left)


def _make_in_use_error(host: Host, why: str) -> LockedError:
    advice = "Wait for that session or stop it, then clean again."
    return LockedError(f"{host.name}: nothing was removed, since {why}. {advice}")


def render_script(host: Host, *, dry_run: bool = False, root: str = "") -> bytes:
    """Return the sh script that removes what fleet left on a host. It defines functions
    and calls one in its last line, so a script that arrives truncated does nothing.
    root: put before shared folders such as /tmp, for tests.
    """
    settings = {
        "MARK": MARK,  # begins each line of the script's answer
        "PLACES": host.workdir or "",  # the folder to clean; "": the usual ones
        "DRY": "1" if dry_run else "",
        "ROOT": root,
    }
    functions = _SCRIPT.read_text(encoding="utf-8")
    call = "main </dev/null 2>/dev/null"
    return f"{assign_variables(settings)}\n{functions}\n{call}\n".encode()


def _extract_report_lines(host: Host, output: bytes) -> Iterator[str]:
    """Yield the script's lines between "begin" and "end", escaped and without MARK.
    Raises ProbeError if one of these two lines is missing.
    """
    text = output.decode("utf-8", "replace")
    mark = f"{MARK} "
    marked = [line for line in text.split("\n") if line.startswith(mark)]
    lines = [line.removeprefix(mark) for line in marked]
    if lines[:1] != ["begin"] or lines[-1:] != ["end"]:
        raise ProbeError(
            f"{host.name}: the answer of /bin/sh is incomplete; what was removed is"
            " unknown. Clean it again."
        )
    yield from map(one_line, lines[1:-1])


def _collect_values(word: str, lines: Sequence[str]) -> tuple[str, ...]:
    """Return what follows the word in the lines that begin with it."""
    begin = f"{word} "
    return tuple(line.removeprefix(begin) for line in lines if line.startswith(begin))
