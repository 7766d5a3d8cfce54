"""Shows a session in progress on stderr: a live table on a terminal, else a line per change."""

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.live import Live

from fleet.console.live_table import MANY, LiveTable, Row, tally
from fleet.console.summary import NOTES_AS_THEY_ARRIVE
from fleet.hostnames import without_name
from fleet.model import Host
from fleet.session import events
from fleet.session.outcome import Outcome, State
from fleet.text import console_class, counted

TALLIES = 10  # lines that count the hosts of a large session
FAILURES_NAMED = 50


@contextmanager
def progress(hosts: Sequence[Host], *, quiet: bool = False) -> Iterator[events.EventHandler]:
    """Give the event handler that fits: none, a live table, or plain lines."""
    console = console_class()(stderr=True)
    if quiet or sys.stderr is None:  # it is None where the program was started with stderr closed
        yield events.ignore
    elif console.is_terminal:
        table = LiveTable(hosts, console)
        with Live(get_renderable=table.render, console=console, refresh_per_second=4, transient=True):
            yield table
    else:
        notes = len(hosts) <= NOTES_AS_THEY_ARRIVE
        yield Lines(notes=notes) if len(hosts) <= MANY else Tallies(hosts)


class Lines:
    """One line per event, for logs and pipes; bursts are reported ten times in all. notes: print them too."""

    def __init__(self, *, notes: bool = True) -> None:
        self._notes = notes
        self._tenths: dict[str, int] = {}
        self._planned: dict[str, int] = {}
        self._stderr = LineWriter()

    def __call__(self, event: events.Event) -> None:
        """Print the event."""
        match event:
            case events.StageEntered(host, stage):
                self._write(host, stage)
            case events.BurstsReceived():
                self._bursts(event)
            case events.DurationEstimated():
                pass  # the agent's own estimate arrives as a note once it has examined the CPUs
            case events.NoteAdded(host, text):
                if self._notes:
                    self._write(host, without_name(host, text))
            case events.HostFinished(outcome):
                bursts = f", {counted(outcome.bursts, 'burst')}" if outcome.bursts else ""
                self._write(outcome.host, f"{outcome.state}{bursts} in {outcome.seconds:.1f} s")

    def _bursts(self, event: events.BurstsReceived) -> None:
        """Print the count at each tenth, and once that rounds are added."""
        host, done, total = event.host, event.done, event.total
        tenth = 10 * done // max(total, 1)
        if tenth > self._tenths.get(host.name, 0):
            self._tenths[host.name] = tenth
            self._write(host, f"{done} of {total} bursts")
        if total > self._planned.setdefault(host.name, total):
            self._planned[host.name] = sys.maxsize  # printed once
            self._write(host, "further rounds, until every pair reaches the precision")

    def _write(self, host: Host, text: str) -> None:
        self._stderr.write(f"{host.name}: {text}")


class Tallies:
    """Many hosts: a line that counts them for each tenth that is done, and the first failures by name.

    So five hundred hosts make some sixty lines, however many notes they have. Those are grouped at the end.
    """

    def __init__(self, hosts: Sequence[Host]) -> None:
        self._guard = threading.Lock()
        self._rows = {host.name: Row() for host in hosts}
        self._steps = 0
        self._named = 0
        self._stderr = LineWriter()

    def __call__(self, event: events.Event) -> None:
        """Count the event's host."""
        with self._guard:
            row = self._rows[event.host.name]
            match event:
                case events.StageEntered(_, stage):
                    row.stage, row.state = stage, None
                case events.HostFinished(outcome):
                    row.state = outcome.state
                    self._finish(outcome)
                case events.BurstsReceived() | events.DurationEstimated() | events.NoteAdded():
                    pass

    def _finish(self, outcome: Outcome) -> None:
        """Name the host if it failed; print the tally at each step."""
        failed = outcome.state is not State.COMPLETE
        self._named += failed
        if failed and self._named <= FAILURES_NAMED:
            self._stderr.write(f"{outcome.host.name}: {outcome.state} in stage {outcome.stage}")
        rows = self._rows.values()
        steps = TALLIES * sum(row.state is not None for row in rows) // len(rows)
        if steps > self._steps:
            self._stderr.write(tally(rows))
        self._steps = steps


class LineWriter:
    """Writes whole lines to stderr from any thread; stops without an error when nobody can read them."""

    def __init__(self) -> None:
        self._guard = threading.Lock()

    def write(self, text: str) -> None:
        """Write one line."""
        with self._guard:
            try:
                print(text, file=sys.stderr, flush=True)  # noqa: T201 - progress belongs there
            except OSError:
                _discard_stderr()


def _discard_stderr() -> None:
    """Redirect stderr to /dev/null: its reader is gone or its disk is full, which must cost no run.

    What Python still buffers for it is discarded with it; otherwise the program's exit would fail.
    """
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stderr.fileno())
    os.close(null)
