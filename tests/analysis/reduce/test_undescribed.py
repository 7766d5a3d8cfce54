"""Benchmarks that nobody described: the raw time of a unit, whichever CPUs they
are of.
"""

import pandas as pd
import pyarrow as pa
import pytest

from fleet.analysis.reduce import SAMPLE_COLUMNS, read_bursts, samples_long
from fleet.analysis.views import tabulate_points
from fleet.store.schema import arrow_schema


@pytest.mark.parametrize("other_ticks", [None, [[100, 100]], [[900, 900], [500, 500]]])
def test_no_time_is_halved_or_joined_with_another_threads(other_ticks: object) -> None:
    row = dict.fromkeys(SAMPLE_COLUMNS) | {
        "benchmark": "unheard_of",
        "warmup": 0,
        "iterations": 10,
        "ns_per_tick": 0.5,
    }
    frame = pd.DataFrame([row | {"ticks": [200, 400], "other_ticks": other_ticks}])
    rows = pa.Table.from_pandas(
        frame,
        pa.schema(
            [
                field.with_nullable(True)
                for field in arrow_schema("samples", SAMPLE_COLUMNS)
            ]
        ),
    )
    assert read_bursts(rows).latencies.tolist() == [10.0, 20.0]
    assert samples_long(frame)["latency_ns"].tolist() == [10.0, 20.0]


@pytest.mark.parametrize("point", [None, "some.1K"])
def test_they_have_a_table_of_their_points(point: str | None) -> None:
    row = {
        "benchmark": "unheard_of",
        "variant": "c11",
        "point": point,
        "relation": "llc",
        "median_ns": 84.25,
    }
    (table,) = tabulate_points(
        pd.DataFrame([row | {"bursts": 5, "flagged_bursts": 0}])
    ).tables
    assert table.titles == ("point", "llc")
    assert table.lines == [(point or "all", "84.2")]
