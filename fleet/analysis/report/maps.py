"""Draws a map as SVG: a picture of a pixel a pair, so that it stays small, names of groups, and tips."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.colors import Colormap

from fleet.analysis.arrays import Ints
from fleet.analysis.reduce.heatmap import Heatmap, blocks_of
from fleet.analysis.reduce.topology import Layout
from fleet.analysis.report.figures import thumbnail
from fleet.analysis.report.markup import pages
from fleet.analysis.views.text import within
from fleet.plan.cpulist import cpus_text
from fleet.text import one_line

SIDE = 640  # CSS pixels
MOST_PAIR_TIPS = 64  # CPUs; of more, a tip is about the pairs of two groups
_MOST_CELL = 26
_TEXT, _DIGIT, _TIER = 9.5, 6.0, 16  # CSS pixels: a line of labels, a digit, a line of names


def picture(
    title: str,
    drawn: Heatmap,
    scales: Sequence[tuple[str, Heatmap]],
    tips: Sequence[tuple[str, str]] = (),
    *,
    palette: str | Colormap = "viridis",
    side: int = SIDE,
) -> Markup:
    """A map as an SVG element of at most `side` CSS pixels and its labels.

    scales: classes of elements, and the map coloured as that scale has it. tips: the path of some cells, in
    cells from the upper left corner, and what to say of them. title: its content, for screen readers.
    """
    cell = min(_MOST_CELL, side / len(drawn.labels))
    size = cell * len(drawn.labels)
    beside = _DIGIT * max(map(len, drawn.labels)) + 8
    margin = beside + _TIER * len(drawn.tiers)
    every = max(1, int(np.ceil(_TEXT / cell)))  # CPU that has room for its number
    svg = (
        pages()
        .get_template("map.svg")
        .render(
            title=one_line(title),
            whole=f"{margin + size + 2:.0f}",
            margin=margin,
            near=margin - 4,
            size=size,
            cell=cell,
            labels=[(name, margin + (at + 0.5) * cell) for at, name in enumerate(drawn.labels)][::every],
            upright=max(map(len, drawn.labels)) * _DIGIT + 2 > cell * every,
            groups=[*_groups(drawn, cell, margin, margin - beside)],
            pictures=[(name, thumbnail(scaled, palette)) for name, scaled in scales],
            borders=[margin + place * cell for place, border in enumerate(drawn.borders) if border],
            tips=tips,
        )
    )
    return Markup(svg)  # noqa: S704  (the template escapes)


def pair_tips(rows: Sequence[dict[str, Any]], order: Layout, number: str) -> dict[tuple[int, int], str]:
    """What to say of each pair, by one of its cells. rows: of `pairs`. number: the column that is drawn."""
    places, found = {cpu: place for place, cpu in enumerate(order.cpus)}, {}
    for row in rows:
        ping, pong = row["ping_cpu"], row["pong_cpu"]
        half = f" {within(row['spread'])}".removesuffix(" -") if number == "median_ns" else ""
        flags = f", {row['flags']}" if row["flags"] else ""
        text = one_line(f"{ping}-{pong} {row['relation']}: {row[number]:.1f} ns{half}{flags}")
        found[places[ping], places[pong]] = text
    return found


def block_tips(pairs: pd.DataFrame, order: Layout, number: str) -> list[tuple[str, str]]:
    """A tip for the pairs between two groups of CPUs: what they share, their median, lowest and highest."""
    blocks, _ = blocks_of(order)
    of_cpu = {cpu: at for at, block in enumerate(blocks) for cpu in block}
    first, second = (pairs[name].map(of_cpu).to_numpy() for name in ("ping_cpu", "pong_cpu"))
    block = np.minimum(first, second) * len(blocks) + np.maximum(first, second)
    starts = np.cumsum([0, *map(len, blocks)])
    found = []
    for key, part in pairs.groupby(block, sort=True):
        a, b = divmod(int(str(key)), len(blocks))
        across = ", ".join(dict.fromkeys(part["relation"]))
        values = part[number]
        where = " and ".join(cpus_text(blocks[at]) for at in dict.fromkeys((a, b)))
        cells = "".join(dict.fromkeys((_block(starts, a, b), _block(starts, b, a))))
        text = f"CPUs {where}: {across}, {values.median():.1f} ns ({values.min():.1f} to {values.max():.1f})"
        found.append((cells, text))
    return found


def _block(starts: Ints, row: int, column: int) -> str:
    width, height = (int(starts[at + 1] - starts[at]) for at in (column, row))
    return f"M{starts[column]} {starts[row]}h{width}v{height}h-{width}z"


def _groups(
    drawn: Heatmap, cell: float, margin: float, far: float
) -> Iterator[tuple[str, float, float, float]]:
    """The names of groups, or numbers where only these fit, where each begins and ends, and how far out."""
    for line, tier in enumerate(reversed(drawn.tiers)):
        bounds = np.cumsum([0, *(count for _, count in tier)]) * cell + margin
        for (name, _), (low, high) in zip(tier, pairwise(bounds), strict=True):
            fitting = (one for one in (name, name.rpartition(" ")[2]) if len(one) * _DIGIT + 4 <= high - low)
            if name:
                yield next(fitting, ""), low, high, far - _TIER * line
