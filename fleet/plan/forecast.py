"""The forecast duration of a plan, and durations as text."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Duration:
    """Seconds for the fewest and for the most rounds that may run, and for the first
    round (0: unknown).
    """

    least_s: float
    most_s: float
    first_s: float = 0.0

    def __str__(self) -> str:
        shortest = format_seconds(self.least_s)
        longest = format_seconds(self.most_s)
        if shortest == longest:
            return shortest
        return f"{shortest} to {longest}"


def format_seconds(seconds: float) -> str:
    """Format a time with two or three digits: "under 1 s", "90 s", "12 min",
    "2.5 h".
    """
    if seconds < 0.95:
        return "under 1 s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
