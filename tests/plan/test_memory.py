"""The points, memory and time of chase and bandwidth, known before a run; and what they take is bounded."""

from dataclasses import replace

import pytest

from fleet.console.summary import plans_text
from fleet.errors import UsageError
from fleet.model import Facts, Host, PairChoice, Pairs, Plan, RequestedOptions
from fleet.plan.estimate import bursts, check_host, expected, plan_on, points
from fleet.plan.memory import needed, needed_on, unknown_cpus, visits
from tests import builders, memory
from tests.memory import LLC, K, M

HOST = Host("m", "192.0.2.9")
FACTS = Facts("linux", "x86_64", cpus=memory.cpus(), memory_available_bytes=8192 * M)
BOTH = Plan(benchmarks=("chase", "bandwidth"), rounds=10)


def sizes(plan: Plan, name: str) -> set[int]:
    return {visit.bytes for visit in visits(name, plan, FACTS.cpus)}


def test_automatic_sizes_are_around_each_cache_and_well_outside_the_last() -> None:
    around = {c * part // 4 for c in (memory.L1, memory.L2, LLC) for part in (1, 2, 3, 8, 16)}
    assert sizes(BOTH, "chase") == around
    assert sizes(BOTH, "bandwidth") == {size for size in around if size < 64 * M} | {64 * M}


def test_listed_sizes_have_two_steps_an_octave() -> None:
    listed = replace(BOTH, sizes="16K..64K,1M")
    assert sizes(listed, "chase") == {16 * K, 24 * K, 32 * K, 48 * K, 64 * K, M}


def test_every_order_operation_and_group_is_a_point() -> None:
    plan = replace(BOTH, sizes="16K,1M")
    assert points(replace(plan, benchmarks=("chase",)), 2, FACTS) == 3 * 2
    assert points(replace(plan, benchmarks=("bandwidth",)), 2, FACTS) == 4 * 2 * 2
    shared = replace(plan, benchmarks=("bandwidth",), share=("own", "one"), operations=("read",))
    assert points(shared, 2, FACTS) == 2 * (2 + 1)
    assert points(replace(plan, cpus=(0, 1)), 2, FACTS) == 2 * 6 + 4 * 2 * 3
    assert bursts(plan, 2, FACTS) == 10 * (6 + 16)


def test_memory_is_the_most_of_any_point_for_each_cpu() -> None:
    assert needed(BOTH, FACTS.cpus) == 2 * 64 * M
    assert needed(replace(BOTH, benchmarks=("chase",), sizes="16K,3M"), FACTS.cpus) == 3 * M
    one = replace(BOTH, benchmarks=("bandwidth",), sizes="3M", threads=("all",), share=("one",))
    assert needed(one, FACTS.cpus) == 3 * M
    assert needed(Plan(benchmarks=("cas",)), FACTS.cpus) == 0


def test_more_than_half_of_the_memory_available_is_refused_with_the_sum() -> None:
    asked = RequestedOptions(benchmarks=("bandwidth",), sizes="64M", operations=("read",))
    plan_on(HOST, asked, replace(FACTS, memory_available_bytes=256 * M))
    plan_on(HOST, asked, replace(FACTS, memory_available_bytes=None))
    with pytest.raises(
        UsageError, match="m: the points take 128 MiB in all, and no more than half of the 255"
    ):
        plan_on(HOST, asked, replace(FACTS, memory_available_bytes=255 * M))


@pytest.mark.parametrize(
    ("plan", "bytes_of_two"),
    [
        # fetch: 128 KiB of lines, and four times the second cache where an eviction or no flush wants it
        (Plan(benchmarks=("fetch",)), 2 * (128 * K + 4 * memory.L2)),
        (Plan(benchmarks=("fetch",), states=("written",)), 2 * 128 * K),
        (Plan(benchmarks=("fetch",), pages="base"), 2 * 4 * memory.L2),
        (Plan(benchmarks=("interleave",)), 2 * 512 * K),
        (Plan(benchmarks=("message", "cas")), 2 * 64 * K),
        (Plan(benchmarks=("message", "chase"), sizes="1M", cpus=(0, 1)), 2 * (64 * K + M)),
        (Plan(benchmarks=("gemm",), sizes="64M", threads=("1",)), 64 * M + 8 * 288 * 288),
        (Plan(benchmarks=("gemm",), sizes="64M", threads=("all",)), 2 * (64 * M + 8 * 288 * 288)),
        (Plan(benchmarks=("gemm",), shape="4096x4096x4096", threads=("1",)), 24 * 4128 * 4128),
    ],
)
def test_memory_of_each_benchmark_is_known_before(plan: Plan, bytes_of_two: int) -> None:
    assert needed(plan, FACTS.cpus) == bytes_of_two


def test_without_a_flush_fetch_reads_twice_the_last_cache() -> None:
    plan = Plan(benchmarks=("fetch",))
    board = replace(FACTS, arch="s390x")
    assert needed_on(plan, FACTS) == needed(plan, FACTS.cpus)
    assert needed_on(plan, board) == 2 * (128 * K + max(2 * LLC, 4 * memory.L2))


def test_few_pairs_keep_memory_on_few_cpus() -> None:
    cpus = builders.two_sockets()
    some = Plan(benchmarks=("interleave",), few_pairs=PairChoice(Pairs.LISTED, ((0, 1), (0, 9))))
    assert needed(some, cpus) == 3 * 512 * K
    assert needed(replace(some, few_pairs=None), cpus) <= len(cpus) * 512 * K


@pytest.mark.parametrize("name", ["fetch", "gemm"])
def test_too_much_memory_is_refused_before_deploying(name: str) -> None:
    asked = RequestedOptions(benchmarks=(name,))
    with pytest.raises(UsageError, match=r"m: the points take [0-9]+ MiB in all, and no more than half"):
        check_host(HOST, asked, replace(FACTS, memory_available_bytes=M))


def test_large_memory_takes_longer() -> None:
    small, large = (expected(replace(BOTH, sizes=text), 2, FACTS).least_s for text in ("16K", "512M"))
    assert large > 5 * small


def test_a_big_machine_is_planned_by_one_cpu_of_each_cache() -> None:
    cpus = tuple(replace(cpu, caches=memory.cpus()[0].caches) for cpu in builders.two_sockets())
    plan = replace(BOTH, benchmarks=("chase",), sizes="1M")
    assert len(visits("chase", plan, cpus)) == 3 * 8
    assert len(unknown_cpus(range(1024))) == 1024
    assert points(BOTH, 1024) > 0


def test_a_dry_run_names_points_and_memory() -> None:
    asked = RequestedOptions(benchmarks=("chase",), sizes="1M,4M", cpus=(0, 1), precision=0.0)
    text = plans_text([HOST], asked)
    assert "Measuring takes about 5 s, 12 points, 8 MiB of memory." in text
    assert "`fleet check` knows the host's." in text
    assert "points" not in plans_text([HOST], RequestedOptions(benchmarks=("cas",)))
