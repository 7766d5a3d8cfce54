"""Bursts at points in the tables; runs without points are stored as before
schema 1.2.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from fleet.analysis.reduce import load_pairs, load_samples, pair_medians
from fleet.model import Parameters
from fleet.store import Store, schema
from fleet.store.gate import parse_record
from fleet.store.places import parse_place
from fleet.store.rows import RECORD, unpack_record
from fleet.store.verify import verify
from tests import builders

OF_POINT = Parameters(
    bytes=16384, operation="copy", sharing="own", pages="huge", threads=3
)
AT_POINT = {
    "benchmark": "bandwidth",
    "variant": "avx512",
    "point": "copy.own.16K.huge.x3",
    "unit": "byte",
    "parameters": OF_POINT,
    "cpus": (0, 1, 2),
    "other_ticks": ((1, 2, 3, 4, 5), (6, 7, 8, 9, 10)),
    "pong_cpu": 2,
    "core_mhz": (3700, 3600),
}


def test_the_parameters_of_a_point_are_columns(tmp_path: Path) -> None:
    bursts = [
        builders.a_burst(**AT_POINT),
        builders.a_burst(),
        builders.a_burst(pong_cpu=2),
    ]
    Store(tmp_path).publish(builders.a_run(), bursts)
    frame = pd.read_parquet(tmp_path / "samples")
    plain = frame[frame["point"].isna()]
    row = frame[frame["point"].notna()].iloc[0]

    assert row["point"] == "copy.own.16K.huge.x3"
    assert row["unit"] == "byte"
    assert row["operation"] == "copy"
    assert row["bytes"] == 16384
    assert row["threads"] == 3
    assert row["pages"] == "huge"
    assert row["sharing"] == "own"
    assert [list(ticks) for ticks in row["other_ticks"]] == [
        [1, 2, 3, 4, 5],
        [6, 7, 8, 9, 10],
    ]
    assert list(row["cpus"]) == [0, 1, 2]
    assert abs(row["core_ghz"] - 3.65) < 1e-6
    assert pd.isna(row["stride_bytes"])
    assert pd.isna(row["checked"])
    assert len(plain) == 2
    assert plain[[*schema.POINT, "core_ghz"]].isna().all(axis=None)
    assert verify(parse_place(tmp_path)).problems == ()


def test_the_frequency_behind_the_samples_counts_more_than_that_before_and_after(
    tmp_path: Path,
) -> None:
    burst = builders.a_burst(**AT_POINT, sample_mhz=3100)
    Store(tmp_path).publish(builders.a_run(), [burst])
    assert pd.read_parquet(tmp_path / "samples")["core_ghz"].tolist() == pytest.approx(
        [3.1]
    )


def publish_and_reduce(
    root: Path, *mhz_and_cycles: tuple[float, float]
) -> tuple[float, float]:
    """Return `median_ns` and `core_ghz` of a pair with bursts of these frequencies
    (MHz) and cycles.
    """
    alone = {name: value for name, value in AT_POINT.items() if name != "other_ticks"}
    alone |= {"cpus": (0, 2), "parameters": replace(OF_POINT, threads=2)}
    bursts = [
        builders.a_burst(
            **alone, round=place, sample_mhz=mhz, ticks=(round(cycles * 3e6 / mhz),) * 5
        )
        for place, (mhz, cycles) in enumerate(mhz_and_cycles)
    ]
    Store(root / str(len(mhz_and_cycles))).publish(builders.a_run(), bursts)
    row = load_pairs(root / str(len(mhz_and_cycles))).iloc[0]
    return row["median_ns"], row["core_ghz"]


def test_a_pair_takes_the_cycles_of_its_bursts_whatever_their_frequencies(
    tmp_path: Path,
) -> None:
    """Two bursts are at another level, of one the frequency is wrong."""
    taken = [(mhz, 1000) for mhz in (3900, 3000, 4100, 2900, 4000, 3100, 2800)]
    many = publish_and_reduce(
        tmp_path, *taken, (3000, 2000), (4000, 2000), (2000, 1200)
    )
    assert np.prod(many) == pytest.approx(
        np.prod(publish_and_reduce(tmp_path, (3000, 1000)))
    )


def test_the_frequency_of_a_pair_is_one_that_its_bursts_had(tmp_path: Path) -> None:
    taken = [
        (mhz, cycles)
        for mhz in (3000, 3100)
        for cycles in (100, 300, 1000, 3000, 10000)
    ]
    assert 3 <= publish_and_reduce(tmp_path, *taken)[1] <= 3.1


def test_a_point_counts_in_the_digest(tmp_path: Path) -> None:
    digests = set()
    for number, changes in enumerate(
        ({}, {"core_mhz": (1, 1)}, {"point": "other"}, {"other_ticks": ()})
    ):
        root = tmp_path / str(number)
        path = Store(root).publish(
            builders.a_run(), [builders.a_burst(**{**AT_POINT, **changes})]
        )
        record = parse_record(
            unpack_record(pq.read_metadata(root / path).metadata[RECORD])
        )
        digests.add(record.row["content_sha256"])
        assert verify(parse_place(root)).problems == ()
    assert len(digests) == 4


def test_each_point_is_a_row_of_the_pairs_in_ns_a_unit_by_all_threads(
    tmp_path: Path,
) -> None:
    points = [
        builders.a_burst(
            **{
                **AT_POINT,
                "point": name,
                "parameters": replace(OF_POINT, bytes=size),
                "round": round_,
                "ticks": (level,) * 5,
                "other_ticks": ((level,) * 5,) * 2,
            }
        )
        for name, size, level in (
            ("copy.16K", 1 << 14, 1000),
            ("copy.1M", 1 << 20, 4000),
        )
        for round_ in range(3)
    ]
    Store(tmp_path).publish(builders.a_run(), [*points, builders.a_burst()])
    pairs = load_pairs(tmp_path)
    medians = pairs[pairs["point"].notna()].set_index("point")["median_ns"]
    ns = 1e9 / builders.TICKS_PER_SECOND / builders.ITERATIONS / 3
    assert dict(medians) == pytest.approx({"copy.16K": 1000 * ns, "copy.1M": 4000 * ns})
    assert list(pairs["bursts"]) == [3, 3, 1]
    assert list(pairs["threads"])[:2] == [3, 3]
    assert pairs["core_ghz"].iloc[0] == pytest.approx(3.65)
    assert pairs[["bytes", "operation", "threads", "core_ghz"]].iloc[2].isna().all()
    assert list(pairs["unit"].astype(object).where(pairs["unit"].notna(), None)) == [
        "byte",
        "byte",
        None,
    ]


def test_where_all_units_are_counted_a_number_is_a_unit_of_all_and_says_who_got_most(
    tmp_path: Path,
) -> None:
    bursts = [
        builders.a_burst(
            **AT_POINT
            | {
                "benchmark": "contend",
                "unit": "operation",
                "point": "faa.own.x3",
                "parameters": Parameters(
                    operation="faa", sharing="own", pages="huge", threads=3
                ),
                "round": round_,
                "iterations": 1000,
                "warmup": 1,
                "ticks": (1, 6000, 6000),
                "other_ticks": None,
                "other_units": ((0, 1000, 2000), (7, 1000, 0)),
            }
        )
        for round_ in range(3)
    ]
    path = Store(tmp_path).publish(builders.a_run(), bursts)
    row, *_ = pq.read_table(tmp_path / path).to_pylist()
    assert row["other_units"] == [[0, 1000, 2000], [7, 1000, 0]]
    assert verify(parse_place(tmp_path)).problems == ()
    from_file = load_pairs(tmp_path)
    of_frame = pair_medians(load_samples(tmp_path))
    for pairs in (from_file, of_frame):
        assert pairs["median_ns"].iloc[0] == pytest.approx(
            6000 / 3000 * 1e9 / builders.TICKS_PER_SECOND
        )
        assert pairs["least_share"].iloc[0] == pytest.approx(1000 / 2000)
        assert pairs["most_share"].iloc[0] == pytest.approx(3000 / 2000)
