"""The ladders of `fleet show`: what memory costs by its size, for benchmarks that are measured at points."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.reduce.load import load_samples, view_of
from fleet.analysis.views.text import is_none, percent, records
from fleet.model import Unit, View, benchmark_named
from fleet.text import counted, table

_PARAMETERS = ["bytes", "stride_bytes", "operation", "order", "sharing", "pages", "threads"]
_COLUMNS = ["benchmark", "variant", "point", "ping_cpu", "pong_cpu", *_PARAMETERS, "core_ghz"]
_TICKS = ["iterations", "warmup", "ticks", "other_ticks", "ns_per_tick"]
_KEY = ["benchmark", "variant", "point", "ping_cpu", "pong_cpu"]


def points_of(root: str | Path, run_id: str, pairs: pd.DataFrame) -> pd.DataFrame:
    """A row per point and its CPUs: parameters, `core_ghz` (median of the bursts), `rate`.

    pairs: the run's rows of the table `pairs`. rate: units in a nanosecond by all threads together, for bytes
    GB/s; the median of the bursts' medians. No rows for a run without points.
    """
    names = [name for name in pairs["benchmark"].unique() if view_of(name) is View.LADDER]
    if not names:
        return pd.DataFrame(columns=[*_COLUMNS, "rate"])
    bursts = load_samples(root, run_id=run_id, benchmark=names, columns=[*_COLUMNS, *_TICKS])
    words = [name for name in bursts if isinstance(bursts[name].dtype, pd.CategoricalDtype)]
    bursts = bursts.astype(dict.fromkeys(words, object))
    bursts = bursts[bursts["ticks"].map(len) > bursts["warmup"]]
    bursts = bursts.assign(rate=[_rate(*row) for row in bursts[_TICKS].itertuples(index=False)])
    first = {name: (name, "first") for name in _PARAMETERS}
    found = bursts.groupby(_KEY, sort=False).agg(
        **first, core_ghz=("core_ghz", "median"), rate=("rate", "median")
    )
    return found.reset_index().sort_values(["benchmark", "variant", "threads", "bytes"], kind="stable")


def _rate(iterations: int, warmup: int, ticks: Any, others: Any, ns_per_tick: float) -> float:
    """Units in a nanosecond by all threads of a burst: the median of its samples."""
    threads = [ticks] if others is None else [ticks, *others]
    rates = sum(iterations / (np.asarray(one[warmup:]) * ns_per_tick) for one in threads)
    return float(np.median(rates))


def ladder(pairs: pd.DataFrame, points: pd.DataFrame) -> str:
    """The ladders of one benchmark and variant: of each set of CPUs, a row per size.

    pairs: its rows of the table `pairs`. points: as `points_of` returns them. Columns are the orders of a
    chase, or the operations; of sizes measured in several settings, strides for instance, each is a column.
    """
    rows = pairs.merge(points, on=_KEY, how="left")
    first = rows.iloc[0]
    name, unit = f"{first['benchmark']}/{first['variant']}", benchmark_named(first["benchmark"]).unit
    heading = benchmark_named(first["benchmark"]).heading
    rows = rows.assign(column=[_column(row) for row in records(rows)])
    parts = [f"{name}: {heading}, by the size of the memory; {_pages(rows)}"]
    for _, group in rows.groupby(["threads", "ping_cpu", "pong_cpu"], sort=True):
        parts.append(f"{_cpus(records(group)[0])}\n{_table(group, unit)}")
    bursts, flagged = int(rows["bursts"].sum()), int(rows["flagged_bursts"].sum())
    ending = f"medians of {counted(bursts, 'burst')}" + (
        f", {percent(flagged / bursts)} of them flagged" if flagged else ""
    )
    if unit is Unit.BYTE:
        ending += "; bytes that instructions move: what a write fetches before is not counted"
    return "\n".join((*parts, ending))


def _table(rows: pd.DataFrame, unit: Unit) -> str:
    """A row per size; of loads the cycles of each beside it, where the core's frequency is known."""
    columns = list(dict.fromkeys(rows["column"]))
    cells = rows.set_index(["bytes", "column"])
    lines, cycles_known = [], unit is Unit.LOAD and bool(rows["core_ghz"].notna().any())
    for size in sorted(rows["bytes"].unique()):
        line = [_size(int(size))]
        for column in columns:
            there = (size, column) in cells.index
            row = cells.loc[[(size, column)]].iloc[0] if there else None
            line.append(_number(row, unit))
            if cycles_known:
                line.append(_cycles(row))
        lines.append(tuple(line))
    titles = [title for column in columns for title in ([column, "cycles"] if cycles_known else [column])]
    return table(("size", *titles), lines, right=set(range(len(titles) + 1)))


def _number(row: "pd.Series[Any] | None", unit: Unit) -> str:
    if row is None:
        return "-"
    return f"{row['rate']:.1f}" if unit is Unit.BYTE else f"{row['median_ns']:.2f}"


def _cycles(row: "pd.Series[Any] | None") -> str:
    return "-" if row is None or is_none(row["core_ghz"]) else f"{row['median_ns'] * row['core_ghz']:.1f}"


def _column(row: dict[str, Any]) -> str:
    """What a point is beside its size, pages and threads: its name without them."""
    size, pages, threads = _size(int(row["bytes"])), row["pages"], f"x{row['threads']}"
    words = [word for word in row["point"].split(".") if word not in (size, pages, threads, "own")]
    return " ".join(words)


def _pages(rows: pd.DataFrame) -> str:
    return " and ".join(f"{kind} pages" for kind in sorted(rows["pages"].dropna().unique(), reverse=True))


def _cpus(row: dict[str, Any]) -> str:
    if row["threads"] == 1:
        return f"CPU {row['ping_cpu']}"
    return f"{row['threads']} CPUs, {row['ping_cpu']} to {row['pong_cpu']}, all together"


def _size(count: int) -> str:
    """Bytes in the largest unit that divides them: 24576 -> "24K"."""
    for unit in ("", "K", "M"):
        if count % 1024:
            return f"{count}{unit}"
        count //= 1024
    return f"{count}G"
