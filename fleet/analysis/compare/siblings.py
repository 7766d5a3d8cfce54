"""Find the odd ones among machines with equal facts: compare each with the others, by
logarithms.

The arrays of `Distances` and below have a row per number (a relation, a CPU) and a
column per machine.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import Bools, Floats, Ints, number_groups
from fleet.analysis.compare import judge
from fleet.analysis.compare.sides import RunNumbers, read_selected_runs
from fleet.analysis.compare.verdicts import CLASS, THRESHOLD
from fleet.analysis.reduce.environment import describe_table_facts_by_name
from fleet.analysis.reduce.interval import MIN_RUNS
from fleet.analysis.reduce.load import drop_points
from fleet.analysis.reduce.matrices import lay_out_matrices
from fleet.analysis.reduce.numbers import ALL, Only
from fleet.analysis.reduce.run_levels import label_levels_of_hosts
from fleet.hostnames import join_names
from fleet.late import special
from fleet.model import Descriptions, View
from fleet.store.runs import Root
from fleet.text import format_count

Name = tuple[str, str, str]  # a benchmark, its variant, and a relation, CPU or node
_EQUAL = ("cpu_model", "cpu_stepping", "cpus_measured", "smt", "target")
_GIB = 1 << 30
MEAN = "all"  # the row of a machine's mean over relations
MIN_MACHINES = 4  # for a verdict, so that each is compared with three or more
# at most one machine in so many is left out of what others are compared with
_REMOVED = 5
_ROUNDS = 10
# q of a machine that the first round leaves out: one odd machine makes others look
# alike
_MAYBE = 0.1
# quantiles of the distances, whose ratio shows how heavy the tails are
_BULK = 0.75
_TAIL = 0.975
# twice the standard error of the logarithm of that ratio, times the root of how many
# there are
_KNOWN = 2.5
_MAX_FREEDOM = 200.0
_FREEDOMS = np.geomspace(1, _MAX_FREEDOM, 60)


@dataclass(frozen=True, slots=True)
class Siblings:
    """A group of equal machines, and how far each is from the others.

    about: a text that names what they share. runs: how many were read. rows: a row per
    host and number, with `host`, `benchmark`, `variant`, `relation` (or "CPU 3", "node
    1", MEAN), `ns`, `others_ns` (the mean of `others` machines), `ratio` with its 95 %
    interval `low`, `high`, `scatter` (relative standard deviation between machines),
    `p`, `q` (NaN without a verdict) and `odd`. smallest: the relative difference of one
    relation that 8 of 10 such comparisons find; None without verdicts. environment:
    facts in which odd hosts
    differ: `host`, `what`, `value`, `others` (the commonest value of the others, and
    how many have it).
    """

    hosts: tuple[str, ...]
    about: str
    runs: int
    threshold: float
    rows: pd.DataFrame
    smallest: float | None
    environment: pd.DataFrame
    caveats: tuple[str, ...]
    descriptions: Descriptions

    @property
    def has_verdict(self) -> bool:
        """Report whether there are enough machines and runs for a verdict."""
        return bool(self.rows["p"].notna().any())

    @property
    def odd_hosts(self) -> list[str]:
        """Return the hosts that differ from their siblings."""
        return list(self.rows.loc[self.rows["odd"], "host"].unique())


class Distances(NamedTuple):
    """The distance of each machine's number from the mean of the others; arrays of
    numbers x machines.

    moved: the distance, a logarithm. mean, scatter: the mean and standard deviation of
    the `others` machines.
    freedom: of `scatter`. p: of such a distance by chance; q: p corrected; all three
    NaN below three others.
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

    def are_odd(self, threshold: float, level: float = judge.ALPHA) -> Bools:
        """Report which numbers are odd: with q below `level`, and off by more than
        `threshold`, a share.
        """
        return np.asarray((self.q < level) & (np.abs(self.moved) > np.log1p(threshold)))


def compare_siblings(
    root: Root,
    texts: Sequence[str],
    *,
    threshold: float | None = None,
    only: Only = ALL,
) -> list[Siblings]:
    """Compare machines with equal ones; return the groups, largest first, even those of
    a single machine.

    Machines are equal in CPU model, stepping, sockets, CPUs measured, SMT and target;
    one of an unknown CPU model equals no other. Runs that differ in these from their
    host's last run are left out. threshold: see `compare`. Raises UsageError if no run
    has numbers.
    """
    listing, runs, cpus = read_selected_runs(root, texts, only.benchmark)
    runs["key"] = join_equal_facts(runs, cpus)
    last_key = runs.groupby("host_id")["key"].transform("last")
    runs = runs[runs["key"] == last_key]
    numbers = RunNumbers.read(listing, runs, only)
    by_run = numbers.rows.set_index(["run_id", *CLASS])
    ns = by_run["median_ns"].unstack("run_id")
    measured = runs[runs["run_id"].isin(ns.columns)]
    matters = threshold or THRESHOLD
    groups = []
    for _, own in measured.groupby("key", sort=False):
        group = _Group.select(own, cpus, ns, matters)
        groups.append(_compare_group(group, numbers))
    groups.sort(key=lambda group: -len(group.hosts))
    return groups


def join_equal_facts(runs: pd.DataFrame, cpus: pd.DataFrame) -> pd.Series:
    """Return a text per run of the facts that siblings share; add the host if the CPU
    is unknown.
    """
    sockets = runs["run_id"].map(
        cpus[cpus["measured"]].groupby("run_id")["package"].nunique()
    )
    # memory too may be what is odd
    keys = zip(*(runs[name] for name in _EQUAL), sockets, strict=True)
    alone = runs["host_id"].where(runs["cpu_model"].isna(), "")
    return pd.Series(map(str, keys), index=runs.index) + alone


@dataclass(frozen=True, slots=True)
class _Group:
    """Equal machines.

    runs, cpus: their rows of these tables. hosts: sorted. machines: the place in
    `hosts` of each column of `ns`. ns: a row per relation, a column per run.
    """

    runs: pd.DataFrame
    cpus: pd.DataFrame
    hosts: tuple[str, ...]
    machines: Ints
    ns: pd.DataFrame
    threshold: float

    @classmethod
    def select(
        cls, runs: pd.DataFrame, cpus: pd.DataFrame, ns: pd.DataFrame, threshold: float
    ) -> "_Group":
        """Select the group of these runs from `cpus` and `ns` of all."""
        hosts = tuple(sorted(runs["host_id"].unique()))
        own_ns = ns.loc[:, ns.columns.isin(runs["run_id"])].dropna(how="all")
        host_of_run = runs.set_index("run_id")["host_id"]
        machines = host_of_run[own_ns.columns].map(hosts.index).to_numpy()
        own_cpus = cpus[cpus["run_id"].isin(runs["run_id"])]
        return cls(runs, own_cpus, hosts, machines, own_ns, threshold)

    @property
    def may_switch_levels(self) -> bool:
        """Report whether a machine is virtual."""
        return bool(self.runs["hypervisor"].notna().any())

    @property
    def has_one_layout(self) -> bool:
        """Report whether the machines number their CPUs alike."""
        layouts = self.cpus[["cpu", "core", "llc", "node", "package"]]
        return len(layouts.drop_duplicates()) <= self.cpus["cpu"].nunique()

    def find_short_of_runs(self) -> Bools:
        """Report which machines have fewer than MIN_RUNS runs."""
        counts = self.runs["host_id"].value_counts()
        return np.asarray(counts[[*self.hosts]].to_numpy() < MIN_RUNS)

    def describe(self) -> str:
        """Return a text that names what the machines share."""
        last = self.runs.iloc[-1]
        model = last["cpu_model"]
        if pd.isna(model):
            model = "unknown CPU"
        words = [model, format_count(last["cpus_measured"], "CPU")]
        sizes = {math.ceil(size / _GIB) for size in self.runs["memory_bytes"].dropna()}
        if sizes:
            words.append(f"{' or '.join(map(str, sorted(sizes)))} GiB")
        return ", ".join(words)


def _compare_group(group: _Group, numbers: RunNumbers) -> Siblings:
    logs_of_runs = np.log(group.ns.to_numpy())
    choices = number_groups(group.ns.index.to_frame(index=False), CLASS[:2])
    levels = label_levels_of_hosts(logs_of_runs, choices)
    logs, elsewhere, noise = reduce_machines(
        logs_of_runs, levels, group.machines, switches=group.may_switch_levels
    )
    are_short = group.find_short_of_runs()
    has_levels = group.may_switch_levels or elsewhere.any()
    of_cpus = None
    has_verdicts = len(group.hosts) >= MIN_MACHINES
    if has_verdicts and not (are_short.any() and has_levels):
        of_cpus = _compare_all_cpus(group, numbers)
    share = 0.5 if of_cpus else 1.0
    distances = measure_distances(logs, group.threshold, share, noise)
    names = [*group.ns.index]
    ns = np.exp(logs)
    if len(logs) > len(names):  # the last row is the mean over relations
        names.append(("", "", MEAN))
        ns[-1] = np.nan
    rows = _tabulate_numbers(group, names, distances, ns)
    if of_cpus:
        cpu_distances = measure_distances(of_cpus.numbers, group.threshold, share)
        no_ns = np.full(of_cpus.numbers.shape, np.nan)
        cpu_rows = _tabulate_numbers(group, of_cpus.names, cpu_distances, no_ns)
        rows = pd.concat([rows, cpu_rows], ignore_index=True)
    away = dict(zip(group.ns.index, elsewhere, strict=True))
    caveats = _list_caveats(group.hosts, distances.p, are_short, away)
    return Siblings(
        hosts=group.hosts,
        about=group.describe(),
        runs=len(group.runs),
        threshold=group.threshold,
        rows=rows,
        smallest=_estimate_smallest_found(distances, group.threshold, share),
        environment=_find_unlike_facts(group.runs, rows),
        caveats=tuple(caveats),
        descriptions=numbers.descriptions,
    )


def _estimate_smallest_found(
    distances: Distances, threshold: float, share: float
) -> float | None:
    """Return the relative difference of one number that 8 of 10 comparisons find; None
    without a verdict. share: as of `measure_distances`.
    """
    is_judged = ~np.isnan(distances.p)
    if not is_judged.any():
        return None
    error = np.median(distances.error[is_judged])
    freedom = np.median(distances.freedom[is_judged])
    alpha = judge.ALPHA * share / is_judged.sum()
    change = judge.estimate_detectable_change(
        np.array([error]), np.array([freedom]), alpha, float(np.log1p(threshold))
    )
    return float(np.expm1(change[0]))


class _CpuDistances(NamedTuple):
    """How far CPUs and nodes are from those of other machines. numbers: a row per name,
    a column per machine.
    """

    names: list[Name]
    numbers: Floats


def _compare_all_cpus(group: _Group, numbers: RunNumbers) -> _CpuDistances | None:
    """Compare the CPUs of machines, and their nodes, in each benchmark that all have a
    matrix of; None if there is none or layouts differ.
    """
    if not group.has_one_layout:
        return None
    measured = group.cpus[group.cpus["measured"]]
    order = measured.sort_values("cpu").drop_duplicates("cpu")
    cpus = order["cpu"].tolist()
    nodes = pd.factorize(order["node"], sort=True)[0].clip(0)
    places = [f"CPU {cpu}" for cpu in cpus]
    if nodes.max() > 0:
        places += [f"node {node}" for node in range(nodes.max() + 1)]
    machine_of_run = group.runs.set_index("run_id")["host_id"].map(group.hosts.index)
    pairs = numbers.load_pairs(group.runs, group.cpus)
    pairs = drop_points(pairs, numbers.descriptions)
    names = list[Name]()
    parts = list[Floats]()
    for choice, rows in pairs.groupby(CLASS[:2], sort=False):
        benchmark, variant = map(str, choice)
        if numbers.descriptions[benchmark].view is not View.MATRIX:
            continue
        machines = rows["run_id"].map(machine_of_run).to_numpy(dtype=np.int64)
        if len(np.unique(machines)) < len(group.hosts):
            continue
        ns = lay_out_matrices(rows, cpus, numbers.column, machines, len(group.hosts))
        of_cpus, of_nodes = compare_cpus(np.log(ns), nodes)
        names += [(benchmark, variant, place) for place in places]
        parts.append(np.vstack([of_cpus, of_nodes])[: len(places)])
    if not parts:
        return None
    return _CpuDistances(names, np.concatenate(parts))


def _tabulate_numbers(
    group: _Group, names: Sequence[Name], distances: Distances, ns: Floats
) -> pd.DataFrame:
    """Return a row per host and number that the host has. ns: a row per name, NaN for
    those not in ns.
    """
    low, high, _ = judge.apply_student(
        distances.moved, distances.error, distances.freedom
    )
    others_ns = np.exp(distances.mean)
    scatter = np.expm1(distances.scatter)
    columns = {
        "ns": ns,
        "others_ns": np.where(np.isnan(ns), np.nan, others_ns),
        "others": distances.others,
        "ratio": np.exp(distances.moved),
        "low": np.exp(low),
        "high": np.exp(high),
        "scatter": np.where(np.isnan(distances.p), np.nan, scatter),
        "p": distances.p,
        "q": distances.q,
        "odd": distances.are_odd(group.threshold),
    }
    names_of_rows = np.repeat(np.array(names, dtype=object), len(group.hosts), axis=0)
    rows = pd.DataFrame(names_of_rows, columns=CLASS)
    rows.insert(0, "host", list(group.hosts) * len(names))
    for name, values in columns.items():
        rows[name] = values.ravel()
    return rows[rows["ratio"].notna()]


def _list_caveats(
    hosts: Sequence[str], p: Floats, are_short: Bools, away: Mapping[Any, Bools]
) -> Iterator[str]:
    """Warn of hosts without a verdict and of runs left out. are_short: of runs. away:
    by relation, which hosts had runs at another level.
    """
    has_no_verdict = np.isnan(p).all(axis=0)
    if 1 < len(hosts) < MIN_MACHINES:
        yield (
            f"{join_names(hosts)}: no verdict: {len(hosts)} equal machines; it needs"
            f" {MIN_MACHINES} or more."
        )
    elif len(hosts) > 1 and (are_short & has_no_verdict).any():
        names = join_names(_select_names(hosts, are_short & has_no_verdict))
        yield (
            f"{names}: no verdict: fewer than {MIN_RUNS} runs, and these machines"
            " switch levels, or may under their hypervisor."
        )
    for (benchmark, variant, relation), are_away in away.items():
        if are_away.any():
            names = join_names(_select_names(hosts, are_away))
            yield (
                f"{names}: runs at another level are left out of {benchmark}/{variant}"
                f" {relation}."
            )


def _select_names(hosts: Sequence[str], are_chosen: Bools) -> list[str]:
    return [host for host, is_own in zip(hosts, are_chosen, strict=True) if is_own]


def _find_unlike_facts(runs: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the facts in which an odd host's last run differs from the last runs of
    most others.
    """
    last = runs.groupby("host_id").tail(1).sort_values("host_id")
    hosts = last["host_id"].tolist()
    around = describe_table_facts_by_name(last)
    odd_hosts = rows.loc[rows["odd"], "host"].unique()
    differences = []
    for host in odd_hosts:
        for fact, values in around.items():
            own = values[hosts.index(host)]
            others = Counter(values)
            others[own] -= 1
            usual, count = others.most_common(1)[0]
            if own != usual and count * 2 > others.total():
                beside = f"{usual} ({count} of {others.total()})"
                differences.append((host, fact, own, beside))
    return pd.DataFrame(differences, columns=["host", "what", "value", "others"])


def reduce_machines(
    runs: Floats, levels: Ints, machines: Ints, *, switches: bool = False
) -> tuple[Floats, Bools, Floats]:
    """Return each machine's numbers, whether it has runs at other levels, and its
    noise.

    runs: a row per number, a column per run, NaN where a run lacks it. levels: of each,
    by `run_levels`. machines: each run's machine, from 0. A machine's number is the
    median of its runs at the usual level. If there are several rows, a last row has
    their means. switches: whether machines may switch levels. If they may, or one does,
    a machine with fewer than three runs gets NaN, since all of these may be at another
    level. noise: the variance that differences between a machine's runs add to its
    numbers; NaN for a machine with one run of each.
    """
    is_usual = np.array([_are_at_usual_level(row, machines) for row in levels])
    left_out = ~np.isnan(runs) & ~is_usual
    enough = MIN_RUNS if switches or left_out.any() else 1
    parts = (~np.isnan(runs), left_out)
    counts, elsewhere = (
        _group_by_machine(part, machines).sum().T.to_numpy() for part in parts
    )
    usual = np.where(is_usual, runs, np.nan)
    medians = _group_by_machine(usual, machines).median().T.to_numpy()
    numbers = np.where(counts >= enough, medians, np.nan)
    if len(runs) > 1:
        off = numbers - judge.compute_nanmedian(numbers, axis=1)[:, None]
        numbers = np.vstack([numbers, judge.compute_nanmean(off, axis=0)])
    return numbers, elsewhere > 0, _estimate_noise(usual, machines)


def _estimate_noise(runs: Floats, machines: Ints) -> Floats:
    """Estimate the variance of machines' medians from all rows, shrunk over machines;
    NaN for single runs.
    """
    groups = _group_by_machine(runs, machines)
    counts = groups.count()
    freedom = (counts - 1).clip(lower=0).sum(axis=1).to_numpy(dtype=float)
    squares = (groups.var(ddof=0) * counts).sum(axis=1).to_numpy()
    variances = np.maximum(squares / np.maximum(freedom, 1), judge.ROUNDING)
    # of the variance of a run
    times = np.pi / (2 * counts.mean(axis=1).clip(lower=1).to_numpy() + np.pi - 2)
    noise, has_freedom = np.full(len(freedom), np.nan), freedom > 0
    noise[has_freedom] = judge.moderate_variances(
        variances[has_freedom], freedom[has_freedom]
    )[0]
    return np.asarray(noise * times)


def _group_by_machine(runs: Floats | Bools, machines: Ints) -> Any:
    """Group the columns of `runs` by machine; a reduction of the result has a row per
    machine.
    """
    return pd.DataFrame(runs.T).groupby(machines)


def _are_at_usual_level(labels: Ints, machines: Ints) -> Bools:
    """Report which runs are at the commonest level, or at one that a machine never
    leaves and others lack.
    """
    # the label of a run without the number is -1
    counts = np.bincount(labels + 1, minlength=2)[1:]
    is_usual: Bools = labels == counts.argmax()
    for level in np.unique(labels[~is_usual & (labels >= 0)]):
        owners = np.unique(machines[labels == level])
        is_always = set(labels[machines == owners[0]]) <= {level, -1}
        is_usual |= (labels == level) & (len(owners) == 1 and is_always)
    return is_usual


def measure_distances(
    logs: Floats, threshold: float, share: float = 1.0, noise: Floats | None = None
) -> Distances:
    """Compare each machine's numbers with those of the other machines that are not odd.

    logs: NaN where a machine has no number. share: the part of the 5 % error rate to
    use. noise: from `reduce_machines`; a machine noisier than the mean gets a larger
    variance. Each distance is divided by the standard deviation of the others, shrunk
    over rows. All are tested again without numbers that may be odd, then without those
    that are. Heavy tails of the distances limit the degrees of freedom.
    """
    out, more = np.zeros(logs.shape, dtype=bool), np.zeros(logs.shape[1])
    if noise is not None and not np.isnan(noise).all():
        more = np.nan_to_num(
            np.maximum(noise - judge.compute_nanmean(noise, axis=0), 0.0)
        )
    for level in [_MAYBE] + [judge.ALPHA] * _ROUNDS:
        tested = _test_machines(logs, out, share, more)
        strange = np.where(
            tested.are_odd(threshold, level), np.abs(tested.moved / tested.error), 0.0
        )
        rank = np.argsort(np.argsort(-strange, axis=1), axis=1)
        new = (strange > 0) & (rank < logs.shape[1] // _REMOVED)
        if (new == out).all():
            break
        out = new
    return tested


def _test_machines(
    logs: Floats, excluded: Bools, share: float, extra_variance: Floats
) -> Distances:
    has_number = ~np.isnan(logs)
    used = has_number & ~excluded
    usual = np.nan_to_num(judge.compute_nanmedian(logs, axis=1))[:, None]
    values = np.where(used, logs - usual, 0.0)
    others = used.sum(axis=1, keepdims=True) - used
    is_tested = has_number & (others >= MIN_MACHINES - 1)
    count = np.maximum(others, 1)
    middle = (values.sum(axis=1, keepdims=True) - values) / count
    squares = (values**2).sum(axis=1, keepdims=True) - values**2 - count * middle**2
    variance, freedom = np.ones(logs.shape), np.full(logs.shape, np.nan)
    raw_variance = np.maximum(squares / np.maximum(count - 1, 1), judge.ROUNDING)[
        is_tested
    ]
    variance[is_tested], freedom[is_tested] = judge.moderate_variances(
        raw_variance, (others - 1.0)[is_tested]
    )
    variance += extra_variance
    moved = np.where(others > 0, logs - usual - middle, np.nan)
    size = np.abs(moved) / np.sqrt(variance * (1 + 1 / count))
    sizes = np.where(is_tested & used, size, np.nan)
    others_sizes = (
        np.delete(sizes, machine, axis=1) for machine in range(logs.shape[1])
    )
    freedom = np.minimum(freedom, [*map(_estimate_freedom, others_sizes)])
    p, q = np.full((2, *logs.shape), np.nan)
    p[is_tested] = 2 * special.stdtr(freedom[is_tested], -size[is_tested])
    if is_tested.any():
        q[is_tested] = np.minimum(
            judge.control_false_discovery(p[is_tested]) / share, 1.0
        )
    return Distances(moved, middle + usual, others, np.sqrt(variance), freedom, p, q)


def _estimate_freedom(sizes: Floats) -> float:
    """Return the degrees of freedom of a Student's t with tails two standard errors
    lighter than these.
    """
    sizes = sizes[~np.isnan(sizes)]
    if not len(sizes):
        return _MAX_FREEDOM
    bulk, tail = np.quantile(sizes, (_BULK, _TAIL))
    ratios = special.stdtrit(_FREEDOMS, (1 + _TAIL) / 2) / special.stdtrit(
        _FREEDOMS, (1 + _BULK) / 2
    )
    # 0 where most machines agree to the last digit
    bulk = max(bulk, np.finfo(float).tiny)
    return float(
        np.interp(
            -tail / bulk * np.exp(-_KNOWN / len(sizes) ** 0.5), -ratios, _FREEDOMS
        )
    )


def compare_cpus(pairs: Floats, nodes: Ints) -> tuple[Floats, Floats]:
    """Return how far each CPU and node is from those of other machines: a row each, a
    column per machine.

    pairs: logarithms, machines x CPUs x CPUs, NaN where a pair was not measured. nodes:
    each CPU's node, from
    0. A pair's distance is its number minus the median of that pair over machines; a
      CPU's, the median of its pairs; a node's, the mean of the middle half of its CPUs.
      Return CPUs' distances minus their nodes'.
    """
    own = judge.compute_nanmedian(
        pairs - judge.compute_nanmedian(pairs, axis=0), axis=2
    ).T
    of_nodes = []
    for node in range(int(nodes.max()) + 1):
        members = np.sort(own[nodes == node], axis=0)
        quarter = len(members) // 4
        of_nodes.append(members[quarter : len(members) - quarter].mean(axis=0))
    return own - np.array(of_nodes)[nodes], np.array(of_nodes)
