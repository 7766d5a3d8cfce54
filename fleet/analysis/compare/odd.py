"""Which of equal machines are odd: each number against the same of the others, on logarithms.

Pure: a row per number (a relation, a CPU), a column per machine. `siblings` reads runs and groups machines.
"""

from typing import NamedTuple

import numpy as np
from scipy import special  # type: ignore[import-untyped]  # scipy ships no types

from fleet.analysis.base.tables import Bools, Floats, Ints
from fleet.analysis.compare.judge import (
    ALPHA,
    ROUNDING,
    control_false_discovery,
    label_levels,
    median_of_known,
    moderate_variances,
)
from fleet.analysis.reduce.interval import LEAST_RUNS

LEAST_MACHINES = 4  # of a verdict: each is held against three or more
_REMOVED = 5  # at most one machine in so many is left out of what the others are held against
_ROUNDS = 10
_MAYBE = 0.1  # q of a machine that the first round leaves out: one odd machine makes others look alike
_BULK, _TAIL = 0.75, 0.975  # of the distances, whose ratio tells how heavy their tails are
_KNOWN = 2.5  # twice the standard error of the logarithm of that ratio, times the root of how many there are
_MOST_FREEDOM = 200.0
_FREEDOMS = np.geomspace(1, _MOST_FREEDOM, 60)
_RATIOS = special.stdtrit(_FREEDOMS, (1 + _TAIL) / 2) / special.stdtrit(_FREEDOMS, (1 + _BULK) / 2)


class Distances(NamedTuple):
    """How far each number is from the mean of the others.

    moved: the distance. mean: of the others, `others` of them. scatter: their standard deviation as it is
    tested, of so many degrees of `freedom`. p: that the machine is as the others; q: of all p here. Both NaN
    where there are fewer than three others.
    """

    moved: Floats
    mean: Floats
    others: Ints
    scatter: Floats
    freedom: Floats
    p: Floats
    q: Floats

    @property
    def error(self) -> Floats:
        """The standard error of each distance."""
        return np.asarray(self.scatter * np.sqrt(1 + 1 / np.maximum(self.others, 1)))

    def found(self, threshold: float, level: float = ALPHA) -> Bools:
        """Which are odd: q below the level, and beyond the threshold, a share."""
        return np.asarray((self.q < level) & (np.abs(self.moved) > np.log1p(threshold)))


def reduce_runs(runs: Floats, machines: Ints, *, switches: bool = False) -> tuple[Floats, Bools, Floats]:
    """The number of each machine, the median of its runs at the usual level; which have others; their noise.

    runs: a row per number, a column per run, NaN where it lacks the number; machines: of each run, from 0.
    Below the rows, where there are several, is their mean. switches: a machine may switch levels. If so, or
    if one does, a machine with fewer than three runs has no number: all may be at another level by chance.
    noise: the variance of a machine's numbers for that its runs vary; NaN where it has one run of each.
    """
    count = int(machines.max()) + 1
    kept = np.array([_at_usual_level(row, machines) for row in runs])
    left_out = ~np.isnan(runs) & ~kept
    enough = LEAST_RUNS if switches or left_out.any() else 1
    found, elsewhere = np.full((len(runs), count), np.nan), np.zeros((len(runs), count), dtype=bool)
    for machine in range(count):
        own = machines == machine
        values = median_of_known(np.where(kept[:, own], runs[:, own], np.nan), axis=1)
        found[:, machine] = np.where((~np.isnan(runs[:, own])).sum(axis=1) >= enough, values, np.nan)
        elsewhere[:, machine] = left_out[:, own].any(axis=1)
    if len(runs) > 1:
        found = np.vstack([found, mean_of_known(found - median_of_known(found, axis=1)[:, None], axis=0)])
    return found, elsewhere, _noise(np.where(kept, runs, np.nan), machines, count)


def _noise(runs: Floats, machines: Ints, count: int) -> Floats:
    """Of each machine the variance of a median of its runs, as all rows tell it, shrunk over machines."""
    variances, freedom, times = np.zeros((3, count))
    for machine in range(count):
        own = runs[:, machines == machine]
        each = (~np.isnan(own)).sum(axis=1)
        freedom[machine] = np.maximum(each - 1, 0).sum()
        squares = np.nansum((own - mean_of_known(own, axis=1)[:, None]) ** 2)
        variances[machine] = max(squares / max(freedom[machine], 1.0), ROUNDING)
        times[machine] = np.pi / (2 * max(float(each.mean()), 1.0) + np.pi - 2)  # of the variance of a run
    known = freedom > 0
    found = np.full(count, np.nan)
    found[known] = moderate_variances(variances[known], freedom[known])[0] * times[known]
    return found


def _at_usual_level(logs: Floats, machines: Ints) -> Bools:
    """Which runs of one number are compared.

    Machines that switch between levels do so in some of their runs, or several do: such levels are left out.
    One that all runs of a single machine are at, and no others, is what makes it odd, and stays.
    """
    kept = ~np.isnan(logs)
    values, of = logs[kept], machines[kept]
    labels = label_levels(values[None, :])[0]
    if labels.any():
        usual = labels == np.bincount(labels).argmax()
        for level in np.unique(labels[~usual]):
            owners = np.unique(of[labels == level])
            usual |= (labels == level) & (len(owners) == 1 and bool((labels[of == owners[0]] == level).all()))
        kept[kept] = usual
    return kept


def measure_distances(
    logs: Floats, threshold: float, share: float = 1.0, noise: Floats | None = None
) -> Distances:
    """Hold each machine against the others, without those that are odd.

    logs: NaN where a machine has no number. share: of the error rate. noise: as `reduce_runs` returns it; the
    variance of a machine is larger by as much as its runs vary more than those of most. Externally
    studentised: the machine itself is no part of what it is held against; the variance between machines is
    shrunk over rows. What may be odd, then what is, is left out, and all are tested again. Of a mean the
    tails are lighter than of machines, so the degrees of freedom are at most those of Student's distribution
    that all distances fit.
    """
    out, more = np.zeros(logs.shape, dtype=bool), np.zeros(logs.shape[1])
    if noise is not None and not np.isnan(noise).all():
        more = np.nan_to_num(np.maximum(noise - mean_of_known(noise, axis=0), 0.0))
    for level in [_MAYBE] + [ALPHA] * _ROUNDS:
        tested = _tested(logs, out, share, more)
        strange = np.where(tested.found(threshold, level), np.abs(tested.moved / tested.error), 0.0)
        rank = np.argsort(np.argsort(-strange, axis=1), axis=1)
        new = (strange > 0) & (rank < logs.shape[1] // _REMOVED)
        if (new == out).all():
            break
        out = new
    return tested


def _tested(logs: Floats, out: Bools, share: float, more: Floats) -> Distances:
    there = ~np.isnan(logs)
    used = there & ~out
    usual = np.nan_to_num(median_of_known(logs, axis=1))[:, None]
    values = np.where(used, logs - usual, 0.0)
    others = used.sum(axis=1, keepdims=True) - used
    known = there & (others >= LEAST_MACHINES - 1)
    count = np.maximum(others, 1)
    middle = (values.sum(axis=1, keepdims=True) - values) / count
    squares = (values**2).sum(axis=1, keepdims=True) - values**2 - count * middle**2
    variance, freedom = np.ones(logs.shape), np.full(logs.shape, np.nan)
    found = np.maximum(squares / np.maximum(count - 1, 1), ROUNDING)[known]
    variance[known], freedom[known] = moderate_variances(found, (others - 1.0)[known])
    variance += more
    moved = np.where(others > 0, logs - usual - middle, np.nan)
    size = np.abs(moved) / np.sqrt(variance * (1 + 1 / count))
    sizes = np.where(known & used, size, np.nan)
    freedom = np.minimum(freedom, [_freedom_of(np.delete(sizes, at, axis=1)) for at in range(logs.shape[1])])
    p, q = np.full((2, *logs.shape), np.nan)
    p[known] = 2 * special.stdtr(freedom[known], -size[known])
    if known.any():
        q[known] = np.minimum(control_false_discovery(p[known]) / share, 1.0)
    return Distances(moved, middle + usual, others, np.sqrt(variance), freedom, p, q)


def _freedom_of(sizes: Floats) -> float:
    """The degrees of freedom of the Student's distribution whose bulk and tail are as far apart.

    Less about two standard errors of how far apart they are, which few distances tell badly.
    """
    sizes = sizes[~np.isnan(sizes)]
    if not len(sizes):
        return _MOST_FREEDOM
    bulk, tail = np.quantile(sizes, (_BULK, _TAIL))
    return float(np.interp(-tail / bulk * np.exp(-_KNOWN / len(sizes) ** 0.5), -_RATIOS, _FREEDOMS))


def compare_cpus(pairs: Floats, nodes: Ints) -> tuple[Floats, Floats]:
    """How far each CPU is from the same CPU of the others beside its node, and each node from the same node.

    pairs: logarithms, machines x CPUs x CPUs, NaN where a pair was not measured. nodes: of the CPUs, from 0.
    A row per CPU, or node; a column per machine. Of a CPU: the median over its partners of the pair less the
    median of the same pair over machines; of a node: the mean of the middle half of its CPUs.
    """
    own = median_of_known(pairs - median_of_known(pairs, axis=0), axis=2).T
    of_nodes = []
    for node in range(int(nodes.max()) + 1):
        members = np.sort(own[nodes == node], axis=0)
        quarter = len(members) // 4
        of_nodes.append(members[quarter : len(members) - quarter].mean(axis=0))
    return own - np.array(of_nodes)[nodes], np.array(of_nodes)


def mean_of_known(values: Floats, axis: int) -> Floats:
    """The mean of the values that are there; NaN of none."""
    there = ~np.isnan(values)
    counts = there.sum(axis=axis)
    return np.asarray(np.where(there, values, 0.0).sum(axis=axis) / np.where(counts > 0, counts, np.nan))
