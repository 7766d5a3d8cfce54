"""What is known of the hosts of a session in progress: for the live table, lines, and who leaves at once."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from fleet.errors import EXIT_INTERRUPTED
from fleet.model import Host
from fleet.plan.forecast import Duration, format_seconds
from fleet.session import events
from fleet.session.live_medians import LiveMedians, Medians
from fleet.session.outcome import Outcome, State

MANY = 30  # hosts; above it they are counted, also on a tall terminal
WAITING = "queued"


@dataclass(slots=True)
class Row:
    """The state of one host. started, began: when it left the queue, when its stage began (by the clock)."""

    host: Host
    stage: str = WAITING
    done: int = 0
    total: int = 0
    medians: Medians = ()
    so_far: LiveMedians | None = None
    started: float = 0.0
    began: float = 0.0
    expected: Duration | None = None
    notes: list[str] = field(default_factory=list)
    outcome: Outcome | None = None

    @property
    def state(self) -> State | None:
        """The final state; None while it is at work."""
        return self.outcome.state if self.outcome is not None else None

    @property
    def bursts(self) -> str:
        """How many of how many; "12+" where the minimum rounds are there and more follow."""
        if self.state is None and self.stage == "measure" and self.done >= self.total > 0:
            return f"{self.done}+"
        return f"{self.done}/{self.total}" if self.total else ""

    def ended_now(self) -> Outcome:
        """Its outcome; of a host at work what that would be if we left."""
        name, waits = self.host.name, self.stage == WAITING
        left = f"{name}: left in stage {self.stage}; `fleet resume` finishes what it has begun."
        return self.outcome or Outcome(
            self.host,
            State.INTERRUPTED,
            stage=self.stage,
            message=f"{name}: not begun." if waits else left,
            exit_code=EXIT_INTERRUPTED,
            bursts=self.done,
            notes=tuple(self.notes),
        )

    def left(self, now: float) -> tuple[float, str]:
        """How long it measures on, in seconds and in words: by its pace, after the minimum rounds at most."""
        spent = now - self.began
        if self.expected is not None and self.done >= self.total > 0:
            seconds = max(self.expected.most_s - spent, 0)
            return seconds, f"at most {seconds:.0f} s"
        if self.done:
            seconds = spent * (self.total - self.done) / self.done
            return seconds, f"{seconds:.0f} s"
        if self.expected is not None:
            return max(self.expected.most_s - spent, 0), f"about {self.expected}"
        return 0.0, ""

    def numbers(self, between: str = "; ") -> str:
        """The medians so far: "cas smt 24.1  llc 55.3; readwrite smt 30.2"; lines are aligned."""
        texts = []
        wide = max((len(name) for name, _ in self.medians), default=0) * (between == "\n")
        for benchmark, relations in self.medians:
            each = (f"{name} {ns:.1f}" if ns < 1000 else f"{name} {ns:.0f}" for name, ns in relations)
            texts.append(f"{benchmark:<{wide}} {'  '.join(each)}")
        return between.join(texts)


class Rows:
    """The rows of a session's hosts, by name. clock: monotonic, in seconds."""

    def __init__(self, hosts: Sequence[Host], clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.guard = threading.Lock()
        self.of = {host.name: Row(host) for host in hosts}
        self._began = clock()

    def take(self, event: events.Event) -> None:
        """Take an event into the row of its host; from any thread."""
        with self.guard:
            row = self.of[event.host.name]
            match event:
                case events.StageEntered(_, stage):
                    row.stage, row.outcome, row.began = stage, None, self.clock()
                    row.started = row.started or row.began
                case events.BurstsReceived(_, done, total, medians, so_far):
                    row.done, row.total, row.medians, row.so_far = done, total, medians, so_far
                case events.DurationEstimated(_, duration):
                    row.expected = duration
                case events.HostFinished(outcome):
                    row.outcome, row.stage, row.so_far = outcome, outcome.stage, None
                case events.NoteAdded(_, text):
                    row.notes.append(text)

    def overview(self) -> str:
        """How many hosts do what, and how long the session will take; the guard is the caller's."""
        return f"{tally(self.of.values())}{self._rest()}"

    def line(self) -> str:
        """The same and how far the bursts are; where one host is left what is known of that one."""
        with self.guard:
            at_work = {name: row for name, row in self.of.items() if row.state is None}
            if len(at_work) != 1:
                done = sum(row.done for row in at_work.values())
                total = sum(row.total for row in at_work.values())
                of = f" of {total:,}" * (done < total)
                return self.overview() + f"; {done:,}{of} bursts" * (done > 0)
            [(name, row)] = at_work.items()
            measuring = row.stage == "measure"
            bursts_text = f"{row.bursts} bursts" if row.bursts else ""
            left = row.left(self.clock())[1] if measuring else ""
            parts = (row.stage, bursts_text, f"{left} left" if left else "", row.numbers())
            return f"{name}: {', '.join(part for part in parts if part)}"

    def _rest(self) -> str:
        """How long the hosts that are left will take: as those at work will, or by the pace of those done."""
        rows, now = self.of.values(), self.clock()
        left = [row for row in rows if row.state is None]
        if left and all(row.stage == "measure" for row in left):
            left_s = max(row.left(now)[0] for row in left)
        elif left and len(left) < len(rows):
            left_s = (now - self._began) * len(left) / (len(rows) - len(left))
        else:
            return ""
        return f"; about {format_seconds(left_s)} left"


def tally(rows: Collection[Row]) -> str:
    """Count hosts by what they do: "380 of 500 hosts done: 377 complete, 3 failed; 12 measure"."""
    ended = Counter(str(row.state) for row in rows if row.state is not None)
    others = Counter(row.stage for row in rows if row.state is None)
    parts = [", ".join(f"{count:,} {word}" for word, count in part.most_common()) for part in (ended, others)]
    done = f"{ended.total():,} of {len(rows):,} hosts done"
    return f"{done}: {'; '.join(part for part in parts if part)}"
