"""Tables of matrix products, beside the peak of the same CPUs."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.base.tables import Floats
from fleet.analysis.reduce.load import get_views
from fleet.analysis.views.benchmark_tables import (
    PointTable,
    PointTables,
    describe_bursts,
    describe_cpus,
    describe_pages,
    group_by_core_kinds,
)
from fleet.model import SHIPPED, Descriptions, Parameter, View


def tabulate_gemm_points(
    pairs: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> PointTables:
    """Return the tables of one variant of gemm, one per number and kind of CPUs;
    medians of like CPUs.
    """
    rows = add_peak_shares(pairs, descriptions)
    tables = []
    for group in group_by_core_kinds(rows).values():
        titles, lines = _tabulate_gemm(group)
        tables.append(PointTable(describe_cpus(group), titles, lines))
    products = rows[rows["operation"] != "peak"]
    return PointTables(
        name=text.name_benchmark(rows.iloc[0].to_dict()),
        legend=f"Gop/s; {describe_pages(products)}",
        tables=tables,
        note=(
            f"{describe_bursts(rows)}; ±95%: within the run; every product was compared"
            " with the exact one"
        ),
    )


def add_peak_shares(
    pairs: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> pd.DataFrame:
    """Return the rows of matrix products in `pairs`, sorted as in a table, with these
    columns added.

    `gops`: operations per nanosecond of all threads. `share`: of the peak of the same
    run, variant and CPUs, compared per cycle, or per nanosecond if a frequency is
    unknown. `per_cycle`: operations of one core per cycle. `shape`: such as
    256x256x256, empty for the peak. NaN without a peak or frequency.
    """
    is_product = get_views(pairs["benchmark"], descriptions) == View.PRODUCTS
    rows = pairs[is_product.astype(bool)].copy()
    rows["gops"] = 1 / rows["median_ns"]
    rows["operation"] = rows["operation"].astype(str)
    peak_gops, peak_ghz = _find_peaks(rows)
    relative_ghz = (peak_ghz / rows["core_ghz"]).fillna(1)
    rows["share"] = rows["gops"] / peak_gops * relative_ghz
    rows["per_cycle"] = rows["gops"] / rows["threads"] / rows["core_ghz"]
    rows["shape"] = rows["point"].map(_find_shape)
    by_size = rows.sort_values("bytes", na_position="first", kind="stable")
    return _sort_by_operation(by_size, descriptions)


def _find_peaks(rows: pd.DataFrame) -> tuple[Floats, Floats]:
    """Return the rate in operations per ns and the frequency in GHz of each row's peak,
    that of the same run, variant and CPUs; NaN without one.
    """
    cpus = ["run_id", "variant", "ping_cpu", "pong_cpu", "threads"]
    is_peak = rows["operation"] == "peak"
    peaks = rows[is_peak].drop_duplicates(cpus)
    peak_numbers = peaks[[*cpus, "gops", "core_ghz"]]
    peak_of_row = rows[cpus].merge(peak_numbers, on=cpus, how="left")
    gops = peak_of_row["gops"].to_numpy(dtype=float)
    ghz = peak_of_row["core_ghz"].to_numpy(dtype=float)
    return gops, ghz


def _find_shape(point: str) -> str:
    """Return the word of a point that is a shape, such as 256x256x256; "" without."""
    for word in point.split("."):
        if word.count("x") == 2:
            return word
    return ""


def _sort_by_operation(rows: pd.DataFrame, descriptions: Descriptions) -> pd.DataFrame:
    """Sort rows in the order that the first benchmark gives its operations."""
    parameters: list[Parameter] = []
    for name in rows["benchmark"].unique():
        parameters += descriptions[name].parameters_with_role("row")
    names = rows["operation"].unique().tolist()
    if parameters:
        operation = parameters[0]
        names.sort(key=operation.sort_key)
    places = rows["operation"].map(names.index)
    order = np.argsort(places.to_numpy(dtype=int), kind="stable")
    return rows.iloc[order]


def _tabulate_gemm(rows: pd.DataFrame) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return titles and a line per product, as medians over like CPUs."""
    groups = rows.groupby(["operation", "point", "shape"], sort=False)
    medians = groups[["gops", "spread", "share", "per_cycle"]].median().reset_index()
    threads = int(rows["threads"].iloc[0])
    titles = ["point", "shape", "Gop/s", "±95%", "of peak", "op/cycle"]
    if threads > 1:
        titles.insert(3, "a CPU")
    lines = [_format_product(row, threads) for row in text.to_records(medians)]
    return tuple(titles), lines


def _format_product(row: Mapping[str, Any], threads: int) -> tuple[str, ...]:
    """Format the line of a product; of several threads, with the rate of each."""
    cells = [_name_product(row), row["shape"], f"{row['gops']:.1f}"]
    if threads > 1:
        cells.append(f"{row['gops'] / threads:.1f}")
    cells.append(text.format_half_width(row["spread"]))
    cells.append(_format_or_none(row["share"], ".1%"))
    cells.append(_format_or_none(row["per_cycle"], ".1f"))
    return tuple(cells)


def _name_product(row: Mapping[str, Any]) -> str:
    """Name a product by its operation and the size, where one was asked for: .64M of
    stream.256x256x256.64M.huge.x1.
    """
    operation = row["operation"]
    _, *words = row["point"].removeprefix(operation).split(".")
    has_size = len(words) > 3  # beside the shape, the pages and the threads
    return f"{operation}.{words[1]}" if has_size else operation


def _format_or_none(value: float | None, how: str) -> str:
    return "-" if value is None else f"{value:{how}}"
