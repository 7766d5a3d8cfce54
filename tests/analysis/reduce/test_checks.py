"""Flags of pairs and checks of the topology, each just before and just beyond its
limit.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fleet.analysis.reduce import (
    add_pair_flags,
    check_topology,
    compute_sibling_nearness,
)

Ns = Mapping[tuple[str, int, int], float]  # relation, ping, pong -> ns


# of a pair without any flag
USUAL = {
    "run_id": "r1",
    "benchmark": "cas",
    "variant": "cmpxchg",
    "flags": "",
    "spread": 0.01,
    "outliers": 0.0,
    "other_share": 0.0,
    "other_ns": np.nan,
    "drift": np.nan,
    "asymmetry": np.nan,
}


def table(ns: Ns, **columns: Any) -> pd.DataFrame:
    rows = [
        {"relation": relation, "ping_cpu": ping, "pong_cpu": pong, "median_ns": value}
        for (relation, ping, pong), value in ns.items()
    ]
    return pd.DataFrame(rows).assign(**{**USUAL, **columns})


def flags(pairs: pd.DataFrame, precision: float | None = None) -> list[str]:
    return add_pair_flags(pairs, precision)["flags"].tolist()


PAIR = {("llc", 0, 1): 50.0}
# Two cores of two siblings: 0 and 1, 2 and 3.
CORES = {("smt", 0, 1): 10.0, ("smt", 2, 3): 10.0} | {
    ("llc", a, b): 50.0 for a in (0, 1) for b in (2, 3)
}


@pytest.mark.parametrize(
    ("columns", "precision", "expected"),
    [
        ({}, None, ""),
        ({"other_ns": 80.0}, None, "multimodal"),
        ({"drift": -0.03}, None, "drift"),
        ({"spread": 0.02}, 0.02, ""),
        ({"spread": 0.021}, 0.02, "not_converged"),
        ({"spread": 0.01, "other_share": 0.5}, 0.02, ""),
        ({"spread": 0.01, "other_share": 0.51}, 0.02, "not_converged"),
        ({"spread": float("nan")}, 0.02, "not_converged"),
        ({"spread": 0.5}, None, ""),
        ({"outliers": 0.05}, None, ""),
        ({"outliers": 0.051}, None, "outliers"),
        (
            {"flags": "preempted", "drift": 0.1, "outliers": 0.2},
            None,
            "drift,outliers,preempted",
        ),
        ({"flags": "busy_cpu,preempted"}, None, "busy_cpu,preempted"),
    ],
)
def test_a_pairs_own_flags_join_those_of_its_bursts(
    columns: Any, precision: float | None, expected: str
) -> None:
    assert flags(table(PAIR, **columns), precision) == [expected]


def test_a_load_is_underfed_below_what_was_asked_for_and_what_there_is_at_full() -> (
    None
):
    """Asked of two threads: 4, 8 and 32 GB/s, and at full; beside those of another
    operation, and no load.
    """
    loads = [
        ("read", 2000, 3.79),
        ("read", 4000, 7.61),
        ("read", 16000, 20.0),
        ("read", None, 21.0),
        ("write", 16000, 28.0),
        ("idle", 0, 0.0),
        (None, None, None),
    ]
    named = pd.DataFrame(loads, columns=["operation", "load_mbps", "other_rate"])
    rows = pd.concat([table(PAIR)] * len(named), ignore_index=True)
    rows = rows.assign(**named, threads=3, bytes=1 << 28)
    rows = rows.assign(memory_node=None, load_node=None)
    assert flags(rows) == ["underfed", "", "", "", "underfed", "", ""]
    rows.loc[2, "other_rate"] = 19.9
    assert flags(rows)[2] == "underfed"


@pytest.mark.parametrize(
    ("nearest", "marked"), [(13.0, False), (12.9, True), (10.0, True), (8.0, True)]
)
def test_siblings_must_be_1_3_times_nearer_than_any_other_cpu_of_theirs(
    nearest: float, marked: bool
) -> None:
    assert flags(table(CORES)) == [""] * 6
    flagged = flags(table({**CORES, ("llc", 1, 2): nearest}))
    expected = "smt_pair" if marked else ""
    # it is itself far nearer than its relation
    near = "smt_pair" if nearest < 0.5 * 50 else ""
    assert flagged == [expected, expected, "", "", near, ""]


def test_how_much_further_the_next_cpu_is_counts_both_ends() -> None:
    pairs = table(
        {
            ("smt", 0, 1): 10.0,
            ("llc", 0, 2): 40.0,
            ("llc", 1, 2): 30.0,
            ("self", 0, 0): 1.0,
        }
    )
    zeros = np.zeros(4, dtype=np.int64)
    factors = compute_sibling_nearness(pairs, zeros)
    assert np.array_equal(factors, [3.0, np.nan, np.nan, np.nan], equal_nan=True)
    alone = table({("smt", 0, 1): 10.0})
    without_partner = compute_sibling_nearness(alone, zeros[:1])
    assert np.isnan(without_partner).all()


@pytest.mark.parametrize(
    ("pairs", "ns", "marked"), [(4, 24.9, True), (4, 25.1, False), (3, 10.0, False)]
)
def test_a_pair_at_less_than_half_of_its_relation_is_marked_where_that_has_four_pairs(
    pairs: int, ns: float, marked: bool
) -> None:
    costs = {("package", 0, cpu): 50.0 for cpu in range(1, pairs + 1)}
    costs["package", 0, 1] = ns
    nearest, *others = flags(table(costs))
    assert nearest == ("smt_pair" if marked else "")
    assert others == [""] * (pairs - 1)


@pytest.mark.parametrize("relation", ["self", "smt"])
def test_nothing_is_nearer_than_a_sibling_or_oneself(relation: str) -> None:
    costs = {(relation, 0, 0): 10.0}
    for cpu in range(2, 8):
        costs[relation, cpu, cpu] = 50.0
    assert flags(table(costs)) == [""] * 7


def test_runs_benchmarks_and_variants_are_judged_apart() -> None:
    usual = table({("llc", 0, cpu): 50.0 for cpu in range(1, 6)})
    fast = usual.assign(median_ns=5.0)
    apart = [
        fast.assign(**{key: "other"}) for key in ("run_id", "benchmark", "variant")
    ]
    assert flags(pd.concat([usual, *apart])) == [""] * 20
    together = flags(pd.concat([usual, fast.head(1)]))
    assert together.count("smt_pair") == 1


# The topology


def findings(
    pairs: pd.DataFrame, history: pd.DataFrame | None = None
) -> list[tuple[str, str, float]]:
    lines = check_topology(pairs, history)
    return list(
        zip(lines["check"], lines["subject"], lines["value"].round(6), strict=True)
    )


@pytest.mark.parametrize(
    ("nearest", "expected"),
    [(13.0, []), (12.0, [("siblings", "0-1", 1.2), ("siblings", "2-3", 1.2)])],
)
def test_siblings_that_are_not_nearest_are_found(
    nearest: float, expected: list[tuple[str, str, float]]
) -> None:
    pairs = table({**CORES, ("llc", 1, 2): nearest})
    assert findings(pairs) == expected
    if expected:
        assert check_topology(pairs)["says"][0] == "0-1 (10.0 ns, another CPU at 12.0)"


@pytest.mark.parametrize(
    ("near", "expected"), [(55.0, []), (55.5, [("order", "llc>package", 1.11)])]
)
def test_a_nearer_relation_slower_by_a_tenth_is_out_of_order(
    near: float, expected: list[tuple[str, str, float]]
) -> None:
    ns = {
        ("llc", 0, 1): near,
        ("package", 0, 2): 50.0,
        ("unknown", 0, 3): 1.0,
        ("self", 0, 0): 900.0,
    }
    assert findings(table(ns)) == expected
    if expected:
        assert check_topology(table(ns))["says"][0] == "llc 55.5 ns, package 50.0"


def test_a_relation_is_held_against_the_next_wider_one_by_its_median() -> None:
    ns = {
        ("smt", 0, 1): 90.0,
        ("llc", 0, 2): 100.0,
        ("llc", 1, 2): 20.0,
        ("llc", 1, 3): 60.0,
        ("system", 0, 4): 50.0,
    }
    assert [finding[:2] for finding in findings(table(ns))] == [
        ("siblings", "0-1"),
        ("order", "smt>llc"),
        ("order", "llc>system"),
    ]


@pytest.mark.parametrize(
    ("now", "expected"),
    [(100.0, []), (100.5, [2.01]), (25.0, []), (24.5, [0.49]), (50.0, [])],
)
def test_a_relation_off_its_history_by_more_than_twice_is_found(
    now: float, expected: list[float]
) -> None:
    runs = pd.DataFrame(
        {
            "run_id": ["r0", "r1", "r2"],
            "benchmark": "cas",
            "variant": "cmpxchg",
            "median_ns": [49.0, 50.0, 500.0],
        }
    )
    past = pd.concat([runs.assign(relation="llc"), runs.assign(relation="gone")])
    pairs = table({("llc", 0, 1): now})
    lines = check_topology(pairs, past)
    assert lines["value"].round(6).tolist() == expected
    if expected:
        assert lines["says"][0] == f"llc {now:.1f} ns, in 3 earlier runs 50.0"
        assert lines["subject"].tolist() == ["llc"]
    two_runs = past[past["run_id"] != "r2"]
    assert findings(pairs, two_runs) == [], "two runs are no history"


@pytest.mark.parametrize(
    ("asymmetry", "value", "says"),
    [
        (0.25, 1.25, "0-1 50.0 ns, +25% when 1 pings"),
        (-0.2, 1.25, "0-1 50.0 ns, +25% when 0 pings"),
        (0.0, 1.0, "0-1 50.0 ns, +0% when 1 pings"),
    ],
)
def test_the_slower_direction_is_named_with_how_much_longer_it_takes(
    asymmetry: float, value: float, says: str
) -> None:
    lines = check_topology(table(PAIR, asymmetry=asymmetry))
    (line,) = lines.to_dict("records")
    assert line["check"] == "asymmetry"
    assert line["subject"] == "0-1"
    assert line["says"] == says
    assert line["value"] == pytest.approx(value)
