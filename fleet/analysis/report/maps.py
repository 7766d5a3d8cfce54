"""Draws a map as SVG: a pixel a pair, the names of groups on both axes, a tip for each pair or two groups.

Its cells are one picture of a pixel each, so that a map of 256 CPUs stays small; tips are transparent shapes.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup, escape
from matplotlib.colors import Colormap

from fleet.analysis.arrays import Ints
from fleet.analysis.reduce.heatmap import Heatmap, blocks_of
from fleet.analysis.reduce.topology import Layout
from fleet.analysis.report.figures import thumbnail
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
    count = len(drawn.labels)
    cell = min(_MOST_CELL, side / count)
    size = cell * count
    beside = _DIGIT * max(map(len, drawn.labels)) + 8
    margin = beside + _TIER * len(drawn.tiers)
    whole = f"{margin + size + 2:.0f}"
    parts = [
        f'<svg viewBox="0 0 {whole} {whole}" width="{whole}" height="{whole}" role="img" '
        f'aria-label="{escape(one_line(title))}">',
        *_labels(drawn, cell, margin),
        *_names(drawn, cell, margin, beside),
    ]
    at = f'x="{margin:.1f}" y="{margin:.1f}" width="{size:.1f}" height="{size:.1f}"'
    parts += [
        f'<image class="cells {name}" {at} href="{thumbnail(scaled, palette)}"/>' for name, scaled in scales
    ]
    lines = [margin + place * cell for place, border in enumerate(drawn.borders) if border]
    end = margin + size
    path = "".join(f"M{margin:.1f} {x:.1f}H{end:.1f}M{x:.1f} {margin:.1f}V{end:.1f}" for x in lines)
    parts.append(f'<path class="borders" d="{path}"/>' if path else "")
    if tips:
        shapes = "".join(f'<path d="{path}"><title>{escape(text)}</title></path>' for path, text in tips)
        place = f"translate({margin:.1f} {margin:.1f}) scale({cell:.4f})"
        parts.append(f'<g class="tips" transform="{place}">{shapes}</g>')
    return Markup("".join([*parts, "</svg>"]))  # noqa: S704  (texts are escaped above)


def _pair_text(row: dict[str, Any], number: str) -> str:
    """Its CPUs, what they share, its number with its interval, and its flags."""
    flags = f", {row['flags']}" if row["flags"] else ""
    half = within(row["spread"]) if number == "median_ns" else "-"
    return one_line(
        f"{row['ping_cpu']}-{row['pong_cpu']} {row['relation']}: {row[number]:.1f} ns"
        f"{'' if half == '-' else f' {half}'}{flags}"
    )


def pair_tips(rows: Sequence[dict[str, Any]], order: Layout, number: str) -> dict[tuple[int, int], str]:
    """What to say of each pair, by one of its cells. rows: of `pairs`. number: the column that is drawn."""
    places = {cpu: place for place, cpu in enumerate(order.cpus)}
    return {(places[row["ping_cpu"]], places[row["pong_cpu"]]): _pair_text(row, number) for row in rows}


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
        where = (
            f"CPUs {cpus_text(blocks[a])}"
            if a == b
            else f"CPUs {cpus_text(blocks[a])} and {cpus_text(blocks[b])}"
        )
        cells = "".join(dict.fromkeys((_block(starts, a, b), _block(starts, b, a))))
        text = f"{where}: {across}, {values.median():.1f} ns ({values.min():.1f} to {values.max():.1f})"
        found.append((cells, text))
    return found


def _block(starts: Ints, row: int, column: int) -> str:
    width, height = (int(starts[at + 1] - starts[at]) for at in (column, row))
    return f"M{starts[column]} {starts[row]}h{width}v{height}h-{width}z"


def _labels(drawn: Heatmap, cell: float, margin: float) -> Iterator[str]:
    """The numbers of CPUs on both axes, as many as can be read."""
    every = max(1, int(np.ceil(_TEXT / cell)))
    upright = max(map(len, drawn.labels)) * _DIGIT + 2 > cell * every
    yield '<g class="labels">'
    for place in range(0, len(drawn.labels), every):
        name, at = escape(drawn.labels[place]), margin + (place + 0.5) * cell
        near = margin - 4
        yield f'<text x="{near:.1f}" y="{at:.1f}" class="end">{name}</text>'
        yield (
            f'<text transform="translate({at:.1f} {near:.1f}) rotate(-90)">{name}</text>'
            if upright
            else f'<text x="{at:.1f}" y="{near - 4:.1f}" class="middle">{name}</text>'
        )
    yield "</g>"


def _names(drawn: Heatmap, cell: float, margin: float, beside: float) -> Iterator[str]:
    """The names of groups on both axes, the outermost at the edge, each with a line as long as the group."""
    yield '<g class="names">'
    for line, tier in enumerate(reversed(drawn.tiers)):
        far = margin - beside - _TIER * line
        bounds = np.cumsum([0, *(count for _, count in tier)]) * cell + margin
        for (name, _), (low, high) in zip(tier, pairwise(bounds), strict=True):
            text = _fitting(name, high - low)
            if not name:
                continue
            middle, above = (low + high) / 2, far - 8
            yield (
                f'<path d="M{low + 1:.1f} {far:.1f}H{high - 1:.1f}M{far:.1f} {low + 1:.1f}V{high - 1:.1f}"/>'
                f'<text x="{middle:.1f}" y="{above:.1f}" class="middle">{text}</text>'
                f'<text transform="translate({above:.1f} {middle:.1f}) rotate(-90)" class="middle">'
                f"{text}</text>"
            )
    yield "</g>"


def _fitting(name: str, room: float) -> str:
    """A name that fits beside its group: whole, else its number alone, else nothing."""
    for text in (name, name.rpartition(" ")[2]):
        if len(text) * _DIGIT + 4 <= room:
            return text
    return ""
