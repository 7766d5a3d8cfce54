"""Compute the 95 % intervals of relations from the medians of their pairs by round.

A round measures all pairs of a relation, so that its median is one value of the
relation's number; three rounds are three values (docs/measuring.md).
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import (
    Bools,
    Floats,
    Ints,
    get_floats,
    group_medians,
    number_groups,
)
from fleet.analysis.reduce.burst_levels import estimate_half_widths
from fleet.analysis.reduce.flat_rows import group_rows_by_length

_RELATION_KEYS = ["run_id", "benchmark", "variant", "point", "relation"]


@dataclass(frozen=True, slots=True)
class BurstMedians:
    """The bursts of a table of pairs. For each burst: its median in ns, the row of its
    pair in the table, its round, and whether it is at the pair's main level.
    """

    ns: Floats
    pair_row: Ints
    round: Ints
    is_main: Bools

    def shift_rows(self, by: int) -> Self:
        """Return the same bursts for pairs that stand `by` rows further down."""
        return type(self)(self.ns, self.pair_row + by, self.round, self.is_main)


def join_burst_medians(parts: list[BurstMedians]) -> BurstMedians:
    """Join the bursts of several tables of pairs. parts: the bursts of each table,
    whose `pair_row` is already the row in the joined table, by `shift_rows`.
    """
    return BurstMedians(
        ns=np.concatenate([part.ns for part in parts]),
        pair_row=np.concatenate([part.pair_row for part in parts]),
        round=np.concatenate([part.round for part in parts]),
        is_main=np.concatenate([part.is_main for part in parts]),
    )


def add_relation_spreads(pairs: pd.DataFrame, bursts: BurstMedians) -> pd.DataFrame:
    """Add `relation_spread`: half the 95 % interval of the number of the pair's
    relation, which is the median of the relation's pairs at one point, as a share. It
    is NaN if the run has a single round. A relation of one pair has the interval of the
    pair.

    pairs: rows of `pair_medians` with their final `relation`. bursts: of these pairs.
    """
    relation_of_pair = number_groups(pairs, _RELATION_KEYS)
    relation_of_burst = relation_of_pair[bursts.pair_row]
    ns_of_pair = get_floats(pairs, "median_ns")
    ns_of_relation = group_medians(ns_of_pair, relation_of_pair)
    spreads = _estimate_spreads(ns_of_relation, bursts, relation_of_burst)
    spread_of_pair = spreads[relation_of_pair]

    pair_counts = np.bincount(relation_of_pair)
    is_alone = pair_counts[relation_of_pair] == 1
    own_spread = get_floats(pairs, "spread")
    relation_spread = np.where(is_alone, own_spread, spread_of_pair)
    return pairs.assign(relation_spread=relation_spread)


def _estimate_spreads(
    ns: Floats, bursts: BurstMedians, relation_of_burst: Ints
) -> Floats:
    """Estimate half the 95 % interval of each relation, as a share of its number.

    A round visits all pairs, so that the median of its bursts at their main level,
    where most bursts are, is a value of the relation's number. The interval is computed
    from these values. It is extended by how far the median over rounds of all bursts is
    from the relation's number, since few rounds show the main level of a pair only
    roughly.

    ns: the number of each relation. relation_of_burst: the number of each burst's
    relation, from 0.
    """
    half_ns = _estimate_halves_of_rounds(bursts, relation_of_burst)
    ns_of_rounds = _compute_medians_of_rounds(bursts, relation_of_burst)
    distance_ns = np.abs(ns_of_rounds - ns)
    spreads = np.full(len(ns), np.nan)
    np.divide(half_ns + distance_ns, ns, out=spreads, where=ns > 0)
    return spreads


def _estimate_halves_of_rounds(bursts: BurstMedians, relation_of_burst: Ints) -> Floats:
    """Estimate half the 95 % interval of each relation, in ns; NaN from a single round.
    It is that of the mean of the relation's medians by round, of bursts at the main
    level. relation_of_burst: the number of each burst's relation, from 0.
    """
    is_main = bursts.is_main
    medians, round_counts = _compute_medians_by_round(
        bursts.ns[is_main], relation_of_burst[is_main], bursts.round[is_main]
    )
    half = np.full(len(round_counts), np.nan)
    # relations with equally many rounds form a matrix, relations x rounds
    for relations, rows in group_rows_by_length(medians, round_counts):
        half[relations] = estimate_half_widths(rows)
    return half


def _compute_medians_of_rounds(bursts: BurstMedians, relation_of_burst: Ints) -> Floats:
    """Compute for each relation the median over its rounds of the median of all bursts
    of a round. relation_of_burst: the number of each burst's relation, from 0.
    """
    medians, round_counts = _compute_medians_by_round(
        bursts.ns, relation_of_burst, bursts.round
    )
    relations = np.arange(len(round_counts))
    relation_of_round = np.repeat(relations, round_counts)
    return group_medians(medians, relation_of_round)


def _compute_medians_by_round(
    ns: Floats, relation_of_burst: Ints, round_of_burst: Ints
) -> tuple[Floats, Ints]:
    """Return the medians of the bursts of each relation and round, and how many rounds
    each relation has. The medians stand end to end: all rounds of relation 0 in order
    of time, then those of relation 1, and so on.

    ns: of each burst. relation_of_burst: from 0 without gaps.
    """
    # relation and round as the two digits of one number: sorted, all rounds of relation
    # 0 come first
    most_rounds = round_of_burst.max(initial=0) + 1
    number = relation_of_burst * most_rounds + round_of_burst
    distinct, place_in_distinct = np.unique(number, return_inverse=True)
    relation_of_distinct = distinct // most_rounds
    medians = group_medians(ns, place_in_distinct)
    return medians, np.bincount(relation_of_distinct)
