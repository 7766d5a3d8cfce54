"""Parses and formats lists of CPUs and of pairs of CPUs, as people write them and as
the agent reads them.
"""

import re
from collections.abc import Iterable

from fleet.model import InputError

MAX_CPU = 65_535
MAX_ARGUMENT_BYTES = 128 << 10  # of one argument of a program: MAX_ARG_STRLEN of Linux


def parse_cpu_numbers(text: str) -> tuple[int, ...]:
    """Expand "0-3,8" to (0, 1, 2, 3, 8), sorted, without repeats. Raises InputError."""
    cpus: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,5})(?:\s*-\s*([0-9]{1,5}))?\s*", part)
        if not match:
            raise InputError(f"must be CPU numbers such as 0-3,8; not {text[:60]!r}")
        first = int(match[1])
        last = int(match[2] or match[1])
        if first > last:
            raise InputError(
                f"the range {part.strip()} runs backwards; write {last}-{first}"
            )
        if last > MAX_CPU:
            raise InputError(f"there is no CPU {last}; numbers end at {MAX_CPU}")
        cpus.update(range(first, last + 1))
    return tuple(sorted(cpus))


def format_cpus(cpus: Iterable[int]) -> str:
    """Format CPU numbers as the kernel does: (0, 1, 2, 5) -> "0-2,5"; () -> ""."""
    ranges: list[range] = []
    for cpu in sorted(cpus):
        first = cpu
        if ranges and ranges[-1].stop == cpu:
            first = ranges.pop().start
        ranges.append(range(first, cpu + 1))
    return ",".join(map(_format_range, ranges))


def _format_range(cpus: range) -> str:
    if len(cpus) == 1:
        return str(cpus.start)
    return f"{cpus.start}-{cpus.stop - 1}"


def parse_pairs(text: str) -> tuple[tuple[int, int], ...]:
    """Parse "0-1,4-0" (or 0:1) as ((0, 1), (0, 4)), in the order given. Raises
    InputError.
    """
    pairs: dict[tuple[int, int], None] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,5})\s*[-:]\s*([0-9]{1,5})\s*", part)
        if not match:
            raise InputError(
                f"a pair is two CPU numbers such as 0-4, not {part[:60]!r}"
            )
        lower, higher = sorted((int(match[1]), int(match[2])))
        if lower == higher:
            raise InputError(f"{lower}-{higher} is one CPU, not a pair")
        if higher > MAX_CPU:
            raise InputError(f"there is no CPU {higher}; numbers end at {MAX_CPU}")
        if (lower, higher) in pairs:
            raise InputError(
                f"the pair {lower}-{higher} is listed twice; both directions are one"
                " pair"
            )
        pairs[lower, higher] = None
    require_formattable(pairs)  # not too many for a program's argument
    return tuple(pairs)


def require_formattable(pairs: Iterable[tuple[int, int]]) -> None:
    """Raise InputError if pairs are too many for `format_pairs`."""
    format_pairs(pairs)


def format_pairs(pairs: Iterable[tuple[int, int]]) -> str:
    """Format ((0, 1), (0, 4)) as "0-1,0-4". Raises InputError if too long for a
    program's argument.
    """
    texts = [f"{ping}-{pong}" for ping, pong in pairs]
    text = ",".join(texts)
    if len(text) >= MAX_ARGUMENT_BYTES:
        raise InputError(
            f"{len(texts)} pairs make a list of {len(text) >> 10} KiB, and a"
            f" program takes no more than {MAX_ARGUMENT_BYTES >> 10} KiB; ask for"
            " fewer, or for all pairs of some CPUs"
        )
    return text
