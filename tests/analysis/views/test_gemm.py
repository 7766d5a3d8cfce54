"""The shares and rates a person reads of products of matrices."""

import math

import pandas as pd
import pytest

from fleet.analysis.views import add_peak_shares
from fleet.store import schema

CPU = {"run_id": "r", "benchmark": "gemm", "variant": "avx512", "ping_cpu": 0, "pong_cpu": 0, "threads": 1}
PEAK = {**CPU, "operation": "peak", "point": "peak.x1", "median_ns": 1 / 200, "core_ghz": 4.0}
HOT = {**CPU, "operation": "hot.odd", "point": "hot.odd.8x8x8.huge.x1", "median_ns": 1 / 120, "core_ghz": 3.0}


def compute_shares(*rows: dict[str, object]) -> dict[str, dict[str, float]]:
    """Return the rows of `share` and `per_cycle`, by operation."""
    columns = [column.name for column in schema.TABLES["pairs"]]
    rows_with_shares = add_peak_shares(pd.DataFrame(rows).reindex(columns=columns))
    return {
        row["operation"]: row
        for row in rows_with_shares[["operation", "share", "per_cycle"]].to_dict("records")
    }


def test_a_share_of_the_peak_is_one_of_operations_a_cycle() -> None:
    shares = compute_shares(HOT, PEAK)
    assert shares["peak"]["share"] == pytest.approx(1)
    assert shares["hot.odd"]["share"] == pytest.approx(40 / 50)
    assert shares["hot.odd"]["per_cycle"] == pytest.approx(40)


@pytest.mark.parametrize(("peak", "hot"), [(math.nan, 3.0), (4.0, math.nan), (math.nan, math.nan)])
def test_a_share_is_one_of_times_where_a_frequency_is_unknown(peak: float, hot: float) -> None:
    shares = compute_shares({**HOT, "core_ghz": hot}, {**PEAK, "core_ghz": peak})
    assert shares["hot.odd"]["share"] == pytest.approx(120 / 200)


def test_a_product_without_its_peak_has_no_share() -> None:
    assert math.isnan(compute_shares(HOT, {**PEAK, "variant": "avx2"})["hot.odd"]["share"])
