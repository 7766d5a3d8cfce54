"""Shows a session in progress on stderr: a live table on a terminal, else a line per
change.
"""

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from fleet.console.rows import MANY, Rows, tally
from fleet.console.summary import MAX_HOSTS_WITH_LIVE_NOTES
from fleet.hostnames import strip_host_name
from fleet.late import futures
from fleet.model import Host
from fleet.session import events
from fleet.session.events import Outcome, State
from fleet.text import console_class, format_count

TALLIES = 10  # lines that count the hosts of a large session, one at each tenth
FAILURES_NAMED = 50
SILENCE_S = 10.0  # at most, on a pipe
_BEFORE = "before"  # the stage in which a host's commands run before it measures


@contextmanager
def progress(
    hosts: Sequence[Host], *, quiet: bool = False, as_map: bool = False
) -> Iterator[events.EventHandler]:
    """Yield a handler that shows events: in a live table, or in lines for pipes, CI and
    --verbose.
    """
    # stderr is None where the program was started with it closed
    if quiet or sys.stderr is None:
        yield events.ignore
    elif _can_redraw():
        from fleet.console.live_table import (  # noqa: PLC0415  a tenth of a second of rich
            LiveTable,
        )

        # Our stderr escapes control characters. The table moves the cursor with some,
        # so it writes to the stream below ours.
        terminal = getattr(sys.stderr, "below", sys.stderr)
        table = LiveTable(hosts, console_class()(file=terminal), as_map=as_map)
        with table.live():
            yield table
    else:
        lines = Lines(hosts) if len(hosts) <= MANY else Tallies(hosts)
        with lines.breaking_silence():
            yield lines


def _can_redraw() -> bool:
    """Report whether a person watches stderr, and nothing else prints there."""
    is_verbose = logging.getLogger("fleet").isEnabledFor(logging.INFO)
    is_in_ci = os.environ.get("CI", "false") not in ("", "false")
    return sys.stderr.isatty() and not is_verbose and not is_in_ci


class _LineWriter:
    """Writes whole lines to stderr from any thread; stops without an error when nobody
    can read them.
    """

    def __init__(
        self, hosts: Sequence[Host], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.rows = Rows(hosts, clock)
        self._writing = threading.Lock()
        self._wrote_at = clock()

    def write(self, text: str) -> None:
        """Write one line. If nobody can read it, write nothing more."""
        with self._writing:
            self._wrote_at = self.rows.clock()
            try:
                print(text, file=sys.stderr, flush=True)  # noqa: T201 - progress belongs there
            except OSError:  # a full disk costs no run
                _silence_stderr()

    def break_silence(self) -> float:
        """Write a line if there was none for SILENCE_S. Return how many seconds later
        to call this again.
        """
        if self._measure_time_left() <= 0:
            self.write(self.rows.describe_session())
        return self._measure_time_left()

    def _measure_time_left(self) -> float:
        """Return in how many seconds a line is due."""
        return self._wrote_at + SILENCE_S - self.rows.clock()

    @contextmanager
    def breaking_silence(self) -> Iterator[None]:
        """Return a context in which a thread writes a line whenever there was none for
        SILENCE_S. Between two lines it waits as long as `break_silence` tells it.
        """
        ended = threading.Event()

        def watch() -> None:
            has_ended = False
            while not has_ended:
                seconds_until_due = self.break_silence()
                has_ended = ended.wait(seconds_until_due)

        with futures.ThreadPoolExecutor(1, "progress") as pool:
            watching = pool.submit(watch)
            try:
                yield
            finally:
                ended.set()
            # raises the error that ended the thread, unless the block has raised one
            watching.result()


def _silence_stderr() -> None:
    """Send all further lines nowhere."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stderr.fileno())
    os.close(null)


class Lines(_LineWriter):
    """Writes a line per event: bursts only at each tenth, with medians; notes only if
    hosts are few.
    """

    def __init__(
        self, hosts: Sequence[Host], clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(hosts, clock)
        self._with_notes = len(hosts) <= MAX_HOSTS_WITH_LIVE_NOTES
        self._tenths: dict[str, int] = {}
        self._planned: dict[str, int] = {}

    def __call__(self, event: events.Event) -> None:
        """Update the row of the event's host, and print a line about the event, if it
        needs one.
        """
        # the update overwrites the stage
        previous_stage = self.rows.by_name[event.host.name].stage
        self.rows.update(event)
        match event:
            case events.StageEntered():
                self._write_stage(event, previous_stage)
            case events.BurstsReceived():
                self._write_bursts_at_tenth(event)
                self._announce_further_rounds(event)
            case events.CommandEnded():
                pass  # the log has what the command printed
            case events.DurationEstimated():
                pass  # a long one also arrives as a note, with advice
            case events.NoteAdded(host, text):
                if self._with_notes:
                    self._write(host, strip_host_name(host, text))
            case events.HostFinished(outcome):
                ending = str(outcome.state)
                if outcome.bursts:
                    ending += f", {format_count(outcome.bursts, 'burst')}"
                self._write(outcome.host, f"{ending} in {outcome.seconds:.1f} s")

    def _write_stage(self, entered: events.StageEntered, previous_stage: str) -> None:
        """Print the stage that a host entered, and why it is there.

        A host that waits enters its stage again with each new reason, and only the
        first has a line. It enters _BEFORE for each command of the inventory's
        `before`, and each has a line.
        """
        if not entered.detail:
            self._write(entered.host, entered.stage)
        elif entered.stage != previous_stage or entered.stage == _BEFORE:
            self._write(entered.host, f"{entered.stage}: {entered.detail}")

    def _write_bursts_at_tenth(self, event: events.BurstsReceived) -> None:
        """Print the count of bursts and the medians when another tenth of the bursts is
        done.
        """
        name = event.host.name
        tenth = 10 * event.done // max(event.total, 1)
        if tenth <= self._tenths.get(name, 0):
            return
        self._tenths[name] = tenth
        text = f"{event.done} of {event.total} bursts"
        medians = self.rows.by_name[name].format_medians()
        if medians:
            text += f", {medians}"
        self._write(event.host, text)

    def _announce_further_rounds(self, event: events.BurstsReceived) -> None:
        """Print a line the first time that rounds are added."""
        name = event.host.name
        if event.total > self._planned.setdefault(name, event.total):
            self._planned[name] = sys.maxsize  # printed once
            text = "further rounds, until every pair reaches the precision"
            self._write(event.host, text)

    def _write(self, host: Host, text: str) -> None:
        self.write(f"{host.name}: {text}")


class Tallies(_LineWriter):
    """Writes a line of counts at each tenth of the hosts done, and names the first
    failures.
    """

    def __init__(
        self, hosts: Sequence[Host], clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(hosts, clock)
        self._counting = threading.Lock()
        self._tenths_written = 0
        self._failures = 0

    def __call__(self, event: events.Event) -> None:
        """Update the row of the event's host; if it has finished, count it."""
        self.rows.update(event)
        if isinstance(event, events.HostFinished):
            with self._counting:
                self._write_finished(event.outcome)

    def _write_finished(self, outcome: Outcome) -> None:
        """Name a failure, if it is one of the first. Print the counts of hosts when
        another tenth of them has ended.
        """
        if outcome.state is not State.COMPLETE:
            self._name_failure(outcome)
        with self.rows.guard:
            rows = self.rows.by_name.values()
            ended = sum(row.state is not None for row in rows)
            counts = tally(rows)
        tenths_ended = TALLIES * ended // len(rows)
        if tenths_ended > self._tenths_written:
            self.write(counts)
        self._tenths_written = tenths_ended

    def _name_failure(self, outcome: Outcome) -> None:
        """Name the host and how it ended, of the first FAILURES_NAMED failures."""
        self._failures += 1
        if self._failures <= FAILURES_NAMED:
            ending = f"{outcome.state} in stage {outcome.stage}"
            self.write(f"{outcome.host.name}: {ending}")
