"""The medians of a run while it is measured."""

import pytest

from fleet.session.live_medians import MOST, LiveMedians, _ThinnedValues
from tests.builders import NS, a_burst, a_run, make_bursts, small_desktop


def test_the_medians_so_far_are_those_of_the_relations_nearest_first() -> None:
    run = a_run(small_desktop(), benchmarks=("readwrite", "cas"))
    assert run.hello is not None
    live_medians = LiveMedians(run.facts, run.facts.usable_cpus)
    for burst in make_bursts(run):
        live_medians.add(burst, run.hello)
    assert [name for name, _ in live_medians.compute_medians()] == ["cas", "readwrite"]
    for _, relations in live_medians.compute_medians():
        assert [name for name, _ in relations] == ["smt", "package"]
        for name, ns in relations:
            assert ns == pytest.approx(NS[name], rel=0.03)  # type: ignore[index]  # a StrEnum


def test_bursts_with_many_points_and_bursts_of_warm_ups_are_left_out() -> None:
    run = a_run()
    assert run.hello is not None
    live_medians = LiveMedians(run.facts, run.facts.usable_cpus)
    live_medians.add(a_burst(benchmark="chase", point="random.32K"), run.hello)
    live_medians.add(a_burst(ticks=(900,), warmup=1), run.hello)
    assert live_medians.compute_medians() == ()


def test_however_many_bursts_come_few_are_kept_from_all_of_the_run() -> None:
    thinned = _ThinnedValues()
    for value in range(100_000):
        thinned.add(float(value))
    assert len(thinned.values) <= MOST
    assert thinned.values[0] == 0
    assert thinned.values[-1] > 99_000
    assert sorted(thinned.values)[len(thinned.values) // 2] == pytest.approx(
        50_000, rel=0.02
    )
