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
    """Return the tables of one variant of gemm: a table for each number of threads and
    kind of core. A line is a product; its numbers are medians over the CPUs of that
    kind.
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
    columns added. Rows of the operation "peak", the most that the same CPUs can do, are
    among them.

    `gops`: operations per ns of all threads together; `median_ns` is the time that all
    of them take for one operation. `share`: how much of the peak a row reaches, per
    cycle; NaN without a peak. `per_cycle`: operations of one core per cycle; NaN
    without a frequency. `shape`: such as 256x256x256; "" for the peak.
    """
    views = get_views(pairs["benchmark"], descriptions)
    is_product = (views == View.PRODUCTS).astype(bool)
    rows = pairs[is_product].copy()
    rows["operation"] = rows["operation"].astype(str)
    rows["gops"] = 1 / rows["median_ns"]
    rows["share"] = _compute_shares_of_peaks(rows)
    gops_of_core = rows["gops"] / rows["threads"]
    rows["per_cycle"] = gops_of_core / rows["core_ghz"]
    rows["shape"] = rows["point"].map(_find_shape)
    smallest_first = rows.sort_values("bytes", na_position="first", kind="stable")
    return _sort_by_operation(smallest_first, descriptions)


def _compute_shares_of_peaks(rows: pd.DataFrame) -> "pd.Series[float]":
    """Compute which share of its peak each row reaches, per cycle; per ns where a
    frequency is unknown.
    """
    peak_gops, peak_ghz = _find_peaks(rows)
    share_per_ns = rows["gops"] / peak_gops
    # a core that is slower than at the peak has fewer cycles in a ns
    relative_ghz = peak_ghz / rows["core_ghz"]
    shares: pd.Series[float] = share_per_ns * relative_ghz.fillna(1)
    return shares


def _find_peaks(rows: pd.DataFrame) -> tuple[Floats, Floats]:
    """Return for each row the rate in operations per ns and the frequency in GHz of its
    peak. The peak is what the CPUs can do at most, measured as the operation "peak"; a
    row's peak is of the same run, variant and CPUs. NaN without a peak.

    rows: of matrix products and of peaks.
    """
    keys = ["run_id", "variant", "ping_cpu", "pong_cpu", "threads"]
    is_peak = rows["operation"] == "peak"
    peaks = rows[is_peak].drop_duplicates(keys)
    numbers_of_peaks = peaks[[*keys, "gops", "core_ghz"]]
    keys_of_rows = rows[keys]
    peak_of_row = keys_of_rows.merge(numbers_of_peaks, on=keys, how="left")
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
    """Sort rows by operation. Rows of one operation keep their order.

    The operation is a benchmark's parameter with the role "row". The first benchmark
    that has such a parameter gives the order of the operations.
    """
    row_parameters: list[Parameter] = []
    for name in rows["benchmark"].unique():
        row_parameters += descriptions[name].parameters_with_role("row")
    names = rows["operation"].unique().tolist()
    if row_parameters:
        operation = row_parameters[0]
        names.sort(key=operation.sort_key)
    places = rows["operation"].map(names.index).to_numpy(dtype=int)
    order = np.argsort(places, kind="stable")
    return rows.iloc[order]


def _tabulate_gemm(rows: pd.DataFrame) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return titles and a line per product. rows: of one number of threads and one kind
    of CPUs; a line has the medians over these CPUs.
    """
    products = rows.groupby(["operation", "point", "shape"], sort=False)
    columns = ["gops", "spread", "share", "per_cycle"]
    medians = products[columns].median().reset_index()
    threads = int(rows["threads"].iloc[0])
    lines = []
    for row in text.to_records(medians):
        cells_by_title = _format_product(row, threads)
        titles = tuple(cells_by_title)  # the same for each line
        lines.append(tuple(cells_by_title.values()))
    return titles, lines


def _format_product(row: Mapping[str, Any], threads: int) -> dict[str, str]:
    """Format the line of a product, its cells by title; of several threads, with the
    rate of each CPU.
    """
    cells = {
        "point": _name_product(row),
        "shape": row["shape"],
        "Gop/s": f"{row['gops']:.1f}",
    }
    if threads > 1:
        cells["a CPU"] = f"{row['gops'] / threads:.1f}"
    cells["±95%"] = text.format_half_width(row["spread"])
    cells["of peak"] = _format_or_none(row["share"], ".1%")
    cells["op/cycle"] = _format_or_none(row["per_cycle"], ".1f")
    return cells


def _name_product(row: Mapping[str, Any]) -> str:
    """Name a product by its operation and the size, where one was asked for.

    The point stream.256x256x256.huge.x1 is named "stream": its settings are the shape,
    the pages and the threads. stream.256x256x256.64M.huge.x1 is named "stream.64M": the
    size stands behind the shape.
    """
    operation: str = row["operation"]
    settings = row["point"].removeprefix(f"{operation}.").split(".")
    has_size = len(settings) > 3
    if not has_size:
        return operation
    _shape, size, *_ = settings
    return f"{operation}.{size}"


def _format_or_none(value: float | None, how: str) -> str:
    return "-" if value is None else f"{value:{how}}"
