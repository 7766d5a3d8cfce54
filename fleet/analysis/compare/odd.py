"""Finds odd ones among equal machines: each number is held against that of the others, on logarithms.

Pure: a row per number (a relation, a CPU), a column per machine. `siblings` reads runs and groups machines.
"""

from typing import NamedTuple

import numpy as np

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
from fleet.late import special

LEAST_MACHINES = 4  # of a verdict: each is held against three or more
_REMOVED = 5  # at most one machine in so many is left out of what the others are held against
_ROUNDS = 10
_MAYBE = 0.1  # q of a machine that the first round leaves out: one odd machine makes others look alike
_BULK, _TAIL = 0.75, 0.975  # of the distances, whose ratio tells how heavy their tails are
_KNOWN = 2.5  # twice the standard error of the logarithm of that ratio, times the root of how many there are
_MOST_FREEDOM = 200.0
_FREEDOMS = np.geomspace(1, _MOST_FREEDOM, 60)


class Distances(NamedTuple):
    """Distances of each number from the mean of the others.

    moved: the distance. mean: of the others, `others` of them. scatter: their standard deviation as tested,
    with `freedom` degrees of freedom. p: that the machine is as the others; q: of all p here. Both NaN where
    there are fewer than three others.
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
        """Return the standard error of each distance."""
        return np.asarray(self.scatter * np.sqrt(1 + 1 / np.maximum(self.others, 1)))

    def found(self, threshold: float, level: float = ALPHA) -> Bools:
        """Report which are odd: q below the level, and beyond the threshold, a share."""
        return np.asarray((self.q < level) & (np.abs(self.moved) > np.log1p(threshold)))


def reduce_runs(runs: Floats, machines: Ints, *, switches: bool = False) -> tuple[Floats, Bools, Floats]:
    """Return each machine's number, whether it has runs at other levels, and its noise.

    A number is the median of the machine's runs at the usual level. runs: a row per number, a column per run,
    NaN where it lacks the number; machines: of each run, from 0. Several rows are followed by their mean.
    switches: a machine may switch levels. If so, or if one does, a machine with fewer than three runs has no
    number: all may be at another level by chance. noise: the part of the variance of a machine's numbers that
    its runs cause; NaN where it has one run of each.
    """
    count = int(machines.max()) + 1
    is_usual = np.array([_are_at_usual_level(row, machines) for row in runs])
    left_out = ~np.isnan(runs) & ~is_usual
    enough = LEAST_RUNS if switches or left_out.any() else 1
    numbers, elsewhere = np.full((len(runs), count), np.nan), np.zeros((len(runs), count), dtype=bool)
    for machine in range(count):
        own = machines == machine
        values = median_of_known(np.where(is_usual[:, own], runs[:, own], np.nan), axis=1)
        numbers[:, machine] = np.where((~np.isnan(runs[:, own])).sum(axis=1) >= enough, values, np.nan)
        elsewhere[:, machine] = left_out[:, own].any(axis=1)
    if len(runs) > 1:
        numbers = np.vstack(
            [numbers, mean_of_known(numbers - median_of_known(numbers, axis=1)[:, None], axis=0)]
        )
    return numbers, elsewhere, _noise(np.where(is_usual, runs, np.nan), machines, count)


def _noise(runs: Floats, machines: Ints, count: int) -> Floats:
    """Return the variance of a median of each machine's runs, from all rows, shrunk over machines."""
    variances, freedom, times = np.zeros((3, count))
    for machine in range(count):
        own = runs[:, machines == machine]
        counts = (~np.isnan(own)).sum(axis=1)
        freedom[machine] = np.maximum(counts - 1, 0).sum()
        squares = np.nansum((own - mean_of_known(own, axis=1)[:, None]) ** 2)
        variances[machine] = max(squares / max(freedom[machine], 1.0), ROUNDING)
        times[machine] = np.pi / (2 * max(float(counts.mean()), 1.0) + np.pi - 2)  # of the variance of a run
    has_freedom = freedom > 0
    noise = np.full(count, np.nan)
    noise[has_freedom] = (
        moderate_variances(variances[has_freedom], freedom[has_freedom])[0] * times[has_freedom]
    )
    return noise


def _are_at_usual_level(logs: Floats, machines: Ints) -> Bools:
    """Report which runs of one number are compared.

    A level other than the commonest is left out if a machine is at it in only some of its runs, or if several
    machines are at it. One that all runs of a single machine are at, and no others, makes it odd, and stays.
    """
    is_compared = ~np.isnan(logs)
    values, of = logs[is_compared], machines[is_compared]
    labels = label_levels(values[None, :])[0]
    if labels.any():
        usual = labels == np.bincount(labels).argmax()
        for level in np.unique(labels[~usual]):
            owners = np.unique(of[labels == level])
            usual |= (labels == level) & (len(owners) == 1 and bool((labels[of == owners[0]] == level).all()))
        is_compared[is_compared] = usual
    return is_compared


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
        tested = _test_machines(logs, out, share, more)
        strange = np.where(tested.found(threshold, level), np.abs(tested.moved / tested.error), 0.0)
        rank = np.argsort(np.argsort(-strange, axis=1), axis=1)
        new = (strange > 0) & (rank < logs.shape[1] // _REMOVED)
        if (new == out).all():
            break
        out = new
    return tested


def _test_machines(logs: Floats, out: Bools, share: float, more: Floats) -> Distances:
    has_number = ~np.isnan(logs)
    used = has_number & ~out
    usual = np.nan_to_num(median_of_known(logs, axis=1))[:, None]
    values = np.where(used, logs - usual, 0.0)
    others = used.sum(axis=1, keepdims=True) - used
    is_tested = has_number & (others >= LEAST_MACHINES - 1)
    count = np.maximum(others, 1)
    middle = (values.sum(axis=1, keepdims=True) - values) / count
    squares = (values**2).sum(axis=1, keepdims=True) - values**2 - count * middle**2
    variance, freedom = np.ones(logs.shape), np.full(logs.shape, np.nan)
    raw_variance = np.maximum(squares / np.maximum(count - 1, 1), ROUNDING)[is_tested]
    variance[is_tested], freedom[is_tested] = moderate_variances(raw_variance, (others - 1.0)[is_tested])
    variance += more
    moved = np.where(others > 0, logs - usual - middle, np.nan)
    size = np.abs(moved) / np.sqrt(variance * (1 + 1 / count))
    sizes = np.where(is_tested & used, size, np.nan)
    freedom = np.minimum(
        freedom, [_estimate_freedom(np.delete(sizes, machine, axis=1)) for machine in range(logs.shape[1])]
    )
    p, q = np.full((2, *logs.shape), np.nan)
    p[is_tested] = 2 * special.stdtr(freedom[is_tested], -size[is_tested])
    if is_tested.any():
        q[is_tested] = np.minimum(control_false_discovery(p[is_tested]) / share, 1.0)
    return Distances(moved, middle + usual, others, np.sqrt(variance), freedom, p, q)


def _estimate_freedom(sizes: Floats) -> float:
    """Return the degrees of freedom of Student's distribution whose bulk and tail are as far apart as these.

    About two standard errors are taken off that distance, which few sizes estimate badly.
    """
    sizes = sizes[~np.isnan(sizes)]
    if not len(sizes):
        return _MOST_FREEDOM
    bulk, tail = np.quantile(sizes, (_BULK, _TAIL))
    ratios = special.stdtrit(_FREEDOMS, (1 + _TAIL) / 2) / special.stdtrit(_FREEDOMS, (1 + _BULK) / 2)
    return float(np.interp(-tail / bulk * np.exp(-_KNOWN / len(sizes) ** 0.5), -ratios, _FREEDOMS))


def compare_cpus(pairs: Floats, nodes: Ints) -> tuple[Floats, Floats]:
    """Return how far each CPU, less its node, and each node is from the same one of the other machines.

    pairs: logarithms, machines x CPUs x CPUs, NaN where a pair was not measured. nodes: of the CPUs, from 0.
    A row per CPU, or node; a column per machine. CPU: the median over its partners of the pair less the
    median of the same pair over machines; node: the mean of the middle half of its CPUs.
    """
    own = median_of_known(pairs - median_of_known(pairs, axis=0), axis=2).T
    of_nodes = []
    for node in range(int(nodes.max()) + 1):
        members = np.sort(own[nodes == node], axis=0)
        quarter = len(members) // 4
        of_nodes.append(members[quarter : len(members) - quarter].mean(axis=0))
    return own - np.array(of_nodes)[nodes], np.array(of_nodes)


def mean_of_known(values: Floats, axis: int) -> Floats:
    """Return the mean of the values that are not NaN; NaN of none."""
    is_known = ~np.isnan(values)
    counts = is_known.sum(axis=axis)
    return np.asarray(np.where(is_known, values, 0.0).sum(axis=axis) / np.where(counts > 0, counts, np.nan))
