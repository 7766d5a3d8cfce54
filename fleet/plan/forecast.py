"""What a plan costs, as an agent forecasts it (docs/wire.md)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

_FULL = (1 << 31) - 1  # MB/s: as much as goes
LONG_S = 10.0  # a first round that takes longer is told apart


@dataclass(frozen=True, slots=True)
class Duration:
    """Seconds: the minimum rounds, all rounds for the precision, and the first round (0: not known)."""

    least_s: float
    most_s: float
    first_s: float = 0.0

    def __str__(self) -> str:
        shortest, longest = format_seconds(self.least_s), format_seconds(self.most_s)
        return shortest if shortest == longest else f"{shortest} to {longest}"


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a plan costs on a machine (docs/wire.md). left_out: what the time budget leaves out, or "".

    nodes: bytes on each NUMA node. load_mbps: the most that load threads ask for; load: for how long.
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
        """How long it takes, when a first round can be looked at, and what the time budget leaves out."""
        text = str(self.duration)
        if self.rounds > 1 and self.duration.first_s >= LONG_S:
            text += f", the first round {format_seconds(self.duration.first_s)}"
        return f"{text} ({self.left_out}, as the time budget allows)" if self.left_out else text

    @property
    def memory_text(self) -> str:
        """The memory of the points, and how much bandwidth they take from others; "" if they take none."""
        by_node = ", ".join(f"{size >> 20} MiB on node {node}" for node, size in self.nodes.items())
        place = f" ({by_node})" if by_node else ""
        bandwidth = "all" if self.load_mbps >= _FULL else f"{self.load_mbps / 1000:g} GB/s"
        load = f" and for {self.load} up to {bandwidth} of its bandwidth" if self.load_mbps else ""
        return f"{self.bytes >> 20} MiB of memory{place}{load}" if self.bytes else ""


def format_seconds(seconds: float) -> str:
    """Format a time with two or three digits: "under 1 s", "90 s", "12 min", "2.5 h"."""
    if seconds < 0.95:
        return "under 1 s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
