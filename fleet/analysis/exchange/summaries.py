"""Render summaries: the list of them, or some with their relations and matrices."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from fleet.analysis.base.text import format_document, format_half_width, render_rich
from fleet.analysis.exchange.imports import (
    PREFIX,
    compute_half_widths,
    find_summary,
    is_guessed,
    lay_out_summary,
    list_names,
    load_all_summaries,
    load_model,
)
from fleet.analysis.reduce.matrices import grid
from fleet.analysis.views.heatmap import Canvas, draw_matrix
from fleet.errors import UsageError
from fleet.hostnames import join_names
from fleet.store.runs import Root
from fleet.text import format_count, one_line, table


def render_summaries(root: Root, names: Sequence[str], canvas: Canvas) -> str:
    """Render these summaries, named with or without `summary:`; without names, list all."""
    if not names:
        return render_list(load_all_summaries(root))
    stored, parts = list_names(root), []
    for name in _require_summaries(names):
        model = name.removeprefix(PREFIX)
        if model not in stored and len(rows := load_model(root, model)):
            parts.append(render_model(model, rows))
        else:
            parts.append(render_summary(find_summary(root, name), canvas))
    return "\n\n".join(parts)


def render_model(cpu_model: str, rows: pd.DataFrame) -> str:
    """Render how the machines of a CPU model differ. rows: from `load_model`."""
    machines = list(rows["summary"].unique())
    parts = [one_line(f"{cpu_model}: {format_count(len(machines), 'table')}, {join_names(machines)}")]
    for _, part in rows.groupby(["benchmark", "variant"], sort=False):
        by = part.groupby("relation")["median_ns"].agg(["size", "median", "min", "max"]).sort_values("median")
        lines = [
            (str(name), f"{size:.0f}", *map("{:.1f}".format, (median, low, high)), f"{high / low:.2f}")
            for name, size, median, low, high in by.itertuples()
        ]
        titles = ("relation", "tables", "median", "min", "max", "max/min")
        title = f"{_name_kind(part.iloc[0])}: one-way latency in ns, the median of each table's pairs"
        parts.append(f"{title}\n{table(titles, lines, right={*range(1, len(titles))})}")
    return "\n\n".join(parts)


def format_summaries_json(root: Root, names: Sequence[str]) -> str:
    """Format a row per pair of these summaries, or of all, as JSON."""
    chosen = [find_summary(root, name) for name in _require_summaries(names)]
    return format_document("summaries", pd.concat(chosen or [load_all_summaries(root)], ignore_index=True))


def _require_summaries(names: Sequence[str]) -> Sequence[str]:
    if len(names) > 1 and not all(name.startswith(PREFIX) for name in names):
        command = f"fleet compare {' '.join(names)}"
        raise UsageError(f"runs and summaries are not shown together; {command} lays them beside.")
    return names


def render_list(rows: pd.DataFrame) -> str:
    """List each summary with its machine, and a line per benchmark and variant."""
    parts = [
        "Published or imported: one number a pair, no samples. ns: the median of the pairs.\n"
        "Show one with its matrix: fleet show summary:NAME. Beside a run: fleet compare RUN summary:NAME"
    ]
    for name, part in rows.groupby("summary", sort=False):
        first = _decode_texts(part.iloc[0])
        conditions = f" ({first['conditions']})" if first["conditions"] else ""
        machine = f"{first['cpu_model'] or 'unknown CPU model'}{conditions}"
        day = f"imported {first['imported_utc']:%Y-%m-%d}" if first["imported_utc"] else "shipped"
        number = f"{first['tool']}'s {first['estimator'] or 'number'}"
        lines = [one_line(f"{name}: {', '.join(filter(None, (machine, first['os'], number, day)))}")]
        for _, kind in part.groupby(["benchmark", "variant"], sort=False, dropna=False):
            median = kind["latency_ns"].median()
            lines.append(f"  {_name_kind(kind.iloc[0]):13}  {len(kind):6} cells  {median:7.1f} ns")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def render_summary(rows: pd.DataFrame, canvas: Canvas) -> str:
    """Render a summary: its source, and for each benchmark its relations and its matrix."""
    first, order = _decode_texts(rows.iloc[0]), lay_out_summary(rows)
    machine = ", ".join(filter(None, (first[key] for key in ("cpu_model", "os", "conditions"))))
    guessed = ", guessed from these numbers" if is_guessed(rows).any() else ""
    parts = [
        one_line(f"{PREFIX}{first['summary']}  {machine}".rstrip())
        + f"\nsummary, not raw: the {first['estimator'] or 'number'} of each pair, "
        + one_line(f"as {first['tool']} printed it; from {first['source']}")
    ]
    for _, part in rows.groupby(["benchmark", "variant"], sort=False, dropna=False):
        groups = part.assign(half=compute_half_widths(part)).groupby("relation")
        by = groups["latency_ns"].agg(["size", "median", "min", "max"]).assign(half=groups["half"].median())
        columns = ["median", *(["half"] if by["half"].notna().any() else []), "min", "max"]
        lines = [
            (str(relation), str(int(row["size"])), *(_NUMBERS[column][1](row[column]) for column in columns))
            for relation, row in by.sort_values("median").iterrows()
        ]
        titles = ("relation", "cells", *(_NUMBERS[column][0] for column in columns))
        title = f"{_name_kind(part.iloc[0])}: one-way latency in ns, by what two CPUs share{guessed}"
        drawn = draw_matrix(grid(part, order.cpus, "latency_ns"), order, canvas)
        parts.append(f"{title}\n{table(titles, lines, right={*range(1, len(titles))})}")
        parts.append(render_rich(drawn, canvas.width, colour=canvas.colour).rstrip("\n"))
    return "\n\n".join(parts)


_NUMBERS = {name: (name, "{:.1f}".format) for name in ("median", "min", "max")} | {
    "half": ("±95%", format_half_width)
}


def _name_kind(row: "pd.Series[Any]") -> str:
    return one_line(f"{row['benchmark']}/{row['variant'] if pd.notna(row['variant']) else ''}".rstrip("/"))


def _decode_texts(row: "pd.Series[Any]") -> dict[str, Any]:
    return {str(name): None if pd.isna(value) else value for name, value in row.items()}
