"""Guess from a matrix of latencies which CPUs share a core, a cache or a socket
(docs/exchange.md).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import Bools, Floats, Ints
from fleet.analysis.exchange.tools import Grid
from fleet.model import Cpu, Topology

APART = 1.3  # a jump between latencies by more than this factor divides groups of CPUs
SIBLINGS_NS = 25.0  # SMT siblings share an L1 cache, so they are faster than this


class _Level(NamedTuple):
    """Groups of CPUs that a jump of latencies divides. ns: the median within them.
    groups: the group of each CPU, numbered from 1.
    """

    ns: float
    groups: Ints


def guess_topology(grid: Grid, sockets: int = 1) -> Topology | None:
    """Guess the groups of CPUs by average linkage of the logarithms of their latencies.

    Average linkage joins the two nearest groups of CPUs, again and again; the distance
    of two groups is the mean of all distances between their CPUs. Pairs faster than
    SIBLINGS_NS are SMT siblings, if all CPUs are in pairs, or if the CPUs without a
    sibling (E-cores) come last. The next larger groups of equal size share a cluster if
    a group has two cores, else a last-level cache. Return None for fewer than three
    CPUs, a missing cell, or sockets that cannot be told apart.
    """
    log_ns = _compute_mean_logs(grid)
    if len(log_ns) < 3 or np.isnan(log_ns).any():
        return None
    package = _cut_into_equal_groups(log_ns, sockets)
    if package is None:
        return None
    groups = _guess_groups(log_ns, package, sockets)
    cores = _name_by_lowest(grid.cpus, groups.core)
    clusters = _name_by_lowest(grid.cpus, groups.cluster)
    llcs = _name_by_lowest(grid.cpus, groups.llc)
    packages = _name_by_lowest(grid.cpus, package)
    kinds = _name_kinds(groups.is_single)
    # dies and nodes are not guessed: each is the whole socket
    cpus = []
    for place, number in enumerate(grid.cpus):
        cpu = Cpu(
            int(number),
            core=cores[place],
            cluster=clusters[place],
            llc=llcs[place],
            die=packages[place],
            package=packages[place],
            node=packages[place],
            kind=kinds[place],
        )
        cpus.append(cpu)
    return Topology(cpus)


class _Groups(NamedTuple):
    """The number of the core, cluster and last-level cache of each CPU, and whether the
    CPU is single: has no sibling though others have.
    """

    core: Ints
    cluster: Ints
    llc: Ints
    is_single: Bools


def _guess_groups(log_ns: Floats, package: Ints, sockets: int) -> _Groups:
    """Guess what CPUs share within a socket.

    There are three cases:

    - Some CPUs have no sibling, though others have: they are E-cores, which share
      clusters.
    - All CPUs are alike, and there are groups wider than a core and narrower than a
      socket: groups of two cores are clusters, larger ones share a last-level cache.
    - Else there is nothing between core and socket.

    Where nothing better is known, the cluster is the core, and the last-level cache is
    that of the socket. log_ns: a row and a column per CPU. package: the socket of each
    CPU. sockets: their number.
    """
    linkage = _link(log_ns, "average")
    levels = list(_cut_at_jumps(linkage))
    core = _find_cores(levels, len(log_ns))
    threads_by_core = np.bincount(core)
    threads = threads_by_core[core]  # for each CPU: how many CPUs its core has
    most_threads = threads.max()
    is_single = threads < most_threads
    if is_single.any():
        cluster = _cluster_singles(log_ns, core, is_single)
        return _Groups(core, cluster=cluster, llc=package, is_single=is_single)
    groups = _find_wider_groups(levels, core, sockets)
    if groups is None:
        return _Groups(core, cluster=core, llc=package, is_single=is_single)
    group_count = groups.max()  # groups are numbered from 1
    cpus_per_group = len(log_ns) / group_count
    has_two_cores = cpus_per_group == 2 * most_threads
    if has_two_cores:
        return _Groups(core, cluster=groups, llc=package, is_single=is_single)
    return _Groups(core, cluster=core, llc=groups, is_single=is_single)


def _compute_mean_logs(grid: Grid) -> Floats:
    """Return a matrix of the logarithms of latencies, with a row and a column per CPU.

    A pair has the mean of the logarithms of both directions, or that of the only
    direction known, or NaN if neither is known. The diagonal is 0.
    """
    log_ns = np.log(_lay_out(grid))
    other_direction = log_ns.T
    is_missing = np.isnan(log_ns)
    filled = np.where(is_missing, other_direction, log_ns)
    means = (filled + filled.T) / 2
    np.fill_diagonal(means, 0)
    return np.asarray(means)


def _lay_out(grid: Grid) -> Floats:
    """Return the cells as a matrix of ns, with a row and a column per CPU; NaN where
    there is no cell.
    """
    count = len(grid.cpus)
    latencies = np.full((count, count), np.nan)
    place_by_cpu = {cpu: place for place, cpu in enumerate(grid.cpus)}
    for ends, ns in grid.cells.items():
        row, column = (place_by_cpu[cpu] for cpu in ends)
        latencies[row, column] = ns
    return latencies


def _link(log_ns: Floats, method: str) -> Floats:
    """Return scipy's linkage of the CPUs, whose distances are their log latencies."""
    from scipy.cluster import hierarchy  # type: ignore[import-untyped]  # noqa: PLC0415  few commands need it

    above_diagonal = np.triu_indices(len(log_ns), 1)
    distances = log_ns[above_diagonal]  # of each two CPUs once, as scipy takes them
    return np.asarray(hierarchy.linkage(distances, method))


def _cut_into_equal_groups(log_ns: Floats, count: int) -> Ints | None:
    """Return each CPU's group of `count` groups of equal size, numbered from 1, or None
    if the CPUs do not fall into such.
    """
    from scipy.cluster import hierarchy  # noqa: PLC0415

    linkage = _link(log_ns, "ward")
    groups: Ints = hierarchy.fcluster(linkage, count, "maxclust")
    if groups.max() != count or not _have_equal_sizes(groups):
        return None
    return groups


def _cut_at_jumps(linkage: Floats) -> Iterator[_Level]:
    """Cut a linkage of log latencies into groups at each jump of more than APART, the
    lowest jump first.

    A row of a linkage joins two groups of CPUs. Its third number is the log latency
    between the two, by which rows are sorted. A jump is where the latency of a row is
    more than APART times that of the row before. The groups joined before a jump are a
    level. Its latency is the median of all joins before the jump, those of lower levels
    among them.
    """
    from scipy.cluster import hierarchy  # noqa: PLC0415

    log_latencies = linkage[:, 2]  # of the joins, rising
    # the log of the ratio of two latencies is the difference of their logs
    log_ratios = np.diff(log_latencies)
    is_before_jump = log_ratios > np.log(APART)
    for last_below in np.flatnonzero(is_before_jump):
        first_above = last_below + 1  # the rows around the jump
        middle_of_jump = (log_latencies[last_below] + log_latencies[first_above]) / 2
        groups = hierarchy.fcluster(linkage, middle_of_jump, "distance")
        logs_before_jump = log_latencies[:first_above]
        median_log = np.median(logs_before_jump)
        median_ns = float(np.exp(median_log))
        yield _Level(median_ns, groups)


def _have_equal_sizes(groups: Ints) -> bool:
    """Report whether all groups have the same size. groups: the group of each CPU,
    numbered from 1.
    """
    sizes = np.bincount(groups)[1:]  # without the number 0, which no group has
    return len(set(sizes)) == 1


def _find_cores(levels: Sequence[_Level], count: int) -> Ints:
    """Return the core of each of `count` CPUs: the groups of the widest level that can
    be SMT siblings, else one core for each CPU.
    """
    core = np.arange(count)
    for level in levels:
        if level.ns <= SIBLINGS_NS and _can_be_siblings(level.groups):
            core = level.groups
    return core


def _can_be_siblings(groups: Ints) -> bool:
    """Report whether groups can be the SMT siblings of cores. groups: the group of each
    CPU, numbered from 1.

    Groups can be siblings if all are pairs. Else some may be single CPUs, as E-cores
    have no siblings. Then there must be two or more single CPUs, they must follow all
    pairs, and each pair must be of neighbouring CPUs: 0 and 1, 2 and 3 and so on.
    """
    sizes = np.bincount(groups)  # by the number of the group
    if sizes.max() != 2:
        return False
    size_of_own_group = sizes[groups]  # for each CPU
    is_single = size_of_own_group == 1
    singles = int(is_single.sum())
    if singles == 0:
        return True
    paired = len(groups) - singles
    are_singles_last = is_single[paired:].all()
    if singles == 1 or not are_singles_last:
        return False
    groups_of_paired = groups[:paired]
    are_neighbours = groups_of_paired[0::2] == groups_of_paired[1::2]
    return bool(are_neighbours.all())


def _find_wider_groups(
    levels: Sequence[_Level], core: Ints, sockets: int
) -> Ints | None:
    """Return the narrowest groups of equal size that are more than sockets and fewer
    than cores; None if there are none.
    """
    for level in levels:  # narrowest groups first
        is_between = sockets < level.groups.max() < core.max()
        if is_between and _have_equal_sizes(level.groups):
            return level.groups
    return None


def _cluster_singles(log_ns: Floats, core: Ints, is_single: Bools) -> Ints:
    """Return the number of each CPU's cluster. Single CPUs, those alone in their core,
    form clusters: the narrowest groups of equal size that their latencies show. For
    every other CPU, and for all if there are no such groups, the cluster is the core.

    core: the number of each CPU's core. log_ns: a row and a column per CPU.
    """
    singles = np.flatnonzero(is_single)
    logs_of_singles = log_ns[np.ix_(singles, singles)]
    linkage = _link(logs_of_singles, "average")
    for level in _cut_at_jumps(linkage):  # narrowest groups first
        if _have_equal_sizes(level.groups):
            cluster = core.copy()
            # groups are numbered from 1, so these numbers follow those of cores
            cluster[singles] = core.max() + level.groups
            return cluster
    return core


def _name_by_lowest(cpus: Sequence[int], groups: Ints) -> list[int]:
    """Return for each CPU the lowest number of its group's CPUs."""
    lowest = pd.Series(cpus).groupby(groups).transform("min")
    return list(lowest.tolist())


def _name_kinds(is_single: Bools) -> list[str | None]:
    """Name the kind of each CPU's core; None where all are alike."""
    if not is_single.any():
        return [None] * len(is_single)
    return ["efficiency" if single else "performance" for single in is_single]
