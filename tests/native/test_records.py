"""What the agent says about a real run on this machine: the wire, whole and exact."""

import itertools
import os
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from tests import needs
from tests.native.agent import (
    QUICK,
    SMALL_ONES,
    bursts,
    failures,
    measure,
    notes,
    run,
    run_simulated,
    wrong,
)
from tests.native.build import BUILD_ID


@pytest.fixture(scope="module")
def all_of_it():
    needs.cpus(2)
    return measure(
        "-b", SMALL_ONES, "--variant", "all", "--seed", "7", "--warmup", "2", *QUICK
    )


def test_the_first_record_tells_what_measures_what(all_of_it):
    hello = all_of_it[0]
    assert hello["record"] == "hello"
    assert hello["protocol"] == 1
    assert hello["build"] == BUILD_ID
    assert hello["os"] == "linux"
    assert hello["arch"] == os.uname().machine
    assert hello["cpus"] == sorted(os.sched_getaffinity(0))
    assert len(hello["core_mhz"]) == len(hello["cpus"])
    assert all(mhz is None or 100 < mhz < 10_000 for mhz in hello["core_mhz"])
    assert hello["page_bytes"] == os.sysconf("SC_PAGESIZE")
    assert hello["seed"] == 7
    assert hello["plan"]["samples"] == 9
    assert hello["plan"]["warmup"] == 2
    assert hello["plan"]["iterations"] == 200
    assert hello["ticks_per_second"] > 1_000_000
    assert hello["clock_quantum_ticks"] > 0


def test_the_page_about_the_wire_has_every_key(all_of_it):
    groups = run_simulated(
        "-b",
        "message,chase,gemm",
        "-r",
        "1",
        "--cpus",
        "0,1",
        "--counters",
        "task-clock=1:1",
    )
    page = (Path(__file__).parents[2] / "docs" / "wire.md").read_text()
    keys = {
        key for record in [*all_of_it, *groups, groups[0]["plan"]] for key in record
    } - {"record"}
    assert {"switches", "line2_page", "other_ticks", "sample_mhz", "counters"} < keys
    assert sorted(key for key in keys if f"`{key}`" not in page) == []


def test_the_last_record_counts_what_arrived_and_what_was_promised(all_of_it):
    taken = bursts(all_of_it)
    failed = failures(all_of_it)
    assert all_of_it[-1] == {
        "record": "end",
        "bursts": len(taken),
        "failed": len(failed),
        "again": sum("attempt" in record for record in all_of_it),
        "converged": None,
        "unconverged": None,
        "reached_ppm": None,
        "reason": "done",
    }
    visits = len(taken) + len(failed) - all_of_it[-1]["again"]
    assert all_of_it[0]["bursts"] == visits
    assert not wrong(all_of_it)


def expected_visits(choice, cpus):
    """Return the two CPUs of each visit of a benchmark in a round."""
    if choice["benchmark"] == "clock":
        return [(cpu, cpu) for cpu in cpus]
    return list(itertools.combinations(cpus, 2))


def test_every_pair_is_visited_once_a_round_for_each_benchmark_and_variant(all_of_it):
    hello = all_of_it[0]
    cpus = hello["cpus"]
    assert hello["pairs"] == len(cpus) * (len(cpus) - 1) // 2
    expected = []
    for choice in hello["plan"]["benchmarks"]:
        kind = (choice["benchmark"], choice["variant"])
        for round_, pair in itertools.product((0, 1), expected_visits(choice, cpus)):
            expected.append((*kind, round_, *pair))
    visited = []
    for burst in bursts(all_of_it) + failures(all_of_it):
        low, high = sorted((burst["ping"], burst["pong"]))
        kind = (burst["benchmark"], burst["variant"])
        visited.append((*kind, burst["round"], low, high))
    assert sorted(visited) == sorted(expected)


def test_the_timing_side_alternates_from_round_to_round(all_of_it):
    for burst in bursts(all_of_it):
        if burst["benchmark"] != "clock":
            assert (burst["ping"] < burst["pong"]) == (burst["round"] % 2 == 0)


def test_a_burst_holds_its_warm_ups_and_samples_and_none_is_impossible(all_of_it):
    rate = all_of_it[0]["ticks_per_second"]
    for burst in bursts(all_of_it):
        assert burst["iterations"] == 200
        assert burst["warmup"] == 2
        assert len(burst["ticks"]) == 2 + 9
        for ticks in burst["ticks"]:
            assert 0 < ticks / burst["iterations"] / 2 / rate < 1


def test_both_threads_were_where_they_were_asked_to_be(all_of_it):
    for burst in bursts(all_of_it):
        assert burst["ping_cpus"] == [burst["ping"]] * 2
        assert burst["pong_cpus"] == [burst["pong"]] * 2
        assert all(count >= 0 for count in burst["switches"])


def test_two_bursts_in_a_row_never_share_a_page(all_of_it):
    pages = [
        burst["line_page"]
        for burst in bursts(all_of_it)
        if burst["benchmark"] != "clock"
    ]
    assert all(page for page in pages)
    assert all(page != other for page, other in pairwise(pages))


def test_lines_lie_where_the_spacing_allows_and_not_always_at_one_place(all_of_it):
    offsets = {
        burst["line_offset"]
        for burst in bursts(all_of_it)
        if burst["benchmark"] != "clock"
    }
    assert len(offsets) > 1
    for offset in offsets:
        assert offset % all_of_it[0]["line_bytes"] == 0
        assert 0 <= offset < all_of_it[0]["page_bytes"]


def test_the_clock_benchmark_has_no_line(all_of_it):
    for burst in bursts(all_of_it):
        if burst["benchmark"] == "clock":
            assert burst["line_page"] is None
            assert burst["line_offset"] is None
            assert burst["line_node"] is None


def visits(records):
    """Each visit and the place of its line, in the order of the visits; None where
    other work disturbed its first burst: one that is taken again has another place.
    """
    first_bursts = (
        record
        for record in records
        if record["record"] in {"burst", "failed"} and "attempt" not in record
    )
    return {
        (b["benchmark"], b["round"], b["ping"], b["pong"]): b.get("line_offset")
        for b in first_bursts
    }


def test_the_same_seed_gives_the_same_order_and_places_and_another_does_not():
    needs.cpus(2)
    plan = ("-b", SMALL_ONES, "--rounds", "6", "--samples", "9", "--seed")
    first = visits(measure(*plan, "11"))
    again = visits(measure(*plan, "11", "--iterations", "100"))
    other = visits(measure(*plan, "12"))
    assert list(first) == list(again)
    assert list(first) != list(other)
    in_both = [
        visit
        for visit in first
        if first[visit] is not None and again[visit] is not None
    ]
    assert set(first.values()) - {None}
    for visit in in_both:
        assert first[visit] == again[visit]


def test_ordered_pairs_are_measured_both_ways_in_every_round():
    needs.cpus(2)
    records = measure("-b", "cas", "--pairs", "ordered", *QUICK)
    both_ways = sorted(itertools.permutations(records[0]["cpus"], 2))
    assert records[0]["pairs"] == len(both_ways)
    for round_ in (0, 1):
        pairs = [(ping, pong) for _, r, ping, pong in visits(records) if r == round_]
        assert sorted(pairs) == both_ways


def test_iterations_left_to_the_agent_are_kept_for_all_rounds_of_a_pair():
    needs.cpus(2)
    records = measure("--rounds", "4", "--samples", "9")
    assert records[0]["plan"]["iterations"] is None
    chosen = {}
    for burst in bursts(records):
        pair = (burst["benchmark"], *sorted((burst["ping"], burst["pong"])))
        chosen.setdefault(pair, set()).add(burst["iterations"])
    for iterations in chosen.values():
        assert len(iterations) == 1
        assert min(iterations) >= 100


def test_the_affinity_the_agent_was_started_with_is_the_default_and_no_fence():
    needs.cpus(2)
    other, cpu = sorted(os.sched_getaffinity(0))[:2]
    fenced = (needs.program("taskset", "util-linux"), "-c", str(cpu))
    records = measure("-b", "clock", *QUICK, prefix=fenced)
    assert records[0]["cpus"] == [cpu]
    for burst in bursts(records):
        assert burst["ping"] == cpu
        assert burst["pong"] == cpu
    assert bursts(records)
    named = measure("-b", "cas", "-c", f"{other},{cpu}", *QUICK, prefix=fenced)
    assert named[0]["cpus"] == [other, cpu]
    paired = measure("-b", "cas", "--pairs", f"{other}-{cpu}", *QUICK, prefix=fenced)
    assert paired[0]["cpus"] == [other, cpu]
    refused = run("-b", "clock", "-c", "4000", prefix=fenced)
    assert refused.returncode == 4
    assert f"CPU 4000 cannot be used: this process may use {cpu}\n" in refused.stderr


def test_one_cpu_is_refused_with_a_clear_sentence():
    cpu = min(os.sched_getaffinity(0))
    done = run(
        "-b", "cas", prefix=(needs.program("taskset", "util-linux"), "-c", str(cpu))
    )
    assert done.returncode == 3
    assert done.stdout == ""
    assert (
        done.stderr
        == "fleet-agent: cas needs two CPUs, and the affinity mask or --cpus has only"
        f" CPU {cpu}\n"
    )


def test_a_sample_too_short_for_the_clock_is_said_once():
    needs.cpus(2)
    records = measure("-b", "cas,clock", "--iterations", "1", "--rounds", "3")
    assert len([text for text in notes(records) if "shorter than" in text]) == 1


def test_the_first_sample_is_whole():
    """Its first turn used to be half over, since pong had answered before."""
    needs.cpus(2)
    one_turn = ("--iterations", "1", "--warmup", "0", "--samples", "9")
    records = measure("-b", "readwrite", *one_turn, "--rounds", "300")
    firsts = []
    later = []
    for burst in bursts(records):
        first, *others = burst["ticks"]
        firsts.append(first)
        later.extend(others)
    assert median(firsts) > 0.6 * median(later)
