from pathlib import Path
from typing import Any

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


def measure_pairs(tmp_path: Path, *bursts: Burst, **options: Any) -> pd.DataFrame:
    """Publish a run of three CPUs with these bursts, and reduce it to pairs."""
    return pair_medians(frame(tmp_path, list(bursts)), **options)


def test_the_headline_is_the_median_of_burst_medians_without_warmups(
    tmp_path: Path,
) -> None:
    pairs = measure_pairs(
        tmp_path,
        builders.a_burst(
            round=0,
            ticks=(9_000_000, 10, 27, 90),
            start_offset_ns=0,
        ),
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
    )
    burst_medians = [27.0, 30.0, 32.0]
    values = np.array([10, 27, 90, 30, 30, 30, 31, 32, 60])
    (row,) = pairs.to_dict("records")
    assert row["ping_cpu"] == 0
    assert row["pong_cpu"] == 1
    assert row["bursts"] == 3
    assert row["samples"] == 9
    assert row["median_ns"] == pytest.approx(30 * TICK)
    assert row["min_ns"] == pytest.approx(10 * TICK)
    assert row["max_ns"] == pytest.approx(90 * TICK)
    assert row["mean_ns"] == pytest.approx(values.mean() * TICK)
    assert row["p10_ns"] == pytest.approx(np.quantile(values, 0.1) * TICK)
    assert row["p99_ns"] == pytest.approx(np.quantile(values, 0.99) * TICK)
    spread = half_width(burst_medians)
    mean_ns = np.mean(burst_medians) * TICK
    assert row["spread"] == pytest.approx(spread)
    assert row["low_ns"] == pytest.approx(mean_ns * (1 - spread))
    assert row["high_ns"] == pytest.approx(mean_ns * (1 + spread))
    assert row["flags"] == "preempted"
    assert row["flagged_bursts"] == 1


def test_both_directions_can_be_kept_apart(tmp_path: Path) -> None:
    forth = builders.a_burst()
    back = builders.a_burst(ping_cpu=1, pong_cpu=0)
    table = measure_pairs(tmp_path, forth, back, ordered=True)
    cpus = table[["ping_cpu", "pong_cpu"]]
    assert cpus.to_numpy().tolist() == [[0, 1], [1, 0]]


def test_a_single_burst_has_no_interval_and_one_of_warmups_no_row(
    tmp_path: Path,
) -> None:
    single = builders.a_burst()
    warmups = builders.a_burst(pong_cpu=2, ticks=(1, 2), warmup=2)
    table = measure_pairs(tmp_path, single, warmups)
    assert list(table["pong_cpu"]) == [1]
    assert table["spread"].isna().all()


def test_runs_and_variants_are_never_mixed(tmp_path: Path) -> None:
    usual = builders.a_burst()
    other = builders.a_burst(variant="c11", ticks=(1, 7, 7))
    table = measure_pairs(tmp_path, usual, other)
    medians = table.set_index("variant")["median_ns"] / TICK
    assert medians.to_dict() == pytest.approx({"c11": 7, "cmpxchg": 501.5})


def test_relations_are_listed_nearest_first(tmp_path: Path) -> None:
    pairs = measure_pairs(
        tmp_path,
        builders.a_burst(pong_cpu=2, ticks=(0, 90, 90)),
        builders.a_burst(ticks=(0, 30, 30), flags=("preempted",)),
        builders.a_burst(ping_cpu=1, pong_cpu=2, ticks=(0, 110, 110)),
    )
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
    pairs = measure_pairs(tmp_path, builders.a_burst(ticks=(0, 5, 5)))
    table = matrix(pairs, [1, 0, 2])
    assert list(table.index) == [1, 0, 2]
    assert list(table.columns) == [1, 0, 2]
    assert table.loc[0, 1] == pytest.approx(5 * TICK)
    assert table.loc[1, 0] == table.loc[0, 1]
    assert table.isna().to_numpy().sum() == 7
