from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fleet.analysis.reduce import (
    compute_numbers,
    list_relations,
    load_samples,
    matrix,
    pair_medians,
)
from fleet.model import SHIPPED, Burst, Cpu
from fleet.store import Store
from tests import builders
from tests.intervals import half_width

TICK = 0.4 / 1000 / 2  # one-way ns a tick adds


def frame(tmp_path: Path, bursts: list[Burst]) -> pd.DataFrame:
    run = builders.a_run((Cpu(0, package=0), Cpu(1, package=0), Cpu(2, package=2)))
    Store(tmp_path).publish(run, bursts)
    return load_samples(tmp_path)


def test_the_headline_is_the_median_of_burst_medians_without_warmups(
    tmp_path: Path,
) -> None:
    bursts = [
        builders.a_burst(
            round=0, ticks=(9_000_000, 10, 27, 90), start_offset_ns=0
        ),  # median 27
        builders.a_burst(
            round=1,
            ping_cpu=1,
            pong_cpu=0,
            ticks=(9_000_000, 30, 30, 30),
            start_offset_ns=1_000,
        ),
        builders.a_burst(
            round=2,
            ticks=(9_000_000, 31, 32, 60),
            flags=("preempted",),
            start_offset_ns=2_000,
        ),
    ]
    (row,) = pair_medians(frame(tmp_path, bursts)).to_dict("records")
    assert row["ping_cpu"] == 0
    assert row["pong_cpu"] == 1
    assert row["bursts"] == 3
    assert row["samples"] == 9
    assert row["median_ns"] == pytest.approx(30 * TICK)
    assert row["min_ns"] == pytest.approx(10 * TICK)
    assert row["max_ns"] == pytest.approx(90 * TICK)
    values = np.array([10, 27, 90, 30, 30, 30, 31, 32, 60])
    assert row["mean_ns"] == pytest.approx(values.mean() * TICK)
    assert row["p10_ns"] == pytest.approx(np.quantile(values, 0.1) * TICK)
    assert row["p99_ns"] == pytest.approx(np.quantile(values, 0.99) * TICK)
    spread = half_width([27.0, 30.0, 32.0])
    mean = np.mean([27, 30, 32])
    half = spread * mean
    assert row["spread"] == pytest.approx(spread)
    assert (row["low_ns"], row["high_ns"]) == pytest.approx(
        ((mean - half) * TICK, (mean + half) * TICK)
    )
    assert row["flags"] == "preempted"
    assert row["flagged_bursts"] == 1


def test_both_directions_can_be_kept_apart(tmp_path: Path) -> None:
    bursts = [builders.a_burst(), builders.a_burst(ping_cpu=1, pong_cpu=0)]
    table = pair_medians(frame(tmp_path, bursts), ordered=True)
    assert list(zip(table["ping_cpu"], table["pong_cpu"], strict=True)) == [
        (0, 1),
        (1, 0),
    ]


def test_a_single_burst_has_no_interval_and_one_of_warmups_no_row(
    tmp_path: Path,
) -> None:
    bursts = [builders.a_burst(), builders.a_burst(pong_cpu=2, ticks=(1, 2), warmup=2)]
    table = pair_medians(frame(tmp_path, bursts))
    assert list(table["pong_cpu"]) == [1]
    assert table["spread"].isna().all()


def test_runs_and_variants_are_never_mixed(tmp_path: Path) -> None:
    bursts = [builders.a_burst(), builders.a_burst(variant="c11", ticks=(1, 7, 7))]
    table = pair_medians(frame(tmp_path, bursts))
    assert dict(
        zip(table["variant"], table["median_ns"] / TICK, strict=True)
    ) == pytest.approx({"c11": 7, "cmpxchg": 501.5})


def test_relations_are_listed_nearest_first(tmp_path: Path) -> None:
    bursts = [
        builders.a_burst(pong_cpu=2, ticks=(0, 90, 90)),
        builders.a_burst(ticks=(0, 30, 30), flags=("preempted",)),
        builders.a_burst(ping_cpu=1, pong_cpu=2, ticks=(0, 110, 110)),
    ]
    pairs = pair_medians(frame(tmp_path, bursts))
    numbers = compute_numbers(pairs, pairs[:0], SHIPPED)
    near, far = list_relations(numbers, SHIPPED).to_dict("records")
    assert near["relation"] == "package"
    assert near["pairs"] == 1
    assert near["flagged_share"] == 1.0
    assert far["relation"] == "system"
    assert far["pairs"] == 2
    assert far["flagged_share"] == 0.0
    assert far["median_ns"] == pytest.approx(100 * TICK)


def test_a_matrix_has_a_pair_on_both_sides_and_nan_where_nothing_was_measured(
    tmp_path: Path,
) -> None:
    table = matrix(
        pair_medians(frame(tmp_path, [builders.a_burst(ticks=(0, 5, 5))])), [1, 0, 2]
    )
    assert list(table.index) == list(table.columns) == [1, 0, 2]
    assert table.loc[0, 1] == table.loc[1, 0] == pytest.approx(5 * TICK)
    assert table.isna().to_numpy().sum() == 7
