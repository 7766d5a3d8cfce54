"""Two sides set against each other, as frames of a few numbers that can be reckoned
again by hand.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from fleet.analysis.compare import moderate_variances
from tests.two_sides import compare_pairs, compare_relations

Unit = dict[tuple[str, int, int], float]  # relation, ping, pong -> ns


COLUMNS = [
    "relation",
    "ping_cpu",
    "pong_cpu",
    "unit",
    "median_ns",
    "min_ns",
    "spread",
]


def side(
    *units: Unit, benchmark: str = "cas", variant: str = "cmpxchg", spread: float = 0.01
) -> pd.DataFrame:
    """Rows per unit and pair, the units named u0, u1, ..."""
    rows = []
    for number, unit in enumerate(units):
        for (relation, ping, pong), ns in unit.items():
            own_spread = spread * (1 + number)
            rows.append((relation, ping, pong, f"u{number}", ns, ns / 2, own_spread))
    table = pd.DataFrame(rows, columns=COLUMNS)
    return table.assign(benchmark=benchmark, variant=variant)


# of a relation's pairs, to the number of its unit
PAIR_FACTORS = np.array([0.9, 1.0, 1.2])


def levels(relation: str, *values: float) -> Sequence[Unit]:
    """A unit per value; in each three pairs, the middle of which has the value."""
    return [
        {
            (relation, 0, 1): value * 0.9,
            (relation, 0, 2): value,
            (relation, 1, 2): value * 1.2,
        }
        for value in values
    ]


def join(*groups: Sequence[Unit]) -> list[Unit]:
    """Give each unit the pairs that it has in any group."""
    joined = []
    for units in zip(*groups, strict=True):
        pairs = {}
        for unit in units:
            pairs.update(unit)
        joined.append(pairs)
    return joined


# ns of the units of each side: near does not change, far does
A_SMT = (10.0, 10.2, 10.1)


B_SMT = (10.1, 10.0, 10.15)


A_FAR = (50.0, 51.0, 50.5)


B_FAR = (60.0, 61.0, 62.0)


A_NEAR_AND_FAR = join(levels("smt", *A_SMT), levels("system", *A_FAR))


B_NEAR_AND_FAR = join(levels("smt", *B_SMT), levels("system", *B_FAR))


def near_and_some_far(smt: Sequence[float], far: Sequence[float]) -> pd.DataFrame:
    """Return a side in which a unit may lack its far pairs."""
    near_rows = side(*levels("smt", *smt))
    far_rows = side(*levels("system", *far))
    return pd.concat([near_rows, far_rows])


def test_a_units_number_of_a_relation_is_the_median_of_its_pairs() -> None:
    a = side(*levels("smt", *A_SMT))
    b = side(*levels("smt", *B_SMT), spread=0.02)
    (row,) = compare_relations(a, b, 0.03).to_dict("records")
    assert row["relation"] == "smt"
    assert row["pairs"] == 3
    assert row["a_units"] == 3
    assert row["b_units"] == 3
    assert row["a_ns"] == pytest.approx(stats.gmean(A_SMT))
    assert row["b_ns"] == pytest.approx(stats.gmean(B_SMT))
    expected = stats.ttest_ind(np.log(B_SMT), np.log(A_SMT))
    low, high = np.exp(expected.confidence_interval(0.95))
    assert row["p"] == pytest.approx(expected.pvalue)
    assert row["freedom"] == 4
    assert row["low"] == pytest.approx(low)
    assert row["high"] == pytest.approx(high)
    assert row["q"] == pytest.approx(row["p"]), "one relation is no choice among many"
    assert row["a_within"] == 0.02
    assert row["b_within"] == 0.04
    assert row["verdict"] == "equivalent"


def test_another_number_can_be_compared() -> None:
    a = side(*levels("smt", *A_SMT))
    b = side(*levels("smt", *B_SMT))
    expected = stats.gmean(A_SMT) / 2
    (row,) = compare_relations(a, b, 0.03, number="min_ns").to_dict("records")
    assert row["a_ns"] == pytest.approx(expected)
    pairs = compare_pairs(a, b, 0.03, number="min_ns")
    assert pairs["a_ns"][1] == pytest.approx(expected)


def test_relations_of_both_sides_come_nearest_first_and_benchmarks_in_the_order_of_a() -> (
    None
):
    a = join(levels("system", *A_FAR), levels("smt", *A_SMT))
    b = join(levels("system", *B_FAR), levels("smt", *B_SMT))
    a_with_core = join(a, levels("core", *A_SMT))
    b_with_llc = join(levels("llc", *B_SMT), b)
    table = compare_relations(
        pd.concat([side(*a, benchmark="readwrite"), side(*a_with_core)]),
        pd.concat([side(*b_with_llc), side(*b, benchmark="readwrite")]),
        0.03,
    )
    rows = table[["benchmark", "relation", "verdict"]]
    assert rows.to_numpy().tolist() == [
        ["readwrite", "smt", "equivalent"],
        ["readwrite", "system", "changed"],
        ["cas", "smt", "equivalent"],
        ["cas", "system", "changed"],
    ]
    np.testing.assert_allclose(table["q"], stats.false_discovery_control(table["p"]))


def test_a_relation_with_too_few_runs_has_no_q_and_does_not_count_among_the_others() -> (
    None
):
    a = near_and_some_far(A_SMT, A_FAR[:1])
    b = near_and_some_far(B_SMT, B_FAR)
    near, far = compare_relations(a, b, 0.03).to_dict("records")
    assert near["q"] == pytest.approx(near["p"])
    assert far["a_units"] == 1
    assert far["b_units"] == 3
    assert far["verdict"] == "no verdict"
    assert np.isnan(far["q"])


def test_a_relation_that_lacks_one_run_of_three_has_a_verdict() -> None:
    a = near_and_some_far(A_SMT, A_FAR[:2])
    b = near_and_some_far(B_SMT, B_FAR)
    far = compare_relations(a, b, 0.03).iloc[1]
    assert far["a_units"] == 2
    assert far["b_units"] == 3
    assert far["verdict"] == "changed"


def test_nothing_in_common_is_an_empty_table_with_all_columns() -> None:
    a = side(*levels("smt", *A_SMT))
    b = side(*levels("llc", *B_SMT))
    table = compare_relations(a, b, 0.03)
    assert table.empty
    assert {"ratio", "p", "q", "verdict", "why", "a_within"} <= set(table.columns)


def test_pairs_are_compared_relation_by_relation() -> None:
    table = compare_pairs(side(*A_NEAR_AND_FAR), side(*B_NEAR_AND_FAR), 0.03)
    is_far = [False] * 3 + [True] * 3
    assert list(table["relation"]) == ["smt"] * 3 + ["system"] * 3
    assert (table["verdict"] == "changed").tolist() == is_far
    assert (table["chance"] > 0).tolist() == is_far, "the far ones are levels apart"
    p = compute_p_of_pairs(table["ratio"])
    np.testing.assert_allclose(table["p"], np.maximum(p, table["chance"]))
    np.testing.assert_allclose(table["q"], stats.false_discovery_control(table["p"]))
    near = table[:3]
    far = table[3:]
    for rows, a_ns, b_ns in ((near, A_SMT, B_SMT), (far, A_FAR, B_FAR)):
        a_mean = stats.gmean(a_ns)
        b_mean = stats.gmean(b_ns)
        np.testing.assert_allclose(rows["ratio"], b_mean / a_mean)
        np.testing.assert_allclose(rows["a_ns"], a_mean * PAIR_FACTORS)
        np.testing.assert_allclose(rows["b_ns"], b_mean * PAIR_FACTORS)


def log_near_and_far(smt: Sequence[float], far: Sequence[float]) -> np.ndarray:  # type: ignore[type-arg]
    """Return the log latencies of one side. Axes: pair, unit."""
    near_ns = np.outer(PAIR_FACTORS, smt)
    far_ns = np.outer(PAIR_FACTORS, far)
    return np.log(np.concatenate([near_ns, far_ns]))


def compute_p_of_pairs(ratios: "pd.Series[float]") -> np.ndarray:  # type: ignore[type-arg]
    """Reckon again the p of each pair of near and far: by a moderated t of three runs
    against three.
    """
    a = log_near_and_far(A_SMT, A_FAR)
    b = log_near_and_far(B_SMT, B_FAR)
    own_variance = (a.var(axis=1, ddof=1) + b.var(axis=1, ddof=1)) / 2
    variance, freedom = moderate_variances(own_variance, np.full(6, 4.0))
    t = np.log(ratios) / np.sqrt(variance * 2 / 3)
    return 2 * stats.t.sf(np.abs(t), freedom)


def test_a_pair_changed_only_if_significant_and_beyond_the_threshold() -> None:
    ratios = {1: 1.0, 2: 1.04, 3: 1.02, 4: 1 / 1.04}
    a = []
    b = []
    for noise in (1.0, 1.001, 0.999):
        a.append({("smt", 0, cpu): 10 * noise for cpu in ratios})
        b.append({("smt", 0, cpu): 10 * noise * ratio for cpu, ratio in ratios.items()})
    table = compare_pairs(side(*a), side(*b), 0.03)
    assert table["pong_cpu"][table["verdict"] == "changed"].tolist() == [2, 4]
    assert (table["q"][1:] < 0.05).all()

    wide = [{("smt", 0, 1): value} for value in (8.0, 10.0, 12.5)]
    others = [{("smt", 0, 1): value} for value in (9.0, 10.5, 13.5)]
    table = compare_pairs(side(*wide), side(*others), 0.03)
    assert table["verdict"].tolist() == ["cannot tell"]


def test_a_pair_that_a_run_lacks_is_left_out() -> None:
    units = [dict(unit) for unit in levels("smt", *A_SMT)]
    del units[1]["smt", 0, 2]
    lacking = side(*units)
    full = side(*levels("smt", *B_SMT))
    table = compare_pairs(lacking, full, 0.03)
    assert table[["ping_cpu", "pong_cpu"]].to_numpy().tolist() == [[0, 1], [1, 2]]
    assert compare_pairs(full, lacking, 0.03).shape == table.shape


@pytest.mark.parametrize(("a", "b"), [(2, 3), (3, 2)])
def test_pairs_of_fewer_than_three_runs_are_not_compared(a: int, b: int) -> None:
    sides = [side(*levels("smt", *A_FAR[:count])) for count in (a, b)]
    table = compare_pairs(*sides, 0.03)
    assert table.empty
    assert "verdict" in table


def test_the_pairs_of_a_relation_are_those_of_a() -> None:
    units = [dict(unit) for unit in levels("smt", *A_SMT)]
    for unit in units:
        del unit["smt", 1, 2]
    a = side(*units)
    b = side(*levels("smt", *B_SMT))
    assert compare_relations(a, b, 0.03)["pairs"].tolist() == [2]
    assert compare_relations(b, a, 0.03)["pairs"].tolist() == [3]


def test_the_table_of_relations_has_its_columns_and_a_plain_index() -> None:
    a = side(*join(levels("system", *A_FAR), levels("smt", *A_SMT)))
    b = side(*join(levels("system", *B_FAR), levels("smt", *B_SMT)))
    table = compare_relations(a, b, 0.03)
    columns = (
        "benchmark variant relation pairs a_within b_within a_units b_units a_ns b_ns"
        " a_compared b_compared levels shares whole shared error"
        " freedom borrowed chance more ratio low high p q smallest verdict why"
    )
    assert list(table.columns) == columns.split()
    assert table.index.tolist() == [0, 1]
