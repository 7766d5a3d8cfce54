"""Many hosts on a screen, for `fleet show` and the end of `fleet run`: a line a host, a column a relation."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.reduce.interval import student_t
from fleet.analysis.reduce.load import view_of
from fleet.analysis.reduce.pairs import history
from fleet.analysis.reduce.split import geometric_mean, runs_by_level
from fleet.analysis.selection import by_host
from fleet.analysis.views.heatmap import Canvas, ranked
from fleet.analysis.views.text import in_words, percent, records, units_text, within
from fleet.hostnames import folded
from fleet.model import Relation, RunState, View
from fleet.store import RunSummary
from fleet.store.runs import Root
from fleet.text import counted, one_line
from fleet.text import table as laid_out

LEAST_RUNS = 3  # for an interval between runs
_LONGEST_NAME = 24
_RANKED_FROM = 3  # hosts; fewer need no colours
_SEPARATE_UP_TO = 10  # hosts; of more, one table without intervals is easier to read than two with them
_LISTED = 3  # of which the levels between runs are listed
_IN_TABLE = (View.MATRIX, View.CPUS)
_GAP, _WIDE_GAP = "  ", "    "

Cell = tuple[str, float | None]  # its text, and its rank among the hosts from 0 to 1


@dataclass(frozen=True, slots=True)
class _Group:
    """The columns of one benchmark and variant: relation by relation, a cell per host."""

    kind: str
    columns: dict[str, list[Cell]]


def medians(
    root: Root, runs: Sequence[RunSummary], note: Callable[[str], None] | None = None
) -> pd.DataFrame:
    """A row per host, benchmark, variant and relation of these runs; ns, one way.

    Columns: `host_id`, `host_name`, `benchmark`, `variant`, `relation`, `runs`, `median_ns` (the geometric
    mean of the runs' medians, of those at the level that most runs are at), `half` (half its 95 % interval,
    relative: `how_wide` says between what; NaN where this host has none of the kind), `levels` (ns
    and runs of each level, that of most runs first), `bursts` and `flagged_bursts` of all these runs.
    """
    rows = history(root, run_id=[run.run_id for run in runs], note=note)
    keys = ["host_id", "host_name", "benchmark", "variant", "relation"]
    found = [
        dict(zip(keys, key, strict=True))
        | {"runs": len(part)}
        | _over_runs(part)
        | {"bursts": part["bursts"].sum(), "flagged_bursts": (part["flagged_share"] * part["bursts"]).sum()}
        for key, part in rows.groupby(keys, sort=False)
    ]
    if any(one["runs"] >= LEAST_RUNS for one in found):
        found = [one if one["runs"] >= LEAST_RUNS else {**one, "half": math.nan} for one in found]
    columns = [*keys, "runs", "median_ns", "half", "levels", "bursts", "flagged_bursts"]
    return pd.DataFrame(found, columns=columns)


def how_wide(table: pd.DataFrame) -> str:
    """What ±95% is in a table of `medians`: one thing in all of its rows."""
    between = table["runs"].max() >= LEAST_RUNS
    return (
        f"between the runs of a host, {LEAST_RUNS} or more"
        if between
        else "of the median pair, within the run"
    )


def overview_text(table: pd.DataFrame, canvas: Canvas) -> str:
    """The table of `medians` for people: the fastest host first; legends once. Empty without latencies."""
    if table.empty:
        return ""
    kinds = [part for _, part in table.groupby(["benchmark", "variant"], sort=False)]
    forms = [([table], True), (kinds, True), ([table], False), (kinds, False)]
    if table["host_id"].nunique() > _SEPARATE_UP_TO:
        forms[1:3] = [forms[2], forms[1]]
    body = ""
    for parts, intervals in forms:
        body = "\n\n".join(_table(part, canvas, intervals=intervals) for part in parts)
        if canvas.fits(body):
            break
    return "\n".join((body, *_legend(table, with_intervals="±" in body)))


def extremes_text(table: pd.DataFrame, width: int | None) -> str:
    """The table of `medians` of too many hosts to list: a line a relation, its fastest and slowest host."""
    titles = ("benchmark", "relation", "hosts", "median", "min", "fastest", "max", "slowest", "flagged")
    rows = []
    for (benchmark, variant, relation), part in table.groupby(
        ["benchmark", "variant", "relation"], sort=False
    ):
        ordered = part.sort_values("median_ns", kind="stable")
        middle = float(ordered["median_ns"].median())
        ends = [(f"{row['median_ns']:.1f}", _shortened(row["host_name"])) for row in records(ordered)]
        flagged = _flagged(part)
        kind = f"{benchmark}/{variant}"
        rows.append((kind, str(relation), f"{len(part):,}", f"{middle:.1f}", *ends[0], *ends[-1], flagged))
    shown = laid_out(titles, rows, right={2, 3, 4, 6, 8}, width=width, drop=("hosts", "flagged", "fastest"))
    last = f"{_numbers(table)}, median of the pairs; median, min, max: of the hosts"
    last += "; flagged: of bursts" * ("flagged" in shown)
    return "\n".join((shown, *_relations(table), last, *_about_levels(table)))


def others_text(runs: Sequence[RunSummary]) -> str:
    """Which hosts have benchmarks that the overview leaves out; empty for none."""
    found: dict[str, list[str]] = {}
    for run in runs:
        names = dict.fromkeys(kind.partition("/")[0] for kind in run.benchmarks)
        left_out = ", ".join(name for name in names if view_of(name) not in _IN_TABLE)
        if left_out and run.host_name not in found.setdefault(left_out, []):
            found[left_out].append(run.host_name)
    return "\n".join(
        one_line(f"{names}: measured on {folded(hosts, 60)}; shown by fleet show {hosts[0]}")
        for names, hosts in found.items()
    )


def heading(runs: Sequence[RunSummary]) -> str:
    """How many hosts and runs, and when."""
    first, last = runs[0].started_utc, runs[-1].started_utc
    when = f"{first:%Y-%m-%d %H:%M}"
    if last != first:
        when += f" to {last:%H:%M}" if first.date() == last.date() else f" to {last:%Y-%m-%d %H:%M}"
    partial = sum(run.state is RunState.PARTIAL for run in runs)
    return (
        f"{counted(len(by_host(runs)), 'host')}, {counted(len(runs), 'run')}, {when} UTC"
        + f", {partial} partial" * bool(partial)
    )


def _over_runs(rows: pd.DataFrame) -> dict[str, Any]:
    levels = runs_by_level(rows["median_ns"].to_numpy(dtype=float))
    half = float(rows["spread"].iloc[-1])
    if len(levels[0]) >= LEAST_RUNS:
        logs = np.log(levels[0])
        half = float(np.expm1(student_t(len(logs) - 1) * logs.std(ddof=1) / len(logs) ** 0.5))
    known = [(geometric_mean(values), len(values)) for values in levels]
    return {"median_ns": known[0][0], "half": half, "levels": known}


def _fastest_first(table: pd.DataFrame) -> list[str]:
    """The hosts by their mean latency relative to the other hosts', over the columns they have."""
    usual = table.groupby(["benchmark", "relation"])["median_ns"].transform("median")
    relative = (table["median_ns"] / usual).map(np.log).groupby(table["host_id"], sort=False).mean()
    return [str(host) for host in relative.sort_values(kind="stable").index]


def _groups(table: pd.DataFrame, hosts: Sequence[str], *, intervals: bool) -> Iterator[_Group]:
    kinds: dict[str, dict[str, dict[str, tuple[float, float]]]] = {}
    names = ["benchmark", "variant", "relation", "host_id", "median_ns", "half"]
    for benchmark, variant, relation, host, ns, half in table[names].itertuples(index=False):
        of_kind = kinds.setdefault(f"{benchmark}/{variant}", {})
        of_kind.setdefault(str(relation), {})[host] = (ns, half)
    for kind, relations in kinds.items():
        columns = {}
        for relation in filter(relations.__contains__, map(str, Relation)):
            known = relations[relation]
            ordered = sorted(ns for ns, _ in known.values())
            columns[relation] = [_cell(known.get(host), ordered, intervals=intervals) for host in hosts]
        yield _Group(kind, columns)


def _cell(number: tuple[float, float] | None, ordered: Sequence[float], *, intervals: bool) -> Cell:
    """ordered: the medians of all hosts, among which this one's has its rank; of equals the mean rank."""
    if number is None:
        return "-", None
    ns, half = number
    text = f"{ns:.1f}" if ns < 1000 else f"{ns:.0f}"
    place = (bisect_left(ordered, ns) + bisect_right(ordered, ns) - 1) / 2
    rank = place / (len(ordered) - 1) if len(ordered) >= _RANKED_FROM else None
    return (f"{text} {within(half)}" if intervals else text), rank


def _table(table: pd.DataFrame, canvas: Canvas, *, intervals: bool) -> str:
    """The benchmarks side by side below their names; then how many bursts are flagged, and the runs."""
    hosts = _fastest_first(table)
    own = [table[table["host_id"] == host] for host in hosts]
    names = [_shortened(rows["host_name"].iloc[0]) for rows in own]
    ends = {"flagged": [_flagged(rows) for rows in own]}
    if table["runs"].max() > 1:
        ends["runs"] = [str(rows["runs"].max()) for rows in own]
    groups = [*_groups(table, hosts, intervals=intervals)]
    margin = max(len("host"), *map(len, names))
    heads, titles = " " * margin, f"{'host':<{margin}}"
    lines = [f"{name:<{margin}}" for name in names]
    for group in groups:
        widths = {
            title: max(len(title), *(len(t) for t, _ in cells)) for title, cells in group.columns.items()
        }
        short = len(group.kind) - sum(widths.values()) - len(_GAP) * (len(widths) - 1)
        first = next(iter(widths))
        widths[first] += max(short, 0)
        gap = _WIDE_GAP if len(groups) > 1 else _GAP
        whole = _GAP.join(f"{title:>{width}}" for title, width in widths.items())
        heads += f"{gap}{group.kind:<{len(whole)}}"
        titles += f"{gap}{whole}"
        for at, _ in enumerate(lines):
            cells = [(cells[at], widths[title]) for title, cells in group.columns.items()]
            lines[at] += gap + _GAP.join(_drawn(text, rank, width, canvas) for (text, rank), width in cells)
    for title, texts in ends.items():
        width = max(len(title), *map(len, texts))
        titles += f"{_GAP}{title:>{width}}"
        lines = [f"{line}{_GAP}{text:>{width}}" for line, text in zip(lines, texts, strict=True)]
    return "\n".join(line.rstrip() for line in (heads, titles, *lines))


def _flagged(rows: pd.DataFrame) -> str:
    return percent(rows["flagged_bursts"].sum() / rows["bursts"].sum())


def _drawn(text: str, rank: float | None, width: int, canvas: Canvas) -> str:
    padded = f"{text:>{width}}"
    return ranked(padded, rank) if canvas.colour and rank is not None else padded


def _legend(table: pd.DataFrame, *, with_intervals: bool) -> Iterator[str]:
    yield from _relations(table)
    yield f"{_numbers(table)}, median of the pairs; flagged: of bursts"
    if table["runs"].max() > 1:
        yield "of several runs: their geometric mean"
    yield from _about_levels(table)
    usual, most = (within(getattr(table["half"], what)()) for what in ("median", "max"))
    shares = "" if with_intervals else f"; half of them within {usual}, all within {most}"
    yield f"±95%: {how_wide(table)}{shares}"


def _about_levels(table: pd.DataFrame) -> Iterator[str]:
    """The levels of hosts whose runs are at several: no number is an average of levels."""
    several = [row for row in records(table) if len(row["levels"]) > 1]
    for row in several[:_LISTED]:
        each = ", ".join(f"{counted(count, 'run')} at {ns:.1f}" for ns, count in row["levels"])
        what = f"{row['host_name']}, {row['benchmark']}, {row['relation']}"
        yield one_line(f"levels differ between runs, the number is that of most: {what}: {each}")
    if len(several) > _LISTED:
        yield f"levels differ between runs of {len(several) - _LISTED} more"


def _relations(table: pd.DataFrame) -> Iterator[str]:
    """What the titles of the columns mean."""
    if legend := in_words(str(one) for one in Relation if (table["relation"] == str(one)).any()):
        yield legend


def _numbers(table: pd.DataFrame) -> str:
    return f"numbers: {units_text(table['benchmark'])}"


def _shortened(name: str) -> str:
    text = one_line(name)
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"
