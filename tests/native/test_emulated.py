"""The agent for other architectures, under user-mode emulation: function, never
times.
"""

import pytest

from tests import needs
from tests.native.agent import QUICK, SMALL_ONES, bursts, measure, run, wrong
from tests.native.build import build
from tests.native.emulated import emulator
from tests.native.targets import AARCH64

pytestmark = pytest.mark.slow

HAS_LSE = {"max": True, "cortex-a72": False}


@pytest.fixture(scope="module")
def binary():
    needs.cpus(2)
    return build(AARCH64, "-O2 -static")


@pytest.mark.parametrize("cpu", HAS_LSE)
def test_what_the_cpu_has_is_found_at_run_time(binary, cpu):
    records = measure(
        "-b", SMALL_ONES, *QUICK, prefix=emulator(AARCH64, cpu), binary=binary
    )
    assert records[0]["arch"] == "aarch64"
    assert records[0]["clock"] == "cntvct"
    assert records[0]["features"] == (
        ["lse", "sve", "zva", "flush", "bf16", "i8mm", "lrcpc"]
        if HAS_LSE[cpu]
        else ["zva", "flush"]
    )
    variants = {burst["benchmark"]: burst["variant"] for burst in bursts(records)}
    assert variants == {
        "cas": "lse" if HAS_LSE[cpu] else "llsc",
        "readwrite": "ldr",
        "clock": "cntvct",
    }
    assert not wrong(records)


def test_every_variant_counts_right(binary):
    records = measure(
        "--variant", "all", *QUICK, prefix=emulator(AARCH64, "max"), binary=binary
    )
    assert {(burst["benchmark"], burst["variant"]) for burst in bursts(records)} == {
        ("cas", "lse"),
        ("cas", "llsc"),
        ("cas", "wfe"),
        ("cas", "c11"),
        ("readwrite", "ldr"),
        ("readwrite", "ldapr"),
        ("readwrite", "ldar"),
        ("readwrite", "c11"),
    }
    assert all(min(burst["ticks"]) > 0 for burst in bursts(records))
    assert not wrong(records)


def test_instructions_the_cpu_lacks_are_refused_and_not_tried(binary):
    done = run(
        "-b",
        "cas",
        "--variant",
        "lse",
        prefix=emulator(AARCH64, "cortex-a72"),
        binary=binary,
    )
    assert done.returncode == 5
    assert done.stdout == ""
    assert "lse (not on this CPU), llsc, wfe, c11" in done.stderr
