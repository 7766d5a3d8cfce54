"""Compute the 95 % intervals of relations from the medians of their pairs by round.

A round measures all pairs of a relation, so that its median is one value of the
relation's number; three rounds are three values (docs/measuring.md).
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import Bools, Floats, Ints, group_medians, number_groups
from fleet.analysis.reduce.burst_levels import estimate_half_widths
from fleet.analysis.reduce.bursts import group_rows_by_length

_NUMBER = ["run_id", "benchmark", "variant", "point", "relation"]


@dataclass(frozen=True, slots=True)
class BurstMedians:
    """The median of each burst in ns, the row of its pair, its round, and whether it is
    at the pair's main level.
    """

    ns: Floats
    pair: Ints
    round: Ints
    is_main: Bools

    def shift_rows(self, by: int) -> Self:
        """Return the same bursts for pairs that stand `by` rows further down."""
        return type(self)(self.ns, self.pair + by, self.round, self.is_main)


def join_burst_medians(parts: list[BurstMedians]) -> BurstMedians:
    """Join the bursts of several tables, whose rows of pairs are numbered through."""
    return BurstMedians(
        np.concatenate([part.ns for part in parts]),
        np.concatenate([part.pair for part in parts]),
        np.concatenate([part.round for part in parts]),
        np.concatenate([part.is_main for part in parts]),
    )


def add_relation_spreads(pairs: pd.DataFrame, bursts: BurstMedians) -> pd.DataFrame:
    """Add `relation_spread`: half the 95 % interval of the number of the pair's
    relation at its point, as a share; NaN from a single round.

    pairs: rows of `pair_medians` with their final `relation`. The interval is that of
    the rounds' medians, of bursts at the main level. It is extended by how far the
    median of all bursts is from the number: few rounds show the main level of a pair
    only roughly. A relation of one pair has the interval of the pair.
    """
    # one value a pair: `relation`, `pair_spread`, `is_alone`; the others one a relation
    relation = number_groups(pairs, _NUMBER)
    number = group_medians(pairs["median_ns"].to_numpy(np.float64), relation)
    relation_of_burst = relation[bursts.pair]
    half = _estimate_halves_of_rounds(bursts, relation_of_burst)
    distance = np.abs(_compute_medians_of_rounds(bursts, relation_of_burst) - number)
    spread = np.full(len(number), np.nan)
    np.divide(half + distance, number, out=spread, where=number > 0)

    pair_spread = pairs["spread"].to_numpy(np.float64)
    pair_counts = np.bincount(relation)
    is_alone = pair_counts[relation] == 1
    relation_spread = np.where(is_alone, pair_spread, spread[relation])
    return pairs.assign(relation_spread=relation_spread)


def _estimate_halves_of_rounds(bursts: BurstMedians, relation: Ints) -> Floats:
    """Estimate half the 95 % interval of each relation from its medians by round, of
    bursts at the main level; NaN from a single round. relation: of each burst.
    """
    is_main = bursts.is_main
    medians, round_counts = _compute_medians_by_round(
        bursts.ns[is_main], relation[is_main], bursts.round[is_main]
    )
    half = np.full(len(round_counts), np.nan)
    for which, rows in group_rows_by_length(medians, round_counts):
        half[which] = estimate_half_widths(rows)
    return half


def _compute_medians_of_rounds(bursts: BurstMedians, relation: Ints) -> Floats:
    """Compute the median of each relation's medians by round. relation: of each
    burst.
    """
    medians, round_counts = _compute_medians_by_round(bursts.ns, relation, bursts.round)
    relations = np.arange(len(round_counts))
    relation_of_round = np.repeat(relations, round_counts)
    return group_medians(medians, relation_of_round)


def _compute_medians_by_round(
    ns: Floats, relation: Ints, rounds: Ints
) -> tuple[Floats, Ints]:
    """Return the median of each relation and round, by relation and in order of time,
    and how many rounds each relation has. relation: from 0 without gaps.
    """
    # relation and round as the digits of one number
    most_rounds = rounds.max(initial=0) + 1
    number = relation * most_rounds + rounds
    distinct, place = np.unique(number, return_inverse=True)
    relation_of_distinct = distinct // most_rounds
    return group_medians(ns, place), np.bincount(relation_of_distinct)
