"""Lists of CPUs and of pairs of CPUs, as people write them and as the agent reads them."""

import re
from collections.abc import Iterable

MAX_CPU = 65_535
MAX_ARGUMENT_BYTES = 128 << 10  # of one argument of a program: MAX_ARG_STRLEN of Linux

PairList = tuple[tuple[int, int], ...]


def cpu_list(text: str) -> tuple[int, ...]:
    """Expand "0-3,8" to (0, 1, 2, 3, 8), sorted, each once. Raises ValueError in words for people."""
    cpus: set[int] = set()
    for part in text.split(","):
        found = re.fullmatch(r"\s*([0-9]{1,5})(?:\s*-\s*([0-9]{1,5}))?\s*", part)
        if not found:
            raise ValueError(f"must be CPU numbers such as 0-3,8; not {text[:60]!r}")
        first, last = int(found[1]), int(found[2] or found[1])
        if first > last:
            raise ValueError(f"the range {part.strip()} runs backwards; write {last}-{first}")
        if last > MAX_CPU:
            raise ValueError(f"there is no CPU {last}; numbers end at {MAX_CPU}")
        cpus.update(range(first, last + 1))
    return tuple(sorted(cpus))


def cpus_text(cpus: Iterable[int]) -> str:
    """Write CPU numbers as the kernel does: (0, 1, 2, 5) -> "0-2,5"; () -> ""."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def pair_list(text: str) -> PairList:
    """Read "0-1,4-0" (or 0:1) as ((0, 1), (0, 4)), in the order given. ValueError in words for people."""
    pairs: dict[tuple[int, int], None] = {}
    for part in text.split(","):
        pair = _pair(part)
        if pair in pairs:
            raise ValueError(f"the pair {pair[0]}-{pair[1]} is listed twice; both directions are one pair")
        pairs[pair] = None
    pairs_text(pairs)
    return tuple(pairs)


def pairs_text(pairs: Iterable[tuple[int, int]]) -> str:
    """Write ((0, 1), (0, 4)) as "0-1,0-4". Raises ValueError where no program would take so long a list."""
    text = ",".join(f"{one}-{other}" for one, other in pairs)
    if len(text) >= MAX_ARGUMENT_BYTES:
        raise ValueError(
            f"{text.count(',') + 1} pairs make a list of {len(text) >> 10} KiB, and a program takes no more "
            f"than {MAX_ARGUMENT_BYTES >> 10}; ask for fewer, or for all pairs of some CPUs"
        )
    return text


def _pair(part: str) -> tuple[int, int]:
    found = re.fullmatch(r"\s*([0-9]{1,5})\s*[-:]\s*([0-9]{1,5})\s*", part)
    if not found:
        raise ValueError(f"a pair is two CPU numbers such as 0-4, not {part[:60]!r}")
    one, other = sorted((int(found[1]), int(found[2])))
    if one == other:
        raise ValueError(f"{one}-{other} is one CPU, not a pair")
    if other > MAX_CPU:
        raise ValueError(f"there is no CPU {other}; numbers end at {MAX_CPU}")
    return one, other
