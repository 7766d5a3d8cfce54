"""Describes summaries and runs side by side. A summary has one number a pair, so there is no verdict."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from fleet.analysis.compare.comparison import load_run_pairs
from fleet.analysis.compare.sides import sides
from fleet.analysis.exchange.imports import PREFIX, find_summary
from fleet.analysis.reduce.load import view_of
from fleet.analysis.views.text import is_none, json_text, records
from fleet.errors import UsageError
from fleet.model import View
from fleet.text import one_line, table

ALL = "all pairs"
_KIND = ["benchmark", "variant", "relation"]


def is_beside(texts: Sequence[str]) -> bool:
    """Whether one of the sides is a summary."""
    return any(text.startswith(PREFIX) for text in texts)


def beside(root: str | Path, texts: Sequence[str]) -> pd.DataFrame:
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
        rows = _of_summary(root, text) if text.startswith(PREFIX) else _of_runs(root, runs[text].runs)
        rows = rows[rows["benchmark"].map(lambda name: view_of(str(name)) is View.MATRIX).astype(bool)]
        if rows.empty:
            raise UsageError(f"{text}: has no pairs of CPUs to compare.")
        every = pd.concat([rows, rows.assign(relation=ALL)])
        by = every.groupby(_KIND, sort=False, dropna=False)["latency_ns"]
        found = by.agg(cells="size", median_ns="median").reset_index()
        found = found.sort_values("variant", kind="stable", key=lambda column: column.astype(str))
        parts.append(found.assign(side=text, runs=rows.attrs["runs"], of=rows.attrs["of"]))
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
                one_line(row["side"]),
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


def beside_json(rows: pd.DataFrame) -> str:
    """The rows as a list of objects."""
    return json_text(records(rows))


def beside_csv(rows: pd.DataFrame) -> str:
    """The rows as CSV."""
    text: str = rows.to_csv(index=False)
    return text.rstrip("\n")


def _of_summary(root: str | Path, text: str) -> pd.DataFrame:
    rows = find_summary(root, text)[[*_KIND, "latency_ns", "estimator"]]
    return _with_origin(rows, runs=0, of=rows["estimator"].iloc[0])


def _of_runs(root: str | Path, runs: pd.DataFrame) -> pd.DataFrame:
    pairs = load_run_pairs(root, runs)
    pairs = pairs.astype(dict.fromkeys(_KIND, "object"))
    numbers = pairs.groupby([*_KIND, "ping_cpu", "pong_cpu"], sort=False)["median_ns"].median()
    return _with_origin(numbers.reset_index(name="latency_ns"), runs=len(runs), of="median")


def _with_origin(rows: pd.DataFrame, *, runs: int, of: str) -> pd.DataFrame:
    rows.attrs.update(runs=runs, of=of)
    return rows
