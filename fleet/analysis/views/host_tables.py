"""Lay out the columns of an overview in tables that fit a canvas."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.views.heatmap import Canvas, colour_by_rank
from fleet.analysis.views.host_columns import Cell, Group
from fleet.text import one_line, shorten_name

_GAP = "  "
_WIDE_GAP = "    "  # between groups
_FEW_HOSTS = 10  # of more, few tables are easier to read than intervals
_MANY_FLAGGED = 0.05  # of a host's bursts; fewer do not move its medians


def lay_out_hosts(hosts: pd.DataFrame, groups: Sequence[Group], canvas: Canvas) -> str:
    """Lay out groups in tables, a line per host. hosts: from `sort_hosts`.

    The numbers have their intervals if these fit the canvas and, where there are many
    hosts, if the intervals need no more tables.
    """
    with_intervals = _HostTables(hosts, canvas, has_intervals=True)
    without_intervals = _HostTables(hosts, canvas, has_intervals=False)
    detailed = with_intervals.render(groups)
    fits = canvas.fits(detailed)
    if fits and len(hosts) <= _FEW_HOSTS:
        return detailed
    plain = without_intervals.render(groups)
    needs_no_more_tables = _count_tables(detailed) <= _count_tables(plain)
    return detailed if fits and needs_no_more_tables else plain


def _count_tables(body: str) -> int:
    return body.count("\n\n") + 1


@dataclass(frozen=True, slots=True)
class _HostTables:
    """Renders groups for some hosts. hosts: from `sort_hosts`.

    A table consists of blocks side by side. A block has a line for the title of a
    group, two for the titles of columns, and one for each host.
    """

    hosts: pd.DataFrame
    canvas: Canvas
    has_intervals: bool

    def render(self, groups: Sequence[Group]) -> str:
        """Render groups in tables, one below another. A group stands beside the one
        before it if both are of the same hosts and still fit together; else it begins a
        table.
        """
        tables: list[list[Group]] = []
        for group in groups:
            for part in self._split_to_fit(group):
                if tables and self._fits_beside(tables[-1], part):
                    tables[-1].append(part)
                else:
                    tables.append([part])
        return "\n\n".join(map(self._render_table, tables))

    def _split_to_fit(self, group: Group) -> list[Group]:
        """Halve the columns of a group until each part fits the canvas or has one
        column. With intervals it stays whole.
        """
        titles = list(group.columns)
        is_whole = self.has_intervals or len(titles) == 1
        if is_whole or self._fits([group]):
            return [group]
        middle = len(titles) // 2
        parts = []
        for titles_of_half in (titles[:middle], titles[middle:]):
            columns = {title: group.columns[title] for title in titles_of_half}
            half = replace(group, columns=columns)
            parts += self._split_to_fit(half)
        return parts

    def _fits_beside(self, groups: Sequence[Group], group: Group) -> bool:
        if set(groups[0].hosts) != set(group.hosts):
            return False
        return self._fits([*groups, group])

    def _fits(self, groups: Sequence[Group]) -> bool:
        return self.canvas.fits(self._render_table(groups))

    def _render_table(self, groups: Sequence[Group]) -> str:
        """Render groups of the same hosts side by side behind the names of their hosts,
        then the share of flagged bursts, and the runs.
        """
        hosts_of_groups = groups[0].hosts
        is_in_groups = self.hosts.index.isin(hosts_of_groups)
        hosts = self.hosts[is_in_groups]
        gap = _WIDE_GAP if len(groups) > 1 else _GAP
        blocks = [_render_names(hosts["host_name"])]
        for group in groups:
            lines = self._render_group(group, hosts.index.tolist())
            blocks.append(_indent_lines(lines, gap))
        flagged = _compute_flagged(groups, hosts.index)
        if max(flagged) >= _MANY_FLAGGED:
            blocks.append(_render_flagged(flagged))
        if self.hosts["runs"].max() > 1:
            counts = hosts["runs"].astype(str)
            blocks.append(_render_counts("runs", counts))
        return _join_blocks(blocks)

    def _render_group(self, group: Group, hosts: Sequence[str]) -> list[str]:
        """Return the lines of a group's block, all of one width."""
        columns = self._make_columns(group, hosts)
        widths = _choose_widths(columns, group.title)
        lines_by_column = []
        for column, width in zip(columns, widths, strict=True):
            lines = column.align(width, colour=self.canvas.colour)
            lines_by_column.append(lines)
        cells_by_line = zip(*lines_by_column, strict=True)
        lines = [_GAP.join(cells) for cells in cells_by_line]
        title = group.title.ljust(len(lines[0]))
        return [title, *lines]

    def _make_columns(self, group: Group, hosts: Sequence[str]) -> list["_Column"]:
        """Return the columns of a group's block: a column of variants if hosts have
        different variants, then the columns of numbers. hosts: their IDs, in the order
        of the lines.
        """
        columns = []
        if group.variants:
            columns.append(_make_variant_column(group.variants, hosts))
        for title, cells in group.columns.items():
            host_cells = [cells.get(host) for host in hosts]
            column = _make_number_column(
                title, host_cells, has_intervals=self.has_intervals
            )
            columns.append(column)
        return columns


def _join_blocks(blocks: Sequence[Sequence[str]]) -> str:
    """Set blocks side by side, without lines that are empty in all of them."""
    lines = []
    for parts in zip(*blocks, strict=True):
        line = "".join(parts).rstrip()
        if line:
            lines.append(line)
    return "\n".join(lines)


def _choose_widths(columns: Sequence["_Column"], title: str) -> list[int]:
    """Return the width of each column; the first is so wide that the group's title
    fits.
    """
    widths = [column.width for column in columns]
    gaps = len(_GAP) * (len(columns) - 1)
    shortfall = len(title) - sum(widths) - gaps
    if shortfall > 0:
        widths[0] += shortfall
    return widths


def _indent_lines(lines: Sequence[str], gap: str) -> list[str]:
    return [f"{gap}{line}" for line in lines]


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of text. title: in two lines, the kinds of cores in the second. texts,
    ranks: of each host.
    """

    title: tuple[str, str]
    texts: list[str]
    ranks: list[float | None]

    @property
    def width(self) -> int:
        lines = [*self.title, *self.texts]
        return max(map(len, lines))

    def align(self, width: int, *, colour: bool) -> list[str]:
        """Return the lines of the title and the texts, aligned to the right. colour:
        colour those that have a rank.
        """
        lines = [line.rjust(width) for line in self.title]
        for cell, rank in zip(self.texts, self.ranks, strict=True):
            line = cell.rjust(width)
            if colour and rank is not None:
                line = colour_by_rank(line, rank)
            lines.append(line)
        return lines


def _make_variant_column(variants: Mapping[str, str], hosts: Sequence[str]) -> _Column:
    return _Column(
        title=("variant", ""),
        texts=[variants[host] for host in hosts],
        ranks=[None for _ in hosts],
    )


def _make_number_column(
    title: str, cells: Sequence[Cell | None], *, has_intervals: bool
) -> _Column:
    """Return a column of numbers. Its title "package P-E" takes two lines, "package"
    and "P-E"; the second line is empty where cores are of one kind. cells: of each
    host, None for a host without a number.
    """
    place, _, kinds_of_cores = title.partition(" ")
    ranks = [None if cell is None else cell.rank for cell in cells]
    return _Column(
        title=(place, kinds_of_cores),
        texts=_format_cells(cells, has_intervals=has_intervals),
        ranks=ranks,
    )


def _format_cells(cells: Sequence[Cell | None], *, has_intervals: bool) -> list[str]:
    """Format the numbers of a column, a text per host; "-" for a host without a number.
    If `has_intervals`, half-widths stand behind the numbers, "45.6 ±0.7%", aligned to
    the right. No room is left for them if all are unknown.
    """
    intervals = [_format_interval(cell) for cell in cells]
    width = max(map(len, intervals))
    texts = []
    for cell, interval in zip(cells, intervals, strict=True):
        if cell is None:
            texts.append("-")
        elif has_intervals and width:
            texts.append(f"{cell.text} {interval:>{width}}")
        else:
            texts.append(cell.text)
    return texts


def _format_interval(cell: Cell | None) -> str:
    """Return half the interval of a cell; empty if it has none."""
    if cell is None or cell.within == "-":
        return ""
    return cell.within


def _render_names(names: Iterable[str]) -> list[str]:
    """Return the block of the hosts' names."""
    short_names = [shorten_name(one_line(name)) for name in names]
    lines = ["", "host", "", *short_names]
    width = max(map(len, lines))
    return [line.ljust(width) for line in lines]


def _render_counts(title: str, texts: Iterable[str]) -> list[str]:
    """Return the block of a column behind all groups."""
    lines = ["", title, "", *texts]
    width = max(map(len, lines))
    aligned = [line.rjust(width) for line in lines]
    return _indent_lines(aligned, _GAP)


def _render_flagged(shares: Iterable[float]) -> list[str]:
    return _render_counts("flagged", [text.format_share(share) for share in shares])


def _compute_flagged(groups: Sequence[Group], hosts: Iterable[str]) -> list[float]:
    """Return each host's share of flagged bursts in all these groups together. A group
    has the number of bursts and the flagged share of each host.
    """
    shares = []
    for host in hosts:
        bursts = sum(group.bursts[host] for group in groups)
        flagged_bursts = sum(
            group.flagged[host] * group.bursts[host] for group in groups
        )
        shares.append(flagged_bursts / bursts)
    return shares
