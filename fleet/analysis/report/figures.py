"""Draw the plots of a report as inline SVG with unique IDs, real text, a title and the
page's colours.
"""

import base64
import io
import json
import math
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import Colormap
from matplotlib.figure import Figure

from fleet.analysis.reduce.heatmap import SHADES, Heatmap
from fleet.analysis.report.markup import render_template
from fleet.analysis.report.plots import choose_ink
from fleet.text import one_line

# colours in figures.mplstyle, to be replaced by the page's
_INK = "#010203"
_RULE = "#040506"
# with all defaults, as matplotlib takes a matplotlibrc of the current folder, too
_STYLE: Any = mpl.rc_params_from_file(
    Path(__file__).with_suffix(".mplstyle"), use_default_template=True
)
# of a picture that is a file of its own: dark ink and light rules on white
FILE_STYLE: Any = _STYLE.copy()
for _name, _colour in _STYLE.items():
    if str(_colour).removeprefix("#") == _INK.removeprefix("#"):
        FILE_STYLE[_name] = "#1b1f24"
    elif str(_colour).removeprefix("#") == _RULE.removeprefix("#"):
        FILE_STYLE[_name] = "#d0d7de"
FILE_STYLE["savefig.facecolor"] = "white"
# else matplotlib writes its own
_NOTHING: Any = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_NO_SOFTWARE: Any = {"Software": None}
PANEL = 340  # CSS pixels: as wide as a telephone shows without scrolling
AROUND_LINES = 62  # CSS pixels above and below the lines of hosts in a panel
_SHORT = 20  # characters
_SIDE = 640  # CSS pixels of a map
_MAX_CELL = 26  # CSS pixels of a cell of a map
_TEXT = 9.5  # CSS pixels of a line of labels
_DIGIT_WIDTH = 6.0  # CSS pixels of a digit
_TIER_HEIGHT = 16  # CSS pixels of a line of names
_CHARACTER = 7  # CSS pixels, of a name beside a picture
_POINTER = re.compile(r"(?:url\(|^)#([\w-]+)")  # to an ID
_LONG_FRACTION = re.compile(r"-?\d+\.\d{3,}")
# "font: 12px 'DejaVu Sans', sans-serif": the page has a font of its own
_FONT = re.compile(r"font: ([\d.]+px) [^;]*")


class Value(NamedTuple):
    """The words of a mark at (x, y), in the units of the axes."""

    x: float
    y: float
    words: str


class Margins(NamedTuple):
    """The room between the edges of a picture and its axes, in CSS pixels."""

    left: int
    bottom: int
    right: int
    top: int


class PlacedName(NamedTuple):
    """A group's name on a map, and the line beside it along the group's CPUs.

    begin, end: the line's ends. line: its distance from the edge of the picture, above
    the map from the top, left of the map from the left. All are in CSS pixels. name: ""
    if it is longer than the line.
    """

    name: str
    begin: float
    end: float
    line: float


class _MapLayout(NamedTuple):
    """Where the parts of a map lie, in CSS pixels.

    From the left edge come the names of groups, a tier of lines per level, then the
    labels of CPUs, then the map. From the top edge come the same. cell: the side of a
    cell. side: the side of the map. label_room: between the innermost tier and the map.
    margin: between the edge of the picture and the map.
    """

    cell: float
    side: float
    label_room: float
    margin: float

    @property
    def innermost_line(self) -> float:
        """Return where the lines of the innermost groups are, from the edge."""
        return self.margin - self.label_room


def draw(
    name: str,
    title: str,
    size: tuple[int, int],
    onto: Callable[[Axes], object],
    margins: Margins,
    values: Sequence[Value] = (),
) -> Markup:
    """Call `onto` with new Axes and return what it draws as an SVG element of `size`
    (CSS pixels).

    name: prefix of the element's IDs, unique on the page. title: a description for
    screen readers. values: of marks, for the script to show.
    """
    with mpl.rc_context(_STYLE):
        axes = _make_axes(size, margins)
        onto(axes)
        buffer = io.BytesIO()
        figure: Any = axes.figure
        figure.savefig(buffer, format="svg", metadata=_NOTHING)
    svg = ET.fromstring(buffer.getvalue())  # noqa: S314  (written right above)
    prefix = re.sub(r"[^\w-]", "-", name)
    _, height = size
    places = [_place_value(axes, value, height) for value in values]
    return _embed_svg(svg, prefix, title, size, places)


def choose_margins_for_names(names: Collection[str]) -> Margins:
    """Choose the margins of a picture that has these names left of its lines."""
    longest = max(map(len, names))
    left = 14 + _CHARACTER * longest
    return Margins(left=left, bottom=42, right=18, top=8)


def _make_axes(size: tuple[int, int], margins: Margins) -> Axes:
    """Make the axes of a figure of `size`, in CSS pixels. matplotlib writes a figure as
    SVG in points, 72 to an inch; on the page, each point is a CSS pixel.
    """
    width, height = size
    figure = Figure(figsize=(width / 72, height / 72))
    FigureCanvasSVG(figure)
    figure.subplots_adjust(
        left=margins.left / width,
        bottom=margins.bottom / height,
        right=1 - margins.right / width,
        top=1 - margins.top / height,
    )
    return figure.add_subplot()


def _place_value(axes: Axes, value: Value, height: int) -> tuple[float, float, str]:
    """Return the place of a value in CSS pixels from the upper left corner, and its
    words.
    """
    pixels = axes.transData.transform((value.x, value.y))  # from the lower left corner
    x, from_bottom = pixels * 72 / axes.figure.dpi
    return round(x, 1), round(height - from_bottom, 1), value.words


def draw_map(
    title: str,
    scales: Sequence[tuple[str, Heatmap]],
    *,
    colours: str | Colormap = "viridis",
    side: int = _SIDE,
) -> Markup:
    """Draw a labelled map as SVG; its picture has a pixel per pair and is at most
    `side` CSS pixels wide.

    title: a description for screen readers. scales: each colour scale as a CSS class,
    such as "own", and the map with the limits of that scale; the maps are otherwise
    alike. The page shows one of them.
    """
    _, any_map = scales[0]
    layout = _lay_out_map(any_map, side)
    pictures = []
    for name, scaled in scales:
        pictures.append((name, render_thumbnail(scaled, colours)))
    # each `step`-th CPU has a label: in smaller cells, labels would overlap
    step = max(1, math.ceil(_TEXT / layout.cell))
    # labels above the map stand upright if they are wider than the room of one
    are_upright = _measure_longest(any_map.labels) + 2 > layout.cell * step
    total_side = layout.margin + layout.side + 2  # with the labels
    svg = render_template(
        "map.svg",
        title=title,
        total_side=f"{total_side:.0f}",
        margin=layout.margin,
        end_of_labels=layout.margin - 4,
        size=layout.side,
        labels=_place_labels(any_map, layout)[::step],
        upright=are_upright,
        groups=_place_group_names(any_map, layout),
        pictures=pictures,
        borders=_place_borders(any_map, layout),
    )
    return Markup(svg)  # noqa: S704  (the template escapes)


def _lay_out_map(drawn: Heatmap, most: int) -> _MapLayout:
    """Lay out a map whose side is at most `most` CSS pixels."""
    count = len(drawn.labels)
    cell = min(_MAX_CELL, most / count)
    label_room = _measure_longest(drawn.labels) + 8
    return _MapLayout(
        cell=cell,
        side=cell * count,
        label_room=label_room,
        margin=label_room + _TIER_HEIGHT * len(drawn.group_labels),
    )


def _measure_longest(labels: Sequence[str]) -> float:
    """Return how wide the longest of the labels is, in CSS pixels."""
    return _DIGIT_WIDTH * max(map(len, labels))


def _place_labels(drawn: Heatmap, layout: _MapLayout) -> list[tuple[str, float]]:
    """Return each label, and where the middle of its row and column is, in CSS
    pixels.
    """
    labels = []
    for place, name in enumerate(drawn.labels):
        middle = layout.margin + (place + 0.5) * layout.cell
        labels.append((name, middle))
    return labels


def _place_borders(drawn: Heatmap, layout: _MapLayout) -> list[float]:
    """Return where the lines between groups are, in CSS pixels."""
    return [
        layout.margin + place * layout.cell
        for place, border in enumerate(drawn.borders)
        if border
    ]


def render_thumbnail(drawn: Heatmap, colours: str | Colormap) -> str:
    """Return a heat map as a data URI of a PNG, one pixel per cell; cells not measured
    are transparent.
    """
    shades = drawn.choose_shades()
    palette = _list_colours(colours, bytes=True)
    # shade -1, of a cell not measured, takes the last colour, made transparent below
    pixels = palette[shades]  # rows x columns x (red, green, blue, alpha)
    is_unmeasured = shades < 0
    pixels[is_unmeasured, 3] = 0
    buffer = io.BytesIO()
    mpl.image.imsave(buffer, pixels, format="png", metadata=_NO_SOFTWARE)
    encoded = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f"data:image/png;base64,{encoded}"


def _list_colours(colours: str | Colormap, **look: Any) -> Any:
    """List the colour of every shade: shades x (red, green, blue, alpha)."""
    colour_map = mpl.colormaps.get_cmap(colours)
    places = np.linspace(0, 1, SHADES)
    return colour_map(places, **look)


def list_backgrounds_and_inks(colours: str | Colormap) -> list[tuple[str, str]]:
    """Return the background and the ink of every shade, as CSS colours."""
    backgrounds_and_inks = []
    for *colour, _ in _list_colours(colours).tolist():
        background = mpl.colors.to_hex(colour)
        backgrounds_and_inks.append((background, choose_ink(*colour)))
    return backgrounds_and_inks


def shorten_middle(name: str) -> str:
    """Shorten a long name to fit beside a picture, leaving out its middle."""
    clean = one_line(name)
    if len(clean) <= _SHORT:
        return clean
    return f"{clean[:10]}…{clean[-9:]}"


def _embed_svg(
    svg: ET.Element,
    name: str,
    title: str,
    size: tuple[int, int],
    places: Sequence[tuple[float, float, str]],
) -> Markup:
    """Turn the SVG of a file into an element of a page. name: the prefix of its IDs.
    title: a description for screen readers. places: x, y and words of each value that
    the script shows.
    """
    _remove_metadata(svg)
    _rewrite_elements(svg, name)
    width, height = map(str, size)
    svg.attrib = {
        "viewBox": f"0 0 {width} {height}",
        "width": width,
        "height": height,
        "role": "img",
        "aria-label": one_line(title),
    }
    if places:
        svg.set("data-values", one_line(json.dumps(places)))
    escaped = ET.tostring(svg, encoding="unicode")
    return Markup(escaped)  # noqa: S704  (ElementTree has escaped every text)


def _rewrite_elements(svg: ET.Element, name: str) -> None:
    """Rewrite all elements for a page: without namespaces and white space, with IDs
    that begin with `name`.
    """
    targets = _find_targets(svg)
    for element in svg.iter():
        element.tag = _drop_namespace(element.tag)
        element.tail = None  # the white space behind an element
        if element.tag != "text":
            element.text = (element.text or "").strip()
        element.attrib = _convert_attributes(element, name, targets)
        if element.tag == "g":
            _move_style_to_group(element)


def _remove_metadata(svg: ET.Element) -> None:
    """Remove what matplotlib writes about itself, and its style, which is the page's
    matter.
    """
    for parent in svg.iter():
        for child in list(parent):
            if _drop_namespace(child.tag) in {"metadata", "style"}:
                parent.remove(child)


def _drop_namespace(name: str) -> str:
    return name.rpartition("}")[2]


def _find_targets(svg: ET.Element) -> set[str]:
    """Find the IDs that attributes point to, as "url(#ID)" or "#ID"."""
    targets = set[str]()
    for element in svg.iter():
        for value in element.attrib.values():
            targets.update(_POINTER.findall(value))
    return targets


def _convert_attributes(
    element: ET.Element, name: str, targets: set[str]
) -> dict[str, str]:
    """Return an element's attributes for the page.

    name: the prefix of its IDs. targets: the IDs that some attribute of the picture
    points to; an ID that is not among them is left out.
    """
    converted = {}
    for key, value in element.attrib.items():
        plain_key = _drop_namespace(key)
        if plain_key != "id" or value in targets:
            converted[plain_key] = _convert_attribute(plain_key, value, name)
    return converted


def _convert_attribute(key: str, value: str, name: str) -> str:
    """Convert the value of an attribute, `key`, that matplotlib wrote, for a page.

    IDs, and what points to them, begin with `name`, to be unique on the page: "m1a"
    becomes "name-m1a", and "url(#m1a)" becomes "url(#name-m1a)". Numbers have two
    decimals, to be short. Font and colours are those of the page.
    """
    if key == "id":
        return f"{name}-{value}"
    if value.startswith("data:"):  # an embedded picture, which has no IDs
        return value
    if key == "href":
        return re.sub("^#", f"#{name}-", value)
    value = value.replace("url(#", f"url(#{name}-")
    value = _LONG_FRACTION.sub(_round_number, value)
    if key == "style":
        value = _FONT.sub(r"font-size: \1", value)
        # colours by which the style file marks what is to have the page's own
        value = value.replace(_INK, "currentColor")
        value = value.replace(_RULE, "var(--rule)")
    return value


def _round_number(match: re.Match[str]) -> str:
    """Write the number that was matched with two decimals."""
    return f"{float(match[0]):.2f}"


def _move_style_to_group(group: ET.Element) -> None:
    """Move a style that all marks of a group share to the group. This halves the size
    of a scatter plot.
    """
    if len(group) < 2 or "style" in group.attrib:
        return
    are_marks = all(child.tag.endswith("use") for child in group)
    styles = {child.get("style") for child in group}
    if not are_marks or len(styles) > 1:
        return
    style = styles.pop()
    if not style:
        return
    # the children come after their group, so their style is not converted yet
    no_prefix = ""  # the style of a mark points to no ID
    group.set("style", _convert_attribute("style", style, no_prefix))
    for child in group:
        del child.attrib["style"]


def _place_group_names(drawn: Heatmap, layout: _MapLayout) -> list[PlacedName]:
    """Return the name and the line of each group of CPUs that has a name. A group whose
    name is longer than its line keeps the line, without the name.

    The groups of a level of the topology, such as the packages, make a tier: a row of
    names and lines above the map, and the same as a column left of the map. The
    innermost level is nearest to the map.
    """
    placed = []
    # a level is a tuple of groups, each as its name and its number of CPUs
    innermost_first = reversed(drawn.group_labels)
    for tier, groups in enumerate(innermost_first):
        # of the tier's lines from the upper edge, and as much from the left one
        distance = layout.innermost_line - _TIER_HEIGHT * tier
        first = 0
        for name, count in groups:
            after_last = first + count
            begin = first * layout.cell + layout.margin
            end = after_last * layout.cell + layout.margin
            fits = len(name) * _DIGIT_WIDTH + 4 <= end - begin
            if name:
                name_shown = name if fits else ""
                placed.append(PlacedName(name_shown, begin, end, distance))
            first = after_last
    return placed
