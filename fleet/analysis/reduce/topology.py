"""Order CPUs for display, and find the borders between their groups."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby, islice
from typing import Any, NamedTuple

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


class _Core(NamedTuple):
    """What a CPU's core is, and its groups in the order of GROUPS, None or NaN where it
    has none.
    """

    kind: Any
    capacity: Any
    groups: tuple[Any, ...]


_NO_CORE = _Core(None, None, (None,) * len(GROUPS))  # of a CPU without a row


@dataclass(frozen=True, slots=True)
class Layout:
    """CPUs in display order. `groups`: for each CPU, in the same order, the number of
    its group at each level of GROUPS.

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
        sizes = [size for _, size in self._list_groups_and_sizes(level)]
        return tuple(tuple(islice(cpus, size)) for size in sizes)

    def choose_border_level(self) -> str | None:
        """Return the level of GROUPS to draw borders of, or None if no level helps.

        Choose the finest level above cores whose groups have four CPUs or more on
        average. If there is none, choose the finest level whose groups have two CPUs or
        more; last, "core", if there are several cores of two CPUs or more on average.
        """
        for cpus_per_group in (4, 2):
            max_groups = len(self.cpus) // cpus_per_group
            level = self.choose_finest_level(max_groups)  # never "core"
            if level is not None:
                return level
        cores = len(self._list_groups_and_sizes("core"))
        if 2 <= cores <= len(self.cpus) // 2:
            return "core"
        return None

    def mark_group_starts(self) -> tuple[bool, ...]:
        """Report for each CPU, in display order, whether a border separates this CPU
        from the CPU before it; False for all if no level has borders.
        """
        places = range(len(self.cpus))
        level = self.choose_border_level()
        if level is None:
            return tuple(False for _ in places)
        sizes = [size for _, size in self._list_groups_and_sizes(level)]
        # where a group ends, the next one begins; before the first is no border
        ends = set(accumulate(sizes))
        return tuple(place in ends for place in places)

    def label_groups(self) -> GroupLabels:
        """List the groups to name beside a map: for each level that is named, outermost
        first, the name and size of each group, in display order: ("node 1", 16). The
        name is "" for a group without a number.

        Two levels at most are named: the outermost level that has several groups, and
        the level with borders. A level whose names have no room is left out.
        """
        groups_by_level = {level: self._list_groups_and_sizes(level) for level in NAMES}
        divided_levels = [level for level in NAMES if len(groups_by_level[level]) > 1]
        levels_to_name = {*divided_levels[:1], self.choose_border_level()}
        # a name is as high as two rows of the map, and a CPU has a row
        most_names = len(self.cpus) // 2
        labels = []
        for level, name in NAMES.items():
            groups = groups_by_level[level]
            if level in levels_to_name and len(groups) <= most_names:
                names = [_label_group(name, number, size) for number, size in groups]
                labels.append(tuple(names))
        return tuple(labels)

    def _list_groups_and_sizes(self, level: str) -> list[tuple[int, int]]:
        """Return each group of `level`, in display order: the group's number, and how
        many CPUs the group has.

        CPUs are of one group if they have all outer groups in common, too. They stand
        next to each other in display order, so that `groupby` finds each group once.
        """
        depth = GROUPS.index(level) + 1
        groups_down_to_level = [groups[:depth] for groups in self.groups]
        numbers_and_sizes = []
        for groups, cpus in groupby(groups_down_to_level):
            number_at_level = groups[-1]
            size = len(list(cpus))
            numbers_and_sizes.append((number_at_level, size))
        return numbers_and_sizes

    def choose_finest_level(self, max_groups: int) -> str | None:
        """Return the level above cores with the most groups, among the levels that have
        from 2 to `max_groups` groups; of levels with equally many groups, the
        outermost. Return None if there is no such level.
        """
        finest = None
        most_groups = 1
        for level in GROUPS[:-1]:  # outermost first
            groups = len(self._list_groups_and_sizes(level))
            if most_groups < groups <= max_groups:
                finest = level
                most_groups = groups
        return finest


def _label_group(name: str, number: int, size: int) -> GroupLabel:
    """Label a group "node 1"; a group without a number has no name."""
    if number < 0:
        return "", size
    return f"{name} {number}", size


def make_layout(cpus: pd.DataFrame, measured: Sequence[int]) -> Layout:
    """Order the `measured` CPUs by their groups, outermost first, then by number. cpus:
    one run's rows; CPUs without a row come last.
    """
    only_run = ""
    layouts = make_layouts(cpus.assign(run_id=only_run), {only_run: measured})
    return layouts[only_run]


def make_layouts(
    cpus: pd.DataFrame, measured: Mapping[str, Sequence[int]]
) -> dict[str, Layout]:
    """Make the layouts of several runs, by run ID, as `make_layout` does. cpus: rows of
    these runs, and perhaps of others. measured: by run ID, the CPUs that the run has
    measured.
    """
    cpus_of_runs = cpus[cpus["run_id"].isin(measured)]
    rows = cpus_of_runs.reindex(columns=["run_id", "cpu", *_COLUMNS])
    cores_by_run: dict[str, list[tuple[int, _Core]]] = {run: [] for run in measured}
    for row in to_records(rows):
        cpu_and_core = (int(row["cpu"]), _make_core(row))
        cores_by_run[row["run_id"]].append(cpu_and_core)

    layouts = {}
    layouts_by_machine: dict[object, Layout] = {}
    for run_id, cores in cores_by_run.items():
        # runs with equal cores and CPUs share one layout
        machine = (tuple(cores), tuple(measured[run_id]))
        if machine not in layouts_by_machine:
            layouts_by_machine[machine] = _order_cpus(dict(cores), measured[run_id])
        layouts[run_id] = layouts_by_machine[machine]
    return layouts


def find_core_kinds(cpus: pd.DataFrame) -> dict[int, str]:
    """Return the kind of each CPU's core; empty if all are alike. cpus: one run's rows
    of `cpus`.
    """
    if not {"kind", "capacity"} <= set(cpus):
        return {}
    rows = to_records(cpus[["cpu", "kind", "capacity"]])
    return name_core_kinds((row["cpu"], row["kind"], row["capacity"]) for row in rows)


def lay_out_cpus(cpus: Sequence[Cpu], measured: Sequence[int]) -> Layout:
    """Make the layout of CPUs that are not in a table yet."""
    cores = {}
    for cpu in cpus:
        columns = {name: getattr(cpu, name) for name in _COLUMNS}
        cores[cpu.cpu] = _make_core(columns)
    return _order_cpus(cores, measured)


def _make_core(columns: Mapping[str, Any]) -> _Core:
    groups = tuple(columns[level] for level in GROUPS)
    return _Core(columns["kind"], columns["capacity"], groups)


def _order_cpus(cores: Mapping[int, _Core], measured: Sequence[int]) -> Layout:
    """Make the layout of the `measured` CPUs, ordered by the numbers of their groups,
    outermost level first, then by CPU. CPUs without a core come last. cores: by CPU.
    """
    numbers_by_level = _number_groups_of_levels(cores)
    groups_by_cpu = {}
    for cpu in map(int, measured):
        core = cores.get(cpu, _NO_CORE)
        groups_by_cpu[cpu] = _find_group_numbers(core, numbers_by_level)

    def get_place(cpu: int) -> tuple[object, ...]:
        has_no_core = cpu not in cores
        return has_no_core, groups_by_cpu[cpu], cpu

    cpus = sorted(groups_by_cpu, key=get_place)
    groups_in_order = tuple(groups_by_cpu[cpu] for cpu in cpus)
    kinds = name_core_kinds(
        (cpu, core.kind, core.capacity) for cpu, core in cores.items()
    )
    return Layout(tuple(cpus), groups_in_order, kinds)


def _find_group_numbers(
    core: _Core, numbers_by_level: Sequence[Mapping[Any, int]]
) -> tuple[int, ...]:
    """Return the number of the core's group at each level of GROUPS; -1 without a
    group. numbers_by_level: from `_number_groups_of_levels`.
    """
    # both have an entry for each level: the numbers of all groups, and the core's group
    levels = zip(numbers_by_level, core.groups, strict=True)
    return tuple(number_by_group.get(group, -1) for number_by_group, group in levels)


def _number_groups_of_levels(cores: Mapping[int, _Core]) -> list[dict[Any, int]]:
    """Return for each level of GROUPS the number of each group, by the value of the
    group in `cores`.
    """
    numbers = []
    for place, level in enumerate(GROUPS):
        groups = {core.groups[place] for core in cores.values()}
        numbers.append(_number_groups(level, groups))
    return numbers


def _number_groups(level: str, groups: Iterable[Any]) -> dict[Any, int]:
    """Number a level's groups in order; NUMA nodes keep the numbers of the OS. None and
    NaN are not groups.
    """
    in_order = sorted(group for group in groups if not is_none(group))
    if level == "node":
        return {group: int(group) for group in in_order}
    return {group: place for place, group in enumerate(in_order)}
