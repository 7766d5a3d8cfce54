"""Comparisons of the points of fetch and interleave, with a planted change of one
state.
"""

import csv
from io import StringIO
from pathlib import Path

import pytest

from fleet.analysis.compare import compare
from tests import points
from tests.command import Fleet

SLOWER = "package third.chase.128K"


def alternate(root: Path) -> None:
    """Runs a b b a a b b a; on side b one state of fetch takes 1.25 times as long."""
    slower = {
        **points.FETCHED,
        ("chase", "third"): 1.25 * points.FETCHED["chase", "third"],
    }
    for number, side in enumerate("abbaabba"):
        fetched = slower if side == "b" else points.FETCHED
        started = f"2026-01-02T03:{number:02}:00Z"
        points.publish(
            root,
            fetched=fetched,
            noise=0.003,
            started_utc=started,
            labels={"side": side},
        )


def test_a_slower_state_is_found_and_the_other_points_are_not(tmp_path: Path) -> None:
    alternate(tmp_path)
    (comparison,) = compare(tmp_path, ["side=a", "side=b"])
    rows = comparison.relations.set_index("relation")
    assert len(rows) == len(points.FETCHED) + len(points.WRITTEN)
    assert set(rows["verdict"]) == {"changed", "equivalent"}
    assert set(rows.index[rows["verdict"] == "changed"]) == {SLOWER}
    assert rows.loc[SLOWER, "ratio"] == pytest.approx(1.25, rel=0.01)
    assert rows.loc["package shared.write.1K", "benchmark"] == "interleave"


@pytest.mark.slow
def test_the_command_prints_the_changed_state_in_every_form(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        alternate(fleet.results)
        done = fleet("compare", "side=a", "side=b", "--fail-on-change")
        assert done.exit_code == 20
        (line,) = [
            line
            for line in done.stdout.splitlines()
            if SLOWER in line and "slower" in line
        ]
        assert "fetch/mov" in line
        (compared,) = fleet("compare", "side=a", "side=b", "--json").json
        rows = list(
            csv.DictReader(
                StringIO(fleet("compare", "side=a", "side=b", "--csv").stdout)
            )
        )
        for cells in (compared["relations"], rows):
            changed = [
                (row["benchmark"], row["relation"])
                for row in cells
                if row["verdict"] == "changed"
            ]
            assert changed == [("fetch", SLOWER)]


def test_the_pairs_of_a_run_name_state_and_block(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        points.publish(fleet.results)
        (summary,) = fleet("show", "--json").json
        rows = list(csv.DictReader(StringIO(fleet("show", "--csv").stdout)))
        for pairs in (summary["pairs"], rows):
            measured = {
                (row["state"] or row["sharing"], row["operation"]): float(
                    row["median_ns"]
                )
                for row in pairs
            }
            reads = {
                ("own", "read"): 4.4,
                ("third", "read"): 61.5,
                ("memory", "read"): 150.0,
            }
            writes = {
                ("written", "swap"): 80.2,
                ("own", "write"): 2.0,
                ("shared", "write"): 5.0,
            }
            assert measured == pytest.approx(reads | writes, rel=1e-3)
        assert {row["block_bytes"] for row in summary["pairs"]} == {None, points.BLOCK}
