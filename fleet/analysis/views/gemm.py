"""Tables of `fleet show` for products: operations a second of a vector or matrix unit, and share of peak."""

import math

import numpy as np
import pandas as pd

from fleet.analysis.base.text import format_half_width, is_none, to_records
from fleet.analysis.views.by_parameters import PointTable, PointTables
from fleet.analysis.views.ladders import describe_bursts, describe_cpus, describe_pages, group_like_cpus
from fleet.model import SHIPPED, Descriptions, View


def tabulate_products(pairs: pd.DataFrame, descriptions: Descriptions = SHIPPED) -> PointTables:
    """Return the points of one variant of gemm, a table per number of CPUs; medians of like CPUs.

    pairs: its rows of the table `pairs`. `of peak` is the share of what the same CPUs reached on registers in
    the same run, per cycle where the frequency is known; `a CPU` and `op/cycle` are means per CPU.
    """
    rows = add_peak_shares(pairs, descriptions)
    first = rows.iloc[0]
    tables = [PointTable(describe_cpus(group), *_table(group)) for group in group_like_cpus(rows).values()]
    pages = describe_pages(rows[rows["operation"] != "peak"])
    note = f"{describe_bursts(rows)}; ±95%: within the run; every product was compared with the exact one"
    return PointTables(f"{first['benchmark']}/{first['variant']}", f"Gop/s; {pages}", tables, note)


def add_peak_shares(pairs: pd.DataFrame, descriptions: Descriptions = SHIPPED) -> pd.DataFrame:
    """Return the rows of products in `pairs`, in the order of a table, with columns for people.

    `gops`: operations a nanosecond by all threads; `share`: of the peak of the same run, variant and CPUs,
    per cycle, or per nanosecond where a frequency is unknown; `per_cycle`: operations of a core in a cycle;
    `shape`: empty for peak. NaN without a peak or frequency.
    """
    cpus = ["run_id", "variant", "ping_cpu", "pong_cpu", "threads"]
    rows = pairs[pairs["benchmark"].map(lambda name: descriptions[name].view is View.PRODUCTS).astype(bool)]
    rows = rows.assign(gops=1 / rows["median_ns"], operation=rows["operation"].astype(str))
    peaks = rows[rows["operation"] == "peak"].drop_duplicates(cpus)
    none = (math.nan, math.nan)
    numbers = zip(peaks["gops"], peaks["core_ghz"], strict=True)
    keys, of_peaks = (part[cpus].itertuples(index=False, name=None) for part in (rows, peaks))
    peak_by_cpus = dict(zip(of_peaks, numbers, strict=True))
    gops, ghz = np.array([peak_by_cpus.get(key, none) for key in keys], dtype=float).reshape(-1, 2).T
    rows = rows.assign(
        share=rows["gops"] / gops * (ghz / rows["core_ghz"]).fillna(1),
        per_cycle=rows["gops"] / rows["threads"] / rows["core_ghz"],
        shape=rows["point"].map(lambda name: next((x for x in name.split(".") if x.count("x") == 2), "")),
    )
    rows = rows.sort_values("bytes", na_position="first", kind="stable")
    operation = [
        parameter
        for name in rows["benchmark"].unique()
        for parameter in descriptions[name].parameters_with_role("row")
    ]
    names = sorted(
        rows["operation"].unique(), key=lambda name: [parameter.sort_key(name) for parameter in operation[:1]]
    )
    places = {name: place for place, name in enumerate(names)}
    rows = rows.assign(place=rows["operation"].map(places)).sort_values("place", kind="stable")
    return rows.drop(columns="place")


def _table(rows: pd.DataFrame) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    numbers = {name: (name, "median") for name in ("gops", "spread", "share", "per_cycle")}
    medians = rows.groupby(["operation", "point", "shape"], sort=False).agg(**numbers).reset_index()
    threads = int(rows["threads"].iloc[0])
    cpu_titles = ("a CPU",) * (threads > 1)
    lines = []
    for row in to_records(medians):
        rates = (f"{row['gops']:.1f}", *(f"{row['gops'] / threads:.1f}" for _ in cpu_titles))
        share = "-" if is_none(row["share"]) else f"{row['share']:.1%}"
        per_cycle = "-" if is_none(row["per_cycle"]) else f"{row['per_cycle']:.1f}"
        # The size, where one was asked for: .64M of stream.256x256x256.64M.huge.x1.
        size = row["point"].removeprefix(row["operation"]).split(".")[2:-2][:1]
        name = ".".join((row["operation"], *size))
        lines.append((name, row["shape"], *rates, format_half_width(row["spread"]), share, per_cycle))
    return ("point", "shape", "Gop/s", *cpu_titles, "±95%", "of peak", "op/cycle"), lines
