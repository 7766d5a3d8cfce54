"""Show many hosts on one screen, also after `fleet run`, and one relation or one host
run by run.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.base.selection import MissingHost
from fleet.analysis.compare.verdicts import CLASS
from fleet.analysis.reduce.cells import are_pairs
from fleet.analysis.reduce.interval import MIN_RUNS
from fleet.analysis.reduce.numbers import ALL, Only
from fleet.analysis.views.heatmap import Canvas, colour_by_rank
from fleet.analysis.views.usual import (
    UsualNumbers,
    list_last_changes,
    list_several_levels,
)
from fleet.hostnames import join_names
from fleet.model import SHIPPED, Benchmark, Descriptions, RunState
from fleet.store import RunSummary
from fleet.text import format_command, format_count, one_line, shorten_name
from fleet.text import table as laid_out

_RANKED_FROM = 3  # hosts; fewer need no colours
_SEPARATE_UP_TO = (
    10  # hosts; with more, fewer tables without intervals are easier to read
)
_LISTED = 3  # hosts that are named as changed, and numbers that are at several levels
_GAP, _WIDE_GAP = "  ", "    "
_NUMBER = ["benchmark", "variant", "about", "relation"]


class Cell(NamedTuple):
    """A number, as text and in ns. within: half its interval. rank: among the hosts, 0
    to 1, or None.
    """

    text: str
    within: str
    rank: float | None
    host: str
    ns: float


@dataclass(frozen=True, slots=True)
class Group:
    """The columns of one benchmark, with cells by host. bursts, flagged: number and
    flagged share, by host.

    variants: each host's variant, or empty if all hosts were measured with the same.
    """

    title: str
    benchmark: Benchmark
    columns: dict[str, dict[str, Cell]]
    bursts: Mapping[Any, float]
    flagged: Mapping[Any, float]
    variants: dict[str, str] = field(default_factory=dict)

    @property
    def any_flagged(self) -> bool:
        """Report whether any burst is flagged."""
        return any(self.flagged.values())

    @property
    def hosts(self) -> list[str]:
        """Return the hosts that have a number."""
        return list(
            dict.fromkeys(host for cells in self.columns.values() for host in cells)
        )


def describe_interval(table: pd.DataFrame) -> str:
    """Say what ±95% means in a table of `summarize_hosts`, the same in all
    rows.
    """
    if table["behind"].max() < MIN_RUNS:
        return "of the median pair, within the run"
    if table["runs"].max() >= MIN_RUNS:
        return f"between the runs of a host, {MIN_RUNS} or more"
    return (
        f"how far a run may be off, by {MIN_RUNS} or more of the host that are like it"
    )


def group_columns(
    table: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> list[Group]:
    """Group columns by benchmark, and by variant if a host has several. table: of
    `summarize_hosts`.
    """
    hosts = table.groupby(["benchmark", "about", "host_id"], sort=False)[
        "variant"
    ].transform("nunique")
    is_single = (
        hosts.groupby([table["benchmark"], table["about"]]).transform("max") == 1
    )
    keys = [table["benchmark"], table["variant"].where(~is_single, ""), table["about"]]
    groups = []
    for (benchmark, _, about), part in table.groupby(keys, sort=False):
        columns = {
            str(relation): dict(_iter_host_cells(rows, descriptions))
            for relation, rows in part.sort_values("place", kind="stable").groupby(
                "relation", sort=False
            )
        }
        counts = part.groupby("host_id", sort=False)[["bursts", "flagged_bursts"]].sum()
        shares = counts["flagged_bursts"] / counts["bursts"]
        names = list(dict.fromkeys(part["variant"]))
        title = f"{benchmark}/{' or '.join(names)}".rstrip("/") + f" {about}".rstrip()
        variants = (
            dict(zip(part["host_id"], part["variant"], strict=True))
            if len(names) > 1
            else {}
        )
        bursts, flagged = counts["bursts"].to_dict(), shares.to_dict()
        groups.append(
            Group(
                title, descriptions[str(benchmark)], columns, bursts, flagged, variants
            )
        )
    return groups


def render_host_table(
    table: pd.DataFrame, canvas: Canvas, descriptions: Descriptions = SHIPPED
) -> str:
    """Render a table of `summarize_hosts`, the fastest host first; empty without
    numbers.
    """
    if table.empty:
        return ""
    listed = _HostTables(table, canvas, descriptions)
    body = listed.render(intervals=True)
    fits = canvas.fits(body)
    if not fits or len(listed.hosts) > _SEPARATE_UP_TO:
        plain = listed.render(intervals=False)
        body = plain if not fits or plain.count("\n\n") < body.count("\n\n") else body
    others = "flagged: of bursts"
    if table["runs"].max() > 1:
        others += "\nof several runs: the geometric mean of those at the main level"
    lines = [body, *_explain_numbers(table, descriptions, others)]
    if table["half"].notna().any():
        widths = text.describe_half_widths(
            "half of them", table["half"].median(), table["half"].max()
        )
        lines.append(
            f"±95%: {describe_interval(table)}" + f"; {widths}" * ("±" not in body)
        )
    return "\n".join(lines)


def render_extremes(
    table: pd.DataFrame, width: int | None, descriptions: Descriptions = SHIPPED
) -> str:
    """Render the fastest and slowest host of each overview column. table: from
    `summarize_hosts`.
    """
    titles = ("benchmark", "of", "hosts", "median", "min", "fastest", "max", "slowest")
    rows = []
    for group in group_columns(table, descriptions):
        for column, cells in group.columns.items():
            ordered = sorted(cells.values(), key=lambda cell: cell.ns)
            first, last = ordered[0], ordered[-1]
            middle = text.format_value(
                group.benchmark, float(np.median([cell.ns for cell in ordered]))
            )
            ends = (first.text, first.host, last.text, last.host)
            rows.append((group.title, column, f"{len(ordered):,}", middle, *ends))
    listed = laid_out(
        titles, rows, right={2, 3, 4, 6}, width=width, drop=("hosts", "fastest")
    )
    explanations = _explain_numbers(
        table, descriptions, "median, min, max: of the hosts"
    )
    return "\n".join((listed, *explanations))


def name_hosts_without_numbers(
    table: pd.DataFrame, runs: Sequence[RunSummary], only: Only = ALL
) -> str:
    """Name hosts that lack a number in `table` for a benchmark they measured, or have
    nothing of `only`.
    """
    host_benchmarks = set(zip(table["host_id"], table["benchmark"], strict=True))
    hosts_with_numbers = {host for host, _ in host_benchmarks}
    hosts_by_reason: dict[str, dict[str, None]] = {}
    for run in runs:
        names = {kind.partition("/")[0] for kind in run.benchmarks}
        absent = sorted(
            name for name in names if (run.host_id, name) not in host_benchmarks
        )
        if only == ALL and absent:
            reason = f"nothing of {', '.join(absent)} stands for it here; "
            reason += (
                "`fleet show HOST` says what there is or failed, with --ladder size by"
                " size"
            )
        elif only != ALL and run.host_id not in hosts_with_numbers:
            reason = f"nothing was measured{only}"
        else:
            continue
        hosts_by_reason.setdefault(reason, {})[run.host_name] = None
    lines = (
        f"{join_names(hosts, 60)}: {reason}"
        for reason, hosts in hosts_by_reason.items()
    )
    return "\n".join(map(one_line, lines))


def render_heading(
    runs: Sequence[RunSummary],
    left_out: int = 0,
    missing: Sequence[MissingHost] = (),
    command: str = "show",
) -> str:
    """Say how many hosts and runs are shown, from when, which are missing, and the
    command that shows all.
    """
    hosts = len({run.host_name for run in runs})
    total = hosts + left_out + sum(not host.has_runs for host in missing)
    partial = sum(run.state is RunState.PARTIAL for run in runs)
    return (
        f"{hosts} of " * (total > hosts)
        + f"{format_count(total, 'host')}, {format_count(len(runs), 'run')}, "
        + f"{text.format_span(runs[0].started_utc, runs[-1].started_utc)} UTC"
        + f", {partial} partial" * bool(partial)
        + f"; all: fleet {command} all" * bool(left_out)
        + f"; missing: {', '.join(map(str, missing))}" * bool(missing)
    )


def _iter_host_cells(
    rows: pd.DataFrame, descriptions: Descriptions
) -> Iterator[tuple[str, Cell]]:
    """Yield each host of a column with its cell; hosts with equal numbers share their
    mean rank.
    """
    places = rows["median_ns"].rank(method="average") - 1
    ranks = (
        places / (len(rows) - 1) if len(rows) >= _RANKED_FROM else [None] * len(rows)
    )
    names = ["benchmark", "host_id", "host_name", "median_ns", "half"]
    columns = (rows[name] for name in names)
    for benchmark, host, name, ns, half, rank in zip(*columns, ranks, strict=True):
        number = text.format_value(descriptions[benchmark], ns)
        yield (
            host,
            Cell(
                number,
                text.format_half_width(half),
                rank,
                shorten_name(one_line(name)),
                ns,
            ),
        )


class _HostTables:
    """Tables of groups that fit a canvas: side by side if of the same hosts, else one
    below another.
    """

    def __init__(
        self, table: pd.DataFrame, canvas: Canvas, descriptions: Descriptions
    ) -> None:
        usual = table.groupby(["benchmark", "about", "relation"])[
            "median_ns"
        ].transform("median")
        logs = pd.Series(np.log(table["median_ns"] / usual))
        means = logs.groupby(table["host_id"], sort=False).mean()
        # the fastest first, beside the others
        self.hosts = [*means.sort_values(kind="stable").index]
        self._rows = table.groupby("host_id").agg({"host_name": "first", "runs": "max"})
        self._groups, self._canvas = group_columns(table, descriptions), canvas

    def render(self, *, intervals: bool) -> str:
        tables: list[list[Group]] = []
        for group in self._groups:
            for part in [group] if intervals else self._split_to_fit(group):
                last = tables[-1] if tables else []
                beside = last and {*last[0].hosts} == {*part.hosts}
                if beside and self._canvas.fits(
                    self._render_table([*last, part], intervals=intervals)
                ):
                    last.append(part)
                else:
                    tables.append([part])
        return "\n\n".join(
            self._render_table(groups, intervals=intervals) for groups in tables
        )

    def _split_to_fit(self, group: Group) -> list[Group]:
        """Halve the columns of a group until each part fits the canvas or has one
        column.
        """
        names, middle = list(group.columns), len(group.columns) // 2
        if middle == 0 or self._canvas.fits(
            self._render_table([group], intervals=False)
        ):
            return [group]
        halves = (
            {name: group.columns[name] for name in part}
            for part in (names[:middle], names[middle:])
        )
        return [
            part
            for half in halves
            for part in self._split_to_fit(replace(group, columns=half))
        ]

    def _render_table(self, groups: Sequence[Group], *, intervals: bool) -> str:
        """Render groups side by side below their names, then the share of flagged
        bursts, and the runs.
        """
        own = {*groups[0].hosts}
        hosts = [host for host in self.hosts if host in own]
        rows = self._rows.loc[hosts]
        names = [shorten_name(one_line(name)) for name in rows["host_name"]]
        margin = max(len("host"), *map(len, names))
        # Columns of text as wide as their titles: the group's, the column's in two
        # lines, then the hosts.
        blocks = [[f"{word:<{margin}}" for word in ("", "host", "", *names)]]
        gap = _WIDE_GAP if len(groups) > 1 else _GAP
        for group in groups:
            variants = {
                host: Cell(name, "-", None, host, math.nan)
                for host, name in group.variants.items()
            }
            cells_by_title = {
                **({"variant": variants} if variants else {}),
                **group.columns,
            }
            columns = []
            for title, cells in cells_by_title.items():
                # kinds of cores are on a line of their own
                kinds = title.partition(" ")[::2]
                columns.append(
                    [*kinds, *_render_column(cells, hosts, intervals=intervals)]
                )
            widths = [max(map(len, texts)) for texts in columns]
            widths[0] += max(
                len(group.title) - sum(widths) - len(_GAP) * (len(widths) - 1), 0
            )
            for texts, width, cells in zip(
                columns, widths, cells_by_title.values(), strict=True
            ):
                ranks = [
                    None,
                    None,
                    *(cells[host].rank if host in cells else None for host in hosts),
                ]
                for place, rank in enumerate(ranks):
                    texts[place] = f"{texts[place]:>{width}}"
                    if self._canvas.colour and rank is not None:
                        texts[place] = colour_by_rank(texts[place], rank)
            lines = [_GAP.join(texts) for texts in zip(*columns, strict=True)]
            blocks.append(
                [gap + line for line in (f"{group.title:<{len(lines[0])}}", *lines)]
            )
        bursts = (sum(group.bursts[host] for group in groups) for host in hosts)
        flagged = (
            sum(group.flagged[host] * group.bursts[host] for group in groups)
            for host in hosts
        )
        shares = [
            text.format_share(some / every)
            for some, every in zip(flagged, bursts, strict=True)
        ]
        ends = {"flagged": shares}
        if self._rows["runs"].max() > 1:
            ends["runs"] = [*map(str, rows["runs"])]
        for title, texts in ends.items():
            width = max(map(len, (title, *texts)))
            blocks.append(
                [f"{_GAP}{word:>{width}}" for word in ("", title, "", *texts)]
            )
        return "\n".join(
            filter(
                None, ("".join(parts).rstrip() for parts in zip(*blocks, strict=True))
            )
        )


def _render_column(
    cells: Mapping[str, Cell], hosts: Sequence[str], *, intervals: bool
) -> list[str]:
    """Return the aligned cells of a column: numbers, with intervals if asked for and
    known.
    """
    host_cells = [cells.get(host) for host in hosts]
    halves = [
        cell.within if cell and intervals and cell.within != "-" else ""
        for cell in host_cells
    ]
    width = max(map(len, halves))
    return [
        (
            f"{cell.text if cell else '-'} {half:>{width}}"
            if width and cell
            else cell.text
            if cell
            else "-"
        )
        for cell, half in zip(host_cells, halves, strict=True)
    ]


def _explain_numbers(
    table: pd.DataFrame, descriptions: Descriptions, others: str
) -> Iterator[str]:
    """Explain relations, units and `others`, then name hosts that changed or are at
    several levels.
    """
    yield from filter(None, [text.explain_relations(table["relation"])])
    yield (
        f"numbers: {text.describe_units(table['benchmark'], descriptions)}, median of"
        f" the pairs; {others}"
    )
    changed = list_last_changes(table)
    if changed:
        more = f", and {len(changed) - _LISTED} more" if len(changed) > _LISTED else ""
        yield one_line(
            f"numbers since the last change: {'; '.join(changed[:_LISTED])}{more}"
        )
    switching = list_several_levels(table, descriptions)
    for line in switching[:_LISTED]:
        yield f"levels differ between runs: {line}"
    if len(switching) > _LISTED:
        yield f"levels differ between runs of {len(switching) - _LISTED} more"


SPARKS = 24
_BLOCKS = "▁▂▃▄▅▆▇█"
_MIN_SPAN = 0.05  # of the smallest value; less would make noise look like change


def render_relation_history(
    history: pd.DataFrame,
    width: int | None = None,
    descriptions: Descriptions = SHIPPED,
) -> str:
    """Render a line per run, benchmark and variant, oldest first, then a sparkline per
    host and relation.
    """
    relations = list(history["relation"].unique())
    several = len(relations) > 1
    names = ["started (UTC)", "host", "run", "benchmark", *["of"] * several]
    numbers = ["pairs", "median", "min", "max", "p99", "±95%", "flagged"]
    titles, right = (
        [*names, *numbers, "labels"],
        range(len(names), len(names) + len(numbers)),
    )
    rows = text.to_records(history)
    common_labels = text.find_common_labels([row["labels"] for row in rows])
    lines = []
    for row in rows:
        ends = (
            ("max_ns", "min_ns")
            if text.is_rate(descriptions[row["benchmark"]])
            else ("min_ns", "max_ns")
        )
        began = f"{row['started_utc'].astimezone(UTC):%Y-%m-%d %H:%M:%S}"
        run = (
            began,
            row["host_name"],
            row["run_id"],
            text.name_benchmark(row),
            *[row["relation"]] * several,
        )
        cells = text.format_values(row, ("median_ns", *ends, "p99_ns"), descriptions)
        shares = (
            text.format_half_width(row["spread"]),
            text.format_share(row["flagged_share"]),
        )
        labels = text.format_labels(row["labels"], without=common_labels)
        lines.append((*run, str(row["pairs"]), *cells, *shares, labels))
    drop = ("p99", "min", "max", "run", "flagged", "pairs")
    listed = laid_out(titles, lines, right=right, width=width, drop=drop)
    courses = [
        (
            str(host),
            f"{name}/{variant}",
            str(relation),
            draw_sparkline(part["median_ns"]),
        )
        for (host, name, variant, relation), part in history.groupby(
            ["host_name", *CLASS], sort=False
        )
        if len(part) > 1
    ]
    levels = not are_pairs(history["relation"]).any()
    listed_titles = listed.partition("\n")[0].split()
    parts, part = ("CPUs and groups", "of them") if levels else ("pairs", "pair")
    of = {
        ("median", "min", "max"): parts,
        ("p99", "±95%"): f"the median {part}",
        ("flagged",): "bursts",
    }
    named = (
        ([name for name in names if name in listed_titles], subject)
        for names, subject in of.items()
    )
    meant = [f"{', '.join(names)}: of {subject}" for names, subject in named if names]
    explanation = "; ".join(
        (text.describe_units(history["benchmark"], descriptions), *meant)
    )
    body = [text.add_common_labels(listed, common_labels)]
    if courses:
        body.append(
            laid_out(
                ("host", "benchmark", "of", "oldest to newest"), courses, width=width
            )
        )
    command = format_command("fleet", "compare", rows[-1]["host_name"])
    body.append(f"What changed when: {command}")
    title = (
        ", ".join(sorted({name.partition(" ")[0] for name in relations}))
        if several
        else relations[0]
    )
    return f"{title}: {explanation}\n" + "\n\n".join(body)


def render_host_history(runs: Sequence[RunSummary], usual: UsualNumbers) -> str:
    """Render a host's comparable runs: usual number, extremes, sparkline."""
    rows = []
    courses = dict(iter(usual.rows.groupby(_NUMBER, sort=False)["median_ns"]))
    for row in text.to_records(usual.table):
        benchmark = usual.descriptions[row["benchmark"]]
        medians = courses[tuple(row[name] for name in _NUMBER)]
        ends = sorted((medians.min(), medians.max()), reverse=text.is_rate(benchmark))
        number, low, high = (
            text.format_value(benchmark, ns) for ns in (row["median_ns"], *ends)
        )
        half = text.format_half_width(row["half"])
        counts = f"{row['levels'][0].runs} of {len(medians)}"
        name = f"{row['benchmark']}/{row['variant']}".rstrip("/")
        rows.append(
            (
                f"{name} {row['about']}".rstrip(),
                row["relation"],
                *(number, half, counts, low, high),
                draw_sparkline(medians),
            )
        )
    titles = ("benchmark", "of", "usual", "±95%", "runs", "min", "max")
    first, last = runs[0].started_utc, runs[-1].started_utc
    lines = [
        f"{len(runs)} comparable runs, {first:%Y-%m-%d} to {last:%Y-%m-%d}: medians by"
        " run",
        laid_out((*titles, "oldest to newest"), rows, right={2, 3, 4, 5, 6}),
        "usual: geometric mean of the runs at the main level",
        f"±95%: {describe_interval(usual.table)}",
    ]
    changes = list_last_changes(usual.table)
    lines += [f"usual since the last change: {one_line(line)}" for line in changes]
    levels = list_several_levels(usual.table, usual.descriptions, names_host=False)
    lines += [f"levels differ between runs: {line}" for line in levels]
    return "\n".join([*lines, "The last run:"])


def draw_sparkline(values: npt.ArrayLike) -> str:
    """Draw the newest values, at most SPARKS, as blocks; their scale spans at least 5 %
    of the smallest.
    """
    newest = np.asarray(values, dtype=float)[-SPARKS:]
    low, high = float(newest.min()), float(newest.max())
    spare = max(_MIN_SPAN * low - (high - low), 0.0) / 2
    low, high = low - spare, high + spare
    share = (newest - low) / (high - low) if high > low else np.full(len(newest), 0.5)
    return "".join(
        _BLOCKS[min(int(height * len(_BLOCKS)), len(_BLOCKS) - 1)] for height in share
    )
