"""Compares sides of runs, per relation and pair; a run is the unit of replication."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.compare.caveats import caveats, number_of_all
from fleet.analysis.compare.judge import apply_student, estimate_scatter, fit_within_blocks, label_levels
from fleet.analysis.compare.side_runs import CELL, SideRuns, lay_out_pairs, lay_out_relations
from fleet.analysis.compare.sides import NOTHING, ComparisonSide, blocks_of, sides
from fleet.analysis.compare.verdicts import THRESHOLD, Verdict, find_changed_pairs, judge_comparisons
from fleet.analysis.reduce import environment
from fleet.analysis.reduce.cells import ALL, Only, are_pairs, cells
from fleet.analysis.reduce.interval import LEAST_RUNS
from fleet.analysis.reduce.load import (
    drop_contradicting,
    load_cpus,
    merge_descriptions,
    published,
)
from fleet.analysis.reduce.pairs import load_pairs, widened
from fleet.analysis.reduce.split import geometric_mean, run_levels
from fleet.analysis.reduce.topology import GROUPS
from fleet.analysis.tables import Bools, Floats, Ints
from fleet.errors import UsageError
from fleet.hostnames import folded
from fleet.model import SHIPPED, Descriptions, View
from fleet.store.runs import Root, listing_of
from fleet.text import counted

_LEAST_SWITCHING = 2  # runs; one in a hundred of a pair at one level is split by chance
_MOST_PAIRS = 100
_MOVED = 1.25  # a level of A and one of B that are nearer than this may be the same
_SIDES = ("a", "b")
_OF_SIDE = ("ns", "share", "dwell", "spread")
_LEVEL_COLUMNS = (
    *CELL,
    *(f"{side}_{name}" for name in _OF_SIDE for side in _SIDES),
    *("ratio", "low", "high", "moved", "moved_low", "moved_high"),
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Side b against its baseline a.

    unit: what was counted, "run" or, where each side is several other hosts, "host". relations, fleet: tables
    of `judge_comparisons`; fleet: the changes over all hosts, where three or more are compared one by one.
    pairs: of `find_changed_pairs`, none unless the topologies are the same. levels: of
    `compare_burst_levels`. environment: what else differs. caveats: its warnings.
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

    @property
    def judged(self) -> bool:
        """Whether there are enough runs for a verdict."""
        return bool(self.relations["p"].notna().any())

    @property
    def reports_pairs(self) -> bool:
        """Whether pairs are tested beside relations: a relation of one pair is that pair."""
        return bool(len(self.pairs) and self.relations["pairs"].max() > 1)

    @property
    def sides(self) -> tuple[str, str]:
        """The names of the sides, without the host of a comparison host by host."""
        a, b = (side.name.removeprefix(f"{side.hosts[0]}@") for side in (self.a, self.b))
        return a, b

    @property
    def changed(self) -> bool:
        """Whether a relation, of this host or of all, is known to have changed."""
        return any(
            len(rows) and (rows["verdict"] == Verdict.CHANGED).any() for rows in (self.relations, self.fleet)
        )

    @property
    def at_another_level(self) -> bool:
        """Whether the sides of a relation are at different levels, which may be chance."""
        return bool(len(self.relations) and (self.relations["verdict"] == Verdict.AT_ANOTHER_LEVEL).any())


@dataclass(frozen=True, slots=True)
class Tables:
    """Rows of the tables `runs`, `cpus` and `pairs`, these widened. descriptions: of their benchmarks."""

    runs: pd.DataFrame
    cpus: pd.DataFrame
    pairs: pd.DataFrame
    descriptions: Descriptions


def read_tables(root: Root, runs: pd.DataFrame) -> Tables:
    """Read what belongs to these rows of `runs`."""
    listing, ids = listing_of(root), runs["run_id"].tolist()
    summaries = published(listing, run_id=ids)
    descriptions = merge_descriptions(summaries)
    pairs = drop_contradicting(widened(load_pairs(listing, run_id=ids)), summaries, descriptions)
    return Tables(runs, load_cpus(listing, run_id=ids), pairs, descriptions)


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
    root = listing_of(root)
    first, *others = sides(root, texts, tables.runs if tables else None)
    runs = pd.concat([first.runs, *(side.runs for side in others)])
    ids = runs["run_id"].tolist()
    if tables is None:
        tables = read_tables(root, runs)
    descriptions = tables.descriptions
    cpus, rows = (table[table["run_id"].isin(ids)] for table in (tables.cpus, tables.pairs))
    pairs = cells(only.of(rows, cpus), cpus, point, descriptions)
    if pairs.empty:
        raise UsageError(f"{NOTHING}; --point compares one point of a ladder, and `fleet show` lists them.")
    topologies, turns = _topologies(cpus, ids), _turns(runs)
    matched = [pair for side in others for pair in _matched(first, side)]
    measured = frozenset(pairs["run_id"])
    whole, hosts = [], dict[str, None]()
    for a, b in matched:
        if any(measured.isdisjoint(side.runs["run_id"]) for side in (a, b)):
            hosts |= dict.fromkeys((*a.hosts, *b.hosts))
        else:
            whole.append((a, b))
    without = f"{folded(hosts)}: not compared: no latencies{only} on both sides."
    if not whole:
        raise UsageError(f"{without} `fleet runs` lists what each run has.")
    compared = _judge_together(
        [_compared(a, b, pairs, topologies, turns, threshold or THRESHOLD, blocks) for a, b in whole]
    )
    asked = only.benchmark and only.benchmark.partition("/")[0]
    found = []
    for one in compared:
        left_out = [] if only.cpus else _left_out(one, pairs, asked, descriptions)
        notes = (*one.caveats, *left_out, *([without] if hosts else ()))
        found.append(replace(one, caveats=notes, descriptions=descriptions))
    return found


def _judge_together(
    laid_out: Sequence[tuple[Comparison, SideRuns, SideRuns]],
) -> list[Comparison]:
    """Fill in the tables of a command's comparisons: all relations at one error rate, all pairs at one."""
    comparisons, threshold = [one for one, *_ in laid_out], laid_out[0][0].threshold
    questions = 1 + any(one.reports_pairs for one in comparisons)
    tables, fleets = judge_comparisons([runs for _, runs, _ in laid_out], threshold, questions=questions)
    pairs = find_changed_pairs([runs for *_, runs in laid_out], threshold, questions=questions)
    return [
        replace(one, relations=table, pairs=of_pairs, fleet=fleets.get(runs.sides, one.fleet))
        for (one, runs, _), table, of_pairs in zip(laid_out, tables, pairs, strict=True)
    ]


def _matched(a: ComparisonSide, b: ComparisonSide) -> list[tuple[ComparisonSide, ComparisonSide]]:
    """The sides as they are; or, where both have runs of the same several hosts, host by host."""
    shared = [host for host in a.hosts if host in b.hosts]
    if not shared or (len(a.hosts) == 1 and len(b.hosts) == 1):
        return [(a, b)]
    return [(a.of_host(host), b.of_host(host)) for host in shared]


def _compared(
    a: ComparisonSide,
    b: ComparisonSide,
    pairs: pd.DataFrame,
    topologies: dict[str, frozenset[object]],
    turns: dict[str, tuple[str, int]],
    threshold: float,
    by: str | None,
) -> tuple[Comparison, SideRuns, SideRuns]:
    """The comparison with rows that are not judged yet, and the numbers of its relations and pairs."""
    unit = "host" if max(len(a.hosts), len(b.hosts)) > 1 else "run"
    same = unit == "run" and len({topologies[run] for run in (*a.runs["run_id"], *b.runs["run_id"])}) == 1
    models = {*a.runs["cpu_model"], *b.runs["cpu_model"]}
    same = same and (a.hosts == b.hosts or (len(models) == 1 and not any(map(pd.isna, models))))
    number = number_of_all(a, b)
    rows_a, rows_b = (_of_side(side, pairs, unit, number) for side in (a, b))
    warnings = caveats(a, b, (rows_a, rows_b), unit=unit, same_topology=same)
    if same:
        every = len(_cells(rows_a) | _cells(rows_b))
        rows_a, rows_b = _in_every_unit(rows_a, rows_b)
        if less := every - len(_cells(rows_a)):
            warnings.append(f"Pairs or points left out, since not every run has them: {less}.")
    own = [rows[are_pairs(rows["relation"])] for rows in (rows_a, rows_b)]
    levels = compare_burst_levels(own[0] if same else own[0][:0], own[1])
    blocks, one_host = None, a.hosts == b.hosts
    if by is not None:
        blocks, left_out = _blocks(a, b, unit, by)
        rows_a, rows_b = (rows[rows["unit"].isin(list(blocks))] for rows in (rows_a, rows_b))
        warnings += left_out
    around = environment.differences(a.runs, b.runs)
    none = pd.DataFrame()
    comparison = Comparison(a, b, unit, threshold, none, none, none, levels, around, tuple(warnings))
    session = comparison.sides if one_host and unit == "run" else None
    times = turns if one_host and unit == "run" else None
    relations = lay_out_relations(rows_a, rows_b, number, sides=session, turns=times, blocks=blocks)
    tested = [rows[are_pairs(rows["relation"]) & (same and blocks is None)] for rows in (rows_a, rows_b)]
    of_pairs = lay_out_pairs(tested[0], tested[1], number, sides=session, turns=times)
    return replace(comparison, relations=relations.rows, pairs=of_pairs.rows), relations, of_pairs


def _blocks(a: ComparisonSide, b: ComparisonSide, unit: str, by: str) -> tuple[dict[str, str], list[str]]:
    if unit != "run":
        raise UsageError(f"--blocks {by}: the sides are different hosts, whose runs are in no common block.")
    blocks = blocks_of(a, b, by)
    missing = len(a.runs) + len(b.runs) - len(blocks)
    words = f"{counted(missing, 'run')} left out: no block with runs of both sides."
    return blocks, [words] if missing else []


def _left_out(
    one: Comparison, compared: pd.DataFrame, asked: str | None, descriptions: Descriptions
) -> list[str]:
    """Ladders of which no level is known, of those asked for."""
    kinds = {kind for side in (one.a, one.b) for row in side.runs["benchmarks"] for kind in row}
    ladders = {kind.partition("/")[0] for kind in kinds if descriptions[kind].view is View.LADDER}
    names = " and ".join(sorted((ladders & {asked or name for name in ladders}) - set(compared["benchmark"])))
    text = f"{names}: not compared: no level of memory is known; --point compares one point."
    return [text] if names else []


def _of_side(side: ComparisonSide, pairs: pd.DataFrame, unit: str, number: str) -> pd.DataFrame:
    """The side's rows with their `unit`; a host's number of a pair is that of the level most runs are at."""
    rows = pairs[pairs["run_id"].isin(side.runs["run_id"])]
    if unit == "run":
        return rows.assign(unit=rows["run_id"])
    hosts = rows["run_id"].map(side.runs.set_index("run_id")["host_id"])
    merged = (
        rows.assign(unit=hosts)
        .groupby(["unit", *CELL], sort=False)
        .agg(**{number: (number, _usual), "spread": ("spread", "median"), "flags": ("flags", "first")})
    )
    return merged.reset_index()


def _usual(runs: pd.Series) -> float:
    """The geometric mean of the runs at the level of most."""
    logs = np.log(runs.to_numpy(dtype=float))[None, :]
    labels = label_levels(logs, estimate_scatter([(logs, [np.ones(logs.shape[1], dtype=bool)])]))[0]
    return float(np.exp(logs[0, labels == np.bincount(labels).argmax()].mean()))


def _in_every_unit(a: pd.DataFrame, b: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of those pairs that every run of both sides has, so that the same pairs are compared."""
    rows = pd.concat([a, b])
    units = rows["unit"].nunique()
    counts = rows.groupby(CELL)["unit"].nunique()
    shared = counts.index[counts == units]
    if not len(shared):
        return a, b
    kept = [side[pd.MultiIndex.from_frame(side[CELL]).isin(shared)] for side in (a, b)]
    return kept[0], kept[1]


def _cells(rows: pd.DataFrame) -> set[tuple[object, ...]]:
    return set(rows[CELL].drop_duplicates().itertuples(index=False, name=None))


def _topologies(cpus: pd.DataFrame, run_ids: Sequence[str]) -> dict[str, frozenset[object]]:
    rows = cpus[["cpu", *GROUPS, "kind"]].astype(object).where(cpus.notna(), None)
    found: dict[str, list[object]] = {run_id: [] for run_id in run_ids}
    for run_id, row in zip(cpus["run_id"], rows.itertuples(index=False, name=None), strict=True):
        found[run_id].append(row)
    return {run_id: frozenset(row) for run_id, row in found.items()}


def _turns(runs: pd.DataFrame) -> dict[str, tuple[str, int]]:
    """The session of each run, and its place among the runs of its host in it."""
    ordered = runs.sort_values(["started_utc", "run_id"], kind="stable")
    places = ordered.groupby(["session_id", "host_id"]).cumcount()
    return dict(zip(ordered["run_id"], zip(ordered["session_id"], places, strict=True), strict=True))


def compare_burst_levels(a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    """A row per level of each pair with several within two runs or more, those that switch most first.

    a, b: rows of `pairs` with their `unit`, the run. Of each side: `ns` (geometric mean over runs with the
    level), `share` of the bursts (mean over all runs), `dwell` (bursts in a row) and `spread` (the typical
    half interval within a run). `ratio`: the change of the level with its 95 % interval `low`, `high`;
    `moved`: that of the share, with `moved_low`, `moved_high`; NaN for fewer than three runs. At most 100
    pairs. A pair's number is that of its most frequent level, so neither a change of its other levels nor
    one of their shares is seen in it; levels of all runs of both sides are matched by their latencies
    (`run_levels`), and the intervals are shown beside the verdicts, not judged with them.
    """
    if a.empty or b.empty or "levels_ns" not in a:
        return pd.DataFrame(columns=list(_LEVEL_COLUMNS))
    known = pd.concat([side[side["levels_ns"].notna()] for side in (a, b)])
    switching = known.groupby(CELL, sort=False)["other_share"].agg(["size", "sum"])
    switching = switching[switching["size"] >= _LEAST_SWITCHING].sort_values(
        "sum", ascending=False, kind="stable"
    )
    keys = switching.index[:_MOST_PAIRS]
    sides = zip(_SIDES, (a, b), strict=True)
    both = pd.concat(
        [rows[pd.MultiIndex.from_frame(rows[CELL]).isin(keys)].assign(side=side) for side, rows in sides]
    )
    parts = dict(iter(both.groupby(CELL, sort=False)))
    rows = [row for key in keys for row in _of_pair(key, parts[key])]
    return pd.DataFrame(rows, columns=list(_LEVEL_COLUMNS))


def _of_pair(key: tuple[Any, ...], rows: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    found = pd.DataFrame([level for row in rows.to_dict("records") for level in _levels(row)])
    if found["side"].nunique() < len(_SIDES):
        return
    found["level"] = _common_levels(found["ns"].to_numpy(dtype=float), (found["side"] == "b").to_numpy())
    runs = [int((rows["side"] == side).sum()) for side in _SIDES]
    for _, level in found.groupby("level"):
        of_runs = level.groupby(["side", "unit"], sort=False).agg(
            ns=("ns", "mean"), share=("share", "sum"), dwell=("dwell", "mean"), spread=("spread", "mean")
        )
        sides = [of_runs[of_runs.index.get_level_values("side") == side] for side in _SIDES]
        shares = [
            np.pad(side["share"].to_numpy(dtype=float), (0, count - len(side)))
            for side, count in zip(sides, runs, strict=True)
        ]
        ns = [side["ns"].to_numpy(dtype=float) for side in sides]
        change = np.exp(_moved(*map(np.log, ns))) if all(map(len, ns)) else [np.nan] * 3
        numbers = [
            *(geometric_mean(each) if len(each) else np.nan for each in ns),
            *(float(each.mean()) for each in shares),
            *(float(side[name].mean()) for name in ("dwell", "spread") for side in sides),
        ]
        yield (*key, *numbers, *change, *_moved(*shares))


def _common_levels(ns: Floats, of_b: Bools) -> Ints:
    """The level of each value; near neighbours of which one is on A only, the other on B only, are one."""
    labels: Ints = run_levels(ns[None, :])[0]
    logs, level = np.log(ns), 0
    while level < labels.max():
        lower, upper = labels == level, labels == level + 1
        sides = {*of_b[lower]}, {*of_b[upper]}
        one_sided = sides[0] != sides[1] and len(sides[0]) == len(sides[1]) == 1
        if one_sided and logs[upper].mean() - logs[lower].mean() < np.log(_MOVED):
            labels[labels > level] -= 1
        level += 1
    return labels


def _levels(row: dict[Any, Any]) -> Iterator[dict[str, Any]]:
    """The levels of a pair in one run; of a pair with one level, that."""
    about = {"side": row["side"], "unit": row["unit"]}
    if not np.ndim(row["levels_ns"]):
        yield {**about, "ns": row["median_ns"], "share": 1.0, "dwell": row["bursts"], "spread": row["spread"]}
        return
    columns = (row[f"levels_{name}"] for name in _OF_SIDE)
    for values in zip(*columns, strict=True):
        yield {**about, **dict(zip(_OF_SIDE, values, strict=True))}


def _moved(a: Floats, b: Floats) -> tuple[float, float, float]:
    """The difference of the means of two sides with its 95 % interval, which needs three runs of each."""
    if min(len(a), len(b)) < LEAST_RUNS:
        return float(b.mean() - a.mean()), float("nan"), float("nan")
    is_b = np.repeat([False, True], [len(a), len(b)])
    fit = fit_within_blocks(np.concatenate([a, b])[None, :], is_b, np.zeros(len(is_b), dtype=np.int64))
    low, high, _ = apply_student(fit.change, np.sqrt(fit.variance * fit.scale), fit.freedom)
    return float(fit.change[0]), float(low[0]), float(high[0])
