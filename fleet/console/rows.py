"""The state of each host of a session in progress, for the live table, lines, and JSON
at an early end.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from fleet.errors import EXIT_INTERRUPTED
from fleet.model import Host
from fleet.plan.forecast import Duration, format_seconds
from fleet.session import events
from fleet.session.events import Outcome, State
from fleet.session.live_medians import LiveMedians, Medians

MANY = 30  # hosts; above it they are counted, also on a tall terminal
WAITING = "queued"


@dataclass(slots=True)
class Row:
    """The state of one host. started: time when it left the queue. entered: time when
    its stage began.
    """

    host: Host
    stage: str = WAITING
    detail: str = ""
    done: int = 0
    total: int = 0
    medians: Medians = ()
    live_medians: LiveMedians | None = None
    started: float = 0.0
    entered: float = 0.0
    expected: Duration | None = None
    notes: list[str] = field(default_factory=list)
    outcome: Outcome | None = None

    @property
    def state(self) -> State | None:
        """The final state; None while the host has not ended."""
        return self.outcome.state if self.outcome is not None else None

    @property
    def bursts(self) -> str:
        """The bursts as "5/12", "12+" when further rounds follow, or "" when the total
        is unknown.
        """
        if (
            self.state is None
            and self.stage == "measure"
            and self.done >= self.total > 0
        ):
            return f"{self.done}+"
        return f"{self.done}/{self.total}" if self.total else ""

    def make_interrupted_outcome(self) -> Outcome:
        """Return the host's outcome; if it has none yet, one that states that it was
        interrupted.
        """
        left = f"left in stage {self.stage}; `fleet resume` finishes what it has begun."
        return self.outcome or Outcome(
            self.host,
            State.INTERRUPTED,
            stage=self.stage,
            message=(
                f"{self.host.name}: {'not begun.' if self.stage == WAITING else left}"
            ),
            exit_code=EXIT_INTERRUPTED,
            bursts=self.done,
            notes=tuple(self.notes),
        )

    def estimate_left(self, now: float) -> tuple[float, str]:
        """Estimate how long measuring still takes, in seconds and as text, by its pace,
        else the forecast.
        """
        elapsed_s = now - self.entered
        longest_s = (
            max(self.expected.most_s - elapsed_s, 0)
            if self.expected is not None
            else 0.0
        )
        if self.expected is not None and self.done >= self.total > 0:
            return longest_s, f"at most {longest_s:.0f} s"
        if self.done:
            seconds = elapsed_s * (self.total - self.done) / self.done
            return seconds, f"{seconds:.0f} s"
        return longest_s, "" if self.expected is None else f"about {self.expected}"

    def format_medians(self, separator: str = "; ") -> str:
        """Format medians as "cas smt 24.1  llc 55.3; readwrite smt 30.2"; align them if
        on separate lines.
        """
        texts = []
        width = max((len(name) for name, _ in self.medians), default=0) * (
            separator == "\n"
        )
        for benchmark, relations in self.medians:
            numbers = (
                f"{name} {ns:.1f}" if ns < 1000 else f"{name} {ns:.0f}"
                for name, ns in relations
            )
            texts.append(f"{benchmark:<{width}} {'  '.join(numbers)}")
        return separator.join(texts)


class Rows:
    """The rows of a session, by host name. clock: monotonic, in seconds."""

    def __init__(
        self, hosts: Sequence[Host], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.clock = clock
        self.guard = threading.Lock()
        self.by_name = {host.name: Row(host) for host in hosts}
        self._started = clock()

    def update(self, event: events.Event) -> None:
        """Update the row of the event's host; from any thread."""
        with self.guard:
            row = self.by_name[event.host.name]
            match event:
                case events.StageEntered(_, stage, detail):
                    row.stage, row.detail, row.outcome, row.entered = (
                        stage,
                        detail,
                        None,
                        self.clock(),
                    )
                    row.started = row.started or row.entered
                case events.BurstsReceived(_, done, total, medians, live_medians):
                    row.done, row.total, row.medians, row.live_medians = (
                        done,
                        total,
                        medians,
                        live_medians,
                    )
                case events.DurationEstimated(_, duration):
                    row.expected = duration
                case events.HostFinished(outcome):
                    row.outcome, row.stage, row.live_medians = (
                        outcome,
                        outcome.stage,
                        None,
                    )
                case events.NoteAdded(_, text):
                    row.notes.append(text)

    def describe_session(self) -> str:
        """Return a line that counts hosts and bursts, or describes the one host that
        has not ended.
        """
        with self.guard:
            at_work = {
                name: row for name, row in self.by_name.items() if row.state is None
            }
            if len(at_work) != 1:
                done = sum(row.done for row in at_work.values())
                total = sum(row.total for row in at_work.values())
                planned = f" of {total:,}" * (done < total)
                return self.describe_hosts() + f"; {done:,}{planned} bursts" * (
                    done > 0
                )
            [(name, row)] = at_work.items()
            bursts = f"{row.bursts} bursts" if row.bursts else ""
            left = row.estimate_left(self.clock())[1] if row.stage == "measure" else ""
            parts = (
                row.stage,
                bursts,
                f"{left} left" if left else "",
                row.format_medians(),
            )
            return f"{name}: {', '.join(part for part in parts if part)}"

    def describe_hosts(self) -> str:
        """Count the hosts by what they do, and estimate the time left. The caller must
        hold `guard`.
        """
        rows, now = self.by_name.values(), self.clock()
        left = [row for row in rows if row.state is None]
        if left and all(row.stage == "measure" for row in left):
            left_s = max(row.estimate_left(now)[0] for row in left)
        elif left and len(left) < len(rows):
            left_s = (now - self._started) * len(left) / (len(rows) - len(left))
        else:
            return tally(rows)
        return f"{tally(rows)}; about {format_seconds(left_s)} left"


def tally(rows: Collection[Row]) -> str:
    """Count hosts by what they do: "380 of 500 hosts done: 377 complete, 3 failed; 12
    measure".
    """
    ended = Counter(str(row.state) for row in rows if row.state is not None)
    others = Counter(row.stage for row in rows if row.state is None)
    parts = [
        ", ".join(f"{count:,} {word}" for word, count in part.most_common())
        for part in (ended, others)
    ]
    done = f"{ended.total():,} of {len(rows):,} hosts done"
    return f"{done}: {'; '.join(part for part in parts if part)}"
