"""Sections of `fleet show`, one function each: the run, a benchmark of pairs, one of CPUs."""

import json
from typing import Any

import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.base.selection import describe_smt
from fleet.analysis.reduce.flags import PAIR_FLAGS
from fleet.analysis.reduce.matrices import estimator_column, grid, relations
from fleet.analysis.reduce.topology import Layout
from fleet.analysis.views.heatmap import Canvas, draw_matrix
from fleet.analysis.views.topology import describe_topology
from fleet.model import SHIPPED, Descriptions, take_one_of_each_core
from fleet.plan.cpulist import format_cpus
from fleet.text import format_count, one_line, table

PAIRS_LISTED = 3
_FEW_CPUS = 16
_NOT_NAMED = {"benchmarks", "preset", "few_pairs", "seed", "deadline_s"}  # options that the header omits
_IN_WORDS = {"median": "median", "mean": "mean sample", "min": "smallest sample"}


def render_header(run: dict[str, Any], order: Layout, all_cpus: pd.DataFrame) -> str:
    """Render host, machine, kernel, governor, clock, labels, topology, and the preset if there was one."""
    clock = f"clock {run['clock']} {run['ticks_per_second'] / 1e6:g} MHz"
    if run["clock_cost_ticks"] is not None:
        clock += f" (one reading {run['clock_cost_ticks'] * 1e9 / run['ticks_per_second']:.1f} ns)"
    cpus, labels = format_count(run["cpus_measured"], "CPU"), text.format_labels(run["labels"])
    online = all_cpus[all_cpus["online"] & all_cpus["core"].notna()]
    one_of_each = take_one_of_each_core(online[["cpu", "package", "core"]].itertuples(index=False, name=None))
    has_siblings = len(one_of_each) < len(online)
    are_cores = has_siblings and one_of_each == tuple(sorted(order.cpus))
    smt = describe_smt(run["smt"], run["smt_control"], run["hypervisor"], has_siblings=has_siblings)
    preset = f"preset {run['preset']}: the number of a pair is its {_IN_WORDS[run['estimator']]}"
    options = [
        f"--{name.replace('_', '-')} {_format_option(value)}"
        for name, value in run["plan"].items()
        if value is not None and name not in _NOT_NAMED
    ]
    lines = (
        f"{run['host_name']}  {run['run_id']}  {run['started_utc']:%Y-%m-%d %H:%M} UTC  {run['state']}",
        f"{run['cpu_model'] or 'unknown CPU model'}, {cpus}, {run['target']}",
        ", ".join([*(f"{fact} {run[fact]}" for fact in ("kernel", "governor") if run[fact]), clock]),
        f"labels: {labels}" if labels else "",
        preset if run["preset"] else "",
        f"options: {', '.join(options)}" if options else "",
        "measured: one CPU of each core (-c cores)" if are_cores else "",
        *describe_topology(order),
        f"hyperthreading (SMT): {smt}",
    )
    return "\n".join(one_line(line) for line in lines if line)


def _format_option(value: Any) -> str:
    """Format the value of an option as it is stored: CPUs as ranges, a choice of pairs as it is typed."""
    if isinstance(value, dict) and "which" in value:
        listed = ",".join(f"{ping}-{pong}" for ping, pong in value["listed"])
        return (
            f"{value['which']}:{value['per_relation']}" if value["per_relation"] else listed or value["which"]
        )
    if isinstance(value, list):
        return format_cpus(value) if all(type(item) is int for item in value) else ",".join(map(str, value))
    return json.dumps(value) if isinstance(value, dict) else str(value)


def render_pairs(
    pairs: pd.DataFrame,
    order: Layout,
    canvas: Canvas,
    run: dict[str, Any],
    descriptions: Descriptions = SHIPPED,
    *,
    legend: bool = True,
    as_map: bool = False,
) -> str:
    """Render one benchmark and variant: relations, extreme pairs and matrix. legend: explain the words."""
    first, number = pairs.iloc[0], estimator_column(run)
    heading, name = descriptions[first["benchmark"]].heading, _name_kind(first)
    estimator_note = f" ({_IN_WORDS[run['estimator']]} of each pair)" if run["preset"] else ""
    lines = [f"{name}: {heading}{estimator_note}, by what two CPUs share"]
    marked = _find_flagged_pairs(pairs)
    mark_column = ("*",) if marked.any() else ()
    titles = ("relation", "pairs", "median", "min", "max", "p99", "±95%", "flagged", *mark_column)
    rows = []
    for row in text.to_records(relations(pairs, number)):
        marks = (str((marked & (pairs["relation"] == row["relation"])).sum()) for _ in mark_column)
        numbers = (f"{row[name]:.1f}" for name in ("median_ns", "min_ns", "max_ns", "p99_ns"))
        ends = (text.format_half_width(row["spread"]), text.format_share(row["flagged_share"]))
        rows.append((row["relation"], str(row["pairs"]), *numbers, *ends, *marks))
    lines.append(table(titles, rows, right=set(range(1, len(titles)))))
    if legend:
        lines.append(text.explain_relations(row[0] for row in rows))
        words = "median, min, max: of pairs; p99, ±95%: of the median pair; flagged: of bursts"
        lines.append(words + "; *: pairs with a flag of their own" * bool(mark_column))
    lines.append(_describe_precision(pairs, number))
    lines += [*_render_extremes(pairs, number, canvas.width), *describe_burst_levels(pairs)]
    return "\n".join(lines) + "\n\n" + render_matrix(pairs, order, canvas, run, descriptions, as_map=as_map)


def render_matrix(
    pairs: pd.DataFrame,
    order: Layout,
    canvas: Canvas,
    run: dict[str, Any],
    descriptions: Descriptions = SHIPPED,
    *,
    as_map: bool,
) -> str:
    """Render the matrix of one benchmark and variant, flagged pairs marked."""
    values = grid(pairs, order.cpus, estimator_column(run))
    label = descriptions[pairs["benchmark"].iloc[0]].label
    own = pairs[_find_flagged_pairs(pairs)]
    marked = frozenset((min(ends), max(ends)) for ends in zip(own["ping_cpu"], own["pong_cpu"], strict=True))
    drawn = draw_matrix(values, order, canvas, label=label, marked=marked, as_map=as_map)
    return text.render_rich(drawn, canvas.width, colour=canvas.colour).rstrip("\n")


def render_cpus(pairs: pd.DataFrame, order: Layout, descriptions: Descriptions = SHIPPED) -> str:
    """Render a row per CPU; of many CPUs, only those furthest from the median."""
    first, costs = pairs.iloc[0], {row["ping_cpu"]: row for row in text.to_records(pairs)}
    low, middle, high = (getattr(pairs["median_ns"], statistic)() for statistic in ("min", "median", "max"))
    heading = descriptions[first["benchmark"]].heading
    title = f"{first['benchmark']}/{first['variant']}: {heading}, per CPU"
    summary = f"min {low:.1f}, median {middle:.1f}, max {high:.1f} over {format_count(len(costs), 'CPU')}"
    cpus = [cpu for cpu in order.cpus if cpu in costs]
    if len(cpus) > _FEW_CPUS:
        cpus = sorted(cpus, key=lambda cpu: -abs(costs[cpu]["median_ns"] / middle - 1))[:PAIRS_LISTED]
        summary += "; furthest from the median:"
    rows = []
    for row in map(costs.__getitem__, cpus):
        numbers = (f"{row[name]:.1f}" for name in ("median_ns", "min_ns", "p99_ns"))
        ends = (
            text.format_half_width(row["spread"]),
            text.format_share(row["flagged_bursts"] / row["bursts"]),
        )
        rows.append((str(row["ping_cpu"]), *numbers, *ends))
    listed = table(("cpu", "median", "min", "p99", "±95%", "flagged"), rows, right=set(range(6)))
    meant = "±95%: within the run; flagged: of bursts"
    return "\n".join((title, summary, listed, meant, *describe_burst_levels(pairs)))


def _describe_precision(pairs: pd.DataFrame, number: str) -> str:
    few, many = int(pairs["bursts"].min()), int(pairs["bursts"].max())
    bursts = (format_count(few, "burst") if few == many else f"{few} to {many} bursts") + " a pair"
    if number != "median_ns":
        return f"interval: none; only medians have one ({bursts})"
    if pairs["spread"].isna().all():
        return f"interval: none; it needs at least 2 bursts a pair ({bursts})"
    middle, worst = pairs["spread"].median(), pairs["spread"].max()
    if len(pairs) == 1:
        return f"interval: {text.format_half_width(worst)} ({bursts})"
    return f"interval: {text.describe_half_widths('half the pairs', middle, worst)} ({bursts})"


def _find_flagged_pairs(pairs: pd.DataFrame) -> "pd.Series[bool]":
    """Report which pairs have a flag of their own; flags of single bursts do not move a pair's number."""
    return pairs["flags"].map(lambda flags: not set(flags.split(",")).isdisjoint(PAIR_FLAGS)).astype(bool)


def _render_extremes(pairs: pd.DataFrame, number: str, width: int | None) -> list[str]:
    """Render the fastest and slowest pairs of each relation that has enough; as many as fit."""
    rows = []
    for relation, part in pairs.groupby("relation", sort=False):
        if len(part) > 2 * PAIRS_LISTED:
            ordered = part.sort_values(number, kind="stable")
            ends = (ordered.head(PAIRS_LISTED), ordered.tail(PAIRS_LISTED).iloc[::-1])
            texts = [  # the heading has the point
                [f"{row['ping_cpu']}-{row['pong_cpu']} {row[number]:.1f}" for row in text.to_records(end)]
                for end in ends
            ]
            rows.append((part[number].median(), str(relation), texts))
    longest = max((len(pair) for *_, ends in rows for end in ends for pair in end), default=0)
    for count in range(PAIRS_LISTED, 0, -1):
        listed = [
            (relation, *("  ".join(f"{pair:>{longest}}" for pair in end[:count]) for end in ends))
            for _, relation, ends in sorted(rows)
        ]
        extremes = table(("relation", "fastest pairs", "slowest pairs"), listed)
        if not text.is_too_wide(extremes, width):
            break
    return [extremes] if rows else []


def describe_burst_levels(pairs: pd.DataFrame) -> list[str]:
    """Describe the pairs with bursts at another level, those with the largest share first."""
    switching = pairs[pairs["other_ns"].notna()].sort_values("other_share", ascending=False, kind="stable")
    lines = [
        f"levels of {text.format_pair(row)}: {row['median_ns']:.1f} {text.format_half_width(row['spread'])}, "
        f"and {text.format_share(row['other_share'])} of bursts at another level, median "
        f"{row['other_ns']:.1f}"
        for row in text.to_records(switching.head(PAIRS_LISTED))
    ]
    if len(switching) > PAIRS_LISTED:
        more = format_count(len(switching) - PAIRS_LISTED, "more pair")
        lines.append(f"{more} with bursts at another level (fleet show --json)")
    return lines


def _name_kind(row: Any) -> str:
    return text.name_kind(row) + ("" if text.is_none(row["point"]) else f" {row['point']}")
