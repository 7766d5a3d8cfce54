"""Each sentence of doubt about a comparison: there when its cause is, absent just
before.
"""

from typing import Any

import pandas as pd
import pytest

from fleet.analysis.compare import (
    ComparisonSide,
    PairSummary,
    format_order,
    list_caveats,
    summarize_pairs,
)
from fleet.analysis.reduce import choose_number_column


def side(order: str = "abab", letter: str = "a", **columns: Any) -> ComparisonSide:
    """The runs of `letter` where sides a and b were measured in this order, a minute
    each.
    """
    places = [place for place, entry in enumerate(order) if entry == letter]
    runs = pd.DataFrame(
        {
            "run_id": [f"r{place:02}" for place in places],
            "started_utc": [f"2026-01-02T03:{place:02}:00Z" for place in places],
            "host_id": "rpi5",
            "state": "complete",
            "preset": None,
            "estimator": "median",
            "clock": "tsc",
            "load_1m_before": 0.4,
            "cpus_measured": 4,
            "failed_bursts": 0,
            **columns,
        }
    )
    return ComparisonSide(letter, runs)


def pairs(
    units: int = 3,
    flags: tuple[str, ...] = ("",),
    kinds: tuple[str, ...] = ("cas/cmpxchg",),
) -> pd.DataFrame:
    rows = [
        {
            "unit": f"u{unit}",
            "benchmark": kind.split("/")[0],
            "variant": kind.split("/")[1],
            "flags": flag,
        }
        for unit in range(units)
        for kind in kinds
        for flag in flags
    ]
    return pd.DataFrame(rows)


def summarize(rows: pd.DataFrame) -> PairSummary:
    (summary,) = summarize_pairs(rows.assign(comparison=0, is_b=False)).values()
    return summary


def build_caveats(
    a: ComparisonSide | None = None,
    b: ComparisonSide | None = None,
    pairs_a: pd.DataFrame | None = None,
    pairs_b: pd.DataFrame | None = None,
    *,
    unit: str = "run",
    same_topology: bool = True,
) -> list[str]:
    return list_caveats(
        a or side("abbaba", "a"),
        b or side("abbaba", "b"),
        summarize(pairs() if pairs_a is None else pairs_a),
        summarize(pairs() if pairs_b is None else pairs_b),
        unit=unit,
        same_topology=same_topology,
    )


def test_two_sides_measured_alike_leave_nothing_to_say() -> None:
    assert build_caveats() == []


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        (2, 3, "; measure 1 more of A. "),
        (3, 1, "; measure 2 more of B. "),
        (1, 2, "; measure 2 more of A and 1 more of B. "),
    ],
)
def test_missing_runs_are_counted_side_by_side(a: int, b: int, words: str) -> None:
    (text,) = build_caveats(pairs_a=pairs(a), pairs_b=pairs(b), unit="run")
    assert text.startswith("No verdict: a verdict needs 3 runs a side; ")
    assert words in text


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ("aabb", "in two separate blocks of time"),
        ("aaabbb", "in two separate blocks of time"),
        ("aaabbba", "hardly interleaved"),
        ("aabbab", None),
        ("abba", None),
        ("ab", None),
        ("abb", None),
        ("abbb", None),
        ("aabbb", "in two separate blocks of time"),
        ("ababab", "repeats itself every 2 runs"),
        ("abbaab", "repeats itself every 4 runs"),
        ("baabbaabbaab", "repeats itself every 4 runs"),
        ("abbabaab", None),
    ],
)
def test_an_order_of_the_sides_that_hides_what_changed_is_pointed_out(
    order: str, words: str | None
) -> None:
    a = side(order, "a")
    b = side(order, "b")
    assert format_order(a, b) == order.upper()
    assert [words in text for text in build_caveats(a, b)] == ([True] if words else [])


def test_runs_of_one_second_are_ordered_by_their_id() -> None:
    a, b = (side("abab", letter, started_utc="2026-01-02T03:00:00Z") for letter in "ab")
    assert format_order(a, b) == "ABAB"


@pytest.mark.parametrize(
    ("host", "unit", "same_topology", "words"),
    [
        ("rpi5", "run", True, None),
        ("rpi5", "run", False, "The topology of the host differs between the sides"),
        ("epyc", "run", True, "these two machines only."),
        (
            "epyc",
            "run",
            False,
            "relations are matched by name, pairs are not compared.",
        ),
        ("epyc", "host", True, "different sets of hosts: each counts once"),
    ],
)
def test_what_hosts_and_topologies_allow_to_claim(
    host: str, unit: str, same_topology: bool, words: str | None
) -> None:
    caveats = build_caveats(
        b=side("abbaba", "b", host_id=host), unit=unit, same_topology=same_topology
    )
    assert [words in text for text in caveats] == ([True] if words else [])


def test_summaries_made_elsewhere_are_no_evidence() -> None:
    assert (
        build_caveats(b=side("abbaba", "b", state=["complete", "partial", "summary"]))[
            0
        ]
        == "1 run without samples: no evidence of a change."
    )


def test_runs_sampled_in_different_ways_are_named() -> None:
    b = side(
        "abbaba",
        "b",
        preset=["c2clat", "c2clat", None],
        estimator=["min", "min", "median"],
    )
    (text,) = build_caveats(b=b)
    assert "different sampling, c2clat (min), default (median): " in text
    assert choose_number_column(b.runs, b.runs) == "median_ns"
    same = side("abbaba", "b", preset="c2clat", estimator="min")
    assert choose_number_column(same.runs, same.runs) == "min_ns"
    assert choose_number_column(side().runs, same.runs) == "median_ns"
    assert (
        choose_number_column(side().runs, side(estimator="min").runs) == "median_ns"
    ), "without a preset it is our own"


def test_clocks_that_differ_are_named() -> None:
    assert build_caveats(b=side("abbaba", "b", clock="cntvct")) == [
        "The clocks differ: cntvct, tsc."
    ]


def test_what_only_one_side_measured_is_named() -> None:
    both = pairs(kinds=("cas/cmpxchg", "clock/read"))
    cas = pairs()
    assert build_caveats(pairs_a=both, pairs_b=cas) == ["clock: only A measured it."]
    assert build_caveats(pairs_a=cas, pairs_b=both) == ["clock: only B measured it."]
    (text,) = build_caveats(pairs_b=pairs(kinds=("cas/c11", "cas/cmpxchg")))
    assert text.startswith("cas: A was measured with cmpxchg, B with c11 and cmpxchg. ")


@pytest.mark.parametrize(("load", "listed"), [(2.4, False), (2.6, True), (0.0, False)])
def test_a_load_is_weighed_by_the_cpus(load: float, listed: bool) -> None:
    """Before the runs of A 0.4 threads ran on 4 CPUs: 0.1 a CPU; more than half a
    thread more is listed.
    """
    caveats = build_caveats(b=side("abbaba", "b", load_1m_before=load))
    expected = (
        "The load differs: 0.1 runnable threads per CPU before the runs of A, 0.7"
        " before those of B."
    )
    assert caveats == ([expected.replace("0.7", f"{load / 4:.1f}")] if listed else [])
    assert (
        len(
            build_caveats(side("abbaba", "a", load_1m_before=load), side("abbaba", "b"))
        )
        == listed
    )


def test_partial_runs_are_counted_with_what_they_lost() -> None:
    a = side(
        "abbaba", "a", state=["partial", "complete", "partial"], failed_bursts=[2, 9, 3]
    )
    b = side("abbaba", "b", state=["partial", "complete", "complete"])
    assert build_caveats(a, b) == [
        "Partial: 2 runs of A; 5 bursts failed.",
        "Partial: 1 run of B; not all pairs were measured.",
    ]


@pytest.mark.parametrize("flag", ["multimodal", "drift", "smt_pair", "outliers"])
def test_a_flag_on_more_than_a_fifth_of_the_pairs_is_listed(flag: str) -> None:
    few = (flag, "", "", "", "")
    many = (f"{flag},preempted", "", "", flag, "")
    assert build_caveats(pairs_a=pairs(flags=few), pairs_b=pairs(flags=few)) == []
    (text,) = build_caveats(pairs_a=pairs(flags=few), pairs_b=pairs(flags=many))
    assert flag in text
    assert "40% of B" in text
    assert "of A" not in text
    (text,) = build_caveats(pairs_a=pairs(flags=(flag,)), pairs_b=pairs(flags=many))
    assert "100% of A" in text


def test_a_flag_that_shows_from_run_to_run_is_not_listed() -> None:
    assert (
        build_caveats(
            pairs_a=pairs(flags=("not_converged",)), pairs_b=pairs(flags=("preempted",))
        )
        == []
    )
