"""What comparisons, histories and overviews are about: rows per run and cell, in the columns of `pairs`.

Pairs of CPUs keep their relation. A plateau's relation is its level and setting, as "L2 read" or "mem copy
x64"; that of any other point is followed by its name, as "package written.chase.128K", of loads under load
in short, as "package read full". What others get of the memory at full load is a number of its own, as of a
benchmark `load`.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd

from fleet.analysis.base.text import records
from fleet.analysis.reduce import ladders
from fleet.analysis.reduce.load import drop_contradicting, load_cpus, of_benchmark, without_points
from fleet.analysis.reduce.pairs import OF_HISTORY, by_run, load_pairs, widened
from fleet.analysis.reduce.topology import kinds_of
from fleet.errors import UsageError
from fleet.model import (
    BENCHMARKS,
    LOAD,
    SHIPPED,
    Descriptions,
    Parameter,
    RunState,
    View,
    is_relation,
    relation_sort_key,
)
from fleet.plan.cpulist import parse_cpu_numbers
from fleet.store import RunSummary
from fleet.store.runs import Root
from fleet.text import nearest, one_line

_SHOWN = 12
_KIND = ["run_id", "benchmark", "variant"]
_FASTEST = {"", "P", "big"}
OVERVIEW = ("benchmark", "variant", "about", "relation", "place")
_OF_PAIRS = (View.MATRIX, View.CPUS)


def build_comparison_rows(
    pairs: pd.DataFrame, cpus: pd.DataFrame, point: str | None = None, descriptions: Descriptions = SHIPPED
) -> pd.DataFrame:
    """The rows to compare: of benchmarks of pairs their pairs, of ladders their plateaus.

    pairs: widened. cpus: of the same runs. point: only the rows of this. Raises UsageError where none has it.
    """
    views = pairs["benchmark"].map(lambda name: descriptions[str(name)].view)
    if point is not None:
        return _at_point(pairs, point, descriptions)
    placed = ladders.by_node(pairs, descriptions)
    others = pairs[~views.isin([View.MATRIX, View.CPUS, View.LADDER]) & ~placed]
    loads = others["benchmark"].map(lambda name: descriptions[str(name)].other_unit == "byte").astype(bool)
    under_load, others = others[loads], others[~loads]
    # Of a benchmark that nobody described there may be no point.
    points = others["point"].astype(object).fillna("")
    at_point = (others["relation"].astype(object) + " " + points).map(str.rstrip)
    parts = [without_points(pairs, descriptions), others.assign(relation=at_point)]
    if len(under_load):
        under_load = under_load.assign(relation=_at_load(under_load))
        parts += [under_load, _of_load(under_load)]
    if placed.any():
        of_node = ladders.node_cells(pairs, cpus, descriptions)
        ends = [f"n{a}-n{b}" for a, b in zip(of_node["cpu_node"], of_node["memory_node"], strict=True)]
        of_node = of_node.assign(relation=ends + of_node["setting"].map(" {}".format))
        parts += [of_node, _of_load(of_node)]
    if (views == View.LADDER).any():
        levels = ladders.find_plateaus(pairs, cpus, descriptions)
        of_level = levels["level"] + " " + levels["setting"] + _threads_text(levels) + _kinds_text(levels)
        parts.append(levels.assign(relation=of_level))
    filled = [part for part in parts if len(part)]
    return pd.concat(filled, ignore_index=True) if filled else pairs[:0]


def _at_load(rows: pd.DataFrame) -> list[str]:
    """What is done meanwhile, by relation. What differs between machines is named only where it must be.

    These are the size, where a run has several, and the threads: where it has several, or each has a rate.
    """
    several = {
        key[0]: [part[name].nunique() > 1 for name in ("bytes", "threads")]
        for key, part in rows.groupby(_KIND, sort=False, observed=True)
    }
    names = []
    for row in records(rows):
        size, (sizes, threads) = int(row["bytes"] or 0), several[row["run_id"]]
        name = f"{row['relation']} {ladders.setting_of(str(row['point']), size)}"
        name += f" {ladders.size_text(size)}" * sizes
        names.append(name + f" x{row['threads'] or 0:.0f}" if threads or row["load_mbps"] else name)
    return names


def _of_load(rows: pd.DataFrame) -> pd.DataFrame:
    """What others get, of rows at full load."""
    if "other_rate" not in rows:
        return rows[:0]
    full = rows[rows["other_rate"].notna() & rows["load_mbps"].isna()]
    ns = 1 / full["other_rate"]
    return full.assign(benchmark=LOAD.name, median_ns=ns, mean_ns=ns, min_ns=ns, spread=math.nan)


def are_pairs(relations: "pd.Series[Any]") -> "pd.Series[Any]":
    """Which cells are pairs of CPUs, by their relation."""
    return relations.map({name: is_relation(name) for name in relations.unique()}).astype(bool)


class Only(NamedTuple):
    """What of runs is shown. benchmark: as `cas` or `cas/llsc`. cpus: a list as 0-7, or a kind of core."""

    benchmark: str | None = None
    cpus: str | None = None

    def __str__(self) -> str:
        return "".join(f" of {word}" for word in (self.benchmark, self.cpus and f"CPUs {self.cpus}") if word)

    def of(self, pairs: pd.DataFrame, cpus: pd.DataFrame) -> pd.DataFrame:
        """Those of these rows; cpus: of the table `cpus`. Raises UsageError where none is left."""
        pairs = of_benchmark(pairs, self.benchmark)
        return pairs if self.cpus is None else _of_cpus(pairs, cpus, self.cpus)


ALL = Only()


def _of_cpus(pairs: pd.DataFrame, cpus: pd.DataFrame, text: str) -> pd.DataFrame:
    kinds = {run_id: kinds_of(rows) for run_id, rows in cpus.groupby("run_id", sort=False)}
    there = sorted({kind for of_run in kinds.values() for kind in of_run.values()})
    if text[:1].isdigit():
        try:
            numbers = {*parse_cpu_numbers(text)}
        except ValueError as err:
            raise UsageError(f"--cpus {text}: {err}") from err
        wanted = dict.fromkeys(kinds, numbers)
    else:
        wanted = {run: {cpu for cpu, kind in of_run.items() if kind == text} for run, of_run in kinds.items()}
    ends = zip(*(pairs[name] for name in ("run_id", "ping_cpu", "pong_cpu")), strict=True)
    found = pairs[[{ping, pong} <= wanted.get(run, set()) for run, ping, pong in ends]]
    if found.empty:
        there_text = f"kinds of cores there: {', '.join(there) or 'one'}"
        raise UsageError(f"--cpus {text}: nothing was measured on such CPUs alone; {there_text}.")
    return found


def overview(pairs: pd.DataFrame, cpus: pd.DataFrame, descriptions: Descriptions = SHIPPED) -> pd.DataFrame:
    """The cells that stand for a benchmark where many are side by side, `relation` being the column.

    The description of a benchmark chooses them: of pairs each relation; of a ladder the levels, in its first
    setting on the fewest CPUs, of the fastest kind; of products the peaks there, a column a variant; of other
    points the first of its tables, a column each row, on the nearest CPUs; of loads under load the greatest.
    Added: `about`, that choice in words; `place`, by which columns are in order. cpus: of the same runs.
    """
    single = without_points(pairs, descriptions)
    places = {name: f"{relation_sort_key(name)}" for name in single["relation"].unique()}
    parts = [single.assign(about="", place=single["relation"].map(places).astype(str))]
    views = {name: descriptions[str(name)].view for name in pairs["benchmark"].unique()}
    if {*views.values()} - {*_OF_PAIRS}:
        placed = ladders.node_cells(pairs, cpus, descriptions)
        parts += [key_nodes(one, descriptions) for _, one in placed.groupby(_KIND, sort=False, observed=True)]
        pairs = pairs[~ladders.by_node(pairs, descriptions)]
        parts.append(_key_levels(ladders.find_plateaus(pairs, cpus, descriptions), descriptions))
        for (name, *_), rows in pairs.groupby(_KIND[1:], sort=False, observed=True):
            if views[name] is View.PRODUCTS:
                parts += [
                    _peaks(one, descriptions) for _, one in rows.groupby("run_id", sort=False, observed=True)
                ]
            elif views[name] in (View.TABLE, View.BLOCKS):
                chosen = [
                    _key_points(one, descriptions)
                    for _, one in rows.groupby("run_id", sort=False, observed=True)
                ]
                parts += [*chosen, *map(_of_load, chosen)]
    return pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)


def key_nodes(rows: pd.DataFrame, descriptions: Descriptions = SHIPPED) -> pd.DataFrame:
    """Of one run, benchmark and variant its first setting, memory of the CPUs' own node and of others."""
    setting = ladders.settings_in_order(rows, descriptions)[0]
    rows = rows[rows["setting"] == setting]
    where = ladders.is_local(rows).map({True: "local", False: "remote"})
    return rows.assign(about=f"{setting} by node", place=where, relation=where)


def _key_levels(rows: pd.DataFrame, descriptions: Descriptions) -> pd.DataFrame:
    settings = [
        one for _, part in rows.groupby("benchmark") for one in ladders.settings_in_order(part, descriptions)
    ]
    near = sorted(rows["relation"].unique(), key=relation_sort_key)
    for name, order in (("threads", sorted({*rows["threads"]})), ("setting", settings), ("relation", near)):
        rows = rows.assign(at=rows[name].map({one: at for at, one in enumerate(order)}))
        rows = rows[rows["at"] == rows.groupby(_KIND)["at"].transform("min")]
    return rows.assign(
        about=rows["setting"] + _threads_text(rows),
        place=rows["least_bytes"].map("{:020}".format),
        relation=rows["level"],
    )


def _peaks(rows: pd.DataFrame, descriptions: Descriptions) -> pd.DataFrame:
    known = descriptions[str(rows["benchmark"].iloc[0])]
    rows = _first(_first(rows, known.parameters_with_role("row")[:1]), known.parameters_with_role("table"))
    rows = rows[rows["relation"] == min(rows["relation"].unique(), key=relation_sort_key)]
    names = sorted(rows["variant"].unique())
    return rows.assign(
        about=rows["operation"] + _threads_text(rows),
        place=rows["variant"].map({name: f"{at:03}" for at, name in enumerate(names)}),
        relation=rows["variant"],
        variant="",
    )


def _key_points(rows: pd.DataFrame, descriptions: Descriptions) -> pd.DataFrame:
    """Of one run, benchmark and variant."""
    known = descriptions[str(rows["benchmark"].iloc[0])]
    tables, row, columns = (
        [one for one in known.parameters_with_role(role) if one.name in rows and rows[one.name].notna().any()]
        for role in ("table", "row", "column")
    )
    if not row:
        named = rows["point"].where(rows["point"].notna(), rows["relation"])
        return rows.assign(about="", place=named, relation=named)
    near = min(rows["relation"].unique(), key=relation_sort_key)
    rows = _first(rows[rows["relation"] == near], tables)
    words = [str(rows[one.name].iloc[0]) for one in tables if one.type == "word"]
    if columns and columns[0].none:  # the greatest load of the run, the same in each row, beside none at all
        loads = rows[columns[0].name].fillna(math.inf)
        rows = rows[(loads == loads.max()) | (loads == 0)]
        words.append(columns[0].none if math.isinf(loads.max()) else f"{loads.max() / 1000:g} GB/s each")
    else:
        rows = _first(rows, columns, last=known.view is View.BLOCKS)
        words += [str(rows[one.name].iloc[0]) for one in columns if one.type == "word"]
    values = {value: row[0].sort_key(value) for value in rows[row[0].name].unique()}
    labels = {
        value: ladders.size_text(int(value)) if row[0].type == "bytes" else str(value) for value in values
    }
    return rows.assign(
        about=", ".join(filter(None, (" ".join(words), near))),
        place=rows[row[0].name].map(lambda value: f"{int(values[value]):020}"),
        relation=rows[row[0].name].map(labels),
    )


def _first(rows: pd.DataFrame, parameters: Sequence[Parameter], *, last: bool = False) -> pd.DataFrame:
    """The rows at the first value of each parameter, or the last."""
    for one in parameters:
        values = list(rows[one.name].dropna().unique()) if one.name in rows else []
        if values:
            rows = rows[rows[one.name] == (max if last else min)(values, key=one.sort_key)]
    return rows


def _threads_text(rows: pd.DataFrame) -> "pd.Series[Any]":
    return rows["threads"].map(lambda threads: f" x{threads:.0f}" if threads > 1 else "")


def _kinds_text(rows: pd.DataFrame) -> "pd.Series[Any]":
    """The kinds of cores as the end of names; those of the fastest kind are named as on other machines."""
    kinds = rows["relation"].map(lambda name: str(name).partition(" ")[2])
    return kinds.map(lambda text: f" {text}" if {*text.split("-")} - _FASTEST else "")


def overview_history(
    root: Root, runs: Sequence[RunSummary], only: Only = ALL, descriptions: Descriptions = SHIPPED
) -> pd.DataFrame:
    """A row per run and cell of the `overview`, in the columns of `reduce.pairs.history`, as `in_order`."""
    pairs, cpus = _loaded(root, runs, descriptions, cpus=only.cpus is not None)
    return in_order(by_run(runs, overview(only.of(pairs, cpus), cpus, descriptions), OVERVIEW))


def _loaded(
    root: Root,
    runs: Sequence[RunSummary],
    descriptions: Descriptions,
    *,
    cpus: bool = False,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of `pairs`, where there are no points only the columns of a history, and those of `cpus`."""
    ids = [run.run_id for run in runs]
    plain = all(descriptions[kind].view in _OF_PAIRS for run in runs for kind in run.benchmarks)
    pairs = load_pairs(root, run_id=ids, columns=OF_HISTORY if plain else None)
    pairs = drop_contradicting(pairs, runs, descriptions)
    return widened(pairs), load_cpus(root, run_id=ids if cpus or not plain else ())


def in_order(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of an overview: benchmarks in the order of their descriptions, columns by place."""
    known = {name: at for at, name in enumerate(BENCHMARKS)}
    at = rows["benchmark"].map(known).fillna(len(known))
    return rows.assign(at=at).sort_values(["at", *OVERVIEW[:3], "place"], kind="stable").drop(columns="at")


def history_of(
    root: Root,
    runs: Sequence[RunSummary],
    what: str,
    benchmark: str | None = None,
    descriptions: Descriptions = SHIPPED,
    *,
    point: bool = False,
) -> pd.DataFrame:
    """A row per run and cell, oldest first, in the columns of `reduce.pairs.history`.

    what: a relation such as "package" or "package P-E", a level such as "L2", a level and its setting such as
    "L2 read", or if `point` a point's name. Raises UsageError where no run has it.
    """
    stored = [run for run in runs if run.state is not RunState.UNFINISHED]
    if not stored:
        raise UsageError(
            f"{root}: no such run is stored here. `fleet runs` lists all; --results names another root."
        )
    pairs, cpus = _loaded(root, stored, descriptions)
    rows = build_comparison_rows(of_benchmark(pairs, benchmark), cpus, what if point else None, descriptions)
    if not point:
        known = [name for name in rows["relation"].unique() if is_relation(name) or is_level(name)]
        wanted = {name for name in known if what in (name, name.partition(" ")[0])}
        if not wanted:
            there = list(dict.fromkeys([name.partition(" ")[0] for name in known] + known))
            listed = ", ".join(there[:_SHOWN]) or "none"
            why = f"no such relation{Only(benchmark)}{nearest(what, there)}"
            raise UsageError(f"--relation {what}: {why} There are {listed}.")
        rows = rows[rows["relation"].isin(wanted)]
    return by_run(stored, rows)


def is_level(text: str) -> bool:
    """Whether a text begins with the name of a level of memory, such as "L2", "LLC" or "mem read"."""
    name = text.partition(" ")[0]
    return name in ("LLC", ladders.MEMORY) or (name[:1] == "L" and name[1:].isdigit())


def _at_point(pairs: pd.DataFrame, point: str, descriptions: Descriptions) -> pd.DataFrame:
    rows = pairs[pairs["point"] == point]
    if rows.empty:
        known = sorted(pairs["point"].dropna().unique())
        listed = ", ".join(known[:_SHOWN]) + (", …" if len(known) > _SHOWN else "")
        why = f"these runs have no such point{nearest(point, known)} There are {listed or 'none'}."
        raise UsageError(one_line(f"--point {point}: {why}"))
    of_ladders = rows["benchmark"].map(lambda name: descriptions[str(name)].view is View.LADDER).astype(bool)
    return rows.assign(relation=rows["relation"].where(~of_ladders, point))
