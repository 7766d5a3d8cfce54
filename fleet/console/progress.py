"""Shows a session as it goes, on stderr: a live table on a terminal, else a line per change. Floor 4."""

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live

from fleet.console.live_table import MANY, LiveTable, Row, tally
from fleet.hostnames import without_name
from fleet.model import Host
from fleet.plan.estimate import Duration
from fleet.session.outcome import Outcome, State, Watcher
from fleet.text import counted, printable

TALLIES = 20  # lines that count the hosts of a large session
FAILURES_NAMED = 50


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
        yield Lines() if len(hosts) <= MANY else Tallies(hosts)


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
        self._tenths: dict[str, int] = {}
        self._planned: dict[str, int] = {}
        self._voice = Voice()

    def stage(self, host: Host, stage: str) -> None:
        """Say which stage begins."""
        self._voice.say(f"{host.name}: {stage}")

    def progress(self, host: Host, done: int, total: int) -> None:
        """Say how many bursts there are, ten times in all, and once that there will be more."""
        tenth = 10 * done // max(total, 1)
        if tenth > self._tenths.get(host.name, 0):
            self._tenths[host.name] = tenth
            self._voice.say(f"{host.name}: {done} of {total} bursts")
        if total > self._planned.setdefault(host.name, total):
            self._planned[host.name] = sys.maxsize  # said once
            self._voice.say(f"{host.name}: further rounds, until each pair is known well enough")

    def expect(self, host: Host, duration: Duration) -> None:
        """Leave it to the agent, which says it in a note once it has looked at the CPUs."""

    def note(self, host: Host, text: str) -> None:
        """Pass the sentence on."""
        self._voice.say(f"{host.name}: {without_name(host, text)}")

    def finished(self, outcome: Outcome) -> None:
        """Say how it ended."""
        bursts = f", {counted(outcome.bursts, 'burst')}" if outcome.bursts else ""
        self._voice.say(f"{outcome.host.name}: {outcome.state}{bursts} in {outcome.seconds:.1f} s")


class Tallies:
    """Many hosts: a line that counts them for each twentieth that is done, and the first failures by name.

    So five hundred hosts make some seventy lines, however much they have to say.
    """

    def __init__(self, hosts: Sequence[Host]) -> None:
        self._guard = threading.Lock()
        self._rows = {host.name: Row() for host in hosts}
        self._steps = 0
        self._named = 0
        self._voice = Voice()

    def stage(self, host: Host, stage: str) -> None:
        """Count it."""
        with self._guard:
            row = self._rows[host.name]
            row.stage, row.state = stage, None

    def progress(self, host: Host, done: int, total: int) -> None:
        """Wait for the host's end."""

    def expect(self, host: Host, duration: Duration) -> None:
        """Wait for the host's end."""

    def note(self, host: Host, text: str) -> None:
        """Leave it to the end, where equal notes are told once."""

    def finished(self, outcome: Outcome) -> None:
        """Count it; name it if it failed."""
        with self._guard:
            self._rows[outcome.host.name].state = outcome.state
            rows = self._rows.values()
            steps = TALLIES * sum(row.state is not None for row in rows) // len(rows)
            line = tally(rows) if steps > self._steps else ""
            self._steps = steps
            named = outcome.state is not State.COMPLETE
            self._named += named
            if named and self._named <= FAILURES_NAMED:
                self._voice.say(f"{outcome.host.name}: {outcome.state} in stage {outcome.stage}")
            if line:
                self._voice.say(line)


class Voice:
    """Says lines on stderr, whole ones, from any thread; falls silent when nobody can hear it."""

    def __init__(self) -> None:
        self._guard = threading.Lock()

    def say(self, text: str) -> None:
        """Say one line, what a host put into it made harmless."""
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
