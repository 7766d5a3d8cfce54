"""Each further architecture: cross-built, its loops read back, and run under user-mode emulation.

Emulation proves that the code runs and counts right: never a time, and never a memory order.
"""

from pathlib import Path

import pytest

from tests import needs
from tests.native import disassembly
from tests.native.agent import QUICK, bursts, failures, measure, run
from tests.native.build import build
from tests.native.targets import AARCH64, CROSS, S390X, Target

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]  # zig compiles a C library first

LEVELS = ("-O0", "-O1", "-O2", "-O3")

each = pytest.mark.parametrize("target", CROSS, ids=lambda target: target.name)


def emulator(target: Target) -> tuple[str, ...]:
    program, *rest = next(iter(target.emulators.values()))
    return (needs.program(program, target.emulator_package), *rest)


def static(target: Target, flags: str = "-O2") -> Path:
    return build(target, f"{flags} -static")


def check_loops(target: Target, binary: Path) -> None:
    for symbol, intended in target.loops.items():
        found = disassembly.loop(disassembly.instructions(target, binary, symbol))
        assert disassembly.matches(found, intended), f"{symbol}: {found}"


def everything(target: Target, flags: str = "-O2") -> list[dict[str, object]]:
    needs.cpus(2)
    return measure(
        "-b", "all", "--variant", "all", *QUICK, prefix=emulator(target), binary=static(target, flags)
    )


def names(target: Target) -> dict[str, set[str]]:
    """The variants the target's file has asm for and its emulated CPU can do, and c11."""
    found = {"cas": {"c11"}, "readwrite": {"c11"}}
    for symbol in target.loops:
        benchmark, variant = symbol.removeprefix(target.name.partition("-")[2] + "_").split("_")
        found[benchmark] |= {variant} - {target.lacks}
    return found


@pytest.mark.parametrize("flags", LEVELS)
@each
def test_its_loops_are_the_intended_instructions_at_every_level_and_hand_over(
    target: Target, flags: str
) -> None:
    check_loops(target, static(target, flags))
    needs.cpus(2)
    records = measure(
        *(
            "-b",
            "cas,readwrite",
            "--variant",
            "all",
            "--rounds",
            "1",
            "--samples",
            "2",
            "--iterations",
            "200",
        ),
        prefix=emulator(target),
        binary=static(target, flags),
    )
    assert {(burst["benchmark"], burst["variant"]) for burst in bursts(records)} == {
        (benchmark, variant) for benchmark, variants in names(target).items() for variant in variants
    }
    assert not failures(records)


@each
def test_it_counts_right_in_every_benchmark_and_variant(target: Target) -> None:
    records = everything(target)
    hello, end = records[0], records[-1]
    assert hello["arch"] == target.name.partition("-")[2]
    assert hello["clock"] in target.clocks
    assert (hello["clock_note"] is None) == (hello["clock"] != "monotonic_raw")
    taken = bursts(records)
    wanted = {(b, v) for b, variants in names(target).items() for v in variants} | {("clock", hello["clock"])}
    assert {(burst["benchmark"], burst["variant"]) for burst in taken} == wanted
    assert {burst["iterations"] for burst in taken} == {200}
    assert {len(burst["ticks"]) for burst in taken} == {4}  # three samples and a warm-up
    assert all(min(burst["ticks"]) > 0 for burst in taken)
    assert (end["record"], end["bursts"], end["failed"]) == ("end", len(taken), 0)


@each
def test_left_to_itself_it_takes_its_own_asm(target: Target) -> None:
    needs.cpus(2)
    records = measure("-b", "cas,readwrite", *QUICK, prefix=emulator(target), binary=static(target))
    variants = {burst["benchmark"]: burst["variant"] for burst in bursts(records)}
    assert variants == dict(zip(("cas", "readwrite"), target.auto, strict=True))


@pytest.mark.parametrize("target", [t for t in CROSS if t.lacks], ids=lambda target: target.name)
def test_instructions_its_cpu_lacks_are_refused_and_not_tried(target: Target) -> None:
    assert target.lacks
    done = run("-b", "cas", "--variant", target.lacks, prefix=emulator(target), binary=static(target))
    assert (done.returncode, done.stdout) == (5, "")
    assert f"{target.lacks} (not on this CPU)" in done.stderr


def test_the_rate_of_the_s390x_clock_is_the_architectures_not_a_measured_one() -> None:
    needs.cpus(2)
    records = measure("-b", "clock", *QUICK, prefix=emulator(S390X), binary=static(S390X))
    assert (records[0]["clock"], records[0]["ticks_per_second"]) == ("stckf", 4096 * 10**6)


def test_an_arm_that_waits_for_events_counts_right() -> None:
    needs.cpus(2)
    records = measure(
        "-b", "cas", "--variant", "wfe", *QUICK, prefix=emulator(AARCH64), binary=static(AARCH64)
    )
    assert {burst["variant"] for burst in bursts(records)} == {"wfe"}
    assert not failures(records)
