"""What a plan costs, as an agent forecasts it (docs/wire.md)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

_FULL = (1 << 31) - 1  # MB/s: as much as goes
LONG_S = 10.0  # a first round that takes longer is told apart


@dataclass(frozen=True, slots=True)
class Duration:
    """The minimum rounds, all for the precision, and, of a whole plan, the first round."""

    least_s: float
    most_s: float
    first_s: float = 0.0

    def __str__(self) -> str:
        least, most = seconds_text(self.least_s), seconds_text(self.most_s)
        return least if least == most else f"{least} to {most}"


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a plan costs on a machine (docs/wire.md). left_out: empty for nothing. nodes: bytes on each.

    load_mbps: the most that is asked of the memory's bandwidth; load: how long it is.
    """

    cpus: int
    pairs: int
    points: int
    visits: int
    rounds: int
    bursts: int
    bytes: int
    duration: Duration
    deadline_s: int
    left_out: str = ""
    nodes: Mapping[int, int] = field(default_factory=dict)
    load_mbps: int = 0
    load: Duration = Duration(0.0, 0.0)

    @property
    def time_text(self) -> str:
        """How long it takes, when people can look at a first round, and what the time budget leaves out."""
        first_s = self.duration.first_s
        first = f", the first round {seconds_text(first_s)}" if self.rounds > 1 and first_s >= LONG_S else ""
        shortened = f" ({self.left_out}, as the time budget allows)" if self.left_out else ""
        return f"{self.duration}{first}{shortened}"

    @property
    def memory_text(self) -> str:
        """The memory of the points, and what others lack of its bandwidth; empty where they take none."""
        each = ", ".join(f"{size >> 20} MiB on node {node}" for node, size in self.nodes.items())
        on = f" ({each})" if each else ""
        most = "all" if self.load_mbps >= _FULL else f"{self.load_mbps / 1000:g} GB/s"
        load = f" and for {self.load} up to {most} of its bandwidth" if self.load_mbps else ""
        return f"{self.bytes >> 20} MiB of memory{on}{load}" if self.bytes else ""


def seconds_text(seconds: float) -> str:
    """A time as people read it, of two or three digits."""
    if seconds < 0.95:
        return "under 1 s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
