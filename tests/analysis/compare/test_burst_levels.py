"""Levels that a pair switches between within its runs: matched, and their changes and shares."""

import json
import random
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pandas as pd
import pytest

from fleet.analysis.compare.comparison import compare, compare_burst_levels
from fleet.analysis.views.compare import compare_json, compare_text
from fleet.store import Store
from tests import builders


def side(name: str, runs: list[list[tuple[float, float]]]) -> pd.DataFrame:
    """A row per run of one pair; runs: of each its levels, ns and share of bursts, the fastest first."""
    rows = [
        {
            **dict.fromkeys(("benchmark", "variant", "relation"), "x"),
            "ping_cpu": 0,
            "pong_cpu": 1,
            "unit": f"{name}{number}",
            "bursts": 20,
            "spread": 0.01,
            "median_ns": max(levels, key=lambda level: level[1])[0],
            "other_share": min(share for _, share in levels) if len(levels) > 1 else np.nan,
            "levels_ns": np.array([ns for ns, _ in levels]) if len(levels) > 1 else None,
            "levels_share": np.array([share for _, share in levels]),
            "levels_dwell": np.full(len(levels), 2.0),
            "levels_spread": np.full(len(levels), 0.01),
        }
        for number, levels in enumerate(runs)
    ]
    return pd.DataFrame(rows)


def test_each_level_is_compared_with_itself_and_so_is_its_share() -> None:
    a = side("a", [[(24.0, 0.8), (50.0, 0.2)], [(24.2, 0.7), (50.4, 0.3)], [(24.1, 0.75), (49.8, 0.25)]])
    b = side("b", [[(24.1, 0.4), (55.0, 0.6)], [(24.0, 0.5), (55.5, 0.5)], [(24.2, 0.45), (54.8, 0.55)]])
    fast, slow = compare_burst_levels(a, b).to_dict("records")
    assert fast["low"] < 1 < fast["high"]
    assert slow["ratio"] == pytest.approx(1.10, abs=0.01)
    assert 1 < slow["low"] < slow["ratio"] < slow["high"]
    assert (slow["a_share"], slow["b_share"]) == (pytest.approx(0.25), pytest.approx(0.55))
    assert 0 < slow["moved_low"] < slow["moved"] < slow["moved_high"]
    assert slow["moved"] == pytest.approx(-fast["moved"])


def test_a_level_that_runs_lack_has_no_bursts_there_and_no_change() -> None:
    a = side("a", [[(24.0, 0.8), (50.0, 0.2)], [(24.2, 0.7), (50.4, 0.3)], [(24.1, 1.0)]])
    b = side("b", [[(24.1, 1.0)], [(24.3, 1.0)], [(24.0, 1.0)]])
    _, slow = compare_burst_levels(a, b).to_dict("records")
    assert (slow["a_share"], slow["b_share"]) == (pytest.approx(0.5 / 3), 0)
    assert np.isnan([slow["ratio"], slow["b_ns"], slow["b_dwell"]]).all()
    assert not len(compare_burst_levels(a[:1], b)), "one run alone may be split by chance"
    assert not len(compare_burst_levels(a, b[:0]))


def test_a_comparison_lists_levels_that_its_verdicts_do_not_see(tmp_path: Path) -> None:
    chance = random.Random(3)
    for place, name in enumerate("abbaab"):
        run = builders.a_run(run_id=f"r20260102T03{place:02}00Z-{place:08x}", rounds=30)
        started = f"2026-01-02T03:{place:02}:00Z"
        run = replace(run, started_utc=started, labels=MappingProxyType({"kernel": name}))
        share = 0.15 if name == "a" else 0.4
        bursts = (
            replace(burst, ticks=tuple(2 * tick for tick in burst.ticks))
            if chance.random() < share
            else burst
            for burst in builders.bursts_of(run, noise=0.005, seed=place)
        )
        Store(tmp_path).publish(run, bursts)
    found = compare(tmp_path, ["kernel=a", "kernel=b"])
    assert not found[0].changed
    text = compare_text(found)
    assert "Levels within the runs, not judged (±: 95%;" in text
    assert text.count("cas/cmpxchg  0-1 ") == 2
    listed = json.loads(compare_json(found))[0]["levels"]
    assert [round(level["a_ns"], -1) for level in listed] == [50, 100]
    assert listed[1]["moved"] > 0.1
