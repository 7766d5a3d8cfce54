"""Draw one run as a card of 1200 x 630 pixels, its map beside its medians, as SVG, PNG
and Markdown.

SVG and PNG are drawn from one `Card`.
Matplotlib is not imported, since that takes a second.
"""

import base64
import io
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image, ImageDraw, ImageFont
from PIL.PngImagePlugin import PngInfo

from fleet.analysis.base.tables import Ints
from fleet.analysis.base.text import (
    convert_to_shown,
    format_half_width,
    format_value,
    to_records,
)
from fleet.analysis.compare.accept import Outcome
from fleet.analysis.reduce.cells import choose_shown_nodes
from fleet.analysis.reduce.flags import MEANINGS, MINOR_IF_FEW, count_flags
from fleet.analysis.reduce.heatmap import (
    SHADES,
    Heatmap,
    find_scale_value,
    is_log,
    map_cpus,
    map_nodes,
)
from fleet.analysis.reduce.ladders import (
    describe_memory,
    find_plateaus,
    lay_out_node_matrix,
    select_line_placed_pairs,
    select_node_cells,
)
from fleet.analysis.reduce.load import drop_points, get_views, read_runs
from fleet.analysis.reduce.matrices import estimator_column, matrix, summarize_relations
from fleet.analysis.reduce.pairs import as_float64, load_pairs
from fleet.analysis.reduce.topology import Layout, make_layout
from fleet.analysis.report.findings import judge_hosts
from fleet.analysis.report.markup import CARD, CARDS, render_template
from fleet.analysis.views.accept import render_acceptance
from fleet.analysis.views.heatmap import is_light_shade, shade_to_rgb
from fleet.analysis.views.point_tables import BY_NODE
from fleet.analysis.views.topology import list_core_kinds
from fleet.errors import UsageError
from fleet.inventory.expected import ExpectedRange
from fleet.model import Benchmark, Descriptions, View, read_descriptions
from fleet.model.version import VERSION
from fleet.store.runs import Root
from fleet.text import format_count, one_line

_SIZE = (1200, 630)
_X, _Y, _SIDE = 64.0, 52.0, 520.0  # pixels: left edge, top and side of the map
# pixels: edges of the texts beside it, and their last line
_LEFT, _RIGHT, _FOOT = (
    700.0,
    1160.0,
    588.0,
)
_COLUMNS = ((_LEFT, "start"), (940.0, "end"), (1050.0, "end"), (_RIGHT, "end"))
_NUMBERED = 16  # CPUs; with more, the numbers would be too small to read
_MAX_ROWS = 8
# width of a character relative to the font's size; most sans-serif fonts are narrower
_EM = 0.64
_FONTS = "mpl-data/fonts/ttf/DejaVuSans"  # of matplotlib, which is not imported
_ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}
_INKS = {
    "ink": "#1b1f24",
    "strong": "#1b1f24",
    "muted": "#57606a",
    "white": "#fff",
    "black": "#000",
}


@dataclass(frozen=True, slots=True)
class Text:
    """Words on a card, in pixels. kind: ink, strong, muted, white or black. anchor:
    start, middle or end.
    """

    x: float
    y: float
    size: float
    kind: str
    anchor: str
    words: str
    upright: bool = False


@dataclass(frozen=True, slots=True)
class Card:
    """The layout of a card. kind: its benchmark and variant. title: its alternative
    text.

    cells: the map's shades, SHADES where nothing was measured. edges: offsets of the
    lines between groups in the map. rows: the table beside it, titles first. quotes: a
    line on whether the run is as expected, then on the fastest, middle and slowest
    pair. about: lines about the machine and the run.
    """

    kind: str
    title: str
    cells: Ints
    edges: Sequence[float]
    texts: Sequence[Text]
    rows: Sequence[tuple[str, ...]]
    quotes: Sequence[str]
    about: Sequence[str]


def make_card(root: Root, run_id: str, ranges: Sequence[ExpectedRange] = ()) -> Card:
    """Return the card of a run's first benchmark between CPUs or, if it has none,
    between NUMA nodes. Of pairs whose lines lie on several nodes it has the first node.

    ranges: what is expected of machines. Raises StoreError, and UsageError if the run
    has neither.
    """
    (run,), _, cpus = read_runs(root, [run_id])
    judged = judge_hosts(root, [run_id], ranges)
    accepted = "".join(
        render_acceptance(machine).partition(": ")[2] for machine in judged
    )
    return lay_out_card(
        run, cpus, as_float64(load_pairs(root, run_id=run_id)), accepted=accepted
    )


def lay_out_card(
    run: dict[str, Any],
    cpus: pd.DataFrame,
    every: pd.DataFrame,
    foot: str | None = None,
    accepted: str = "",
) -> Card:
    """Lay out the card of a run; raise UsageError if it has neither pairs nor NUMA
    nodes.

    run: its row of `runs`, decoded. cpus, every: its rows of `cpus` and `pairs`. foot:
    the last line, by default with version, date and run ID. accepted: the text of
    `fleet accept` about the run.
    """
    descriptions = read_descriptions(run["hello"])
    pairs = drop_points(every, descriptions)
    pairs = pairs[get_views(pairs["benchmark"], descriptions) == View.MATRIX]
    if pairs.empty:
        pairs = select_line_placed_pairs(every, descriptions)
    if by_node := pairs.empty:
        pairs = select_node_cells(every, cpus, descriptions)
    named = pairs["benchmark"].astype(str) + "/" + pairs["variant"].astype(str)
    kinds = named.unique().tolist()
    kind = next((kind for kind in (*run["benchmarks"], *kinds) if kind in kinds), None)
    if kind is None:
        raise UsageError(
            f"{run['run_id']}: has no pairs of CPUs for a card; write a page: -o"
            " report.html."
        )
    pairs, line_nodes = _select_first_line_node(pairs[named == kind], by_node=by_node)
    subject = f"{kind.rstrip('/')} {line_nodes}".rstrip()
    benchmark, number = descriptions[kind], estimator_column(run)
    if by_node:
        shown = choose_shown_nodes(pairs, descriptions)
        pairs = pairs.loc[shown.index].assign(relation=shown["column"])
        subject = f"{subject} {shown['about'].iloc[0]}"
        order = make_layout(cpus, cpus["cpu"][cpus["measured"]].tolist())
        drawn = map_nodes(*lay_out_node_matrix(pairs, number))
    else:
        order = make_layout(cpus, sorted({*pairs["ping_cpu"], *pairs["pong_cpu"]}))
        drawn = map_cpus(matrix(pairs, order.cpus, number), order)
    table = [("memory" if by_node else "shared", "median", "±95%", "pairs")]
    for row in to_records(summarize_relations(pairs, number).astype({"pairs": str})):
        median = f"{format_value(benchmark, row['median_ns'])} {benchmark.rate or 'ns'}"
        table.append(
            (row["relation"], median, format_half_width(row["spread"]), row["pairs"])
        )
    model = one_line(run["cpu_model"] or "unknown CPU model")
    subject = one_line(f"{subject}: {benchmark.heading}")
    memory = (
        BY_NODE
        if by_node
        else _describe_memory(find_plateaus(every, cpus, descriptions), descriptions)
    )
    beside_peak = [
        line for line in describe_memory(run, every, cpus, descriptions) if "%" in line
    ]
    memory = one_line("; ".join(filter(None, [memory, *beside_peak[:1]])))
    extremes = [] if by_node else _describe_min_median_max(pairs, number, benchmark)
    judged = (
        ""
        if accepted.startswith(Outcome.CANNOT_TELL)
        else one_line(accepted.partition("; ")[0])
    )
    counts, core_kinds = _describe_counts(order), list_core_kinds(order)
    foot = foot or _format_footer(run, pairs)
    wrapped = (
        textwrap.wrap(judged, 48) if len(table) < _MAX_ROWS else filter(None, [judged])
    )
    words = _place_words(
        model, counts, core_kinds, subject, table, memory, [*wrapped, *extremes], foot
    )
    listed = ", ".join(
        f"{relation} {ns} {half.strip('-')}".rstrip()
        for relation, ns, half, _ in table[1:]
    )
    shades, cell = drawn.choose_shades(), _SIDE / len(drawn.labels)
    return Card(
        kind,
        title=f"{model}, {subject}: {listed}",
        cells=np.where(shades < 0, SHADES, shades),
        edges=[place * cell for place, border in enumerate(drawn.borders) if border],
        texts=[*_place_map_texts(drawn, benchmark), *words],
        rows=table,
        quotes=[*filter(None, [judged]), *extremes],
        about=[*filter(None, (f"{model}, {counts}", core_kinds, memory, foot))],
    )


def _select_first_line_node(
    pairs: pd.DataFrame, *, by_node: bool
) -> tuple[pd.DataFrame, str]:
    """Select the pairs whose lines lie on the first of several requested nodes, and say
    so: "n0, the first of 2 nodes". Pairs that are not placed stay as they are.
    """
    nodes = sorted(pairs["memory_node"].dropna().astype(int).unique())
    if by_node or not nodes:
        return pairs, ""
    words = f"n{nodes[0]}"
    if len(nodes) > 1:
        words += f", the first of {len(nodes)} nodes"
    return pairs[pairs["memory_node"] == nodes[0]], words


def _describe_counts(order: Layout) -> str:
    """Count sockets, cores and threads where they are known, else CPUs."""
    sockets, cores = ({groups[tier] for groups in order.groups} for tier in (0, -1))
    if -1 in sockets | cores:
        return format_count(len(order.cpus), "CPU")
    units = ((sockets, "socket"), (cores, "core"), (order.cpus, "thread"))
    return ", ".join(format_count(len(members), name) for members, name in units)


def _describe_min_median_max(
    pairs: pd.DataFrame, number: str, benchmark: Benchmark
) -> list[str]:
    """Return a line each for the pairs with the lowest, the middle and the highest
    number.
    """
    rows = pairs.assign(shown=convert_to_shown(benchmark, pairs[number])).dropna(
        subset="shown"
    )
    rows = rows.sort_values(["shown", "ping_cpu", "pong_cpu"], kind="stable")
    chosen = to_records(rows.iloc[[0, (len(rows) - 1) // 2, -1]])
    return [
        f"{name}: {format_value(benchmark, row[number])} {benchmark.rate or 'ns'}, "
        f"CPUs {row['ping_cpu']} and {row['pong_cpu']} ({row['relation']})"
        for name, row in zip(("min", "median", "max"), chosen, strict=True)
    ]


def _describe_memory(levels: pd.DataFrame, descriptions: Descriptions) -> str:
    """List the memory levels of the first latency ladder of one CPU; empty if none was
    measured.
    """
    rows = levels[(levels["threads"] == 1) & (levels["unit"] != "byte")]
    if rows.empty:
        return ""
    _, first = next(
        iter(rows.groupby(["benchmark", "variant", "setting", "ping_cpu"], sort=False))
    )
    listed = ", ".join(
        f"{row['level']}"
        f" {format_value(descriptions[row['benchmark']], row['median_ns'])}"
        for row in to_records(first)
    )
    return one_line(f"memory, {first['setting'].iloc[0]}: {listed} ns")


def _format_footer(run: dict[str, Any], pairs: pd.DataFrame) -> str:
    counts = count_flags(pairs["flags"])
    flags = [
        f"{flag} {counts[flag]}"
        for flag in MEANINGS
        if flag in counts and flag not in MINOR_IF_FEW
    ]
    parts = (
        f"fleet {VERSION}",
        f"{run['started_utc']:%Y-%m-%d}",
        f"kernel {run['kernel']}" if run["kernel"] else "",
        f"governor {run['governor']}" if run["governor"] else "",
        "virtual machine" if run["hypervisor"] else "",
        f"flags of pairs: {', '.join(flags)}" if flags else "",
        f"run {run['run_id'][-8:]}",
    )
    return one_line(" · ".join(filter(None, parts)))


def _fit_line(
    x: float, y: float, largest: float, words: str, kind: str = "ink", room: float = 460
) -> Text:
    return Text(
        x, y, min(largest, room / (_EM * max(len(words), 1))), kind, "start", words
    )


def _place_words(
    model: str,
    counts: str,
    core_kinds: str,
    subject: str,
    table: Sequence[tuple[str, ...]],
    memory: str,
    lines: Sequence[str],
    foot: str,
) -> Iterator[Text]:
    """Yield the texts beside the map from the top down, with `lines` just above the
    last line, `foot`.
    """
    y = 76.0
    for line in textwrap.wrap(model, 26)[:3]:
        yield _fit_line(_LEFT, y, 24, line, "strong")
        y += 30
    yield _fit_line(_LEFT, y, 17, counts)
    if core_kinds:
        y += 24
        yield _fit_line(_LEFT, y, 15, core_kinds)
    yield _fit_line(_LEFT, y + 30, 15, subject, "muted")
    y += 62
    rows, step = [*table], 36 if len(table) - 1 <= _MAX_ROWS // 2 else 27
    if len(rows) - 1 > _MAX_ROWS:
        rows[_MAX_ROWS:] = [(f"and {len(rows) - _MAX_ROWS} more",)]
    for place, row in enumerate(rows):
        for (x, anchor), cell in zip(_COLUMNS, row, strict=False):
            yield Text(x, y, 0.6 * step, "ink" if place else "muted", anchor, cell)
        y += step
    if memory:
        yield _fit_line(_LEFT, y + 8, 15, memory)
    for place, line in enumerate(lines, 1 - len(lines)):
        yield _fit_line(_LEFT, _FOOT + 21 * place, 15, line)
    yield _fit_line(40, _FOOT + 22, 14, foot, "muted", _SIZE[0] - 80)


def _place_map_texts(drawn: Heatmap, benchmark: Benchmark) -> Iterator[Text]:
    """Yield the texts of a map: names of groups, numbers of pairs if it is small, and
    its scale.
    """
    cell, numbered = _SIDE / len(drawn.labels), len(drawn.labels) <= _NUMBERED
    for line, level in enumerate(reversed(drawn.group_labels)):
        away = 8.0 + 18 * line + 22 * numbered
        bounds = accumulate((size * cell for _, size in level), initial=0.0)
        for (name, _), (low, high) in zip(level, pairwise(bounds), strict=True):
            if name and 13 * _EM * len(name) + 4 <= high - low:
                yield Text(
                    _X + (low + high) / 2, _Y - away, 13, "muted", "middle", name
                )
                yield Text(
                    _X - away,
                    _Y + (low + high) / 2,
                    13,
                    "muted",
                    "middle",
                    name,
                    upright=True,
                )
    if numbered:
        yield from _place_numbers_and_labels(drawn, benchmark, cell)
    low, high = sorted(convert_to_shown(benchmark, end) for end in drawn.limits)
    right = _X + _SIDE + 38
    for tick in range(0, 5, 4 if high - low < 0.4 else 1):  # no number twice
        value = convert_to_shown(
            benchmark, find_scale_value(1 - tick / 4, drawn.limits)
        )
        words = f"{value:.{1 if high < 1000 else 0}f}"
        yield Text(
            right, _Y + 11 + tick * (_SIDE - 13) / 4, 13, "muted", "start", words
        )
    unit = f"{benchmark.rate or 'ns'}{', log' if is_log(drawn.limits) else ''}"
    yield Text(right, _Y - 8, 13, "muted", "start", unit)


def _place_numbers_and_labels(
    drawn: Heatmap, benchmark: Benchmark, cell: float
) -> Iterator[Text]:
    size, shades = min(24.0, cell / 3.6), drawn.choose_shades()
    values = convert_to_shown(benchmark, drawn.values)
    yield Text(
        _X - 8,
        _Y - 8,
        13,
        "muted",
        "end",
        "node" if drawn.labels[0].startswith("n") else "CPU",
    )
    for place, label in enumerate(drawn.labels):
        middle = (place + 0.5) * cell
        yield Text(_X + middle, _Y - 8, 13, "muted", "middle", label)
        yield Text(_X - 8, _Y + middle + 5, 13, "muted", "end", label)
        for other, (value, shade) in enumerate(
            zip(values[place], shades[place], strict=True)
        ):
            if shade >= 0:
                kind = "black" if is_light_shade(shade) else "white"
                words, x = (
                    f"{value:.{1 if value < 1000 else 0}f}",
                    _X + (other + 0.5) * cell,
                )
                yield Text(x, _Y + middle + 0.36 * size, size, kind, "middle", words)


def _place_map_and_scale(card: Card) -> list[tuple[tuple[float, ...], Ints]]:
    """Return (left, top, width, height) and the shades, for the map and then for its
    scale.
    """
    scale: Ints = np.arange(SHADES)[::-1, None]
    return [
        ((_X, _Y, _SIDE, _SIDE), card.cells),
        ((_X + _SIDE + 14, _Y, 16.0, _SIDE), scale),
    ]


def draw_pixels(cells: Ints) -> Image.Image:
    """Draw one pixel per cell, with a palette of all shades and white for cells not
    measured.
    """
    image = Image.frombytes("P", cells.shape[::-1], cells.astype(np.uint8).tobytes())
    image.putpalette(
        bytes(value for shade in range(SHADES) for value in shade_to_rgb(shade))
        + b"\xff" * 3
    )
    return image


def to_png(cells: Ints, side: int | None = None) -> bytes:
    """Encode a PNG of a pixel per cell, or `side` pixels square; cells not measured are
    transparent.
    """
    buffer, image = io.BytesIO(), draw_pixels(cells)
    small = (
        image if side is None else image.resize((side, side), Image.Resampling.NEAREST)
    )
    small.save(buffer, "png", transparency=SHADES)
    return buffer.getvalue()


def render_svg(card: Card) -> str:
    """Render the card as SVG, light or dark as its page is. The line before the last
    has the text `foot`.
    """
    pictures = [
        (place, f"data:image/png;base64,{base64.b64encode(to_png(cells)).decode()}")
        for place, cells in _place_map_and_scale(card)
    ]
    place = {"width": _SIZE[0], "height": _SIZE[1], "x": _X, "y": _Y, "side": _SIDE}
    return (
        render_template("card.svg", card=card, pictures=pictures, mark=CARD, **place)
        + "\n"
    )


def render_png(card: Card) -> bytes:
    """Render the card as PNG, in light colours."""
    image = Image.new("RGB", _SIZE, "#fff")
    draw = ImageDraw.Draw(image)
    for (x, y, wide, high), cells in _place_map_and_scale(card):
        large = (
            draw_pixels(cells)
            .convert("RGB")
            .resize((int(wide), int(high)), Image.Resampling.NEAREST)
        )
        image.paste(large, (int(x), int(y)))
    for edge in card.edges:
        draw.line((_X, _Y + edge, _X + _SIDE, _Y + edge), "#fff")
        draw.line((_X + edge, _Y, _X + edge, _Y + _SIDE), "#fff")
    matplotlib = find_spec("matplotlib")
    assert matplotlib is not None  # noqa: S101  (a dependency)
    fonts = Path(str(matplotlib.origin)).parent / _FONTS
    for text in card.texts:
        font = ImageFont.truetype(
            f"{fonts}{'-Bold' if text.kind == 'strong' else ''}.ttf", text.size
        )
        if text.upright:
            turned = ImageFont.TransposedFont(font, Image.Transpose.ROTATE_90)
            corner = (text.x - text.size, text.y - font.getlength(text.words) / 2)
            draw.text(corner, text.words, _INKS[text.kind], turned)
        else:
            draw.text(
                (text.x, text.y),
                text.words,
                _INKS[text.kind],
                font,
                _ANCHORS[text.anchor],
            )
    buffer, about = io.BytesIO(), PngInfo()
    about.add_text("Software", CARD)
    few = image.quantize(dither=Image.Dither.NONE)  # 256 colours: a third of the bytes
    few.save(buffer, "png", pnginfo=about)
    return buffer.getvalue()


def render_paste_text(card: Card, name: str) -> str:
    """Render Markdown to paste: the picture `name`, then the card's table and lines as
    text.
    """
    clean = [[cell.replace("|", "\\|") for cell in row] for row in card.rows]
    lines = [f"| {' | '.join(row)} |" for row in clean]
    alternative = card.title.replace("[", "\\[").replace("]", "\\]")
    table = "\n".join((lines[0], "| --- | ---: | ---: | ---: |", *lines[1:]))
    listed = "\n".join(f"- {line}" for line in card.quotes)
    return "\n\n".join(
        filter(None, (f"![{alternative}]({name})", table, listed, *card.about))
    )


FORMATS: Mapping[str, Callable[[Card], str | bytes]] = dict(
    zip(CARDS, (render_svg, render_png), strict=True)
)
