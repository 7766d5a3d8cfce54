"""Order CPUs for display, and find the borders between their groups."""

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
        """Report whether a group of `level`, or one around it, begins at `position` (never at 0)."""
        depth = GROUPS.index(level) + 1
        return position > 0 and self.groups[position][:depth] != self.groups[position - 1][:depth]

    def blocks(self, level: str) -> tuple[tuple[int, ...], ...]:
        """Return the CPUs of each group of `level`, in display order."""
        groups: list[list[int]] = []
        for position, cpu in enumerate(self.cpus):
            if position == 0 or self.border(position, level):
                groups.append([])
            groups[-1].append(cpu)
        return tuple(tuple(block) for block in groups)

    def ruling(self) -> str | None:
        """Return the level whose borders are drawn: the finest with four CPUs a group on average, or two."""
        for size in (4, 2):
            if (level := self.choose_finest(len(self.cpus) // size)) is not None:
                return level
        return "core" if 2 <= len(self.blocks("core")) <= len(self.cpus) // 2 else None

    def borders(self) -> tuple[bool, ...]:
        """Report for each CPU whether a line separates it from the one before."""
        level = self.ruling()
        return tuple(level is not None and self.border(place, level) for place in range(len(self.cpus)))

    def tiers(self) -> tuple[tuple[tuple[str, int], ...], ...]:
        """List the groups to name beside a map, outermost first: each one's name, if any, and number of CPUs.

        At most two levels: the outermost that divides the CPUs, and the one whose borders are drawn.
        """
        counts = {level: len(self.blocks(level)) for level in NAMES}
        outer = next((level for level in NAMES if counts[level] > 1), None)
        inner = self.ruling()
        candidates = (level for level in (outer, inner) if level in NAMES)
        levels = dict.fromkeys(level for level in candidates if counts[str(level)] <= len(self.cpus) // 2)
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

    def choose_finest(self, limit: int) -> str | None:
        """Return the finest level above cores with 2 to `limit` groups; of equal levels, the outermost."""
        counts = {level: len(self.blocks(level)) for level in GROUPS[:-1]}
        fitting = [count for count in counts.values() if 2 <= count <= limit]
        return next((level for level in counts if counts[level] == max(fitting)), None) if fitting else None


def make_layout(cpus: pd.DataFrame, measured: Sequence[int]) -> Layout:
    """Order `measured` CPUs by GROUPS, then number; cpus: one run's rows. CPUs not there come last."""
    return load_layouts(cpus.assign(run_id=""), {"": measured})[""]


def load_layouts(cpus: pd.DataFrame, measured: Mapping[str, Sequence[int]]) -> dict[str, Layout]:
    """Make the layouts of several runs by ID, as `make_layout` does; equal ones are made once."""
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
    """Return the kind of each CPU's core, if there are several. cpus: one run's rows of the `cpus` table."""
    if not {"kind", "capacity"} <= set(cpus):
        return {}
    return core_kinds(tuple(row.values()) for row in to_records(cpus[["cpu", "kind", "capacity"]]))


def lay_out_cpus(cpus: Sequence[Cpu], measured: Sequence[int]) -> Layout:
    """Make the layout of CPUs that are not in a table yet."""
    rows = {cpu.cpu: [getattr(cpu, name) for name in GROUPS] for cpu in cpus}
    return _order_cpus(rows, measured, core_kinds((cpu.cpu, cpu.kind, cpu.capacity) for cpu in cpus))


def _order_cpus(
    rows: Mapping[int, Sequence[Any]], measured: Sequence[int], kinds: Mapping[int, str]
) -> Layout:
    """Order CPUs by their groups. rows: for each CPU the numbers of its GROUPS; None or NaN for none."""
    unknown = (None,) * len(GROUPS)
    of_levels = ([row[index] for row in rows.values()] for index, _ in enumerate(GROUPS))
    os_numbers = [sorted({number for number in of_level if not is_none(number)}) for of_level in of_levels]
    numbers = [
        {number: int(number) if level == "node" else index for index, number in enumerate(level_numbers)}
        for level, level_numbers in zip(GROUPS, os_numbers, strict=True)
    ]

    def groups(cpu: int) -> tuple[int, ...]:
        own = zip(numbers, rows.get(cpu, unknown), strict=True)
        return tuple(of_level.get(number, -1) for of_level, number in own)

    def place(cpu: int) -> tuple[bool, tuple[int, ...], int]:
        return cpu not in rows, groups(cpu), cpu

    ordered = tuple(sorted(map(int, measured), key=place))
    return Layout(ordered, tuple(map(groups, ordered)), kinds)
