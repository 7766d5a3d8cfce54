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

from fleet.analysis.base.tables import Bools, Floats, Ints
from fleet.analysis.base.text import describe_half_widths, format_half_width
from fleet.analysis.reduce import heatmap
from fleet.analysis.reduce.group_halves import PairHalves, estimate_group_halves
from fleet.analysis.reduce.heatmap import Heatmap
from fleet.analysis.reduce.topology import Layout

MAX_CPUS = 64
# the most groups to draw, fewer and fewer until they fit
_GROUP_LIMITS = (
    heatmap.MAX_GROUPS,
    heatmap.MAX_GROUPS // 2,
    heatmap.MAX_GROUPS // 4,
    2,
)
_NO_SHADE = -1  # of `Heatmap.choose_shades`: nothing was measured
_LEGEND_STEPS = 7
_CODES = re.compile(r"\x1b\[[0-9;]*m")

# Seven points of matplotlib's viridis, which takes too long to import here; it reads
# without colour vision.
_VIRIDIS = (
    (68, 1, 84),
    (68, 57, 131),
    (49, 104, 142),
    (33, 145, 140),
    (53, 183, 121),
    (144, 215, 67),
    (253, 231, 37),
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
        if self.width is not None:
            longest = max(map(len, lines))
            if longest > self.width:
                return False
        return self.height is None or len(lines) <= self.height


NO_LIMIT = Canvas()


def draw_matrix(
    table: npt.ArrayLike,
    order: Layout,
    canvas: Canvas,
    *,
    label: str = "one way, ns",
    marked: Pairs = frozenset(),
    as_map: bool = False,
    halves: PairHalves | None = None,
) -> Text:
    """Draw a matrix in numbers if they fit, else in colours, else as numbers between
    groups of CPUs.

    table: rows ping, columns pong, in the order of `order.cpus`; NaN where nothing was
    measured. label: what the values are. marked: pairs to mark, the lower CPU first.
    as_map: on a canvas without colour, draw shades instead of numbers. halves: the
    pairs' intervals, from which those of groups are estimated; None if unknown.
    """
    drawing = _Drawing(
        heatmap=heatmap.map_cpus(table, order),
        quantity=label,
        marks=_mark_cells(order.cpus, marked),
    )
    max_cpus = min(MAX_CPUS, canvas.height or MAX_CPUS)
    are_few = len(order.cpus) <= max_cpus
    prefers_shades = as_map and not canvas.colour
    if are_few and not prefers_shades:
        # without decimals, numbers are narrower and may still fit
        for number_format in ("{:.1f}", "{:.0f}"):
            numbers = drawing.draw_numbers(number_format, colour=canvas.colour)
            if canvas.fits(numbers.plain):
                return drawing.write_number_title().append_text(numbers)
    if canvas.colour or as_map:
        shades = drawing.draw_shades(colour=canvas.colour)
        if canvas.fits(shades.plain):
            return shades
    return _draw_groups(table, order, canvas, label, halves)


def _mark_cells(cpus: Sequence[int], marked: Pairs) -> Bools:
    """Return a matrix, rows ping and columns pong, that is true for marked pairs in
    both directions.
    """
    places = {cpu: place for place, cpu in enumerate(cpus)}
    count = len(cpus)
    marks = np.zeros((count, count), dtype=bool)
    for first_cpu, second_cpu in marked:
        first = places[first_cpu]
        second = places[second_cpu]
        marks[first, second] = True
        marks[second, first] = True
    return marks


@dataclass(frozen=True, slots=True)
class _Drawing:
    """A map of CPUs to draw. quantity: what its values are. marks: cells of pairs with
    a flag, rows x columns.
    """

    heatmap: Heatmap
    quantity: str
    marks: Bools

    @property
    def has_marks(self) -> bool:
        return bool(self.marks.any())

    def write_number_title(self) -> Text:
        """Return the line above `draw_numbers`."""
        note = "; *: pair with a flag of its own (Warnings)" if self.has_marks else ""
        return Text(f"{self.quantity}; rows ping, columns pong{note}\n")

    def draw_numbers(self, number_format: str, *, colour: bool) -> Text:
        """Draw the value of each pair, marked ones with an asterisk."""
        labels = self.heatmap.labels
        cells = self.heatmap.format_cells(number_format, "-")
        if self.has_marks:
            signs = np.where(self.marks, "*", " ")
            cells = np.char.add(cells, signs).tolist()
        return _lay_out_matrix(labels, labels, cells, self.heatmap, colour=colour)

    def draw_shades(self, *, colour: bool) -> Text:
        """Draw the shade of each pair; without colour, a character for it."""
        return self._draw_half_blocks() if colour else self._draw_characters()

    def _draw_half_blocks(self) -> Text:
        """Draw the pairs in colours, with gaps between groups. Each character shows the
        cells of two rows, one above the other; the line has the name of the upper row.
        """
        labels = self.heatmap.labels
        borders = self.heatmap.borders
        width = _measure_labels(labels)
        shades = self.heatmap.choose_shades()
        note = "; x: pair with a flag" if self.has_marks else ""
        text = Text(f"{self.quantity}, by colour; rows ping, columns pong{note}\n")
        text.append_text(_draw_colour_scale(self.heatmap.limits)).append("\n")
        text.append(_render_column_labels(labels, borders))
        for rows in _pair_rows(borders):
            name = labels[rows[0]]
            cells = _draw_two_rows(shades[rows], self.marks[rows], borders)
            text.append(f"{name:>{width}} ").append_text(cells).append("\n")
        return text

    def _draw_characters(self) -> Text:
        """Draw a character for each pair, without colour; darker is slower."""
        labels = self.heatmap.labels
        borders = self.heatmap.borders
        width = _measure_labels(labels)
        text = Text(self._write_character_title())
        text.append(_render_column_labels(labels, borders))
        signs = self._choose_signs()
        for name, row, border in zip(labels, signs, borders, strict=True):
            if border:
                text.append("\n")
            text.append(f"{name:>{width}} {_spread_words(row, borders)}\n")
        return text

    def _write_character_title(self) -> str:
        low, high = self.heatmap.limits
        kind = ", logarithmic" if heatmap.is_log(self.heatmap.limits) else ""
        scale = f"{_SIGNS[0]} {low:.0f} to {_SIGNS[-1]} {high:.0f}{kind}"
        note = "; x: pair with a flag" if self.has_marks else ""
        return f"{self.quantity}, {scale}; rows ping, columns pong{note}\n"

    def _choose_signs(self) -> npt.NDArray[np.str_]:
        """Return the character of each pair, a space where nothing was measured."""
        shades = self.heatmap.choose_shades()
        last_sign = len(_SIGNS) - 1
        last_shade = heatmap.SHADES - 1
        is_measured = shades != _NO_SHADE
        places = shades[is_measured] * last_sign // last_shade  # from 0 to last_sign
        signs = np.full(shades.shape, " ")
        signs[is_measured] = np.array([*_SIGNS])[places]
        signs[self.marks] = "x"
        return signs


def _measure_labels(labels: Sequence[str]) -> int:
    return max(map(len, labels))


def _lay_out_matrix(
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Sequence[Sequence[str]],
    drawn: Heatmap,
    *,
    colour: bool,
) -> Text:
    """Lay out right-aligned cells, with a rule before each row and column that has a
    border. rows, columns: their names. drawn: the map that the cells are of; it has the
    borders, which are the same for rows and columns, and the shades.
    """
    every_line = [columns, *cells]
    line_format = _LineFormat(
        label_width=_measure_labels(rows),
        cell_width=max(map(_measure_labels, every_line)),
        borders=drawn.borders,
    )
    no_shades = np.full(len(columns), _NO_SHADE)
    head = line_format.format("", columns, no_shades)
    rule = Text(_draw_rule(head.plain))
    lines = [head, rule]
    shades = drawn.choose_shades()
    for row, name in enumerate(rows):
        if drawn.borders[row]:
            lines.append(rule)
        row_shades = shades[row] if colour else no_shades
        line = line_format.format(name, cells[row], row_shades)
        lines.append(line)
    return Text("\n").join(lines).append("\n")


def _draw_rule(line: str) -> str:
    """Draw a rule below a line, with a cross at each of its bars."""
    dashes = re.sub(r"[^|]", "-", line)
    return dashes.replace("|", "+")


@dataclass(frozen=True, slots=True)
class _LineFormat:
    """How each line of a matrix is laid out. label_width, cell_width: in characters.
    borders: whether a rule stands before each column.
    """

    label_width: int
    cell_width: int
    borders: Sequence[bool]

    def format(self, name: str, cells: Sequence[str], shades: Ints) -> Text:
        """Lay out a row: its name, then each cell on its shade."""
        line = Text(f"{name:>{self.label_width}} |")
        for cell, border, shade in zip(cells, self.borders, shades, strict=True):
            line.append(" | " if border else " ")
            line.append(f"{cell:>{self.cell_width}}", _choose_style(shade))
        return line


def _pair_rows(borders: Sequence[bool]) -> list[list[int]]:
    """Return the rows of a matrix two by two; the last row of a group may be alone."""
    pairs: list[list[int]] = []
    for row, begins_group in enumerate(borders):
        if not pairs or begins_group or len(pairs[-1]) == 2:
            pairs.append([])
        pairs[-1].append(row)
    return pairs


def _draw_two_rows(shades: Ints, marks: Bools, borders: Sequence[bool]) -> Text:
    """Draw one row of a matrix, or two with one above the other, as a line of half
    blocks.

    shades, marks: rows x columns, of only these one or two rows; a shade is -1 where
    nothing was measured. borders: whether a gap stands before each column.
    """
    upper = shades[0]
    lower = np.full(len(upper), _NO_SHADE)
    if len(shades) == 2:
        lower = shades[1]
    # a character has one sign: it is marked if either row is
    are_marked = np.any(marks, axis=0)
    columns = zip(borders, upper, lower, are_marked, strict=True)
    line = Text()
    for gap, top, bottom, is_marked in columns:
        if gap:
            line.append(" ")
        sign = "x" if is_marked else "▀"
        line.append(sign, _style_two_cells(top, bottom, is_marked))
    return line


@cache
def _style_two_cells(top: int, bottom: int, is_marked: bool) -> Style:
    """Return the style of a character that shows two pairs, one above the other. top,
    bottom: their shades; pairs that were not measured stay dark.

    The character is a half block, which has the colour of the upper pair on a
    background of the lower one's. If one of the pairs is marked, it is a red "x", and
    only the background has room for a pair: the upper one, if it was measured.
    """
    upper_colour = _choose_colour(top)
    lower_colour = _choose_colour(bottom)
    if not is_marked:
        return Style(color=upper_colour, bgcolor=lower_colour)
    background = lower_colour if top == _NO_SHADE else upper_colour
    return Style(color="bright_red", bold=True, bgcolor=background)


def _choose_colour(shade: int) -> Color:
    if shade == _NO_SHADE:
        return Color.parse("black")
    return Color.from_rgb(*shade_to_rgb(shade))


def _draw_colour_scale(limits: heatmap.Limits) -> Text:
    """Draw samples of the colours, from the lowest value to the highest, each with its
    value. limits: the values at both ends of the scale.
    """
    scale = Text()
    for share in np.linspace(0, 1, _LEGEND_STEPS):
        value = heatmap.find_scale_value(share, limits)
        scale.append("  ", _choose_style(_find_shade(share)))
        scale.append(f" {value:.0f}  ")
    return scale


def _render_column_labels(labels: Sequence[str], borders: Sequence[bool]) -> str:
    """Render the columns' names vertically, a digit per line, so that neighbours do not
    run together.
    """
    width = _measure_labels(labels)
    names = [name.rjust(width) for name in labels]
    margin = " " * (width + 1)
    lines = [
        f"{margin}{_spread_words(digits, borders)}\n"
        for digits in zip(*names, strict=True)
    ]
    return "".join(lines)


def _spread_words(words: Iterable[str], gaps: Sequence[bool]) -> str:
    """Join words, with a space before each that has a gap."""
    line = ""
    for word, gap in zip(words, gaps, strict=True):
        line += f" {word}" if gap else word
    return line.rstrip()


@cache
def _choose_style(shade: int) -> Style:
    """Return the style of text on a shade; without a shade, no style."""
    if shade == _NO_SHADE:
        return Style()
    ink = "black" if is_light_shade(shade) else "bright_white"
    return Style(color=ink, bgcolor=_choose_colour(shade))


def is_light_shade(shade: int) -> bool:
    """Report whether black text is easier to read on a shade than white."""
    return _place_on_viridis(shade) > _LIGHT


def shade_to_rgb(shade: int) -> tuple[int, ...]:
    """Return the red, green and blue of a shade, 0 to 255."""
    step = _place_on_viridis(shade)
    steps = range(len(_VIRIDIS))
    rgb = []
    for channel in zip(*_VIRIDIS, strict=True):  # all reds, all greens, all blues
        level = np.interp(step, steps, channel)
        rgb.append(round(float(level)))
    return tuple(rgb)


def _place_on_viridis(shade: int) -> float:
    """Return the place of a shade among the points of _VIRIDIS: 0 is the first, 1.5
    between the second and the third.
    """
    share = shade / (heatmap.SHADES - 1)
    return share * (len(_VIRIDIS) - 1)


def _find_shade(share: float) -> int:
    """Return the shade at a share of a scale, 0 to 1."""
    return round(share * (heatmap.SHADES - 1))


def colour_by_rank(text: str, rank: float) -> str:
    """Render text on the colour of its rank: 0 the fastest, dark; 1 the slowest,
    light.
    """
    return _choose_style(_find_shade(rank)).render(text)


def _draw_groups(
    table: npt.ArrayLike,
    order: Layout,
    canvas: Canvas,
    quantity: str,
    halves: PairHalves | None,
) -> Text:
    """Draw the medians between groups of CPUs as numbers, for as many groups as fit the
    canvas.

    halves: half-widths of the pairs' intervals; None if unknown. If they are known, the
    half-widths of the groups stand beside the numbers where there is room, and a note
    below says in any case how wide they are.
    """
    limit = _choose_group_limit(table, order, canvas)
    groups = heatmap.map_groups(table, order, limit)
    drawing = _GroupDrawing(groups, canvas.colour)
    numbers = drawing.draw()
    title = drawing.write_title(len(order.cpus), quantity)
    if halves is None:
        return title.append_text(numbers)
    group_halves = estimate_group_halves(table, halves, order, limit)
    with_intervals = drawing.draw(group_halves)
    if canvas.fits(with_intervals.plain):
        numbers = with_intervals
    note = _describe_group_halves(group_halves)
    return title.append_text(numbers).append(note)


def _choose_group_limit(table: npt.ArrayLike, order: Layout, canvas: Canvas) -> int:
    """Return the most groups whose numbers fit the canvas."""
    for limit in _GROUP_LIMITS:
        groups = heatmap.map_groups(table, order, limit)
        numbers = _GroupDrawing(groups, colour=False).draw()
        if canvas.fits(numbers.plain):
            return limit
    return _GROUP_LIMITS[-1]


def _describe_group_halves(halves: Floats) -> str:
    """Say how good the numbers between groups are, by the half-widths of their
    intervals; "" if none is known.
    """
    known_halves = halves[np.isfinite(halves)]
    if not len(known_halves):
        return ""
    middle = float(np.median(known_halves))
    largest = float(known_halves.max())
    precision = describe_half_widths("half of these numbers", middle, largest)
    return f"±95%: within the run; {precision}\n"


@dataclass(frozen=True, slots=True)
class _GroupDrawing:
    """Numbers between groups of CPUs, to draw with or without colour."""

    groups: Heatmap
    colour: bool

    def write_title(self, cpu_count: int, quantity: str) -> Text:
        """Return the lines above the numbers."""
        kind_of_groups = self.groups.groups  # such as "NUMA nodes"
        return Text(
            f"{cpu_count} CPUs as {len(self.groups.labels)} groups"
            f" ({kind_of_groups}):\n"
            f"{quantity}; median of the pairs between two groups, on the diagonal"
            " within one\n"
        )

    def draw(self, halves: Floats | None = None) -> Text:
        """Draw a matrix of the values between groups. A row begins with the name of its
        group and the group's letter; only the letter names the column.

        halves: half the interval of each value, as a share, to write behind the value.
        """
        letters = []
        names = []
        for number, label in enumerate(self.groups.labels):
            letter = _name_group(number)
            letters.append(letter)
            names.append(f"{label} {letter}")
        cells = self.groups.format_cells("{:.1f}", "-")
        if halves is not None:
            cells = _append_halves(cells, halves)
        return _lay_out_matrix(names, letters, cells, self.groups, colour=self.colour)


def _append_halves(cells: Sequence[Sequence[str]], halves: Floats) -> list[list[str]]:
    """Append to each cell the half-width of its interval: "45.6 ±0.5%". halves: as
    shares, in the rows and columns of `cells`; NaN, unknown, becomes "-".
    """
    rows = []
    for numbers, halves_of_row in zip(cells, halves.tolist(), strict=True):
        row = []
        for number, half in zip(numbers, halves_of_row, strict=True):
            row.append(f"{number} {format_half_width(half):>5}")
        rows.append(row)
    return rows


def _name_group(number: int) -> str:
    """Return the name of a group: A, B, ... Z, AA, AB, ..."""
    letter = chr(ord("A") + number % 26)
    if number < 26:
        return letter
    return _name_group(number // 26 - 1) + letter
