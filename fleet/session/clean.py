"""`fleet clean`: removes what fleet made on hosts, and nothing else."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fleet.errors import LockedError, ProbeError
from fleet.model import Host
from fleet.remote.shell import assigned
from fleet.session.context import HostAccess
from fleet.session.host_progress import HostProgress
from fleet.session.outcome import Outcome
from fleet.session.runner import on_each
from fleet.text import one_line

MARK = "@fleet-clean-5d0c42e9@"
TIMEOUT_S = 60.0

_SCRIPT = Path(__file__).with_name("clean.sh")


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A host's outcome, what is gone there (or would be), and what is left, with why; folders end in `/`."""

    outcome: Outcome
    removed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def clean(hosts: Sequence[Host], access: HostAccess, *, dry_run: bool = False) -> list[Cleaned]:
    """Clean `hosts`, a result each, in order; one with an agent or a build at work is left alone."""
    answers: dict[str, list[str]] = {}

    def work(progress: HostProgress) -> Outcome:
        host = progress.host
        access.cancellation.check()
        progress.enter("connect")
        with access.connection(host) as connection:
            progress.enter("clean")
            done = connection.run("exec /bin/sh", stdin=script(host, dry_run=dry_run), timeout_s=TIMEOUT_S)
        lines = list(_answer(host, done.stdout))
        if running := _of("running", lines):
            pid, _, path = running[0].partition(" ")
            raise LockedError(
                f"{host.name}: nothing was removed, since process {pid} uses {path}. "
                "Wait for that session or stop it, then clean again."
            )
        answers[host.name] = lines
        return progress.complete()

    cleaned = []
    for outcome in on_each(hosts, work, access):
        lines = answers.get(outcome.host.name, [])
        removed = _of("removed", lines) or _of("found", lines)
        cleaned.append(Cleaned(outcome, removed, _of("left", lines)))
    return cleaned


def script(host: Host, *, dry_run: bool = False, root: str = "") -> bytes:
    """The script for `/bin/sh`: one function, so a truncated one does nothing. root: a test's own tree."""
    settings = {"MARK": MARK, "PLACES": host.workdir or "", "DRY": "1" if dry_run else "", "ROOT": root}
    text = _SCRIPT.read_text(encoding="utf-8")
    return f"{assigned(settings)}\n{text}\nmain </dev/null 2>/dev/null\n".encode()


def _answer(host: Host, output: bytes) -> Iterator[str]:
    """The marked lines between begin and end, without their mark, escaped."""
    lines = [
        line[len(MARK) + 1 :]
        for line in output.decode("utf-8", "replace").split("\n")
        if line.startswith(f"{MARK} ")
    ]
    if lines[:1] != ["begin"] or lines[-1:] != ["end"]:
        raise ProbeError(
            f"{host.name}: the answer of /bin/sh is incomplete; what was removed is unknown. Clean it again."
        )
    yield from map(one_line, lines[1:-1])


def _of(word: str, lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(line[len(word) + 1 :] for line in lines if line.startswith(f"{word} "))
