"""The products of `fleet show`: operations a second of a vector or matrix unit, and the share of its peak."""

from typing import Any

import pandas as pd

from fleet.analysis.reduce.load import view_of
from fleet.analysis.views.ladders import bursts_text, cpus_text, pages_text
from fleet.analysis.views.text import is_none, records, within
from fleet.model import View, benchmark_named
from fleet.text import table


def products(pairs: pd.DataFrame) -> str:
    """The points of one variant of gemm: of each set of CPUs, a row per point.

    pairs: its rows of the table `pairs`. `of peak` is the share of what the same CPUs reached on registers in
    the same run, in a cycle where the frequency is known; `a CPU` and `op/cycle` are of one CPU, on average.
    """
    rows = with_shares(pairs)
    first = rows.iloc[0]
    parts = [
        f"{first['benchmark']}/{first['variant']}: Gop/s; {pages_text(rows[rows['operation'] != 'peak'])}"
    ]
    for _, group in rows.groupby(["threads", "ping_cpu", "pong_cpu"], sort=True):
        parts.append(f"{cpus_text(group)}\n{_table(group)}")
    return "\n".join((*parts, f"{bursts_text(rows)}; every product was compared with the exact one"))


def with_shares(pairs: pd.DataFrame) -> pd.DataFrame:
    """The rows of products in `pairs`, in the order of a table, with what people read.

    `gops`: operations in a nanosecond by all threads; `share`: of the peak of the same run, variant and CPUs,
    of operations in a cycle, since CPUs may run registers at another frequency than memory, or in a
    nanosecond where one of the frequencies is unknown; `per_cycle`: operations of a core in a cycle; `shape`:
    rows, columns and depth, empty for peak. NaN where there is no peak or frequency.
    """
    cpus = ["run_id", "variant", "ping_cpu", "pong_cpu", "threads"]
    rows = pairs[pairs["benchmark"].map(lambda name: view_of(name) is View.PRODUCTS).astype(bool)]
    rows = rows.assign(gops=1 / rows["median_ns"], operation=rows["operation"].astype(str))
    peaks = rows[rows["operation"] == "peak"].drop_duplicates(cpus)[[*cpus, "gops", "core_ghz"]]
    rows = rows.merge(peaks, on=cpus, how="left", suffixes=("", "_of_peak"))
    rows = rows.assign(
        share=rows["gops"] / rows["gops_of_peak"] * (rows["core_ghz_of_peak"] / rows["core_ghz"]).fillna(1),
        per_cycle=rows["gops"] / rows["threads"] / rows["core_ghz"],
        shape=rows["point"].map(lambda name: next((x for x in name.split(".") if x.count("x") == 2), "")),
    )
    rows = rows.sort_values("bytes", na_position="first", kind="stable")
    places = {name: place for place, name in enumerate(points_in_order(rows))}
    return rows.sort_values("operation", key=lambda names: names.map(places), kind="stable")


def points_in_order(rows: pd.DataFrame) -> list[str]:
    """What is multiplied in these rows, each once, in the order of the benchmark's description."""
    names = rows["benchmark"].unique()
    operation = [one for name in names for one in benchmark_named(name).in_role("row")][:1]
    return sorted(rows["operation"].unique(), key=lambda name: [one.place(name) for one in operation])


def _table(rows: pd.DataFrame) -> str:
    titles = ["point", "shape", "Gop/s", "interval", "of peak", "op/cycle"]
    found = records(rows)
    lines = [_line(row) for row in found]
    if rows["threads"].iloc[0] > 1:
        titles.insert(3, "a CPU")
        for line, row in zip(lines, found, strict=True):
            line.insert(3, f"{row['gops'] / row['threads']:.1f}")
    return table(titles, lines, right=set(range(2, len(titles))))


def _line(row: dict[str, Any]) -> list[str]:
    share, per_cycle = row["share"], row["per_cycle"]
    return [
        row["operation"] + _size_of(row),
        row["shape"],
        f"{row['gops']:.1f}",
        within(row["spread"]),
        "-" if is_none(share) else f"{share:.1%}",
        "-" if is_none(per_cycle) else f"{per_cycle:.1f}",
    ]


def _size_of(row: dict[str, Any]) -> str:
    """The size in the name of a point, where one was asked for: ".64M" of stream.256x256x256.64M.huge.x1."""
    rest = row["point"].removeprefix(row["operation"]).split(".")[2:-2]
    return f".{rest[0]}" if rest else ""
