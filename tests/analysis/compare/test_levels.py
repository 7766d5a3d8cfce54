"""Comparisons and histories of levels of memory and of single points, with planted
changes.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fleet.analysis.compare import Comparison, compare
from fleet.analysis.reduce import Only, load_history
from fleet.analysis.views import (
    render_comparisons,
    render_headline,
    render_relation_history,
)
from fleet.errors import UsageError
from fleet.store import Listing
from tests import builders, memory, simulated
from tests.command import Fleet

RUNS = 4


def alternate(
    root: Path, change: float, level: str = "L2", operation: str = "read"
) -> None:
    """Runs a b b a a b b a; on side b one level of one operation takes `change` times
    as long.
    """
    rates = {**memory.BYTES, operation: {**memory.BYTES[operation]}}
    rates[operation][level] *= change
    for number, side in enumerate("abba" * (RUNS // 2)):
        own = rates if side == "b" else memory.BYTES
        started = f"2026-01-02T03:{number:02}:00Z"
        memory.publish(
            root, rates=own, noise=0.003, started=started, labels={"side": side}
        )


def only(root: Path, **how: Any) -> Comparison:
    (comparison,) = compare(root, ["side=a", "side=b"], **how)
    return comparison


@pytest.mark.long
def test_a_slower_level_is_found_and_the_others_are_not(tmp_path: Path) -> None:
    alternate(tmp_path, 1.25)
    comparison = only(tmp_path)
    rows = comparison.relations.set_index("relation")
    # levels; orders of chase, operations by one and two threads
    assert len(rows) == 4 * (2 + 3 * 2)
    assert set(rows.index[rows["verdict"] == "changed"]) == {"L2 read", "L2 read x2"}
    assert rows.loc["L2 read", "ratio"] == pytest.approx(1.25, rel=0.01)
    assert set(rows["verdict"]) == {"changed", "equivalent"}
    assert comparison.pairs.empty


def with_relations(comparison: Comparison, relations: pd.DataFrame) -> Comparison:
    with_none = relations.astype(object).where(relations.notna(), None)
    return replace(comparison, relations=relations, rows=with_none.to_dict("records"))


@pytest.mark.long
def test_the_first_line_says_which_rows_without_a_finding_are_at_several_levels(
    tmp_path: Path,
) -> None:
    alternate(tmp_path, 1.0)
    comparison = only(tmp_path)
    assert set(comparison.relations["verdict"]) == {"equivalent"}
    assert "at several levels" not in render_headline(comparison)
    at_two = np.arange(len(comparison.relations)) == 3
    rows = comparison.relations.assign(
        levels=1 + at_two, more=np.where(at_two, 9.0, np.nan)
    )
    assert (
        f"1 of them at several levels ({rows['relation'][3]}: {RUNS} of {RUNS} runs of"
        in render_headline(with_relations(comparison, rows))
    )
    assert "would tell" not in render_headline(with_relations(comparison, rows))
    rows["verdict"] = rows["verdict"].mask(at_two, "no verdict")
    assert "about 9 runs a side would tell)" in render_headline(
        with_relations(comparison, rows)
    )
    rows = rows.assign(levels=2, more=np.where(at_two, 9.0, 12.0), verdict="no verdict")
    assert "about 12 runs a side would tell all)" in render_headline(
        with_relations(comparison, rows)
    )
    rows = rows.assign(more=np.where(at_two, np.nan, 12.0))
    assert "more runs than 200 a side would tell all)" in render_headline(
        with_relations(comparison, rows)
    )


@pytest.mark.long
def test_bandwidth_is_printed_as_a_rate_that_fell(tmp_path: Path) -> None:
    alternate(tmp_path, 1.25)
    text = render_comparisons([only(tmp_path)])
    (line,) = [
        line for line in text.splitlines() if "L2 read " in line and " x2" not in line
    ]
    words = line.split()
    assert float(words[4]) == pytest.approx(250, rel=0.01)
    assert float(words[5]) == pytest.approx(200, rel=0.01)
    assert float(words[6].rstrip("%")) == pytest.approx(-20, abs=0.8)
    low, high = (float(words[index].rstrip("%")) for index in (7, 9))
    assert low < -20 < high
    assert "changed: less" in line
    assert "GB/s" in text


@pytest.mark.long
def test_one_benchmark_or_one_point_can_be_compared(tmp_path: Path) -> None:
    alternate(tmp_path, 1.25)
    assert set(only(tmp_path, only=Only("chase")).relations["benchmark"]) == {"chase"}
    (row,) = only(tmp_path, point="read.own.768K.huge.x1").relations.to_dict("records")
    assert row["relation"] == "read.own.768K.huge.x1"
    assert row["verdict"] == "changed"
    with pytest.raises(
        UsageError, match=r"no such point; did you mean 'read\.own\.768K\.huge\.x1'"
    ):
        only(tmp_path, point="read.own.769K.huge.x1")
    with pytest.raises(UsageError, match="benchmark gemm: not measured"):
        only(tmp_path, only=Only("gemm"))


@pytest.mark.long
def test_a_level_that_ends_early_in_a_run_is_named(tmp_path: Path) -> None:
    """A run whose ladder steps up early has a level of fewer sizes."""
    for number, side in enumerate("abbaab"):
        llc = memory.LLC // 8 if number == 5 else memory.LLC
        memory.publish(
            tmp_path,
            llc=llc,
            started=f"2026-01-02T03:{number:02}:00Z",
            labels={"side": side},
            noise=0.003,
        )
    comparison = only(tmp_path)
    rows = comparison.relations.set_index("relation")
    assert rows.loc["mem read", "verdict"] == "equivalent"
    assert rows.loc["LLC read", "verdict"] != "changed"
    (named,) = [text for text in comparison.caveats if "same sizes" in text]
    assert "bandwidth LLC" in named
    assert "L1" not in named


@pytest.mark.long
def test_the_history_of_a_level_and_of_a_point(tmp_path: Path) -> None:
    alternate(tmp_path, 1.25)
    runs = Listing(tmp_path).list_with_unfinished()
    history = load_history(tmp_path, runs, "L2 read", None)
    assert list(history["median_ns"] > 0.0045) == [
        side == "b" for side in "abba" * (RUNS // 2)
    ]
    every = load_history(tmp_path, runs, "mem", "chase")
    assert set(every["relation"]) == {"mem random", "mem rising"}
    assert "mem random" in render_relation_history(every)
    by_point = load_history(tmp_path, runs, "read.own.768K.huge.x2", None, point=True)
    assert "read.own.768K.huge.x2: GB/s" in render_relation_history(by_point)
    assert len(by_point) == 2 * RUNS
    with pytest.raises(UsageError, match="relation L7: no such relation"):
        load_history(tmp_path, runs, "L7", None)


@pytest.mark.slow
def test_the_command_compares_levels(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        alternate(fleet.results, 1.25)
        done = fleet(
            "compare", "side=a", "side=b", "-b", "bandwidth", "--fail-on-change"
        )
        assert done.exit_code == 20
        assert "L2 read" in done.stdout
        assert fleet("runs", "--relation", "L2 read").exit_code == 0
        assert (
            fleet("runs", "--point", "random.8M.huge", "--json").json[0]["relation"]
            == "random.8M.huge"
        )
        assert (
            fleet("runs", "--point", "random.8M.huge", "--relation", "L2").exit_code
            == 2
        )


@pytest.mark.slow
def test_a_slow_mode_of_some_runs_ends_with_its_own_exit_code(tmp_path: Path) -> None:
    with Fleet(tmp_path, {"COLUMNS": "200"}) as fleet:
        for number in range(12):
            factor = 1.2 if number in (3, 7, 11) else 1.0
            ns = {name: factor * ns for name, ns in builders.NS.items()}
            simulated.publish(
                fleet.results,
                simulated.desktop("flips", ns=ns, run_sd=0.003),
                number,
                rounds=2,
                session=f"s202601{number + 1:02}T000000Z-00000000",
                labels={"side": "ab"[number % 2]},
            )
        done = fleet("compare", "side=a", "side=b", "--fail-on-change")
        assert done.exit_code == 22
        first = done.stdout.splitlines()[0]
        assert "several levels" in first
        assert "6 of 6 runs of A at" in first
        assert "3 of 6 of B at" in first
        assert "cannot tell: B at a second level in 3 of 6 runs" in done.stdout
        assert "equivalent" not in first
