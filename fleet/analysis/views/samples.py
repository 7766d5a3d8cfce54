"""Views of raw samples: the bursts of one pair, and both directions of messages with
the offset of clocks.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.base.tables import Bools, Floats
from fleet.analysis.reduce import load
from fleet.analysis.reduce.burst_levels import REACH
from fleet.analysis.reduce.bursts import SAMPLE_COLUMNS, read_bursts
from fleet.analysis.reduce.flags import PAIR_FLAGS, count_flags
from fleet.analysis.reduce.matrices import compute_medians_and_outliers
from fleet.analysis.reduce.numbers import ALL, Only
from fleet.analysis.reduce.pairs import as_float64, load_pairs
from fleet.errors import UsageError
from fleet.late import pa
from fleet.model import Descriptions
from fleet.plan.cpulist import format_cpus
from fleet.store import RunSummary
from fleet.store.places import samples_name
from fleet.store.reading import TableFile
from fleet.store.runs import Root, open_listing
from fleet.text import format_count, one_line, table

_BINS, _BAR = 16, 40  # at most; columns of the longest bar
_MIN_SPAN = 0.05  # of the fastest burst; less would make noise look like levels
_LOG_BEYOND = (
    4  # ratio of the largest to the smallest burst beyond which bins are geometric
)
_PAIRS_NAMED = 12
_ENDS = ["ping_cpu", "pong_cpu"]
_KIND = ["run_id", "benchmark", "variant", "point", "relation"]
_OF_BURST = [
    "round",
    *_ENDS,
    "burst_ns",
    "samples",
    "grain_ns",
    "core_ghz",
    "flags",
    "pair_ns",
    "pair_flags",
]
_COLUMNS = [
    *(
        "variant",
        "point",
        "ping_cpu",
        "pong_cpu",
        "iterations",
        "warmup",
        "ns_per_tick",
    ),
    *("ticks", "other_ticks"),
]
_PAIR = ["variant", "point", "low", "high"]
_ONE_COUNTER = ("aarch64", "riscv64", "s390x", "ppc64le")  # all CPUs read the same one
_STEPS = 2.0  # of the clock; directions that differ by less than twice this are alike
_NOT_DISTINGUISHABLE = (
    "offset: how far the clock of the second CPU may be ahead of the first's. A"
    " difference between the directions is not distinguishable from such an offset; the"
    " mean of both does not depend on it."
)
_SHARED = "All CPUs of this machine read one counter, so each direction is a latency."
_TESTED = (
    "No pair's directions differ by more than the clock resolves (tested on all"
    " measured pairs), so each direction can be taken as a latency."
)


def compute_message_directions(root: Root, run_id: str) -> pd.DataFrame:
    """Return a row per variant, point and pair that exchanged messages; no rows if none
    did.

    Columns: `variant`, `point`, `low` and `high` (the CPUs), `up_ns` and `down_ns` (low
    to high and back, medians of the bursts' medians), `mean_ns`, `least_ns` and
    `most_ns` (bounds of `high`'s clock offset).
    """
    parts = load.load_samples_in_parts(
        root, run_id, benchmark="message", columns=_COLUMNS
    )
    rows = (
        row
        for part in parts
        for row in text.to_records(part.dropna(subset=["other_ticks"]))
    )
    statistics = {
        "up_ns": "median",
        "down_ns": "median",
        "most_ns": "min",
        "least_ns": "max",
    }
    reduced = [
        _reduce_both_directions(row)
        for row in rows
        if len(row["ticks"]) > row["warmup"]
    ]
    bursts = pd.DataFrame(reduced, columns=[*_PAIR, *statistics])
    pairs = bursts.groupby(_PAIR, sort=True).agg(statistics).reset_index()
    return pairs.assign(mean_ns=(pairs["up_ns"] + pairs["down_ns"]) / 2)


def _reduce_both_directions(row: dict[str, Any]) -> tuple[Any, ...]:
    factor, warmup = row["ns_per_tick"] / row["iterations"], row["warmup"]
    # Ping receives what comes from pong.
    down, up = (
        np.asarray(ticks)[warmup:] * factor
        for ticks in (row["ticks"], row["other_ticks"][0])
    )
    low, high = row["ping_cpu"], row["pong_cpu"]
    if low > high:
        low, high, down, up = high, low, up, down
    numbers = (np.median(up), np.median(down), up.min(), -down.min())
    return row["variant"], row["point"], low, high, *map(float, numbers)


def render_message_directions(root: Root, run: dict[str, Any]) -> str:
    """Render the section of `fleet show --ways`; empty without messages. run: from
    `load_run`.
    """
    directions, parts = compute_message_directions(root, run["run_id"]), []
    titles = ("pair", "there", "back", "mean", "offset ± bound")
    for (variant, point), rows in directions.groupby(["variant", "point"], sort=False):
        lines = []
        for row in text.to_records(rows):
            numbers = (f"{row[name]:.1f}" for name in ("up_ns", "down_ns", "mean_ns"))
            middle = round((row["most_ns"] + row["least_ns"]) / 2, 1) + 0.0  # no -0.0
            offset = f"{middle:+.1f} ± {(row['most_ns'] - row['least_ns']) / 2:.1f}"
            lines.append((f"{row['low']}-{row['high']}", *numbers, offset))
        title = (
            f"message/{variant}, point {point}: ns by the receiver's clock, in both"
            " directions"
        )
        listed, words = table(titles, lines, right=set(range(5))), _NOT_DISTINGUISHABLE
        half_ns, quantum = (
            (rows["up_ns"] - rows["down_ns"]).abs().max() / 2,
            run["clock_quantum_ticks"],
        )
        if run["arch"] in _ONE_COUNTER and run["clock"] != "monotonic_raw":
            words = _SHARED
        elif (
            quantum is not None
            and half_ns < _STEPS * quantum * 1e9 / run["ticks_per_second"]
        ):
            words = _TESTED
        parts.append("\n".join((title, listed, words)))
    return "\n\n".join(parts)


def load_pair_bursts(
    root: Root, runs: Sequence[RunSummary], pair: str, only: Only = ALL
) -> pd.DataFrame:
    """Return a row per burst of two CPUs ("3-17", in either direction) or of one ("3"),
    in order of time.

    Columns: `load.RUN_COLUMNS`, _KIND (run, benchmark, variant, point and relation) and
    _OF_BURST: `burst_ns` is the median of its samples, in ns per unit of work;
    `grain_ns` is what a step of the clock adds to a sample (NaN if unknown); `pair_ns`
    and `pair_flags` are the pair's number and flags in that run. Raises UsageError for
    a pair that no run measured.
    """
    match = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", pair)
    if not match:
        raise UsageError(f"--pair {pair}: write two CPUs as 3-17, or one as 3.")
    low, high = sorted(int(number) for number in (match[1], match[2] or match[1]))
    run_ids = [run.run_id for run in runs]
    pairs = as_float64(load_pairs(root, run_id=run_ids))
    pairs = only.select(
        pairs, load.load_cpus(root, run_id=run_ids) if only.cpus else pairs
    )
    chosen = pairs[
        (pairs[_ENDS].min(axis=1) == low) & (pairs[_ENDS].max(axis=1) == high)
    ]
    if chosen.empty:
        raise UsageError(
            f"--pair {pair}: it was not measured{only}."
            f" {_describe_measured_pairs(pairs)}"
        )
    facts = load.load_runs(root, run_id=run_ids)
    steps = dict(
        zip(facts["run_id"], facts["clock_quantum_ticks"].astype(float), strict=True)
    )
    place, parts = open_listing(root).place, []
    for run in runs:
        names = chosen.loc[chosen["run_id"] == run.run_id, "benchmark"].unique()
        file = TableFile(place, samples_name(*run.key), "samples")
        for samples in file.iter_tables(
            SAMPLE_COLUMNS, load.make_filters(benchmark=[*names])
        ):
            cpus = np.stack([samples.column(name).to_numpy() for name in _ENDS])
            is_chosen = (cpus.min(axis=0) == low) & (cpus.max(axis=0) == high)
            bursts = read_bursts(samples.filter(pa.array(is_chosen)), run.descriptions)
            step_ns = (
                load.compute_latency_ns_per_tick(bursts.about, run.descriptions)
                * steps[run.run_id]
            )
            medians = compute_medians_and_outliers(bursts)[0]
            parts.append(
                bursts.about.assign(
                    burst_ns=medians, samples=bursts.counts, grain_ns=step_ns
                )
            )
    rows = pd.concat(parts, ignore_index=True).astype(dict.fromkeys(_KIND, object))
    numbers = chosen.rename(columns={"median_ns": "pair_ns", "flags": "pair_flags"})
    numbers = numbers[[*_KIND[:-1], "pair_ns", "pair_flags"]].astype(
        dict.fromkeys(_KIND[:-1], object)
    )
    rows = rows.merge(numbers, on=_KIND[:-1])
    rows = rows.assign(order=rows["run_id"].map(run_ids.index)).sort_values(
        ["order", "start_offset_ns"]
    )
    return load.add_run_columns(
        rows[[*_KIND, *_OF_BURST]].reset_index(drop=True), facts
    )


def _describe_measured_pairs(pairs: pd.DataFrame) -> str:
    """Name some measured pairs in a sentence, or only the CPUs if all their pairs were
    measured.
    """
    ends = sorted(
        {
            tuple(sorted(cpus))
            for cpus in zip(*(pairs[name] for name in _ENDS), strict=True)
        }
    )
    cpus = sorted({cpu for pair in ends for cpu in pair})
    if sum(a != b for a, b in ends) == len(cpus) * (len(cpus) - 1) // 2 > 0:
        return f"Pairs are any two of the CPUs {format_cpus(cpus)}."
    listed = ", ".join(
        text.format_pair(dict(zip(_ENDS, pair, strict=True)))
        for pair in ends[:_PAIRS_NAMED]
    )
    more = f" and {len(ends) - _PAIRS_NAMED} more (fleet show HOST --csv)" * (
        len(ends) > _PAIRS_NAMED
    )
    return f"There are {listed}{more}."


def find_main_level(bursts: pd.DataFrame) -> Bools:
    """Report for each burst whether it is within 15 % of its pair's number in
    its run.
    """
    ratios = bursts["burst_ns"].to_numpy(dtype=float) / bursts["pair_ns"].to_numpy(
        dtype=float
    )
    main: Bools = np.abs(np.log(ratios)) <= np.log(REACH)
    return main


def make_bins(values: Floats, grain: float) -> Floats:
    """Return edges of up to _BINS bins: equal ones, at least `grain` wide, or geometric
    over a wide range.
    """
    low, high = float(values.min()), float(values.max())
    width = max(np.nan_to_num(grain), _MIN_SPAN * low / _BINS)
    count = int(np.clip((high - low) / width, 1, min(_BINS, max(len(values) // 2, 1))))
    if low > 0 and high > _LOG_BEYOND * low:
        edges: Floats = np.geomspace(low, high, count + 1)
    else:
        edges = np.linspace(low, max(high, low + width), count + 1)
    return edges


def render_histograms(bursts: pd.DataFrame, descriptions: Descriptions) -> str:
    """Render a histogram of bursts for each host, benchmark and point. bursts: from
    `load_pair_bursts`.
    """
    names = ["host_name", "benchmark", "variant", "point"]
    parts = bursts.groupby(names, sort=False, dropna=False)
    return "\n\n".join(_render_histogram(part, descriptions) for _, part in parts)


def _render_histogram(bursts: pd.DataFrame, descriptions: Descriptions) -> str:
    first, runs = text.to_records(bursts.head(1))[0], bursts.drop_duplicates("run_id")
    benchmark = descriptions[first["benchmark"]]
    values = text.convert_to_shown(benchmark, bursts["burst_ns"].to_numpy())
    is_main, grain = find_main_level(bursts), float(bursts["grain_ns"].median())
    edges = make_bins(values, np.nan if text.is_rate(benchmark) else grain)
    counts, at_main = (
        np.histogram(part, edges)[0] for part in (values, values[is_main])
    )
    decimals = int(np.clip(1 - np.floor(np.log10(edges[1] - edges[0])), 0, 4))
    rows = []
    for low, count, main in zip(edges, counts, at_main, strict=False):
        bar, other = (
            round(_BAR * part / counts.max()) for part in (main, count - main)
        )
        rows.append((f"{low:.{decimals}f}", str(count), "█" * bar + "░" * other))
    histogram = table(("from", "bursts", "█ main level, ░ another"), rows, right={0, 1})
    measured = (
        f"{format_count(len(bursts), 'burst')} of {format_count(len(runs), 'run')}"
    )
    span = text.format_span(runs["started_utc"].iloc[0], runs["started_utc"].iloc[-1])
    levels = []
    for part in (bursts[is_main], bursts[~is_main]):
        if len(part):
            middle = text.format_value(benchmark, part["burst_ns"].median())
            levels.append(
                f"{len(part)} at {middle} in"
                f" {format_count(part['run_id'].nunique(), 'run')}"
            )
    samples = " or ".join(map(str, sorted({*bursts["samples"]})))
    step = "unknown" if text.is_none(grain) else f"{grain:.2g} ns of a sample"
    flags = [f"{flag} {count}" for flag, count in count_flags(bursts["flags"]).items()]
    totals = count_flags(runs["pair_flags"])
    flags += [
        f"{flag} in {format_count(totals[flag], 'run')}"
        for flag in PAIR_FLAGS
        if flag in totals
    ]
    ghz, kernels = bursts["core_ghz"].dropna(), runs["kernel"].dropna().unique()
    conditions = [f"kernel {' | '.join(kernels)}"] * bool(len(kernels))
    conditions += [f"core at {ghz.min():.2f} to {ghz.max():.2f} GHz"] * bool(len(ghz))
    pair = f"{text.format_pair(first)} ({first['relation']})"
    lines = (
        one_line(f"{first['host_name']} {pair}, {text.name_benchmark(first)}"),
        f"{benchmark.heading}, medians of {measured}, {span} UTC",
        histogram,
        f"levels: {'; another: '.join(levels)}",
        f"a step of the clock: {step}; {samples} samples a burst",
        f"flags: {', '.join(flags) or 'none'}",
        one_line(f"conditions: {'; '.join(conditions) or 'not known'}"),
    )
    return "\n".join(lines)
