"""Numbers in the unit that people know: times as ns, bytes and operations as rates."""

import json
import math

import numpy as np
import pandas as pd
import pytest

from fleet.analysis.base import (
    SHARED,
    convert_change,
    describe_units,
    format_csv,
    format_json,
    format_value,
)
from fleet.model import KINDS, SHIPPED, Relation


@pytest.mark.parametrize(
    ("benchmark", "ns", "text"),
    [
        ("cas", 8.125, "8.1"),
        ("fetch", 0.925, "0.93"),
        ("chase", 146.62, "146.6"),
        ("bandwidth", 0.025, "40.0"),
        ("gemm", 0.000317, "3155"),
    ],
)
def test_a_number_has_the_unit_and_the_digits_of_its_benchmark(
    benchmark: str, ns: float, text: str
) -> None:
    assert format_value(SHIPPED[benchmark], ns) == text


def test_what_takes_less_time_for_an_operation_is_a_higher_rate() -> None:
    row = {"benchmark": "gemm", "ratio": 0.8, "low": None, "high": None}
    assert convert_change(row)[0] == pytest.approx(0.25)
    assert convert_change({**row, "benchmark": "fetch"})[0] == pytest.approx(-0.2)


@pytest.mark.parametrize(
    ("benchmarks", "text"),
    [
        (["cas", "readwrite"], "one-way latency in ns"),
        (["bandwidth"], "GB/s"),
        (
            ["fetch", "gemm", "bandwidth", "gemm"],
            "fetch: ns per line; gemm: Gop/s; bandwidth: GB/s",
        ),
        (["unheard_of"], "ns per unit"),
    ],
)
def test_the_units_of_several_benchmarks_are_named(
    benchmarks: list[str], text: str
) -> None:
    assert describe_units(benchmarks) == text


def test_every_relation_has_its_words() -> None:
    assert list(SHARED) == [*map(str, Relation), *KINDS]


def test_what_is_unknown_in_an_array_is_null_for_programs() -> None:
    levels = [np.array([0.5, math.nan], dtype=np.float32), None, np.array(["A", "B"])]
    rows = pd.DataFrame(
        {"levels": pd.Series(levels, dtype=object), "ns": [1.0, math.nan, 2.0]}
    )
    expected = [
        {"levels": [0.5, None], "ns": 1},
        {"levels": None, "ns": None},
        {"levels": ["A", "B"], "ns": 2},
    ]
    assert json.loads(format_json(rows)) == expected
    assert format_csv(rows) == 'levels,ns\n"[0.5, null]",1.0\n,\n"[""A"", ""B""]",2.0\n'
