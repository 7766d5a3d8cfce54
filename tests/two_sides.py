"""Compare two sides that are frames of a few numbers, as `compare` does those of runs."""

import pandas as pd

from fleet.analysis.base import PAIR_KEY
from fleet.analysis.compare import (
    NO_ORDER,
    SideRuns,
    judge_comparisons,
    lay_out_pairs,
    lay_out_relations,
    list_burst_levels,
    number_keys,
    reduce_to_relations,
)


def compare_relations(
    a: pd.DataFrame, b: pd.DataFrame, threshold: float, *, number: str = "median_ns"
) -> pd.DataFrame:
    """Judge the relations of two sides."""
    relations = lay_out_two_relations(a, b, number)
    (table,), _ = judge_comparisons([relations], threshold)
    return table


def compare_relations_of_each(
    a: pd.DataFrame, b: pd.DataFrame, threshold: float
) -> list[pd.DataFrame]:
    """Judge the relations of many comparisons, each by itself. a, b: with the number of
    the comparison, from 0, in column `comparison`.
    """
    pairs = _join_sides(a, b, "median_ns")
    in_order = pairs.sort_values("comparison", kind="stable")
    orders = [NO_ORDER] * (1 + int(pairs["comparison"].max()))
    relations = lay_out_relations(reduce_to_relations(in_order), orders)
    return [judge_comparisons([one], threshold)[0][0] for one in relations]


def compare_pairs(
    a: pd.DataFrame, b: pd.DataFrame, threshold: float, *, number: str = "median_ns"
) -> pd.DataFrame:
    """Judge each pair that every run has and that can be tested."""
    pairs = lay_out_two_pairs(a, b, number)
    (table,), _ = judge_comparisons([pairs], threshold, are_pairs=True)
    return table


def compare_burst_levels(a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    """List the pairs of two sides with bursts at another level."""
    pairs = _join_sides(a, b, "median_ns")
    return list_burst_levels(pairs).get(0, pd.DataFrame())


def lay_out_two_relations(a: pd.DataFrame, b: pd.DataFrame, number: str) -> SideRuns:
    """Lay out the relations of two sides. a, b: rows per pair and `unit`, with ns in
    column `number`.
    """
    rows = reduce_to_relations(_join_sides(a, b, number))
    (relations,) = lay_out_relations(rows, [NO_ORDER])
    return relations


def lay_out_two_pairs(a: pd.DataFrame, b: pd.DataFrame, number: str) -> SideRuns:
    """Lay out the pairs of two sides of one topology."""
    (pairs,) = lay_out_pairs(_join_sides(a, b, number), [NO_ORDER])
    return pairs


def _join_sides(a: pd.DataFrame, b: pd.DataFrame, number: str) -> pd.DataFrame:
    pairs = pd.concat([a.assign(is_b=False), b.assign(is_b=True)], ignore_index=True)
    if "comparison" not in pairs:
        pairs["comparison"] = 0
    pairs["ns"] = pairs[number]
    pairs["key"] = number_keys(pairs, PAIR_KEY)
    return pairs
