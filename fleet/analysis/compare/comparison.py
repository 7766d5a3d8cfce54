"""Compare two sides, each a set of runs, per relation and pair; a run is the unit of
replication.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

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
from fleet.analysis.reduce.burst_levels import are_at_main_level
from fleet.analysis.reduce.cells import are_pairs, name_cells, name_cells_of_point
from fleet.analysis.reduce.flags import MEANINGS, count_flags
from fleet.analysis.reduce.interval import MIN_RUNS, compute_geometric_mean
from fleet.analysis.reduce.matrices import choose_number_column
from fleet.analysis.reduce.numbers import ALL, Only
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
    rows_of_runs = pairs.groupby("run_id", sort=False, observed=True).indices
    laid_out, hosts = [], dict[str, None]()
    for a, b in (matched for side in others for matched in _match_hosts(first, side)):
        sides = [
            [rows_of_runs[run] for run in side.runs["run_id"] if run in rows_of_runs]
            for side in (a, b)
        ]
        if not all(sides):
            hosts |= dict.fromkeys((*a.hosts, *b.hosts))
            continue
        own = [pairs.iloc[np.sort(np.concatenate(places))] for places in sides]
        laid_out.append(_lay_out_comparison(a, b, own, matters, blocks))
    without = f"{join_names(hosts)}: not compared: no latencies{only} on both sides."
    if not laid_out:
        raise UsageError(f"{without} `fleet runs` lists what each run has.")
    unjudged, numbers, pair_numbers = zip(*laid_out, strict=True)
    questions = 1 + any(comparison.has_pair_tests for comparison in unjudged)
    relations, fleets = verdicts.judge_comparisons(
        numbers, matters, questions=questions
    )
    pair_tables, _ = verdicts.judge_comparisons(
        pair_numbers, matters, questions=questions, are_pairs=True
    )
    comparisons, compared = [], {*pairs["benchmark"].unique()}
    for comparison, side_runs, table, of_pairs in zip(
        unjudged, numbers, relations, pair_tables, strict=True
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
            fleets.get(side_runs.sides, comparison.fleet),
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
    return [(a.select_host(host), b.select_host(host)) for host in shared]


def _lay_out_comparison(
    a: ComparisonSide,
    b: ComparisonSide,
    pairs: Sequence[pd.DataFrame],
    threshold: float,
    by: str | None,
) -> tuple[Comparison, verdicts.SideRuns, verdicts.SideRuns]:
    """Return the comparison without verdicts, and its numbers to judge, by relation and
    by pair.
    """
    runs, number = pd.concat([a.runs, b.runs]), choose_number_column(a.runs, b.runs)
    unit = "host" if max(len(a.hosts), len(b.hosts)) > 1 else "run"
    is_one_host = unit == "run" and a.hosts == b.hosts
    is_one_model = (
        runs["cpu_model"].nunique(dropna=False) == 1 and runs["cpu_model"].notna().all()
    )
    same = (
        unit == "run"
        and len({*runs["topology"]}) == 1
        and bool(is_one_host or is_one_model)
    )
    rows_a, rows_b = (
        _reduce_by_unit(a, pairs[0], unit, number),
        _reduce_by_unit(b, pairs[1], unit, number),
    )
    warnings = list_caveats(a, b, (rows_a, rows_b), unit=unit, same_topology=same)
    if same:
        rows_a, rows_b, less = _keep_common_pairs(rows_a, rows_b)
        if less:
            warnings.append(
                f"Pairs or points left out, since not every run has them: {less}."
            )
    pairs_a, pairs_b = (
        own[are_pairs(own["relation"]) & same] for own in (rows_a, rows_b)
    )
    levels, blocks = compare_burst_levels(pairs_a, pairs_b), None
    if by is not None:
        if unit != "run":
            raise UsageError(
                f"--blocks {by}: the sides are different hosts, so no block has runs of"
                " both."
            )
        blocks = assign_blocks(a, b, by)
        rows_a, rows_b = (
            own[own["unit"].isin(list(blocks))] for own in (rows_a, rows_b)
        )
        pairs_a, pairs_b = pairs_a[:0], pairs_b[:0]
        if missing := len(runs) - len(blocks):
            warnings.append(
                f"{format_count(missing, 'run')} left out: no block with runs of both"
                " sides."
            )
    turns = dict(zip(runs["run_id"], runs["turn"], strict=True))
    order = (
        {"sides": (a.name_without_host, b.name_without_host), "turns": turns}
        if is_one_host
        else {}
    )
    relations = verdicts.lay_out_relations(
        rows_a, rows_b, number, blocks=blocks, **order
    )
    pair_runs = verdicts.lay_out_pairs(pairs_a, pairs_b, number, **order)
    tables = (relations.rows, pair_runs.rows, pd.DataFrame(), levels)
    others = (
        environment.find_differences(a.runs, b.runs),
        list_unlike_variants(rows_a, rows_b, number),
    )
    return (
        Comparison(a, b, unit, threshold, *tables, *others, tuple(warnings)),
        relations,
        pair_runs,
    )


def list_unlike_variants(a: pd.DataFrame, b: pd.DataFrame, number: str) -> pd.DataFrame:
    """Return mean `ns` by benchmark, relation, side and variant, where the sides have
    no common variant.
    """
    kinds = [
        rows.groupby("benchmark", sort=False, observed=True)["variant"].agg(set)
        for rows in (a, b)
    ]
    both = kinds[0].index.intersection(kinds[1].index)
    unlike = [name for name in both if not kinds[0][name] & kinds[1][name]]
    sides = zip(_SIDES, (a, b), strict=True)
    rows = pd.concat(
        [own[own["benchmark"].isin(unlike)].assign(side=side) for side, own in sides]
    )
    medians = rows.groupby(
        ["unit", "side", *verdicts.CLASS], sort=False, observed=True
    )[number].median()
    means = medians.groupby(
        ["benchmark", "relation", "side", "variant"], sort=False, observed=True
    )
    return means.agg(_average_main_level).rename("ns").reset_index()


def _reduce_by_unit(
    side: ComparisonSide, rows: pd.DataFrame, unit: str, number: str
) -> pd.DataFrame:
    """Add the column `unit`, a run or host; for hosts, average each pair over its runs
    at the main level.
    """
    if unit == "run":
        return rows.assign(unit=rows["run_id"])
    hosts = rows["run_id"].map(side.runs.set_index("run_id")["host_id"])
    groups = rows.assign(unit=hosts).groupby(["unit", *verdicts.CELL], sort=False)
    return groups.agg(
        {number: _average_main_level, "spread": "median", "flags": "first"}
    ).reset_index()


def _average_main_level(runs: pd.Series) -> float:
    """Return the geometric mean of those runs that are at the main level."""
    values = runs.to_numpy(dtype=float)
    return compute_geometric_mean(values[are_at_main_level(values)])


def _keep_common_pairs(
    a: pd.DataFrame, b: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame, int]:
    """Keep the pairs that every run of both sides has, and count the others; keep all
    if none is common.
    """
    both = pd.concat([a, b])
    units = both.groupby(verdicts.CELL, observed=True)["unit"].transform("nunique")
    is_common = (units == both["unit"].nunique()).to_numpy()
    if not is_common.any():
        return a, b, 0
    less = len(both.loc[~is_common, verdicts.CELL].drop_duplicates())
    return a[is_common[: len(a)]], b[is_common[len(a) :]], less


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
    if len(a) and len(b) and "other_ns" in both:
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
    kinds = [
        rows.groupby("benchmark", sort=False)["variant"].unique().to_dict()
        for rows in pairs
    ]
    for benchmark in dict.fromkeys([*kinds[0], *kinds[1]]):
        variants = [set(kind.get(benchmark, ())) for kind in kinds]
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
