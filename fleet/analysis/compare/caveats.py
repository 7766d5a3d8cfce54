"""List what weakens a comparison: who was measured, in which order, how and under what
load.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base.text import format_share
from fleet.analysis.compare.judge import compute_nanmedian
from fleet.analysis.compare.sides import ComparisonSide
from fleet.analysis.reduce.flags import MEANINGS
from fleet.analysis.reduce.interval import MIN_RUNS
from fleet.text import format_count

MANY_FLAGGED = 0.2  # of a side's pairs
BUSIER = 0.5  # runnable threads per CPU more on one side than on the other
SIDE = ["comparison", "is_b"]
# `not_converged` is no caveat, since it shows in the intervals
_FLAGS_TO_WARN_OF = (
    "multimodal",
    "smt_pair",
    "drift",
    "outliers",
)
_MEASURED = {"complete", "partial"}
_PERIODS = (2, 4)  # of an order that repeats itself, in runs


@dataclass(slots=True)
class PairSummary:
    """What a side of a comparison has.

    rows: how many rows of the table `pairs`. units: how many runs these are of, or how
    many hosts if hosts are the units. variants: the variants of each benchmark. flags:
    how many of the rows have each flag.
    """

    rows: int = 0
    units: int = 0
    variants: dict[str, set[str]] = field(default_factory=dict)
    flags: Mapping[str, int] = field(default_factory=dict)

    def compute_flagged_share(self, flag: str) -> float:
        """Return the share of rows that have a flag."""
        flagged_rows = self.flags.get(flag, 0)
        return flagged_rows / max(self.rows, 1)


def summarize_pairs(rows: pd.DataFrame) -> dict[tuple[int, bool], PairSummary]:
    """Summarize the pairs of each side, by the number of its comparison and whether it
    is B there.

    rows: a row per pair and unit, with the number of its `comparison`, `is_b`, `unit`,
    `benchmark`, `variant` and `flags`, which are separated by commas.
    """
    groups = rows.groupby(SIDE, as_index=False)
    counts = groups.agg(rows=("unit", "size"), units=("unit", "nunique"))
    variants_by_side = list_variants(rows)
    flags_by_side = _count_flags(rows)
    summaries = dict[tuple[int, bool], PairSummary]()
    for comparison, is_b, count, units in counts.itertuples(index=False):
        side = (comparison, is_b)
        summaries[side] = PairSummary(
            rows=count,
            units=units,
            variants=variants_by_side[side],
            flags=flags_by_side.get(side, {}),
        )
    return summaries


def _count_flags(rows: pd.DataFrame) -> dict[tuple[int, bool], Counter[str]]:
    """Count the rows with each flag, by comparison and side. rows: as of
    `summarize_pairs`; the `flags` of a row are a text, such as "drift,outliers".
    """
    is_flagged = rows["flags"] != ""
    # rows with equal flags are counted at once: there are few such texts
    groups = rows[is_flagged].groupby([*SIDE, "flags"], as_index=False)
    counts_of_texts = groups.size()
    flags_by_side = dict[tuple[int, bool], Counter[str]]()
    for comparison, is_b, flags, count in counts_of_texts.itertuples(index=False):
        side = (comparison, is_b)
        counts = flags_by_side.setdefault(side, Counter())
        for flag in flags.split(","):
            counts[flag] += count
    return flags_by_side


def list_variants(rows: pd.DataFrame) -> dict[tuple[int, bool], dict[str, set[str]]]:
    """Return the variants of each benchmark of each side, by the number of its
    comparison and whether it is B there. The benchmarks are in order of occurrence.
    rows: as of `summarize_pairs`.
    """
    names = [*SIDE, "benchmark", "variant"]
    choices = rows[names].drop_duplicates()
    variants_by_side = dict[tuple[int, bool], dict[str, set[str]]]()
    for comparison, is_b, benchmark, variant in choices.itertuples(index=False):
        side = (comparison, is_b)
        variants_by_benchmark = variants_by_side.setdefault(side, {})
        variants = variants_by_benchmark.setdefault(benchmark, set())
        variants.add(variant)
    return variants_by_side


def format_order(a: ComparisonSide, b: ComparisonSide) -> str:
    """Write the letter of each run's side in order of time, such as ABBA."""
    starts_of_a = _list_starts("A", a)
    starts_of_b = _list_starts("B", b)
    in_time = sorted(starts_of_a + starts_of_b)
    letters = [letter for _, _, letter in in_time]
    return "".join(letters)


def _list_starts(letter: str, side: ComparisonSide) -> list[tuple[Any, str, str]]:
    """List, for each run of a side, when it began, its ID and the side's letter."""
    times = side.runs["started_utc"].tolist()
    letters = [letter] * len(times)
    return list(zip(times, side.run_ids, letters, strict=True))


def _warn_about_regular_order(a: ComparisonSide, b: ComparisonSide) -> Iterator[str]:
    """Warn if the sides take turns in a regular order: then what changes as regularly
    looks like a difference between the sides.
    """
    smaller_count = min(len(a.runs), len(b.runs))
    has_enough = smaller_count >= MIN_RUNS
    period = _find_period(format_order(a, b))
    if has_enough and period is not None and a.hosts == b.hosts:
        yield (
            f"The order of the sides repeats itself every {period} runs: what"
            " disturbs runs as regularly looks like a difference. --alternate draws an"
            " order that does not (docs/comparing.md)."
        )


def _warn_about_few_turns(a: ComparisonSide, b: ComparisonSide) -> Iterator[str]:
    """Warn if the sides hardly take turns: then changes with time look like a
    difference between the sides.
    """
    smaller_count = min(len(a.runs), len(b.runs))
    # a pass is a run of each side, AB or BA: if the sides take turns, the side changes
    # in each pass
    changes = _count_changes(format_order(a, b))
    if smaller_count >= 2 and changes < smaller_count:
        how = "in two separate blocks of time" if changes == 1 else "hardly interleaved"
        yield (
            f"The sides were measured {how}: anything else that changed with time looks"
            " like a difference between them. Alternate them (docs/comparing.md)."
        )


def _count_changes(order: str) -> int:
    """Count how often the side changes: in ABAB three times, in AABB once."""
    neighbours = pairwise(order)
    return sum(letter != following for letter, following in neighbours)


def _find_period(order: str) -> int | None:
    """Return after how many runs, 2 or 4, an order repeats itself: "ABBAABBA" -> 4.
    Return None if it does not. The answer counts only for orders of more than four
    runs: a shorter order is no longer than a period, and always seems to repeat itself.
    """
    for period in _PERIODS:
        without_first_period = order[period:]
        without_last_period = order[:-period]
        # each run is of the side of the run a period before
        if without_first_period == without_last_period:
            return period
    return None


def _warn_about_hosts(
    a: ComparisonSide, b: ComparisonSide, unit: str, *, same_topology: bool
) -> Iterator[str]:
    """Warn if the sides are of different hosts or CPUs, and say what is compared then.
    unit, same_topology: as of `list_caveats`.
    """
    if unit == "host":
        yield (
            "The sides are different sets of hosts: each counts once; relations are"
            " matched by name."
        )
    elif a.hosts != b.hosts:
        cells = ""
        if not same_topology:
            cells = "; relations are matched by name, pairs are not compared"
        yield (
            "The sides are different hosts: a change applies to these two machines"
            f" only{cells}."
        )
    elif not same_topology:
        yield (
            "The topology of the host differs between the sides: pairs are not"
            " compared."
        )


def _warn_about_sampling(a: ComparisonSide, b: ComparisonSide) -> Iterator[str]:
    """Warn of runs that measured nothing, and of runs that drew samples, or read time,
    in different ways.
    """
    states = _list_values("state", a, b)
    without_samples = sum(state not in _MEASURED for state in states)
    if without_samples:
        yield (
            f"{format_count(without_samples, 'run')} without samples: no evidence of a"
            " change."
        )
    schemes = _list_schemes(a, b)
    if len(schemes) > 1:
        yield (
            f"The runs used different sampling, {', '.join(schemes)}: all are"
            " compared by the median of their bursts, which may differ by the sampling"
            " alone."
        )
    clocks = sorted({clock for clock in _list_values("clock", a, b) if clock})
    if len(clocks) > 1:
        yield f"The clocks differ: {', '.join(clocks)}."


def _list_schemes(a: ComparisonSide, b: ComparisonSide) -> list[str]:
    """List the ways in which the runs of both sides drew and reduced samples, each
    once: the preset and its estimator, such as "c2clat (min)", or "default (median)".
    """
    schemes = set()
    preset_of_runs = _list_values("preset", a, b)
    estimator_of_runs = _list_values("estimator", a, b)
    for preset, estimator in zip(preset_of_runs, estimator_of_runs, strict=True):
        if preset:
            schemes.add(f"{preset} ({estimator})")
        else:
            # without a preset, the number is the median; the estimator serves only the
            # matrix that the agent itself prints
            schemes.add("default (median)")
    return sorted(schemes)


def _warn_about_variants(a: PairSummary, b: PairSummary) -> Iterator[str]:
    """Warn of benchmarks that one side lacks, or has in other variants, too. Benchmarks
    without any common variant are compared elsewhere.
    """
    for benchmark in {**a.variants, **b.variants}:
        variants_of_a = a.variants.get(benchmark, set())
        variants_of_b = b.variants.get(benchmark, set())
        if not variants_of_b:
            yield f"{benchmark}: only A measured it."
        elif not variants_of_a:
            yield f"{benchmark}: only B measured it."
        elif variants_of_a != variants_of_b and variants_of_a & variants_of_b:
            names_of_a = " and ".join(sorted(variants_of_a))
            names_of_b = " and ".join(sorted(variants_of_b))
            yield (
                f"{benchmark}: A was measured with {names_of_a}, B with {names_of_b}."
                " Only common variants are compared."
            )


def _warn_about_load(a: ComparisonSide, b: ComparisonSide) -> Iterator[str]:
    """Warn if other work kept the CPUs of one side clearly busier before its runs."""
    load_of_a = _compute_median_load(a)
    load_of_b = _compute_median_load(b)
    if abs(load_of_b - load_of_a) > BUSIER:
        yield (
            f"The load differs: {load_of_a:.1f} runnable threads per CPU before the"
            f" runs of A, {load_of_b:.1f} before those of B."
        )


def _compute_median_load(side: ComparisonSide) -> float:
    """Return the median number of runnable threads per CPU before the side's runs."""
    runs = side.runs
    threads = runs["load_1m_before"].to_numpy(dtype=np.float64)
    cpus = runs["cpus_measured"].to_numpy(dtype=np.float64)
    threads_per_cpu = threads / cpus
    median = compute_nanmedian(threads_per_cpu, axis=0)
    return float(median)


def list_caveats(
    a: ComparisonSide,
    b: ComparisonSide,
    pairs_a: PairSummary,
    pairs_b: PairSummary,
    *,
    unit: str,
    same_topology: bool,
) -> list[str]:
    """List what weakens a comparison, the most serious first.

    a, b: its sides. pairs_a, pairs_b: which pairs and variants each side has. unit:
    what counts as one observation, "run" or "host". same_topology: whether the CPUs of
    both sides have equal places.
    """
    # CPUs of the same runs are of one host, and the sides have no order in time
    if a.stored_run_ids & b.stored_run_ids:
        of_order = ["The sides are CPUs of the same runs: pairs are not compared."]
    else:
        of_order = [
            *_warn_about_regular_order(a, b),
            *_warn_about_few_turns(a, b),
            *_warn_about_hosts(a, b, unit, same_topology=same_topology),
        ]
    return [
        *_warn_about_too_few(pairs_a, pairs_b, unit),
        *of_order,
        *_warn_about_sampling(a, b),
        *_warn_about_variants(pairs_a, pairs_b),
        *_warn_about_load(a, b),
        *_warn_about_partial_runs("A", a),
        *_warn_about_partial_runs("B", b),
        *_warn_about_flags(pairs_a, pairs_b),
    ]


def _warn_about_too_few(a: PairSummary, b: PairSummary, unit: str) -> Iterator[str]:
    """Warn if a side has too few units for a verdict. unit: "run" or "host"."""
    missing = []
    for letter, pairs in (("A", a), ("B", b)):
        count = MIN_RUNS - pairs.units
        if count > 0:
            missing.append(f"{count} more of {letter}")
    if missing:
        yield (
            f"No verdict: a verdict needs {MIN_RUNS} {unit}s a side; measure"
            f" {' and '.join(missing)}. Any two {unit}s differ, even if nothing"
            " changed."
        )


def _list_values(name: str, a: ComparisonSide, b: ComparisonSide) -> list[str]:
    """List a fact of each run, those of A before those of B, as text; empty where
    unknown.
    """
    return [*a.list_texts(name), *b.list_texts(name)]


def _warn_about_partial_runs(letter: str, side: ComparisonSide) -> Iterator[str]:
    """Warn of runs of a side that lack some of their pairs. letter: A or B."""
    is_partial = side.runs["state"] == "partial"
    partial_runs = side.runs[is_partial]
    count = len(partial_runs)
    if not count:
        return
    failed = int(partial_runs["failed_bursts"].sum())
    lost = "not all pairs were measured"
    if failed:
        lost = f"{format_count(failed, 'burst')} failed"
    yield f"Partial: {format_count(count, 'run')} of {letter}; {lost}."


def _warn_about_flags(a: PairSummary, b: PairSummary) -> Iterator[str]:
    """Warn of each flag that more than a fifth of a side's pairs have: "drift: ... (25%
    of A)".
    """
    for flag in _FLAGS_TO_WARN_OF:
        many = []
        for letter, pairs in (("A", a), ("B", b)):
            share = pairs.compute_flagged_share(flag)
            if share > MANY_FLAGGED:
                many.append(f"{format_share(share)} of {letter}")
        if many:
            yield f"{flag}: {MEANINGS[flag]} ({', '.join(many)})."
