"""Describes summaries and runs side by side. A summary has one number a pair or a point, so no verdict.

A published point has our name without its pages. Points of a ladder match the nearest size, at most a factor
of 1.5 away; points of all CPUs match the points of most CPUs of the run.
"""

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.compare.comparison import load_run_pairs
from fleet.analysis.compare.sides import sides
from fleet.analysis.exchange.imports import PREFIX, find_summary, published_points
from fleet.analysis.reduce.load import view_of
from fleet.analysis.reduce.pairs import load_pairs
from fleet.analysis.views.text import is_none, records
from fleet.errors import UsageError
from fleet.model import View
from fleet.store.runs import Root
from fleet.text import counted, one_line, table

ALL = "all pairs"
_KIND = ["benchmark", "variant", "relation"]
_NEAREST = 1.5  # a size at most so many times another is near it
_SIZE = re.compile(r"(\d+)([KMG])")
_THREADS = re.compile(r"\.x(\d+)$")
_PAGES = re.compile(r"\.(huge|base)\b")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
COLUMNS = ("summary", "side", "benchmark", "point", "conditions", "published", "unit")


def is_beside(texts: Sequence[str]) -> bool:
    """Whether one of the sides is a summary."""
    return any(text.startswith(PREFIX) for text in texts)


def beside(root: Root, texts: Sequence[str]) -> pd.DataFrame:
    """A row per side, benchmark, variant and relation, all pairs together last.

    Columns: `side`, `runs` (0 for a summary), `of` (how a pair's number is made), `benchmark`, `variant`,
    `relation`, `cells`, `median_ns`, and `ratio` to the first side where it has the same kind, else NaN. A
    run's number is the median of its bursts' medians, of several runs the median. Raises UsageError for a
    side that is not there.
    """
    named = [text for text in texts if not text.startswith(PREFIX)]
    runs = {side.name: side for side in (sides(root, named) if named else [])}
    parts = []
    for text in texts:
        own = runs[text].runs if text in runs else pd.DataFrame()
        rows = _of_runs(root, own) if text in runs else find_summary(root, text)
        rows = rows[rows["benchmark"].map(lambda name: view_of(str(name)) is View.MATRIX).astype(bool)]
        if rows.empty:
            raise UsageError(f"{text}: has no pairs of CPUs to compare.")
        every = pd.concat([rows, rows.assign(relation=ALL)])
        by = every.groupby(_KIND, sort=False, dropna=False)["latency_ns"]
        found = by.agg(cells="size", median_ns="median").reset_index()
        found = found.sort_values("variant", kind="stable", key=lambda column: column.astype(str))
        parts.append(found.assign(side=text, runs=len(own), of=rows["estimator"].iloc[0]))
    table_ = pd.concat(parts, ignore_index=True)
    first = table_[table_["side"] == texts[0]].set_index(_KIND)["median_ns"]
    kinds = pd.MultiIndex.from_frame(table_[_KIND])
    return table_.assign(ratio=table_["median_ns"].to_numpy() / first.reindex(kinds).to_numpy())


def beside_text(rows: pd.DataFrame) -> str:
    """For people: a table per benchmark, the first side above."""
    first = rows["side"].iloc[0]
    names = " beside ".join(rows["side"].unique())
    parts = [one_line(f"{names}: no verdict is possible, since a summary has one number a pair.")]
    for benchmark, part in rows.groupby("benchmark", sort=False):
        if part.loc[part["relation"] != ALL, "relation"].nunique() == 1:
            part = part[part["relation"] != ALL]  # noqa: PLW2901
        lines = []
        for row in records(part):
            ratio = "-" if is_none(row["ratio"]) or row["side"] == first else f"x{row['ratio']:.3f}"
            source = counted(row["runs"], "run") if row["runs"] else "summary"
            about = (row["side"], source, row["variant"] or "-", row["of"] or "-", row["relation"])
            lines.append((*about, str(row["cells"]), f"{row['median_ns']:.1f}", ratio))
        titles = ("side", "from", "variant", "of", "relation", "cells", "median", "ratio")
        parts.append(f"{benchmark}: one-way latency in ns\n{table(titles, lines, right={5, 6, 7})}")
    parts.append(one_line(f"ratio: to {first}, only of the same variant and relation."))
    return "\n\n".join(parts)


def _of_runs(root: Root, runs: pd.DataFrame) -> pd.DataFrame:
    pairs = load_run_pairs(root, runs).astype(dict.fromkeys(_KIND, "object"))
    numbers = pairs.groupby([*_KIND, "ping_cpu", "pong_cpu"], sort=False)["median_ns"].median()
    return numbers.reset_index(name="latency_ns").assign(estimator="median")


def has_points(texts: Sequence[str]) -> bool:
    """Whether one of the sides is a summary of points, not of pairs."""
    return any(len(published_points(text.removeprefix(PREFIX))) for text in texts if text.startswith(PREFIX))


def beside_points(root: Root, texts: Sequence[str]) -> pd.DataFrame:
    """A row per published point, side, variant and relation that measured the same or a near point.

    Columns: COLUMNS, then `variant`, `relation`, `at` (the point of the run), `number` (in the published
    unit) and `ratio` to the published number. A run's number is the median of its pairs, of several runs the
    median; of several CPUs that of one of them. Raises UsageError for a side that is not there, or has none.
    """
    named = [text for text in texts if not text.startswith(PREFIX)]
    summaries = [text for text in texts if text.startswith(PREFIX)]
    if len(summaries) != 1 or not named:
        raise UsageError("a summary of points is laid beside runs: fleet compare RUN… summary:NAME.")
    published = published_points(summaries[0].removeprefix(PREFIX))
    parts = []
    for side in sides(root, named):
        measured = _points_measured(root, side.runs)
        rows = pd.DataFrame([row for point in records(published) for row in _rows_of(point, measured)])
        if rows.empty:
            raise UsageError(
                f"{side.name}: has none of the points of {summaries[0]}; "
                f"measure {', '.join(published['benchmark'].unique())}."
            )
        parts.append(rows.assign(side=side.name))
    return pd.concat(parts, ignore_index=True)[[*COLUMNS, "variant", "relation", "at", "number", "ratio"]]


def beside_points_text(rows: pd.DataFrame) -> str:
    """For people: a table per benchmark, each published number with those of the runs behind it."""
    names = " beside ".join((*rows["side"].unique(), f"{PREFIX}{rows['summary'].iloc[0]}"))
    parts = [one_line(f"{names}: no verdict is possible, since a summary has one number a point.")]
    several = rows["side"].nunique() > 1
    for benchmark, part in rows.groupby("benchmark", sort=False):
        lines = [_point_line(row, several=several) for row in records(part)]
        titles = ("point", "published", "number", "ratio", "of", "relation", "at")
        parts.append(f"{benchmark}\n{table(titles, lines, right={2, 3})}")
    parts.append(
        "ratio: of the run's number to the published one; of GB/s and Gop/s more is better, of us less. "
        "at: the run's point, where it is another; what is published of it."
    )
    return "\n\n".join(parts)


def _point_line(row: dict[str, Any], *, several: bool) -> tuple[str, ...]:
    conditions = "" if is_none(row["conditions"]) else row["conditions"]
    return (
        row["point"],
        f"{row['published']:>7g} {row['unit']}",
        f"{row['number']:.4g}",
        f"x{row['ratio']:.3f}",
        f"{row['side']}, {row['variant']}" if several else row["variant"],
        row["relation"],
        "; ".join(filter(None, ("" if row["at"] == row["point"] else row["at"], conditions))),
    )


def _points_measured(root: Root, runs: pd.DataFrame) -> pd.DataFrame:
    """A row per kind and point of the runs: `unit_ns` of one CPU, and what `_parts` makes of its name."""
    pairs = load_pairs(root, run_id=runs["run_id"].tolist())
    pairs = pairs.assign(point=pairs["point"].astype("str")).dropna(subset=["point"])
    pairs = pairs.astype(dict.fromkeys(_KIND, "str"))
    together = pairs["benchmark"].isin(["bandwidth", "gemm"])  # whose time is that of all CPUs
    pairs = pairs.assign(unit_ns=pairs["median_ns"] * pairs["threads"].where(together, 1))
    rows = pairs.groupby([*_KIND, "point"], sort=False)["unit_ns"].median().reset_index()
    rows[["name", "threads", "size"]] = [_parts(point) for point in rows["point"]]
    return rows


def _rows_of(point: dict[str, Any], measured: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The rows of one published point: of each variant and relation that measured the same or a near one."""
    name, threads, size = _parts(point["point"])
    rows = measured[(measured["benchmark"] == point["benchmark"]) & (measured["name"] == name)]
    if threads > 1:
        rows = rows[rows["threads"] > 1]
    rows = rows[rows["threads"] == (1 if threads == 1 else rows["threads"].max())]
    apart = np.abs(np.log((rows["size"] / size).astype(float)))
    near = rows.assign(apart=apart.fillna(0.0) if math.isnan(size) else apart.fillna(math.inf))
    near = near[near["apart"] <= math.log(_NEAREST)].sort_values("apart", kind="stable")
    for variant, relation in rows[["variant", "relation"]].drop_duplicates().itertuples(index=False):
        found = near[(near["variant"] == variant) & (near["relation"] == relation)]
        if len(found):
            times = found["unit_ns"].iloc[0] / point["unit_ns"]
            ratio = times if point["unit"] == "us" else 1 / times
            yield {
                **{key: point[key] for key in ("summary", "benchmark", "point", "conditions", "unit")},
                "published": point["value"],
                "variant": variant,
                "relation": relation,
                "ratio": ratio,
                "at": _PAGES.sub("", found["point"].iloc[0]),
                "number": point["value"] * ratio,
            }


def _parts(point: str) -> tuple[str, int, float]:
    """What must be the same, the number of threads, and of a ladder's point the bytes, NaN of others."""
    name, threads = _THREADS.sub("", _PAGES.sub("", point)), _THREADS.search(point)
    size = _SIZE.search(point) if point.startswith(("read.", "write.")) else None
    count = int(threads[1]) if threads else 1
    return (_SIZE.sub("", name), count, int(size[1]) * _UNITS[size[2]]) if size else (name, count, math.nan)
