"""The products of `fleet show`: operations a second of a vector or matrix unit, and the share of its peak."""

import math
from collections.abc import Iterator
from typing import Any

from fleet.analysis.frame import Rows
from fleet.analysis.reduce.load import view_of
from fleet.analysis.views.by_parameters import PointTable, PointTables
from fleet.analysis.views.ladders import alike, bursts_text, cpus_text, pages_text
from fleet.analysis.views.text import is_none, records, within
from fleet.model import View, benchmark_named


def products(pairs: Rows) -> PointTables:
    """The points of one variant of gemm: of each number of CPUs a table, of CPUs alike the median.

    pairs: its rows of the table `pairs`. `of peak` is the share of what the same CPUs reached on registers in
    the same run, in a cycle where the frequency is known; `a CPU` and `op/cycle` are of one CPU, on average.
    """
    rows = with_shares(pairs)
    first = rows.iloc[0]
    tables = [PointTable(cpus_text(group), *_table(group)) for group in alike(rows).values()]
    pages = pages_text(rows[rows["operation"] != "peak"])
    note = f"{bursts_text(rows)}; every product was compared with the exact one"
    return PointTables(f"{first['benchmark']}/{first['variant']}", f"Gop/s; {pages}", tables, note)


def with_shares(pairs: Rows) -> Rows:
    """The rows of products in `pairs`, in the order of a table, with what people read.

    `gops`: operations in a nanosecond by all threads; `share`: of the peak of the same run, variant and CPUs,
    of operations in a cycle, since CPUs may run registers at another frequency than memory, or in a
    nanosecond where one of the frequencies is unknown; `per_cycle`: operations of a core in a cycle; `shape`:
    rows, columns and depth, empty for peak. NaN where there is no peak or frequency.
    """
    cpus = ["run_id", "variant", "ping_cpu", "pong_cpu", "threads"]
    rows = pairs[pairs["benchmark"].map(lambda name: view_of(name) is View.PRODUCTS).astype(bool)]
    rows = rows.assign(gops=1 / rows["median_ns"], operation=rows["operation"].astype(str))
    peaks = rows[rows["operation"] == "peak"].drop_duplicates(cpus)
    none = (math.nan, math.nan)
    numbers = zip(peaks["gops"], peaks["core_ghz"], strict=True)
    known = dict(zip(_keys(peaks, cpus), numbers, strict=True))
    of_peak = [known.get(key, none) for key in _keys(rows, cpus)]
    rows = rows.assign(
        gops_of_peak=[float(gops) for gops, _ in of_peak], core_ghz_of_peak=[float(ghz) for _, ghz in of_peak]
    )
    rows = rows.assign(
        share=rows["gops"] / rows["gops_of_peak"] * (rows["core_ghz_of_peak"] / rows["core_ghz"]).fillna(1),
        per_cycle=rows["gops"] / rows["threads"] / rows["core_ghz"],
        shape=rows["point"].map(lambda name: next((x for x in name.split(".") if x.count("x") == 2), "")),
    )
    rows = rows.sort_values("bytes", na_position="first", kind="stable")
    places = {name: place for place, name in enumerate(points_in_order(rows))}
    rows = rows.assign(place=rows["operation"].map(places)).sort_values("place", kind="stable")
    return rows.drop(columns="place")


def _keys(rows: Rows, names: list[str]) -> Iterator[tuple[Any, ...]]:
    return rows[names].itertuples(index=False, name=None)


def points_in_order(rows: Rows) -> list[str]:
    """What is multiplied in these rows, each once, in the order of the benchmark's description."""
    names = rows["benchmark"].unique()
    operation = [one for name in names for one in benchmark_named(name).in_role("row")][:1]
    return sorted(rows["operation"].unique(), key=lambda name: [one.place(name) for one in operation])


def _table(rows: Rows) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Titles and lines."""
    numbers = {name: (name, "median") for name in ("gops", "spread", "share", "per_cycle")}
    alike = rows.groupby(["operation", "point", "shape"], sort=False).agg(**numbers).reset_index()
    threads = int(rows["threads"].iloc[0])
    each = ("a CPU",) * (threads > 1)
    lines = []
    for row in records(alike):
        rates = (f"{row['gops']:.1f}", *(f"{row['gops'] / threads:.1f}" for _ in each))
        share = "-" if is_none(row["share"]) else f"{row['share']:.1%}"
        per_cycle = "-" if is_none(row["per_cycle"]) else f"{row['per_cycle']:.1f}"
        name = row["operation"] + _size_of(row)
        lines.append((name, row["shape"], *rates, within(row["spread"]), share, per_cycle))
    return ("point", "shape", "Gop/s", *each, "±95%", "of peak", "op/cycle"), lines


def _size_of(row: dict[str, Any]) -> str:
    """The size in the name of a point, where one was asked for: ".64M" of stream.256x256x256.64M.huge.x1."""
    rest = row["point"].removeprefix(row["operation"]).split(".")[2:-2]
    return f".{rest[0]}" if rest else ""
