"""The benchmark gemm: its points, its shapes, and the exact check of every burst."""

import re
from pathlib import Path

import pytest

from tests import needs
from tests.native.agent import (
    Record,
    bursts,
    decode,
    failures,
    measure,
    notes,
    run,
    wrong,
)
from tests.native.build import build
from tests.native.emulated import emulator, measure_emulated
from tests.native.planted import neighbour_twice
from tests.native.targets import AARCH64, CROSS, Target, make_troubled

KINDS = (
    "peak",
    "hot.rows",
    "hot.odd",
    "hot.blocked",
    "stream",
    "stream.prefetch",
    "deep",
)
QUICK = ("--rounds", "2", "--samples", "2", "--iterations", "2")
SMALL = ("-b", "gemm", "--sizes", "1M", "--pages", "base", *QUICK)


@pytest.fixture(scope="module")
def gemm() -> list[Record]:
    needs.cpus(2)
    return measure(*SMALL, "--variant", "all")


def kind(burst: Record) -> str:
    operation: str = burst["parameters"]["operation"]
    return operation


def shape(point: str) -> tuple[int, ...]:
    (sizes,) = re.findall(r"\.(\d+)x(\d+)x(\d+)\.", point)
    return tuple(map(int, sizes))


@pytest.mark.long
def test_every_variant_multiplies_at_every_point_and_exactly(
    gemm: list[Record],
) -> None:
    assert not wrong(gemm)
    products = {
        (b["variant"], kind(b), b["parameters"]["threads"]) for b in bursts(gemm)
    }
    variants = {choice["variant"] for choice in gemm[0]["plan"]["benchmarks"]}
    assert "c11" in variants
    # by other work on this machine
    starved = {failed["variant"] for failed in failures(gemm)}
    expected = {(v, k) for v in variants - starved for k in KINDS}
    assert (
        expected
        <= {(v, k) for v, k, _ in products}
        <= {(v, k) for v in variants for k in KINDS}
    )
    assert len({threads for *_, threads in products}) == 2
    assert all(
        burst.get("checked") is (None if kind(burst) == "peak" else True)
        for burst in bursts(gemm)
    )


def test_a_sample_is_whole_products_of_2mnk_operations(gemm: list[Record]) -> None:
    for burst in bursts(gemm):
        assert burst["unit"] == "operation"
        if kind(burst) != "peak":
            m, n, k = shape(burst["point"])
            assert burst["iterations"] == 2 * 2 * m * n * k


def test_rows_have_an_even_number_of_lines_only_where_that_is_asked(
    gemm: list[Record],
) -> None:
    for burst in bursts(gemm):
        if kind(burst) not in ("peak", "hot.blocked"):
            lines, rest = divmod(burst["parameters"]["stride_bytes"], 64)
            assert rest == 0
            assert lines % 2 == (0 if kind(burst) == "hot.rows" else 1)


def test_the_core_s_frequency_is_measured_behind_the_samples(
    gemm: list[Record],
) -> None:
    frequencies = [burst["sample_mhz"] for burst in bursts(gemm)]
    if (
        gemm[0]["ticks_per_second"] / gemm[0]["clock_quantum_ticks"] < 9e7
    ):  # too few steps for a short run
        assert all(mhz is None or 100 < mhz < 10_000 for mhz in frequencies)
    else:
        assert all(100 < mhz < 10_000 for mhz in frequencies)


def test_what_streams_takes_the_memory_asked_for_and_names_it(
    gemm: list[Record],
) -> None:
    for burst in bursts(gemm):
        if kind(burst).startswith(("stream", "deep")):
            assert ".1M." in burst["point"]
            assert burst["parameters"]["bytes"] > 1 << 20


def test_the_page_for_people_has_rates() -> None:
    """Units take 0.005 ns, more or less."""
    rates = {}
    for scatter in ("0", "0.5"):
        settings = {"UNIT_US": "0.000005", "SCATTER": scatter}
        plan = (
            "-b",
            "gemm",
            "-v",
            "c11",
            "-c",
            "0",
            "--threads",
            "1",
            "-r",
            "1",
            "--iterations",
            "9999",
        )
        page = run(
            *plan, "--sizes", "1M", binary=build(simulated=True), env=settings
        ).stdout
        assert page.startswith("gemm, variant c11: Gop/s\n")
        lines = re.findall(r"^ *(\S+)\.x1 from CPU 0 +([0-9.]+)$", page, re.M)
        assert lines[0][0] == "peak"
        assert len(lines) == len(KINDS)
        rates[scatter] = {float(rate) for _, rate in lines}
    assert rates["0"] <= {200.0, 200.01, 200.02}  # of whole ticks
    assert len(rates["0.5"]) > 2


@pytest.mark.parametrize(
    "sizes", ["4x8x1", "12x16x7", "4x8x300", "20x8x1", "64x96x128"]
)
def test_odd_shapes_are_exact_too(sizes: str) -> None:
    records = measure(*SMALL, "-v", "c11", "--threads", "1", "--shape", sizes)
    assert not wrong(records)
    assert {shape(b["point"]) for b in bursts(records) if kind(b) != "peak"} == {
        tuple(map(int, sizes.split("x")))
    }


def test_one_shape_is_named_that_fits_all_variants_and_none_ends_a_run_of_others() -> (
    None
):
    plan = ("-b", "gemm", "-v", "gemm=all", "-c", "0", "--threads", "1", "--shape")
    refused = run(*plan, "65x65x65", "--forecast").stderr
    (fitting,) = re.findall(r"nearest shape for all its variants is (\S+)", refused)
    assert run(*plan, fitting, "--forecast").returncode == 0
    largest = re.findall(
        r"variants is (\S+)", run(*plan, "4096x4096x4095", "--forecast").stderr
    )
    assert run(*plan, *largest, "--forecast").returncode == 0
    beside = run(*plan, "65x65x65", "-b", "gemm,clock", "--forecast")
    (expected,) = decode(beside.stdout)
    assert "clock" in {row["benchmark"] for row in expected["benchmarks"]}
    assert (
        sum(note.startswith("gemm/") and fitting in note for note in expected["notes"])
        >= 1
    )
    (expected,) = decode(
        run(
            "-b",
            "gemm,clock",
            "-v",
            "gemm=c11",
            "--shape",
            "5x5x5",
            "-c",
            "0",
            "--forecast",
        ).stdout
    )
    assert [row["benchmark"] for row in expected["benchmarks"]] == ["clock"]


@pytest.mark.parametrize(
    ("variant", "reason"),
    [
        (
            "more",
            r"4 of 64 results differ, first at row 3, column 3: (-?\d+), not (-?\d+)",
        ),
        (
            "fewer",
            (
                r"16 of 64 results differ, first at row 0, column 3: no whole number,"
                r" bits -1, not -?\d+"
            ),
        ),
        (
            "half",
            (
                r"4 of 64 results differ, first at row 3, column 3: no whole number,"
                r" bits -?\d+, not -?\d+"
            ),
        ),
    ],
)
def test_a_wrong_result_fails_the_burst_and_is_named(variant: str, reason: str) -> None:
    plan = (*SMALL, "-v", variant, "--threads", "1", "--shape", "8x8x5")
    records = measure(*plan, binary=build(make_troubled("faulty")))
    assert {kind(burst) for burst in bursts(records)} == {"peak"}
    wrong_by_kind = {
        record["point"].split(".8x8")[0]: re.fullmatch(reason, record["reason"])
        for record in failures(records)
    }
    assert set(wrong_by_kind) == set(KINDS) - {"peak"}
    assert all(
        wrong_by_kind[kind] for kind in KINDS if kind.startswith(("hot", "stream"))
    ), failures(records)
    if variant == "more" and (first := wrong_by_kind["hot.odd"]):
        assert int(first[1]) == int(first[2]) + 1


def test_no_variant_of_this_machine_is_left_out(gemm: list[Record]) -> None:
    assert not [text for text in notes(gemm) if text.startswith("gemm/")]


@pytest.mark.slow
@pytest.mark.parametrize("cpu", AARCH64.emulators)
@pytest.mark.parametrize("sizes", ["64x96x64", "8x24x16", "24x48x48"])
def test_every_loop_of_aarch64_is_exact(cpu: str, sizes: str) -> None:
    plan = (*SMALL, "-v", "all", "--threads", "1", "--shape", sizes)
    records = measure_emulated(AARCH64, *plan, cpu=cpu)
    assert not wrong(records)
    variants = {choice["variant"] for choice in records[0]["plan"]["benchmarks"]}
    assert variants == {"neon", "c11"} | ({"bfmmla", "i8mm"} if cpu == "max" else set())


@pytest.mark.slow
@pytest.mark.parametrize("target", CROSS, ids=lambda target: target.name)
def test_gemm_in_c_is_exact_on_every_architecture(target: Target) -> None:
    plan = (*SMALL, "-v", "all", "--threads", "1", "--shape", "48x48x48")
    records = measure_emulated(target, *plan, cpu=next(iter(target.emulators)))
    assert not wrong(records)
    assert [choice["variant"] for choice in records[0]["plan"]["benchmarks"]] == ["c11"]
    assert (
        len(bursts(records)) + len(failures(records))
        == records[0]["bursts"]
        == 2 * len(KINDS)
    )


@pytest.mark.slow
def test_a_product_that_a_loop_adds_to_another_sum_fails_its_bursts(
    tmp_path: Path,
) -> None:
    good = build(AARCH64, "-O2 -static")
    binary = neighbour_twice(
        AARCH64, good, "aarch64_gemm_neon", "fmla", tmp_path / "agent"
    )
    plan = (*SMALL, "-v", "neon", "--threads", "1", "--shape", "48x48x48")
    records = measure(*plan, prefix=emulator(AARCH64), binary=binary)
    # which have other loops
    assert {kind(burst) for burst in bursts(records)} == {
        "peak",
        "stream.prefetch",
    }
    assert all("results differ" in failed["reason"] for failed in wrong(records))
    assert wrong(records)


@pytest.mark.slow
def test_an_exact_product_that_takes_long_is_no_silence_and_ends_at_the_deadline():
    plan = (
        "-b",
        "gemm",
        "-v",
        "c11",
        "--shape",
        "4096x4096x4096",
        "--rounds",
        "1",
        "--deadline",
        "6",
    )
    records = decode(run(*plan, "-f", "jsonl").stdout)
    kinds = {record["record"] for record in records}
    assert "alive" in kinds
    assert "failed" not in kinds
    assert records[-1]["reason"] == "deadline"
