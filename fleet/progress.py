"""Shows a session as it goes, on stderr: a live table on a terminal, else a line per change. Floor 4."""

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fleet.model import Host
from fleet.outcomes import Outcome, State, Watcher
from fleet.planning import Duration

_COLOURS = {
    State.COMPLETE: "green",
    State.PARTIAL: "yellow",
    State.FAILED: "red",
    State.INTERRUPTED: "yellow",
}
_LINES_BESIDE_TABLE = 6


@contextmanager
def progress(hosts: Sequence[Host], *, quiet: bool = False) -> Iterator[Watcher]:
    """Hand out the watcher that fits: nothing, a live table, or plain lines."""
    console = Console(stderr=True)
    if quiet or sys.stderr is None:  # it is None where the program was started with stderr closed
        yield Quiet()
    elif console.is_terminal:
        table = LiveTable(hosts, console)
        with Live(get_renderable=table.render, console=console, refresh_per_second=4, transient=True):
            yield table
    else:
        yield Lines()


class Quiet:
    """Shows nothing."""

    def stage(self, host: Host, stage: str) -> None:
        """Ignore it."""

    def progress(self, host: Host, done: int, total: int) -> None:
        """Ignore it."""

    def expect(self, host: Host, duration: Duration) -> None:
        """Ignore it."""

    def note(self, host: Host, text: str) -> None:
        """Ignore it."""

    def finished(self, outcome: Outcome) -> None:
        """Ignore it."""


class Lines:
    """One line per change, for logs and pipes; bursts are reported each tenth of the way."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._tenths: dict[str, int] = {}

    def stage(self, host: Host, stage: str) -> None:
        """Say which stage begins."""
        self._say(f"{host.name}: {stage}")

    def progress(self, host: Host, done: int, total: int) -> None:
        """Say how many bursts there are, ten times in all."""
        tenth = 10 * done // max(total, 1)
        if tenth > self._tenths.get(host.name, 0):
            self._tenths[host.name] = tenth
            self._say(f"{host.name}: {done} of {total} bursts")

    def expect(self, host: Host, duration: Duration) -> None:
        """Leave it to the agent, which says it in a note once it has looked at the CPUs."""

    def note(self, host: Host, text: str) -> None:
        """Pass the sentence on."""
        self._say(text if text.startswith(f"{host.name}: ") else f"{host.name}: {text}")

    def finished(self, outcome: Outcome) -> None:
        """Say how it ended."""
        self._say(f"{outcome.host.name}: {outcome.state}, {outcome.bursts} bursts in {outcome.seconds:.1f} s")

    def _say(self, text: str) -> None:
        with self._guard:
            try:
                print(printable(text), file=sys.stderr, flush=True)  # noqa: T201 - this is the program's voice
            except OSError:
                _fall_silent()


def _fall_silent() -> None:
    """Nobody reads stderr any more, or its disk is full: no reason to lose a run.

    What Python still holds for it goes nowhere; else its exit would fail over it.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stderr.fileno())
    os.close(nowhere)


@dataclass(slots=True)
class _Row:
    stage: str = "waiting"
    done: int = 0
    total: int = 0
    began: float = 0.0
    expected: Duration | None = None
    state: State | None = None
    seconds: float = 0.0


class LiveTable:
    """A row per host with stage, bursts and time left; good for five hosts and for five hundred.

    When the terminal has too few lines, hosts at work and hosts that failed are shown and the rest
    is counted.
    """

    def __init__(self, hosts: Sequence[Host], console: Console) -> None:
        self._guard = threading.Lock()
        self._rows = {host.name: _Row() for host in hosts}
        self._console = console

    def stage(self, host: Host, stage: str) -> None:
        """Show the stage and start its clock."""
        with self._guard:
            row = self._rows[host.name]
            row.stage, row.began = stage, time.monotonic()

    def progress(self, host: Host, done: int, total: int) -> None:
        """Show how many bursts have arrived."""
        with self._guard:
            row = self._rows[host.name]
            row.done, row.total = done, total

    def expect(self, host: Host, duration: Duration) -> None:
        """Count down from it."""
        with self._guard:
            self._rows[host.name].expected = duration

    def note(self, host: Host, text: str) -> None:
        """Print the sentence above the table, where it stays."""
        line = text if text.startswith(f"{host.name}: ") else f"{host.name}: {text}"
        self._console.print(Text(printable(line), style="dim"))

    def finished(self, outcome: Outcome) -> None:
        """Show how it ended."""
        with self._guard:
            row = self._rows[outcome.host.name]
            row.state, row.seconds, row.stage = outcome.state, outcome.seconds, outcome.stage

    def render(self) -> Table:
        """Draw the table as it is now; called by the refreshing thread."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        for title in ("host", "stage", "bursts", "left"):
            table.add_column(title, justify="right" if title in ("bursts", "left") else "left")
        with self._guard:
            shown = self._shown(max(3, self._console.size.height - _LINES_BESIDE_TABLE))
            for name in shown:
                table.add_row(name, *_cells(self._rows[name]))
            hidden = Counter(_word(row) for name, row in self._rows.items() if name not in shown)
        if hidden:
            table.add_row("…", ", ".join(f"{count} {word}" for word, count in sorted(hidden.items())), "", "")
        return table

    def _shown(self, room: int) -> list[str]:
        if len(self._rows) <= room:
            return list(self._rows)
        first = sorted(self._rows, key=lambda name: _urgency(self._rows[name]))[:room]
        return [name for name in self._rows if name in set(first)]


def _urgency(row: _Row) -> int:
    if row.state is None:
        return 0 if row.stage != "waiting" else 2
    return 3 if row.state is State.COMPLETE else 1


def _word(row: _Row) -> str:
    return str(row.state) if row.state else ("waiting" if row.stage == "waiting" else "at work")


def _cells(row: _Row) -> tuple[Text, str, str]:
    bursts = f"{row.done}/{row.total}" if row.total else ""
    if row.state is not None:
        word = f"{row.state}" if row.state is State.COMPLETE else f"{row.state} ({row.stage})"
        return Text(word, style=_COLOURS[row.state]), bursts, f"{row.seconds:.1f} s"
    if row.stage != "measure":
        return Text(row.stage, style="dim" if row.stage == "waiting" else ""), bursts, ""
    return Text(row.stage), bursts, _left(row)


def _left(row: _Row) -> str:
    """What is left of the least rounds, by their pace; after them at most what the budget leaves."""
    spent = time.monotonic() - row.began
    if row.expected is not None and row.done >= row.total > 0:
        return f"at most {max(row.expected.most_s - spent, 0):.0f} s"
    if row.done:
        return f"{spent * (row.total - row.done) / row.done:.0f} s"
    return f"about {row.expected}" if row.expected is not None else ""


def printable(text: str) -> str:
    """Make what a host said safe to print: control characters become visible escapes, newlines stay."""
    return "".join(c if c == "\n" or c.isprintable() else ascii(c)[1:-1] for c in text)
