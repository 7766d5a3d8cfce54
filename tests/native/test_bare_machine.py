"""An architecture we know nothing of, and a clock too coarse for anything: slower,
never wrong.
"""

import pytest

from tests import needs
from tests.native.agent import (
    QUICK,
    SMALL_ONES,
    bursts,
    failed_attempts,
    measure,
    notes,
    wrong,
)
from tests.native.build import build
from tests.native.preload import preload
from tests.native.targets import make_troubled


@pytest.fixture(scope="module")
def bare():
    """The agent built with a file of the test's own in the architecture's place."""
    needs.cpus(2)
    return build(make_troubled("bare"), "-O2")


def test_without_asm_and_counter_the_compiler_and_the_os_do(bare):
    records = measure("-b", SMALL_ONES, *QUICK, binary=bare)
    assert records[0]["arch"] == "bare"
    assert records[0]["clock"] == "monotonic_raw"
    assert records[0]["ticks_per_second"] == 1_000_000_000
    assert records[0]["clock_note"] == "this architecture has no counter"
    assert {(burst["benchmark"], burst["variant"]) for burst in bursts(records)} == {
        ("cas", "c11"),
        ("readwrite", "c11"),
        ("clock", "monotonic_raw"),
    }
    assert not wrong(records)


@pytest.mark.parametrize("step_us", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_coarse_clock_makes_samples_longer_and_is_said(bare, step_us):
    env = preload("coarse.c") | {"COARSE_NS": str(1000 * step_us)}
    records = measure(
        "-b", "cas", "-c", "0,1", "-r", "1", "-s", "1", "-w", "0", binary=bare, env=env
    )
    assert records[0]["clock_quantum_ticks"] == 1000 * step_us
    assert (
        notes(records)[0]
        == f"The clock moves in steps of {step_us} us, so a sample lasts {step_us} ms."
    )
    assert not wrong(records)
    # other work may have disturbed each burst, but none is left out for its ticks
    taken = [*bursts(records), *failed_attempts(records)]
    for burst in taken:
        assert all(
            ticks % (1000 * step_us) == 0 and ticks > 100_000 * step_us
            for ticks in burst["ticks"]
        )
    assert taken


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stated", "error_ppm"), [(1_000_000_000, 0), (900_000_000, 111_111)]
)
def test_a_stated_rate_is_held_against_the_systems_clock(stated, error_ppm):
    binary = build(make_troubled("counter"), native_flags=f"-DSTATED={stated}")
    records = measure("-b", "clock", *QUICK, binary=binary)
    assert records[0]["ticks_per_second"] == stated
    assert abs(records[0]["rate_error_ppm"] - error_ppm) < 1000
    warnings = [text for text in notes(records) if "million times a second" in text]
    assert len(warnings) == (1 if error_ppm else 0)
    assert all("11.11 % faster" in text for text in warnings)


def test_a_rate_that_nobody_states_is_measured_and_cannot_be_wrong(bare):
    assert measure("-b", "clock", *QUICK, binary=bare)[0]["rate_error_ppm"] is None
