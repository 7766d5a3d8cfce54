"""Text of `fleet runs --relation`: the latency of a relation, run by run."""

from collections.abc import Container, Sequence
from datetime import UTC
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.reduce.burst_levels import find_main_runs
from fleet.analysis.reduce.comparison_rows import are_pairs
from fleet.analysis.reduce.interval import compute_geometric_mean, half_width_between_runs
from fleet.analysis.views.overview import since_text
from fleet.model import SHIPPED, Descriptions
from fleet.store import RunSummary
from fleet.text import one_line, table

SPARKS = 24
_BLOCKS = "▁▂▃▄▅▆▇█"
_CLASS = ["benchmark", "variant", "relation"]
_LEAST_SPAN = 0.05  # of the smallest value; less would make noise look like change


def render_relation_history(
    history: pd.DataFrame, width: int | None = None, descriptions: Descriptions = SHIPPED
) -> str:
    """Render a line per run, benchmark and variant, oldest first, then each host's course.

    width: of the page.
    """
    relations = list(history["relation"].unique())
    several = len(relations) > 1
    names = ["started (UTC)", "host", "run", "benchmark", *["of"] * several]
    numbers = ["pairs", "median", "min", "max", "p99", "±95%", "flagged"]
    titles, right = [*names, *numbers, "labels"], range(len(names), len(names) + len(numbers))
    rows = text.to_records(history)
    common_labels = text.find_common_labels([row["labels"] for row in rows])
    lines = [_format_line(row, descriptions, several=several, common_labels=common_labels) for row in rows]
    drop = ("p99", "min", "max", "run", "flagged", "pairs")
    listed = table(titles, lines, right=right, width=width, drop=drop)
    levels = not are_pairs(history["relation"]).any()
    listed_titles = listed.partition("\n")[0].split()
    parts, part = ("CPUs and groups", "of them") if levels else ("pairs", "pair")
    of = {("median", "min", "max"): parts, ("p99", "±95%"): f"the median {part}", ("flagged",): "bursts"}
    named = (([name for name in names if name in listed_titles], subject) for names, subject in of.items())
    meant = [f"{', '.join(names)}: of {subject}" for names, subject in named if names]
    explanation = "; ".join((text.describe_units(history["benchmark"], descriptions), *meant))
    body = text.add_common_labels(listed, common_labels) + _render_courses(history, width)
    words = {name.partition(" ")[0] for name in relations}
    end = one_line(f"What changed when: fleet compare {rows[-1]['host_name']}")
    return f"{', '.join(sorted(words)) if several else relations[0]}: {explanation}\n{body}\n\n{end}"


def _render_courses(history: pd.DataFrame, width: int | None) -> str:
    keys = ["host_name", *_CLASS]
    rows = [
        (str(host), f"{name}/{variant}", str(relation), draw_sparkline(part["median_ns"]))
        for (host, name, variant, relation), part in history.groupby(keys, sort=False)
        if len(part) > 1
    ]
    titles = ("host", "benchmark", "of", "oldest to newest")
    return "\n\n" + table(titles, rows, width=width) if rows else ""


def render_history(
    runs: Sequence[RunSummary], history: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> str:
    """Render a host's comparable runs by level and course. history: from `mark_usual`."""
    rows = []
    keys = ["benchmark", "variant", "about", "place", "relation"]
    for (name, variant, about, _, relation), part in history.groupby(keys, sort=False):
        values = part["median_ns"].to_numpy(dtype=float)
        since = part.loc[part["is_usual"], "median_ns"].to_numpy(dtype=float)
        usual = since[find_main_runs(since)]
        ends = sorted((values.min(), values.max()), reverse=text.is_rate(descriptions[str(name)]))
        numbers = [
            text.format_value(descriptions[str(name)], ns) for ns in (compute_geometric_mean(usual), *ends)
        ]
        of = f"{len(usual)} of {len(values)}"
        title = f"{f'{name}/{variant}'.rstrip('/')} {about}".rstrip()
        half = text.format_half_width(half_width_between_runs(usual))
        rows.append((title, str(relation), numbers[0], half, of, *numbers[1:], draw_sparkline(values)))
    changed = dict.fromkeys(since_text(row) for row in text.to_records(history) if row["since"])
    first, last = runs[0].started_utc, runs[-1].started_utc
    titles = ("benchmark", "of", "usual", "±95%", "runs", "min", "max", "oldest to newest")
    return (
        f"{len(runs)} comparable runs, {first:%Y-%m-%d} to {last:%Y-%m-%d}: medians by run\n"
        + table(titles, rows, right={2, 3, 4, 5, 6})
        + "\nusual: geometric mean of the runs at the main level; ±95%: between them"
        + "".join(f"\nusual since the last change: {one_line(line)}" for line in changed)
        + "\nThe last run:"
    )


def draw_sparkline(values: npt.ArrayLike) -> str:
    """Draw values as blocks, the newest SPARKS at most; the scale spans at least 5 %."""
    newest = np.asarray(values, dtype=float)[-SPARKS:]
    low, high = float(newest.min()), float(newest.max())
    spare = max(_LEAST_SPAN * low - (high - low), 0.0) / 2
    low, high = low - spare, high + spare
    share = (newest - low) / (high - low) if high > low else np.full(len(newest), 0.5)
    return "".join(_BLOCKS[min(int(height * len(_BLOCKS)), len(_BLOCKS) - 1)] for height in share)


def _format_line(
    row: dict[str, Any], descriptions: Descriptions, *, several: bool, common_labels: Container[str]
) -> tuple[str, ...]:
    ends = ["min_ns", "max_ns"]
    if text.is_rate(descriptions[row["benchmark"]]):
        ends.reverse()
    started = f"{row['started_utc'].astimezone(UTC):%Y-%m-%d %H:%M:%S}"
    run = (started, row["host_name"], row["run_id"], text.name_kind(row), *[row["relation"]] * several)
    numbers = text.format_columns(row, ("median_ns", *ends, "p99_ns"), descriptions)
    shares = (text.format_half_width(row["spread"]), text.format_share(row["flagged_share"]))
    labels = text.format_labels(row["labels"], without=common_labels)
    return (*run, str(row["pairs"]), *numbers, *shares, labels)
