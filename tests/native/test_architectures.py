"""Each further architecture, cross-built and emulated: that it counts right, never a
time or memory order.
"""

import shutil
from pathlib import Path

import pytest

from fleet.model import BENCHMARKS
from fleet.plan.benchmark_names import VARIANTS
from tests import needs
from tests.native import disassembly
from tests.native.agent import (
    QUICK,
    SMALL_ONES,
    Record,
    bursts,
    failures,
    measure,
    notes,
    run,
    wrong,
)
from tests.native.build import build
from tests.native.emulated import emulator
from tests.native.targets import AARCH64, CROSS, I386, RISCV64, S390X, Target

pytestmark = pytest.mark.slow

LEVELS = ("-O0", "-O1", "-O2", "-O3")

each_target = pytest.mark.parametrize("target", CROSS, ids=lambda target: target.name)


def static(target: Target, flags: str = "-O2") -> Path:
    return build(target, f"{flags} -static")


def check_loops(target: Target, binary: Path) -> None:
    for symbol, intended in target.loops.items():
        loop = disassembly.loop(disassembly.instructions(target, binary, symbol))
        assert disassembly.matches(loop, intended), f"{symbol}: {loop}"


def everything(target: Target) -> list[dict[str, object]]:
    needs.cpus(2)
    options = ("-b", SMALL_ONES, "--variant", "all", *QUICK)
    return measure(*options, prefix=emulator(target), binary=static(target))


@each_target
def test_it_needs_nothing_but_itself(target: Target, tmp_path: Path) -> None:
    """As in an empty image: without /proc, /sys, /dev, a place for the lock, a
    library.
    """
    needs.root()
    program, *options = emulator(target)
    shutil.copy(program, tmp_path / "emulator")
    shutil.copy(static(target), tmp_path / "agent")
    emptied = (
        needs.program("chroot", "coreutils"),
        str(tmp_path),
        "/emulator",
        *options,
    )
    lines = measure(
        "-b", "clock", *QUICK, "--lock", "run me", prefix=emptied, binary=Path("/agent")
    )
    assert lines[0]["arch"] == target.name.partition("-")[2]
    assert any(
        note.startswith("The machine lock could not be taken (No such file")
        for note in notes(lines)
    )
    assert len(bursts(lines)) + len(failures(lines)) == len(lines[0]["cpus"]) * 2


def names(target: Target) -> dict[str, set[str]]:
    """The variants of cas and readwrite that the target has asm for and its emulated
    CPU can do, and c11.
    """
    lacks = set(target.lacks)
    return {
        name: {*native(target, name), "c11"} - lacks for name in ("cas", "readwrite")
    }


def native(target: Target, benchmark: str) -> tuple[str, ...]:
    """The variants that the target's architecture has of a benchmark."""
    return BENCHMARKS[benchmark].variants[target.name.partition("-")[2]]


def group_by_variant(records: list[Record], benchmark: str) -> dict[str, set[str]]:
    """The operations or orders in the points of each variant of a benchmark."""
    return {
        choice["variant"]: {point.split(".")[0] for point in choice["points"]}
        for choice in records[0]["plan"]["benchmarks"]
        if choice["benchmark"] == benchmark
    }


@pytest.mark.parametrize("flags", LEVELS)
@each_target
def test_its_loops_are_the_intended_ones_at_every_level_and_hand_over(
    target: Target, flags: str
) -> None:
    check_loops(target, static(target, flags))
    needs.cpus(2)
    records = measure(
        *("-b", "cas,readwrite", "--variant", "all", "-r", "1", "-s", "2", "-i", "200"),
        prefix=emulator(target),
        binary=static(target, flags),
    )
    assert {
        (visit["benchmark"], visit["variant"])
        for visit in bursts(records) + failures(records)
    } == {
        (benchmark, variant)
        for benchmark, variants in names(target).items()
        for variant in variants
    }
    assert not wrong(records)


@each_target
def test_it_counts_right_in_every_benchmark_and_variant(target: Target) -> None:
    records = everything(target)
    hello = records[0]
    end = records[-1]
    assert hello["arch"] == target.name.partition("-")[2]
    assert hello["clock"] in target.clocks
    assert (hello["clock_note"] is None) == (hello["clock"] != "monotonic_raw")
    taken = bursts(records)
    expected = {(b, v) for b, variants in names(target).items() for v in variants} | {
        ("clock", clock) for clock in (hello["clock"], "monotonic_raw")
    }
    assert {(burst["benchmark"], burst["variant"]) for burst in taken} == expected
    assert {burst["iterations"] for burst in taken} == {200}
    # nine samples and a warm-up
    assert {len(burst["ticks"]) for burst in taken} == {10}
    assert all(min(burst["ticks"]) > 0 for burst in taken)
    assert end["record"] == "end"
    assert end["bursts"] == len(taken)
    assert end["failed"] == end["again"], "each that was disturbed was taken again"


@each_target
def test_left_to_itself_it_takes_its_own_asm(target: Target) -> None:
    needs.cpus(2)
    records = measure(
        "-b", "cas,readwrite", *QUICK, prefix=emulator(target), binary=static(target)
    )
    variants = {burst["benchmark"]: burst["variant"] for burst in bursts(records)}
    assert variants == dict(zip(("cas", "readwrite"), target.auto, strict=True))


@pytest.mark.parametrize(
    ("target", "variant"),
    [(target, variant) for target in CROSS for variant in target.lacks],
    ids=lambda it: it if isinstance(it, str) else it.name,
)
def test_instructions_its_cpu_lacks_are_refused_and_not_tried(
    target: Target, variant: str
) -> None:
    benchmark = "cas" if variant in VARIANTS["cas"] else "bandwidth"
    done = run(
        "-b",
        benchmark,
        "--variant",
        variant,
        prefix=emulator(target),
        binary=static(target),
    )
    assert done.returncode == 5
    assert done.stdout == ""
    assert f"{variant} (not on this CPU)" in done.stderr


@each_target
def test_each_loop_through_memory_ends_where_it_is_told_to(target: Target) -> None:
    plan = (
        "-b",
        "chase,bandwidth",
        "--variant",
        "all",
        "--op",
        "read,write,zero,modify,copy",
    )
    records = measure(
        *plan,
        *(
            "--sizes",
            "16K",
            "--threads",
            "1",
            "--rounds",
            "1",
            "--samples",
            "2",
            "--iterations",
            "3",
        ),
        prefix=emulator(target),
        binary=static(target),
    )
    assert not wrong(records)
    assert set(group_by_variant(records, "chase")) == {*native(target, "chase"), "c11"}
    assert set(group_by_variant(records, "bandwidth")) == {
        *native(target, "bandwidth"),
        "c11",
        "libc",
    } - set(target.lacks)
    assert len(bursts(records)) + len(failures(records)) == records[0]["bursts"]


@pytest.mark.parametrize("target", [RISCV64, I386], ids=lambda target: target.name)
def test_stores_past_the_caches_are_measured_where_there_are_any(
    target: Target,
) -> None:
    plan = (
        "-b",
        "bandwidth",
        "--op",
        "nt,ntcopy",
        "--sizes",
        "16K",
        "--threads",
        "1",
        "--rounds",
        "1",
    )
    records = measure(
        *plan, "--iterations", "3", prefix=emulator(target), binary=static(target)
    )
    assert set().union(*group_by_variant(records, "bandwidth").values()) == {
        "nt",
        "ntcopy",
    }
    assert not wrong(records)


def test_a_riscv_cpu_without_vectors_takes_words() -> None:
    prefix = emulator(RISCV64, "rv64")
    plan = (
        "-b",
        "bandwidth",
        "--op",
        "read",
        "--sizes",
        "16K",
        "--threads",
        "1",
        "--rounds",
        "1",
    )
    records = measure(*plan, "--iterations", "3", prefix=prefix, binary=static(RISCV64))
    assert records[0]["features"] == []
    assert set(group_by_variant(records, "bandwidth")) == {"ld"}


def test_the_rate_of_the_s390x_clock_is_the_architectures_not_a_measured_one() -> None:
    needs.cpus(2)
    records = measure(
        "-b", "clock", *QUICK, prefix=emulator(S390X), binary=static(S390X)
    )
    assert records[0]["clock"] == "stckf"
    assert records[0]["ticks_per_second"] == 4096 * 10**6


def test_an_arm_that_waits_for_events_counts_right() -> None:
    needs.cpus(2)
    records = measure(
        "-b",
        "cas",
        "--variant",
        "wfe",
        *QUICK,
        prefix=emulator(AARCH64),
        binary=static(AARCH64),
    )
    assert {burst["variant"] for burst in bursts(records)} == {"wfe"}
    assert not wrong(records)
