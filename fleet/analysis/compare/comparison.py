"""Compare two sides, each a set of runs, per relation and pair; a run is the unit of
replication.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import Floats
from fleet.analysis.base.text import format_share, to_records
from fleet.analysis.compare import verdicts
from fleet.analysis.compare.judge import apply_student, fit_within_blocks
from fleet.analysis.compare.sides import (
    NOTHING,
    ComparisonSide,
    Tables,
    assign_blocks,
    match_sides,
    read_tables,
    select_sides,
)
from fleet.analysis.reduce import environment
from fleet.analysis.reduce.cells import are_pairs, name_cells, name_cells_of_point
from fleet.analysis.reduce.flags import MEANINGS, count_flags
from fleet.analysis.reduce.interval import MIN_RUNS
from fleet.analysis.reduce.load import list_published
from fleet.analysis.reduce.matrices import choose_number_column
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
from fleet.plan.benchmark_names import select_kinds
from fleet.store.runs import Root, open_listing
from fleet.text import format_count

_MIN_SWITCHING = 2  # runs
_MAX_PAIRS = 100
_SIDES = ("a", "b")


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of side b with its baseline, side a.

    unit: what counts as one observation: "run", or "host" if a side has several hosts.
    relations, pairs: tables from `judge_comparisons`; pairs is empty unless both
    topologies are the same. fleet: the table of changes over all hosts, if three or
    more are compared host by host; else empty. levels: from `compare_burst_levels`.
    environment: facts that differ. unlike: from `list_unlike_variants`.
    """

    a: ComparisonSide
    b: ComparisonSide
    unit: str
    threshold: float
    relations: pd.DataFrame
    pairs: pd.DataFrame
    fleet: pd.DataFrame
    levels: pd.DataFrame
    environment: pd.DataFrame
    unlike: pd.DataFrame
    caveats: tuple[str, ...]
    descriptions: Descriptions = SHIPPED

    @property
    def has_verdict(self) -> bool:
        """Report whether there are enough runs for a verdict."""
        return bool(self.relations["p"].notna().any())

    @property
    def has_pair_tests(self) -> bool:
        """Report whether pairs were tested too. They are not if every relation consists
        of a single pair.
        """
        return bool(len(self.pairs) and self.relations["pairs"].max() > 1)

    @property
    def sides(self) -> tuple[str, str]:
        """Return the names of both sides, without a leading `HOST@`."""
        return self.a.name_without_host, self.b.name_without_host

    @property
    def has_changed(self) -> bool:
        """Report whether the verdict of a relation, on this host or over all hosts, is
        CHANGED.
        """
        tables = (self.relations, self.fleet)
        return any(
            (rows["verdict"] == verdicts.Verdict.CHANGED).any()
            for rows in tables
            if len(rows)
        )

    @property
    def is_at_another_level(self) -> bool:
        """Report whether the sides of a relation may differ by chance: its verdict is
        AT_ANOTHER_LEVEL, or its runs are at levels in unlike shares.
        """
        if verdicts.Verdict.AT_ANOTHER_LEVEL in set(self.relations["verdict"]):
            return True
        is_open = self.relations["verdict"] == verdicts.Verdict.CANNOT_TELL
        return any(
            verdicts.are_shares_unlike(row, self.threshold)
            for row in self.relations[is_open].to_dict("records")
        )


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
    """Compare each further side with the first, host by host if one has several hosts.
    texts: sides as typed.

    threshold: the smallest change that matters, as a share; None: 3 %. point: compare
    only this point.
    blocks: "time" or the name of a label; compare runs within blocks (see
    `assign_blocks`), without pairs.
    tables: the tables of all these runs, if already read. Raises UsageError if there is
    nothing to compare.
    """
    root, matters = open_listing(root), threshold or verdicts.THRESHOLD
    chosen = match_sides(root, texts)
    ids = set[str]().union(*chosen.values())
    are_all_read = tables is None
    tables = tables or read_tables(root, ids)
    runs, cpus, rows = (
        own[own["run_id"].isin(ids)] for own in (tables.runs, tables.cpus, tables.pairs)
    )
    first, *others = select_sides(chosen, _add_topologies_and_turns(runs, cpus))
    chosen_pairs = only.select(rows, cpus)
    if point is None:
        pairs = name_cells(chosen_pairs, cpus, tables.descriptions)
    else:
        pairs = name_cells_of_point(chosen_pairs, point, tables.descriptions)
    if pairs.empty:
        raise UsageError(
            f"{NOTHING}; --point compares one point of a ladder, and `fleet show` lists"
            " them."
        )
    has_all_numbers = are_all_read and point is None and not only.divides_numbers
    if has_all_numbers:
        summaries = list_published(root, run_id=ids)
        numbers = select_numbers(root, summaries, only, tables.descriptions)
    else:
        numbers = reduce_cells(pairs, tables.descriptions)
    pairs = pairs.assign(key=verdicts.number_keys(pairs, verdicts.CELL))
    numbers = numbers.assign(key=verdicts.number_keys(numbers, verdicts.CLASS))
    described = environment.describe_runs(runs)
    rows_of_runs = pairs.groupby("run_id", sort=False, observed=True).indices
    numbers_of_runs = numbers.groupby("run_id", sort=False, observed=True).indices
    laid_out, hosts = [], dict[str, None]()
    for a, b in (matched for side in others for matched in _match_hosts(first, side)):
        own_a = _select_rows(a, numbers, numbers_of_runs, pairs, rows_of_runs)
        own_b = _select_rows(b, numbers, numbers_of_runs, pairs, rows_of_runs)
        if own_a.pairs.empty or own_b.pairs.empty:
            hosts |= dict.fromkeys((*a.hosts, *b.hosts))
            continue
        laid_out.append(
            _lay_out_comparison(a, b, own_a, own_b, matters, blocks, described)
        )
    without = f"{join_names(hosts)}: not compared: no latencies{only} on both sides."
    if not laid_out:
        raise UsageError(f"{without} `fleet runs` lists what each run has.")
    unjudged, side_runs, pair_runs = zip(*laid_out, strict=True)
    questions = 1 + any(comparison.has_pair_tests for comparison in unjudged)
    relations, fleets = verdicts.judge_comparisons(
        side_runs, matters, questions=questions
    )
    pair_tables, _ = verdicts.judge_comparisons(
        pair_runs, matters, questions=questions, are_pairs=True
    )
    comparisons, compared = [], {*pairs["benchmark"].unique()}
    for comparison, own_runs, table, of_pairs in zip(
        unjudged, side_runs, relations, pair_tables, strict=True
    ):
        ladders = _list_measured_ladders(
            comparison, only.benchmark, tables.descriptions
        )
        names = " and ".join(sorted(ladders - compared))
        left_out = (
            f"{names}: not compared: no level of memory is known; --point compares one"
            " point."
        )
        notes = [left_out] * bool(names and not only.cpus) + [without] * bool(hosts)
        judged = {
            "relations": table,
            "pairs": of_pairs,
            "descriptions": tables.descriptions,
        }
        fleet, caveats = (
            fleets.get(own_runs.sides, comparison.fleet),
            (*comparison.caveats, *notes),
        )
        comparisons.append(replace(comparison, **judged, fleet=fleet, caveats=caveats))
    return comparisons


def _list_measured_ladders(
    comparison: Comparison, benchmark: str | None, descriptions: Descriptions
) -> set[str]:
    kinds = {
        kind
        for side in (comparison.a, comparison.b)
        for row in side.runs["benchmarks"]
        for kind in row
    }
    chosen = kinds if benchmark is None else select_kinds(benchmark, kinds)
    return {
        kind.partition("/")[0]
        for kind in chosen
        if descriptions[kind].view is View.LADDER
    }


def _match_hosts(
    a: ComparisonSide, b: ComparisonSide
) -> list[tuple[ComparisonSide, ComparisonSide]]:
    """Pair the sides host by host if they share hosts and one has several; otherwise
    pair them as a whole.
    """
    shared = sorted({*a.hosts} & {*b.hosts})
    if not shared or len(a.hosts) == len(b.hosts) == 1:
        return [(a, b)]
    hosts_of_a = a.split_by_host()
    hosts_of_b = b.split_by_host()
    return [(hosts_of_a[host], hosts_of_b[host]) for host in shared]


class _Rows(NamedTuple):
    """Rows of `numbers` and of `pairs` of a side, with `key` from `number_keys`."""

    numbers: pd.DataFrame
    pairs: pd.DataFrame


def _select_rows(
    side: ComparisonSide,
    numbers: pd.DataFrame,
    numbers_of_runs: Mapping[Any, Any],
    pairs: pd.DataFrame,
    pairs_of_runs: Mapping[Any, Any],
) -> _Rows:
    """Select the rows of a side's runs. numbers_of_runs, pairs_of_runs: places by run
    ID.
    """
    parts = []
    for rows, places_of_runs in ((numbers, numbers_of_runs), (pairs, pairs_of_runs)):
        places = [
            places_of_runs[run] for run in side.runs["run_id"] if run in places_of_runs
        ]
        chosen = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *places]))
        parts.append(rows.iloc[chosen])
    return _Rows(*parts)


def _lay_out_comparison(
    a: ComparisonSide,
    b: ComparisonSide,
    rows_a: _Rows,
    rows_b: _Rows,
    threshold: float,
    by: str | None,
    described: environment.DescribedRuns,
) -> tuple[Comparison, verdicts.SideRuns, verdicts.SideRuns]:
    """Return the comparison without verdicts, and its numbers to judge, by relation and
    by pair.
    """
    runs = pd.concat([a.runs, b.runs])
    number = choose_number_column(a.runs, b.runs)
    unit = "host" if max(len(a.hosts), len(b.hosts)) > 1 else "run"
    same = unit == "run" and _have_one_topology(a, b, runs)
    pairs_a = _add_units(rows_a.pairs, a, unit).assign(ns=rows_a.pairs[number])
    pairs_b = _add_units(rows_b.pairs, b, unit).assign(ns=rows_b.pairs[number])
    warnings = list_caveats(a, b, (pairs_a, pairs_b), unit=unit, same_topology=same)
    numbers_a = _reduce_by_unit(rows_a.numbers, a, unit, NUMBER_COLUMNS[number])
    numbers_b = _reduce_by_unit(rows_b.numbers, b, unit, NUMBER_COLUMNS[number])
    if same and not _have_common_pairs(pd.concat([rows_a.numbers, rows_b.numbers])):
        pairs_a, pairs_b, less = _keep_common_pairs(pairs_a, pairs_b)
        if less:
            numbers_a = verdicts.reduce_to_relations(pairs_a)
            numbers_b = verdicts.reduce_to_relations(pairs_b)
            both = pd.concat([numbers_a, numbers_b])
            keys = verdicts.number_keys(both, verdicts.CLASS)
            numbers_a["key"] = keys[: len(numbers_a)]
            numbers_b["key"] = keys[len(numbers_a) :]
            warnings.append(
                f"Pairs or points left out, since not every run has them: {less}."
            )
    warnings += _warn_about_sizes(pd.concat([rows_a.numbers, rows_b.numbers]))
    pairs_a = pairs_a[are_pairs(pairs_a["relation"]) & same]
    pairs_b = pairs_b[are_pairs(pairs_b["relation"]) & same]
    levels = compare_burst_levels(pairs_a, pairs_b)
    blocks = None
    if by is not None:
        if unit != "run":
            raise UsageError(
                f"--blocks {by}: the sides are different hosts, so no block has runs of"
                " both."
            )
        blocks = assign_blocks(a, b, by)
        numbers_a = numbers_a[numbers_a["unit"].isin(list(blocks))]
        numbers_b = numbers_b[numbers_b["unit"].isin(list(blocks))]
        pairs_a = pairs_a[:0]
        pairs_b = pairs_b[:0]
        if missing := len(runs) - len(blocks):
            warnings.append(
                f"{format_count(missing, 'run')} left out: no block with runs of both"
                " sides."
            )
    order = verdicts.Order(blocks=blocks)
    if unit == "run" and a.hosts == b.hosts:
        turns = dict(zip(runs["run_id"], runs["turn"], strict=True))
        names = (a.name_without_host, b.name_without_host)
        order = verdicts.Order(names, turns, blocks)
    relations = verdicts.lay_out_relations(numbers_a, numbers_b, order)
    pair_runs = verdicts.lay_out_pairs(pairs_a, pairs_b, replace(order, blocks=None))
    comparison = Comparison(
        a=a,
        b=b,
        unit=unit,
        threshold=threshold,
        relations=relations.rows,
        pairs=pair_runs.rows,
        fleet=pd.DataFrame(),
        levels=levels,
        environment=environment.find_differences(a.runs, b.runs, described),
        unlike=list_unlike_variants(numbers_a, numbers_b),
        caveats=tuple(warnings),
    )
    return comparison, relations, pair_runs


def _have_one_topology(
    a: ComparisonSide, b: ComparisonSide, runs: pd.DataFrame
) -> bool:
    """Report whether all runs are of one host or CPU model, and of one topology."""
    models = set(runs["cpu_model"])
    is_one_model = len(models) == 1 and runs["cpu_model"].notna().all()
    return bool(a.hosts == b.hosts or is_one_model) and len({*runs["topology"]}) == 1


def _have_common_pairs(numbers: pd.DataFrame) -> bool:
    """Report whether each run has each number, from the same pairs or points."""
    keys = set(numbers["key"])
    units = set(numbers["run_id"])
    parts = set(zip(numbers["key"], numbers["pairs_hash"], strict=True))
    return len(numbers) == len(keys) * len(units) and len(parts) == len(keys)


def _warn_about_sizes(numbers: pd.DataFrame) -> list[str]:
    """Warn of levels of memory that end at another size in some of the runs."""
    levels = numbers[numbers["level"].notna()]
    keys = ["host_id", "level", *verdicts.CLASS]
    hashes = levels.groupby(keys)["pairs_hash"].nunique()
    unlike = hashes[hashes > 1].reset_index()
    if unlike.empty:
        return []
    names = (unlike["benchmark"] + " " + unlike["level"]).unique()
    return [
        f"{' and '.join(names)}: not of the same sizes in all runs, since some become"
        " slower at a smaller size."
    ]


def _add_units(rows: pd.DataFrame, side: ComparisonSide, unit: str) -> pd.DataFrame:
    """Add the column `unit`, a run or host."""
    if unit == "run":
        return rows.assign(unit=rows["run_id"])
    hosts = dict(zip(side.runs["run_id"], side.runs["host_id"], strict=True))
    return rows.assign(unit=rows["run_id"].map(hosts))


def _reduce_by_unit(
    numbers: pd.DataFrame, side: ComparisonSide, unit: str, column: str
) -> pd.DataFrame:
    """Return a row per unit and relation, with its `ns`: a host's are of its runs at
    the main level. numbers: of the side's runs. column: what is compared.
    """
    rows = _add_units(numbers, side, unit).assign(ns=numbers[column])
    if unit == "run":
        return rows
    rows = add_run_levels(rows.assign(host_id=rows["unit"]), "ns")
    main = rows[rows["is_main"]]
    groups = main.assign(log=np.log(main["ns"])).groupby(
        ["unit", *verdicts.CLASS, "key"], sort=False, observed=True
    )
    hosts = groups.agg(
        log=("log", "mean"), spread=("spread", "median"), pairs=("pairs", "max")
    ).reset_index()
    return hosts.assign(ns=np.exp(hosts["log"]))


def list_unlike_variants(a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    """Return mean `ns` by benchmark, relation, side and variant, where the sides have
    no common variant. a, b: rows per unit and relation.
    """
    columns = ["benchmark", "relation", "side", "variant"]
    variants_of_a = _list_variants(a)
    variants_of_b = _list_variants(b)
    unlike = [
        name
        for name in variants_of_a.keys() & variants_of_b.keys()
        if not variants_of_a[name] & variants_of_b[name]
    ]
    if not unlike:
        return pd.DataFrame(columns=[*columns, "ns"])
    both = pd.concat([a.assign(side="a"), b.assign(side="b")], ignore_index=True)
    rows = both[both["benchmark"].isin(unlike)]
    levels = add_run_levels(rows.assign(host_id=rows["side"]), "ns")
    main = levels[levels["is_main"]]
    groups = main.assign(log=np.log(main["ns"])).groupby(columns, sort=False)
    means = groups["log"].mean().rename("ns").reset_index()
    means["ns"] = np.exp(means["ns"])
    return means


def _list_variants(rows: pd.DataFrame) -> dict[str, set[str]]:
    """Return the variants of each benchmark of these rows, in order of occurrence."""
    variants = dict[str, set[str]]()
    kinds = dict.fromkeys(zip(rows["benchmark"], rows["variant"], strict=True))
    for benchmark, variant in kinds:
        variants.setdefault(benchmark, set()).add(variant)
    return variants


def _keep_common_pairs(
    a: pd.DataFrame, b: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame, int]:
    """Keep the pairs that every run of both sides has, and count the others; keep all
    if none is common.
    """
    both = pd.concat([a, b])
    cell, _ = pd.factorize(both["key"])
    unit, units = pd.factorize(both["unit"])
    has_cell = np.zeros((cell.max(initial=-1) + 1, len(units)), dtype=bool)
    has_cell[cell, unit] = True
    is_common = np.asarray(has_cell.all(axis=1))
    if not is_common.any():
        return a, b, 0
    is_kept = is_common[cell]
    less = int((~is_common).sum())
    return a[is_kept[: len(a)]], b[is_kept[len(a) :]], less


def _add_topologies_and_turns(runs: pd.DataFrame, cpus: pd.DataFrame) -> pd.DataFrame:
    """Add each run's `topology` and `turn`: the session, and the run's place among the
    host's runs there.
    """
    rows = cpus[["cpu", *GROUPS, "kind"]].astype(object).where(cpus.notna(), None)
    topologies = dict[
        str, set[object]
    ]()  # of ten thousand runs, in a tenth of a groupby's time
    for run_id, row in zip(
        cpus["run_id"], rows.itertuples(index=False, name=None), strict=True
    ):
        topologies.setdefault(run_id, set()).add(row)
    own = runs["run_id"].map(
        {run_id: frozenset(rows) for run_id, rows in topologies.items()}
    )
    ordered = runs.sort_values(["started_utc", "run_id"], kind="stable")
    places = ordered.groupby(["session_id", "host_id"]).cumcount()[runs.index]
    turns = pd.Series(
        list(zip(runs["session_id"], places, strict=True)), runs.index, dtype=object
    )
    return runs.assign(topology=own, turn=turns)


def compare_burst_levels(a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    """List pairs of which two runs or more, of either side, have over a tenth of bursts
    at another level.

    Return at most 100 pairs, the largest shares first. a, b: rows of `pairs`, with the
    run as `unit`. Columns with the prefix `a_` or `b_`: `ns`, the median of the side's
    runs; `other_ns`, the median of their other levels (NaN if none); `share`, the mean
    share of bursts at another level. `moved`: b_share - a_share, with its 95 % interval
    `moved_low` to `moved_high` (NaN below three runs a side). Verdicts use none of
    these.
    """
    names = [
        *(f"{side}_{name}" for name in ("ns", "other_ns", "share") for side in _SIDES)
    ]
    both = pd.concat([a.assign(side="a"), b.assign(side="b")])
    rows = list[tuple[Any, ...]]()
    has_others = "other_ns" in both and both["other_ns"].count() >= _MIN_SWITCHING
    if len(a) and len(b) and has_others:
        counts = both.groupby(verdicts.CELL, observed=True)["other_ns"].transform(
            "count"
        )
        for key, part in both[counts >= _MIN_SWITCHING].groupby(
            verdicts.CELL, observed=True
        ):
            sides = [part[part["side"] == side] for side in _SIDES]
            if all(map(len, sides)):
                numbers = [
                    side[name].median()
                    for name in ("median_ns", "other_ns")
                    for side in sides
                ]
                shares = [side["other_share"].to_numpy(dtype=float) for side in sides]
                numbers += [share.mean() for share in shares]
                rows.append(
                    (
                        part["other_share"].sum(),
                        *key,
                        *numbers,
                        *_estimate_difference(*shares),
                    )
                )
    rows.sort(key=lambda row: (-row[0], row[1:6]))
    columns = ["total", *verdicts.CELL, *names, "moved", "moved_low", "moved_high"]
    return pd.DataFrame(rows[:_MAX_PAIRS], columns=columns).drop(columns="total")


def _estimate_difference(a: Floats, b: Floats) -> tuple[float, float, float]:
    """Return mean b minus mean a and its 95 % interval. The ends are NaN if a side has
    under three runs.
    """
    if min(len(a), len(b)) < MIN_RUNS:
        return float(b.mean() - a.mean()), float("nan"), float("nan")
    is_b = np.repeat([False, True], [len(a), len(b)])
    fit = fit_within_blocks(
        np.concatenate([a, b])[None, :], is_b, np.zeros(len(is_b), dtype=np.int64)
    )
    low, high, _ = apply_student(
        fit.change, np.sqrt(fit.variance * fit.scale), fit.freedom
    )
    return float(fit.change[0]), float(low[0]), float(high[0])


MANY_FLAGGED = 0.2  # of a side's pairs
BUSIER = 0.5  # runnable threads per CPU more on one side than on the other
# `not_converged` shows in the intervals
_OF_LEVELS = (
    "multimodal",
    "smt_pair",
    "drift",
    "outliers",
)
_MEASURED = {"complete", "partial"}
_SAMPLING = ["preset", "estimator"]
_Pairs = tuple[pd.DataFrame, pd.DataFrame]


def list_caveats(
    a: ComparisonSide,
    b: ComparisonSide,
    pairs: _Pairs,
    *,
    unit: str,
    same_topology: bool,
) -> list[str]:
    """List the warnings, the most serious first. pairs: both sides' rows per unit and
    pair, with `flags`.
    """
    return [
        *_warn_about_runs(a, b, pairs, unit),
        *_warn_about_hosts(a, b, unit, same_topology=same_topology),
        *_warn_about_sampling(a, b),
        *_warn_about_variants(pairs),
        *_warn_about_conditions(a, b),
        *_warn_about_flags(pairs),
    ]


def format_order(a: ComparisonSide, b: ComparisonSide) -> str:
    """Write the letter of each run's side in order of time, such as ABBA."""
    times = ["started_utc", "run_id"]
    starts = pd.concat([a.runs[times].assign(side="A"), b.runs[times].assign(side="B")])
    return "".join(starts.sort_values(times, kind="stable")["side"])


def _warn_about_runs(
    a: ComparisonSide, b: ComparisonSide, pairs: _Pairs, unit: str
) -> Iterator[str]:
    counts = zip(
        "AB", (MIN_RUNS - rows["unit"].nunique() for rows in pairs), strict=True
    )
    missing = [f"{count} more of {letter}" for letter, count in counts if count > 0]
    if missing:
        yield (
            f"No verdict: a verdict needs {MIN_RUNS} {unit}s a side; measure"
            f" {' and '.join(missing)}. Any two {unit}s differ, even if nothing"
            " changed."
        )
    order, smaller_count = format_order(a, b), min(len(a.runs), len(b.runs))
    count = sum(side != then for side, then in pairwise(order))
    periods = [period for period in (2, 4) if order[period:] == order[:-period]]
    if smaller_count >= MIN_RUNS and periods and a.hosts == b.hosts:
        yield (
            f"The order of the sides repeats itself every {periods[0]} runs: what"
            " disturbs runs as regularly looks like a difference. --alternate draws an"
            " order that does not (docs/comparing.md)."
        )
    if smaller_count >= 2 and count < smaller_count:
        how = "in two separate blocks of time" if count == 1 else "hardly interleaved"
        yield (
            f"The sides were measured {how}: anything else that changed with time looks"
            " like a difference between them. Alternate them (docs/comparing.md)."
        )


def _warn_about_hosts(
    a: ComparisonSide, b: ComparisonSide, unit: str, *, same_topology: bool
) -> Iterator[str]:
    if unit == "host":
        yield (
            "The sides are different sets of hosts: each counts once; relations are"
            " matched by name."
        )
    elif a.hosts != b.hosts:
        cells = (
            ""
            if same_topology
            else "; relations are matched by name, pairs are not compared"
        )
        yield (
            "The sides are different hosts: a change applies to these two machines"
            f" only{cells}."
        )
    elif not same_topology:
        yield (
            "The topology of the host differs between the sides: pairs are not"
            " compared."
        )


def _warn_about_sampling(a: ComparisonSide, b: ComparisonSide) -> Iterator[str]:
    runs = pd.concat([side.runs[[*_SAMPLING, "state", "clock"]] for side in (a, b)])
    summaries = runs[~runs["state"].isin(_MEASURED)]
    if len(summaries):
        yield (
            f"{format_count(len(summaries), 'run')} without samples: no evidence of a"
            " change."
        )
    schemes = {
        f"{row['preset']} ({row['estimator']})" if row["preset"] else "default (median)"
        for row in to_records(runs[_SAMPLING])
    }
    if len(schemes) > 1:
        yield (
            f"The runs used different sampling, {', '.join(sorted(schemes))}: all are"
            " compared by the median of their bursts, which may differ by the sampling"
            " alone."
        )
    if runs["clock"].nunique() > 1:
        yield f"The clocks differ: {', '.join(sorted(runs['clock'].unique()))}."


def _warn_about_variants(pairs: _Pairs) -> Iterator[str]:
    kinds = [_list_variants(rows) for rows in pairs]
    for benchmark in dict.fromkeys([*kinds[0], *kinds[1]]):
        variants = [kind.get(benchmark, set()) for kind in kinds]
        if not all(variants):
            yield f"{benchmark}: only {'A' if variants[0] else 'B'} measured it."
        elif variants[0] != variants[1] and variants[0] & variants[1]:
            a, b = (" and ".join(sorted(names)) for names in variants)
            yield (
                f"{benchmark}: A was measured with {a}, B with {b}. Only common"
                " variants are compared."
            )


def _warn_about_conditions(a: ComparisonSide, b: ComparisonSide) -> Iterator[str]:
    loads = [
        (side.runs["load_1m_before"] / side.runs["cpus_measured"]).median()
        for side in (a, b)
    ]
    if abs(loads[1] - loads[0]) > BUSIER:
        yield (
            f"The load differs: {loads[0]:.1f} runnable threads per CPU before the runs"
            f" of A, {loads[1]:.1f} before those of B."
        )
    for letter, side in (("A", a), ("B", b)):
        partial = side.runs.loc[side.runs["state"] == "partial", "failed_bursts"]
        if len(partial):
            failed = int(partial.sum())
            lost = (
                f"{format_count(failed, 'burst')} failed"
                if failed
                else "not all pairs were measured"
            )
            yield f"Partial: {format_count(len(partial), 'run')} of {letter}; {lost}."


def _warn_about_flags(pairs: _Pairs) -> Iterator[str]:
    counts = [
        (name, count_flags(rows["flags"]), len(rows))
        for name, rows in zip("AB", pairs, strict=True)
    ]
    for flag in _OF_LEVELS:
        shares = [
            (letter, flags.get(flag, 0) / max(total, 1))
            for letter, flags, total in counts
        ]
        many = [
            f"{format_share(share)} of {letter}"
            for letter, share in shares
            if share > MANY_FLAGGED
        ]
        if many:
            yield f"{flag}: {MEANINGS[flag]} ({', '.join(many)})."
