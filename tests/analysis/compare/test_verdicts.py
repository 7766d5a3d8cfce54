"""What a comparison claims of one relation, from its numbers alone: each verdict and
the words beside it.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fleet.analysis.compare import add_verdicts, compare
from fleet.analysis.views import render_comparisons
from fleet.model import SHIPPED

NOTHING_FOUND = {
    "benchmark": "cas",
    "ratio": 1.001,
    "low": 0.95,
    "high": 1.054,
    "p": 0.9,
    "q": 0.9,
    "error": 0.01,
    "freedom": 8.0,
    "chance": 0.0,
    "levels": 1,
    "more": np.nan,
    "shared": 1.0,
    "a_units": 5,
    "b_units": 5,
}


def verdict(
    threshold: float = 0.03, rows: int = 1, **changes: float
) -> tuple[str, str]:
    """The verdict and its reason for the first of so many equal rows."""
    table = add_verdicts(pd.DataFrame([NOTHING_FOUND | changes] * rows), threshold)
    return table["verdict"][0], table["why"][0]


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        (1.04, ("changed", "slower, perhaps by less than 3%")),
        (0.96, ("changed", "faster, perhaps by less than 3%")),
        (1.031, ("changed", "slower, perhaps by less than 3%")),
        (1 / 1.031, ("changed", "faster, perhaps by less than 3%")),
        (1.029, ("cannot tell", "a change, but perhaps below 3%")),
        (1 / 1.029, ("cannot tell", "a change, but perhaps below 3%")),
    ],
)
def test_a_significant_change_counts_only_beyond_the_threshold(
    ratio: float, expected: tuple[str, str]
) -> None:
    assert (
        verdict(ratio=ratio, low=ratio * 0.97, high=ratio * 1.04, p=0.001, q=0.002)
        == expected
    )


@pytest.mark.parametrize(("ratio", "word"), [(1.1, "less"), (0.9, "more")])
def test_a_rate_is_less_where_its_time_is_longer(ratio: float, word: str) -> None:
    changes = {"ratio": ratio, "low": ratio, "high": ratio, "p": 0.001, "q": 0.002}
    rows = pd.DataFrame([NOTHING_FOUND | changes | {"benchmark": "bandwidth"}])
    judged = add_verdicts(rows, 0.03, SHIPPED.rates)
    assert judged["why"][0] == f"{word}, by more than 3%"


def test_a_change_is_called_larger_than_the_threshold_only_where_the_whole_interval_is() -> (
    None
):
    for low, words in ((1.031, "by more than 3%"), (1.029, "perhaps by less than 3%")):
        assert verdict(ratio=1.06, low=low, high=1.08, p=0.001, q=0.002) == (
            "changed",
            f"slower, {words}",
        )


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.98, 1.02, "equivalent"),
        (1 / 1.029, 1.029, "equivalent"),
        (0.98, 1.031, "cannot tell"),
        (1 / 1.031, 1.02, "cannot tell"),
    ],
)
def test_equivalent_means_that_the_whole_interval_lies_within_the_threshold(
    low: float, high: float, expected: str
) -> None:
    assert verdict(low=low, high=high)[0] == expected


def test_an_interval_within_the_threshold_is_equivalent_though_the_small_change_is_significant() -> (
    None
):
    outcome = verdict(
        threshold=0.05, ratio=1.01, low=1.005, high=1.015, p=0.001, q=0.001
    )
    assert outcome == ("equivalent", "within ±5%")


@pytest.mark.parametrize(
    ("p", "q", "why"),
    [
        (0.01, 0.2, "may be chance: 1 of 12 relations"),
        (0.049, 0.05, "may be chance: 1 of 12 relations"),
        (0.05, 0.05, "would show a change of 7.3% or more"),
        (0.2, 0.4, "would show a change of 7.3% or more"),
    ],
)
def test_a_small_p_among_many_relations_may_be_chance(
    p: float, q: float, why: str
) -> None:
    low = 1.001 if p < 0.05 else 0.999
    assert verdict(rows=12, ratio=1.05, low=low, high=1.1, p=p, q=q)[0] == "cannot tell"
    assert verdict(rows=12, ratio=1.05, low=low, high=1.1, p=p, q=q)[1].startswith(
        why[:20]
    )


def test_what_may_be_another_level_by_chance_is_no_change() -> None:
    outcome = verdict(
        ratio=1.4, low=0.99, high=1.45, p=0.2, q=0.3, chance=0.2, levels=2, more=9.0
    )
    assert outcome == ("at another level", "2 levels; about 9 runs a side would tell")
    proved = verdict(
        ratio=1.4,
        low=1.35,
        high=1.45,
        p=0.001,
        q=0.001,
        chance=0.001,
        levels=2,
        more=3.0,
    )
    assert proved == ("changed", "slower, by more than 3%")


def test_a_change_beside_the_session_says_so() -> None:
    outcome = verdict(ratio=1.06, low=1.04, high=1.08, p=0.001, q=0.002, shared=1.2)
    assert outcome == ("changed", "slower than all hosts, by more than 3%")


def test_runs_that_would_show_twice_the_threshold_need_no_more() -> None:
    assert (
        verdict(error=0.01, low=0.9, high=1.1)[1]
        == "would show a change of 3.9% or more"
    )
    assert (
        verdict(error=1.0, low=0.3, high=3)[1]
        == "would show no change below a factor of two"
    )


@pytest.mark.parametrize("runs", [3, 8])
def test_with_so_many_runs_a_side_twice_the_threshold_would_be_shown(runs: int) -> None:
    error = 0.04
    _, why = verdict(
        error=error, freedom=200.0, a_units=runs, b_units=runs, low=0.8, high=1.25
    )
    needed = int(why.split("for 6%, about ")[1].split()[0])
    enough = error * (runs / needed) ** 0.5
    _, why = verdict(
        error=enough, freedom=200.0, a_units=needed, b_units=needed, low=0.8, high=1.25
    )
    assert float(why.split()[5].rstrip("%")) == pytest.approx(6.0, abs=0.5)


def test_without_a_p_there_is_no_verdict() -> None:
    missing = dict.fromkeys(("low", "high", "p", "q", "error", "freedom"), float("nan"))
    assert verdict(ratio=3.0, **missing) == ("no verdict", "too few runs")
    assert (
        verdict(ratio=3.0, levels=2, more=12.0, **missing)[1]
        == "2 levels; about 12 runs a side would tell"
    )


def test_rows_stay_as_they_are_and_in_their_order() -> None:
    rows = pd.DataFrame(
        [NOTHING_FOUND, NOTHING_FOUND | {"p": float("nan")}], index=[7, 3]
    )
    concluded = add_verdicts(rows, 0.03)
    pd.testing.assert_frame_equal(concluded[rows.columns], rows)
    assert list(concluded["verdict"]) == ["cannot tell", "no verdict"]
    assert add_verdicts(rows[:0], 0.03).columns[-2:].tolist() == ["verdict", "why"]


@pytest.mark.long
def test_the_legend_says_how_much_of_their_scatter_relations_share(
    made_lab: Path,
) -> None:
    sides = ["kernel=old", "kernel=new"]
    hosts, siena = (
        " ".join(render_comparisons(compare(made_lab / "results", texts)).split())
        for texts in (sides, [f"siena@{side}" for side in sides])
    )
    assert (
        "moderated by that of all 44 (3 further degrees of freedom), so another command"
        in hosts
    )
    assert "about 10 runs a side" in hosts
    assert "about 14 runs a side" in siena
    assert "moderated" not in siena  # two relations share nothing
