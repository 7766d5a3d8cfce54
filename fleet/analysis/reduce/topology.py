"""The display order of CPUs, and the borders between their groups."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pandas as pd

from fleet.analysis.base.text import is_none, to_records
from fleet.model import Cpu, core_kinds

NAMES = {"package": "socket", "node": "node", "die": "die", "llc": "cache", "cluster": "cluster"}
GROUPS = ("package", "node", "die", "llc", "cluster", "core")  # outermost first


@dataclass(frozen=True, slots=True)
class Layout:
    """CPUs in display order. `groups`: per CPU the numbers of its groups, outermost first, as GROUPS.

    They are numbered 0, 1, … by their lowest CPU, NUMA nodes as the OS does; -1 is none. `kinds`: of each
    CPU's core, where the machine has several.
    """

    cpus: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    kinds: Mapping[int, str] = field(default_factory=dict, hash=False)

    def border(self, position: int, level: str) -> bool:
        """Whether a group of `level`, or one around it, begins at `position` (never at 0)."""
        depth = GROUPS.index(level) + 1
        return position > 0 and self.groups[position][:depth] != self.groups[position - 1][:depth]

    def blocks(self, level: str) -> tuple[tuple[int, ...], ...]:
        """The CPUs of each group of `level`, in display order."""
        groups: list[list[int]] = []
        for position, cpu in enumerate(self.cpus):
            if position == 0 or self.border(position, level):
                groups.append([])
            groups[-1].append(cpu)
        return tuple(tuple(block) for block in groups)

    def ruling(self) -> str | None:
        """The finest level whose groups hold four CPUs on average, or two: its borders are drawn."""
        for size in (4, 2):
            if (level := self.finest(len(self.cpus) // size)) is not None:
                return level
        return "core" if 2 <= len(self.blocks("core")) <= len(self.cpus) // 2 else None

    def borders(self) -> tuple[bool, ...]:
        """For each CPU, whether a line separates it from the one before."""
        level = self.ruling()
        return tuple(level is not None and self.border(place, level) for place in range(len(self.cpus)))

    def tiers(self) -> tuple[tuple[tuple[str, int], ...], ...]:
        """The groups to name beside a map, outermost first: of each its name, if any, and how many CPUs.

        At most two levels: the outermost that divides the CPUs, and the one whose borders are drawn.
        """
        counts = {level: len(self.blocks(level)) for level in NAMES}
        outer = next((level for level in NAMES if counts[level] > 1), None)
        inner = self.ruling()
        known = (level for level in (outer, inner) if level in NAMES)
        levels = dict.fromkeys(level for level in known if counts[str(level)] <= len(self.cpus) // 2)
        if len(levels) == 2 and outer and inner and counts[outer] == counts[inner]:
            levels.pop(inner)
        return tuple(self._name_blocks(level) for level in levels if level)

    def _name_blocks(self, level: str) -> tuple[tuple[str, int], ...]:
        blocks, depth, names, start = self.blocks(level), GROUPS.index(level), [], 0
        for block in blocks:
            number = self.groups[start][depth]
            names.append((f"{NAMES[level]} {number}" if number >= 0 else "", len(block)))
            start += len(block)
        return tuple(names)

    def finest(self, limit: int) -> str | None:
        """The finest level above cores with 2 to `most` groups; of equal levels, the outermost."""
        counts = {level: len(self.blocks(level)) for level in GROUPS[:-1]}
        fitting = [count for count in counts.values() if 2 <= count <= limit]
        return next((level for level in counts if counts[level] == max(fitting)), None) if fitting else None


def make_layout(cpus: pd.DataFrame, measured: Sequence[int]) -> Layout:
    """Order `measured` CPUs by their GROUPS, then number; cpus: one run's rows. One not there comes last."""
    return load_layouts(cpus.assign(run_id=""), {"": measured})[""]


def load_layouts(cpus: pd.DataFrame, measured: Mapping[str, Sequence[int]]) -> dict[str, Layout]:
    """The same of several runs by their ids, those that are alike made once."""
    names = ("kind", "capacity", *GROUPS)
    columns = [name for name in ("run_id", "cpu", *names) if name in cpus]
    of_runs: dict[str, list[tuple[int, Any]]] = {run_id: [] for run_id in measured}
    for row in to_records(cpus[columns]):
        if row["run_id"] in of_runs:
            of_runs[row["run_id"]].append((int(row["cpu"]), tuple(map(row.get, names))))
    make = cache(
        lambda rows, numbers: _order_cpus(
            {cpu: of[2:] for cpu, of in rows}, numbers, core_kinds((cpu, *of[:2]) for cpu, of in rows)
        )
    )
    return {run_id: make(tuple(rows), tuple(measured[run_id])) for run_id, rows in of_runs.items()}


def find_core_kinds(cpus: pd.DataFrame) -> dict[int, str]:
    """The kind of each CPU's core, where there are several. cpus: one run's rows of the `cpus` table."""
    if not {"kind", "capacity"} <= set(cpus):
        return {}
    return core_kinds(tuple(row.values()) for row in to_records(cpus[["cpu", "kind", "capacity"]]))


def lay_out_cpus(cpus: Sequence[Cpu], measured: Sequence[int]) -> Layout:
    """The same of CPUs that are not in a table yet."""
    rows = {cpu.cpu: [getattr(cpu, name) for name in GROUPS] for cpu in cpus}
    return _order_cpus(rows, measured, core_kinds((cpu.cpu, cpu.kind, cpu.capacity) for cpu in cpus))


def _order_cpus(
    rows: Mapping[int, Sequence[Any]], measured: Sequence[int], kinds: Mapping[int, str]
) -> Layout:
    """rows: of each CPU the numbers of its GROUPS; None or NaN where it is in none."""
    unknown = (None,) * len(GROUPS)
    of_levels = ([row[at] for row in rows.values()] for at, _ in enumerate(GROUPS))
    known = [sorted({one for one in of_level if not is_none(one)}) for of_level in of_levels]
    numbers = [
        {one: int(one) if level == "node" else at for at, one in enumerate(found)}
        for level, found in zip(GROUPS, known, strict=True)
    ]

    def groups(cpu: int) -> tuple[int, ...]:
        own = zip(numbers, rows.get(cpu, unknown), strict=True)
        return tuple(of_level.get(number, -1) for of_level, number in own)

    def place(cpu: int) -> tuple[bool, tuple[int, ...], int]:
        return cpu not in rows, groups(cpu), cpu

    ordered = tuple(sorted(map(int, measured), key=place))
    return Layout(ordered, tuple(map(groups, ordered)), kinds)
