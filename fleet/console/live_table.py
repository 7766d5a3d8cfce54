"""A session as a live table: a row per host, or an overview of many."""

import threading
import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from fleet.console.summary import NOTES_AS_THEY_ARRIVE
from fleet.hostnames import without_name
from fleet.model import Host
from fleet.plan.forecast import Duration
from fleet.session import events
from fleet.session.outcome import State

MANY = 30  # hosts; above it an overview, also on a tall terminal
WAITING = "queued"
_COLOURS = {
    State.COMPLETE: "green",
    State.PARTIAL: "yellow",
    State.FAILED: "red",
    State.INTERRUPTED: "yellow",
}
_LINES_BESIDE_TABLE = 3


@dataclass(slots=True)
class Row:
    """The state of one host. started, began: when it left the queue, when its stage began (monotonic)."""

    stage: str = WAITING
    done: int = 0
    total: int = 0
    started: float = 0.0
    began: float = 0.0
    expected: Duration | None = None
    state: State | None = None
    seconds: float = 0.0

    @property
    def word(self) -> str:
        """The word under which the host is counted: its final state, else its stage."""
        return str(self.state) if self.state is not None else self.stage


class LiveTable:
    """Follows the events of a session and draws them, never taller than the terminal; one thread draws.

    Few hosts: a row each. Many: a line that counts them, then those that failed and those at work longest.
    """

    def __init__(self, hosts: Sequence[Host], console: Console) -> None:
        self._guard = threading.Lock()
        self._rows = {host.name: Row() for host in hosts}
        self._console = console
        self._began = time.monotonic()

    def __call__(self, event: events.Event) -> None:
        """Take an event into the table; of few hosts, print notes above it; of more the end has them."""
        with self._guard:
            row = self._rows[event.host.name]
            match event:
                case events.StageEntered(_, stage):
                    row.stage, row.state, row.began = stage, None, time.monotonic()
                    row.started = row.started or row.began
                case events.BurstsReceived(_, done, total):
                    row.done, row.total = done, total
                case events.DurationEstimated(_, duration):
                    row.expected = duration
                case events.HostFinished(outcome):
                    row.state, row.seconds, row.stage = outcome.state, outcome.seconds, outcome.stage
                case events.NoteAdded():
                    pass
        if isinstance(event, events.NoteAdded) and len(self._rows) <= NOTES_AS_THEY_ARRIVE:
            line = f"{event.host.name}: {without_name(event.host, event.text)}"
            self._console.print(Text(line, style="dim"))  # takes the console's own lock

    def render(self) -> Table | Group:
        """Draw the present state; called by the refreshing thread."""
        room = max(1, self._console.size.height - _LINES_BESIDE_TABLE)
        with self._guard:
            if len(self._rows) <= min(room, MANY):
                return _drawn(self._rows, list(self._rows))
            overview = Text(self._overview(), no_wrap=True, overflow="ellipsis")
            return Group(overview, _drawn(self._rows, notable(self._rows, room - 1)))

    def _overview(self) -> str:
        rows = self._rows.values()
        return f"{tally(rows)}{_rest(rows, time.monotonic() - self._began)}"


def notable(rows: dict[str, Row], room: int) -> list[str]:
    """At most `room` hosts: those that did not end well, at most half of it, then the longest at work."""
    ended = [name for name, row in rows.items() if row.state not in (None, State.COMPLETE)]
    working = [name for name, row in rows.items() if row.state is None and row.stage != WAITING]
    working.sort(key=lambda name: rows[name].started)
    share = max(room // 2, room - len(working))
    chosen = [*ended[-share:], *working]
    return chosen[:room]


def tally(rows: Collection[Row]) -> str:
    """Count hosts by what they do: "380 of 500 hosts done: 377 complete, 3 failed; 12 measure"."""
    ended = Counter(row.word for row in rows if row.state is not None)
    others = Counter(row.word for row in rows if row.state is None)
    parts = [", ".join(f"{count:,} {word}" for word, count in part.most_common()) for part in (ended, others)]
    done = f"{ended.total():,} of {len(rows):,} hosts done"
    return f"{done}: {'; '.join(part for part in parts if part)}"


def _rest(rows: Collection[Row], spent_s: float) -> str:
    """How long the hosts that are left will take, by the pace of those that are done."""
    done = sum(row.state is not None for row in rows)
    if done in (0, len(rows)):
        return ""
    left_s = spent_s * (len(rows) - done) / done
    return f"; about {Duration(left_s, left_s)} left"


def _drawn(rows: dict[str, Row], names: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("host", "stage", "bursts", "left"):
        justify = "right" if title in ("bursts", "left") else "left"
        table.add_column(title, justify=justify, no_wrap=True, overflow="ellipsis")  # type: ignore[arg-type]
    for name in names:
        table.add_row(name, *_cells(rows[name]))
    return table


def _cells(row: Row) -> tuple[Text, str, str]:
    bursts = f"{row.done}/{row.total}" if row.total else ""
    if row.state is not None:
        word = f"{row.state}" if row.state is State.COMPLETE else f"{row.state} ({row.stage})"
        return Text(word, style=_COLOURS[row.state]), bursts, f"in {row.seconds:.1f} s"
    if row.stage != "measure":
        return Text(row.stage, style="dim" if row.stage == WAITING else ""), bursts, ""
    if row.done >= row.total > 0:
        bursts = f"{row.done}+"  # of the minimum rounds all are there; more follow for the precision
    return Text(row.stage), bursts, _left(row)


def _left(row: Row) -> str:
    """What is left of the minimum rounds, by their pace; after them at most what the budget leaves."""
    spent = time.monotonic() - row.began
    if row.expected is not None and row.done >= row.total > 0:
        return f"at most {max(row.expected.most_s - spent, 0):.0f} s"
    if row.done:
        return f"{spent * (row.total - row.done) / row.done:.0f} s"
    return f"about {row.expected}" if row.expected is not None else ""
