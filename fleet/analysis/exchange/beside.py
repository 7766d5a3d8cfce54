"""Lay summaries and runs beside each other. A summary is of one run, so there is no verdict."""

from collections.abc import Sequence

import pandas as pd

from fleet.analysis.base.text import format_half_width, is_none, to_records
from fleet.analysis.compare.sides import read_tables, resolve_sides
from fleet.analysis.exchange.imports import PREFIX, compute_half_widths, find_summary
from fleet.analysis.reduce.load import drop_points
from fleet.errors import UsageError
from fleet.model import SHIPPED, View
from fleet.store.runs import Root
from fleet.text import format_count, one_line, table

ALL = "all pairs"
_KIND = ["benchmark", "variant", "relation"]


def lay_out_beside(root: Root, texts: Sequence[str]) -> pd.DataFrame:
    """Lay out a row per side, benchmark, variant and relation, all pairs together last.

    Columns: `side`, `runs` (0 for a summary), `of` (how a pair's number is made), `benchmark`, `variant`,
    `relation`, `cells`, `median_ns`, `half` (the median half width of a pair's interval, a share; NaN: none),
    and `ratio` to the first side where it has the same kind, else NaN.
    Raises UsageError for a side that is not there.
    """
    named = [text for text in texts if not text.startswith(PREFIX)]
    runs = {side.name: side for side in (resolve_sides(root, named) if named else [])}
    parts = []
    for text in texts:
        count, descriptions = 0, SHIPPED  # which are enough for summaries
        if text in runs:
            tables = read_tables(root, runs[text].runs["run_id"])
            count, descriptions = len(tables.runs), tables.descriptions
            pairs = drop_points(tables.pairs, descriptions).astype(dict.fromkeys(_KIND, "object"))
            numbers = pairs.groupby([*_KIND, "ping_cpu", "pong_cpu"], sort=False)
            rows = numbers.agg(latency_ns=("median_ns", "median"), half=("spread", "median")).reset_index()
            rows = rows.assign(estimator="median")
        else:
            rows = find_summary(root, text)
            rows = rows.assign(half=compute_half_widths(rows))
        names = [name for name in rows["benchmark"].unique() if descriptions[name].view is View.MATRIX]
        rows = rows[rows["benchmark"].isin(names)]
        if rows.empty:
            raise UsageError(f"{text}: has no pairs of CPUs to compare.")
        every = pd.concat([rows, rows.assign(relation=ALL)])
        by = every.groupby(_KIND, sort=False, dropna=False)
        numbers_of = {"median_ns": ("latency_ns", "median"), "half": ("half", "median")}
        medians = by.agg(cells=("latency_ns", "size"), **numbers_of).reset_index()
        medians = medians.sort_values("variant", kind="stable", key=lambda column: column.astype(str))
        parts.append(medians.assign(side=text, runs=count, of=rows["estimator"].iloc[0]))
    table_ = pd.concat(parts, ignore_index=True)
    first = table_[table_["side"] == texts[0]].set_index(_KIND)["median_ns"]
    kinds = pd.MultiIndex.from_frame(table_[_KIND])
    return table_.assign(ratio=table_["median_ns"].to_numpy() / first.reindex(kinds).to_numpy())


def render_beside(rows: pd.DataFrame) -> str:
    """Render a table per benchmark, the first side above."""
    first = rows["side"].iloc[0]
    names = " beside ".join(rows["side"].unique())
    parts = [one_line(f"{names}: no verdict is possible, since a summary is of one run.")]
    for benchmark, part in rows.groupby("benchmark", sort=False):
        if part.loc[part["relation"] != ALL, "relation"].nunique() == 1:
            part = part[part["relation"] != ALL]  # noqa: PLW2901
        lines = []
        for row in to_records(part):
            ratio = "-" if is_none(row["ratio"]) or row["side"] == first else f"x{row['ratio']:.3f}"
            source = format_count(row["runs"], "run") if row["runs"] else "summary"
            about = (row["side"], source, row["variant"] or "-", row["of"] or "-", row["relation"])
            lines.append(
                (*about, str(row["cells"]), f"{row['median_ns']:.1f}", format_half_width(row["half"]), ratio)
            )
        titles = ("side", "from", "variant", "of", "relation", "cells", "median", "±95%", "ratio")
        parts.append(f"{benchmark}: one-way latency in ns\n{table(titles, lines, right={5, 6, 7, 8})}")
    within_run = "±95%: half the interval of the median pair within its run; "
    parts.append(one_line(f"{within_run}ratio: to {first}, only of the same variant and relation."))
    return "\n\n".join(parts)
