"""Guess from a matrix of latencies which CPUs share a core, a cache or a socket
(docs/exchange.md).
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import Floats, Ints
from fleet.analysis.exchange.tools import Grid
from fleet.model import Cpu, Topology

APART = 1.3  # a jump between latencies by more than this factor divides groups of CPUs
SIBLINGS_NS = 25.0  # SMT siblings share an L1 cache, so they are faster than this


def guess_topology(grid: Grid, sockets: int = 1) -> Topology | None:
    """Guess the groups of CPUs by average linkage of the logarithms of their latencies.

    Pairs faster than SIBLINGS_NS are SMT siblings, if no CPU is left single or the
    single ones (E-cores) come last. The next larger groups of equal size share a
    cluster if they have two cores, else a last-level cache. Return None for fewer than
    three CPUs, a missing cell, or sockets that cannot be told apart.
    """
    from scipy.cluster import hierarchy  # type: ignore[import-untyped]  # noqa: PLC0415  few commands need it

    cpus, logs = np.array(grid.cpus), _compute_mean_logs(grid)
    if len(cpus) < 3 or np.isnan(logs).any():
        return None
    distances = logs[np.triu_indices(len(cpus), 1)]
    linkage = hierarchy.linkage(distances, "average")
    package = hierarchy.fcluster(
        hierarchy.linkage(distances, "ward"), sockets, "maxclust"
    )
    if not _have_equal_sizes(package) or package.max() != sockets:
        return None
    core, is_single = np.arange(len(cpus)), np.zeros(len(cpus), dtype=bool)
    levels = list(_cut_into_inner_ns_and_groups(linkage))
    for ns, groups in levels:
        singles, largest = np.bincount(groups)[groups] == 1, np.bincount(groups).max()
        if (
            ns <= SIBLINGS_NS
            and largest == 2
            and _are_pairs_before_singles(groups, singles)
        ):
            core, is_single = groups, singles
    size = np.bincount(core).max()
    llc, cluster = package, core
    wider = [
        ids
        for _, ids in levels
        if _have_equal_sizes(ids) and sockets < ids.max() < core.max()
    ]
    if is_single.any():
        members = np.flatnonzero(is_single)
        own = hierarchy.linkage(
            logs[np.ix_(members, members)][np.triu_indices(len(members), 1)], "average"
        )
        for _, groups in _cut_into_inner_ns_and_groups(own):
            if _have_equal_sizes(groups):
                cluster = cluster.copy()
                cluster[members] = core.max() + groups
                break
    elif wider and len(cpus) == 2 * size * wider[0].max():
        cluster = wider[0]
    elif wider:
        llc = wider[0]
    levels_by_lowest = (
        pd.Series(cpus).groupby(groups).transform("min").tolist()
        for groups in (core, cluster, llc, package)
    )
    kinds = (
        np.where(is_single, "efficiency", "performance")
        if is_single.any()
        else [None] * len(cpus)
    )
    return Topology(
        tuple(
            Cpu(
                int(cpu),
                core=c,
                cluster=k,
                llc=cache,
                die=p,
                package=p,
                node=p,
                kind=kind,
            )
            for cpu, c, k, cache, p, kind in zip(
                cpus, *levels_by_lowest, kinds, strict=True
            )
        )
    )


def _compute_mean_logs(grid: Grid) -> Floats:
    """Return the log latencies, each the mean of a pair's two directions; NaN where
    neither is known.
    """
    places = {cpu: place for place, cpu in enumerate(grid.cpus)}
    values = np.full((len(places), len(places)), np.nan)
    for (row, column), ns in grid.cells.items():
        values[places[row], places[column]] = np.log(ns)
    both = np.where(np.isnan(values), values.T, values)
    both = (both + both.T) / 2
    np.fill_diagonal(both, 0)
    return np.asarray(both)


def _cut_into_inner_ns_and_groups(linkage: Floats) -> Iterator[tuple[float, Ints]]:
    """Cut a linkage at each jump of its heights. Yield the median ns below the jump,
    and each CPU's group.
    """
    from scipy.cluster import hierarchy  # noqa: PLC0415

    heights = linkage[:, 2]
    for place in np.flatnonzero(np.diff(heights) > np.log(APART)):
        middle = (heights[place] + heights[place + 1]) / 2
        yield (
            float(np.exp(np.median(heights[: place + 1]))),
            hierarchy.fcluster(linkage, middle, "distance"),
        )


def _have_equal_sizes(groups: Ints) -> bool:
    """Report whether all groups have the same size. groups: the group of each CPU,
    numbered from 1.
    """
    return len({*np.bincount(groups)[1:]}) == 1


def _are_pairs_before_singles(groups: Ints, is_single: Ints) -> bool:
    """Report whether no CPU is single, or two or more are and follow all pairs of
    neighbouring CPUs.
    """
    first = len(groups) - int(is_single.sum())
    are_neighbours = first % 2 == 0 and (groups[:first:2] == groups[1:first:2]).all()
    return first == len(groups) or bool(
        first < len(groups) - 1 and is_single[first:].all() and are_neighbours
    )
