"""Numbers that must fit together: each check stays silent for numbers that do, and
finds a planted breach.
"""

import math
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fleet.analysis.reduce import (
    CHECKS,
    arrange_memory,
    as_float64,
    check_run,
    load_cpus,
    load_pairs,
    load_run,
    select_breaches,
)
from fleet.analysis.report import render
from fleet.analysis.views import show_run
from fleet.store import schema
from tests import memory
from tests.memory import K, M

PEAK = {"benchmark": "gemm", "threads": 1, "pong_cpu": 0}
STREAM = {
    "benchmark": "bandwidth",
    "bytes": 24 * K,
    "threads": 1,
    "pong_cpu": 0,
    "core_ghz": 4.0,
}
# a reading takes 20 ns
RUN = {
    "clock_cost_ticks": 50,
    "ticks_per_second": 2_500_000_000,
}


def find_in_run(root: Path) -> pd.DataFrame:
    pairs = as_float64(load_pairs(root))
    (run_id,) = pairs["run_id"].unique()
    run = load_run(root, run_id)
    memory_rows = arrange_memory(pairs, load_cpus(root))
    return select_breaches(check_run(run, pairs, memory_rows))


def change_levels(
    costs: memory.Costs, setting: str, **levels: float
) -> dict[str, dict[str, float]]:
    return {
        name: {**cost, **(levels if name == setting else {})}
        for name, cost in costs.items()
    }


def find_in_rows(*rows: dict[str, Any], **run: Any) -> pd.DataFrame:
    """Find the breaches in rows of `pairs` that have these values and otherwise
    none.
    """
    columns = [column.name for column in schema.TABLES["pairs"]]
    usual = {
        "host_id": "h",
        "run_id": "r",
        "relation": "llc",
        "variant": "v",
        "ping_cpu": 0,
        "pong_cpu": 1,
    }
    frame = pd.DataFrame([{**usual, "flags": "", **row} for row in rows]).reindex(
        columns=columns
    )
    cpus = pd.DataFrame(columns=[column.name for column in schema.TABLES["cpus"]])
    return select_breaches(
        check_run({**RUN, **run}, frame, arrange_memory(frame, cpus))
    )


def test_numbers_that_fit_together_are_no_finding(tmp_path: Path) -> None:
    memory.publish(tmp_path)
    assert find_in_run(tmp_path).empty


def test_a_load_from_l1_takes_whole_cycles(tmp_path: Path) -> None:
    memory.publish(tmp_path, loads=change_levels(memory.LOADS, "random", L1=1.11))
    breaches = find_in_run(tmp_path)
    assert list(breaches["check"]) == ["l1_cycles"]
    assert breaches["says"][0] == "chase random on CPU 0: 4.44 cycles"


def test_whole_cycles_too_many_for_l1_are_found(tmp_path: Path) -> None:
    memory.publish(
        tmp_path, loads=change_levels(memory.LOADS, "rising", L1=2.0, L2=2.0)
    )
    assert "8.00 cycles" in find_in_run(tmp_path)["says"][0]


def test_a_ladder_rises(tmp_path: Path) -> None:
    memory.publish(
        tmp_path,
        loads=change_levels(memory.LOADS, "random", LLC=3.0),
        rates=change_levels(memory.BYTES, "read", mem=0.007),
    )
    breaches = find_in_run(tmp_path)
    assert set(breaches["check"]) == {"ladder_order"}
    assert "chase/mov random: LLC takes 1/1.17 of L2" in set(breaches["says"])
    assert {
        f"bandwidth/avx2 read{by}: mem takes 1/1.14 of LLC" for by in ("", " x2")
    } < set(breaches["says"])


def test_nothing_is_faster_than_the_ports_of_a_core(tmp_path: Path) -> None:
    memory.publish(tmp_path, rates=change_levels(memory.BYTES, "read", L1=1 / 450))
    pairs = as_float64(load_pairs(tmp_path)).assign(variant="avx")
    breaches = select_breaches(
        check_run(RUN, pairs, arrange_memory(pairs, load_cpus(tmp_path)))
    )
    assert set(breaches["check"]) == {"port_limit"}
    assert "read.own.8K.huge.x1: 450 GB/s, 384 at most" in set(breaches["says"])
    fits = select_breaches(
        check_run(
            RUN,
            pairs.assign(variant="avx512"),
            arrange_memory(pairs.assign(variant="avx512"), load_cpus(tmp_path)),
        )
    )
    assert fits.empty


@pytest.mark.parametrize(
    ("operation", "variant", "model", "limit"),
    [
        ("read", "avx", None, 96),
        ("read", "avx", "Intel(R) Xeon(R) Processor", 96),
        ("read", "avx", "AMD EPYC 9755 128-Core Processor", 64),
        ("write", "avx512", "AMD EPYC 9755 128-Core Processor", 64),
        ("copy", "avx512", None, 128),
        ("modify", "sse2", None, 64),
        ("read", "neon", None, 128),
        ("read", "rvv", None, None),
        ("zero", "stosb", None, None),
    ],
)
def test_each_operation_has_the_limit_of_the_vendors_widest_core(
    operation: str, variant: str, model: str | None, limit: int | None
) -> None:
    point = f"{operation}.own.24K.huge.x1"
    row = {**STREAM, "operation": operation, "variant": variant, "point": point}
    for share, checks in ((0.99, []), (1.09, ["port_limit"] if limit else [])):
        faster = {**row, "median_ns": 1 / (share * 4.0 * (limit or 1000))}
        assert list(find_in_rows(faster, cpu_model=model)["check"]) == checks


@pytest.mark.parametrize(
    ("vendor", "family", "model", "read", "write", "operations"),
    [
        ("AuthenticAMD", 0x19, 0x11, 64, 32, 64),  # Zen 4
        ("AuthenticAMD", 0x1A, 0x02, 128, 64, 128),  # Zen 5
        ("GenuineIntel", 6, 143, 128, 64, 128),  # Sapphire Rapids
        ("GenuineIntel", 6, 85, 128, 64, 128),  # Skylake-SP
    ],
)
def test_a_known_model_has_the_limits_of_its_own_core(
    vendor: str, family: int, model: int, read: int, write: int, operations: int
) -> None:
    run = {
        "cpu_vendor": vendor,
        "cpu_family": str(family),
        "cpu_model_number": str(model),
    }
    bytes_moved = {**STREAM, "variant": "avx512"}
    peak = {**PEAK, "variant": "avx512-bf16", "point": "peak.x1", "core_ghz": 4.0}
    for share, breached in ((0.99, False), (1.09, True)):
        for operation, limit in (("read", read), ("write", write)):
            row = {
                **bytes_moved,
                "operation": operation,
                "point": f"{operation}.own.24K.huge.x1",
            }
            breaches = find_in_rows(
                {**row, "median_ns": 1 / (share * 4.0 * limit)}, **run
            )
            assert list(breaches["check"]) == ["port_limit"] * breached
        breaches = find_in_rows(
            {**peak, "median_ns": 1 / (share * 4.0 * operations)}, **run
        )
        assert list(breaches["check"]) == ["gemm_units"] * breached


def test_a_group_moves_no_more_than_its_cpus_alone(tmp_path: Path) -> None:
    memory.publish(tmp_path)
    pairs = as_float64(load_pairs(tmp_path))
    both = (
        (pairs["threads"] == 2)
        & (pairs["operation"] == "write")
        & (pairs["bytes"] >= 32 * M)
    )
    pairs.loc[both, "median_ns"] /= 1.2
    breaches = select_breaches(
        check_run(RUN, pairs, arrange_memory(pairs, load_cpus(tmp_path)))
    )
    assert list(breaches["check"]) == ["group_rate"]
    assert (
        breaches["says"][0] == "bandwidth/avx2 write mem: 80 GB/s by 2 CPUs, 33 by one"
    )


def test_one_buffer_is_no_slower_than_a_buffer_each(tmp_path: Path) -> None:
    memory.publish(tmp_path)
    pairs = as_float64(load_pairs(tmp_path))
    same = pairs[(pairs["threads"] == 2) & (pairs["operation"] == "read")]
    same = same.assign(sharing="one", point=same["point"].str.replace(".own.", ".one."))
    for slower, checks in ((1.0, []), (1.3, ["one_buffer"])):
        one_buffer = same.assign(median_ns=same["median_ns"] * slower)
        rows = pd.concat([pairs, one_buffer])
        memory_rows = arrange_memory(rows, load_cpus(tmp_path))
        breaches = select_breaches(check_run(RUN, rows, memory_rows))
        assert list(breaches["check"]) == checks


READWRITE = {"benchmark": "readwrite", "median_ns": 100.0}
CONTENDED = {
    "benchmark": "contend",
    "sharing": "one",
    "threads": 2,
    "point": "one.x2",
    "operation": "faa",
}
IN_WORDS, IN_OWN = (
    {**CONTENDED, "sharing": sharing, "point": sharing} for sharing in ("words", "own")
)
MESSAGE = {"benchmark": "message", "point": "x1"}
ALONE = {**PEAK, "point": "peak.x1", "median_ns": 0.002}
TOGETHER = {**PEAK, "point": "peak.x2", "threads": 2, "pong_cpu": 1}


@pytest.mark.parametrize(
    ("check", "one", "other", "fits", "breach"),
    [
        ("message_readwrite", READWRITE, MESSAGE, (101.0, 179.0), (99.0, 181.0)),
        (
            "gemm_peak",
            ALONE,
            {**PEAK, "point": "hot.odd.256x256x256"},
            (0.00198, 0.003),
            (0.0019, 0.001),
        ),
        ("group_rate", ALONE, TOGETHER, (0.001, 0.0009), (0.0008, 0.0005)),
        (
            "contend_places",
            {**IN_OWN, "median_ns": 1.0},
            IN_WORDS,
            (0.96, 5.0),
            (0.94, 0.5),
        ),
        (
            "contend_places",
            {**IN_WORDS, "median_ns": 5.0},
            CONTENDED,
            (4.3, 9.0),
            (4.2, 2.0),
        ),
        (
            "contend_own",
            {**IN_OWN, "median_ns": 1.0},
            {**IN_OWN, "threads": 4},
            (0.4, 0.54),
            (0.56, 1.0),
        ),
    ],
)
def test_a_breach_between_two_benchmarks_is_found(
    check: str,
    one: dict[str, Any],
    other: dict[str, Any],
    fits: list[float],
    breach: list[float],
) -> None:
    for ns in fits:
        assert find_in_rows(one, {**other, "median_ns": ns}).empty
    for ns in breach:
        breaches = find_in_rows(one, {**other, "median_ns": ns})
        assert list(breaches["check"]) == [check]
        assert breaches["value"][0] >= 1
    assert find_in_rows({**other, "median_ns": breach[0]}).empty


def test_what_the_intervals_leave_open_is_no_breach() -> None:
    own = {**IN_OWN, "median_ns": 1.0}
    words = {**IN_WORDS, "median_ns": 0.93}
    for spreads, checks in (
        ((0.01, 0.01), ["contend_places"]),
        ((0.01, 0.1), []),
        ((0.1, 0.01), []),
    ):
        rows = [
            {**row, "spread": spread}
            for row, spread in zip((own, words), spreads, strict=True)
        ]
        assert list(find_in_rows(*rows)["check"]) == checks


def test_a_peak_above_what_the_units_of_a_core_can_do_is_found() -> None:
    peak = {**PEAK, "variant": "avx512", "point": "peak.x1", "core_ghz": 4.0}
    for ns, checks in ((1 / 256, []), (1 / 300, ["gemm_units"])):
        breaches = find_in_rows({**peak, "median_ns": ns})
        assert list(breaches["check"]) == checks
    unknown_clock = {**peak, "core_ghz": math.nan, "median_ns": 1 / 300}
    assert find_in_rows(unknown_clock).empty


@pytest.mark.parametrize(
    ("part", "limit"), [("0xd0c", 16), ("0xd4f", 32), ("0xd85", 48)]
)
def test_a_core_of_arms_multiplies_in_as_many_pipelines_as_it_has(
    part: str, limit: int
) -> None:
    run = {"cpu_vendor": "0x41", "cpu_family": "8", "cpu_model_number": part}
    for share, checks in ((0.99, []), (1.09, ["gemm_units"])):
        ns = 1 / (share * 4.0 * limit)
        peak = {
            **PEAK,
            "variant": "neon",
            "point": "peak.x1",
            "core_ghz": 4.0,
            "median_ns": ns,
        }
        assert list(find_in_rows(peak, **run)["check"]) == checks


def test_a_peak_at_a_lower_frequency_than_its_product_is_no_breach() -> None:
    peak = {**PEAK, "point": "peak.x1", "core_ghz": 2.5, "median_ns": 0.002}
    product = {
        **PEAK,
        "point": "hot.odd.256x256x256",
        "core_ghz": 3.0,
        "median_ns": 0.0018,
    }
    assert find_in_rows(peak, product).empty
    as_slow = {**product, "core_ghz": 2.5}
    breaches = find_in_rows(peak, as_slow)
    assert list(breaches["check"]) == ["gemm_peak"]


def test_threads_get_no_more_of_the_memory_beside_a_chase_than_alone(
    tmp_path: Path,
) -> None:
    memory.publish(tmp_path)
    pairs = as_float64(load_pairs(tmp_path))
    beside = pairs[pairs["point"].str.startswith("read.own")][:1].assign(
        benchmark="loaded", load_mbps=None
    )
    alone = 1 / dict(memory.BYTES)["read"]["mem"]
    for rate, checks in ((1.02 * alone, []), (1.04 * alone, ["loaded_rate"])):
        full = beside.assign(
            operation="read", threads=2, other_rate=rate, point="read.full.x2.64M.huge"
        )
        breaches = select_breaches(
            check_run(
                RUN,
                pd.concat([pairs, full]),
                arrange_memory(pd.concat([pairs, full]), load_cpus(tmp_path)),
            )
        )
        assert list(breaches["check"]) == checks


@pytest.mark.long
def test_breaches_are_warnings_of_show_and_of_the_report(tmp_path: Path) -> None:
    run = memory.publish(tmp_path, loads=change_levels(memory.LOADS, "random", L1=1.11))
    breach = "a load from L1 does not take a whole number of cycles from 3 to 6"
    warnings = show_run(tmp_path, run.run_id).partition("Warnings")[2]
    assert f"l1_cycles: {breach} (1 case): chase random" in warnings
    page = render(tmp_path, [run.run_id])
    assert breach in page
    lines = dict(
        re.findall(r'<th scope="row">(\w+)</th>(<td class="text">.*)</tr>', page)
    )
    assert re.search(
        r"chase random on CPU 0: 4\.44 cycles</td><td>2</td><td>1</td>",
        lines["l1_cycles"],
    )
    assert lines["ladder_order"].endswith("<td>0</td>")
    assert "gemm_peak" not in lines


def test_every_check_is_explained_among_the_flags() -> None:
    page = (Path(__file__).parents[3] / "docs" / "flags.md").read_text()
    for check in CHECKS:
        assert f"| `{check}` |" in page
