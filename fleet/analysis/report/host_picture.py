"""Draw the numbers of several hosts as one picture: a panel per relation, in it a dot
with its interval per host.
"""

import io
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from fleet.analysis.base import text
from fleet.analysis.exchange.number_table import tabulate_numbers, write_number_table
from fleet.analysis.report.figures import FILE_STYLE
from fleet.analysis.report.markup import CARD
from fleet.analysis.report.plots import host_dots
from fleet.analysis.views.usual import UsualNumbers, describe_interval
from fleet.errors import UsageError
from fleet.hostnames import join_names
from fleet.model import Benchmark
from fleet.model.version import VERSION
from fleet.text import one_line

_WIDTH = 1200  # pixels of the picture; a file has twice as many
_AROUND = 130  # pixels above and below all panels
_AROUND_PANEL = 80  # pixels
_LINE = 34  # pixels of the line of a host
_COLUMNS = 4  # panels side by side
_MAX_HOSTS = 60
_MAX_RELATIONS = 12
_NOTE_LENGTH = 180  # characters of a line below the panels
_NAMES_LENGTH = 90  # characters of the hosts that are left out
_Panel = tuple[Any, pd.DataFrame]  # a relation and its rows
_DPI = {".png": 144, ".svg": 72}


@dataclass(frozen=True, slots=True)
class HostPicture:
    """What a picture shows.

    title: the heading. subject: the benchmark and its unit, "" if the title says that.
    rows: from `tabulate_numbers`, of the numbers in `usual`, with `words`, the number
    as text. left_out: a sentence on each thing that is not drawn.
    """

    title: str
    subject: str
    usual: UsualNumbers
    rows: pd.DataFrame
    left_out: Sequence[str]


def lay_out_host_picture(usual: UsualNumbers, title: str | None) -> HostPicture:
    """Choose what a picture of hosts shows: the benchmark and setting that most hosts
    have, the first of several.

    title: the heading; None for the benchmark and its unit. Raises UsageError without
    numbers.
    """
    numbers = usual.table
    if numbers.empty:
        raise UsageError("these runs have no numbers to draw; `fleet runs` lists them.")
    names = _name_settings(numbers)  # of each row, such as "bandwidth read"
    name, others = _choose_setting(numbers, names)
    own_numbers = numbers[names == name]
    in_order = own_numbers.sort_values("place")  # of the relation in the overview
    relations = in_order["relation"].unique().tolist()
    drawn = _select_what_fits(own_numbers, relations)
    drawn_usual = usual._replace(table=drawn)
    benchmark_name = str(own_numbers["benchmark"].iloc[0])
    benchmark = usual.descriptions[benchmark_name]
    subject = f"{name}: {benchmark.heading}"
    left_out = _list_left_out(
        others=others,
        relations=relations[_MAX_RELATIONS:],
        hosts=_list_hosts_not_drawn(numbers, drawn),
        name=name,
    )
    return HostPicture(
        title=title or subject,
        subject=subject if title else "",
        usual=drawn_usual,
        rows=_tabulate_with_words(drawn_usual, benchmark),
        left_out=left_out,
    )


def _choose_setting(
    numbers: pd.DataFrame, names: "pd.Series[str]"
) -> tuple[str, list[str]]:
    """Return the benchmark and setting that most hosts have, the first of several; then
    the others. names: that of each row of `numbers`.
    """
    hosts_by_name = numbers.groupby(names, sort=False)["host_id"].nunique()
    name = str(hosts_by_name.idxmax())
    return name, hosts_by_name.index.drop(name).tolist()


def _name_settings(table: pd.DataFrame) -> "pd.Series[str]":
    """Name each row's benchmark and setting: "bandwidth read"."""
    names = table["benchmark"].str.cat(table["about"], sep=" ")
    return names.str.rstrip()  # a benchmark without settings has "" for `about`


def _select_what_fits(numbers: pd.DataFrame, relations: Sequence[str]) -> pd.DataFrame:
    """Select the numbers of the first relations and of the first hosts."""
    hosts = numbers["host_id"].unique()
    has_panel = numbers["relation"].isin(relations[:_MAX_RELATIONS])
    has_line = numbers["host_id"].isin(hosts[:_MAX_HOSTS])
    return numbers[has_panel & has_line]


def _tabulate_with_words(usual: UsualNumbers, benchmark: Benchmark) -> pd.DataFrame:
    """Return the rows of a picture, each with its number as text, `words`."""
    rows = tabulate_numbers(usual)
    rows["words"] = [text.format_shown(benchmark, value) for value in rows["number"]]
    return rows


def _list_hosts_not_drawn(numbers: pd.DataFrame, drawn: pd.DataFrame) -> list[str]:
    """List the names of the hosts with a number that have none in `drawn`."""
    is_missing = ~numbers["host_id"].isin(drawn["host_id"])
    names = numbers[is_missing]["host_name"].unique()
    return [str(name) for name in names]


def _list_left_out(
    others: Sequence[str], relations: Sequence[str], hosts: Sequence[str], name: str
) -> list[str]:
    """Say what a picture does not show, in a sentence for each kind.

    others: names of benchmarks that are not drawn; the option -b draws one. name: the
    benchmark that is drawn. relations: the relations of that benchmark for which there
    is no room. hosts: names of hosts that have numbers, but none in the picture.
    """
    sentences = []
    if others:
        sentences.append(f"left out (-b draws them): {'; '.join(others)}")
    if relations:
        sentences.append(f"left out of {name}: {'; '.join(relations)}")
    if hosts:
        sentences.append(f"left out: {join_names(hosts, _NAMES_LENGTH)}")
    return [one_line(sentence) for sentence in sentences]


def draw_hosts(picture: HostPicture, suffix: str) -> bytes:
    """Draw the picture as a file with this suffix, .png or .svg. Each relation has a
    panel, _COLUMNS of them side by side.
    """
    panels = [*picture.rows.groupby("relation", sort=False)]
    tiers = math.ceil(len(panels) / _COLUMNS)
    hosts = picture.rows["host"].nunique()
    panel_height = _AROUND_PANEL + _LINE * hosts
    height = _AROUND + tiers * panel_height
    inches = (_WIDTH / 72, height / 72)
    with mpl.rc_context(FILE_STYLE):
        figure = Figure(figsize=inches, layout="constrained")
        _draw_panels(figure, panels, tiers)
        _write_words(figure, picture)
        return _encode_figure(figure, suffix)


def _encode_figure(figure: Figure, suffix: str) -> bytes:
    """Return a figure as a file with this suffix."""
    buffer = io.BytesIO()
    figure.savefig(
        buffer,
        format=suffix.removeprefix("."),
        dpi=_DPI[suffix],
        metadata=_make_metadata(suffix),
    )
    return buffer.getvalue()


def _make_metadata(suffix: str) -> Any:
    """Return the metadata by which fleet knows the file for its own."""
    if suffix == ".png":
        return {"Software": CARD}
    return {"Creator": CARD, "Date": None}


def _draw_panels(figure: Figure, panels: Sequence[_Panel], tiers: int) -> None:
    """Draw a panel for each relation. All panels have a line for every host, in the
    same order. tiers: how many rows of panels stand one below the other.
    """
    hosts = _list_hosts(panels)
    columns = min(len(panels), _COLUMNS)
    grid = figure.subplots(tiers, columns, sharey=True, squeeze=False)
    all_axes = list(grid.flat)
    unused_axes = all_axes[len(panels) :]  # the last tier may not be full
    for axes in unused_axes:
        axes.set_visible(False)
    for axes, (relation, rows) in zip(all_axes, panels, strict=False):
        unit = str(rows["unit"].iloc[0])
        host_dots(rows, hosts, axes, unit=unit)
        axes.set_title(str(relation), parse_math=False, loc="left")


def _list_hosts(panels: Sequence[_Panel]) -> list[str]:
    """List the hosts of all panels by name, as their lines stand from the top."""
    hosts = set[str]()
    for _, rows in panels:
        hosts.update(rows["host"])
    return sorted(hosts)


def _write_words(figure: Figure, picture: HostPicture) -> None:
    """Write the title above the panels, and notes below."""
    look: Any = {"x": 0.01, "ha": "left", "parse_math": False}
    heading_lines = filter(None, [picture.title, picture.subject])
    figure.suptitle("\n".join(heading_lines), **look)
    notes = [*_list_notes(picture), *picture.left_out]
    figure.supxlabel(_wrap_notes(notes), fontsize=10, **look)


def _wrap_notes(notes: Sequence[str]) -> str:
    lines = list[str]()
    for note in notes:
        lines += textwrap.wrap(note, _NOTE_LENGTH)
    return "\n".join(lines)


def _list_notes(picture: HostPicture) -> list[str]:
    """Say what the lines are and where the numbers come from. The column `half` of the
    table is half of a number's interval, NaN if the interval is unknown.
    """
    table = picture.usual.table
    started = picture.usual.rows["started_utc"]
    span = text.format_span(started.min(), started.max())
    notes = [f"fleet {VERSION}, runs of {span} UTC"]
    if table["half"].notna().any():
        notes.append(f"lines: 95 % interval {describe_interval(table)}")
    return notes


def render_hosts_paste_text(picture: HostPicture, name: str) -> str:
    """Render Markdown to paste: the picture `name`, its numbers as a table, and what it
    leaves out.
    """
    alternative = picture.title.replace("[", "\\[").replace("]", "\\]")
    table = write_number_table(picture.usual, ".md").removesuffix("\n")
    return "\n\n".join([f"![{alternative}]({name})", table, *picture.left_out])
