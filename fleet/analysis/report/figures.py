"""Draw the plots of a report as inline SVG with unique IDs, real text, a title and the
page's colours.
"""

import base64
import io
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
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
_INK, _RULE = (
    "#010203",
    "#040506",
)
# with all defaults, as matplotlib takes a matplotlibrc of the current folder, too
_STYLE: Any = mpl.rc_params_from_file(
    Path(__file__).with_suffix(".mplstyle"), use_default_template=True
)
# else matplotlib writes its own
_NOTHING: Any = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_NO_SOFTWARE: Any = {"Software": None}
PANEL = 340  # CSS pixels: as wide as a telephone shows without scrolling
_SHORT = 20  # characters
_SIDE, _MAX_CELL = 640, 26  # CSS pixels of a map and of its cells
# CSS pixels: a line of labels, a digit, a line of names
_TEXT, _DIGIT, _TIER = (
    9.5,
    6.0,
    16,
)
_LONG = re.compile(r"-?\d+\.\d{3,}")


class PlacedName(NamedTuple):
    """A group's name on a map, above its line, in CSS pixels."""

    name: str
    begin: float
    end: float
    line: float


def draw(
    name: str,
    title: str,
    size: tuple[int, int],
    onto: Callable[[Axes], object],
    margins: tuple[int, int, int, int],
) -> Markup:
    """Call `onto` with new Axes and return what it draws as an SVG element of `size`
    (CSS pixels).

    name: prefix of the element's IDs, unique on the page. title: a description for
    screen readers. margins: left, bottom, right, top, in CSS pixels.
    """
    (width, height), (left, bottom, right, top) = size, margins
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width / 72, height / 72))
        FigureCanvasSVG(figure)
        figure.subplots_adjust(
            left / width, bottom / height, 1 - right / width, 1 - top / height
        )
        onto(figure.add_subplot())
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata=_NOTHING)
    return _embed_svg(
        ET.fromstring(buffer.getvalue()),  # noqa: S314  (written right above)
        re.sub(r"[^\w-]", "-", name),
        title,
        size,
    )


def draw_map(
    title: str,
    scales: Sequence[tuple[str, Heatmap]],
    tips: Sequence[tuple[str, str]] = (),
    *,
    colours: str | Colormap = "viridis",
    side: int = _SIDE,
) -> Markup:
    """Draw a labelled map as SVG; its picture has a pixel per pair and is at most
    `side` CSS pixels wide.

    title: a description for screen readers. scales: CSS classes, each with the map in
    its own colour scale.
    tips: paths around cells, in units of a cell from the upper left corner, and their
    texts.
    """
    drawn = scales[0][1]
    cell = min(_MAX_CELL, side / len(drawn.labels))
    size = cell * len(drawn.labels)
    beside = _DIGIT * max(map(len, drawn.labels)) + 8
    margin = beside + _TIER * len(drawn.group_labels)
    every = max(1, int(np.ceil(_TEXT / cell)))  # CPU that has room for its number
    svg = render_template(
        "map.svg",
        title=title,
        whole=f"{margin + size + 2:.0f}",
        margin=margin,
        near=margin - 4,
        size=size,
        cell=cell,
        labels=[
            (name, margin + (place + 0.5) * cell)
            for place, name in enumerate(drawn.labels)
        ][::every],
        upright=max(map(len, drawn.labels)) * _DIGIT + 2 > cell * every,
        groups=list(_place_group_names(drawn, cell, margin, margin - beside)),
        pictures=[(name, render_thumbnail(scaled, colours)) for name, scaled in scales],
        borders=[
            margin + place * cell
            for place, border in enumerate(drawn.borders)
            if border
        ],
        tips=tips,
    )
    return Markup(svg)  # noqa: S704  (the template escapes)


def render_thumbnail(drawn: Heatmap, colours: str | Colormap) -> str:
    """Return a heat map as a data URI of a PNG, one pixel per cell; cells not measured
    are transparent.
    """
    shades = drawn.choose_shades()
    pixels = mpl.colormaps.get_cmap(colours)(np.linspace(0, 1, SHADES), bytes=True)[
        shades
    ]
    pixels[shades < 0, 3] = 0
    buffer = io.BytesIO()
    mpl.image.imsave(buffer, pixels, format="png", metadata=_NO_SOFTWARE)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode(
        "ascii"
    )


def list_backgrounds_and_inks(colours: str | Colormap) -> list[tuple[str, str]]:
    """Return the background and the ink of every shade, as CSS colours."""
    every = mpl.colormaps.get_cmap(colours)(np.linspace(0, 1, SHADES))[:, :3]
    return [
        (mpl.colors.to_hex(colour), choose_ink(*map(float, colour))) for colour in every
    ]


def shorten_middle(name: str) -> str:
    """Shorten a long name to fit beside a picture, leaving out its middle."""
    clean = one_line(name)
    return clean if len(clean) <= _SHORT else f"{clean[:10]}…{clean[-9:]}"


def _embed_svg(svg: ET.Element, name: str, title: str, size: tuple[int, int]) -> Markup:
    for parent in svg.iter():
        for child in list(parent):
            if child.tag.rpartition("}")[2] in {"metadata", "style"}:
                parent.remove(child)
    pointers = (value for element in svg.iter() for value in element.attrib.values())
    targets = {
        target
        for value in pointers
        for target in re.findall(r"(?:url\(|^)#([\w-]+)", value)
    }
    for element in svg.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.text = (
            (element.text or "").strip() if element.tag != "text" else element.text
        )
        element.tail = None
        attributes = (
            (key.rpartition("}")[2], value) for key, value in element.attrib.items()
        )
        element.attrib = {
            key: _convert_attribute(key, value, name)
            for key, value in attributes
            if key != "id" or value in targets
        }
        if element.tag == "g":
            _move_style_to_group(element)
    width, height = map(str, size)
    svg.attrib = {"viewBox": f"0 0 {width} {height}", "width": width, "height": height}
    svg.attrib |= {"role": "img", "aria-label": one_line(title)}
    return Markup(ET.tostring(svg, encoding="unicode"))  # noqa: S704  (ElementTree has escaped every text)


def _convert_attribute(key: str, value: str, name: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    if value.startswith("data:"):
        return value
    if key == "href":
        return re.sub("^#", f"#{name}-", value)
    value = _LONG.sub(
        lambda number: f"{float(number[0]):.2f}",
        value.replace("url(#", f"url(#{name}-"),
    )
    if key == "style":
        value = re.sub(r"font: ([\d.]+px) [^;]*", r"font-size: \1", value)
        value = value.replace(_INK, "currentColor").replace(_RULE, "var(--rule)")
    return value


def _move_style_to_group(group: ET.Element) -> None:
    """Move a style that all marks of a group share to the group. This halves the size
    of a scatter plot.
    """
    styles = {child.get("style") for child in group}
    if (
        len(group) > 1
        and len(styles) == 1
        and all(child.tag.endswith("use") for child in group)
    ):
        style = styles.pop()
        if style and "style" not in group.attrib:
            group.set("style", _convert_attribute("style", style, ""))
            for child in group:
                del child.attrib["style"]


def _place_group_names(
    drawn: Heatmap, cell: float, margin: float, far: float
) -> Iterator[PlacedName]:
    """Yield each group's name, "" if it does not fit. far: place of the line nearest to
    the map.
    """
    for line, level in enumerate(reversed(drawn.group_labels)):
        bounds = np.cumsum([0, *(count for _, count in level)]) * cell + margin
        for (name, _), (low, high) in zip(level, pairwise(bounds), strict=True):
            if name:
                fits = len(name) * _DIGIT + 4 <= high - low
                yield PlacedName(name if fits else "", low, high, far - _TIER * line)
