"""Describes summaries and runs side by side. A summary has one number a pair or a point, so no verdict.

A published point has our name without its pages. Points of a ladder match the nearest size, at most a factor
of 1.5 away; points of all CPUs match the points of most CPUs of the run.
"""

import math
import re
from collections.abc import Sequence
from typing import Any

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
from fleet.text import one_line, table

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
        lines = [
            (
                row["side"],
                f"{row['runs']} run{'s' * (row['runs'] != 1)}" if row["runs"] else "summary",
                f"{row['variant'] or '-'}",
                row["of"] or "-",
                row["relation"],
                str(row["cells"]),
                f"{row['median_ns']:.1f}",
                "-" if is_none(row["ratio"]) or row["side"] == first else f"x{row['ratio']:.3f}",
            )
            for row in records(part)
        ]
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
    return any(len(_published(text)) for text in texts)


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
    published = _published(summaries[0])
    parts = []
    for side in sides(root, named):
        measured = _points_measured(root, side.runs)
        rows = [row for point in records(published) for row in _rows_of(point, measured)]
        if not rows:
            raise UsageError(
                f"{side.name}: has none of the points of {summaries[0]}; "
                f"measure {', '.join(published['benchmark'].unique())}."
            )
        parts.append(pd.DataFrame(rows).assign(side=side.name))
    found = pd.concat(parts, ignore_index=True)
    return found[[*COLUMNS, "variant", "relation", "at", "number", "ratio"]]


def beside_points_text(rows: pd.DataFrame) -> str:
    """For people: a table per benchmark, each published number with those of the runs behind it."""
    names = " beside ".join((*rows["side"].unique(), f"{PREFIX}{rows['summary'].iloc[0]}"))
    parts = [one_line(f"{names}: no verdict is possible, since a summary has one number a point.")]
    several = rows["side"].nunique() > 1
    for benchmark, part in rows.groupby("benchmark", sort=False):
        lines = [_point_line(row, several=several) for row in records(part)]
        titles = ("point", "published", "unit", "", "number", "ratio", "of", "relation", "at")
        parts.append(f"{benchmark}\n{table(titles, lines, right={1, 4, 5})}")
    parts.append(
        "ratio: of the run's number to the published one; of GB/s and Gop/s more is better, of us less. "
        "at: the run's point, where it is another."
    )
    return "\n\n".join(parts)


def _point_line(row: dict[str, Any], *, several: bool) -> tuple[str, ...]:
    return (
        row["point"],
        f"{row['published']:g}",
        row["unit"],
        "" if is_none(row["conditions"]) else row["conditions"],
        f"{row['number']:.4g}",
        f"x{row['ratio']:.3f}",
        f"{row['side']}, {row['variant']}" if several else row["variant"],
        row["relation"],
        row["at"] if row["at"] != row["point"] else "",
    )


def _published(text: str) -> pd.DataFrame:
    return published_points(text.removeprefix(PREFIX) if text.startswith(PREFIX) else "")


def _points_measured(root: Root, runs: pd.DataFrame) -> pd.DataFrame:
    """A row per kind and point of the runs: `unit_ns` of one CPU, `size` and `threads` from its name."""
    pairs = load_pairs(root, run_id=runs["run_id"].tolist())
    pairs = pairs.assign(point=pairs["point"].astype("str")).dropna(subset=["point"])
    pairs = pairs.astype(dict.fromkeys(_KIND, "str"))
    together = pairs["benchmark"].isin(["bandwidth", "gemm"])  # whose time is that of all CPUs
    pairs = pairs.assign(unit_ns=pairs["median_ns"] * pairs["threads"].where(together, 1))
    rows = pairs.groupby([*_KIND, "point"], sort=False)["unit_ns"].median().reset_index()
    return rows.assign(
        threads=rows["point"].map(_threads), size=rows["point"].map(_size), name=rows["point"].map(_name)
    )


def _rows_of(point: dict[str, Any], measured: pd.DataFrame) -> list[dict[str, Any]]:
    rows = measured[measured["benchmark"] == point["benchmark"]]
    rows = rows[rows["name"] == _name(point["point"])]
    most = rows["threads"].max()
    rows = rows[rows["threads"] == (1 if _threads(point["point"]) == 1 else most)]
    if _threads(point["point"]) > 1:
        rows = rows[rows["threads"] > 1]
    found = []
    for (variant, relation), kind in rows.groupby(["variant", "relation"], sort=False):
        near = _nearest(kind, _size(point["point"]))
        if near is None:
            continue
        times = near["unit_ns"] / point["unit_ns"]
        ratio = times if point["unit"] == "us" else 1 / times
        found.append(
            {name: point[name] for name in ("summary", "benchmark", "point", "conditions", "unit")}
            | {"published": point["value"], "variant": variant, "relation": relation, "ratio": ratio}
            | {"at": _PAGES.sub("", near["point"]), "number": point["value"] * ratio}
        )
    return found


def _nearest(rows: pd.DataFrame, size: float) -> dict[str, Any] | None:
    """The row of the nearest size; the first where sizes play no part. None: none is near."""
    if math.isnan(size):
        return dict(records(rows)[0])
    apart = {row["point"]: abs(math.log(row["size"] / size)) for row in records(rows) if row["size"] > 0}
    best = min(apart, key=lambda name: apart[name], default=None)
    if best is None or apart[best] > math.log(_NEAREST):
        return None
    return next(dict(row) for row in records(rows) if row["point"] == best)


def _threads(point: str) -> int:
    found = _THREADS.search(point)
    return int(found[1]) if found else 1


def _size(point: str) -> float:
    """The bytes of a ladder's point, NaN of others."""
    found = _SIZE.search(point) if point.startswith(("read.", "write.")) else None
    return int(found[1]) * _UNITS[found[2]] if found else math.nan


def _name(point: str) -> str:
    """What must be the same: the name without pages and threads, and of a ladder without its size."""
    name = _THREADS.sub("", _PAGES.sub("", point))
    return name if math.isnan(_size(point)) else _SIZE.sub("", name)
