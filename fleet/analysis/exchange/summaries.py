"""List summaries, show their relations and matrices, or set them beside other summaries
and runs.
"""

from collections.abc import Iterator, Sequence

import pandas as pd

from fleet.analysis.base.text import (
    format_document,
    format_half_width,
    is_none,
    render_rich,
    to_records,
)
from fleet.analysis.compare.sides import read_tables, resolve_sides
from fleet.analysis.exchange import imports
from fleet.analysis.exchange.imports import (
    PREFIX,
    find_summary,
    load_all_summaries,
    name_benchmarks,
)
from fleet.analysis.reduce.load import drop_points, get_views
from fleet.analysis.reduce.matrices import lay_out_matrix
from fleet.analysis.views.heatmap import Canvas, draw_matrix
from fleet.errors import UsageError
from fleet.hostnames import join_names
from fleet.model import SHIPPED, View
from fleet.store.runs import Root
from fleet.text import format_command, format_count, one_line, table

ALL = "all pairs"
_KIND = ["benchmark", "variant", "relation"]


def render_summaries(root: Root, names: Sequence[str], canvas: Canvas) -> str:
    """Render summaries by name or CPU model, with or without `summary:`; without names,
    list all.
    """
    if not names:
        return list_summaries(load_all_summaries(root))
    return "\n\n".join(
        (
            render_summary(rows, canvas)
            if set(rows["summary"]) == {name}
            else render_cpu_model(name, rows)
        )
        for name, rows in _find_named(root, names)
    )


def render_cpu_model(cpu_model: str, rows: pd.DataFrame) -> str:
    """Render how the machines of a CPU model differ. rows: from
    `find_summaries_of_model`.
    """
    rows = imports.compute_medians(rows)
    machines = list(rows["summary"].unique())
    parts = [
        one_line(
            f"{cpu_model}: {format_count(len(machines), 'table')},"
            f" {join_names(machines)}"
        )
    ]
    for kind, part in rows.groupby(name_benchmarks(rows).str.rstrip("/"), sort=False):
        by = (
            part.groupby("relation")["median_ns"]
            .agg(["size", "median", "min", "max"])
            .sort_values("median")
        )
        lines = [
            (
                str(name),
                f"{size:.0f}",
                *map("{:.1f}".format, (median, low, high)),
                f"{high / low:.2f}",
            )
            for name, size, median, low, high in by.itertuples()
        ]
        titles = ("relation", "tables", "median", "min", "max", "max/min")
        title = (
            f"{one_line(str(kind))}: one-way latency in ns, the median of each table's"
            " pairs"
        )
        parts.append(f"{title}\n{table(titles, lines, right={*range(1, len(titles))})}")
    return "\n\n".join(parts)


def format_summaries_json(root: Root, names: Sequence[str]) -> str:
    """Format summaries as JSON, a row per pair. names: of summaries or CPU models; all
    if empty.
    """
    chosen = [rows for _, rows in _find_named(root, names)]
    return format_document(
        "summaries", pd.concat(chosen or [load_all_summaries(root)], ignore_index=True)
    )


def _find_named(root: Root, names: Sequence[str]) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield each name, without `summary:`, and the rows of its summary or of its CPU
    model's summaries.
    """
    if len(names) > 1 and not all(name.startswith(PREFIX) for name in names):
        command = format_command("fleet", "compare", *names)
        raise UsageError(
            f"runs and summaries are not shown together; {command} puts them side by"
            " side."
        )
    stored = imports.locate_summaries(root)
    for name in (name.removeprefix(PREFIX) for name in names):
        rows = (
            find_summary(root, name)
            if name in stored
            else imports.find_summaries_of_model(root, name)
        )
        yield name, rows if len(rows) else find_summary(root, name)


def list_summaries(rows: pd.DataFrame) -> str:
    """List each summary with its machine, and a line per benchmark and variant."""
    parts = [
        "Published or imported: one number a pair, no samples. ns: the median of the"
        " pairs.\nShow one with its matrix: fleet show summary:NAME. Beside a run:"
        " fleet compare RUN summary:NAME"
    ]
    for name, part in rows.groupby("summary", sort=False):
        (first,) = to_records(part.head(1))
        conditions = f" ({first['conditions']})" if first["conditions"] else ""
        machine = f"{first['cpu_model'] or 'unknown CPU model'}{conditions}"
        day = (
            f"imported {first['imported_utc']:%Y-%m-%d}"
            if first["imported_utc"]
            else "shipped"
        )
        number = f"{first['tool']}'s {first['estimator'] or 'number'}"
        lines = [
            one_line(
                f"{name}:"
                f" {', '.join(filter(None, (machine, first['os'], number, day)))}"
            )
        ]
        medians = part.groupby(name_benchmarks(part), sort=False)["latency_ns"].agg(
            ["size", "median"]
        )
        for kind, size, median in medians.itertuples():
            lines.append(f"  {one_line(kind):13}  {size:6} cells  {median:7.1f} ns")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def render_summary(rows: pd.DataFrame, canvas: Canvas) -> str:
    """Render a summary: its source, and for each benchmark its relations and its
    matrix.
    """
    ns = "{:.1f}".format
    (first,), order = to_records(rows.head(1)), imports.lay_out_summary(rows)
    machine = ", ".join(
        filter(None, (first[key] for key in ("cpu_model", "os", "conditions")))
    )
    guessed = ", guessed from these numbers" if imports.is_guessed(rows).any() else ""
    parts = [
        one_line(f"{PREFIX}{first['summary']}  {machine}".rstrip())
        + f"\nsummary, not raw: the {first['estimator'] or 'number'} of each pair, "
        + one_line(f"as {first['tool']} printed it; from {first['source']}")
    ]
    for kind, part in rows.groupby(name_benchmarks(rows), sort=False):
        groups = part.assign(half=imports.compute_half_widths(part)).groupby("relation")
        by = (
            groups["latency_ns"]
            .agg(["size", "median", "min", "max"])
            .assign(half=groups["half"].median())
        )
        has_half = bool(by["half"].notna().any())
        lines = [
            (
                relation,
                f"{size}",
                ns(median),
                *[format_half_width(half)] * has_half,
                ns(low),
                ns(high),
            )
            for relation, size, median, low, high, half in by.sort_values(
                "median"
            ).itertuples()
        ]
        titles = ("relation", "cells", "median", *["±95%"] * has_half, "min", "max")
        title = (
            f"{one_line(str(kind))}: one-way latency in ns, by what two CPUs"
            f" share{guessed}"
        )
        drawn = draw_matrix(
            lay_out_matrix(part, order.cpus, "latency_ns"), order, canvas
        )
        parts.append(f"{title}\n{table(titles, lines, right={*range(1, len(titles))})}")
        parts.append(
            render_rich(drawn, canvas.width, colour=canvas.colour).rstrip("\n")
        )
    return "\n\n".join(parts)


def tabulate_side_medians(root: Root, sides: Sequence[str]) -> pd.DataFrame:
    """Return a row per side, benchmark, variant and relation; the relation ALL is all
    pairs together.

    Columns: `side`, `runs` (0 for a summary), `of` (a pair's estimator), `benchmark`,
    `variant`, `relation`, `cells`, `median_ns`, `half` (median of the pairs' half
    intervals, relative; NaN without any) and `ratio` (to the same row of the first
    side, or NaN). Raises UsageError if a side is missing or has no pairs.
    """
    named = [text for text in sides if not text.startswith(PREFIX)]
    runs = {side.name: side for side in (resolve_sides(root, named) if named else [])}
    parts = []
    for text in sides:
        count, descriptions = 0, SHIPPED  # which are enough for summaries
        if text in runs:
            tables = read_tables(root, runs[text].runs["run_id"])
            count, descriptions = len(tables.runs), tables.descriptions
            pairs = drop_points(tables.pairs, descriptions).astype(
                dict.fromkeys(_KIND, "object")
            )
            by = pairs.groupby([*_KIND, "ping_cpu", "pong_cpu"], sort=False)
            rows = by.agg(
                latency_ns=("median_ns", "median"), half=("spread", "median")
            ).reset_index()
            rows = rows.assign(estimator="median")
        else:
            rows = find_summary(root, text)
            rows = rows.assign(half=imports.compute_half_widths(rows))
        rows = rows[get_views(rows["benchmark"], descriptions) == View.MATRIX]
        if rows.empty:
            raise UsageError(f"{text}: has no pairs of CPUs to compare.")
        every = pd.concat([rows, rows.assign(relation=ALL)])
        numbers = {
            "cells": ("latency_ns", "size"),
            "median_ns": ("latency_ns", "median"),
        }
        by = every.groupby(_KIND, sort=False, dropna=False)
        medians = by.agg(**numbers, half=("half", "median")).reset_index()
        medians = medians.sort_values(
            "variant", kind="stable", key=lambda column: column.astype(str)
        )
        parts.append(
            medians.assign(side=text, runs=count, of=rows["estimator"].iloc[0])
        )
    table_ = pd.concat(parts, ignore_index=True)
    first = table_[table_["side"] == sides[0]].set_index(_KIND)["median_ns"]
    kinds = pd.MultiIndex.from_frame(table_[_KIND])
    return table_.assign(
        ratio=table_["median_ns"].to_numpy() / first.reindex(kinds).to_numpy()
    )


def render_sides(rows: pd.DataFrame) -> str:
    """Render a table per benchmark, with the first side on top. rows: from
    `tabulate_side_medians`.
    """
    first = rows["side"].iloc[0]
    names = " beside ".join(rows["side"].unique())
    parts = [
        one_line(f"{names}: no verdict is possible, since a summary is of one run.")
    ]
    for benchmark, part in rows.groupby("benchmark", sort=False):
        if part.loc[part["relation"] != ALL, "relation"].nunique() == 1:
            part = part[part["relation"] != ALL]  # noqa: PLW2901
        lines = []
        for row in to_records(part):
            ratio = (
                "-"
                if is_none(row["ratio"]) or row["side"] == first
                else f"x{row['ratio']:.3f}"
            )
            source = format_count(row["runs"], "run") if row["runs"] else "summary"
            about = (
                row["side"],
                source,
                row["variant"] or "-",
                row["of"] or "-",
                row["relation"],
            )
            lines.append(
                (
                    *about,
                    str(row["cells"]),
                    f"{row['median_ns']:.1f}",
                    format_half_width(row["half"]),
                    ratio,
                )
            )
        titles = (
            "side",
            "from",
            "variant",
            "of",
            "relation",
            "cells",
            "median",
            "±95%",
            "ratio",
        )
        parts.append(
            f"{benchmark}: one-way latency in"
            f" ns\n{table(titles, lines, right={5, 6, 7, 8})}"
        )
    within_run = "±95%: half the interval of the median pair within its run; "
    parts.append(
        one_line(
            f"{within_run}ratio: to {first}, only of the same variant and relation."
        )
    )
    return "\n\n".join(parts)
