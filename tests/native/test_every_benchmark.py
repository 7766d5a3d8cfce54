"""What all benchmarks with points have in common: how they end, what they need, and
other architectures.
"""

import pytest

from tests import needs
from tests.native.agent import (
    bursts,
    busy_neighbour,
    check_a_signal_ends_it,
    failures,
    measure,
    points,
    run,
    two_cpus,
    wrong,
)
from tests.native.build import build
from tests.native.emulated import measure_emulated
from tests.native.targets import AARCH64, CROSS, Target, make_troubled

LONG = {
    "chase": "--sizes 16M --samples 1000 --iterations 1000000000",
    "bandwidth": "--threads all --sizes 16M --samples 1000 --iterations 1000000000",
    **{
        f"contend --op {op}": "--iterations 100000000"
        for op in ("faa", "turn", "ticket", "mcs")
    },
    "fetch": "--samples 39999",
    "interleave": "--iterations 1000000",
    "loaded": "--sizes 1M --iterations 100000000",
    "message": "--samples 39999 --lines-per-message 64",
    **{f"sharing --op {op}": "--iterations 100000000" for op in ("watch", "watch-all")},
}
SHORT = {
    "contend": "",
    "fetch": "--state own,both,evicted --op read,write,swap",
    "interleave": "--iterations 3 --blocks 64,4K",
    "message": "--lines-per-message 1,2",
    "sharing": "",
}
APART = "the clocks of the two CPUs are further apart than a message takes"


@pytest.mark.parametrize("name", LONG)
def test_a_signal_ends_it_in_the_middle_of_a_burst(name: str) -> None:
    needs.cpus(2)
    check_a_signal_ends_it("-b", *name.split(), "--rounds", "1", *LONG[name].split())


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("target", [AARCH64, *CROSS], ids=lambda target: target.name)
@pytest.mark.parametrize("name", SHORT)
def test_every_loop_does_on_every_architecture_what_is_counted(
    name: str, target: Target
) -> None:
    plan = (
        "--rounds",
        "2",
        "--samples",
        "9",
        "--seed",
        "7",
        "--variant",
        "all",
        *two_cpus(),
    )
    records = measure_emulated(target, "-b", name, *plan, *SHORT[name].split())
    assert len(records[0]["plan"]["benchmarks"]) >= 2
    assert {visit["reason"] for visit in wrong(records)} <= (
        {APART} if name == "message" else set()
    )
    assert len(bursts(records)) + len(failures(records)) == records[0]["bursts"]


@pytest.mark.parametrize("plan", ["fetch --state own", "interleave --blocks 1K"])
def test_a_loop_that_leaves_lines_out_yields_a_reason_and_no_number(plan: str) -> None:
    needs.cpus(2)
    how = ("-v", "short", "--rounds", "2", "--samples", "9", "--iterations", "3")
    records = measure("-b", *plan.split(), *how, binary=build(make_troubled("short")))
    assert points(records)
    assert not bursts(records)
    assert {visit["reason"] for visit in failures(records)} == {
        "a loop did not go through the memory it was given"
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "plan",
    [
        "contend --op faa --share one --rounds 2 --samples 2 --iterations 1000000",
        (
            "loaded --op read --load full --sizes 1M --rounds 1 --samples 2"
            " --iterations 2000000"
        ),
    ],
)
def test_a_burst_whose_thread_lost_its_cpu_to_other_work_fails(plan: str) -> None:
    """Alone an operation is cheap, and an idle memory faster: what looks like a better
    number is none.
    """
    _, cpus = two_cpus()
    with busy_neighbour(int(cpus.split(",")[1])):
        records = measure("-b", *plan.split(), "--priority", "0", "-c", cpus)
    assert not bursts(records)
    assert all(
        "other work held it" in failure["reason"] for failure in failures(records)
    )


@pytest.mark.parametrize(
    "name", ["contend", "fetch", "interleave", "loaded", "message", "sharing"]
)
def test_one_cpu_is_refused_for_what_needs_two(name: str) -> None:
    done = run("-b", name, "-c", "0")
    assert done.returncode == 3
    assert done.stdout == ""
    assert f"{name} needs two CPUs" in done.stderr
