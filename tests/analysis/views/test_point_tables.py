"""The tables of benchmarks with points: states of fetch, blocks of interleave, products
of matrices.
"""

import math

import pandas as pd
import pytest

from fleet.analysis.views import add_peak_shares, render_tables, tabulate_points
from fleet.store import schema

COUNTS = {"variant": "mov", "relation": "llc", "bursts": 5, "flagged_bursts": 0}


def make_fetch_row(state: str, access: str, median_ns: float) -> dict[str, object]:
    order, operation = (
        (access, "read") if access in ("chase", "stream") else ("chase", access)
    )
    point = {
        "state": state,
        "order": order,
        "operation": operation,
        "stride_bytes": 256.0,
    }
    return {**COUNTS, "benchmark": "fetch", **point, "median_ns": median_ns}


def make_interleave_row(
    sharing: str, block: float, median_ns: float
) -> dict[str, object]:
    point = {"sharing": sharing, "block_bytes": block, "operation": "write"}
    return {**COUNTS, "benchmark": "interleave", **point, "median_ns": median_ns}


def test_states_are_rows_and_each_way_of_access_has_a_table() -> None:
    rows = [
        make_fetch_row("memory-walked", "chase", 150.0),
        make_fetch_row("own", "chase", 4.4),
        make_fetch_row("both", "swap", 80),
    ]
    lines = render_tables(tabulate_points(pd.DataFrame(rows))).splitlines()
    assert [
        line.split() for line in lines if line.startswith(("own", "memory", "both"))
    ] == [
        ["own", "4.40"],
        ["memory-walked", "150.0"],
        ["both", "80.0"],
    ]


def test_a_boundary_costs_the_difference_of_a_blocks_lines() -> None:
    rows = [
        make_interleave_row("own", 1024.0, 1.0),
        make_interleave_row("shared", 1024.0, 3.5),
        make_interleave_row("shared", 64.0, 5.0),
    ]
    lines = render_tables(tabulate_points(pd.DataFrame(rows))).splitlines()
    assert [
        line.split() for line in lines if line.strip().startswith(("1K", "64"))
    ] == [
        ["64", "-", "5.00", "-", "-"],
        ["1K", "1.00", "3.50", "3.50", "40.0"],
    ]


def make_contend_row(
    sharing: str, median_ns: float, *shares: float
) -> dict[str, object]:
    point = {
        "benchmark": "contend",
        "operation": "faa",
        "sharing": sharing,
        "threads": 2.0,
    }
    return {
        **COUNTS,
        **point,
        "median_ns": median_ns,
        "least_share": shares[0],
        "most_share": shares[1],
    }


def test_below_what_all_threads_did_stands_who_did_the_least_and_the_most() -> None:
    rows = [
        make_contend_row("own", 1.0, 0.999, 1.001),
        make_contend_row("one", 19.8, 0.9, 1.1),
    ]
    text = render_tables(tabulate_points(pd.DataFrame(rows)))
    lines = [line.split() for line in text.splitlines()]
    assert lines[2:5] == [
        ["operation", "one", "own"],
        ["faa", "19.8", "1.00"],
        ["0.90-1.10", "1.00-1.00"],
    ]
    assert "as shares of the mean" in text


def test_words_of_one_line_are_set_against_lines_of_their_own() -> None:
    rows = [
        make_contend_row("own", 2.0, 1.0, 1.0),
        make_contend_row("words", 9.0, 0.9, 1.1),
    ]
    text = render_tables(tabulate_points(pd.DataFrame(rows)))
    lines = [line.split() for line in text.splitlines()]
    assert lines[2:4] == [
        ["operation", "words", "own", "words/own"],
        ["faa", "9.00", "2.00", "4.5"],
    ]
    assert "words/own: what false sharing costs" in text


def test_nearer_relations_come_first() -> None:
    rows = [
        {**make_contend_row("own", 1.0, 1.0, 1.0), "relation": name}
        for name in ("llc", "cluster")
    ]
    titles = [table.title for table in tabulate_points(pd.DataFrame(rows)).tables]
    assert titles == ["cluster", "llc"]


CPU = {
    "run_id": "r",
    "benchmark": "gemm",
    "variant": "avx512",
    "ping_cpu": 0,
    "pong_cpu": 0,
    "threads": 1,
}
PEAK = {
    **CPU,
    "operation": "peak",
    "point": "peak.x1",
    "median_ns": 1 / 200,
    "core_ghz": 4.0,
}
HOT = {
    **CPU,
    "operation": "hot.odd",
    "point": "hot.odd.8x8x8.huge.x1",
    "median_ns": 1 / 120,
    "core_ghz": 3.0,
}


def compute_shares(*rows: dict[str, object]) -> dict[str, dict[str, float]]:
    """Return the rows of `share` and `per_cycle`, by operation."""
    columns = [column.name for column in schema.TABLES["pairs"]]
    rows_with_shares = add_peak_shares(pd.DataFrame(rows).reindex(columns=columns))
    return {
        row["operation"]: row
        for row in rows_with_shares[["operation", "share", "per_cycle"]].to_dict(
            "records"
        )
    }


def test_a_share_of_the_peak_is_one_of_operations_a_cycle() -> None:
    shares = compute_shares(HOT, PEAK)
    assert shares["peak"]["share"] == pytest.approx(1)
    assert shares["hot.odd"]["share"] == pytest.approx(40 / 50)
    assert shares["hot.odd"]["per_cycle"] == pytest.approx(40)


@pytest.mark.parametrize(
    ("peak", "hot"), [(math.nan, 3.0), (4.0, math.nan), (math.nan, math.nan)]
)
def test_a_share_is_one_of_times_where_a_frequency_is_unknown(
    peak: float, hot: float
) -> None:
    shares = compute_shares({**HOT, "core_ghz": hot}, {**PEAK, "core_ghz": peak})
    assert shares["hot.odd"]["share"] == pytest.approx(120 / 200)


def test_a_product_without_its_peak_has_no_share() -> None:
    assert math.isnan(
        compute_shares(HOT, {**PEAK, "variant": "avx2"})["hot.odd"]["share"]
    )
