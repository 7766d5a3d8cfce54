"""Make the rows of comparisons, histories and overviews: one per run and cell, in the
columns of `pairs`.

Pairs of CPUs keep their `relation`. A plateau's relation is its level and setting: "L2
read", "mem copy x64". Other rows append their point to the relation: "package
written.chase.128K"; loads under load shorten it: "package read full". The rate of the
other CPUs at full load becomes a row of a benchmark `load`.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fleet.analysis.base.text import to_records
from fleet.analysis.reduce import ladders
from fleet.analysis.reduce.load import (
    drop_contradicting,
    drop_points,
    get_views,
    load_cpus,
    select_benchmark,
)
from fleet.analysis.reduce.pairs import (
    HISTORY_COLUMNS,
    as_float64,
    load_pairs,
    reduce_by_run,
)
from fleet.analysis.reduce.topology import find_core_kinds
from fleet.errors import UsageError
from fleet.model import (
    BENCHMARKS,
    CORES,
    LOAD,
    SHIPPED,
    Benchmark,
    Descriptions,
    Parameter,
    RunState,
    View,
    is_relation,
    relation_sort_key,
    take_one_of_each_core,
)
from fleet.plan.kinds import CPU_NUMBERS
from fleet.plan.options import parse_option
from fleet.store import RunSummary
from fleet.store.runs import Root
from fleet.text import one_line, suggest_similar

_SHOWN = 12
_KIND = ["run_id", "benchmark", "variant"]
_FASTEST = {"", "P", "big"}
OVERVIEW = ("benchmark", "variant", "about", "relation", "place")
_OF_PAIRS = (View.MATRIX, View.CPUS)


def build_comparison_rows(
    pairs: pd.DataFrame,
    cpus: pd.DataFrame,
    point: str | None = None,
    descriptions: Descriptions = SHIPPED,
) -> pd.DataFrame:
    """Build the rows to compare, such as the pairs of pair benchmarks and the plateaus
    of ladders.

    pairs: from `as_float64`. cpus: of the same runs. point: take only its rows;
    UsageError if there are none.
    """
    if point is not None:
        return _select_point(pairs, point, descriptions)
    views, placed = (
        get_views(pairs["benchmark"], descriptions),
        ladders.is_node_placed(pairs, descriptions),
    )
    others = pairs[~views.isin([*_OF_PAIRS, View.LADDER]) & ~placed]
    others = pd.concat([others, ladders.select_line_placed_pairs(pairs, descriptions)])
    names = [
        name
        for name in others["benchmark"].unique()
        if descriptions[str(name)].other_unit == "byte"
    ]
    loads = others["benchmark"].isin(names)
    under_load, others = others[loads], others[~loads]
    # a benchmark that nobody described may have none
    points = others["point"].astype(object).fillna("")
    at_point = (others["relation"].astype(object) + " " + points).map(str.rstrip)
    parts = [drop_points(pairs, descriptions), others.assign(relation=at_point)]
    if len(under_load):
        under_load = under_load.assign(relation=_add_loads_to_relations(under_load))
        parts += [under_load, _make_load_rate_rows(under_load)]
    if placed.any():
        of_node = ladders.select_node_cells(pairs, cpus, descriptions)
        ends = [
            f"n{a}-n{b}"
            for a, b in zip(of_node["cpu_node"], of_node["memory_node"], strict=True)
        ]
        of_node = of_node.assign(relation=ends + of_node["setting"].map(" {}".format))
        parts += [of_node, _make_load_rate_rows(of_node)]
    if (views == View.LADDER).any():
        levels = ladders.find_plateaus(pairs, cpus, descriptions)
        of_level = (
            levels["level"] + " " + levels["setting"] + _format_threads_suffix(levels)
        )
        parts.append(
            levels.assign(relation=of_level + _format_core_kinds_suffix(levels))
        )
    filled = [part for part in parts if len(part)]
    return pd.concat(filled, ignore_index=True) if filled else pairs[:0]


def _add_loads_to_relations(rows: pd.DataFrame) -> list[str]:
    """Return each row's relation followed by its load, with size and threads if the run
    has several.
    """
    several = (
        rows.groupby(_KIND, observed=True)[["bytes", "threads"]].transform("nunique")
        > 1
    )
    names = []
    for row, sizes, threads in zip(
        to_records(rows), several["bytes"], several["threads"], strict=True
    ):
        size = int(row["bytes"] or 0)
        name = f"{row['relation']} {ladders.name_setting(str(row['point']), size)}"
        name += f" {ladders.format_size(size)}" * sizes
        names.append(
            name + f" x{row['threads'] or 0:.0f}"
            if threads or row["load_mbps"]
            else name
        )
    return names


def _make_load_rate_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Make rows of the benchmark `load` from rows at full load: the rate of the other
    CPUs, as ns a byte.
    """
    if "other_rate" not in rows:
        return rows[:0]
    full = rows[rows["other_rate"].notna() & rows["load_mbps"].isna()]
    ns = 1 / full["other_rate"]
    return full.assign(
        benchmark=LOAD.name, median_ns=ns, mean_ns=ns, min_ns=ns, spread=math.nan
    )


def are_pairs(relations: "pd.Series[Any]") -> "pd.Series[Any]":
    """Report which of these relations are those of pairs of CPUs, not of levels or
    points.
    """
    places, names = pd.factorize(relations)
    return pd.Series(
        np.array([*map(is_relation, names)], dtype=bool)[places], relations.index
    )


class Only(NamedTuple):
    """A filter. benchmark: `cas` or `cas/llsc`. cpus: a list such as 0-7, or a core
    kind. None: all.
    """

    benchmark: str | None = None
    cpus: str | None = None

    def __str__(self) -> str:
        return "".join(
            f" of {word}"
            for word in (self.benchmark, self.cpus and f"CPUs {self.cpus}")
            if word
        )

    def select(self, pairs: pd.DataFrame, cpus: pd.DataFrame) -> pd.DataFrame:
        """Select the rows of `pairs` that match. cpus: of the same runs. Raises
        UsageError if none match.
        """
        pairs = select_benchmark(pairs, self.benchmark)
        return pairs if self.cpus is None else _select_cpus(pairs, cpus, self.cpus)


ALL = Only()


def _select_cpus(pairs: pd.DataFrame, cpus: pd.DataFrame, text: str) -> pd.DataFrame:
    numbers = (
        {*parse_option("--cpus", text, CPU_NUMBERS)}
        if text[:1].isdigit()
        else set[int]()
    )
    cpus_by_run, kinds_present = dict[object, set[int]](), set[str]()
    for run, rows in cpus.groupby("run_id", sort=False):
        kinds = find_core_kinds(rows)
        kinds_present |= {*kinds.values()}
        if text == CORES:
            cores = to_records(rows[["cpu", "package", "core"]])
            cpus_by_run[run] = {
                *take_one_of_each_core(tuple(row.values()) for row in cores)
            }
        else:
            cpus_by_run[run] = numbers or {
                cpu for cpu, kind in kinds.items() if kind == text
            }
    ends = zip(
        *(pairs[name] for name in ("run_id", "ping_cpu", "pong_cpu")), strict=True
    )
    selected = pairs[
        [{ping, pong} <= cpus_by_run.get(run, set()) for run, ping, pong in ends]
    ]
    if selected.empty:
        kinds_text = (
            f"kinds of cores: {', '.join(sorted(kinds_present)) or 'all alike'}"
        )
        raise UsageError(
            f"--cpus {text}: nothing was measured on such CPUs alone; {kinds_text}."
        )
    return selected


def select_overview_rows(
    pairs: pd.DataFrame, cpus: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> pd.DataFrame:
    """Select the cells that represent each benchmark in an overview; `relation` becomes
    the column's name.

    Select by the benchmark's view. Pairs: each relation. Ladders: the levels of the
    first setting, on the fewest CPUs of the fastest kind. Products: the peaks, a column
    per variant. Loads under load: the greatest load. Other points: the first table, a
    column per row, on the nearest CPUs.

    Adds `about`, a text on that choice, and `place`, by which columns are sorted. cpus:
    of the same runs.
    """
    single = drop_points(pairs, descriptions)
    places = {
        name: f"{relation_sort_key(name)}" for name in single["relation"].unique()
    }
    parts = [single.assign(about="", place=single["relation"].map(places).astype(str))]
    if not get_views(pairs["benchmark"], descriptions).isin(_OF_PAIRS).all():
        cells = ladders.select_node_cells(pairs, cpus, descriptions)
        groups = cells.groupby(_KIND, sort=False, observed=True)
        parts += [select_overview_nodes(group, descriptions) for _, group in groups]
        pairs = pairs[~ladders.is_node_placed(pairs, descriptions)]
        parts.append(
            _select_overview_levels(
                ladders.find_plateaus(pairs, cpus, descriptions), descriptions
            )
        )
        for (_, name, _), group in pairs.groupby(_KIND, sort=False, observed=True):
            description = descriptions[str(name)]
            if description.view is View.PRODUCTS:
                parts.append(_select_overview_peaks(group, description))
            elif description.view in (View.TABLE, View.BLOCKS):
                chosen = _select_and_label_overview_points(group, description)
                parts += [chosen, _make_load_rate_rows(chosen)]
    return pd.concat(
        [part for part in parts if len(part)] or parts[:1], ignore_index=True
    )


def select_overview_nodes(
    rows: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> pd.DataFrame:
    """Select the first setting; name its cells local and remote. rows: of one run,
    benchmark and variant.
    """
    setting = ladders.sort_settings(rows, descriptions)[0]
    rows = rows[rows["setting"] == setting]
    where = ladders.is_local_memory(rows).map({True: "local", False: "remote"})
    return rows.assign(about=f"{setting} by node", place=where, relation=where)


def _select_overview_levels(
    rows: pd.DataFrame, descriptions: Descriptions
) -> pd.DataFrame:
    parts = (part for _, part in rows.groupby("benchmark"))
    settings = [
        setting
        for part in parts
        for setting in ladders.sort_settings(part, descriptions)
    ]
    near = sorted(rows["relation"].unique(), key=relation_sort_key)
    for name, order in (
        ("threads", sorted({*rows["threads"]})),
        ("setting", settings),
        ("relation", near),
    ):
        rows = rows.assign(
            at=rows[name].map({value: position for position, value in enumerate(order)})
        )
        rows = rows[rows["at"] == rows.groupby(_KIND)["at"].transform("min")]
    return rows.assign(
        about=rows["setting"] + _format_threads_suffix(rows),
        place=rows["least_bytes"].map("{:020}".format),
        relation=rows["level"],
    )


def _select_overview_peaks(rows: pd.DataFrame, description: Benchmark) -> pd.DataFrame:
    rows = _select_first(rows, description.parameters_with_role("row")[:1])
    rows = _select_first(rows, description.parameters_with_role("table"))
    rows = rows[
        rows["relation"] == min(rows["relation"].unique(), key=relation_sort_key)
    ]
    about = rows["operation"] + _format_threads_suffix(rows)
    return rows.assign(about=about, place="", relation=rows["variant"], variant="")


def split_parameters_by_axis(
    benchmark: Benchmark, rows: pd.DataFrame
) -> list[list[Parameter]]:
    """Return the parameters that make tables, rows and columns; leave out those that
    none of `rows` has.
    """
    names = {name for name, column in rows.items() if column.notna().any()}
    roles = map(benchmark.parameters_with_role, ("table", "row", "column"))
    return [
        [parameter for parameter in parameters if parameter.name in names]
        for parameters in roles
    ]


def _select_and_label_overview_points(
    rows: pd.DataFrame, description: Benchmark
) -> pd.DataFrame:
    """Select the points that represent a benchmark in an overview. rows: of one run and
    variant.
    """
    tables, row, columns = split_parameters_by_axis(description, rows)
    if not row:
        named = rows["point"].where(rows["point"].notna(), rows["relation"])
        return rows.assign(about="", place=named, relation=named)
    near = min(rows["relation"].unique(), key=relation_sort_key)
    rows = _select_first(rows[rows["relation"] == near], tables)
    words = [
        str(rows[parameter.name].iloc[0])
        for parameter in tables
        if parameter.type == "word"
    ]
    if (
        columns and columns[0].none
    ):  # the greatest load of the run, the same in each row, beside none at all
        loads = rows[columns[0].name].fillna(math.inf)
        rows = rows[(loads == loads.max()) | (loads == 0)]
        words.append(
            columns[0].none
            if math.isinf(loads.max())
            else f"{loads.max() / 1000:g} GB/s each"
        )
    else:
        rows = _select_first(rows, columns, last=description.view is View.BLOCKS)
        words += [
            str(rows[parameter.name].iloc[0])
            for parameter in columns
            if parameter.type == "word"
        ]
    values, is_size = rows[row[0].name], row[0].type == "bytes"
    return rows.assign(
        about=", ".join(filter(None, (" ".join(words), near))),
        place=values.map(lambda value: f"{int(row[0].sort_key(value)):020}"),
        relation=values.map(
            lambda value: ladders.format_size(int(value)) if is_size else str(value)
        ),
    )


def _select_first(
    rows: pd.DataFrame, parameters: Sequence[Parameter], *, last: bool = False
) -> pd.DataFrame:
    """Select the rows at the first value of each parameter in turn, or at the last."""
    for parameter in parameters:
        values = (
            list(rows[parameter.name].dropna().unique())
            if parameter.name in rows
            else []
        )
        if values:
            rows = rows[
                rows[parameter.name]
                == (max if last else min)(values, key=parameter.sort_key)
            ]
    return rows


def _format_threads_suffix(rows: pd.DataFrame) -> "pd.Series[Any]":
    return rows["threads"].map(
        lambda threads: f" x{threads:.0f}" if threads > 1 else ""
    )


def _format_core_kinds_suffix(rows: pd.DataFrame) -> "pd.Series[Any]":
    """Name each row's kinds of cores as a suffix; empty for the fastest kind and if
    there is only one.
    """
    kinds = rows["relation"].map(lambda name: str(name).partition(" ")[2])
    return kinds.map(lambda text: f" {text}" if {*text.split("-")} - _FASTEST else "")


def load_overview_history(
    root: Root,
    runs: Sequence[RunSummary],
    only: Only = ALL,
    descriptions: Descriptions = SHIPPED,
) -> pd.DataFrame:
    """Load a row per run and cell of an overview, sorted, with the columns of
    `reduce.pairs.history`.
    """
    pairs, cpus = _load_pairs_and_cpus(
        root, runs, descriptions, cpus=only.cpus is not None
    )
    rows = select_overview_rows(only.select(pairs, cpus), cpus, descriptions)
    return sort_overview(reduce_by_run(runs, rows, OVERVIEW))


def load_pair_numbers(
    root: Root, runs: Sequence[RunSummary], descriptions: Descriptions, *numbers: str
) -> pd.DataFrame:
    """Load `pairs` as float64; load only columns of a history and `numbers` if no
    benchmark has points.
    """
    columns = (
        None
        if _have_any_points(runs, descriptions)
        else [*{*HISTORY_COLUMNS, *numbers}]
    )
    pairs = load_pairs(root, run_id=[run.run_id for run in runs], columns=columns)
    return as_float64(drop_contradicting(pairs, runs, descriptions))


def _load_pairs_and_cpus(
    root: Root,
    runs: Sequence[RunSummary],
    descriptions: Descriptions,
    *,
    cpus: bool = False,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Load the pairs and, if requested or needed for a benchmark with points, the rows
    of `cpus`.
    """
    ids = (
        [run.run_id for run in runs]
        if cpus or _have_any_points(runs, descriptions)
        else []
    )
    return load_pair_numbers(root, runs, descriptions), load_cpus(root, run_id=ids)


def _have_any_points(runs: Sequence[RunSummary], descriptions: Descriptions) -> bool:
    return any(
        descriptions[kind].view not in _OF_PAIRS
        for run in runs
        for kind in run.benchmarks
    )


def sort_overview(rows: pd.DataFrame) -> pd.DataFrame:
    """Sort the rows of an overview: benchmarks in the order of their descriptions,
    columns by place.
    """
    places = {name: position for position, name in enumerate(BENCHMARKS)}
    ordered = rows.assign(at=rows["benchmark"].map(places).fillna(len(places)))
    return ordered.sort_values(["at", *OVERVIEW[:3], "place"], kind="stable").drop(
        columns="at"
    )


def load_history(
    root: Root,
    runs: Sequence[RunSummary],
    level_or_point: str,
    benchmark: str | None = None,
    descriptions: Descriptions = SHIPPED,
    *,
    point: bool = False,
) -> pd.DataFrame:
    """Load a row per run and cell, oldest first, with the columns of
    `reduce.pairs.history`.

    level_or_point: a relation ("package", "package P-E"), a level ("L2"), a level and
    setting ("L2 read"), or, if `point`, the name of a point. Raises UsageError if no
    run has it.
    """
    stored = [run for run in runs if run.state is not RunState.UNFINISHED]
    if not stored:
        where = "`fleet runs` lists all; --results names another root."
        raise UsageError(f"{root}: no such run is stored here. {where}")
    pairs, cpus = _load_pairs_and_cpus(root, stored, descriptions)
    pairs = select_benchmark(pairs, benchmark)
    rows = build_comparison_rows(
        pairs, cpus, level_or_point if point else None, descriptions
    )
    if not point:
        names = [
            name
            for name in rows["relation"].unique()
            if is_relation(name) or is_memory_level(name)
        ]
        matching = {
            name for name in names if level_or_point in (name, name.partition(" ")[0])
        }
        if not matching:
            choices = list(
                dict.fromkeys([name.partition(" ")[0] for name in names] + names)
            )
            listed = (
                ", ".join(choices[:_SHOWN]) + (", …" if len(choices) > _SHOWN else "")
                or "none"
            )
            why = (
                "no such"
                f" relation{Only(benchmark)}{suggest_similar(level_or_point, choices)}"
            )
            raise UsageError(f"--relation {level_or_point}: {why} There are {listed}.")
        rows = rows[rows["relation"].isin(matching)]
    return reduce_by_run(stored, rows)


def is_memory_level(text: str) -> bool:
    """Report whether a text begins with the name of a level of memory, such as "L2",
    "LLC" or "mem read".
    """
    name = text.partition(" ")[0]
    return name in ("LLC", ladders.MEMORY) or (name[:1] == "L" and name[1:].isdigit())


def _select_point(
    pairs: pd.DataFrame, point: str, descriptions: Descriptions
) -> pd.DataFrame:
    rows = pairs[pairs["point"] == point]
    if rows.empty:
        points = sorted(pairs["point"].dropna().unique())
        listed = ", ".join(points[:_SHOWN]) + (", …" if len(points) > _SHOWN else "")
        why = (
            f"these runs have no such point{suggest_similar(point, points)} There are"
            f" {listed or 'none'}."
        )
        raise UsageError(one_line(f"--point {point}: {why}"))
    is_ladder = get_views(rows["benchmark"], descriptions) == View.LADDER
    return rows.assign(relation=rows["relation"].where(~is_ladder, point))
