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
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image, ImageDraw, ImageFont
from PIL.PngImagePlugin import PngInfo

from fleet.analysis.base.tables import Floats, Ints
from fleet.analysis.base.text import (
    convert_to_shown,
    format_half_width,
    format_value,
    to_records,
)
from fleet.analysis.compare.accept import Outcome
from fleet.analysis.reduce.flags import MEANINGS, MINOR_IF_FEW, count_flags
from fleet.analysis.reduce.heatmap import (
    SHADES,
    Heatmap,
    find_scale_value,
    is_log,
    map_cpus,
    map_nodes,
)
from fleet.analysis.reduce.host_numbers import select_overview
from fleet.analysis.reduce.ladders import (
    MemoryHierarchy,
    arrange_memory,
    describe_memory,
    lay_out_node_matrix,
    select_line_placed_pairs,
)
from fleet.analysis.reduce.load import (
    drop_points,
    get_views,
    name_benchmarks,
    read_runs,
    select_choice,
)
from fleet.analysis.reduce.matrices import estimator_column, matrix
from fleet.analysis.reduce.numbers import (
    list_relations,
    load_shown_numbers,
    select_relations,
)
from fleet.analysis.reduce.pairs import as_float64, load_pairs
from fleet.analysis.reduce.topology import Layout, make_layout
from fleet.analysis.report.findings import describe_acceptance, judge_hosts
from fleet.analysis.report.markup import CARD, CARDS, render_template
from fleet.analysis.views.heatmap import is_light_shade, shade_to_rgb
from fleet.analysis.views.node_tables import BY_NODE
from fleet.analysis.views.topology import list_core_kinds
from fleet.errors import UsageError
from fleet.inventory.expected import ExpectedRange
from fleet.model import Benchmark, Descriptions, View, read_descriptions
from fleet.model.version import VERSION
from fleet.store.runs import Root
from fleet.text import format_count, one_line

_SIZE = (1200, 630)
_X, _Y, _SIDE = 64.0, 52.0, 520.0  # pixels: left edge, top and side of the map
_LEFT, _RIGHT = 700.0, 1160.0  # pixels: edges of the texts beside it
_FOOT = 588.0  # pixels: the last line of these texts
_COLUMNS = ((_LEFT, "start"), (940.0, "end"), (1050.0, "end"), (_RIGHT, "end"))
_NUMBERED = 16  # CPUs; with more, the numbers would be too small to read
_DIGITS_PER_CELL = 3.6  # sizes of the font in the side of a cell: "123.4" fits
_CAPITAL_HEIGHT = 0.72  # of a digit, relative to the font's size
_LABEL_SIZE = 13  # pixels, of the font of labels around the map and its scale
_LABEL_DISTANCE = 8  # pixels, of labels from the map
_SCALE_WIDTH = 16.0  # pixels
_SCALE_X = _X + _SIDE + 14  # pixels: left edge of the colour scale
_MAX_ROWS = 8
_NOT_MEASURED = SHADES  # in `Card.cells`; shades are 0 to SHADES - 1
# width of a character relative to the font's size; most sans-serif fonts are narrower
_EM = 0.64
_FONTS = "mpl-data/fonts/ttf"  # of matplotlib, which is not imported
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
    """The layout of a card. choice: its benchmark and variant. title: its alternative
    text.

    cells: the map's shades, _NOT_MEASURED where nothing was. edges: offsets of the
    lines between groups in the map. rows: the table beside it, titles first. quotes: a
    line on whether the run is as expected, then on the fastest, middle and slowest
    pair. about: lines about the machine and the run.
    """

    choice: str
    title: str
    cells: Ints
    edges: Sequence[float]
    texts: Sequence[Text]
    rows: Sequence[tuple[str, ...]]
    quotes: Sequence[str]
    about: Sequence[str]


@dataclass(frozen=True, slots=True)
class _Subject:
    """What of a run is on its card: pairs of CPUs, or cells of NUMA nodes, of one
    benchmark and variant.

    choice: the benchmark and variant, such as "cas/cmpxchg"; "chase/" has no variant.
    relations: the rows of the table beside the map. ns_column: the column of `pairs`
    that is shown, such as "median_ns". name: the choice and, where it has one, the
    node or setting that was chosen.
    """

    choice: str
    benchmark: Benchmark
    pairs: pd.DataFrame
    relations: pd.DataFrame
    ns_column: str
    name: str
    order: Layout
    drawn: Heatmap
    by_node: bool


@dataclass(frozen=True, slots=True)
class _Words:
    """What is written beside the map, from the top down; a line may be empty. table:
    titles first. judgement: whether the run is as expected. heading: "" for the model.
    """

    heading: str
    model: str
    counts: str
    core_kinds: str
    subject: str
    table: Sequence[tuple[str, ...]]
    memory: str
    judgement: str
    extremes: Sequence[str]
    foot: str

    @property
    def title(self) -> str:
        """Return the text for those who do not see the card."""
        rows = []
        for relation, median, half, _ in self.table[1:]:
            rows.append(f"{relation} {median} {half.strip('-')}".rstrip())
        heading = self.heading or self.model
        return f"{heading}, {self.subject}: {', '.join(rows)}"

    @property
    def quotes(self) -> list[str]:
        """Return the lines on whether the run is as expected and on single pairs."""
        return [line for line in (self.judgement, *self.extremes) if line]

    @property
    def about(self) -> list[str]:
        """Return the lines about the machine and the run."""
        machine = f"{self.model}, {self.counts}"
        lines = (machine, self.core_kinds, self.memory, self.foot)
        return [line for line in lines if line]


def make_card(
    root: Root,
    run_id: str,
    ranges: Sequence[ExpectedRange] = (),
    heading: str = "",
) -> Card:
    """Return the card of a run's first benchmark between CPUs or, if the run has no
    such benchmark, between NUMA nodes. If the lines of the pairs lie on several nodes,
    the card has those of the first node.

    ranges: what is expected of machines. heading: "" for the CPU model. Raises
    StoreError, and UsageError if the run has neither kind of benchmark.
    """
    runs, _, cpus = read_runs(root, [run_id])
    (run,) = runs
    # one acceptance, since the run is of one host; none if nothing can be compared
    acceptances = judge_hosts(root, [run_id], ranges)
    return lay_out_card(
        run,
        cpus,
        pairs=as_float64(load_pairs(root, run_id=run_id)),
        numbers=load_shown_numbers(root, [run]),
        accepted="".join(map(describe_acceptance, acceptances)),
        heading=heading,
    )


def lay_out_card(
    run: dict[str, Any],
    cpus: pd.DataFrame,
    pairs: pd.DataFrame,
    numbers: pd.DataFrame,
    foot: str | None = None,
    accepted: str = "",
    heading: str = "",
) -> Card:
    """Lay out the card of a run; raise UsageError if it has neither pairs nor NUMA
    nodes.

    run: the run's row of the table `runs`, its JSON decoded. cpus, pairs: the run's
    rows of the tables of these names. numbers: from `load_shown_numbers`. foot: the
    last line; None for the line of `_format_footer`. accepted: the text of `fleet
    accept` about the run, "" without any. heading: "" for the CPU model.
    """
    memory = arrange_memory(pairs, cpus, read_descriptions(run["hello"]))
    subject = _choose_subject(run, cpus, pairs, memory, numbers)
    words = _Words(
        heading=one_line(heading),
        model=one_line(run["cpu_model"] or "unknown CPU model"),
        counts=_describe_counts(subject.order),
        core_kinds=list_core_kinds(subject.order),
        subject=one_line(f"{subject.name}: {subject.benchmark.heading}"),
        table=_tabulate(subject),
        memory=_describe_memory(run, cpus, memory, by_node=subject.by_node),
        judgement=_extract_judgement(accepted),
        extremes=_describe_min_median_max(subject),
        foot=foot or _format_footer(run, subject.pairs),
    )
    return _place_on_card(subject, words)


def _place_on_card(subject: _Subject, words: _Words) -> Card:
    """Place the map of a subject, and the words beside it."""
    drawn = subject.drawn
    shades = drawn.choose_shades()
    map_texts = _place_map_texts(drawn, subject.benchmark)
    return Card(
        choice=subject.choice,
        title=words.title,
        cells=np.where(shades < 0, _NOT_MEASURED, shades),
        edges=_place_edges(drawn),
        texts=[*map_texts, *_place_words(words)],
        rows=words.table,
        quotes=words.quotes,
        about=words.about,
    )


def _place_edges(drawn: Heatmap) -> list[float]:
    """Return the offsets of the lines between groups, from the edge of the map."""
    cell = _SIDE / len(drawn.labels)
    places = [place for place, border in enumerate(drawn.borders) if border]
    return [place * cell for place in places]


def _choose_subject(
    run: dict[str, Any],
    cpus: pd.DataFrame,
    pairs: pd.DataFrame,
    memory: MemoryHierarchy,
    numbers: pd.DataFrame,
) -> _Subject:
    """Choose what the card shows: a matrix of pairs of CPUs or, if the run has no such
    pairs, a matrix of NUMA nodes. Of several benchmarks, the card shows the one that
    was planned first. Raises UsageError if the run has neither kind of matrix.

    pairs: the run's rows of the table `pairs`. memory: made of them. numbers: from
    `load_shown_numbers`.
    """
    rows = _select_pairs(pairs, read_descriptions(run["hello"]))
    by_node = rows.empty
    if by_node:
        rows = memory.nodes
    # for each row its benchmark and variant, such as "cas/cmpxchg"
    choices = name_benchmarks(rows)
    choice = _pick_choice(run, choices.unique().tolist())
    own = rows[choices == choice]
    if by_node:
        return _make_node_subject(run, cpus, own, choice, numbers)
    return _make_pair_subject(run, cpus, own, choice, numbers)


def _select_pairs(pairs: pd.DataFrame, descriptions: Descriptions) -> pd.DataFrame:
    """Select the rows of benchmarks that are shown as matrices. Of a benchmark with
    points, which are settings of a pair's measurement, only the usual point is kept, so
    that a pair has one row. If no row is left, select the pairs whose lines were placed
    on NUMA nodes; a pair then has a row per node.
    """
    without_points = drop_points(pairs, descriptions)
    views = get_views(without_points["benchmark"], descriptions)
    rows = without_points[views == View.MATRIX]
    if rows.empty:
        return select_line_placed_pairs(pairs, descriptions)
    return rows


def _pick_choice(run: dict[str, Any], choices: Sequence[str]) -> str:
    """Return the first planned benchmark and variant that is among `choices`, else the
    first of these. Raises UsageError for none.
    """
    if not choices:
        raise UsageError(
            f"{run['run_id']}: has no pairs of CPUs for a card; write a page: -o"
            " report.html."
        )
    for planned in run["benchmarks"]:
        if planned in choices:
            return str(planned)
    return choices[0]


def _make_pair_subject(
    run: dict[str, Any],
    cpus: pd.DataFrame,
    pairs: pd.DataFrame,
    choice: str,
    numbers: pd.DataFrame,
) -> _Subject:
    """Return the subject of a card that shows pairs of CPUs.

    If the cache lines of the pairs lie on several requested nodes, it has the pairs of
    the first node, and its name says so: "cas/cmpxchg n0, the first of 2 nodes". pairs,
    choice: of one benchmark and variant.
    """
    descriptions = read_descriptions(run["hello"])
    pairs, node_words = _select_first_node(pairs)
    measured_cpus = {*pairs["ping_cpu"], *pairs["pong_cpu"]}
    order = make_layout(cpus, sorted(measured_cpus))
    ns_column = estimator_column(run)
    relations = list_relations(numbers, descriptions)
    return _Subject(
        choice=choice,
        benchmark=descriptions[choice],
        pairs=pairs,
        relations=select_relations(relations, pairs),
        ns_column=ns_column,
        name=choice.rstrip("/") + node_words,
        order=order,
        drawn=map_cpus(matrix(pairs, order.cpus, ns_column), order),
        by_node=False,
    )


def _select_first_node(pairs: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Select the pairs whose lines lie on the first requested node, and name it: " n0",
    or " n0, the first of 2 nodes". Without requested nodes, return all pairs and "".
    """
    known_nodes = pairs["memory_node"].dropna().astype(int)
    nodes = sorted(known_nodes.unique())
    if not nodes:
        return pairs, ""
    first = nodes[0]
    words = f" n{first}"
    if len(nodes) > 1:
        words += f", the first of {len(nodes)} nodes"
    return pairs[pairs["memory_node"] == first], words


def _make_node_subject(
    run: dict[str, Any],
    cpus: pd.DataFrame,
    cells: pd.DataFrame,
    choice: str,
    numbers: pd.DataFrame,
) -> _Subject:
    """Return the subject of a card that shows a matrix of NUMA nodes, beside the
    overview's numbers of local and remote memory.

    cells: a row per CPU node, memory node and setting of one benchmark and variant,
    `choice`. The overview has the numbers of one setting only; its column `about`
    describes that setting. The matrix has the cells of the same setting. numbers: from
    `load_shown_numbers`.
    """
    descriptions = read_descriptions(run["hello"])
    overview = select_overview(select_choice(numbers, choice), descriptions)
    first = overview.iloc[0]
    cells_of_setting = cells[cells["setting"] == first["setting"]]
    ns_column = estimator_column(run)
    measured_cpus = cpus["cpu"][cpus["measured"]]
    cpu_nodes, memory_nodes, ns_by_nodes = lay_out_node_matrix(
        cells_of_setting, ns_column
    )
    return _Subject(
        choice=choice,
        benchmark=descriptions[choice],
        pairs=cells_of_setting,
        relations=overview.sort_values("median_ns", kind="stable"),
        ns_column=ns_column,
        name=f"{choice.rstrip('/')} {first['about']}",
        order=make_layout(cpus, measured_cpus.tolist()),
        drawn=map_nodes(cpu_nodes, memory_nodes, ns_by_nodes),
        by_node=True,
    )


def _describe_counts(order: Layout) -> str:
    """Count sockets, cores and threads: "2 sockets, 16 cores, 32 threads". If the
    socket or core of a CPU is unknown, count CPUs: "32 CPUs".
    """
    # a CPU's groups are listed from its package, a socket, to its core
    sockets = {groups[0] for groups in order.groups}
    cores = {groups[-1] for groups in order.groups}
    unknown = -1
    if unknown in sockets | cores:
        return format_count(len(order.cpus), "CPU")
    counts = (
        format_count(len(sockets), "socket"),
        format_count(len(cores), "core"),
        format_count(len(order.cpus), "thread"),
    )
    return ", ".join(counts)


def _tabulate(subject: _Subject) -> list[tuple[str, ...]]:
    """Return the titles of the table beside the map, then a row for each relation, such
    as ("package", "43.4 ns", "±1.2%", "28").
    """
    first_title = "memory" if subject.by_node else "shared"
    titles = (first_title, "median", "±95%", "pairs")
    table: list[tuple[str, ...]] = [titles]
    for row in to_records(subject.relations):
        median = _format_with_unit(subject.benchmark, row["median_ns"])
        half = format_half_width(row["spread"])
        pairs = str(row["pairs"])
        table.append((row["relation"], median, half, pairs))
    return table


def _format_with_unit(benchmark: Benchmark, ns: float) -> str:
    unit = benchmark.rate or "ns"
    return f"{format_value(benchmark, ns)} {unit}"


def _describe_memory(
    run: dict[str, Any], cpus: pd.DataFrame, memory: MemoryHierarchy, *, by_node: bool
) -> str:
    """Describe a run's memory in one line: its levels, then its best bandwidth as a
    share of the peak. If each of several nodes has a bandwidth, the line has that of
    the first node.

    by_node: whether the map shows nodes; the line then says so instead of the levels.
    """
    if by_node:
        subject = BY_NODE
    else:
        subject = _describe_levels(memory.levels, read_descriptions(run["hello"]))
    # a line that has a share: "memory, read: 80.1 of 102.4 GB/s, 78%"
    lines = describe_memory(run, memory, cpus)
    shares_of_peak = [line for line in lines if "%" in line]
    parts = [subject, *shares_of_peak[:1]]
    return one_line("; ".join(part for part in parts if part))


def _describe_levels(levels: pd.DataFrame, descriptions: Descriptions) -> str:
    """List the memory levels of the first latency ladder of one CPU, with the latency
    of each; empty if none was measured. levels: a row per level of each ladder.
    """
    of_one_cpu = levels["threads"] == 1
    is_latency = levels["unit"] != "byte"  # times of bytes are shown as a bandwidth
    rows = levels[of_one_cpu & is_latency]
    if rows.empty:
        return ""
    ladder = ["benchmark", "variant", "setting", "ping_cpu"]
    _, first = next(iter(rows.groupby(ladder, sort=False)))
    numbers = []
    for row in to_records(first):
        benchmark = descriptions[row["benchmark"]]
        value = format_value(benchmark, row["median_ns"])
        numbers.append(f"{row['level']} {value}")
    setting = first["setting"].iloc[0]
    return one_line(f"memory, {setting}: {', '.join(numbers)} ns")


def _extract_judgement(accepted: str) -> str:
    """Return the judgement of `fleet accept` without its details; empty if it cannot
    tell.
    """
    if accepted.startswith(Outcome.CANNOT_TELL):
        return ""
    return one_line(accepted.partition("; ")[0])


def _describe_min_median_max(subject: _Subject) -> list[str]:
    """Return a line each for the pairs of CPUs with the lowest, the median and the
    highest number; no lines for a map of nodes.
    """
    if subject.by_node:
        return []
    ns = subject.pairs[subject.ns_column]
    with_number = subject.pairs.assign(shown=convert_to_shown(subject.benchmark, ns))
    rows = with_number.dropna(subset="shown")
    rows = rows.sort_values(["shown", "ping_cpu", "pong_cpu"], kind="stable")
    middle = (len(rows) - 1) // 2
    first_middle_and_last = rows.iloc[[0, middle, -1]]
    lowest, median, highest = to_records(first_middle_and_last)
    return [
        f"min: {_describe_pair(subject, lowest)}",
        f"median: {_describe_pair(subject, median)}",
        f"max: {_describe_pair(subject, highest)}",
    ]


def _describe_pair(subject: _Subject, pair: Mapping[str, Any]) -> str:
    """Say a pair's number, and what its CPUs share."""
    value = _format_with_unit(subject.benchmark, pair[subject.ns_column])
    cpus = f"CPUs {pair['ping_cpu']} and {pair['pong_cpu']}"
    return f"{value}, {cpus} ({pair['relation']})"


def _format_footer(run: dict[str, Any], pairs: pd.DataFrame) -> str:
    """Format what produced the run, and on what system, in one line."""
    parts = [f"fleet {VERSION}", f"{run['started_utc']:%Y-%m-%d}"]
    if run["kernel"]:
        parts.append(f"kernel {run['kernel']}")
    if run["governor"]:
        parts.append(f"governor {run['governor']}")
    if run["hypervisor"]:
        parts.append("virtual machine")
    flags = _count_major_flags(pairs)
    if flags:
        parts.append(f"flags of pairs: {', '.join(flags)}")
    parts.append(f"run {run['run_id'][-8:]}")
    return one_line(" · ".join(parts))


def _count_major_flags(pairs: pd.DataFrame) -> list[str]:
    """Say how many pairs have each flag that matters even if few pairs have it:
    "multimodal 3". The flags are in the order of MEANINGS.
    """
    counts = count_flags(pairs["flags"])
    return [
        f"{flag} {counts[flag]}"
        for flag in MEANINGS
        if flag in counts and flag not in MINOR_IF_FEW
    ]


def _place_words(words: _Words) -> list[Text]:
    """Place the texts beside the map: heading and table from the top, the others just
    above the last line.
    """
    heading = _place_heading(words)
    top_of_table = heading[-1].y + 32
    table, below = _place_table(words.table, top_of_table)
    texts = heading + table
    if words.memory:
        memory = _fit_line(_LEFT, below + 8, 15, words.memory)
        texts.append(memory)
    texts += _place_above_foot([*_wrap_judgement(words), *words.extremes])
    width, _ = _SIZE
    foot = _fit_line(40, _FOOT + 22, 14, words.foot, "muted", room=width - 80)
    texts.append(foot)
    return texts


def _place_above_foot(lines: Sequence[str]) -> list[Text]:
    """Place lines one below the other, 21 pixels apart, so that the last of them is at
    _FOOT.
    """
    y = _FOOT - 21 * (len(lines) - 1)
    texts = []
    for line in lines:
        texts.append(_fit_line(_LEFT, y, 15, line))
        y += 21
    return texts


def _place_heading(words: _Words) -> list[Text]:
    """Place the lines about the machine, and what was measured on it."""
    texts = []
    y = 76.0
    lines = textwrap.wrap(words.heading or words.model, 26)
    for line in lines[:3]:
        texts.append(_fit_line(_LEFT, y, 24, line, "strong"))
        y += 30
    if words.heading:
        texts.append(_fit_line(_LEFT, y, 17, words.model))
        y += 26
    texts.append(_fit_line(_LEFT, y, 17, words.counts))
    if words.core_kinds:
        y += 24
        texts.append(_fit_line(_LEFT, y, 15, words.core_kinds))
    y += 30
    texts.append(_fit_line(_LEFT, y, 15, words.subject, "muted"))
    return texts


def _place_table(
    table: Sequence[tuple[str, ...]], top: float
) -> tuple[list[Text], float]:
    """Place the texts of a table, titles first, from `top` on. Return the texts, and
    the height at which a line below the table goes. If there are more than _MAX_ROWS
    rows, the last line says how many rows are left out.
    """
    titles, *rows = table
    # pixels from line to line: fewer if there are many rows
    step = 36 if len(rows) <= _MAX_ROWS // 2 else 27
    if len(rows) > _MAX_ROWS:
        shown = rows[: _MAX_ROWS - 1]
        left_out = len(rows) - len(shown)
        rows = [*shown, (f"and {left_out} more",)]
    texts = _place_row(titles, top, step, "muted")
    y = top + step
    for row in rows:
        texts += _place_row(row, y, step, "ink")
        y += step
    return texts, y


def _place_row(row: Sequence[str], y: float, step: int, kind: str) -> list[Text]:
    """Place the cells of a row that is `step` pixels high, in the columns of the table;
    a row may have fewer cells than the table has columns.
    """
    size = 0.6 * step
    texts = []
    for column, cell in zip(_COLUMNS, row, strict=False):
        x, anchor = column
        texts.append(Text(x, y, size, kind, anchor, cell))
    return texts


def _wrap_judgement(words: _Words) -> list[str]:
    """Wrap the judgement if the table leaves room for it."""
    if len(words.table) < _MAX_ROWS:
        return textwrap.wrap(words.judgement, 48)
    return [line for line in [words.judgement] if line]


def _fit_line(
    x: float, y: float, largest: float, words: str, kind: str = "ink", room: float = 460
) -> Text:
    """Place a line in letters of size `largest`, or smaller, so that it fits into
    `room`.
    """
    length = max(len(words), 1)  # in characters
    fitting = room / (_EM * length)
    size = min(largest, fitting)
    return Text(x, y, size, kind, "start", words)


def _place_map_texts(drawn: Heatmap, benchmark: Benchmark) -> list[Text]:
    """Place the texts of a map: names of groups, numbers of pairs if it is small, and
    its scale.
    """
    has_numbers = len(drawn.labels) <= _NUMBERED
    # a map with numbers also has labels of CPUs or nodes, between names and map
    texts = list(_place_group_names(drawn, 30.0 if has_numbers else 8.0))
    if has_numbers:
        texts += _place_labels_and_numbers(drawn, benchmark)
    texts += _place_scale_numbers(drawn, benchmark)
    return texts


def _place_group_names(drawn: Heatmap, distance: float) -> Iterator[Text]:
    """Yield the names of groups above and left of the map, as far as they fit.

    A level of the topology, such as the packages, has a line of names. The line of the
    innermost level is nearest to the map. distance: from the map to that line, in
    pixels.
    """
    size = 13
    cell = _SIDE / len(drawn.labels)
    # a level is a tuple of groups, each as its name and its number of CPUs
    innermost_first = reversed(drawn.group_labels)
    for line, groups in enumerate(innermost_first):
        away = distance + 18 * line
        begin = 0.0
        for name, count in groups:
            end = begin + count * cell
            middle = (begin + end) / 2
            fits = size * _EM * len(name) + 4 <= end - begin
            if name and fits:
                above = (_X + middle, _Y - away)
                left = (_X - away, _Y + middle)
                yield Text(*above, size, "muted", "middle", name)
                yield Text(*left, size, "muted", "middle", name, upright=True)
            begin = end


def _place_labels_and_numbers(drawn: Heatmap, benchmark: Benchmark) -> Iterator[Text]:
    """Yield for each CPU or node its label above the map, its label left of the map,
    and the numbers in its row.
    """
    numbers = convert_to_shown(benchmark, drawn.values)
    shades = drawn.choose_shades()
    are_nodes = drawn.labels[0].startswith("n")  # "n0"; a CPU's label is its number
    subject = "node" if are_nodes else "CPU"
    above = _Y - _LABEL_DISTANCE
    left = _X - _LABEL_DISTANCE
    yield _make_label(left, above, subject, "end")
    cell = _SIDE / len(drawn.labels)
    for row, label in enumerate(drawn.labels):
        # how far the middle of the row or column is from the edge of the map
        middle = (row + 0.5) * cell
        yield _make_label(_X + middle, above, label, "middle")
        baseline = _Y + middle + 5
        yield _make_label(left, baseline, label, "end")
        yield from _place_numbers(numbers[row], shades[row], _Y + middle)


def _make_label(x: float, y: float, words: str, anchor: str) -> Text:
    """Make a small grey text beside the map or its scale."""
    return Text(x, y, _LABEL_SIZE, "muted", anchor, words)


def _place_numbers(values: Floats, shades: Ints, middle: float) -> Iterator[Text]:
    """Yield the number of each cell of a row, in ink that is seen on the cell's shade.

    values: the numbers of the row, a cell each. shades: the shades of these cells; -1
    is a cell that was not measured, and has no number. middle: how far the middle of
    the row is from the top of the card, in pixels.
    """
    cell = _SIDE / len(values)
    size = min(24.0, cell / _DIGITS_PER_CELL)
    baseline = middle + _CAPITAL_HEIGHT / 2 * size
    for column, shade in enumerate(shades.tolist()):
        if shade < 0:
            continue
        x = _X + (column + 0.5) * cell
        ink = "black" if is_light_shade(shade) else "white"
        value = values[column]
        # `largest` decides on the decimals: on a map, each number for itself
        number = _format_number(value, largest=value)
        yield Text(x, baseline, size, ink, "middle", number)


def _place_scale_numbers(drawn: Heatmap, benchmark: Benchmark) -> Iterator[Text]:
    """Yield the numbers beside the colour scale, the number at its upper end first,
    and their unit.

    The limits of the scale are in ns, the lower end first; the numbers are as they are
    shown. So the upper end of a rate's scale, the longest time, has the lowest number.
    """
    ends = [convert_to_shown(benchmark, end) for end in drawn.limits]
    highest = max(ends)
    x = _SCALE_X + _SCALE_WIDTH + 8
    # baselines of the texts at the scale's ends, so that they do not reach beyond it
    top = _Y + 11
    bottom = _Y + _SIDE - 2
    quarters_from_top = [0, 1, 2, 3, 4]
    if highest - min(ends) < 0.4:  # with one decimal, numbers of quarters would repeat
        quarters_from_top = [0, 4]
    for quarter in quarters_from_top:
        place = 1 - quarter / 4  # 1 is the upper end of the scale, 0 the lower
        ns = find_scale_value(place, drawn.limits)
        shown = convert_to_shown(benchmark, ns)
        number = _format_number(shown, largest=highest)
        y = top + quarter * (bottom - top) / 4
        yield _make_label(x, y, number, "start")
    unit = benchmark.rate or "ns"
    if is_log(drawn.limits):
        unit += ", log"
    yield _make_label(x, _Y - _LABEL_DISTANCE, unit, "start")


def _format_number(value: float, largest: float) -> str:
    """Format a number with one decimal, or with none if `largest` has four digits."""
    if largest < 1000:
        return f"{value:.1f}"
    return f"{value:.0f}"


def _place_map_and_scale(card: Card) -> list[tuple[tuple[float, ...], Ints]]:
    """Return (left, top, width, height) and the shades, for the map and then for its
    scale.
    """
    scale: Ints = np.arange(SHADES)[::-1].reshape(-1, 1)  # one column
    return [
        ((_X, _Y, _SIDE, _SIDE), card.cells),
        ((_SCALE_X, _Y, _SCALE_WIDTH, _SIDE), scale),
    ]


def draw_pixels(cells: Ints) -> Image.Image:
    """Draw one pixel per cell, with a palette of all shades and, at the index
    _NOT_MEASURED, white.
    """
    rows, columns = cells.shape
    pixels = cells.astype(np.uint8).tobytes()
    image = Image.frombytes("P", (columns, rows), pixels)
    colours = [shade_to_rgb(shade) for shade in range(SHADES)]
    white = (255, 255, 255)
    image.putpalette(bytes(chain(*colours, white)))
    return image


def _enlarge(pixels: Image.Image, width: int, height: int) -> Image.Image:
    """Draw each pixel as a block of its colour."""
    return pixels.resize((width, height), Image.Resampling.NEAREST)


def to_png(cells: Ints, side: int | None = None) -> bytes:
    """Encode a map as PNG; cells not measured are transparent. The picture is `side`
    pixels wide and high; None: a pixel per cell.
    """
    image = draw_pixels(cells)
    if side is not None:
        image = _enlarge(image, side, side)
    buffer = io.BytesIO()
    image.save(buffer, "png", transparency=_NOT_MEASURED)
    return buffer.getvalue()


def render_svg(card: Card) -> str:
    """Render the card as SVG, light or dark as its page is."""
    pictures = []
    for place, cells in _place_map_and_scale(card):
        encoded = base64.b64encode(to_png(cells)).decode()
        pictures.append((place, f"data:image/png;base64,{encoded}"))
    width, height = _SIZE
    svg = render_template(
        "card.svg",
        card=card,
        pictures=pictures,
        mark=CARD,
        width=width,
        height=height,
        x=_X,
        y=_Y,
        side=_SIDE,
    )
    return svg + "\n"


def render_png(card: Card) -> bytes:
    """Render the card as PNG, in light colours."""
    image = Image.new("RGB", _SIZE, "#fff")
    for place, cells in _place_map_and_scale(card):
        left, top, width, height = map(int, place)
        pixels = draw_pixels(cells).convert("RGB")
        enlarged = _enlarge(pixels, width, height)
        image.paste(enlarged, (left, top))
    draw = ImageDraw.Draw(image)
    _draw_edges(draw, card.edges)
    fonts = _find_fonts()
    for text in card.texts:
        _draw_text(draw, text, fonts)
    return _encode_png(image)


def _draw_edges(draw: ImageDraw.ImageDraw, edges: Sequence[float]) -> None:
    """Draw the lines between the groups of the map, each as a horizontal and an upright
    line. edges: how far each is from the upper and from the left edge of the map.
    """
    right = _X + _SIDE
    bottom = _Y + _SIDE
    for edge in edges:
        y = _Y + edge
        draw.line((_X, y, right, y), "#fff")
        x = _X + edge
        draw.line((x, _Y, x, bottom), "#fff")


def _encode_png(image: Image.Image) -> bytes:
    """Encode a card as PNG. The text CARD in the file marks the file as fleet's own,
    which fleet may therefore overwrite.
    """
    few = image.quantize(dither=Image.Dither.NONE)  # 256 colours: a third of the bytes
    about = PngInfo()
    about.add_text("Software", CARD)
    buffer = io.BytesIO()
    few.save(buffer, "png", pnginfo=about)
    return buffer.getvalue()


def _find_fonts() -> Path:
    """Return the folder of the fonts that matplotlib brings."""
    matplotlib = find_spec("matplotlib")
    assert matplotlib is not None  # noqa: S101  (a dependency)
    return Path(str(matplotlib.origin)).parent / _FONTS


def _draw_text(draw: ImageDraw.ImageDraw, text: Text, fonts: Path) -> None:
    """Draw a text of a card, horizontal or upright. fonts: the folder of the fonts."""
    name = "DejaVuSans.ttf"
    if text.kind == "strong":
        name = "DejaVuSans-Bold.ttf"
    font = ImageFont.truetype(str(fonts / name), text.size)
    ink = _INKS[text.kind]
    if text.upright:
        turned_font = ImageFont.TransposedFont(font, Image.Transpose.ROTATE_90)
        place = _place_upright_text(text, font)
        draw.text(place, text.words, ink, turned_font)
    else:
        place = (text.x, text.y)
        draw.text(place, text.words, ink, font, _ANCHORS[text.anchor])


def _place_upright_text(
    text: Text, font: ImageFont.FreeTypeFont
) -> tuple[float, float]:
    """Return the upper left corner of an upright text, as Pillow takes no anchor for
    it. The middle of the text is at the height `y`; it begins its own size left of `x`.
    """
    length = font.getlength(text.words)
    return text.x - text.size, text.y - length / 2


def render_paste_text(card: Card, name: str) -> str:
    """Render Markdown to paste: the picture `name`, then the card's table and lines as
    text. name: the address of the picture.
    """
    alternative = card.title.replace("[", "\\[").replace("]", "\\]")
    picture = f"![{alternative}]({name})"
    titles, *rows = [_format_markdown_row(row) for row in card.rows]
    alignment = "| --- | ---: | ---: | ---: |"
    table = "\n".join([titles, alignment, *rows])
    quotes = "\n".join(f"- {line}" for line in card.quotes)
    paragraphs = [picture, table, quotes, *card.about]
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def _format_markdown_row(cells: Sequence[str]) -> str:
    escaped = [cell.replace("|", "\\|") for cell in cells]
    return f"| {' | '.join(escaped)} |"


FORMATS: Mapping[str, Callable[[Card], str | bytes]] = dict(
    zip(CARDS, (render_svg, render_png), strict=True)
)
