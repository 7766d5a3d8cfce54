"""Compare two sides, each a set of runs, per relation and pair; a run is the unit of
replication.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import (
    NUMBER_KEY,
    PAIR_KEY,
    Bools,
    Floats,
    number_groups,
)
from fleet.analysis.base.text import to_records
from fleet.analysis.compare import verdicts
from fleet.analysis.compare.burst_levels import NO_LEVELS, list_burst_levels
from fleet.analysis.compare.caveats import (
    SIDE,
    PairSummary,
    list_caveats,
    list_variants,
    summarize_pairs,
)
from fleet.analysis.compare.cpu_sides import (
    names_cpus,
    read_tables_of_cpus,
    restore_run_ids,
)
from fleet.analysis.compare.sides import (
    NOTHING,
    ComparisonSide,
    Tables,
    assign_blocks,
    match_sides,
    read_tables,
    select_rows_of_runs,
    select_sides,
)
from fleet.analysis.reduce import environment
from fleet.analysis.reduce.cells import are_pairs, name_cells, name_cells_of_point
from fleet.analysis.reduce.load import list_published
from fleet.analysis.reduce.matrices import ESTIMATOR_COLUMNS, choose_shared_column
from fleet.analysis.reduce.numbers import (
    ALL,
    NUMBER_COLUMNS,
    Only,
    reduce_cells,
    select_numbers,
)
from fleet.analysis.reduce.run_levels import add_run_levels
from fleet.analysis.reduce.topology import GROUPS
from fleet.errors import UsageError
from fleet.hostnames import join_names
from fleet.model import SHIPPED, Descriptions, View
from fleet.plan.benchmark_names import select_choices
from fleet.store.runs import Listing, Root, open_listing
from fleet.text import format_count

_PAIR_OF_COMPARISON = ["comparison", "key"]
# what a comparison uses of `pairs` and `numbers`, besides the column that it compares
_PAIR_COLUMNS = (
    "run_id",
    *PAIR_KEY,
    "key",
    "flags",
    "spread",
    "other_ns",
    "other_share",
)
_NUMBER_COLUMNS = (
    "run_id",
    "host_id",
    *NUMBER_KEY,
    "key",
    "level",
    "pairs",
    "pairs_hash",
    "spread",
)
_SHOWN_IN_NOTEBOOKS = [
    *("benchmark", "variant", "relation", "a_ns", "b_ns", "ratio", "low", "high"),
    *("verdict", "why"),
]
_VARIANT = ["benchmark", "relation", "side", "variant"]
_NO_VARIANTS = pd.DataFrame(columns=[*_VARIANT, "ns"])
_NO_FLEET = pd.DataFrame()


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of side b with its baseline, side a.

    unit: what counts as one observation: "run", or "host" if a side has several hosts.
    relations, pairs: tables from `judge_comparisons`; `pairs` is empty unless both
    topologies are the same. rows: `relations` as plain records. fleet: the table of
    changes over all hosts, if three or more are compared host by host; else empty.
    levels: pairs whose bursts switch between levels, from `list_burst_levels`.
    environment: facts that differ, from `find_differences`. unlike: the mean `ns` by
    benchmark, relation, side and variant, of benchmarks of which the sides have no
    common variant.
    """

    a: ComparisonSide
    b: ComparisonSide
    unit: str
    threshold: float
    relations: pd.DataFrame
    rows: Sequence[Mapping[str, Any]]
    pairs: pd.DataFrame
    fleet: pd.DataFrame
    levels: pd.DataFrame
    environment: pd.DataFrame
    unlike: pd.DataFrame
    caveats: tuple[str, ...]
    descriptions: Descriptions = SHIPPED

    def __repr__(self) -> str:
        words = [format_count(len(self.relations), "relation")]
        counts = self.relations["verdict"].value_counts()
        for verdict, count in counts.items():
            words.append(f"{count} {verdict}")
        a, b = self.sides
        return f"<Comparison of {b} with {a}: {', '.join(words)}>"

    def _repr_html_(self) -> str:
        """Return the line of `repr` and the table of relations, for notebooks."""
        relations = self.relations[_SHOWN_IN_NOTEBOOKS].round(3)
        table = relations.to_html(index=False)
        return f"<p>{escape(repr(self))}</p>{table}"

    @property
    def has_verdict(self) -> bool:
        """Report whether there are enough runs for a verdict."""
        return any(row["p"] is not None for row in self.rows)

    @property
    def has_pair_tests(self) -> bool:
        """Report whether pairs were tested too. They are not if every relation consists
        of a single pair.
        """
        if not len(self.pairs):
            return False
        return any(row["pairs"] > 1 for row in self.rows)

    @property
    def sides(self) -> tuple[str, str]:
        """Return the names of both sides, without a leading `HOST@`."""
        return self.a.name_without_host, self.b.name_without_host

    @property
    def models(self) -> tuple[str, str] | None:
        """Return the CPU models of each side as one text, "MODEL, MODEL", if both sides
        are of the same hosts but have no model in common: another machine has the name
        of a host now. Return None if the hosts differ, if a model is common to both, or
        if no model of a side is known.
        """
        if self.a.hosts != self.b.hosts:
            return None
        models_of_a = self.a.list_cpu_models()
        models_of_b = self.b.list_cpu_models()
        if not models_of_a or not models_of_b:
            return None
        if not set(models_of_a).isdisjoint(models_of_b):
            return None
        return ", ".join(models_of_a), ", ".join(models_of_b)

    @property
    def has_changed(self) -> bool:
        """Report whether the verdict of a relation, on this host or over all hosts, is
        CHANGED.
        """
        all_verdicts = [row["verdict"] for row in self.rows]
        has_fleet = len(self.fleet) > 0  # an empty table has no columns
        if has_fleet:
            all_verdicts += self.fleet["verdict"].tolist()
        return verdicts.Verdict.CHANGED in all_verdicts

    @property
    def is_at_another_level(self) -> bool:
        """Report whether the sides of any relation differ in the levels of their runs.

        A host may be at one of several levels by chance, and stay there for a while.
        Either the verdict of the relation is AT_ANOTHER_LEVEL, or it is open and the
        sides have unlike shares of their runs at each level.
        """
        for row in self.rows:
            if row["verdict"] == verdicts.Verdict.AT_ANOTHER_LEVEL:
                return True
            is_open = row["verdict"] == verdicts.Verdict.CANNOT_TELL
            if is_open and verdicts.are_shares_unlike(row, self.threshold):
                return True
        return False


def compare(
    root: Root,
    texts: Sequence[str],
    *,
    threshold: float | None = None,
    only: Only = ALL,
    point: str | None = None,
    blocks: str | None = None,
    tables: Tables | None = None,
) -> list[Comparison]:
    """Compare each further side with the first, host by host if they share hosts and
    one of them has several. texts: the sides as typed.

    threshold: the smallest change that matters, as a share; None: 3 %. point: compare
    only this point of a ladder, a benchmark that measures memory at many sizes; None:
    all pairs, and levels of memory. blocks: "time" or the name of a label: compare runs
    within blocks (see `assign_blocks`), and compare no pairs; None: without blocks.
    tables: the tables of all these runs, if already read. Raises UsageError if there is
    nothing to compare.
    """
    listing = open_listing(root)
    chosen = match_sides(listing, texts)
    are_sides_of_cpus = names_cpus(texts)
    if are_sides_of_cpus:
        # a run may be on several sides, with an ID of its own on each
        chosen, tables = read_tables_of_cpus(listing, chosen)
    measured = _read_measured(listing, chosen, tables, only, point)
    sides = select_sides(chosen, measured.runs)
    have_pairs = set(measured.pairs["run_id"])
    matches, left_out = _pair_sides(sides, have_pairs)
    if not matches:
        message = _describe_left_out(left_out, only)
        raise UsageError(f"{message} `fleet runs` lists what each run has.")
    layout = _lay_out_comparisons(matches, measured, blocks)
    # The caveats say of a ladder that no level of memory is known. If only some CPUs
    # are compared, it may also be missing since none of these CPUs measured it.
    if not only.cpus:
        layout.add_caveats_of_ladders(measured, only.benchmark)
    if left_out:
        for caveats in layout.caveats:
            caveats.append(_describe_left_out(left_out, only))
    comparisons = _judge_layout(layout, measured, threshold or verdicts.THRESHOLD)
    if not are_sides_of_cpus:
        return comparisons
    return [_restore_stored_run_ids(comparison) for comparison in comparisons]


def _describe_left_out(hosts: Sequence[str], only: Only) -> str:
    """Say which hosts are not compared."""
    return f"{join_names(hosts)}: not compared: no latencies{only} on both sides."


def _restore_stored_run_ids(comparison: Comparison) -> Comparison:
    """Return a comparison of CPUs with the IDs that its runs have in the store."""
    a = restore_run_ids(comparison.a)
    b = restore_run_ids(comparison.b)
    return replace(comparison, a=a, b=b)


class _Measured(NamedTuple):
    """What the runs of all sides measured. pairs, numbers: rows of these tables, with
    `key`, a number for the values of PAIR_KEY (of NUMBER_KEY in `numbers`), in the
    order of these.
    """

    runs: pd.DataFrame
    pairs: pd.DataFrame
    numbers: pd.DataFrame
    descriptions: Descriptions


def _read_measured(
    listing: Listing,
    chosen: Mapping[str, set[str]],
    tables: Tables | None,
    only: Only,
    point: str | None,
) -> _Measured:
    """Read what the chosen runs measured. Raises UsageError if that is nothing.

    chosen: the IDs of the runs of each side. tables: the tables of these runs, if
    already read. point: read only this point of ladders; None: all pairs, and levels of
    memory.
    """
    run_ids = set[str]().union(*chosen.values())
    # the store has the numbers of its runs, each reduced from all pairs and points of a
    # relation. They are of no use for runs that only `tables` has, for a single point,
    # and for some of the pairs.
    takes_some_pairs = only.divides_numbers
    must_reduce = tables is not None or point is not None or takes_some_pairs
    if tables is None:
        tables = read_tables(listing, run_ids)
    runs = select_rows_of_runs(tables.runs, run_ids)
    cpus = select_rows_of_runs(tables.cpus, run_ids)
    pairs = _select_cells(tables, run_ids, only, point)
    if must_reduce:
        numbers = reduce_cells(pairs, tables.descriptions)
    else:
        summaries = list_published(listing, run_id=run_ids)
        numbers = select_numbers(listing, summaries, only, tables.descriptions)
    keys_of_pairs = verdicts.number_keys(pairs, PAIR_KEY)
    keys_of_numbers = verdicts.number_keys(numbers, NUMBER_KEY)
    return _Measured(
        runs=_add_topologies_and_turns(runs, cpus),
        pairs=pairs.assign(key=keys_of_pairs),
        numbers=numbers.assign(key=keys_of_numbers),
        descriptions=tables.descriptions,
    )


def _select_cells(
    tables: Tables, run_ids: set[str], only: Only, point: str | None
) -> pd.DataFrame:
    """Return the rows of the table `pairs` of these runs, with the `relation` by which
    each row is compared: that of its two CPUs, or a level of memory. With a point of a
    ladder, return the rows of that point instead. Raises UsageError if there are no
    rows.
    """
    cpus = select_rows_of_runs(tables.cpus, run_ids)
    pairs = select_rows_of_runs(tables.pairs, run_ids)
    pairs = only.select(pairs, cpus)
    if point is None:
        pairs = name_cells(pairs, cpus, tables.descriptions)
    else:
        pairs = name_cells_of_point(pairs, point, tables.descriptions)
    if pairs.empty:
        raise UsageError(
            f"{NOTHING}; `fleet compare --point` compares one point of a ladder, and"
            " `fleet show` lists them."
        )
    return pairs


def _add_topologies_and_turns(runs: pd.DataFrame, cpus: pd.DataFrame) -> pd.DataFrame:
    """Add two columns: `topology`, a number that is equal for runs whose CPUs have
    equal places; and `turn`, the ID of the run's session, and the index of the run
    among the host's runs of this session, from 0 for the oldest.
    """
    oldest_first = runs.sort_values(["started_utc", "run_id"], kind="stable")
    runs_of_host = oldest_first.groupby(["session_id", "host_id"])
    indices = runs_of_host.cumcount()
    indices_of_runs = indices[runs.index]  # in the order of `runs`, not of time
    turns = list(zip(runs["session_id"], indices_of_runs, strict=True))
    topologies = _number_topologies(runs["run_id"], cpus)
    return runs.assign(
        topology=topologies,
        turn=pd.Series(turns, runs.index, dtype=object),
    )


def _number_topologies(run_ids: "pd.Series[str]", cpus: pd.DataFrame) -> list[int]:
    """Return a number per run, equal for runs of which all CPUs have equal places."""
    # by run, a set of integers, each of which stands for a CPU together with its place
    placed_cpus_by_run = _collect_placed_cpus(cpus)
    number_of_topology = dict[frozenset[int], int]()
    numbers = []
    for run_id in run_ids:
        topology = frozenset(placed_cpus_by_run.get(run_id, ()))
        next_number = len(number_of_topology)
        number = number_of_topology.setdefault(topology, next_number)
        numbers.append(number)
    return numbers


def _collect_placed_cpus(cpus: pd.DataFrame) -> dict[str, set[int]]:
    """Return, by run ID, a set of numbers. Each stands for a CPU together with its kind
    and what it shares with others, so that runs of one topology have equal sets.
    """
    # a number per row of `cpus`
    placed_cpus = pd.Series(number_groups(cpus, ["cpu", *GROUPS, "kind"]))
    run_ids = cpus["run_id"].to_numpy()
    placed_cpus_by_run = {}
    for run_id, own in placed_cpus.groupby(run_ids):
        placed_cpus_by_run[str(run_id)] = set(own.tolist())
    return placed_cpus_by_run


def _pair_sides(
    sides: Sequence[ComparisonSide], have_pairs: set[str]
) -> tuple[list["_Match"], list[str]]:
    """Pair each further side with the first, host by host if they share hosts. A match
    of which a side has no pairs is left out. Return the matches, and the hosts of the
    matches left out, each once. have_pairs: the IDs of the runs that have pairs.
    """
    first, *others = sides
    matches = []
    left_out = dict[str, None]()
    for side in others:
        for a, b in _match_hosts(first, side):
            has_pairs_of_a = not have_pairs.isdisjoint(a.run_ids)
            has_pairs_of_b = not have_pairs.isdisjoint(b.run_ids)
            if has_pairs_of_a and has_pairs_of_b:
                match = _Match.make(a, b)
                matches.append(match)
            else:
                left_out |= dict.fromkeys((*a.hosts, *b.hosts))
    return matches, list(left_out)


def _match_hosts(
    a: ComparisonSide, b: ComparisonSide
) -> list[tuple[ComparisonSide, ComparisonSide]]:
    """Pair the sides host by host if they share hosts and one side has several hosts;
    otherwise pair them as a whole. Hosts of one side only are left out of pairs of
    hosts.
    """
    shared_hosts = set(a.hosts).intersection(b.hosts)
    has_several = len(a.hosts) > 1 or len(b.hosts) > 1
    if not shared_hosts or not has_several:
        return [(a, b)]
    sides_of_a = a.split_by_host()
    sides_of_b = b.split_by_host()
    pairs = []
    for host in sorted(shared_hosts):
        pair = (sides_of_a[host], sides_of_b[host])
        pairs.append(pair)
    return pairs


@dataclass(frozen=True, slots=True)
class _Match:
    """Two sides to compare.

    unit: what counts as one observation, "run" or "host", as in `Comparison`.
    pair_column: the column of the table `pairs` to compare: that of the estimator that
    all runs share, else the median. is_one_host: whether both sides are runs of the
    same host. has_one_topology: whether a pair of CPUs is the same pair on both sides.
    """

    a: ComparisonSide
    b: ComparisonSide
    unit: str
    pair_column: str
    is_one_host: bool
    has_one_topology: bool

    @classmethod
    def make(cls, a: ComparisonSide, b: ComparisonSide) -> "_Match":
        """Match two sides. If each side is of one host, runs are compared; otherwise
        hosts are.
        """
        estimators = a.list_estimators() + b.list_estimators()
        is_run_a_unit = len(a.hosts) == len(b.hosts) == 1
        has_same_hosts = a.hosts == b.hosts
        # CPUs of unlike models are not the same, even at equal places
        can_match_cpus = has_same_hosts or _are_of_one_model(a, b)
        topologies = {*a.runs["topology"], *b.runs["topology"]}
        has_one_topology = can_match_cpus and len(topologies) == 1
        unit = "run" if is_run_a_unit else "host"
        # where hosts are the units, the last two are false: a set of hosts has no pairs
        # to compare, and no order in time
        return cls(
            a,
            b,
            unit=unit,
            pair_column=choose_shared_column(estimators),
            is_one_host=is_run_a_unit and has_same_hosts,
            has_one_topology=is_run_a_unit and has_one_topology,
        )

    def find_order(self) -> verdicts.Order:
        """Return how the runs are ordered: by their turns, if they are of one host. The
        turn of a run is its session, and its index in the session. Runs of more than
        one host have no order in time, and their comparison is judged alone.

        `sides` of the order is a key: comparisons of different hosts with equal keys
        are judged together, as one session.
        """
        if not self.is_one_host:
            return verdicts.NO_ORDER
        turns = {**self.a.turns, **self.b.turns}
        # "web01@v1" -> "v1": without the host, the names of the same sides are equal on
        # every host
        sides = (self.a.name_without_host, self.b.name_without_host)
        return verdicts.Order(sides, turns)

    def list_units(self, side: ComparisonSide) -> list[str]:
        """List the unit of each run of a side: the run or its host."""
        if self.unit == "host":
            return list(side.runs["host_id"])
        return side.run_ids


def _are_of_one_model(a: ComparisonSide, b: ComparisonSide) -> bool:
    """Report whether all runs are known to be on one CPU model."""
    models = {*a.list_texts("cpu_model"), *b.list_texts("cpu_model")}
    is_known = "" not in models
    return is_known and len(models) == 1


@dataclass(frozen=True, slots=True)
class _Layout:
    """All comparisons of a command, without verdicts.

    All sequences have an element per comparison. relations, pairs: the numbers to
    judge. levels, unlike: as in `Comparison`, by number of the comparison, for those
    that have any. caveats: what weakens each comparison.
    """

    matches: Sequence[_Match]
    relations: Sequence[verdicts.SideRuns]
    pairs: Sequence[verdicts.SideRuns]
    levels: Mapping[int, pd.DataFrame]
    unlike: Mapping[int, pd.DataFrame]
    caveats: Sequence[list[str]]

    def add_caveats_of_ladders(
        self, measured: _Measured, benchmark: str | None
    ) -> None:
        """Add a caveat to each comparison that measured ladders that are not compared.

        A ladder is a benchmark that measures memory at many sizes. Ladders are compared
        by levels of memory, such as caches. A ladder without known levels has no rows
        in `measured.pairs`.
        """
        compared = set(measured.pairs["benchmark"].unique())
        for match, caveats in zip(self.matches, self.caveats, strict=True):
            ladders = _list_measured_ladders(match, benchmark, measured.descriptions)
            not_compared = sorted(ladders - compared)
            if not_compared:
                caveats.append(
                    f"{' and '.join(not_compared)}: not compared: no level of memory is"
                    " known; --point compares one point."
                )

    @property
    def has_pair_tests(self) -> bool:
        """Report whether pairs of any comparison are tested too."""
        for relations, pairs in zip(self.relations, self.pairs, strict=True):
            has_pairs = len(pairs.rows) > 0
            # pairs are no question of their own if each relation is of a single pair
            if has_pairs and relations.rows["pairs"].max() > 1:
                return True
        return False


def _list_measured_ladders(
    match: _Match, benchmark: str | None, descriptions: Descriptions
) -> set[str]:
    """List the benchmarks that are ladders of memory and that either side measured.
    benchmark: list only what this text selects; None: all.
    """
    choices = set[str]()  # benchmarks with their variants: "chase/mov"
    for side in (match.a, match.b):
        choices = choices.union(*side.runs["benchmarks"])
    if benchmark is not None:
        choices = set(select_choices(benchmark, choices))
    ladders = set()
    for choice in choices:
        if descriptions[choice].view is View.LADDER:
            name, _, _ = choice.partition("/")
            ladders.add(name)
    return ladders


def _lay_out_comparisons(
    matches: Sequence[_Match], measured: _Measured, by: str | None
) -> _Layout:
    """Lay out the numbers of all comparisons.

    In order: select the pairs and numbers of each comparison; drop the pairs that some
    of its runs lack, and reduce the pairs that are left to numbers again; then drop the
    runs that are in no block. Caveats say what was dropped.

    by: "time" or a label: compare relations within blocks, the runs of a pass or of a
    value of the label, and compare no pairs; None: compare without blocks.
    """
    members = _list_members(matches)
    pairs = _select_pairs(measured.pairs, members, matches)
    numbers = _select_numbers(measured.numbers, members, matches)
    # what is compared: the numbers themselves or, of hosts, the means of their runs
    relations = _reduce_numbers_of_hosts(numbers, matches)
    caveats = _list_caveats(matches, pairs)
    has_one_topology = np.array([match.has_one_topology for match in matches])
    # pairs that a run lacks can be dropped only where they are the same on both sides
    is_incomplete = has_one_topology & _find_incomplete(numbers, len(matches))
    if is_incomplete.any():
        pairs, lost_counts = _keep_common_pairs(pairs, is_incomplete)
        # the stored numbers are of all pairs, and do not serve where some were dropped
        comparisons_with_losses = list(lost_counts)
        relations = _reduce_again(relations, pairs, comparisons_with_losses)
        _add_to_caveats(caveats, _describe_lost_pairs(lost_counts))
    _add_to_caveats(caveats, _describe_unlike_sizes(numbers))
    pairs = _keep_pairs_of_same_cpus(pairs, has_one_topology)
    levels = list_burst_levels(pairs)
    orders = [match.find_order() for match in matches]
    if by is not None:
        blocks = _assign_blocks(matches, by)
        _add_to_caveats(caveats, _describe_runs_without_block(matches, blocks))
        relations = _keep_blocks(relations, blocks)
        orders = _add_blocks(orders, blocks)
        pairs = pairs[:0]  # none are compared
    return _Layout(
        matches,
        relations=verdicts.lay_out_relations(relations, orders),
        pairs=verdicts.lay_out_pairs(pairs, orders),
        levels=levels,
        unlike=_list_unlike_variants(relations),
        caveats=caveats,
    )


def _add_to_caveats(caveats: Sequence[list[str]], added: Mapping[int, str]) -> None:
    """Add a caveat to some comparisons. caveats: the caveats of each comparison. added:
    what to add, by number of the comparison, its place in `caveats`.
    """
    for comparison, text in added.items():
        caveats[comparison].append(text)


def _keep_pairs_of_same_cpus(
    pairs: pd.DataFrame, has_one_topology: Bools
) -> pd.DataFrame:
    """Keep the pairs of CPUs that stand for the same places on both sides.
    has_one_topology: of each comparison.
    """
    are_of_cpus = are_pairs(pairs["relation"])
    are_of_same_cpus = has_one_topology[pairs["comparison"]]
    return pairs[are_of_cpus & are_of_same_cpus]


def _add_blocks(
    orders: Sequence[verdicts.Order], blocks: Sequence[Mapping[str, object]]
) -> list[verdicts.Order]:
    """Return the orders of all comparisons with their blocks. blocks: for each
    comparison, the block of each run, by its ID.
    """
    orders_with_blocks = []
    for order, own_blocks in zip(orders, blocks, strict=True):
        orders_with_blocks.append(replace(order, blocks=own_blocks))
    return orders_with_blocks


def _list_members(matches: Sequence[_Match]) -> pd.DataFrame:
    """Return a row per comparison, side and run: `run_id`, the number of the
    `comparison`, which is the place of its match in `matches`, `is_b`, and `unit`, the
    run or its host. A run may be of several comparisons.
    """
    run_ids = list[str]()
    units = list[str]()
    comparisons = list[int]()
    are_b = list[bool]()
    for comparison, match in enumerate(matches):
        for is_b, side in ((False, match.a), (True, match.b)):
            run_ids += side.run_ids
            units += match.list_units(side)
            comparisons += [comparison] * len(side.run_ids)
            are_b += [is_b] * len(side.run_ids)
    columns = {
        "run_id": np.array(run_ids, dtype=object),
        "comparison": comparisons,
        "is_b": are_b,
        "unit": np.array(units, dtype=object),
    }
    return pd.DataFrame(columns)


def _select_pairs(
    pairs: pd.DataFrame, members: pd.DataFrame, matches: Sequence[_Match]
) -> pd.DataFrame:
    """Return the pairs of the runs of each comparison, with the columns of `members`
    and `ns`, the number to compare: each pair's time by the estimator that its
    comparison uses.
    """
    # comparisons may use different estimators: `_choose_ns` reads one of these columns
    names = [*_PAIR_COLUMNS, *ESTIMATOR_COLUMNS.values()]
    distinct_names = dict.fromkeys(names)  # a name may occur twice
    columns = pairs.filter(list(distinct_names))
    rows = _join_members(columns, members)
    column_of_comparison = [match.pair_column for match in matches]
    rows["ns"] = _choose_ns(rows, column_of_comparison)
    return rows


def _select_numbers(
    numbers: pd.DataFrame, members: pd.DataFrame, matches: Sequence[_Match]
) -> pd.DataFrame:
    """Return the numbers of the runs of each comparison, with the columns of `members`
    and `ns`, the number to compare: that by the estimator that the comparison uses.
    """
    names = [*_NUMBER_COLUMNS, *NUMBER_COLUMNS.values()]
    rows = _join_members(numbers[names], members)
    # the estimator's column has one name in `pairs`, and another in `numbers`
    column_of_comparison = [NUMBER_COLUMNS[match.pair_column] for match in matches]
    rows["ns"] = _choose_ns(rows, column_of_comparison)
    return rows


def _join_members(rows: pd.DataFrame, members: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of each member, in order of comparison, side and `rows`."""
    joined = rows.merge(members, on="run_id")
    return _sort_by_side(joined)


def _choose_ns(rows: pd.DataFrame, column_of_comparison: Sequence[str]) -> Floats:
    """Return, for each row, its value in the column that its comparison uses.
    column_of_comparison: the name of this column, by number of the comparison.
    """
    columns = np.array(column_of_comparison, dtype=object)
    column_of_row = columns[rows["comparison"]]
    ns = np.full(len(rows), np.nan)
    for column in set(column_of_comparison):
        uses_column = column_of_row == column
        values = rows[column].to_numpy(dtype=np.float64)
        ns[uses_column] = values[uses_column]
    return ns


def _reduce_numbers_of_hosts(
    numbers: pd.DataFrame, matches: Sequence[_Match]
) -> pd.DataFrame:
    """Reduce the numbers of comparisons whose units are hosts to a row per host and
    relation: the mean of the host's runs at its main level, where most of them are.
    Numbers of comparisons whose units are runs stay as they are.
    """
    compares_hosts = np.array([match.unit == "host" for match in matches])
    is_of_hosts = compares_hosts[numbers["comparison"]]
    if not is_of_hosts.any():
        return numbers
    parts = [numbers[~is_of_hosts]]
    sides = numbers[is_of_hosts].groupby(SIDE)
    for _, numbers_of_side in sides:
        parts.append(_reduce_hosts(numbers_of_side))
    return _sort_by_side(pd.concat(parts))


def _sort_by_side(rows: pd.DataFrame) -> pd.DataFrame:
    """Sort rows by comparison and side; those of one side stay in their order."""
    return rows.sort_values(SIDE, kind="stable", ignore_index=True)


def _reduce_hosts(numbers: pd.DataFrame) -> pd.DataFrame:
    """Reduce the numbers of a side to a row per host and relation: the mean of the runs
    at the host's main level, that of most of its runs. numbers: a row per run and
    relation, whose `unit` is the host.
    """
    # `_select_main_level` looks at each `host_id` by itself
    main = _select_main_level(numbers.assign(host_id=numbers["unit"]))
    main["log"] = np.log(main["ns"])
    # `key` is one number for the values of NUMBER_KEY: it is here to be kept
    keys = [*SIDE, "unit", *NUMBER_KEY, "key"]
    runs_of_host = main.groupby(keys, sort=False, observed=True)
    hosts = runs_of_host.agg(
        log=("log", "mean"),
        spread=("spread", "median"),
        pairs=("pairs", "max"),  # a run may lack some of them
    )
    hosts["ns"] = np.exp(hosts["log"])
    return hosts.reset_index()


def _select_main_level(rows: pd.DataFrame) -> pd.DataFrame:
    """Select the rows at the main level of their host, for each benchmark, variant and
    relation: the level of most of its runs.
    """
    with_levels = add_run_levels(rows, "ns")
    return with_levels[with_levels["is_main"]].copy()


def _list_caveats(matches: Sequence[_Match], pairs: pd.DataFrame) -> list[list[str]]:
    """List the caveats of each comparison. pairs: the pairs of all comparisons, before
    any is left out.
    """
    summaries = summarize_pairs(pairs)
    caveats = []
    for comparison, match in enumerate(matches):
        pairs_of_a = summaries.get((comparison, False), PairSummary())
        pairs_of_b = summaries.get((comparison, True), PairSummary())
        own_caveats = list_caveats(
            match.a,
            match.b,
            pairs_of_a,
            pairs_of_b,
            unit=match.unit,
            same_topology=match.has_one_topology,
        )
        caveats.append(own_caveats)
    return caveats


def _find_incomplete(numbers: pd.DataFrame, count: int) -> Bools:
    """Report for each of `count` comparisons whether a run lacks a number, or has it of
    other pairs or points than another run.

    numbers: a row per comparison, run and `key`, which stands for benchmark, variant
    and relation. `pairs_hash` is equal for numbers of the same pairs or points.
    """
    comparisons = numbers.groupby("comparison")
    # tables with a value per comparison
    key_counts = comparisons["key"].nunique()
    run_counts = comparisons["run_id"].nunique()
    # a run has one number of each key, unless it lacks the key
    counts_if_complete = key_counts * run_counts
    has_every_run_all_keys = comparisons.size() == counts_if_complete
    # a key is here once if all runs have it of the same pairs, else once for each
    # distinct hash of its pairs
    keys_with_pairs = numbers[["comparison", "key", "pairs_hash"]].drop_duplicates()
    counts_with_pairs = keys_with_pairs.groupby("comparison").size()
    has_same_pairs = counts_with_pairs == key_counts
    is_complete = has_every_run_all_keys & has_same_pairs
    # a comparison without numbers is in no group; it lacks nothing
    is_complete = is_complete.reindex(range(count), fill_value=True)
    return np.asarray(~is_complete)


def _keep_common_pairs(
    pairs: pd.DataFrame, is_incomplete: Bools
) -> tuple[pd.DataFrame, dict[int, int]]:
    """Drop the pairs or points that some runs of their comparison lack. Return the rows
    left, and how many pairs or points were dropped, by number of the comparison, for
    those that lost any.

    is_incomplete: for each comparison, whether a run lacks what another run has; only
    the pairs of such comparisons are looked at.
    """
    # the number of a row's comparison, from 0, is its place in `is_incomplete`
    is_of_incomplete = is_incomplete[pairs["comparison"]]
    lost_cells = _find_lost_cells(pairs[is_of_incomplete])
    lost_keys = pd.MultiIndex.from_frame(lost_cells[_PAIR_OF_COMPARISON])
    key_of_row = pd.MultiIndex.from_frame(pairs[_PAIR_OF_COMPARISON])
    is_lost = key_of_row.isin(lost_keys)
    counts = lost_cells.groupby("comparison").size()
    lost_counts: dict[Any, int] = counts.to_dict()
    return pairs[~is_lost], lost_counts


def _find_lost_cells(pairs: pd.DataFrame) -> pd.DataFrame:
    """Find the pairs or points of each comparison that some of its units, runs or
    hosts, lack: a row for each. Find none in a comparison whose units have no pair or
    point in common.
    """
    units_of_comparison = pairs.groupby("comparison")["unit"].nunique()
    # a row per pair or point of a comparison, with the number of units that have it
    units_of_cell = pairs.groupby(_PAIR_OF_COMPARISON)["unit"].nunique()
    cells = units_of_cell.reset_index(name="units")
    comparison = cells["comparison"]
    all_units = comparison.map(units_of_comparison)
    is_common = cells["units"] == all_units
    # without any common cell, all would be lost, and nothing left to compare
    has_any_common = is_common.groupby(comparison).transform("any")
    return cells[has_any_common & ~is_common]


def _describe_lost_pairs(counts: Mapping[int, int]) -> dict[int, str]:
    """Say, by number of the comparison, how many of its pairs or points were left out.
    counts: by number of the comparison.
    """
    texts = {}
    for comparison, count in counts.items():
        texts[comparison] = (
            f"Pairs or points left out, since not every run has them: {count}."
        )
    return texts


def _reduce_again(
    relations: pd.DataFrame, pairs: pd.DataFrame, comparisons: Sequence[int]
) -> pd.DataFrame:
    """Replace the relations of comparisons that lost pairs by those of the pairs that
    are left. comparisons: their numbers.
    """
    has_lost_pairs = relations["comparison"].isin(comparisons)
    unchanged = relations[~has_lost_pairs]
    is_reduced_again = pairs["comparison"].isin(comparisons)
    reduced = verdicts.reduce_to_relations(pairs[is_reduced_again])
    all_relations = pd.concat([unchanged, reduced])
    return _sort_by_side(all_relations)


def _describe_unlike_sizes(numbers: pd.DataFrame) -> dict[int, str]:
    """Say, by number of the comparison, which levels of memory hold other sizes in some
    runs of a host: "chase L2: not of the same sizes in all runs, ...".

    numbers: `level` is the level of memory of a number, such as L2, or missing.
    `pairs_hash` is equal for levels of the same sizes.
    """
    levels = numbers[numbers["level"].notna()]
    keys = ["comparison", "host_id", "level", *NUMBER_KEY]
    hashes = levels.groupby(keys)["pairs_hash"].nunique()
    unlike = hashes[hashes > 1].reset_index()
    if unlike.empty:  # the columns of an empty table may not be text, to be added below
        return {}
    unlike["name"] = unlike["benchmark"] + " " + unlike["level"]
    names = unlike.groupby("comparison")["name"].unique()
    names_by_comparison: dict[Any, Any] = names.to_dict()
    texts = {}
    for comparison, names_of_levels in names_by_comparison.items():
        texts[comparison] = (
            f"{' and '.join(names_of_levels)}: not of the same sizes in all runs, since"
            " some become slower at a smaller size."
        )
    return texts


def _assign_blocks(matches: Sequence[_Match], by: str) -> list[dict[str, object]]:
    """Return, for each comparison, the block of each run by its ID, without runs of
    blocks that one side lacks. A block is a pass, runs of both sides one after another,
    or the runs with one value of a label. Raises UsageError where the sides are
    different hosts. by: "time" or the name of a label.
    """
    blocks = []
    for match in matches:
        if match.unit != "run":
            raise UsageError(
                f"--blocks {by}: the sides are different hosts, so no block has runs of"
                " both."
            )
        blocks.append(assign_blocks(match.a, match.b, by))
    return blocks


def _describe_runs_without_block(
    matches: Sequence[_Match], blocks: Sequence[Mapping[str, object]]
) -> dict[int, str]:
    """Say, by number of the comparison, how many of its runs are in no block, since no
    run of the other side is in their block. blocks: for each comparison, the block of
    each run that is in one, by run ID.
    """
    texts = {}
    for comparison, match in enumerate(matches):
        run_count = len(match.a.runs) + len(match.b.runs)
        left_out = run_count - len(blocks[comparison])
        if left_out:
            texts[comparison] = (
                f"{format_count(left_out, 'run')} left out: no block with runs of both"
                " sides."
            )
    return texts


def _keep_blocks(
    relations: pd.DataFrame, blocks: Sequence[Mapping[str, object]]
) -> pd.DataFrame:
    """Keep the rows of runs that are in a block. blocks: for each comparison, the block
    of each run by its ID.
    """
    runs = zip(relations["comparison"], relations["unit"], strict=True)
    has_block = [run_id in blocks[comparison] for comparison, run_id in runs]
    return relations[has_block].reset_index(drop=True)


def _list_unlike_variants(relations: pd.DataFrame) -> dict[int, pd.DataFrame]:
    """Average the benchmarks that both sides of a comparison measured, but in no common
    variant. Return, by number of the comparison, a table of their mean `ns` by
    benchmark, relation, side and variant. A comparison without such benchmarks has no
    table.
    """
    variants = list_variants(relations)
    tables = {}
    for comparison in relations["comparison"].unique().tolist():
        variants_of_a = variants.get((comparison, False), {})
        variants_of_b = variants.get((comparison, True), {})
        unlike = _find_benchmarks_without_common_variant(variants_of_a, variants_of_b)
        if unlike:
            is_own = relations["comparison"] == comparison
            is_unlike = relations["benchmark"].isin(unlike)
            tables[comparison] = _average_variants(relations[is_own & is_unlike])
    return tables


def _find_benchmarks_without_common_variant(
    a: Mapping[str, set[str]], b: Mapping[str, set[str]]
) -> list[str]:
    """Find the benchmarks of both sides of which they have no common variant. a, b: the
    variants of each benchmark that a side has.
    """
    benchmarks = a.keys() & b.keys()
    return [name for name in benchmarks if a[name].isdisjoint(b[name])]


def _average_variants(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean `ns` of the runs at the main level, where most runs are, by
    benchmark, relation, side and variant. rows: numbers of the runs of one comparison.
    """
    letters = rows["is_b"].map({False: "a", True: "b"})
    # `_select_main_level` looks at each `host_id` by itself: with the side as host_id,
    # each side has a main level of its own
    rows = rows.assign(side=letters, host_id=letters)
    main = _select_main_level(rows)
    main["log"] = np.log(main["ns"])
    logs = main.groupby(_VARIANT, sort=False)["log"]
    means = logs.mean().reset_index()
    mean_log = means.pop("log")
    means["ns"] = np.exp(mean_log)
    return means


def _judge_layout(
    layout: _Layout, measured: _Measured, threshold: float
) -> list[Comparison]:
    """Judge all comparisons of a command together, since they share one rate of false
    discoveries. A Comparison has its relations twice: as a table in `relations`, and as
    plain records in `rows`.
    """
    # which relations have changed is one question, which pairs have is another: the 5 %
    # of false discoveries are divided between them
    questions = 2 if layout.has_pair_tests else 1
    rates = measured.descriptions.rates
    relations, fleets = verdicts.judge_comparisons(
        layout.relations, threshold, questions=questions, rates=rates
    )
    pairs, _ = verdicts.judge_comparisons(
        layout.pairs, threshold, questions=questions, are_pairs=True, rates=rates
    )
    rows = _list_rows(relations)
    facts = environment.describe_runs(measured.runs)
    comparisons = []
    for number, match in enumerate(layout.matches):
        a = match.a
        b = match.b
        # the key of the session of the comparison; None: it is of no session
        session = layout.relations[number].sides
        differences = environment.find_differences(a.run_ids, b.run_ids, facts)
        comparison = Comparison(
            a=a,
            b=b,
            unit=match.unit,
            threshold=threshold,
            relations=relations[number],
            rows=rows[number],
            pairs=pairs[number],
            fleet=fleets.get(session, _NO_FLEET),
            levels=layout.levels.get(number, NO_LEVELS),
            environment=differences,
            unlike=layout.unlike.get(number, _NO_VARIANTS),
            caveats=tuple(layout.caveats[number]),
            descriptions=measured.descriptions,
        )
        comparisons.append(comparison)
    return comparisons


def _list_rows(tables: Sequence[pd.DataFrame]) -> list[list[dict[str, Any]]]:
    """Return the rows of each table as plain records."""
    # all at once, since making records of each table is slow
    records = to_records(pd.concat(tables))
    rows = iter(records)
    return [list(islice(rows, len(table))) for table in tables]
