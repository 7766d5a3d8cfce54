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
        flags = {flag for flag in PAIR_FLAGS if is_flagged[flag][row]}
        if texts[row]:
            flags.update(texts[row].split(","))
        texts[row] = ",".join(sorted(flags))
    return pairs.assign(flags=texts)


def _is_not_converged(pairs: pd.DataFrame, precision: Floats | float | None) -> Bools:
    """Report which pairs did not reach the precision requested, or have more than half
    of their bursts at another level than their number. No pair is reported for which no
    precision was requested, which is NaN or None.
    """
    requested = np.asarray(precision, dtype=float)
    spread = pairs["spread"].to_numpy(dtype=float)
    other_share = pairs["other_share"].to_numpy(dtype=float)
    is_requested = ~np.isnan(requested)
    # an unknown spread is NaN, which is not within any precision
    has_converged = (spread <= requested) & (other_share <= HALF)
    marks: Bools = is_requested & ~has_converged
    return marks


def _is_below_requested_rate(pairs: pd.DataFrame) -> Bools:
    """Report which rows have a load whose rate is too low. A load is the traffic that
    other threads make beside the measured one.

    A rate is too low if it is over UNDERFED, as a share, below the reachable rate. This
    is the lower of two rates: the rate that was requested, and the rate that such a
    load reaches without limit. If one of the two is not known, the other one counts.
    """
    marks = np.zeros(len(pairs), dtype=bool)
    if "other_rate" not in pairs:
        return marks
    has_load = pairs["other_rate"].notna().to_numpy()
    loads = pairs[has_load]
    rate = loads["other_rate"].to_numpy(dtype=float)  # of all loading threads, in GB/s
    mbps_each = loads["load_mbps"].to_numpy(dtype=float)  # requested; NaN: no limit
    loading_threads = loads["threads"].to_numpy(dtype=float) - 1
    requested_rate = mbps_each / 1000 * loading_threads

    # for each kind of load, the rate that it reaches without limit; NaN: not measured
    unlimited_rate = np.where(np.isnan(mbps_each), rate, np.nan)
    kind_of_load = number_groups(loads, _LOAD)
    full_rate = group_medians(unlimited_rate, kind_of_load)
    # fmin ignores NaN: of a rate that is not known, only the other one counts
    reachable_rate = np.fmin(requested_rate, full_rate[kind_of_load])
    marks[has_load] = rate < (1 - UNDERFED) * reachable_rate
    return marks


def _has_doubtful_smt_relation(
    pairs: pd.DataFrame, descriptions: Descriptions
) -> Bools:
    """Report which pairs may have another SMT relation than the OS reports: SMT
    siblings that are not clearly nearest to each other, and other pairs that are far
    nearer than usual for their relation. Rows that `is_at_usual_point` does not report
    are not marked.
    """
    is_single = is_at_usual_point(pairs, descriptions)
    single = pairs[is_single]
    choices = number_groups(single, RUN_AND_CHOICE)
    # how many times farther than its sibling the next CPU is; NaN if not siblings
    nearness = compute_sibling_nearness(single, choices)
    is_doubtful_sibling = nearness < SIBLING_NEARER
    marks = np.zeros(len(pairs), dtype=bool)
    marks[is_single] = is_doubtful_sibling | _is_far_nearer(single)
    return marks


def _is_far_nearer(pairs: pd.DataFrame) -> Bools:
    """Report which pairs of different cores take less than FAR_NEARER times the usual
    time of their relation: the median of all its pairs in the run, benchmark and
    variant, if these are SMALLEST_CLASS at least.
    """
    ns = pairs["median_ns"].to_numpy(dtype=float)
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
    ns = pairs["median_ns"].to_numpy(dtype=float)
    ping_cpu = pairs["ping_cpu"].to_numpy(dtype=np.int64)
    pong_cpu = pairs["pong_cpu"].to_numpy(dtype=np.int64)
    # a place for each CPU of each choice, in one array of choices x CPUs
    cpus_a_choice = max(ping_cpu.max(initial=0), pong_cpu.max(initial=0)) + 1
    place_count = (choice_numbers.max(initial=0) + 1) * cpus_a_choice
    ping_place = choice_numbers * cpus_a_choice + ping_cpu
    pong_place = choice_numbers * cpus_a_choice + pong_cpu

    # the time from each CPU to its nearest one that is not its sibling
    is_other = ~_is_sibling_or_single(pairs)
    nearest_ns = np.full(place_count, np.inf)
    # `at` takes every row, where an index that repeats would keep the last row only
    np.fmin.at(nearest_ns, ping_place[is_other], ns[is_other])
    np.fmin.at(nearest_ns, pong_place[is_other], ns[is_other])
    nearest_to_pair = np.minimum(nearest_ns[ping_place], nearest_ns[pong_place])

    is_sibling = pairs["relation"].to_numpy(dtype=object) == "smt"
    has_other_partner = np.isfinite(nearest_to_pair)
    multiples = nearest_to_pair / ns
    return np.where(is_sibling & has_other_partner, multiples, np.nan)


def _is_sibling_or_single(rows: pd.DataFrame) -> Bools:
    """Report which rows are of two SMT siblings, which share a core, or of a single
    CPU.
    """
    is_of_one_core = []
    for relation in rows["relation"].tolist():
        place, _, _ = relation.partition(" ")
        is_of_one_core.append(place in ("smt", "self"))
    return np.array(is_of_one_core, dtype=bool)
