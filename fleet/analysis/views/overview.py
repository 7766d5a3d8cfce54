"""Many hosts on a screen, also after `fleet run`: a line a host, a column a relation, level or peak."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fleet.analysis.base.selection import MissingHost
from fleet.analysis.base.tables import Floats
from fleet.analysis.base.text import (
    describe_half_widths,
    describe_units,
    explain_relations,
    format_half_width,
    format_share,
    format_span,
    format_value,
    to_records,
)
from fleet.analysis.reduce.burst_levels import REACH, find_main_runs
from fleet.analysis.reduce.comparison_rows import ALL, Only
from fleet.analysis.reduce.interval import (
    LEAST_RUNS,
    compute_geometric_mean,
    half_width_beside_runs,
    half_width_between_runs,
)
from fleet.analysis.views.heatmap import Canvas, colour_by_rank
from fleet.hostnames import join_names
from fleet.model import SHIPPED, Benchmark, Descriptions, RunState
from fleet.store import RunSummary
from fleet.text import format_count, one_line, shorten_name
from fleet.text import table as laid_out

_RANKED_FROM = 3  # hosts; fewer need no colours
_SEPARATE_UP_TO = 10  # hosts; of more, fewer tables without intervals are easier to read than more with them
_LISTED = 3  # of which the levels between runs are listed
_GAP, _WIDE_GAP = "  ", "    "
_KEYS = ["host_id", "host_name", "benchmark", "variant", "about", "relation", "place"]


class Cell(NamedTuple):
    """A number for people, half its interval, its rank among the hosts from 0 to 1, its host, its ns."""

    text: str
    within: str
    rank: float | None
    host: str
    ns: float


@dataclass(frozen=True, slots=True)
class Group:
    """The columns of one benchmark: cells by column and host. bursts, flagged: by host.

    variants: by host, where hosts were measured with different ones; else empty.
    """

    title: str
    benchmark: Benchmark
    columns: dict[str, dict[str, Cell]]
    bursts: dict[str, float]
    flagged: dict[str, float]
    variants: dict[str, str] = field(default_factory=dict)

    @property
    def any_flagged(self) -> bool:
        """Report whether any burst is flagged."""
        return any(self.flagged.values())

    @property
    def heading(self) -> str:
        """Return the name and unit of its numbers."""
        return self.benchmark.heading

    @property
    def hosts(self) -> list[str]:
        """Return the hosts that have a number."""
        return list(dict.fromkeys(host for cells in self.columns.values() for host in cells))


def compute_host_medians(rows: pd.DataFrame, like: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return a row per host and column of the overview. rows, like: from `load_overview_history`.

    Rows that `mark_usual` does not call usual are left out. like: all comparable runs of these hosts, to say
    how far one of them may be off.

    Columns: `host_id`, `host_name`, `benchmark`, `variant`, `about`, `relation`, `place`, `runs`, `median_ns`
    (the geometric mean of the runs at the main level), `half` (half its 95 % interval, relative;
    `describe_interval` says between what; NaN where this host has none of the kind), `behind` (the number of
    runs it is from), `since` (the first night after its last change, or None), `levels` (ns and number of the
    runs at the main level and, by their median, of any others), `bursts` and `flagged_bursts` of all.
    """
    rows = rows[rows["is_usual"]] if "is_usual" in rows else rows.assign(since=None)
    histories = () if like is None else like.groupby(_KEYS, sort=False)
    others = {key: part["median_ns"].to_numpy(dtype=float) for key, part in histories}
    medians = [
        dict(zip(_KEYS, key, strict=True))
        | {"runs": len(part), "since": part["since"].iloc[0]}
        | _combine_runs(part, others.get(key))
        | {"bursts": part["bursts"].sum(), "flagged_bursts": (part["flagged_share"] * part["bursts"]).sum()}
        for key, part in rows.groupby(_KEYS, sort=False)
    ]
    if any(row["behind"] >= LEAST_RUNS for row in medians):
        medians = [row if row["behind"] >= LEAST_RUNS else {**row, "half": math.nan} for row in medians]
    columns = [*_KEYS, "runs", "since", "median_ns", "half", "behind", "levels", "bursts", "flagged_bursts"]
    return pd.DataFrame(medians, columns=columns)


def describe_interval(table: pd.DataFrame) -> str:
    """Say what ±95% means in a table of `compute_host_medians`, the same in all rows."""
    if table["behind"].max() < LEAST_RUNS:
        return "of the median pair, within the run"
    if table["runs"].max() >= LEAST_RUNS:
        return f"between the runs of a host, {LEAST_RUNS} or more"
    return f"how far a run may be off, by {LEAST_RUNS} or more of the host that are like it"


def group_columns(table: pd.DataFrame, descriptions: Descriptions = SHIPPED) -> list[Group]:
    """Return a table of `compute_host_medians` as groups of columns, in its order.

    A group has one variant, or all where each host was measured with one and these differ.
    """
    hosts = table.groupby(["benchmark", "about", "host_id"], sort=False)["variant"].transform("nunique")
    is_single = hosts.groupby([table["benchmark"], table["about"]]).transform("max") == 1
    keys = [table["benchmark"], table["variant"].where(~is_single, ""), table["about"]]
    groups = []
    for (benchmark, _, about), part in table.groupby(keys, sort=False):
        columns = {
            str(relation): dict(_iter_cells(rows, descriptions))
            for relation, rows in part.sort_values("place", kind="stable").groupby("relation", sort=False)
        }
        counts = part.groupby("host_id", sort=False)[["bursts", "flagged_bursts"]].sum()
        shares = counts["flagged_bursts"] / counts["bursts"]
        names = list(dict.fromkeys(part["variant"]))
        title = f"{benchmark}/{' or '.join(names)}".rstrip("/") + f" {about}".rstrip()
        variants = dict(zip(part["host_id"], part["variant"], strict=True)) if len(names) > 1 else {}
        bursts, flagged = (
            dict(zip(map(str, counts.index), column, strict=True)) for column in (counts["bursts"], shares)
        )
        groups.append(Group(title, descriptions[str(benchmark)], columns, bursts, flagged, variants))
    return groups


def render_host_table(table: pd.DataFrame, canvas: Canvas, descriptions: Descriptions = SHIPPED) -> str:
    """Render a table of `compute_host_medians`, the fastest host first; empty without numbers."""
    if table.empty:
        return ""
    listed = _Listed(table, canvas, descriptions)
    with_intervals = listed.text(intervals=True)
    fitting = with_intervals if with_intervals and canvas.fits(with_intervals) else ""
    plain = "" if fitting and len(listed.hosts) <= _SEPARATE_UP_TO else listed.text(intervals=False)
    fewer = plain.count("\n\n") < fitting.count("\n\n")
    body = fitting if fitting and not (plain and fewer) else plain
    return "\n".join((body, *_explain_table(table, descriptions, with_intervals="±" in body)))


def render_extremes(table: pd.DataFrame, width: int | None, descriptions: Descriptions = SHIPPED) -> str:
    """Render a table of `compute_host_medians` in a line per column: its fastest and slowest host."""
    titles = ("benchmark", "of", "hosts", "median", "min", "fastest", "max", "slowest")
    rows = []
    for group in group_columns(table, descriptions):
        for column, cells in group.columns.items():
            ordered = sorted(cells.values(), key=lambda cell: cell.ns)
            middle = format_value(group.benchmark, float(np.median([cell.ns for cell in ordered])))
            ends = ((cell.text, cell.host) for cell in (ordered[0], ordered[-1]))
            rows.append((group.title, column, f"{len(ordered):,}", middle, *chain(*ends)))
    text = laid_out(titles, rows, right={2, 3, 4, 6}, width=width, drop=("hosts", "fastest"))
    last = f"{_count_numbers(table, descriptions)}; median, min, max: of the hosts"
    return "\n".join(
        (
            text,
            *_list_relations(table),
            last,
            *_describe_changes(table),
            *_describe_levels(table, descriptions),
        )
    )


def name_hosts_without_numbers(table: pd.DataFrame, runs: Sequence[RunSummary], only: Only = ALL) -> str:
    """Name the hosts whose benchmarks have no number in the table, or that lack what was asked for."""
    host_benchmarks = set(zip(table["host_id"], table["benchmark"], strict=True))
    hosts_by_reason: dict[str, dict[str, None]] = {}
    for run in runs:
        names = {kind.partition("/")[0] for kind in run.benchmarks}
        if only != ALL:
            if run.host_id not in {host for host, _ in host_benchmarks}:
                hosts_by_reason.setdefault(f"nothing was measured{only}", {})[run.host_name] = None
        elif left_out := ", ".join(
            sorted(name for name in names if (run.host_id, name) not in host_benchmarks)
        ):
            reason = f"nothing of {left_out} stands for it here; "
            reason += "`fleet show HOST --ladder` says what there is or failed"
            hosts_by_reason.setdefault(reason, {})[run.host_name] = None
    return "\n".join(
        one_line(f"{join_names(hosts, 60)}: {reason}") for reason, hosts in hosts_by_reason.items()
    )


def render_heading(
    runs: Sequence[RunSummary],
    left_out: int = 0,
    missing: Sequence[MissingHost] = (),
    command: str = "show",
) -> str:
    """Say how many hosts and runs are shown, from when, and which hosts are left out or missing.

    command: the one that shows all.
    """
    hosts = len({run.host_name for run in runs})
    total = hosts + left_out + sum(not host.has_runs for host in missing)
    counted_hosts = (
        f"{hosts} of {format_count(total, 'host')}" if total > hosts else format_count(hosts, "host")
    )
    when = format_span(runs[0].started_utc, runs[-1].started_utc)
    partial = sum(run.state is RunState.PARTIAL for run in runs)
    return (
        f"{counted_hosts}, {format_count(len(runs), 'run')}, {when} UTC"
        + f", {partial} partial" * bool(partial)
        + f"; all: fleet {command} all" * bool(left_out)
        + f"; missing: {', '.join(map(str, missing))}" * bool(missing)
    )


def _combine_runs(rows: pd.DataFrame, like: Floats | None) -> dict[str, Any]:
    """Compute the columns of `compute_host_medians` from a host's runs. like: medians of all like them."""
    values = rows["median_ns"].to_numpy(dtype=float)
    is_main = find_main_runs(values)
    main, others = values[is_main], values[~is_main]
    number, levels = compute_geometric_mean(main), [(compute_geometric_mean(main), len(main))]
    if len(others):
        levels.append((float(np.median(others)), len(others)))
    half, behind = float(rows["spread"].to_numpy(dtype=float)[is_main][-1]), len(main)
    near = main if like is None else like[np.abs(np.log(like / number)) <= np.log(REACH)]
    if len(main) >= LEAST_RUNS:
        half = half_width_between_runs(main)
    elif len(near) >= LEAST_RUNS:
        half, behind = half_width_beside_runs(near), len(near)
    return {"median_ns": number, "levels": levels, "behind": behind, "half": half}


def _order_hosts(table: pd.DataFrame) -> list[str]:
    """Sort hosts by their mean latency relative to the other hosts', over the columns they have."""
    usual = table.groupby(["benchmark", "about", "relation"])["median_ns"].transform("median")
    relative = table.assign(of_usual=np.log(table["median_ns"] / usual)).groupby("host_id", sort=False)
    means = relative["of_usual"].mean().reset_index()
    return means.sort_values("of_usual", kind="stable")["host_id"].tolist()


def _iter_cells(rows: pd.DataFrame, descriptions: Descriptions) -> Iterator[tuple[str, Cell]]:
    """Yield the cell of each host in a column; equal hosts share their mean rank."""
    ordered = sorted(rows["median_ns"])
    names = ["benchmark", "host_id", "host_name", "median_ns", "half"]
    for benchmark, host, name, ns, half in rows[names].itertuples(index=False, name=None):
        place = (bisect_left(ordered, ns) + bisect_right(ordered, ns) - 1) / 2
        rank = place / (len(ordered) - 1) if len(ordered) >= _RANKED_FROM else None
        yield (
            host,
            Cell(
                format_value(descriptions[benchmark], ns),
                format_half_width(half),
                rank,
                _shorten_host_name(name),
                ns,
            ),
        )


class _Listed:
    """Groups as tables that fit a canvas: side by side if of the same hosts, else one below another."""

    def __init__(self, table: pd.DataFrame, canvas: Canvas, descriptions: Descriptions) -> None:
        self.hosts = _order_hosts(table)
        self._own = {host: table[table["host_id"] == host] for host in self.hosts}
        self._groups, self._canvas = group_columns(table, descriptions), canvas

    def text(self, *, intervals: bool) -> str:
        tables: list[list[Group]] = []
        for group in self._groups:
            for part in [group] if intervals else self._narrow(group):
                last = tables[-1] if tables else []
                beside = last and {*last[0].hosts} == {*part.hosts}
                if beside and self._canvas.fits(self._render_table([*last, part], intervals=intervals)):
                    last.append(part)
                else:
                    tables.append([part])
        return "\n\n".join(self._render_table(groups, intervals=intervals) for groups in tables)

    def _narrow(self, group: Group) -> list[Group]:
        """Split a group into parts that fit."""
        names, middle = list(group.columns), len(group.columns) // 2
        if middle == 0 or self._canvas.fits(self._render_table([group], intervals=False)):
            return [group]
        halves = ({name: group.columns[name] for name in part} for part in (names[:middle], names[middle:]))
        return [part for half in halves for part in self._narrow(replace(group, columns=half))]

    def _render_table(self, groups: Sequence[Group], *, intervals: bool) -> str:
        """Render groups side by side below their names, then the share of flagged bursts, and the runs."""
        hosts = [host for host in self.hosts if host in {*groups[0].hosts}]
        own = [self._own[host] for host in hosts]
        names = [_shorten_host_name(rows["host_name"].iloc[0]) for rows in own]
        bursts = (sum(group.bursts[host] for group in groups) for host in hosts)
        flagged = (sum(group.flagged[host] * group.bursts[host] for group in groups) for host in hosts)
        ends = {"flagged": [format_share(some / every) for some, every in zip(flagged, bursts, strict=True)]}
        if max(rows["runs"].max() for rows in self._own.values()) > 1:
            ends["runs"] = [str(rows["runs"].max()) for rows in own]
        margin = max(len("host"), *map(len, names))
        head = [" " * margin, f"{'host':<{margin}}", " " * margin]
        lines = [f"{name:<{margin}}" for name in names]
        for group in groups:
            variants = {host: Cell(name, "-", None, host, math.nan) for host, name in group.variants.items()}
            cells_by_title = {**({"variant": variants} if variants else {}), **group.columns}
            columns = [_render_column(cells, hosts, intervals=intervals) for cells in cells_by_title.values()]
            # Kinds of cores are on a line of their own.
            titles = [title.partition(" ")[::2] for title in cells_by_title]
            widths = [max(map(len, (*title, *texts))) for title, texts in zip(titles, columns, strict=True)]
            widths[0] += max(len(group.title) - sum(widths) - len(_GAP) * (len(widths) - 1), 0)
            gap = _WIDE_GAP if len(groups) > 1 else _GAP
            for index in (0, 1):
                words = (f"{title[index]:>{width}}" for title, width in zip(titles, widths, strict=True))
                head[1 + index] += gap + _GAP.join(words)
            head[0] += f"{gap}{group.title:<{len(head[1]) - len(head[0]) - len(gap)}}"
            for index, host in enumerate(hosts):
                drawn = (
                    self._colour_cell(f"{texts[index]:>{width}}", cells.get(host))
                    for texts, width, cells in zip(columns, widths, cells_by_title.values(), strict=True)
                )
                lines[index] += gap + _GAP.join(drawn)
        for title, column in ends.items():
            width = max(len(title), *map(len, column))
            head[1] += f"{_GAP}{title:>{width}}"
            lines = [f"{line}{_GAP}{text:>{width}}" for line, text in zip(lines, column, strict=True)]
        return "\n".join(line for line in map(str.rstrip, (*head, *lines)) if line)

    def _colour_cell(self, padded: str, cell: Cell | None) -> str:
        rank = cell.rank if cell and self._canvas.colour else None
        return padded if rank is None else colour_by_rank(padded, rank)


def _render_column(cells: Mapping[str, Cell], hosts: Sequence[str], *, intervals: bool) -> list[str]:
    """Render a column: numbers, and their intervals below one another where there are some."""
    host_cells = [cells.get(host) for host in hosts]
    halves = [cell.within if cell and intervals and cell.within != "-" else "" for cell in host_cells]
    width = max(map(len, halves))
    return [
        f"{cell.text if cell else '-'} {half:>{width}}" if width and cell else cell.text if cell else "-"
        for cell, half in zip(host_cells, halves, strict=True)
    ]


def _explain_table(table: pd.DataFrame, descriptions: Descriptions, *, with_intervals: bool) -> Iterator[str]:
    yield from _list_relations(table)
    yield f"{_count_numbers(table, descriptions)}; flagged: of bursts"
    if table["runs"].max() > 1:
        yield "of several runs: the geometric mean of those at the main level"
    yield from _describe_changes(table)
    yield from _describe_levels(table, descriptions)
    if table["half"].isna().all():
        return
    widths = describe_half_widths("half of them", table["half"].median(), table["half"].max())
    yield f"±95%: {describe_interval(table)}" + f"; {widths}" * (not with_intervals)


def _describe_changes(table: pd.DataFrame) -> Iterator[str]:
    """Name the hosts whose numbers are from the runs since their last change."""
    changed = list(dict.fromkeys(since_text(row) for row in to_records(table) if row["since"]))
    if changed:
        more = f", and {len(changed) - _LISTED} more" if len(changed) > _LISTED else ""
        yield one_line(f"numbers since the last change: {'; '.join(changed[:_LISTED])}{more}")


def since_text(row: Mapping[str, Any]) -> str:
    """Name a host and benchmark, and the night since which its runs count: "lucca cas, 2026-11-04"."""
    return f"{row['host_name']} {row['benchmark']}, {row['since']}"


def _describe_levels(table: pd.DataFrame, descriptions: Descriptions) -> Iterator[str]:
    """Name the hosts with some runs at another level than the number."""
    switching = [row for row in to_records(table) if len(row["levels"]) > 1]
    for row in switching[:_LISTED]:
        (main, runs), (other, others) = (
            (format_value(descriptions[row["benchmark"]], ns), count) for ns, count in row["levels"]
        )
        subject = f"{row['host_name']}, {row['benchmark']}, {row['relation']}"
        levels = f"{format_count(runs, 'run')} at {main}, {format_count(others, 'run')} at another level"
        levels += f", median {other}"
        yield one_line(f"levels differ between runs: {subject}: {levels}")
    if len(switching) > _LISTED:
        yield f"levels differ between runs of {len(switching) - _LISTED} more"


def _list_relations(table: pd.DataFrame) -> Iterable[str]:
    return filter(None, [explain_relations(table["relation"])])


def _count_numbers(table: pd.DataFrame, descriptions: Descriptions) -> str:
    return f"numbers: {describe_units(table['benchmark'], descriptions)}, median of the pairs"


def _shorten_host_name(name: str) -> str:
    return shorten_name(one_line(name))
