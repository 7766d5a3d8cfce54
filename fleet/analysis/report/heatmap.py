"""Renders a heat map as an HTML table: each cell its number, coloured by the map's own scale or a common one.

Numbers in a table can be read aloud, copied and searched, and take a tenth of the bytes of text in a picture.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from matplotlib.colors import Colormap

from fleet.analysis.arrays import Ints
from fleet.analysis.plots import ink_on
from fleet.analysis.reduce.heatmap import SHADES, Heatmap, Limits


@dataclass(frozen=True, slots=True)
class Cell:
    """`own`, `shared`: its shade by either scale; None: nothing was measured, or there is no such scale.

    tip: what a pointer shows; empty for nothing.
    """

    text: str
    own: int | None
    shared: int | None
    tip: str


@dataclass(frozen=True, slots=True)
class CellTable:
    """A heat map ready for the template; labels, borders and tiers as of `Heatmap`.

    sides: for each row the names that begin there, each with its number of rows, outermost first.
    """

    labels: tuple[str, ...]
    borders: tuple[bool, ...]
    tiers: tuple[tuple[tuple[str, int], ...], ...]
    sides: tuple[tuple[tuple[str, int], ...], ...]
    rows: tuple[tuple[Cell, ...], ...]


def cell_table(
    drawn: Heatmap,
    number: str,
    shared: Limits | None = None,
    tips: Mapping[tuple[int, int], str] | None = None,
) -> CellTable:
    """number: the format of a cell's text. shared: the ends of the common scale. tips: by row and column."""
    own = _known(drawn.shades())
    none: list[list[int | None]] = [[None] * len(row) for row in own]
    common = _known(drawn.shades(shared)) if shared else none
    texts, known = drawn.texts(number, ""), tips or {}
    rows = tuple(
        tuple(
            Cell(text, own[row][column], common[row][column], known.get((row, column), ""))
            for column, text in enumerate(line)
        )
        for row, line in enumerate(texts)
    )
    return CellTable(drawn.labels, drawn.borders, drawn.tiers, _sides(drawn), rows)


def _sides(drawn: Heatmap) -> tuple[tuple[tuple[str, int], ...], ...]:
    begins: list[list[tuple[str, int]]] = [[] for _ in drawn.labels]
    for tier in drawn.tiers:
        at = 0
        for name, count in tier:
            begins[at].append((name, count))
            at += count
    return tuple(map(tuple, begins))


def palette(name: str | Colormap) -> list[tuple[str, str]]:
    """The background and the ink of every shade, as CSS colours."""
    colours = mpl.colormaps.get_cmap(name)(np.linspace(0, 1, SHADES))[:, :3]
    return [(mpl.colors.to_hex(colour), ink_on(*map(float, colour))) for colour in colours]


def _known(shades: Ints) -> list[list[int | None]]:
    return [[int(shade) if shade >= 0 else None for shade in row] for row in shades]
