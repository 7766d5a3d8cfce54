"""The products of a report: a table for each number of CPUs, and the roofline of its own numbers."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from fleet.analysis.reduce.ladders import plateaus
from fleet.analysis.reduce.load import view_of
from fleet.analysis.report import figures
from fleet.analysis.views.gemm import points_in_order, with_shares
from fleet.analysis.views.ladders import cpus_text
from fleet.analysis.views.text import is_none
from fleet.model import View

_WIDTH, _HEIGHT = 340, 320  # CSS pixels; as wide as a telephone shows without scrolling
_FROM_MEMORY = ("stream", "stream.prefetch", "deep")
_NONE = "-"
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195")


@dataclass(frozen=True, slots=True)
class Products:
    """What one number of CPUs multiplies in a second; lines are points, titles the variants.

    roofs: by level of the memory what all these CPUs read together, in GB/s; empty where bandwidth was not
    measured. rows: as `with_shares` returns them, medians over CPUs alike;
    of several sizes the largest.
    """

    cpus: str
    titles: tuple[str, ...]
    lines: list[tuple[str, ...]]
    roofs: dict[str, float]
    rows: pd.DataFrame


def products_of(pairs: pd.DataFrame, cpus: pd.DataFrame) -> list[Products]:
    """The products of one run, of one CPU first. pairs, cpus: its rows of these tables."""
    if not any(view_of(name) is View.PRODUCTS for name in pairs["benchmark"].unique()):
        return []
    return list(_products(with_shares(pairs), plateaus(pairs, cpus)))


def _products(rows: pd.DataFrame, levels: pd.DataFrame) -> Iterator[Products]:
    one_each = ["variant", "operation", "ping_cpu", "pong_cpu", "threads"]
    rows = rows.sort_values("bytes", na_position="first", kind="stable").drop_duplicates(
        one_each, keep="last"
    )
    rows = rows.sort_index()
    for threads, part in rows.groupby("threads", sort=True):
        numbers = {name: (name, "median") for name in ("gops", "share", "per_cycle")}
        alike = part.groupby(["variant", "operation", "shape"], sort=False).agg(**numbers).reset_index()
        points = points_in_order(part)
        variants = list(dict.fromkeys(alike["variant"]))
        together = int(float(str(threads)))
        columns = [
            column
            for variant in variants
            for column in _columns(alike[alike["variant"] == variant], variant, points, together)
        ]
        titles, *lines = zip(("point", "shape", *points), *columns, strict=True)
        yield Products(cpus_text(part), titles, lines, _roofs(levels, together), alike)


def _columns(
    rows: pd.DataFrame, variant: str, points: Sequence[str], threads: int
) -> Iterator[tuple[str, ...]]:
    """The numbers of a variant, and of several CPUs those of each, below a title and the shape."""
    of_points = [rows[rows["operation"] == point] for point in points]
    yield variant, rows["shape"].max(), *(_cell(row) for row in of_points)
    if threads > 1:
        yield "a CPU", "", *(gops_text(row["gops"].median() / threads) for row in of_points)


def _cell(rows: pd.DataFrame) -> str:
    if not len(rows):
        return _NONE
    row = rows.iloc[0]
    shown = is_none(row["share"]) or row["operation"] == "peak"
    return gops_text(row["gops"]) if shown else f"{gops_text(row['gops'])} ({row['share']:.0%})"


def gops_text(gops: float) -> str:
    """A number of Gop/s as people read it; - where it is not known."""
    if is_none(gops):
        return _NONE
    return f"{gops:.1f}" if gops < 1000 else f"{gops:.0f}"


def _roofs(levels: pd.DataFrame, threads: int) -> dict[str, float]:
    """By level, nearest first, the fastest that so many CPUs read, in GB/s."""
    read = levels[
        (levels["benchmark"] == "bandwidth") & (levels["setting"] == "read") & (levels["threads"] == threads)
    ]
    fastest = read.groupby("level")["median_ns"].min()
    return {str(level): float(1 / ns) for level, ns in fastest.sort_values().items()}


def roofline(reading: Any, products: Products, place: int) -> Markup:
    """The figure: how fast the units multiply, by the operations that each byte from memory is good for."""
    roofs = "; ".join(f"{level} {rate:.0f} GB/s" for level, rate in products.roofs.items())
    what = f"Roofline of {reading.name}, {products.cpus}: Gop/s by operations per byte; {roofs}"
    names, *columns = zip(products.titles, *products.lines, strict=True)
    lines = [
        "; ".join(f"{name} {cell}" for name, cell in zip(("variant", *names[1:]), column, strict=True))
        for column in columns
        if column[0] in set(products.rows["variant"])
    ]
    return figures.draw(
        f"{reading.anchor}-roofline-{place}",
        ". ".join([what, *lines]),
        (_WIDTH, _HEIGHT),
        partial(_draw, products),
        margins=(56, 42, 12, 22 + 18 * -(-products.rows["variant"].nunique() // 2)),
    )


def _draw(products: Products, axes: Axes) -> None:
    top = float(products.rows["gops"].max())
    left, right = 0.1, 2000.0
    reach = np.geomspace(left, right, 200)
    axes.set(xscale="log", yscale="log", xlim=(left, right), ylim=(top / 20_000, top * 2))
    for level, rate in products.roofs.items():
        below = reach[reach * rate <= top * 1.3]
        axes.plot(below, below * rate, color="#888888", linewidth=1)
        along = {"rotation": np.degrees(np.arctan(rate)), "rotation_mode": "anchor"}
        axes.text(left * 1.3, left * 1.7 * rate, level, fontsize=9, transform_rotates_text=True, **along)
    for colour, variant in zip(_COLOURS * 3, dict.fromkeys(products.rows["variant"]), strict=False):
        rows = products.rows[products.rows["variant"] == variant]
        peak = rows[rows["operation"] == "peak"]["gops"]
        if len(peak):
            start = float(peak.iloc[0]) / max(products.roofs.values(), default=math.inf)
            axes.plot(
                [max(start, left), right],
                [float(peak.iloc[0])] * 2,
                color=colour,
                linewidth=1.6,
                label=variant,
            )
        points = rows[rows["operation"].isin(_FROM_MEMORY)]
        axes.plot(
            [_intensity(row) for row in points.to_dict("records")],
            points["gops"],
            linestyle="none",
            marker="o",
            markersize=5,
            color=colour,
        )
    axes.set(xlabel="operations per byte from memory", ylabel="Gop/s")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(NullFormatter())
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.02), ncols=2, frameon=False, borderaxespad=0.2)


def _intensity(row: dict[Any, Any]) -> float:
    """Operations of a product for each byte that is new in it: B, and where all streams A as well."""
    m, n, k = map(int, row["shape"].split("x"))
    size = 2 if "bf" in row["variant"] else 1 if row["variant"].endswith(("int8", "vnni", "i8mm")) else 4
    moved = size * k * (n + m if row["operation"] == "deep" else n)
    return 2 * m * n * k / moved
