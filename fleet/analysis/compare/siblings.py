"""Find the odd ones among machines with equal facts: compare each with the others, by
logarithms.

The arrays of `Distances` and below have a row per number (a relation, a CPU) and a
column per machine.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import (
    CHOICE_KEY,
    NUMBER_KEY,
    Bools,
    Floats,
    Ints,
    number_groups,
)
from fleet.analysis.compare import judge
from fleet.analysis.compare.sides import RunNumbers, read_selected_runs
from fleet.analysis.compare.verdicts import THRESHOLD
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
_EQUAL_FACTS = ("cpu_model", "cpu_stepping", "cpus_measured", "smt", "target")
_GIB = 1 << 30
MEAN = "all"  # the row of a machine's mean over relations
MIN_MACHINES = 4  # for a verdict, so that each is compared with three or more
# at most one machine in so many is left out of what others are compared with
_MACHINES_PER_ODD_ONE = 5
_MAX_ROUNDS = 10
# the first round leaves a machine out from this q on: one odd machine enlarges the
# scatter, and others that are odd hide in it
_FIRST_Q_LIMIT = 0.1
# quantiles of the distances, whose ratio shows how heavy the tails are
_BULK_QUANTILE = 0.75
_TAIL_QUANTILE = 0.975
# twice the standard error of the logarithm of that ratio, times the root of how many
# there are
_RATIO_ERROR = 2.5
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
        odd_rows = self.rows[self.rows["odd"]]
        return list(odd_rows["host"].unique())


class Distances(NamedTuple):
    """The distance of each machine's number from the mean of the others; arrays of
    numbers x machines.

    moved: the distance, a logarithm. others: how many other machines have the number
    and are compared with. mean, scatter: the mean and standard deviation of these
    machines. freedom: the degrees of freedom of `scatter`. p: the probability of such a
    distance by chance. q: p corrected. The last three are NaN below three others.
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
        """Return the standard error of each distance, from the scatter of the n others:
        scatter * sqrt(1 + 1/n).
        """
        scale = 1 + 1 / np.maximum(self.others, 1)
        return np.asarray(self.scatter * np.sqrt(scale))

    def describe(self) -> dict[str, Any]:
        """Return the columns `others` to `q` of `Siblings.rows` as arrays of numbers x
        machines.
        """
        low, high, _ = judge.apply_student(self.moved, self.error, self.freedom)
        scatter = np.expm1(self.scatter)
        # the scatter of fewer than three others tells nothing
        is_tested = ~np.isnan(self.p)
        return {
            "others": self.others,
            "ratio": np.exp(self.moved),
            "low": np.exp(low),
            "high": np.exp(high),
            "scatter": np.where(is_tested, scatter, np.nan),
            "p": self.p,
            "q": self.q,
        }

    def are_odd(self, threshold: float, q_limit: float = judge.ALPHA) -> Bools:
        """Report which numbers are odd: with q below `q_limit`, and off by more than
        `threshold`, a share.
        """
        is_significant = self.q < q_limit
        is_large = np.abs(self.moved) > np.log1p(threshold)
        return np.asarray(is_significant & is_large)


def compare_siblings(
    root: Root,
    texts: Sequence[str],
    *,
    threshold: float | None = None,
    only: Only = ALL,
) -> list[Siblings]:
    """Compare machines with equal machines; return the groups of equal machines, the
    largest first, even groups of a single machine.

    Machines are equal in CPU model, stepping, sockets, CPUs measured, SMT and target;
    a machine of an unknown CPU model equals no other. Runs that differ in these facts
    from their host's last run are left out. threshold: see `compare`. Raises UsageError
    if no run has numbers.
    """
    listing, runs, cpus = read_selected_runs(root, texts, only.benchmark)
    equality_keys = join_equal_facts(runs, cpus)
    runs = runs.assign(equality_key=equality_keys)
    runs = _keep_like_last_run(runs)
    numbers = RunNumbers.read(listing, runs, only)
    by_run = numbers.rows.set_index(["run_id", *NUMBER_KEY])
    # a row per benchmark, variant and relation, a column per run
    ns = by_run["median_ns"].unstack("run_id")
    has_numbers = runs["run_id"].isin(ns.columns)
    runs_of_groups = runs[has_numbers].groupby("equality_key", sort=False)
    limit = threshold or THRESHOLD
    groups = []
    for _, runs_of_group in runs_of_groups:
        group = _Group.select(runs_of_group, cpus, ns, limit)
        groups.append(_compare_group(group, numbers))
    groups.sort(key=lambda group: -len(group.hosts))
    return groups


def _keep_like_last_run(runs: pd.DataFrame) -> pd.DataFrame:
    """Keep the runs that have the `equality_key` of their host's last run."""
    key_of_last_run = runs.groupby("host_id")["equality_key"].transform("last")
    is_like_last = runs["equality_key"] == key_of_last_run
    return runs[is_like_last]


def join_equal_facts(runs: pd.DataFrame, cpus: pd.DataFrame) -> pd.Series:
    """Return a text per run: the facts in which machines must be equal to be siblings.
    Texts of equal machines are equal. If the CPU model is unknown, the host is added to
    the text, so that it equals no other.

    cpus: the CPUs of all runs, with `measured` and their socket, `package`.
    """
    # The size of the memory is left out: an odd machine may be one that lacks a module.
    columns = [runs[name] for name in _EQUAL_FACTS]
    columns.append(_count_sockets(runs, cpus))
    values_of_runs = zip(*columns, strict=True)
    texts = [str(values) for values in values_of_runs]
    facts = pd.Series(texts, index=runs.index)
    is_unknown = runs["cpu_model"].isna()
    host_if_unknown = runs["host_id"].where(is_unknown, "")
    return facts + host_if_unknown


def _count_sockets(runs: pd.DataFrame, cpus: pd.DataFrame) -> "pd.Series[Any]":
    """Count the sockets of each run's measured CPUs. cpus: as of `join_equal_facts`."""
    measured_cpus = cpus[cpus["measured"]]
    packages_by_run = measured_cpus.groupby("run_id")["package"]
    sockets_by_run = packages_by_run.nunique()
    return runs["run_id"].map(sockets_by_run)


@dataclass(frozen=True, slots=True)
class _Group:
    """Equal machines.

    runs, cpus: their rows of these tables. hosts: sorted; the machines of other arrays
    are in this order. ns: a row per relation, a column per run. machine_of_column: the
    place in `hosts` of the machine of each column of `ns`.
    """

    runs: pd.DataFrame
    cpus: pd.DataFrame
    hosts: tuple[str, ...]
    machine_of_column: Ints
    ns: pd.DataFrame
    threshold: float

    @classmethod
    def select(
        cls, runs: pd.DataFrame, cpus: pd.DataFrame, ns: pd.DataFrame, threshold: float
    ) -> "_Group":
        """Select what belongs to the runs of a group.

        runs: of the group alone. cpus: of all runs. ns: of all runs, a row per
        relation, a column per run ID.
        """
        run_ids = runs["run_id"]
        own_ns = ns.loc[:, ns.columns.isin(run_ids)]
        own_ns = own_ns.dropna(how="all")
        own_cpus = cpus[cpus["run_id"].isin(run_ids)]
        host_by_run = runs.set_index("run_id")["host_id"]
        host_of_column = host_by_run[own_ns.columns]
        hosts, machine_of_column = np.unique(host_of_column, return_inverse=True)
        return cls(
            runs=runs,
            cpus=own_cpus,
            hosts=tuple(hosts),
            machine_of_column=machine_of_column,
            ns=own_ns,
            threshold=threshold,
        )

    @property
    def log_ns(self) -> Floats:
        """Return the logarithms of `ns` as an array."""
        ns = self.ns.to_numpy()
        return np.asarray(np.log(ns))

    @property
    def may_switch_levels(self) -> bool:
        """Report whether a machine is virtual."""
        return bool(self.runs["hypervisor"].notna().any())

    @property
    def has_one_layout(self) -> bool:
        """Report whether the machines number their CPUs alike."""
        columns = ["cpu", "core", "llc", "node", "package"]
        places = self.cpus[columns].drop_duplicates()
        # more places than CPUs: a CPU is at one place here and at another there
        return len(places) <= self.cpus["cpu"].nunique()

    def find_short_of_runs(self) -> Bools:
        """Report which machines have fewer than MIN_RUNS runs."""
        runs_by_host = self.runs["host_id"].value_counts()
        counts = [runs_by_host[host] for host in self.hosts]
        return np.array(counts) < MIN_RUNS

    def label_levels(self) -> Ints:
        """Return the level of each number of `ns` within its row, from 0; -1 where a
        run lacks the number. Levels are told apart by how far runs usually scatter,
        which is estimated for each benchmark and variant.
        """
        names = self.ns.index.to_frame(index=False)
        choice_of_row = number_groups(names, CHOICE_KEY)
        return label_levels_of_hosts(self.log_ns, choice_of_row)

    def describe(self) -> str:
        """Return a text that names what the machines share, and the sizes of their
        memory: "MODEL, 64 CPUs, 251 or 252 GiB".
        """
        # the facts of any run would do, since those of all runs are equal
        last = self.runs.iloc[-1]
        model = last["cpu_model"]
        if pd.isna(model):
            model = "unknown CPU"
        words = [model, format_count(last["cpus_measured"], "CPU")]
        sizes_bytes = self.runs["memory_bytes"].dropna()
        sizes_gib = np.unique(np.ceil(sizes_bytes / _GIB))
        if len(sizes_gib):
            sizes = " or ".join(f"{size:.0f}" for size in sizes_gib)
            words.append(f"{sizes} GiB")
        return ", ".join(words)


def _compare_group(group: _Group, numbers: RunNumbers) -> Siblings:
    """Compare the machines of a group in each relation, in their mean over relations
    and, if there are enough machines and runs, in each CPU and node.
    """
    # a row per relation, and the last of their mean; a column per machine
    machines = reduce_machines(
        group.log_ns,
        group.label_levels(),
        group.machine_of_column,
        switches=group.may_switch_levels,
    )
    are_short = group.find_short_of_runs()
    cpu_distances = None
    if _can_judge_cpus(group, machines, are_short):
        cpu_distances = _compare_all_cpus(group, numbers)
    # relations and CPUs are two questions: each gets half of the 5 %
    error_share = 0.5 if cpu_distances else 1.0
    # arrays of numbers x machines, with the rows of `machines.log_ns`
    distances = measure_distances(
        machines.log_ns, group.threshold, error_share, machines.noise
    )
    rows = _tabulate_relations(group, distances, np.exp(machines.log_ns))
    if cpu_distances:
        cpu_rows = _tabulate_cpus(group, cpu_distances, error_share)
        rows = pd.concat([rows, cpu_rows], ignore_index=True)
    are_elsewhere = dict(zip(group.ns.index, machines.are_elsewhere, strict=True))
    caveats = _list_caveats(group.hosts, distances.p, are_short, are_elsewhere)
    return Siblings(
        hosts=group.hosts,
        about=group.describe(),
        runs=len(group.runs),
        threshold=group.threshold,
        rows=rows,
        smallest=_estimate_smallest_found(distances, group.threshold, error_share),
        environment=_find_unlike_facts(group.runs, rows),
        caveats=tuple(caveats),
        descriptions=numbers.descriptions,
    )


def _estimate_smallest_found(
    distances: Distances, threshold: float, error_share: float
) -> float | None:
    """Return the relative difference of a single number (0.02: 2 %) that 8 of 10
    comparisons find, a power of 0.8; None if no number has a verdict. error_share: the
    part of the 5 % error rate that these numbers may use.
    """
    is_judged = ~np.isnan(distances.p)
    if not is_judged.any():
        return None
    judged_count = is_judged.sum()
    typical_error = np.median(distances.error[is_judged])
    typical_freedom = np.median(distances.freedom[is_judged])
    # by Benjamini and Hochberg, the limit of p rises with the rank of a number: that of
    # rank 1, as if no other number were odd
    alpha = judge.ALPHA * error_share / judged_count
    (change,) = judge.estimate_detectable_change(
        np.array([typical_error]),
        np.array([typical_freedom]),
        alpha,
        matters=float(np.log1p(threshold)),
    )
    return float(np.expm1(change))


class _CpuDistances(NamedTuple):
    """How far CPUs and nodes are from those of other machines, as logarithms: a row per
    name, a column per machine.
    """

    names: list[Name]
    log_ns: Floats


def _can_judge_cpus(
    group: _Group, machines: "MachineNumbers", are_short: Bools
) -> bool:
    """Report whether CPUs can be judged: there are enough machines, and none of few
    runs may be at another level. are_short: which machines have few runs.
    """
    if len(group.hosts) < MIN_MACHINES:
        return False
    may_be_at_other_level = group.may_switch_levels or machines.are_elsewhere.any()
    if may_be_at_other_level:
        return not are_short.any()
    return True


def _compare_all_cpus(group: _Group, numbers: RunNumbers) -> _CpuDistances | None:
    """Compare the CPUs of machines, and their nodes, in each benchmark of which all
    machines have a matrix, a number per pair of CPUs. Return None if there is no such
    benchmark, or if the machines number their CPUs differently.
    """
    if not group.has_one_layout:
        return None
    layout = _Layout.read(group.cpus)
    pairs = _load_pairs(group, numbers)
    machine_count = len(group.hosts)
    names = list[Name]()
    # an array per benchmark: a row per place (each CPU, then each node), a column per
    # machine
    distances = list[Floats]()
    for choice, rows in pairs.groupby(CHOICE_KEY, sort=False):
        benchmark, variant = map(str, choice)
        is_matrix = numbers.descriptions[benchmark].view is View.MATRIX
        have_all_measured = rows["machine"].nunique() == machine_count
        if is_matrix and have_all_measured:
            machine_of_pair = rows["machine"].to_numpy(dtype=np.int64)
            ns = lay_out_matrices(
                rows, layout.cpus, numbers.column, machine_of_pair, machine_count
            )
            names += [(benchmark, variant, place) for place in layout.places]
            distances.append(layout.compare(np.log(ns)))
    if not distances:
        return None
    return _CpuDistances(names, np.concatenate(distances))


def _load_pairs(group: _Group, numbers: RunNumbers) -> pd.DataFrame:
    """Load the pairs of a group's runs, without points of ladders; add `machine`, the
    place of their host in `group.hosts`.
    """
    pairs = numbers.load_pairs(group.runs, group.cpus)
    pairs = drop_points(pairs, numbers.descriptions)
    host_by_run = group.runs.set_index("run_id")["host_id"]
    machine_by_run = host_by_run.map(group.hosts.index)
    pairs["machine"] = pairs["run_id"].map(machine_by_run)
    return pairs


class _Layout(NamedTuple):
    """The measured CPUs of equal machines. nodes: of each CPU, from 0. places: their
    names, then those of the nodes if there are several.
    """

    cpus: list[int]
    nodes: Ints
    places: list[str]

    @classmethod
    def read(cls, cpus: pd.DataFrame) -> "_Layout":
        """Read the layout from rows of `cpus` of several runs."""
        measured = cpus[cpus["measured"]]
        by_cpu = measured.sort_values("cpu")
        distinct = by_cpu.drop_duplicates("cpu")
        numbers = distinct["cpu"].tolist()
        # `factorize` gives a CPU of an unknown node -1: it counts as one of node 0
        nodes, _ = pd.factorize(distinct["node"], sort=True)
        nodes = nodes.clip(0)
        places = [f"CPU {cpu}" for cpu in numbers]
        last_node = nodes.max()
        # a single node is the whole machine, and gets no place of its own
        if last_node > 0:
            places += [f"node {node}" for node in range(last_node + 1)]
        return cls(numbers, nodes, places)

    def compare(self, log_ns: Floats) -> Floats:
        """Return how far each place is from that of other machines: a row per place
        (each CPU, then each node), a column per machine. log_ns: machines x CPUs x
        CPUs.
        """
        cpu_distances, node_distances = compare_cpus(log_ns, self.nodes)
        distances = np.vstack([cpu_distances, node_distances])
        # without the last row if a single node has no place of its own
        return distances[: len(self.places)]


def _tabulate_relations(
    group: _Group, distances: Distances, ns: Floats
) -> pd.DataFrame:
    """Return a row for each relation and host. If there are several relations, the last
    row of the arrays is their mean, which gets rows, too. ns: numbers x hosts, NaN
    where unknown.
    """
    names = [*group.ns.index]
    has_mean = len(ns) > len(names)
    if has_mean:
        names.append(("", "", MEAN))
        # the mean is one of distances, not a time in ns, and is not shown as such
        ns = ns.copy()
        ns[-1] = np.nan
    return _tabulate_numbers(group, names, distances, ns)


def _tabulate_cpus(
    group: _Group, cpus: _CpuDistances, error_share: float
) -> pd.DataFrame:
    """Return the rows of CPUs and nodes. error_share: the part of the 5 % error rate
    that they may use.
    """
    distances = measure_distances(cpus.log_ns, group.threshold, error_share)
    no_ns = np.full(cpus.log_ns.shape, np.nan)
    return _tabulate_numbers(group, cpus.names, distances, no_ns)


def _tabulate_numbers(
    group: _Group, names: Sequence[Name], distances: Distances, ns: Floats
) -> pd.DataFrame:
    """Return a row per name and host, without the numbers that a host lacks. names: a
    benchmark, its variant, and a relation, CPU or node.

    distances, ns: arrays of names x hosts. ns is NaN where a number is not a time, such
    as the mean over relations.
    """
    others_ns = np.exp(distances.mean)
    is_time = ~np.isnan(ns)
    columns = {  # arrays of names x hosts
        "ns": ns,
        "others_ns": np.where(is_time, others_ns, np.nan),
        **distances.describe(),
        "odd": distances.are_odd(group.threshold),
    }
    rows = _name_rows(group.hosts, names)
    for column, values in columns.items():
        # end to end, as `rows` are: all hosts of the first name, then of the next
        rows[column] = values.ravel()
    has_number = rows["ratio"].notna()
    return rows[has_number]


def _name_rows(hosts: Sequence[str], names: Sequence[Name]) -> pd.DataFrame:
    """Return a row per name and host, by name first: `host` and the name's parts."""
    parts_of_names = np.array(names, dtype=object)
    # each name as often as there are hosts, then the next name
    parts_of_rows = np.repeat(parts_of_names, len(hosts), axis=0)
    rows = pd.DataFrame(parts_of_rows, columns=NUMBER_KEY)
    hosts_of_rows = list(hosts) * len(names)
    rows.insert(0, "host", hosts_of_rows)
    return rows


def _list_caveats(
    hosts: Sequence[str],
    p: Floats,
    are_short: Bools,
    are_elsewhere: Mapping[Name, Bools],
) -> Iterator[str]:
    """Warn of hosts without a verdict and of runs left out.

    p: the probability of each number's distance by chance, a row per number, a column
    per host, NaN without a verdict. are_short: which hosts have fewer than MIN_RUNS
    runs. are_elsewhere: by benchmark, variant and relation, which hosts had runs at
    another level, which were left out.
    """
    has_no_verdict = np.isnan(p).all(axis=0)
    # few runs are enough for a verdict unless machines may switch levels
    is_too_short = are_short & has_no_verdict
    # a single host has no others to be compared with, which needs no caveat
    if 1 < len(hosts) < MIN_MACHINES:
        yield (
            f"{join_names(hosts)}: no verdict: {len(hosts)} equal machines; it needs"
            f" {MIN_MACHINES} or more."
        )
    elif len(hosts) > 1 and is_too_short.any():
        names = join_names(_select_names(hosts, is_too_short))
        yield (
            f"{names}: no verdict: fewer than {MIN_RUNS} runs, and these machines"
            " switch levels, or may under their hypervisor."
        )
    for (benchmark, variant, relation), is_elsewhere in are_elsewhere.items():
        if is_elsewhere.any():
            names = join_names(_select_names(hosts, is_elsewhere))
            yield (
                f"{names}: runs at another level are left out of {benchmark}/{variant}"
                f" {relation}."
            )


def _select_names(hosts: Sequence[str], is_selected: Bools) -> list[str]:
    return [hosts[place] for place in np.flatnonzero(is_selected).tolist()]


def _find_unlike_facts(runs: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the facts in which an odd host's last run differs from the last runs of
    most others: a row per host and fact, `what`, with its `value` and that of the
    `others`. rows: those of `Siblings`, whose `odd` says which hosts are odd.
    """
    last_runs = runs.groupby("host_id").tail(1)
    last_runs = last_runs.sort_values("host_id")
    hosts = last_runs["host_id"].tolist()
    values_by_fact = describe_table_facts_by_name(last_runs)
    odd_rows = rows[rows["odd"]]
    differences = []
    for host in odd_rows["host"].unique():
        place = hosts.index(host)
        for fact, values in values_by_fact.items():
            others = _find_unlike_value(values, place)
            if others is not None:
                differences.append((host, fact, values[place], others))
    return pd.DataFrame(differences, columns=["host", "what", "value", "others"])


def _find_unlike_value(values: Sequence[str], place: int) -> str | None:
    """Return the value that most of the other machines have, and how many of them have
    it: "6.1 (3 of 4)". Return None if the machine at `place` has the same value, or if
    no value is that of more than half of the others. values: a value per machine.
    """
    own = values[place]
    counts = Counter(values)
    counts[own] -= 1  # of the others alone
    others = counts.total()
    commonest, count = counts.most_common(1)[0]
    is_of_most = count * 2 > others
    if own == commonest or not is_of_most:
        return None
    return f"{commonest} ({count} of {others})"


class MachineNumbers(NamedTuple):
    """The numbers of machines as logarithms, a row per number, a column per machine. Of
    several numbers, a further last row has the means.

    are_elsewhere: whether runs of a machine at other levels were left out; a row per
    number, without one for the means. noise: for each machine, the variance that
    differences between its runs add to its numbers; NaN for a machine with one run of
    each.
    """

    log_ns: Floats
    are_elsewhere: Bools
    noise: Floats


def reduce_machines(
    runs: Floats, levels: Ints, machine_of_run: Ints, *, switches: bool = False
) -> MachineNumbers:
    """Reduce runs to a number per machine: the median of its runs at the usual level.
    If there are several rows, add a last row with their means.

    runs: logarithms, a row per number, a column per run, NaN where a run lacks the
    number. levels: the level of each number in its row, -1 where a run lacks it.
    machine_of_run: the number of each run's machine, from 0. switches: whether machines
    may switch levels, as virtual machines do.

    The usual level of a number is the level of most runs of all machines. For a machine
    that is always at a level which no other machine has, it is that level: there, the
    machine itself may be odd.
    """
    # arrays of numbers x runs
    is_usual_in_rows = [_are_at_usual_level(row, machine_of_run) for row in levels]
    is_usual = np.array(is_usual_in_rows)
    is_measured = ~np.isnan(runs)
    is_left_out = is_measured & ~is_usual
    usual_runs = np.where(is_usual, runs, np.nan)
    # arrays of numbers x machines
    counts_left_out = _count_by_machine(is_left_out, machine_of_run)
    medians = _group_by_machine(usual_runs, machine_of_run).median()
    numbers = np.asarray(medians.to_numpy().T)
    has_several_levels = switches or is_left_out.any()
    # if there are other levels, all of a machine's few runs may be at an unusual level
    # by chance: a machine of fewer than three runs gets no number
    if has_several_levels:
        counts = _count_by_machine(is_measured, machine_of_run)
        has_enough = counts >= MIN_RUNS
        numbers = np.where(has_enough, numbers, np.nan)
    if len(runs) > 1:
        numbers = _append_mean(numbers)
    return MachineNumbers(
        log_ns=numbers,
        are_elsewhere=counts_left_out > 0,
        noise=_estimate_noise(usual_runs, machine_of_run),
    )


def _count_by_machine(is_counted: Bools, machine_of_run: Ints) -> Ints:
    """Count the runs of each machine: a row per number, a column per machine.
    is_counted: a row per number, a column per run.
    """
    counts = _group_by_machine(is_counted, machine_of_run).sum()
    return np.asarray(counts.to_numpy().T)


def _append_mean(numbers: Floats) -> Floats:
    """Append a row: for each machine, the mean over its numbers of how far each is from
    the median of all machines. numbers: a row per number, a column per machine.
    """
    median_machine = judge.compute_nanmedian(numbers, axis=1)
    distances = numbers - median_machine[:, None]
    mean = judge.compute_nanmean(distances, axis=0)
    return np.vstack([numbers, mean])


def _estimate_noise(runs: Floats, machine_of_run: Ints) -> Floats:
    """Estimate for each machine the variance of its numbers, medians of runs, that is
    due to differences between its runs; NaN for a machine with a single run of each.

    runs: logarithms, a row per number, a column per run. Variances are shrunk towards a
    variance that all machines have in common.
    """
    # a table of machines x numbers: how many runs of each machine have the number
    groups = _group_by_machine(runs, machine_of_run)
    counts = groups.count()
    variances_of_runs = _estimate_variances_of_runs(groups, counts)
    # from the variance of a run to that of the median of as many runs as a machine has
    runs_per_number = counts.mean(axis=1)
    at_least_one = runs_per_number.clip(lower=1)
    share = _share_variance_of_median(at_least_one.to_numpy())
    return np.asarray(variances_of_runs * share)


def _estimate_variances_of_runs(groups: Any, counts: pd.DataFrame) -> Floats:
    """Estimate for each machine the variance of its runs; NaN for a machine with a
    single run of each number. All numbers of a machine together estimate one variance,
    since there are few runs of each.

    groups: the runs, from `_group_by_machine`. counts: how many of them there are, a
    table of machines x numbers.
    """
    # tables of machines x numbers
    squares = groups.var(ddof=0) * counts  # sums of squares around the mean
    freedom = (counts - 1).clip(lower=0)
    # arrays of machines
    squares_of_machine = squares.sum(axis=1).to_numpy()
    freedom_of_machine = freedom.sum(axis=1).to_numpy(dtype=float)
    variances = squares_of_machine / np.maximum(freedom_of_machine, 1)
    variances = np.maximum(variances, judge.ROUNDING)
    has_several_runs = freedom_of_machine > 0
    moderated_variances, _ = judge.moderate_where(
        has_several_runs, variances, freedom_of_machine
    )
    return moderated_variances


def _share_variance_of_median(count: Floats) -> Floats:
    """Return the variance of the median of `count` normal values as a share of that of
    one: 1 for one value, pi / 2n for many.
    """
    return np.asarray(np.pi / (2 * count + np.pi - 2))


def _group_by_machine(runs: Floats | Bools, machine_of_run: Ints) -> Any:
    """Group the columns of `runs` by machine; a reduction of the result is a table of
    machines x numbers.
    """
    return pd.DataFrame(runs.T).groupby(machine_of_run)


def _are_at_usual_level(levels: Ints, machine_of_run: Ints) -> Bools:
    """Report which runs are at the commonest level, or at a level that a machine never
    leaves and no other machine has. levels: the level of one number in each run; -1:
    the run lacks the number. machine_of_run: the number of each run's machine, from 0.
    """
    has_number = levels >= 0
    counts = np.bincount(levels[has_number], minlength=1)
    is_usual: Bools = levels == counts.argmax()
    is_at_another = has_number & ~is_usual
    for level in np.unique(levels[is_at_another]):
        is_at_level = levels == level
        machines_at_level = np.unique(machine_of_run[is_at_level])
        if len(machines_at_level) > 1:
            continue  # other machines have the level, too
        is_of_only_machine = machine_of_run == machines_at_level[0]
        never_leaves = is_at_level[has_number & is_of_only_machine].all()
        if never_leaves:
            is_usual |= is_at_level
    return is_usual


def measure_distances(
    log_ns: Floats,
    threshold: float,
    error_share: float = 1.0,
    noise: Floats | None = None,
) -> Distances:
    """Compare each machine's numbers with those of the other machines that are not odd.

    log_ns: a row per number, a column per machine, NaN where it has no number.
    threshold: the smallest difference that matters, a share. error_share: the part of
    the 5 % error rate to use. noise: from `reduce_machines`; a machine noisier than the
    mean gets a larger variance.

    Each distance is divided by the standard deviation of the others, shrunk over rows.
    All numbers are tested again, compared with the others without numbers that may be
    odd, and then, in rounds, without numbers that are odd. Heavy tails of the distances
    limit the degrees of freedom.
    """
    extra_variance = _find_extra_variance(noise, machines=log_ns.shape[1])
    is_left_out = np.zeros(log_ns.shape, dtype=bool)
    # an odd machine enlarges the scatter, in which others hide: so the first round has
    # a higher limit of q, to find what may be odd
    q_limits = [_FIRST_Q_LIMIT] + [judge.ALPHA] * _MAX_ROUNDS
    for q_limit in q_limits:
        distances = _test_machines(log_ns, is_left_out, error_share, extra_variance)
        is_oddest = _find_oddest(distances, threshold, q_limit)
        # done: another round would leave out the same numbers as this one did
        if (is_oddest == is_left_out).all():
            break
        is_left_out = is_oddest
    return distances


def _find_extra_variance(noise: Floats | None, machines: int) -> Floats:
    """Return by how much the variance of each machine's numbers is above the mean of
    all machines, 0 where it is below the mean or not known. noise: the variance of each
    machine, NaN where not known; None: not known of any. machines: how many there are.
    """
    if noise is None:
        return np.zeros(machines)
    above_mean = noise - judge.compute_nanmean(noise, axis=0)
    extra = np.maximum(above_mean, 0.0)
    return np.nan_to_num(extra)


def _find_oddest(distances: Distances, threshold: float, q_limit: float) -> Bools:
    """Report which numbers are odd, an array of numbers x machines. Of the odd ones in
    a row, only the farthest are reported: at most one for each five machines.
    """
    t = np.abs(distances.moved / distances.error)
    is_odd = distances.are_odd(threshold, q_limit)
    t_if_odd = np.where(is_odd, t, 0.0)
    rank = _rank_descending(t_if_odd)
    machine_count = t.shape[1]
    most_odd = machine_count // _MACHINES_PER_ODD_ONE
    is_far = rank < most_odd
    # a number that is not odd has t 0 here, but may have a low rank
    return np.asarray(is_far & (t_if_odd > 0))


def _rank_descending(values: Floats) -> Ints:
    """Return the rank of each value within its row, 0 for the largest: 5, 9, 7 gives 2,
    0, 1.
    """
    columns_in_order = np.argsort(-values, axis=1)
    return np.argsort(columns_in_order, axis=1)


def _test_machines(
    log_ns: Floats, is_left_out: Bools, error_share: float, extra_variance: Floats
) -> Distances:
    """Test each number against the others of its row that are not left out, by
    Student's t. A number that is left out itself is tested, too.

    log_ns, is_left_out: numbers x machines, as the distances, variances and t below.
    error_share: the part of the 5 % error rate to use. extra_variance: for each
    machine, what its noise adds to the variance of all of its numbers.
    """
    is_measured = ~np.isnan(log_ns)
    is_used = is_measured & ~is_left_out
    # distances from the row's median are small, so that sums of squares lose no digits
    medians = judge.compute_nanmedian(log_ns, axis=1)
    median = np.nan_to_num(medians)[:, None]
    from_median = log_ns - median
    others = _Others.average(from_median, is_used)
    moved = others.measure_distance(from_median)
    # a number has the variance of the others and, if its machine is noisy, more
    is_tested = is_measured & (others.counts >= MIN_MACHINES - 1)
    variance, freedom = others.moderate_variances(is_tested)
    variance += extra_variance
    variance_of_distance = variance * others.compute_scale_of_distance()
    t = np.abs(moved) / np.sqrt(variance_of_distance)
    # the heavier the tails of these t, the fewer degrees of freedom p is computed with
    t_of_used = np.where(is_tested & is_used, t, np.nan)
    limit_of_machine = _limit_freedom(t_of_used)
    freedom = np.minimum(freedom, limit_of_machine)
    p = _compute_p(t, freedom, is_tested)
    return Distances(
        moved=moved,
        mean=others.means + median,
        others=others.counts,
        scatter=np.sqrt(variance),
        freedom=freedom,
        p=p,
        q=_correct(p, error_share),
    )


def _compute_p(t: Floats, freedom: Floats, is_tested: Bools) -> Floats:
    """Return the probability of each size of Student's t or more, NaN where not
    tested.
    """
    p_of_tested = judge.compute_p(t[is_tested], freedom[is_tested])
    return judge.put_where(is_tested, p_of_tested)


class _Others(NamedTuple):
    """What each number is compared with: the others of its row, the same number of the
    other machines, without numbers that are left out. All are arrays of numbers x
    machines.

    values: the numbers, 0 where left out. counts: how many others each number has.
    means: the mean of the others of each number.
    """

    values: Floats
    counts: Ints
    means: Floats

    @classmethod
    def average(cls, numbers: Floats, is_used: Bools) -> "_Others":
        """Average the others of each number. is_used: which numbers are not left
        out.
        """
        values = np.where(is_used, numbers, 0.0)
        counts = _sum_others(is_used)
        sums = _sum_others(values)
        means = sums / np.maximum(counts, 1)
        return cls(values, counts, means)

    def measure_distance(self, numbers: Floats) -> Floats:
        """Return how far each number is from the mean of the others, NaN without
        any.
        """
        distances = numbers - self.means
        has_others = self.counts > 0
        return np.where(has_others, distances, np.nan)

    def compute_scale_of_distance(self) -> Floats:
        """Return the factor from the variance of a number to that of its distance from
        the mean of n others: 1 + 1/n.
        """
        return np.asarray(1 + 1 / np.maximum(self.counts, 1))

    def moderate_variances(self, is_tested: Bools) -> tuple[Floats, Floats]:
        """Return the variance of the others of each number, and its degrees of freedom:
        arrays of numbers x machines. Where not tested, the variance is 1, with NaN for
        its degrees of freedom. The others of a number are those of its row in other
        machines. Variances are shrunk towards that of all rows.
        """
        # the sum of squares around the mean of n values, here the others of a number,
        # is the sum of their squares minus n times the square of their mean
        squares = _sum_others(self.values**2)
        squares_around_mean = squares - self.counts * self.means**2
        freedom_of_others = self.counts.astype(np.float64) - 1
        # 1 where not tested, so that nothing is divided by 0
        divisor = np.where(is_tested, freedom_of_others, 1.0)
        variance_of_others = np.maximum(squares_around_mean / divisor, judge.ROUNDING)
        shrunk, freedom = judge.moderate_where(
            is_tested, variance_of_others, freedom_of_others
        )
        variance = np.where(is_tested, shrunk, 1.0)
        return variance, freedom


def _sum_others(values: Any) -> Any:
    """Return, for each value, the sum of its row without the value itself: 1, 2, 4
    gives 6, 5, 3.
    """
    sums_of_rows = values.sum(axis=1, keepdims=True)
    return sums_of_rows - values


def _correct(p: Floats, error_share: float) -> Floats:
    """Return Benjamini and Hochberg's q of each p, NaN for NaN. error_share: the part
    of the 5 % error rate to use; q is divided by it.
    """
    is_tested = ~np.isnan(p)
    q = judge.control_false_discovery(p[is_tested])
    q_of_share = np.minimum(q / error_share, 1.0)
    return judge.put_where(is_tested, q_of_share)


def _limit_freedom(t: Floats) -> Floats:
    """Return for each machine how many degrees of freedom the distances of the other
    machines allow. The heavier the tails of these distances, the fewer the degrees of
    freedom: far numbers are then less surprising. A machine's own distances do not
    count, since it may be odd.

    t: the size of each distance divided by its error, a row per number, a column per
    machine, NaN where not tested.
    """
    limits = []
    for machine in range(t.shape[1]):
        t_of_others = np.delete(t, machine, axis=1)
        tested = t_of_others[~np.isnan(t_of_others)]
        limits.append(_estimate_freedom(tested))
    return np.array(limits)


def _estimate_freedom(t: Floats) -> float:
    """Estimate the degrees of freedom of sizes of Student's t by how heavy their tails
    are: by the ratio of a quantile in the tail to one in the bulk, which falls with the
    degrees of freedom.

    Chance makes tails heavy, too: the ratio is first made smaller by two standard
    errors, so that the degrees of freedom are rather too many. Return at most 200.
    """
    if not len(t):
        return _MAX_FREEDOM
    bulk, tail = np.quantile(t, (_BULK_QUANTILE, _TAIL_QUANTILE))
    # not 0, by which is divided: it is 0 where most machines agree to the last digit
    bulk = max(bulk, np.finfo(float).tiny)
    # two standard errors of the logarithm of the ratio
    log_error = _RATIO_ERROR / len(t) ** 0.5
    lightest_ratio = tail / bulk * np.exp(-log_error)
    # `ratios`: the ratio of Student's t at each of the degrees of freedom `_FREEDOMS`,
    # between which the ratio found is looked up
    tails = _compute_quantiles_of_sizes(_TAIL_QUANTILE)
    bulks = _compute_quantiles_of_sizes(_BULK_QUANTILE)
    ratios = tails / bulks
    # `interp` wants rising values, but the ratio falls as the degrees of freedom rise:
    # with the other sign, it rises
    return float(np.interp(-lightest_ratio, -ratios, _FREEDOMS))


def _compute_quantiles_of_sizes(quantile: float) -> Floats:
    """Return a quantile of the size of Student's t, for each of `_FREEDOMS`."""
    # a size, |t|, has two signs: its quantile q is the quantile (1 + q) / 2 of t, since
    # (1 - q) / 2 of all t are above it, and as many below minus it
    quantile_of_t = (1 + quantile) / 2
    return np.asarray(special.stdtrit(_FREEDOMS, quantile_of_t))


def compare_cpus(pairs: Floats, nodes: Ints) -> tuple[Floats, Floats]:
    """Return how far each CPU is from the same CPU of other machines, without the
    distance of its node (CPUs x machines), and how far each node is from the same node
    of other machines (nodes x machines).

    pairs: logarithms, machines x CPUs x CPUs, NaN where a pair was not measured. nodes:
    each CPU's node, from 0.

    A pair's distance is its number minus the median of that pair over machines. A CPU's
    distance is the median of those of its pairs. A node's distance is the mean of the
    middle half of those of its CPUs.
    """
    median_machine = judge.compute_nanmedian(pairs, axis=0)
    pair_distances = pairs - median_machine
    cpus_of_machines = judge.compute_nanmedian(pair_distances, axis=2)
    cpu_distances = cpus_of_machines.T  # CPUs x machines
    node_distances = _average_nodes(cpu_distances, nodes)
    distance_of_own_node = node_distances[nodes]  # of each CPU
    return cpu_distances - distance_of_own_node, node_distances


def _average_nodes(cpu_distances: Floats, nodes: Ints) -> Floats:
    """Return the mean of the middle half of the CPUs of each node, nodes x machines.
    cpu_distances: CPUs x machines. nodes: each CPU's node, from 0.
    """
    last_node = int(nodes.max())
    means_of_nodes = []
    for node in range(last_node + 1):
        is_of_node = nodes == node
        means = _average_middle_half(cpu_distances[is_of_node])
        means_of_nodes.append(means)
    return np.array(means_of_nodes)


def _average_middle_half(rows: Floats) -> Floats:
    """Return the mean of each column without its lowest and its highest quarter."""
    ordered = np.sort(rows, axis=0)
    count = len(ordered)
    quarter = count // 4
    middle_half = ordered[quarter : count - quarter]
    return np.asarray(middle_half.mean(axis=0))
