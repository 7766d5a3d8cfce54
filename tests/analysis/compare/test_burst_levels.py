"""Levels that a pair switches between within its runs: matched, and their changes and
shares.
"""

import json
import random
import re
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pandas as pd
import pytest

from fleet.analysis.compare import compare
from fleet.analysis.views import comparisons_as_json, render_comparisons
from fleet.store import Store
from tests import builders
from tests.two_sides import compare_burst_levels


def side(name: str, runs: list[tuple[float, float, float]]) -> pd.DataFrame:
    """A row per run of one pair; runs: ns, ns of the bursts at another level, and their
    share.
    """
    rows = pd.DataFrame(runs, columns=["median_ns", "other_ns", "other_share"])
    rows = rows.assign(benchmark="x", variant="x", relation="x", ping_cpu=0, pong_cpu=1)
    return rows.assign(unit=[f"{name}{number}" for number in range(len(runs))])


def test_levels_and_shares_of_both_sides_stand_side_by_side() -> None:
    a = side("a", [(24.0, 50.0, 0.2), (24.2, 50.4, 0.3), (24.1, 49.8, 0.25)])
    b = side("b", [(24.1, 55.0, 0.4), (24.0, 55.5, 0.5), (24.2, 54.8, 0.45)])
    (row,) = compare_burst_levels(a, b).to_dict("records")
    assert row["a_ns"] == 24.1
    assert row["b_ns"] == 24.1
    assert row["a_other_ns"] == 50.0
    assert row["b_other_ns"] == 55.0
    assert row["a_share"] == pytest.approx(0.25)
    assert row["b_share"] == pytest.approx(0.45)
    assert 0 < row["moved_low"] < row["moved"] < row["moved_high"]
    assert row["moved"] == pytest.approx(0.2)


def test_runs_without_bursts_at_another_level_have_a_share_of_none() -> None:
    a = side("a", [(24.0, 50.0, 0.2), (24.2, 50.4, 0.3), (24.1, np.nan, 0.05)])
    b = side("b", [(24.1, np.nan, 0.0)] * 3)
    (row,) = compare_burst_levels(a, b).to_dict("records")
    assert row["a_share"] == pytest.approx(0.55 / 3)
    assert row["b_share"] == 0
    assert np.isnan(row["b_other_ns"])
    assert not len(compare_burst_levels(a[1:], b)), "one run alone may be disturbed"
    assert not len(compare_burst_levels(a, b[:0]))


@pytest.mark.long
def test_a_comparison_lists_levels_that_its_verdicts_do_not_see(tmp_path: Path) -> None:
    chance = random.Random(3)
    for place, name in enumerate("abbaab"):
        run = builders.a_run(run_id=f"r20260102T03{place:02}00Z-{place:08x}", rounds=30)
        started = f"2026-01-02T03:{place:02}:00Z"
        run = replace(
            run, started_utc=started, labels=MappingProxyType({"kernel": name})
        )
        share = 0.15 if name == "a" else 0.4
        bursts = (
            (
                replace(burst, ticks=tuple(2 * tick for tick in burst.ticks))
                if chance.random() < share
                else burst
            )
            for burst in builders.make_bursts(run, noise=0.005, seed=place)
        )
        Store(tmp_path).publish(run, bursts)
    comparisons = compare(tmp_path, ["kernel=a", "kernel=b"])
    assert not comparisons[0].has_changed
    text = render_comparisons(comparisons)
    assert "Bursts at another level, not judged (other: their median;" in text
    assert re.search(r"cas/cmpxchg +0-1 .* 1\d% +4\d% ", text)
    (listed,) = json.loads(comparisons_as_json(comparisons))["rows"][0]["levels"]
    assert (round(listed["a_ns"], -1), round(listed["a_other_ns"], -1)) == (50, 100)
    assert listed["moved"] > 0.1
