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


def side(
    *units: Unit, benchmark: str = "cas", variant: str = "cmpxchg", spread: float = 0.01
) -> pd.DataFrame:
    """Rows per unit and pair, the units named u0, u1, ..."""
    rows = [
        (relation, ping, pong, f"u{number}", ns, ns / 2, spread * (1 + number))
        for number, unit in enumerate(units)
        for (relation, ping, pong), ns in unit.items()
    ]
    columns = [
        "relation",
        "ping_cpu",
        "pong_cpu",
        "unit",
        "median_ns",
        "min_ns",
        "spread",
    ]
    return pd.DataFrame(rows, columns=columns).assign(
        benchmark=benchmark, variant=variant
    )


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
    return [
        {key: ns for unit in units for key, ns in unit.items()}
        for units in zip(*groups, strict=True)
    ]


A_SMT, B_SMT = (10.0, 10.2, 10.1), (10.1, 10.0, 10.15)
A_FAR, B_FAR = (50.0, 51.0, 50.5), (60.0, 61.0, 62.0)


def test_a_units_number_of_a_relation_is_the_median_of_its_pairs() -> None:
    a, b = side(*levels("smt", *A_SMT)), side(*levels("smt", *B_SMT), spread=0.02)
    (row,) = compare_relations(a, b, 0.03).to_dict("records")
    expected = stats.ttest_ind(np.log(B_SMT), np.log(A_SMT))
    low, high = np.exp(expected.confidence_interval(0.95))
    assert (row["relation"], row["pairs"], row["a_units"], row["b_units"]) == (
        "smt",
        3,
        3,
        3,
    )
    assert row["a_ns"] == pytest.approx(stats.gmean(A_SMT))
    assert row["b_ns"] == pytest.approx(stats.gmean(B_SMT))
    assert (row["p"], row["freedom"]) == (pytest.approx(expected.pvalue), 4)
    assert (row["low"], row["high"]) == (pytest.approx(low), pytest.approx(high))
    assert row["q"] == pytest.approx(row["p"]), "one relation is no choice among many"
    assert (row["a_within"], row["b_within"]) == (0.02, 0.04)
    assert row["verdict"] == "equivalent"


def test_another_number_can_be_compared() -> None:
    a, b = side(*levels("smt", *A_SMT)), side(*levels("smt", *B_SMT))
    (row,) = compare_relations(a, b, 0.03, number="min_ns").to_dict("records")
    assert row["a_ns"] == pytest.approx(stats.gmean(A_SMT) / 2)
    assert compare_pairs(a, b, 0.03, number="min_ns")["a_ns"][1] == pytest.approx(
        stats.gmean(A_SMT) / 2
    )


def test_relations_of_both_sides_come_nearest_first_and_benchmarks_in_the_order_of_a() -> (
    None
):
    a, b = (
        join(levels("system", *far), levels("smt", *smt))
        for far, smt in ((A_FAR, A_SMT), (B_FAR, B_SMT))
    )
    only_a, only_b = join(a, levels("core", *A_SMT)), join(levels("llc", *B_SMT), b)
    table = compare_relations(
        pd.concat([side(*a, benchmark="readwrite"), side(*only_a)]),
        pd.concat([side(*only_b), side(*b, benchmark="readwrite")]),
        0.03,
    )
    rows = list(
        zip(table["benchmark"], table["relation"], table["verdict"], strict=True)
    )
    verdicts = {"smt": "equivalent", "system": "changed"}
    assert rows == [
        (name, *pair) for name in ("readwrite", "cas") for pair in verdicts.items()
    ]
    np.testing.assert_allclose(table["q"], stats.false_discovery_control(table["p"]))


def test_a_relation_with_too_few_runs_has_no_q_and_does_not_count_among_the_others() -> (
    None
):
    a = pd.concat([side(*levels("smt", *A_SMT)), side(*levels("system", *A_FAR[:1]))])
    b = pd.concat([side(*levels("smt", *B_SMT)), side(*levels("system", *B_FAR))])
    near, far = compare_relations(a, b, 0.03).to_dict("records")
    assert near["q"] == pytest.approx(near["p"])
    assert (far["a_units"], far["b_units"], far["verdict"]) == (1, 3, "no verdict")
    assert np.isnan(far["q"])


def test_a_relation_that_lacks_one_run_of_three_has_a_verdict() -> None:
    a = pd.concat([side(*levels("smt", *A_SMT)), side(*levels("system", *A_FAR[:2]))])
    b = pd.concat([side(*levels("smt", *B_SMT)), side(*levels("system", *B_FAR))])
    far = compare_relations(a, b, 0.03).iloc[1]
    assert (far["a_units"], far["b_units"], far["verdict"]) == (2, 3, "changed")


def test_nothing_in_common_is_an_empty_table_with_all_columns() -> None:
    table = compare_relations(
        side(*levels("smt", *A_SMT)), side(*levels("llc", *B_SMT)), 0.03
    )
    assert table.empty
    assert {"ratio", "p", "q", "verdict", "why", "a_within"} <= set(table.columns)


def test_pairs_are_compared_relation_by_relation() -> None:
    groups = [
        join(levels("smt", *smt), levels("system", *far))
        for smt, far in ((A_SMT, A_FAR), (B_SMT, B_FAR))
    ]
    a, b = (side(*units) for units in groups)
    table = compare_pairs(a, b, 0.03)
    assert list(table["relation"]) == ["smt"] * 3 + ["system"] * 3
    assert (table["verdict"] == "changed").tolist() == [False] * 3 + [True] * 3
    factors, values = np.array([[0.9], [1.0], [1.2]]), ((A_SMT, B_SMT), (A_FAR, B_FAR))
    logs = np.log(
        np.concatenate([np.hstack([ns * factors for ns in sides]) for sides in values])
    )
    means = np.repeat(logs.reshape(6, 2, 3).mean(axis=2), 3, axis=1)
    variance, freedom = moderate_variances(
        ((logs - means) ** 2).sum(axis=1) / 4, np.full(6, 4.0)
    )
    t = np.log(table["ratio"]) / np.sqrt(variance * 2 / 3)
    np.testing.assert_allclose(
        table["p"], np.maximum(2 * stats.t.sf(np.abs(t), freedom), table["chance"])
    )
    assert (table["chance"] > 0).tolist() == [False] * 3 + [True] * 3, (
        "the far ones are levels apart"
    )
    for part, of_a, of_b in (((0, 3), A_SMT, B_SMT), ((3, 6), A_FAR, B_FAR)):
        rows = table[slice(*part)].reset_index(drop=True)
        np.testing.assert_allclose(rows["ratio"], stats.gmean(of_b) / stats.gmean(of_a))
        np.testing.assert_allclose(rows["a_ns"], stats.gmean(of_a) * factors[:, 0])
        np.testing.assert_allclose(rows["b_ns"], stats.gmean(of_b) * factors[:, 0])
    np.testing.assert_allclose(table["q"], stats.false_discovery_control(table["p"]))


def test_a_pair_changed_only_if_significant_and_beyond_the_threshold() -> None:
    noise = np.array([1.0, 1.001, 0.999])
    a = side(
        *[{("smt", 0, cpu): 10 * factor for cpu in range(1, 5)} for factor in noise]
    )
    ratios = {1: 1.0, 2: 1.04, 3: 1.02, 4: 1 / 1.04}
    b = side(
        *[
            {("smt", 0, cpu): 10 * factor * ratios[cpu] for cpu in range(1, 5)}
            for factor in noise
        ]
    )
    table = compare_pairs(a, b, 0.03)
    assert table["pong_cpu"][table["verdict"] == "changed"].tolist() == [2, 4]
    assert (table["q"][1:] < 0.05).all()
    wide = [{("smt", 0, 1): value} for value in (8.0, 10.0, 12.5)]
    others = [{("smt", 0, 1): value} for value in (9.0, 10.5, 13.5)]
    assert compare_pairs(side(*wide), side(*others), 0.03)["verdict"].tolist() == [
        "cannot tell"
    ]


def test_a_pair_that_a_run_lacks_is_left_out() -> None:
    units = [dict(unit) for unit in levels("smt", *A_SMT)]
    del units[1]["smt", 0, 2]
    table = compare_pairs(side(*units), side(*levels("smt", *B_SMT)), 0.03)
    assert list(zip(table["ping_cpu"], table["pong_cpu"], strict=True)) == [
        (0, 1),
        (1, 2),
    ]
    assert (
        compare_pairs(side(*levels("smt", *B_SMT)), side(*units), 0.03).shape
        == table.shape
    )


@pytest.mark.parametrize(("a", "b"), [(2, 3), (3, 2)])
def test_pairs_of_fewer_than_three_runs_are_not_compared(a: int, b: int) -> None:
    sides = [side(*levels("smt", *A_FAR[:count])) for count in (a, b)]
    table = compare_pairs(*sides, 0.03)
    assert table.empty
    assert "verdict" in table


def test_the_pairs_of_a_relation_are_those_of_a() -> None:
    a = side(
        *[
            {key: ns for key, ns in unit.items() if key[1] == 0}
            for unit in levels("smt", *A_SMT)
        ]
    )
    b = side(*levels("smt", *B_SMT))
    assert compare_relations(a, b, 0.03)["pairs"].tolist() == [2]
    assert compare_relations(b, a, 0.03)["pairs"].tolist() == [3]


def test_the_table_of_relations_has_its_columns_and_a_plain_index() -> None:
    a, b = (
        side(*join(levels("system", *far), levels("smt", *near)))
        for far, near in ((A_FAR, A_SMT), (B_FAR, B_SMT))
    )
    table = compare_relations(a, b, 0.03)
    columns = (
        "benchmark variant relation pairs a_within b_within a_units b_units a_ns b_ns"
        " a_compared b_compared levels shares whole shared error "
    )
    columns += "freedom borrowed chance more ratio low high p q smallest verdict why"
    assert list(table.columns) == columns.split()
    assert table.index.tolist() == [0, 1]
