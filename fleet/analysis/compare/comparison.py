"""Compares sides of runs, per relation and pair; a run is the unit of replication."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import Floats
from fleet.analysis.compare.caveats import choose_number_column, list_caveats
from fleet.analysis.compare.judge import apply_student, fit_within_blocks, label_levels
from fleet.analysis.compare.side_runs import CELL, CLASS, RunOrder, SideRuns, lay_out_pairs, lay_out_relations
from fleet.analysis.compare.sides import NOTHING, ComparisonSide, assign_blocks, match_sides, select_sides
from fleet.analysis.compare.verdicts import THRESHOLD, Verdict, judge_comparisons
from fleet.analysis.reduce import environment
from fleet.analysis.reduce.comparison_rows import ALL, Only, are_pairs, build_comparison_rows
from fleet.analysis.reduce.interval import LEAST_RUNS
from fleet.analysis.reduce.load import (
    drop_contradicting,
    list_published,
    load_runs_and_cpus,
    merge_descriptions,
)
from fleet.analysis.reduce.pairs import as_float64, load_pairs
from fleet.analysis.reduce.topology import GROUPS
from fleet.errors import UsageError
from fleet.hostnames import join_names
from fleet.model import SHIPPED, Descriptions, View
from fleet.plan.benchmark_names import select_kinds
from fleet.store.runs import Root, open_listing
from fleet.text import format_count

_LEAST_SWITCHING = 2  # runs
_MOST_PAIRS = 100
_SIDES = ("a", "b")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Side b against its baseline a.

    unit: what was counted, "run" or, where each side is several other hosts, "host". relations, fleet: tables
    of `judge_comparisons`; fleet: the changes over all hosts, where three or more are compared one by one.
    pairs: of it too, those with a verdict, none unless the topologies are the same. levels: of
    `compare_burst_levels`. environment: what else differs. caveats: its warnings. unlike: of
    `list_unlike_variants`.
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
    caveats: tuple[str, ...]
    descriptions: Descriptions = SHIPPED
    unlike: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def has_verdict(self) -> bool:
        """Report whether there are enough runs for a verdict."""
        return bool(self.relations["p"].notna().any())

    @property
    def reports_pairs(self) -> bool:
        """Report whether pairs are tested beside relations: a relation of one pair is that pair."""
        return bool(len(self.pairs) and self.relations["pairs"].max() > 1)

    @property
    def sides(self) -> tuple[str, str]:
        """Return the names of the sides, without the host of a comparison host by host."""
        a, b = (side.name.removeprefix(f"{side.hosts[0]}@") for side in (self.a, self.b))
        return a, b

    @property
    def has_changed(self) -> bool:
        """Report whether a relation, of this host or of all, is known to have changed."""
        return any(
            len(rows) and (rows["verdict"] == Verdict.CHANGED).any() for rows in (self.relations, self.fleet)
        )

    @property
    def is_at_another_level(self) -> bool:
        """Report whether the sides of a relation are at different levels, which may be chance."""
        return bool(len(self.relations) and (self.relations["verdict"] == Verdict.AT_ANOTHER_LEVEL).any())


@dataclass(frozen=True, slots=True)
class Tables:
    """Rows of the tables `runs`, `cpus` and `pairs`, these widened. descriptions: of their benchmarks."""

    runs: pd.DataFrame
    cpus: pd.DataFrame
    pairs: pd.DataFrame
    descriptions: Descriptions


def read_tables(root: Root, run_ids: Collection[str]) -> Tables:
    """Read the tables of these runs."""
    listing = open_listing(root)
    summaries = list_published(listing, run_id=run_ids)
    descriptions = merge_descriptions(summaries)
    pairs = drop_contradicting(as_float64(load_pairs(listing, run_id=run_ids)), summaries, descriptions)
    return Tables(*load_runs_and_cpus(listing, run_id=run_ids), pairs, descriptions)


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
    """Compare each further side with the first; texts: sides as on the command line.

    threshold: the smallest change that matters, as a share; by default 3 %. point: only this one. blocks:
    "time" or a label's name, compare within blocks (`blocks`), but no pairs. tables: of all runs of the
    sides, if read already. Of the same several hosts there is a comparison each. Raises UsageError.
    """
    root = open_listing(root)
    chosen = match_sides(root, texts)
    if tables is None:
        tables = read_tables(root, {run_id for ids in chosen.values() for run_id in ids})
    first, *others = select_sides(chosen, tables.runs)
    runs = pd.concat([first.runs, *(side.runs for side in others)])
    ids, descriptions = runs["run_id"].tolist(), tables.descriptions
    cpus, rows = (table[table["run_id"].isin(ids)] for table in (tables.cpus, tables.pairs))
    pairs = build_comparison_rows(only.of(rows, cpus), cpus, point, descriptions)
    if pairs.empty:
        raise UsageError(f"{NOTHING}; --point compares one point of a ladder, and `fleet show` lists them.")
    topologies, turns = _read_topologies(cpus, ids), _number_turns(runs)
    matched = [pair for side in others for pair in _match_hosts(first, side)]
    rows_of_runs = pairs.groupby("run_id", sort=False, observed=True).indices
    benchmarks = frozenset(pairs["benchmark"].unique())
    comparable, hosts = [], dict[str, None]()
    for a, b in matched:
        if any(rows_of_runs.keys().isdisjoint(side.runs["run_id"]) for side in (a, b)):
            hosts |= dict.fromkeys((*a.hosts, *b.hosts))
        else:
            comparable.append((a, b))
    without = f"{join_names(hosts)}: not compared: no latencies{only} on both sides."
    if not comparable:
        raise UsageError(f"{without} `fleet runs` lists what each run has.")
    compared = _judge_together(
        [
            _lay_out_comparison(
                a,
                b,
                (_select_rows(a, pairs, rows_of_runs), _select_rows(b, pairs, rows_of_runs)),
                topologies,
                turns,
                threshold or THRESHOLD,
                blocks,
            )
            for a, b in comparable
        ]
    )
    comparisons = []
    for comparison in compared:
        left_out = (
            [] if only.cpus else _name_ladders_left_out(comparison, benchmarks, only.benchmark, descriptions)
        )
        notes = (*comparison.caveats, *left_out, *([without] if hosts else ()))
        comparisons.append(replace(comparison, caveats=notes, descriptions=descriptions))
    return comparisons


def _judge_together(
    laid_out: Sequence[tuple[Comparison, SideRuns, SideRuns]],
) -> list[Comparison]:
    """Fill in the tables of a command's comparisons: all relations at one error rate, all pairs at one."""
    comparisons, threshold = [comparison for comparison, *_ in laid_out], laid_out[0][0].threshold
    questions = 1 + any(comparison.reports_pairs for comparison in comparisons)
    tables, fleets = judge_comparisons([runs for _, runs, _ in laid_out], threshold, questions=questions)
    layouts = [runs for *_, runs in laid_out]
    pairs, _ = judge_comparisons(layouts, threshold, questions=questions, are_pairs=True)
    return [
        replace(comparison, relations=table, pairs=of_pairs, fleet=fleets.get(runs.sides, comparison.fleet))
        for (comparison, runs, _), table, of_pairs in zip(laid_out, tables, pairs, strict=True)
    ]


def _match_hosts(a: ComparisonSide, b: ComparisonSide) -> list[tuple[ComparisonSide, ComparisonSide]]:
    """Return the two sides; or a pair for each host where both have runs of the same several hosts."""
    hosts_of_b = set(b.hosts)
    shared = [host for host in a.hosts if host in hosts_of_b]
    if not shared or (len(a.hosts) == 1 and len(b.hosts) == 1):
        return [(a, b)]
    return [(a.select_host(host), b.select_host(host)) for host in shared]


def _lay_out_comparison(
    a: ComparisonSide,
    b: ComparisonSide,
    pairs: tuple[pd.DataFrame, pd.DataFrame],
    topologies: dict[str, frozenset[object]],
    turns: dict[str, tuple[str, int]],
    threshold: float,
    by: str | None,
) -> tuple[Comparison, SideRuns, SideRuns]:
    """Return the comparison, its rows not judged yet, and the numbers of its relations and of its pairs.

    pairs: the rows of each side.
    """
    unit = "host" if max(len(a.hosts), len(b.hosts)) > 1 else "run"
    same = unit == "run" and len({topologies[run] for run in (*a.runs["run_id"], *b.runs["run_id"])}) == 1
    models = {*a.runs["cpu_model"], *b.runs["cpu_model"]}
    same = same and (a.hosts == b.hosts or (len(models) == 1 and not any(map(pd.isna, models))))
    number = choose_number_column(a, b)
    rows_a, rows_b = (
        _count_by_unit(side, rows, unit, number) for side, rows in zip((a, b), pairs, strict=True)
    )
    warnings = list_caveats(a, b, (rows_a, rows_b), unit=unit, same_topology=same)
    if same:
        every = _count_pairs(rows_a, rows_b)
        rows_a, rows_b = _keep_common_pairs(rows_a, rows_b)
        if less := every - _count_pairs(rows_a):
            warnings.append(f"Pairs or points left out, since not every run has them: {less}.")
    own = [rows[are_pairs(rows["relation"])] for rows in (rows_a, rows_b)]
    levels = compare_burst_levels(own[0] if same else own[0][:0], own[1])
    blocks, one_host = None, a.hosts == b.hosts
    if by is not None:
        blocks, left_out = _find_blocks(a, b, unit, by)
        rows_a, rows_b = (rows[rows["unit"].isin(list(blocks))] for rows in (rows_a, rows_b))
        warnings += left_out
    around = environment.find_differences(a.runs, b.runs)
    none = pd.DataFrame()
    comparison = Comparison(a, b, unit, threshold, none, none, none, levels, around, tuple(warnings))
    session = comparison.sides if one_host and unit == "run" else None
    times = turns if one_host and unit == "run" else None
    relations = lay_out_relations(rows_a, rows_b, number, RunOrder(session, times, blocks))
    tested = [rows[are_pairs(rows["relation"]) & (same and blocks is None)] for rows in (rows_a, rows_b)]
    of_pairs = lay_out_pairs(tested[0], tested[1], number, RunOrder(session, times))
    unlike = list_unlike_variants(rows_a, rows_b, number)
    comparison = replace(comparison, relations=relations.rows, pairs=of_pairs.rows, unlike=unlike)
    return comparison, relations, of_pairs


def list_unlike_variants(a: pd.DataFrame, b: pd.DataFrame, number: str) -> pd.DataFrame:
    """Return the numbers of benchmarks that both sides measured, but with no variant in common.

    a, b, number: see `lay_out_relations`. Columns: `benchmark`, `relation`, `side` (a or b), `variant` and
    `ns`, the mean of the runs or hosts at the most common level.
    """
    kinds = [rows.groupby("benchmark", sort=False, observed=True)["variant"].agg(set) for rows in (a, b)]
    unlike = [
        name for name in kinds[0].index.intersection(kinds[1].index) if not kinds[0][name] & kinds[1][name]
    ]
    rows = pd.concat([a.assign(side="a"), b.assign(side="b")])
    rows = rows[rows["benchmark"].isin(unlike)]
    medians = rows.groupby(["unit", "side", *CLASS], sort=False, observed=True)[number].median()
    means = medians.groupby(["benchmark", "relation", "side", "variant"], sort=False, observed=True)
    return means.agg(_average_usual_runs).rename("ns").reset_index()


def _find_blocks(
    a: ComparisonSide, b: ComparisonSide, unit: str, by: str
) -> tuple[dict[str, str], list[str]]:
    if unit != "run":
        raise UsageError(f"--blocks {by}: the sides are different hosts, whose runs are in no common block.")
    blocks = assign_blocks(a, b, by)
    missing = len(a.runs) + len(b.runs) - len(blocks)
    words = f"{format_count(missing, 'run')} left out: no block with runs of both sides."
    return blocks, [words] if missing else []


def _name_ladders_left_out(
    comparison: Comparison, compared: Collection[str], benchmark: str | None, descriptions: Descriptions
) -> list[str]:
    """Name the requested ladders of which no level is known. compared: the benchmarks that have rows."""
    kinds = {kind for side in (comparison.a, comparison.b) for row in side.runs["benchmarks"] for kind in row}
    if benchmark is not None:
        kinds = {*select_kinds(benchmark, kinds)}
    ladders = {kind.partition("/")[0] for kind in kinds if descriptions[kind].view is View.LADDER}
    names = " and ".join(sorted(ladders.difference(compared)))
    text = f"{names}: not compared: no level of memory is known; --point compares one point."
    return [text] if names else []


def _select_rows(side: ComparisonSide, pairs: pd.DataFrame, rows_of_runs: Mapping[Any, Any]) -> pd.DataFrame:
    """Return the side's rows, in their order. rows_of_runs: the places of each run's rows in `pairs`."""
    places = [rows_of_runs[run_id] for run_id in side.runs["run_id"] if run_id in rows_of_runs]
    return pairs.iloc[np.sort(np.concatenate(places))]


def _count_by_unit(side: ComparisonSide, rows: pd.DataFrame, unit: str, number: str) -> pd.DataFrame:
    """Return the side's rows with their `unit`.

    A host's number of a pair is that of its most common level.
    """
    if unit == "run":
        return rows.assign(unit=rows["run_id"])
    hosts = rows["run_id"].map(side.runs.set_index("run_id")["host_id"])
    merged = (
        rows.assign(unit=hosts)
        .groupby(["unit", *CELL], sort=False)
        .agg(
            **{
                number: (number, _average_usual_runs),
                "spread": ("spread", "median"),
                "flags": ("flags", "first"),
            }
        )
    )
    return merged.reset_index()


def _average_usual_runs(runs: pd.Series) -> float:
    """Return the geometric mean of the runs at the most common level."""
    logs = np.log(runs.to_numpy(dtype=float))[None, :]
    labels = label_levels(logs)[0]
    return float(np.exp(logs[0, labels == np.bincount(labels).argmax()].mean()))


def _keep_common_pairs(a: pd.DataFrame, b: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Keep the pairs that every run of both sides has, so that the same pairs are compared."""
    both = pd.concat([a, b])
    units = both.groupby(CELL, observed=True)["unit"].transform("nunique")
    is_common = (units == both["unit"].nunique()).to_numpy()
    return (a[is_common[: len(a)]], b[is_common[len(a) :]]) if is_common.any() else (a, b)


def _count_pairs(*sides: pd.DataFrame) -> int:
    return len(pd.concat(sides)[CELL].drop_duplicates())


def _read_topologies(cpus: pd.DataFrame, run_ids: Sequence[str]) -> dict[str, frozenset[object]]:
    rows = cpus[["cpu", *GROUPS, "kind"]].astype(object).where(cpus.notna(), None)
    topologies: dict[str, list[object]] = {run_id: [] for run_id in run_ids}
    for run_id, row in zip(cpus["run_id"], rows.itertuples(index=False, name=None), strict=True):
        topologies[run_id].append(row)
    return {run_id: frozenset(row) for run_id, row in topologies.items()}


def _number_turns(runs: pd.DataFrame) -> dict[str, tuple[str, int]]:
    """Return each run's session and its place among the runs of its host in it."""
    ordered = runs.sort_values(["started_utc", "run_id"], kind="stable")
    places = ordered.groupby(["session_id", "host_id"]).cumcount()
    return dict(zip(ordered["run_id"], zip(ordered["session_id"], places, strict=True), strict=True))


def compare_burst_levels(a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    """Return a row per pair with bursts at another level in two runs or more, the largest shares first.

    a, b: rows of `pairs` with their `unit`, the run. Of each side: `ns` (median of its numbers), `other_ns`
    (median of the other levels, NaN where there is none) and `share` (of its bursts, mean over its runs).
    `moved`: by how much the share is larger on side b, with its 95 % interval `moved_low`, `moved_high`, NaN
    for fewer than three runs. At most 100 pairs. Verdicts compare numbers, which are of the main level: they
    do not see this.
    """
    names = [*(f"{side}_{name}" for name in ("ns", "other_ns", "share") for side in _SIDES)]
    columns = [*CELL, *names, "moved", "moved_low", "moved_high"]
    if a.empty or b.empty or "other_ns" not in a:
        return pd.DataFrame(columns=columns)
    both = pd.concat([a.assign(side="a"), b.assign(side="b")])
    if both["other_ns"].count() < _LEAST_SWITCHING:
        return pd.DataFrame(columns=columns)
    both = both[both.groupby(CELL, observed=True)["other_ns"].transform("count") >= _LEAST_SWITCHING]
    cells = [
        (-part["other_share"].sum(), key, [part[part["side"] == side] for side in _SIDES])
        for key, part in both.groupby(CELL, observed=True)
        if part["side"].nunique() == len(_SIDES)
    ]
    rows = []
    for _, key, parts in sorted(cells, key=lambda cell: cell[:2])[:_MOST_PAIRS]:
        numbers = [float(part[name].median()) for name in ("median_ns", "other_ns") for part in parts]
        shares = [part["other_share"].to_numpy(dtype=float) for part in parts]
        rows.append(
            (*key, *numbers, *(float(part.mean()) for part in shares), *_estimate_difference(*shares))
        )
    return pd.DataFrame(rows, columns=columns)


def _estimate_difference(a: Floats, b: Floats) -> tuple[float, float, float]:
    """Return the difference of two sides' means and its 95 % interval, which needs three runs of each."""
    if min(len(a), len(b)) < LEAST_RUNS:
        return float(b.mean() - a.mean()), float("nan"), float("nan")
    is_b = np.repeat([False, True], [len(a), len(b)])
    fit = fit_within_blocks(np.concatenate([a, b])[None, :], is_b, np.zeros(len(is_b), dtype=np.int64))
    low, high, _ = apply_student(fit.change, np.sqrt(fit.variance * fit.scale), fit.freedom)
    return float(fit.change[0]), float(low[0]), float(high[0])
