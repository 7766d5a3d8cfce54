"""Tables of matrix products, beside the peak of the same CPUs."""

import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.views.benchmark_tables import (
    PointTable,
    PointTables,
    describe_bursts,
    describe_cpus,
    describe_pages,
    group_by_core_kinds,
)
from fleet.model import (
    SHIPPED,
    Descriptions,
    View,
)


def tabulate_gemm_points(
    pairs: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> PointTables:
    """Return the tables of one variant of gemm, one per number and kind of CPUs;
    medians of like CPUs.
    """
    rows = add_peak_shares(pairs, descriptions)
    groups = group_by_core_kinds(rows).values()
    tables = [
        PointTable(describe_cpus(group), *_tabulate_gemm(group)) for group in groups
    ]
    pages = describe_pages(rows[rows["operation"] != "peak"])
    note = (
        f"{describe_bursts(rows)}; ±95%: within the run; every product was compared"
        " with the exact one"
    )
    return PointTables(
        text.name_benchmark(rows.iloc[0].to_dict()), f"Gop/s; {pages}", tables, note
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
    cpus = ["run_id", "variant", "ping_cpu", "pong_cpu", "threads"]
    rows = pairs[
        pairs["benchmark"]
        .map(lambda name: descriptions[name].view is View.PRODUCTS)
        .astype(bool)
    ]
    rows = rows.assign(
        gops=1 / rows["median_ns"], operation=rows["operation"].astype(str)
    )
    peaks = rows[rows["operation"] == "peak"].drop_duplicates(cpus)
    numbers = rows[cpus].merge(peaks[[*cpus, "gops", "core_ghz"]], on=cpus, how="left")
    gops, ghz = numbers[["gops", "core_ghz"]].to_numpy(dtype=float).T
    rows = rows.assign(
        share=rows["gops"] / gops * (ghz / rows["core_ghz"]).fillna(1),
        per_cycle=rows["gops"] / rows["threads"] / rows["core_ghz"],
        shape=rows["point"].map(
            lambda name: next((x for x in name.split(".") if x.count("x") == 2), "")
        ),
    )
    rows = rows.sort_values("bytes", na_position="first", kind="stable")
    benchmarks = rows["benchmark"].unique()
    operations = [
        item
        for name in benchmarks
        for item in descriptions[name].parameters_with_role("row")
    ][:1]
    names = sorted(
        rows["operation"].unique(),
        key=lambda name: [item.sort_key(name) for item in operations],
    )
    return rows.sort_values(
        "operation", key=lambda column: column.map(names.index), kind="stable"
    )


def _tabulate_gemm(rows: pd.DataFrame) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    numbers = {
        name: (name, "median") for name in ("gops", "spread", "share", "per_cycle")
    }
    medians = (
        rows.groupby(["operation", "point", "shape"], sort=False)
        .agg(**numbers)
        .reset_index()
    )
    threads = int(rows["threads"].iloc[0])
    cpu_titles = ("a CPU",) * (threads > 1)
    lines = []
    for row in text.to_records(medians):
        rates = (
            f"{row['gops']:.1f}",
            *(f"{row['gops'] / threads:.1f}" for _ in cpu_titles),
        )
        share = "-" if text.is_none(row["share"]) else f"{row['share']:.1%}"
        per_cycle = "-" if text.is_none(row["per_cycle"]) else f"{row['per_cycle']:.1f}"
        # The size, where one was asked for: .64M of stream.256x256x256.64M.huge.x1.
        size = row["point"].removeprefix(row["operation"]).split(".")[2:-2][:1]
        name = ".".join((row["operation"], *size))
        lines.append(
            (
                name,
                row["shape"],
                *rates,
                text.format_half_width(row["spread"]),
                share,
                per_cycle,
            )
        )
    return (
        "point",
        "shape",
        "Gop/s",
        *cpu_titles,
        "±95%",
        "of peak",
        "op/cycle",
    ), lines
