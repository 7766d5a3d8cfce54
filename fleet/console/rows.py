"""The state of each host of a session in progress, for the live table, lines, and JSON
at an early end.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fleet.errors import EXIT_INTERRUPTED
from fleet.model import Host
from fleet.plan.forecast import Duration, format_seconds
from fleet.session import events
from fleet.session.events import Outcome, State
from fleet.session.live_medians import LiveMedians, Medians

MANY = 30  # hosts; above it they are counted, also on a tall terminal
WAITING = "queued"
_WORTH_SAYING_S = 2.0


class TimeLeft(NamedTuple):
    """How long a host will still measure; text: "" if nothing is known."""

    seconds: float
    text: str


@dataclass(slots=True)
class Row:
    """The state of one host. started: time when it left the queue. entered: time when
    its stage began. ended: time when it ended, 0 before.
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
    ended: float = 0.0
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
        is_measuring = self.state is None and self.stage == "measure"
        if is_measuring and self._are_planned_bursts_done:
            return f"{self.done}+"
        return f"{self.done}/{self.total}" if self.total else ""

    @property
    def _are_planned_bursts_done(self) -> bool:
        """Report whether all bursts that were planned are done; further rounds may
        follow.
        """
        return self.done >= self.total > 0

    def make_interrupted_outcome(self) -> Outcome:
        """Return the host's outcome; if it has none yet, one that states that it was
        interrupted.
        """
        if self.outcome is not None:
            return self.outcome
        if self.stage == WAITING:
            end = "not begun."
        else:
            end = (
                f"left in stage {self.stage};"
                " `fleet resume` finishes what it has begun."
            )
        return Outcome(
            self.host,
            State.INTERRUPTED,
            stage=self.stage,
            message=f"{self.host.name}: {end}",
            exit_code=EXIT_INTERRUPTED,
            bursts=self.done,
            notes=tuple(self.notes),
        )

    def estimate_left(self, now: float) -> TimeLeft:
        """Estimate how long measuring still takes: by the pace of its bursts or, before
        the first, by the forecast `expected`.

        Once all planned bursts are done, further rounds follow, as many as the
        precision needs. Nobody knows how many, so that the longest time of the forecast
        is the estimate; without a forecast it is 0.
        """
        elapsed_s = now - self.entered
        if self._are_planned_bursts_done and self.expected is not None:
            longest_left_s = _compute_longest_left_s(self.expected, elapsed_s)
            return TimeLeft(longest_left_s, _format_longest(longest_left_s))
        if self.done:
            left = self.total - self.done
            left_s = elapsed_s * left / self.done
            return TimeLeft(left_s, f"{left_s:.0f} s left")
        if self.expected is None:
            return TimeLeft(0.0, "")
        # the text has the whole forecast, such as "20 s to 60 s"
        longest_left_s = _compute_longest_left_s(self.expected, elapsed_s)
        return TimeLeft(longest_left_s, f"about {self.expected}")

    def describe_time(self, now: float) -> str:
        """Return a host's time: how long it took, "in 12.3 s", if it has ended; the
        time left if it measures; else how long it has been in its stage, "for 5 s".
        Return "" for a host that waits, and for a stage of less than two seconds. now:
        of the session's clock, in seconds.
        """
        if self.outcome is not None:
            return f"in {self.outcome.seconds:.1f} s"
        if self.stage == "measure":
            return self.estimate_left(now).text
        elapsed_s = now - self.entered
        if self.stage == WAITING or elapsed_s < _WORTH_SAYING_S:
            return ""
        return f"for {elapsed_s:.0f} s"

    def format_medians(self, separator: str = "; ") -> str:
        """Format medians as "cas smt 24.1  llc 55.3; readwrite smt 30.2": of each
        benchmark its name, then its relations with their medians in ns. separator:
        between two benchmarks; if that is a line break, the names are aligned.
        """
        width = 0
        if separator == "\n":
            lengths = [len(benchmark) for benchmark, _ in self.medians]
            width = max(lengths, default=0)
        texts = []
        for benchmark, relations in self.medians:
            numbers = [_format_median(relation, ns) for relation, ns in relations]
            texts.append(f"{benchmark:<{width}} {'  '.join(numbers)}")
        return separator.join(texts)


def _compute_longest_left_s(expected: Duration, elapsed_s: float) -> float:
    """Return what is left of the longest time of a forecast; 0 once it has passed."""
    return max(expected.most_s - elapsed_s, 0.0)


def _format_longest(longest_s: float) -> str:
    return f"at most {longest_s:.0f} s" if longest_s else "longer than expected"


def _format_median(relation: str, ns: float) -> str:
    return f"{relation} {ns:.1f}" if ns < 1000 else f"{relation} {ns:.0f}"


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
                    row.stage = stage
                    row.detail = detail
                    row.outcome = None
                    row.entered = self.clock()
                    row.started = row.started or row.entered  # of its first stage
                case events.BurstsReceived(_, done, total, medians, live_medians):
                    row.done = done
                    row.total = total
                    row.medians = medians
                    row.live_medians = live_medians
                case events.DurationEstimated(_, duration):
                    row.expected = duration
                case events.HostFinished(outcome):
                    row.ended = self.clock()
                    row.outcome = outcome
                    row.stage = outcome.stage
                    row.live_medians = None
                case events.NoteAdded(_, text):
                    row.notes.append(text)

    def describe_session(self) -> str:
        """Return a line that counts hosts and bursts, or describes the one host that
        has not ended.
        """
        with self.guard:
            at_work = self._list_at_work()
            if len(at_work) == 1:
                return self._describe_host(at_work[0])
            return self.describe_hosts() + _count_bursts(at_work)

    def _list_at_work(self) -> list[Row]:
        return [row for row in self.by_name.values() if row.state is None]

    def _describe_host(self, row: Row) -> str:
        """Describe a host's stage, and if it measures, its bursts and the time left."""
        parts = [row.stage]
        if row.bursts:
            parts.append(f"{row.bursts} bursts")
        if row.detail:
            parts[0] += f": {row.detail}"
        time = row.describe_time(self.clock())
        if time:
            parts.append(time)
        medians = row.format_medians()
        if medians:
            parts.append(medians)
        return f"{row.host.name}: {', '.join(parts)}"

    def describe_hosts(self) -> str:
        """Count the hosts by what they do, and estimate the time left. The caller must
        hold `guard`.
        """
        counts = tally(self.by_name.values())
        left_s = self._estimate_left_s()
        if left_s is None:
            return counts
        return f"{counts}; about {format_seconds(left_s)} left"

    def _estimate_left_s(self) -> float | None:
        """Estimate in how many seconds all hosts will have ended. If all hosts at work
        measure, the slowest tells. Otherwise, hosts are taken to end at the same pace
        as so far. Return None if no host is at work, or if other hosts tell nothing
        because none has ended yet.
        """
        now = self.clock()
        at_work = self._list_at_work()
        if not at_work:
            return None
        if all(row.stage == "measure" for row in at_work):
            return max(row.estimate_left(now).seconds for row in at_work)
        ended = len(self.by_name) - len(at_work)
        if not ended:
            return None
        elapsed_s = now - self._started
        return elapsed_s * len(at_work) / ended


def _count_bursts(rows: Collection[Row]) -> str:
    """Return "; 1,200 of 5,000 bursts"; "" before the first burst. In further rounds
    there are as many bursts as planned, or more; then return "; 5,200 bursts", without
    the total.
    """
    done = sum(row.done for row in rows)
    total = sum(row.total for row in rows)
    if not done:
        return ""
    if done < total:
        return f"; {done:,} of {total:,} bursts"
    return f"; {done:,} bursts"


def tally(rows: Collection[Row]) -> str:
    """Count hosts by what they do: "380 of 500 hosts done: 377 complete, 3 failed; 12
    measure".
    """
    by_ending = Counter(str(row.state) for row in rows if row.state is not None)
    by_stage = Counter(row.stage for row in rows if row.state is None)
    parts = [_join_counts(counts) for counts in (by_ending, by_stage) if counts]
    done = f"{by_ending.total():,} of {len(rows):,} hosts done"
    return f"{done}: {'; '.join(parts)}"


def _join_counts(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {word}" for word, count in counts.most_common())
