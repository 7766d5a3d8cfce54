"""Render a heat map as text: numbers if they fit, else coloured half blocks, else
groups, with a legend.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from rich.color import Color
from rich.style import Style
from rich.text import Text

from fleet.analysis.base.tables import Bools
from fleet.analysis.reduce import heatmap
from fleet.analysis.reduce.heatmap import Heatmap
from fleet.analysis.reduce.topology import Layout

MAX_CPUS = 64
_LEGEND_STEPS = 7
_CODES = re.compile(r"\x1b\[[0-9;]*m")

# Seven points of matplotlib's viridis, which takes too long to import here; it reads
# without colour vision.
_VIRIDIS = (
    *((68, 1, 84), (68, 57, 131), (49, 104, 142), (33, 145, 140)),
    *((53, 183, 121), (144, 215, 67), (253, 231, 37)),
)
_SIGNS = "·░▒▓█"
Pairs = frozenset[tuple[int, int]]  # the lower CPU first
_LIGHT = 3.2  # steps of _VIRIDIS; from there on black text is easier to read


@dataclass(frozen=True, slots=True)
class Canvas:
    """A terminal of `width` columns and `height` lines (None: unlimited), with or
    without colour.
    """

    width: int | None = None
    colour: bool = False
    height: int | None = None

    def fits(self, text: str) -> bool:
        """Report whether `text` fits in width and height; colours have no width."""
        lines = _CODES.sub("", text).splitlines()
        wide = self.width is None or max(map(len, lines)) <= self.width
        return wide and (self.height is None or len(lines) <= self.height)


NO_LIMIT = Canvas()


def draw_matrix(
    table: npt.ArrayLike,
    order: Layout,
    canvas: Canvas,
    *,
    label: str = "one way, ns",
    marked: Pairs = frozenset(),
    as_map: bool = False,
) -> Text:
    """Draw a matrix in numbers if they fit, else colours, else groups. as_map: if no
    colour, draw shades.
    """
    drawn, cpus = heatmap.map_cpus(table, order), order.cpus
    marks = np.array(
        [[(min(a, b), max(a, b)) in marked for b in cpus] for a in cpus], dtype=bool
    )
    many = len(cpus) > min(MAX_CPUS, canvas.height or MAX_CPUS)
    for number in (
        () if many or (as_map and not canvas.colour) else ("{:.1f}", "{:.0f}")
    ):
        texts = [
            [
                text + ("*" if mark else " ") * bool(marked)
                for text, mark in zip(row, line, strict=True)
            ]
            for row, line in zip(drawn.format_cells(number, "-"), marks, strict=True)
        ]
        ruled = _lay_out_matrix(drawn.labels, drawn.labels, texts, drawn, canvas.colour)
        if canvas.fits(ruled.plain):
            flagged = "; *: pair with a flag of its own (Warnings)" if marked else ""
            return Text(f"{label}; rows ping, columns pong{flagged}\n").append_text(
                ruled
            )
    if canvas.colour or as_map:
        cells = (_draw_half_blocks if canvas.colour else _draw_characters)(
            drawn, label, marks
        )
        if canvas.fits(cells.plain):
            return cells
    return _draw_groups(table, order, canvas, label)


def _lay_out_matrix(
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Sequence[Sequence[str]],
    drawn: Heatmap,
    colour: bool,
) -> Text:
    """Lay out right-aligned cells, with a rule before each row and column that has a
    border.
    """
    label = max(map(len, rows))
    width = max(len(cell) for line in (*cells, columns) for cell in line)

    def format_line(
        name: str, line_cells: Sequence[str], shades: Iterable[int]
    ) -> Text:
        text = Text(f"{name:>{label}} |")
        for cell, border, shade in zip(line_cells, drawn.borders, shades, strict=True):
            style = _choose_style(shade) if colour and shade >= 0 else ""
            text.append(f"{' |' if border else ''} ").append(f"{cell:>{width}}", style)
        return text

    head = format_line("", columns, [-1] * len(columns))
    rule = Text("".join("+" if mark == "|" else "-" for mark in head.plain))
    lines = [head, rule]
    every = zip(rows, cells, drawn.choose_shades(), drawn.borders, strict=True)
    for name, line_cells, shades, border in every:
        lines += [rule] * border + [format_line(name, line_cells, shades)]
    return Text("\n").join([*lines, Text()])


def _draw_half_blocks(drawn: Heatmap, quantity: str, marks: Bools) -> Text:
    """Draw a matrix in colours, two cells of a column per character, with gaps between
    groups.
    """
    label = max(map(len, drawn.labels))
    flagged = "; x: pair with a flag" * bool(marks.any())
    text = Text(f"{quantity}, by colour; rows ping, columns pong{flagged}\n")
    for share in np.linspace(0, 1, _LEGEND_STEPS):
        text.append("  ", _choose_style(round(share * (heatmap.SHADES - 1))))
        text.append(f" {heatmap.find_scale_value(share, drawn.limits):.0f}  ")
    text.append("\n").append(_render_column_labels(drawn, label))
    shades = drawn.choose_shades()
    begins = [row for row, border in enumerate(drawn.borders) if border]
    for block in map(list, np.split(np.arange(len(shades)), begins)):
        for rows in (block[start : start + 2] for start in range(0, len(block), 2)):
            text.append(f"{drawn.labels[rows[0]]:>{label}} ")
            for column, gap in enumerate(drawn.borders):
                top, bottom = [*shades[rows, column], -1][:2]
                is_marked = bool(marks[rows, column].any())
                style = _style_two_cells(top, bottom, is_marked)
                text.append(" " * gap).append("x" if is_marked else "▀", style)
            text.append("\n")
    return text


@cache
def _style_two_cells(top: int, bottom: int, is_marked: bool) -> Style:
    """Return the style of a character that shows two pairs. Those not measured stay
    dark.
    """
    upper, lower = (
        Color.from_rgb(*shade_to_rgb(shade)) if shade >= 0 else Color.parse("black")
        for shade in (top, bottom)
    )
    if is_marked:
        return Style(
            color="bright_red", bold=True, bgcolor=upper if top >= 0 else lower
        )
    return Style(color=upper, bgcolor=lower)


def _draw_characters(drawn: Heatmap, quantity: str, marks: Bools) -> Text:
    """Draw a character for each pair, without colour; darker is slower."""
    label, (low, high) = max(map(len, drawn.labels)), drawn.limits
    scale = ", logarithmic" * heatmap.is_log(drawn.limits)
    legend = "; x: pair with a flag" if marks.any() else ""
    text = Text(
        f"{quantity}, {_SIGNS[0]} {low:.0f} to {_SIGNS[-1]} {high:.0f}{scale}; rows"
        f" ping, columns pong{legend}\n{_render_column_labels(drawn, label)}"
    )
    steps = drawn.choose_shades() * (len(_SIGNS) - 1) // (heatmap.SHADES - 1)
    # nothing was measured at step -1
    signs = np.where(marks, "x", np.array([*_SIGNS, " "])[steps])
    for name, row, border in zip(drawn.labels, signs, drawn.borders, strict=True):
        text.append(
            "\n" * border + f"{name:>{label}} {_spread_words(row, drawn.borders)}\n"
        )
    return text


def _render_column_labels(drawn: Heatmap, label: int) -> str:
    """Render the columns' names vertically, a digit per line, so that neighbours do not
    run together.
    """
    lines = (
        " " * (label + 1)
        + _spread_words(
            [f"{name:>{label}}"[digit] for name in drawn.labels], drawn.borders
        )
        for digit in range(-label, 0)
    )
    return "".join(f"{line}\n" for line in lines)


def _spread_words(words: Sequence[str], gaps: Sequence[bool]) -> str:
    return "".join(
        " " * gap + word for word, gap in zip(words, gaps, strict=True)
    ).rstrip()


@cache
def _choose_style(shade: int) -> Style:
    colour = Color.from_rgb(*shade_to_rgb(shade))
    return Style(
        color="black" if is_light_shade(shade) else "bright_white", bgcolor=colour
    )


def is_light_shade(shade: int) -> bool:
    """Report whether black text is easier to read on a shade than white."""
    return shade / (heatmap.SHADES - 1) * (len(_VIRIDIS) - 1) > _LIGHT


def shade_to_rgb(shade: int) -> tuple[int, ...]:
    """Return the red, green and blue of a shade, 0 to 255."""
    step = shade / (heatmap.SHADES - 1) * (len(_VIRIDIS) - 1)
    steps, parts = range(len(_VIRIDIS)), zip(*_VIRIDIS, strict=True)
    return tuple(round(float(np.interp(step, steps, part))) for part in parts)


def colour_by_rank(text: str, rank: float) -> str:
    """Render text on the colour of its rank: 0 the fastest, dark; 1 the slowest,
    light.
    """
    return _choose_style(round(rank * (heatmap.SHADES - 1))).render(text)


def _draw_groups(
    table: npt.ArrayLike, order: Layout, canvas: Canvas, quantity: str
) -> Text:
    """Draw the medians between groups of CPUs as numbers, for as many groups as fit."""
    for max_groups in (
        heatmap.MAX_GROUPS,
        heatmap.MAX_GROUPS // 2,
        heatmap.MAX_GROUPS // 4,
        2,
    ):
        drawn = heatmap.map_groups(table, order, max_groups)
        letters = [_name_group(number) for number in range(len(drawn.labels))]
        rows = [
            f"{label} {letter}"
            for label, letter in zip(drawn.labels, letters, strict=True)
        ]
        body = _lay_out_matrix(
            rows, letters, drawn.format_cells("{:.1f}", "-"), drawn, canvas.colour
        )
        if canvas.fits(body.plain):
            break
    return Text(
        f"{len(order.cpus)} CPUs as {len(letters)} groups"
        f" ({drawn.groups}):\n{quantity}; median of the pairs between two groups, on"
        " the diagonal within one\n"
    ).append_text(body)


def _name_group(number: int) -> str:
    """Return the name of a group: A, B, ... Z, AA, AB, ..."""
    return ("" if number < 26 else _name_group(number // 26 - 1)) + chr(
        ord("A") + number % 26
    )
