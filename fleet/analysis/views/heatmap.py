"""Renders a heat map as text: numbers where they fit, else coloured cells, else groups of CPUs.

What the cells show is always written above them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from rich.color import Color
from rich.style import Style
from rich.text import Text

from fleet.analysis.reduce.heatmap import MOST_GROUPS, SHADES, Heatmap, of_cpus, of_groups
from fleet.analysis.reduce.topology import Layout

MOST_CPUS = 64
_LEGEND_STEPS = 7

# Seven points of matplotlib's viridis, which takes too long to import here; it reads without colour vision.
_VIRIDIS = (
    (68, 1, 84),
    (68, 57, 131),
    (49, 104, 142),
    (33, 145, 140),
    (53, 183, 121),
    (144, 215, 67),
    (253, 231, 37),
)


@dataclass(frozen=True, slots=True)
class Canvas:
    """What is drawn on: `width` columns (None: unlimited), with or without colour."""

    width: int | None = None
    colour: bool = False

    def fits(self, text: str) -> bool:
        """Whether no line of `text` is too long."""
        return self.width is None or max(len(line) for line in text.splitlines()) <= self.width


def draw(table: pd.DataFrame, order: Layout, canvas: Canvas) -> Text:
    """Draw `table` (one-way ns, rows and columns as `order.cpus`) in the most exact form that fits."""
    if len(order.cpus) <= MOST_CPUS:
        drawn = of_cpus(table, order)
        for number in ("{:.1f}", "{:.0f}"):
            numbers = _ruled(drawn.labels, drawn.labels, drawn.texts(number, "-"), drawn.borders)
            if canvas.fits(numbers):
                return Text(f"one way, ns; rows ping, columns pong\n{numbers}")
        if canvas.colour:
            cells = _cells(drawn)
            if canvas.fits(cells.plain):
                return cells
    return _collapsed(table, order, canvas)


def _ruled(
    rows: Sequence[str], columns: Sequence[str], cells: Sequence[Sequence[str]], borders: Sequence[bool]
) -> str:
    """Lay a table of right-aligned cells out, with a rule before each row and column that has a border."""
    label = max(map(len, rows))
    width = max(len(cell) for line in (*cells, columns) for cell in line)

    def line(name: str, line_cells: Sequence[str]) -> str:
        parts = [
            f"{' |' if border else ''} {cell:>{width}}"
            for cell, border in zip(line_cells, borders, strict=True)
        ]
        return f"{name:>{label}} |{''.join(parts)}"

    head = line("", columns)
    rule = "".join("+" if mark == "|" else "-" for mark in head)
    lines = [head, rule]
    for name, line_cells, border in zip(rows, cells, borders, strict=True):
        lines += [rule] * border + [line(name, line_cells)]
    return "\n".join(lines) + "\n"


def _cells(drawn: Heatmap) -> Text:
    """Two coloured characters a pair, with a gap between groups."""
    label = max(map(len, drawn.labels))
    text = Text("one way, ns, by colour (the numbers need a wider window, or --csv)\n")
    text.append_text(_legend(drawn))
    for digit in range(-label, 0):  # one digit a line, or neighbours' numbers run together
        digits = [f"{name:>{label}}"[digit].rjust(2) for name in drawn.labels]
        text.append(" " * (label + 1) + _spread(digits, drawn.borders) + "\n")
    for name, shades, gap_above in zip(drawn.labels, drawn.shades(), drawn.borders, strict=True):
        text.append("\n" * gap_above + f"{name:>{label}} ")
        for shade, gap in zip(shades, drawn.borders, strict=True):
            text.append(" " * gap)
            text.append("  " if shade >= 0 else " ·", _style(shade) if shade >= 0 else "")
        text.append("\n")
    return text


def _spread(words: Sequence[str], gaps: Sequence[bool]) -> str:
    return "".join(" " * gap + word for word, gap in zip(words, gaps, strict=True)).rstrip()


def _legend(drawn: Heatmap) -> Text:
    text = Text()
    for share in np.linspace(0, 1, _LEGEND_STEPS):
        low, high = drawn.limits
        text.append("  ", _style(round(share * (SHADES - 1))))
        text.append(f" {low + share * (high - low):.0f}  ")
    return text.append("\n")


def _style(shade: int) -> Style:
    share = shade / (SHADES - 1) * (len(_VIRIDIS) - 1)
    at = min(int(share), len(_VIRIDIS) - 2)
    rgb = (round(a + (b - a) * (share - at)) for a, b in zip(_VIRIDIS[at], _VIRIDIS[at + 1], strict=True))
    return Style(bgcolor=Color.from_rgb(*rgb))


def _collapsed(table: pd.DataFrame, order: Layout, canvas: Canvas) -> Text:
    """Groups of CPUs in numbers, as many as fit."""
    for most in (MOST_GROUPS, MOST_GROUPS // 2, MOST_GROUPS // 4, 2):
        drawn = of_groups(table, order, most)
        letters = [_letter(number) for number in range(len(drawn.labels))]
        rows = [f"{label} {letter}" for label, letter in zip(drawn.labels, letters, strict=True)]
        body = _ruled(rows, letters, drawn.texts("{:.1f}", "-"), drawn.borders)
        if canvas.fits(body):
            break
    return Text(
        f"{len(order.cpus)} CPUs as {len(letters)} groups ({drawn.groups}):\n"
        f"one way, ns; median of the pairs between two groups, on the diagonal within one\n{body}"
    )


def _letter(number: int) -> str:
    """A, B, ... Z, AA, AB, ..."""
    return ("" if number < 26 else _letter(number // 26 - 1)) + chr(ord("A") + number % 26)
