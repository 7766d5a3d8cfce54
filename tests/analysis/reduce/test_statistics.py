"""The frames of all statistics, against numbers reckoned by hand."""

from pathlib import Path

import numpy as np
import pytest

from fleet.analysis.reduce.load import load_samples
from fleet.analysis.reduce.matrices import pair_medians
from fleet.model import Cpu
from fleet.store import Store
from tests import builders

TICK = 0.4 / 1000 / 2  # one-way ns a tick adds


def test_mad_is_of_all_samples_but_warm_ups_both_ways(tmp_path: Path) -> None:
    bursts = [
        builders.a_burst(round=0, ticks=(9_000_000, 10, 20, 90)),
        builders.a_burst(round=1, ping_cpu=1, pong_cpu=0, ticks=(9_000_000, 30, 30, 1000), start_offset_ns=9),
    ]
    Store(tmp_path).publish(builders.a_run((Cpu(0, package=0), Cpu(1, package=0))), bursts)
    pairs = pair_medians(load_samples(tmp_path))
    values = np.array([10, 20, 90, 30, 30, 1000])
    (row,) = pairs.to_dict("records")
    assert row["mad_ns"] == pytest.approx(np.median(np.abs(values - np.median(values))) * TICK)
    assert row["samples"] == 6


def test_a_relation_tells_how_many_of_its_pairs_have_two_modes(tmp_path: Path) -> None:
    run = builders.a_run(builders.small_desktop(), rounds=10)
    bursts = [
        builders.a_burst(
            round=visit,
            ping_cpu=a,
            pong_cpu=b,
            start_offset_ns=visit,
            ticks=(
                500,
                *[
                    250_000 + 400 * at + (200_000 if (a, b) == (0, 1) and visit % 3 == 0 else 0)
                    for at in range(5)
                ],
            ),
        )
        for visit in range(10)
        for a, b in ((0, 1), (0, 2), (0, 4), (1, 5))
    ]
    Store(tmp_path).publish(run, bursts)
    pairs = pair_medians(load_samples(tmp_path))
    found = pairs.assign(two_modes=pairs["other_ns"].notna()).groupby("relation")
    assert found["two_modes"].mean()["package"] == 0.5
    assert found["two_modes"].mean()["smt"] == 0
    assert found["mad_ns"].median()["smt"] == pytest.approx(400 * TICK)
    assert (pairs["p10_ns"] <= pairs["median_ns"]).all()
