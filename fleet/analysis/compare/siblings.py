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
from fleet.analysis.compare.sides import Tables, read_selected_runs, reduce_to_relations
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
_REMOVED = (
    5  # at most one machine in so many is left out of what others are compared with
)
_ROUNDS = 10
# q of a machine that the first round leaves out: one odd machine makes others look
# alike
_MAYBE = 0.1
# quantiles of the distances, whose ratio shows how heavy the tails are
_BULK, _TAIL = (
    0.75,
    0.975,
)
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
    keys = join_equal_facts(runs, cpus)
    runs = runs[keys == keys.groupby(runs["host_id"]).transform("last")].assign(
        key=keys
    )
    tables, number, medians = reduce_to_relations(listing, runs, cpus, only)
    table = medians.set_index(["run_id", *CLASS])["median_ns"].unstack("run_id")
    groups = [
        group
        for _, group in runs[runs["run_id"].isin(table.columns)].groupby(
            "key", sort=False
        )
    ]
    groups.sort(key=lambda group: -group["host_id"].nunique())
    return [
        _compare_group(tables, group, table, number, threshold or THRESHOLD)
        for group in groups
    ]


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


def _compare_group(
    tables: Tables,
    runs: pd.DataFrame,
    table: pd.DataFrame,
    number: str,
    threshold: float,
) -> Siblings:
    """Compare equal machines. runs: their rows of `runs`. table: ns, a row per
    relation, a column per run.
    """
    hosts = tuple(sorted(runs["host_id"].unique()))
    table = table.loc[:, table.columns.isin(runs["run_id"])].dropna(how="all")
    machine_of_run = runs.set_index("run_id")["host_id"].map(hosts.index)
    switches = bool(runs["hypervisor"].notna().any())
    machines = machine_of_run[table.columns].to_numpy()
    of_runs = np.log(table.to_numpy())
    kinds = number_groups(table.index.to_frame(index=False), CLASS[:2])
    levels = label_levels_of_hosts(of_runs, kinds)
    logs, elsewhere, noise = reduce_machines(
        of_runs, levels, machines, switches=switches
    )
    ns = np.exp(logs)
    ns[len(table) :] = np.nan  # that of the mean
    few = runs["host_id"].value_counts()[[*hosts]].to_numpy() < MIN_RUNS
    names, numbers = list[Name](), list[Floats]()
    if len(hosts) >= MIN_MACHINES and not (few.any() and (switches or elsewhere.any())):
        names, numbers = _compare_all_cpus(tables, machine_of_run, number, len(hosts))
    share = 0.5 if names else 1.0
    distances = measure_distances(logs, threshold, share, noise)
    relations = [*table.index, *[("", "", MEAN)] * (len(logs) > len(table))]
    rows = _tabulate_numbers(hosts, relations, distances, threshold, ns)
    if names:
        of_cpus = measure_distances(np.concatenate(numbers), threshold, share)
        rows = pd.concat(
            [rows, _tabulate_numbers(hosts, names, of_cpus, threshold)],
            ignore_index=True,
        )
    is_judged = ~np.isnan(distances.p)
    smallest: float | None = None
    if is_judged.any():
        pair = (distances.error, distances.freedom)
        error, freedom = (np.array([np.median(values[is_judged])]) for values in pair)
        alpha = judge.ALPHA * share / is_judged.sum()
        smallest = float(
            np.expm1(
                judge.estimate_detectable_change(
                    error, freedom, alpha, float(np.log1p(threshold))
                )[0]
            )
        )
    caveats = tuple(
        _list_caveats(
            hosts, distances.p, few, dict(zip(table.index, elsewhere, strict=True))
        )
    )
    last = runs.iloc[-1]
    sizes = sorted({math.ceil(size / _GIB) for size in runs["memory_bytes"].dropna()})
    memory = f"{' or '.join(map(str, sizes))} GiB" if sizes else ""
    model = "unknown CPU" if pd.isna(last["cpu_model"]) else last["cpu_model"]
    about = ", ".join(
        filter(None, (model, format_count(last["cpus_measured"], "CPU"), memory))
    )
    unlike = _find_unlike_facts(runs, rows)
    return Siblings(
        hosts,
        about,
        len(runs),
        threshold,
        rows,
        smallest,
        unlike,
        caveats,
        tables.descriptions,
    )


def _compare_all_cpus(
    tables: Tables, machine_of_run: "pd.Series[int]", number: str, count: int
) -> tuple[list[Name], list[Floats]]:
    """Return names of CPUs and nodes, and the results of `compare_cpus`; nothing if
    layouts differ.
    """
    cpus = tables.cpus[tables.cpus["run_id"].isin(machine_of_run.index)]
    if (
        len(cpus[["cpu", "core", "llc", "node", "package"]].drop_duplicates())
        > cpus["cpu"].nunique()
    ):
        return [], []
    order = cpus[cpus["measured"]].sort_values("cpu").drop_duplicates("cpu")
    nodes = pd.factorize(order["node"], sort=True)[0].clip(0)
    names, numbers = list[Name](), list[Floats]()
    pairs = drop_points(
        tables.pairs[tables.pairs["run_id"].isin(machine_of_run.index)],
        tables.descriptions,
    )
    for kind, rows in pairs.groupby(CLASS[:2], sort=False):
        benchmark, variant = map(str, kind)
        machines = np.array(machine_of_run[rows["run_id"]], dtype=np.int64)
        if (
            tables.descriptions[benchmark].view is View.MATRIX
            and len(np.unique(machines)) == count
        ):
            maps = lay_out_matrices(rows, list(order["cpu"]), number, machines, count)
            own, of_nodes = compare_cpus(np.log(maps), nodes)
            places = [f"CPU {cpu}" for cpu in order["cpu"]]
            if len(of_nodes) > 1:
                places += [f"node {node}" for node in range(len(of_nodes))]
            names += [(benchmark, variant, place) for place in places]
            numbers.append(np.vstack([own, of_nodes])[: len(places)])
    return names, numbers


def _tabulate_numbers(
    hosts: Sequence[str],
    names: Sequence[Name],
    distances: Distances,
    threshold: float,
    ns: Floats | None = None,
) -> pd.DataFrame:
    """Return a row per host and number that the host has. ns: a row per name; None if
    not in ns.
    """
    own_ns = np.full(distances.moved.shape, np.nan) if ns is None else ns
    low, high = np.exp(
        judge.apply_student(distances.moved, distances.error, distances.freedom)[:2]
    )
    columns = {
        "ns": own_ns,
        "others_ns": np.where(np.isnan(own_ns), np.nan, np.exp(distances.mean)),
        "others": distances.others,
        "ratio": np.exp(distances.moved),
        "low": low,
        "high": high,
        "scatter": np.where(np.isnan(distances.p), np.nan, np.expm1(distances.scatter)),
        "p": distances.p,
        "q": distances.q,
        "odd": distances.are_odd(threshold),
    }
    every = np.repeat(np.array(names, dtype=object), len(hosts), axis=0)
    numbers = {name: values.ravel() for name, values in columns.items()}
    rows = pd.DataFrame(every, columns=CLASS).assign(**numbers)
    rows.insert(0, "host", list(hosts) * len(names))
    return rows[rows["ratio"].notna()]


def _list_caveats(
    hosts: Sequence[str], p: Floats, few: Bools, away: Mapping[Any, Bools]
) -> Iterator[str]:
    """Warn of hosts without a verdict and of runs left out. away: by relation, which
    hosts had such runs.
    """
    none = [
        host
        for host, lacks, row in zip(hosts, few, p.T, strict=True)
        if lacks and np.isnan(row).all()
    ]
    if 1 < len(hosts) < MIN_MACHINES:
        names = join_names(hosts)
        yield (
            f"{names}: no verdict: {len(hosts)} equal machines; it needs {MIN_MACHINES}"
            " or more."
        )
    elif len(hosts) > 1 and none:
        yield (
            f"{join_names(none)}: no verdict: fewer than {MIN_RUNS} runs, and these"
            " machines switch levels, or may under their hypervisor."
        )
    for name, row in away.items():
        if row.any():
            names = join_names(
                host for host, has in zip(hosts, row, strict=True) if has
            )
            yield (
                f"{names}: runs at another level are left out of {name[0]}/{name[1]}"
                f" {name[2]}."
            )


def _find_unlike_facts(runs: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the facts in which an odd host's last run differs from the last runs of
    most others.
    """
    last = runs.groupby("host_id").tail(1).sort_values("host_id")
    hosts, differences, around = (
        list(last["host_id"]),
        [],
        describe_table_facts_by_name(last),
    )
    for host in dict.fromkeys(rows.loc[rows["odd"], "host"]):
        for fact, values in around.items():
            own, others = values[hosts.index(host)], Counter(values)
            others[own] -= 1
            usual, count = others.most_common(1)[0]
            if own != usual and count * 2 > others.total():
                differences.append(
                    (host, fact, own, f"{usual} ({count} of {others.total()})")
                )
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
