"""Draws one benchmark's matrix as text: numbers where they fit, coloured cells, or groups of CPUs.

Rows are ping, columns pong, CPUs in topology order; what a cell shows is always said above it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from rich.color import Color
from rich.style import Style
from rich.text import Text

from fleet.analysis.reduce.topology import Layout
from fleet.plan.cpulist import cpus_text

MOST_CPUS = 64
MOST_GROUPS = 32
_GROUP_OF = 8  # CPUs to a group where the host names no groups
_LEGEND_STEPS = 7

# Seven points of the viridis colour map, dark (fast) to bright (slow); it reads without colour vision.
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
class Page:
    """What is drawn on: `width` columns (None: as many as it takes), with or without colour."""

    width: int | None = None
    colour: bool = False

    def fits(self, columns: int) -> bool:
        """Whether a line so long may be drawn."""
        return self.width is None or columns <= self.width


def draw(table: pd.DataFrame, layout: Layout, page: Page) -> Text:
    """Draw `table` (one-way ns, rows and columns as `layout.cpus`) in the most exact way that fits."""
    if len(layout.cpus) <= MOST_CPUS:
        for decimals in (1, 0):
            numbers = _numbers(table, layout, decimals)
            if page.fits(max(len(line) for line in numbers.plain.splitlines())):
                return Text("one way, ns; rows ping, columns pong\n") + numbers
        if page.colour:
            cells = _cells(table, layout)
            if page.fits(max(len(line) for line in cells.plain.splitlines())):
                return cells
    return _collapsed(table, layout, page)


def _numbers(table: pd.DataFrame, layout: Layout, decimals: int) -> Text:
    names = [str(cpu) for cpu in layout.cpus]
    level = layout.ruling()
    borders = [level is not None and layout.border(place, level) for place in range(len(names))]
    return Text(_ruled(names, names, _formatted(table.to_numpy(), decimals), borders))


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


def _cells(table: pd.DataFrame, layout: Layout) -> Text:
    """Two coloured characters a pair, with a gap between groups."""
    low, high = _range(table)
    level = layout.ruling()
    gaps = [level is not None and layout.border(place, level) for place in range(len(layout.cpus))]
    label = max(len(str(cpu)) for cpu in layout.cpus)
    text = Text("one way, ns, by colour (the numbers need a wider window, or --csv)\n")
    text.append_text(_legend(low, high))
    for place in (100, 10, 1):  # one digit a line, or neighbours' numbers run together
        if max(layout.cpus) >= place or place == 1:
            digits = [
                f"{cpu // place % 10:>2}" if cpu >= place or place == 1 else "  " for cpu in layout.cpus
            ]
            text.append(" " * (label + 1) + _spread(digits, gaps) + "\n")
    for cpu, values, gap_above in zip(layout.cpus, table.to_numpy(), gaps, strict=True):
        text.append("\n" * gap_above + f"{cpu:>{label}} ")
        for value, gap in zip(values, gaps, strict=True):
            text.append(" " * gap)
            text.append("  " if not np.isnan(value) else " ·", _style(value, low, high))
        text.append("\n")
    return text


def _spread(words: Sequence[str], gaps: Sequence[bool]) -> str:
    return "".join(" " * gap + word for word, gap in zip(words, gaps, strict=True)).rstrip()


def _legend(low: float, high: float) -> Text:
    text = Text()
    for value in np.linspace(low, high, _LEGEND_STEPS):
        text.append("  ", _style(float(value), low, high))
        text.append(f" {value:.0f}  ")
    return text.append("\n")


def _range(table: pd.DataFrame) -> tuple[float, float]:
    """The smallest value and the 98th percentile: one slow pair must not take all the colours."""
    values = table.to_numpy()
    low, high = np.nanpercentile(values, [0, 98]) if not np.isnan(values).all() else (0.0, 1.0)
    return float(low), float(max(high, low * 1.01))


def _style(value: float, low: float, high: float) -> Style | str:
    if np.isnan(value):
        return ""
    share = min(max((value - low) / (high - low), 0.0), 1.0) * (len(_VIRIDIS) - 1)
    at = min(int(share), len(_VIRIDIS) - 2)
    rgb = (round(a + (b - a) * (share - at)) for a, b in zip(_VIRIDIS[at], _VIRIDIS[at + 1], strict=True))
    return Style(bgcolor=Color.from_rgb(*rgb))


def _collapsed(table: pd.DataFrame, layout: Layout, page: Page) -> Text:
    """The median of the pairs between any two groups of CPUs; the diagonal is within the group."""
    for most in (MOST_GROUPS, MOST_GROUPS // 2, MOST_GROUPS // 4, 2):
        blocks, what = _blocks(layout, most)
        names = [_letter(number) for number in range(len(blocks))]
        values = np.array([[_median(table.loc[list(a), list(b)]) for b in blocks] for a in blocks])
        rows = [f"{cpus_text(block)} {name}" for name, block in zip(names, blocks, strict=True)]
        body = _ruled(rows, names, _formatted(values, 1), [False] * len(blocks))
        if page.fits(max(len(line) for line in body.splitlines())):
            break
    title = f"{len(layout.cpus)} CPUs as {len(blocks)} groups ({what}):\n"
    return Text(
        f"{title}one way, ns; median of the pairs between two groups, on the diagonal within one\n{body}"
    )


def _blocks(layout: Layout, most: int) -> tuple[tuple[tuple[int, ...], ...], str]:
    level = layout.finest(most)
    if level is not None:
        names = {"llc": "CPUs that share a last-level cache", "node": "NUMA nodes"}
        return layout.blocks(level), names.get(level, f"{level}s")
    size = max(_GROUP_OF, -(-len(layout.cpus) // most))
    blocks = tuple(layout.cpus[at : at + size] for at in range(0, len(layout.cpus), size))
    return blocks, f"{size} CPUs in a row each, for the host names no groups"


def _median(part: pd.DataFrame) -> float:
    values = part.to_numpy()
    return float("nan") if np.isnan(values).all() else float(np.nanmedian(values))


def _formatted(values: npt.NDArray[np.float64], decimals: int) -> list[list[str]]:
    return [["-" if np.isnan(value) else f"{value:.{decimals}f}" for value in line] for line in values]


def _letter(number: int) -> str:
    """A, B, ... Z, AA, AB, ..."""
    return ("" if number < 26 else _letter(number // 26 - 1)) + chr(ord("A") + number % 26)
