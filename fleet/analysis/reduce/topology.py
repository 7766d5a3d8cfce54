"""Order CPUs for display, and find the borders between their groups."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, groupby, islice
from typing import Any

import pandas as pd

from fleet.analysis.base.text import is_none, to_records
from fleet.model import Cpu, name_core_kinds

NAMES = {
    "package": "socket",
    "node": "node",
    "die": "die",
    "llc": "cache",
    "cluster": "cluster",
}
GroupLabel = tuple[str, int]  # the name of a group of CPUs, and its size
GroupLabels = tuple[tuple[GroupLabel, ...], ...]  # by level
GROUPS = ("package", "node", "die", "llc", "cluster", "core")  # outermost first
_COLUMNS = ("kind", "capacity", *GROUPS)


@dataclass(frozen=True, slots=True)
class Layout:
    """CPUs in display order. `groups`: for each CPU the numbers of its groups, in the
    order of GROUPS.

    Groups of a level are numbered 0, 1, … by their lowest CPU, NUMA nodes as the OS
    does; -1: no group. `kinds`: the kind of each CPU's core, if the machine has several
    kinds.
    """

    cpus: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    kinds: Mapping[int, str] = field(default_factory=dict, hash=False)

    def blocks(self, level: str) -> tuple[tuple[int, ...], ...]:
        """Return the CPUs of each group of `level`, in display order."""
        cpus = iter(self.cpus)
        return tuple(
            tuple(islice(cpus, count))
            for _, count in self._list_groups_and_sizes(level)
        )

    def choose_border_level(self) -> str | None:
        """Return the level to draw borders of: the finest averaging four CPUs a group,
        else two, or None.
        """
        for size in (4, 2):
            if (level := self.choose_finest_level(len(self.cpus) // size)) is not None:
                return level
        return (
            "core"
            if 2 <= len(self._list_groups_and_sizes("core")) <= len(self.cpus) // 2
            else None
        )

    def mark_group_starts(self) -> tuple[bool, ...]:
        """Report for each CPU whether a line separates it from the one before."""
        level = self.choose_border_level()
        begins = (
            {*accumulate(count for _, count in self._list_groups_and_sizes(level))}
            if level
            else set()
        )
        return tuple(place in begins for place in range(len(self.cpus)))

    def label_groups(self) -> GroupLabels:
        """List the groups to name beside a map, by level, outermost first: each name,
        if any, and size.
        """
        counts = {level: len(self._list_groups_and_sizes(level)) for level in NAMES}
        named = (
            next((level for level in NAMES if counts[level] > 1), None),
            self.choose_border_level(),
        )
        return tuple(
            tuple(
                (f"{NAMES[level]} {number}" if number >= 0 else "", count)
                for number, count in self._list_groups_and_sizes(level)
            )
            for level in NAMES
            if level in named and counts[level] <= len(self.cpus) // 2
        )

    def _list_groups_and_sizes(self, level: str) -> list[tuple[int, int]]:
        """Return each group of `level`, in display order: its number, and how many CPUs
        it has.
        """
        depth = GROUPS.index(level) + 1
        blocks = groupby(groups[:depth] for groups in self.groups)
        return [(groups[-1], len([*block])) for groups, block in blocks]

    def choose_finest_level(self, limit: int) -> str | None:
        """Return the finest level above cores with 2 to `limit` groups; of equal
        levels, the outermost.
        """
        counts = {
            level: len(self._list_groups_and_sizes(level)) for level in GROUPS[:-1]
        }
        fitting = {
            level: count for level, count in counts.items() if 2 <= count <= limit
        }
        return max(fitting, key=fitting.__getitem__, default=None)


def make_layout(cpus: pd.DataFrame, measured: Sequence[int]) -> Layout:
    """Order `measured` CPUs by GROUPS, then by number. cpus: one run's rows; CPUs
    without a row come last.
    """
    return make_layouts(cpus.assign(run_id=""), {"": measured})[""]


def make_layouts(
    cpus: pd.DataFrame, measured: Mapping[str, Sequence[int]]
) -> dict[str, Layout]:
    """Make the layouts of several runs, by ID, as `make_layout` does; runs with equal
    CPUs share one.
    """
    rows_by_run: dict[str, list[tuple[int, Any]]] = {run_id: [] for run_id in measured}
    for row in to_records(
        cpus[[name for name in ("run_id", "cpu", *_COLUMNS) if name in cpus]]
    ):
        if row["run_id"] in rows_by_run:
            rows_by_run[row["run_id"]].append(
                (int(row["cpu"]), tuple(map(row.get, _COLUMNS)))
            )
    make = cache(lambda rows, numbers: _order_cpus(dict(rows), numbers))
    return {
        run_id: make(tuple(rows), tuple(measured[run_id]))
        for run_id, rows in rows_by_run.items()
    }


def find_core_kinds(cpus: pd.DataFrame) -> dict[int, str]:
    """Return the kind of each CPU's core; empty if all are alike. cpus: one run's rows
    of `cpus`.
    """
    if not {"kind", "capacity"} <= set(cpus):
        return {}
    return name_core_kinds(
        tuple(row.values()) for row in to_records(cpus[["cpu", "kind", "capacity"]])
    )


def lay_out_cpus(cpus: Sequence[Cpu], measured: Sequence[int]) -> Layout:
    """Make the layout of CPUs that are not in a table yet."""
    return _order_cpus(
        {cpu.cpu: [getattr(cpu, name) for name in _COLUMNS] for cpu in cpus}, measured
    )


def _order_cpus(rows: Mapping[int, Sequence[Any]], measured: Sequence[int]) -> Layout:
    """Order CPUs by their groups. rows: each CPU's _COLUMNS; None or NaN where the CPU
    has no group.
    """
    numbers = list[dict[Any, int]]()
    for column, level in enumerate(GROUPS, 2):
        groups = sorted(
            {row[column] for row in rows.values() if not is_none(row[column])}
        )
        numbers.append(
            {
                group: int(group) if level == "node" else place
                for place, group in enumerate(groups)
            }
        )

    def list_groups(cpu: int) -> tuple[int, ...]:
        own = rows[cpu][2:] if cpu in rows else [None] * len(GROUPS)
        return tuple(
            of_level.get(group, -1)
            for of_level, group in zip(numbers, own, strict=True)
        )

    ordered = tuple(
        sorted(
            map(int, measured), key=lambda cpu: (cpu not in rows, list_groups(cpu), cpu)
        )
    )
    kinds = name_core_kinds((cpu, row[0], row[1]) for cpu, row in rows.items())
    return Layout(ordered, tuple(map(list_groups, ordered)), kinds)
