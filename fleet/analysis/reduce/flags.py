"""Name the flags (docs/flags.md), explain them, and find those of pairs, which no
single burst shows.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import (
    RUN_AND_CHOICE,
    Bools,
    Floats,
    Ints,
    get_floats,
    get_ints,
    group_medians,
    number_groups,
)
from fleet.analysis.reduce.load import is_at_usual_point
from fleet.model import SHIPPED, Descriptions

MANY_OUTLIERS = 0.05
HALF = 0.5  # a main level with fewer of the bursts may be another one in the end
FAR_NEARER = 0.5  # of its relation's median
SMALLEST_CLASS = 4  # pairs; fewer do not establish the usual latency
SIBLING_NEARER = 1.3  # times nearer than any other CPU, at least, are siblings
_LOAD = (
    *RUN_AND_CHOICE,
    "relation",
    "ping_cpu",
    "operation",
    "bytes",
    "threads",
    "memory_node",
    "load_node",
)
UNDERFED = 0.05
PAIR_FLAGS = (
    "multimodal",
    "drift",
    "not_converged",
    "smt_pair",
    "outliers",
    "underfed",
)
# The most serious first: flags that change what a pair's number means, then those that
# make it less certain.
MEANINGS: Mapping[str, str] = {
    "multimodal": (
        "pairs have over a tenth of their bursts at another level than their number"
    ),
    "smt_pair": "pairs have times that contradict the SMT siblings the OS reports",
    "drift": "pairs became faster or slower during the run",
    "coarse_clock": "bursts have samples too short for the resolution of the clock",
    "frequency_moved": (
        "bursts have a core frequency that changed by more than 3% meanwhile"
    ),
    "skewed": "bursts have threads that began further apart than a tenth of a sample",
    "uneven": "bursts have a load whose rate differs by more than 10% between samples",
    "underfed": (
        f"loads are over {UNDERFED:.0%} below the rate asked for, and that at full if"
        " measured"
    ),
    "outliers": (
        f"pairs have more than {MANY_OUTLIERS:.0%} of their samples above twice the"
        " median"
    ),
    "not_converged": "pairs did not reach the requested precision",
    "preempted": "bursts were interrupted by other threads on their CPUs",
    "busy_cpu": "bursts got less than 90% of their CPUs",
}
# Medians tolerate a few such bursts.
MINOR_IF_FEW = ("preempted", "busy_cpu", "frequency_moved", "skewed", "uneven")


def count_flags(flags: "pd.Series[Any]") -> dict[str, int]:
    """Count the rows with each flag, the most frequent flag first. flags: the flags of
    each row, separated by commas: "busy_cpu,drift"; "" for none.
    """
    row_counts: Counter[str] = Counter()
    # most rows have one of few texts, so that each text is split once
    rows_by_text = Counter(flags.tolist())
    for text, rows in rows_by_text.most_common():
        if text:
            flags_of_text = dict.fromkeys(text.split(","), rows)
            row_counts.update(flags_of_text)
    return dict(row_counts.most_common())


def add_pair_flags(
    pairs: pd.DataFrame,
    precision: Floats | float | None = None,
    descriptions: Descriptions = SHIPPED,
) -> pd.DataFrame:
    """Add the flags of pairs, PAIR_FLAGS, to the column `flags`, which has the flags of
    bursts: "busy_cpu" becomes "busy_cpu,drift".

    pairs: from `pair_medians`. precision: half the 95 % interval that was requested, as
    a share, for each pair or for all pairs; NaN or None if no precision was requested.
    """
    is_flagged = {
        "multimodal": pairs["other_ns"].notna().to_numpy(),
        "drift": pairs["drift"].notna().to_numpy(),
        "not_converged": _is_not_converged(pairs, precision),
        "smt_pair": _has_doubtful_smt_relation(pairs, descriptions),
        "outliers": (pairs["outliers"] > MANY_OUTLIERS).to_numpy(),
        "underfed": _is_below_requested_rate(pairs),
    }
    texts = pairs["flags"].tolist()
    has_any_flag = np.any(list(is_flagged.values()), axis=0)
    for row in np.flatnonzero(has_any_flag).tolist():
        flags = [flag for flag in PAIR_FLAGS if is_flagged[flag][row]]
        texts[row] = _add_flags(texts[row], flags)
    return pairs.assign(flags=texts)


def _add_flags(text: str, flags: list[str]) -> str:
    """Add flags to a text of flags, in alphabetical order, each once."""
    distinct = set(flags)
    if text:
        distinct.update(text.split(","))
    return ",".join(sorted(distinct))


def _is_not_converged(pairs: pd.DataFrame, precision: Floats | float | None) -> Bools:
    """Report which pairs did not reach the precision requested, or have more than half
    of their bursts at another level than their number. No pair is reported for which no
    precision was requested, which is NaN or None.
    """
    requested = np.asarray(precision, dtype=float)
    is_requested = ~np.isnan(requested)
    # an unknown spread is NaN, which is not within any precision
    is_precise = get_floats(pairs, "spread") <= requested
    is_mostly_at_level = get_floats(pairs, "other_share") <= HALF
    has_converged = is_precise & is_mostly_at_level
    marks: Bools = is_requested & ~has_converged
    return marks


def _is_below_requested_rate(pairs: pd.DataFrame) -> Bools:
    """Report which rows have a load whose rate is too low: over UNDERFED, as a share,
    below the rate that the load could reach. A load is the traffic that other threads
    make beside the measured one.
    """
    marks = np.zeros(len(pairs), dtype=bool)
    if "other_rate" not in pairs:
        return marks
    has_load = pairs["other_rate"].notna().to_numpy()
    loads = pairs[has_load]
    reachable_rate = _find_reachable_rates(loads)
    marks[has_load] = get_floats(loads, "other_rate") < (1 - UNDERFED) * reachable_rate
    return marks


def _find_reachable_rates(loads: pd.DataFrame) -> Floats:
    """Return the rate in GB/s that each row's load could reach: the lower of the rate
    that was requested, and the rate that such a load reaches without limit. If one of
    the two is not known, the other one counts. loads: rows of `pairs` with a load.
    """
    rate = get_floats(loads, "other_rate")  # of all loading threads together
    mbps_each = get_floats(loads, "load_mbps")  # requested; NaN: no limit
    loading_threads = get_floats(loads, "threads") - 1
    requested_rate = mbps_each / 1000 * loading_threads

    # for each kind of load, the rate that it reaches without limit; NaN: not measured
    has_no_limit = np.isnan(mbps_each)
    unlimited_rate = np.where(has_no_limit, rate, np.nan)
    kind_of_load = number_groups(loads, _LOAD)
    full_rate = group_medians(unlimited_rate, kind_of_load)
    # fmin ignores NaN: of a rate that is not known, only the other one counts
    reachable: Floats = np.fmin(requested_rate, full_rate[kind_of_load])
    return reachable


def _has_doubtful_smt_relation(
    pairs: pd.DataFrame, descriptions: Descriptions
) -> Bools:
    """Report which pairs may have another SMT relation than the OS reports: SMT
    siblings that are not clearly nearest to each other, and other pairs that are far
    nearer than usual for their relation. Rows that `is_at_usual_point` does not report
    are not marked.
    """
    is_usual = is_at_usual_point(pairs, descriptions)
    usual_pairs = pairs[is_usual]
    choices = number_groups(usual_pairs, RUN_AND_CHOICE)
    # how many times farther than its sibling the next CPU is; NaN if not siblings
    nearness = compute_sibling_nearness(usual_pairs, choices)
    is_doubtful_sibling = nearness < SIBLING_NEARER
    marks = np.zeros(len(pairs), dtype=bool)
    marks[is_usual] = is_doubtful_sibling | _is_far_nearer(usual_pairs)
    return marks


def _is_far_nearer(pairs: pd.DataFrame) -> Bools:
    """Report which pairs of different cores take less than FAR_NEARER times the usual
    time of their relation: the median of all its pairs in the run, benchmark and
    variant, if these are SMALLEST_CLASS at least.
    """
    ns = get_floats(pairs, "median_ns")
    relation = number_groups(pairs, [*RUN_AND_CHOICE, "relation"])
    usual_ns = group_medians(ns, relation)
    pair_counts = np.bincount(relation)
    is_near = ns < FAR_NEARER * usual_ns[relation]
    has_usual = pair_counts[relation] >= SMALLEST_CLASS
    marks: Bools = is_near & has_usual & ~_is_sibling_or_single(pairs)
    return marks


def compute_sibling_nearness(pairs: pd.DataFrame, choice_numbers: Ints) -> Floats:
    """Compute how much nearer two SMT siblings are to each other than to other CPUs:
    the least time from one of them to another CPU, divided by the time between the
    siblings. 20 ns to another CPU, 5 ns between the siblings -> 4.

    pairs: a row for each pair. choice_numbers: the number of each row's choice, which
    is its run, benchmark and variant, from 0. Return a value for each row: NaN for
    pairs that are not siblings, and for siblings without another partner.
    """
    nearest_ns = _find_nearest_others(pairs, choice_numbers)
    has_other_partner = np.isfinite(nearest_ns)
    is_sibling = pairs["relation"].to_numpy(dtype=object) == "smt"
    multiples = nearest_ns / get_floats(pairs, "median_ns")
    return np.where(is_sibling & has_other_partner, multiples, np.nan)


def _find_nearest_others(pairs: pd.DataFrame, choice_numbers: Ints) -> Floats:
    """Return for each pair the least time in ns from one of its CPUs to a CPU of
    another core; infinite if no such pair was measured. choice_numbers: as in
    `compute_sibling_nearness`; only pairs of the same choice are looked at.
    """
    ping, pong = _number_cpus_of_choices(pairs, choice_numbers)
    highest = max(ping.max(initial=0), pong.max(initial=0))
    nearest_ns = np.full(highest + 1, np.inf)  # by the number of a CPU
    is_other = ~_is_sibling_or_single(pairs)
    ns = get_floats(pairs, "median_ns")
    # `at` takes every row, where an index that repeats would keep the last row only
    np.fmin.at(nearest_ns, ping[is_other], ns[is_other])
    np.fmin.at(nearest_ns, pong[is_other], ns[is_other])
    nearest: Floats = np.minimum(nearest_ns[ping], nearest_ns[pong])
    return nearest


def _number_cpus_of_choices(
    pairs: pd.DataFrame, choice_numbers: Ints
) -> tuple[Ints, Ints]:
    """Return for the ping and for the pong of each pair a number that only this CPU of
    this choice has: all CPUs of choice 0 come first.
    """
    ping = get_ints(pairs, "ping_cpu")
    pong = get_ints(pairs, "pong_cpu")
    # as many for each choice as the highest CPU of all needs
    numbers_per_choice = max(ping.max(initial=0), pong.max(initial=0)) + 1
    first_of_choice = choice_numbers * numbers_per_choice
    return first_of_choice + ping, first_of_choice + pong


def _is_sibling_or_single(rows: pd.DataFrame) -> Bools:
    """Report which rows are of two SMT siblings, which share a core, or of a single
    CPU.
    """
    is_of_one_core = []
    for relation in rows["relation"].tolist():
        place, _, _ = relation.partition(" ")
        is_of_one_core.append(place in ("smt", "self"))
    return np.array(is_of_one_core, dtype=bool)
