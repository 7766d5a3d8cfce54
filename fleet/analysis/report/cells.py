"""Renders a heat map as an HTML table: each cell its number, coloured by the map's own scale or a common one.

Numbers in a table can be read aloud, copied and searched, and take a tenth of the bytes of text in a picture.
"""

from dataclasses import dataclass

import matplotlib as mpl
import numpy as np

from fleet.analysis.plots import ink_on
from fleet.analysis.reduce.heatmap import SHADES, Heatmap, Limits


@dataclass(frozen=True, slots=True)
class Cell:
    """`own`, `shared`: its shade by either scale; None: nothing was measured, or there is no such scale."""

    text: str
    own: int | None
    shared: int | None


@dataclass(frozen=True, slots=True)
class CellTable:
    """A heat map ready for the template; labels and borders as of `Heatmap`."""

    labels: tuple[str, ...]
    borders: tuple[bool, ...]
    rows: tuple[tuple[Cell, ...], ...]


def cell_table(drawn: Heatmap, number: str, shared: Limits | None = None) -> CellTable:
    """number: the format of a cell's text. shared: the ends of the common scale."""
    own = _known(drawn.shades())
    none: list[list[int | None]] = [[None] * len(row) for row in own]
    common = _known(drawn.shades(shared)) if shared else none
    rows = zip(drawn.texts(number, ""), own, common, strict=True)
    return CellTable(drawn.labels, drawn.borders, tuple(tuple(map(Cell, a, b, c)) for a, b, c in rows))


def palette(name: str) -> list[tuple[str, str]]:
    """The background and the ink of every shade, as CSS colours."""
    colours = mpl.colormaps[name](np.linspace(0, 1, SHADES))[:, :3]
    return [(mpl.colors.to_hex(colour), ink_on(*map(float, colour))) for colour in colours]


def _known(shades: "np.typing.NDArray[np.int64]") -> list[list[int | None]]:
    return [[int(shade) if shade >= 0 else None for shade in row] for row in shades]
