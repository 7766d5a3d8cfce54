"""The levels of memory in the ladders of runs with known caches and costs."""

import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from fleet.analysis.reduce import (
    MemoryHierarchy,
    Only,
    as_float64,
    describe_memory,
    find_plateaus,
    format_size,
    load_cpus,
    load_pairs,
    select_ladder_steps,
)
from fleet.analysis.views import Detail, render_ladder, show_run
from tests import memory
from tests.memory import LLC, K, M

LEVEL_KEYS = ["setting", "threads", "level"]


def levels(root: Path) -> pd.DataFrame:
    plateaus = find_plateaus(as_float64(load_pairs(root)), load_cpus(root))
    return plateaus.set_index(LEVEL_KEYS).sort_index()


def read_lines(text: str) -> list[str]:
    """Return the lines with their words one space apart."""
    return [" ".join(line.split()) for line in text.splitlines()]


def test_a_plateau_is_the_number_of_its_level(tmp_path: Path) -> None:
    memory.publish(tmp_path)
    rows = levels(tmp_path)
    for setting, costs in {**memory.LOADS, **memory.BYTES}.items():
        medians = rows.loc[setting, 1]["median_ns"]
        measured = {level: medians[level] for level in costs}
        assert measured == pytest.approx(costs, rel=2e-3)
    assert rows["core_ghz"].unique() == pytest.approx([memory.GHZ])


def test_sizes_near_a_cache_are_in_no_plateau(tmp_path: Path) -> None:
    memory.publish(tmp_path)
    used = levels(tmp_path).loc["random", 1]
    assert list(used["least_bytes"]) == [8 * K, 64 * K, 2 * M, 32 * M]
    assert list(used["most_bytes"]) == [16 * K, 512 * K, 8 * M, 64 * M]
    assert list(used["cache_bytes"]) == [memory.L1, memory.L2, LLC, 0]


def test_threads_that_share_a_cache_have_a_part_of_it_each(tmp_path: Path) -> None:
    memory.publish(tmp_path, llc=LLC // 2)
    rows = levels(tmp_path).loc["read", 2]
    assert rows.loc["LLC"]["cache_bytes"] == LLC // 2
    assert rows.loc["L2"]["cache_bytes"] == memory.L2
    assert rows.loc["LLC"]["most_bytes"] == 4 * M
    assert rows.loc["mem"]["least_bytes"] == 32 * M


def test_one_buffer_and_a_buffer_each_have_caches_of_their_own(tmp_path: Path) -> None:
    memory.publish(tmp_path)
    pairs = as_float64(load_pairs(tmp_path))
    cpus = load_cpus(tmp_path)
    own = pairs[(pairs["threads"] == 2) & (pairs["operation"] == "read")]
    one_point = own["point"].str.replace(".own.", ".one.")
    one = own.assign(sharing="one", point=one_point)
    alone = pd.concat([find_plateaus(own, cpus), find_plateaus(one, cpus)])
    together = find_plateaus(pd.concat([own, one]), cpus)
    names = ["setting", "level", "cache_bytes", "least_bytes", "most_bytes"]
    order = ["setting", "least_bytes"]
    expected = alone[names].sort_values(order, ignore_index=True)
    found = together[names].sort_values(order, ignore_index=True)
    pd.testing.assert_frame_equal(found, expected)
    of_setting = expected[expected["level"] == "LLC"].set_index("setting")
    assert of_setting["cache_bytes"].nunique() == 2


def test_two_threads_together_take_half_the_time_of_one(tmp_path: Path) -> None:
    memory.publish(tmp_path)
    medians = levels(tmp_path).loc["read"]["median_ns"]
    one = medians[1].to_numpy()
    two = medians[2].to_numpy()
    assert two == pytest.approx(one / 2, rel=1e-6)


def test_a_level_ends_where_the_ladder_steps_up(tmp_path: Path) -> None:
    """A guest of a hypervisor that reports the host's last-level cache and gets an
    eighth of it.
    """
    memory.publish(tmp_path, llc=LLC // 8)
    used = levels(tmp_path).loc["random", 1]
    assert used.loc["LLC"]["most_bytes"] == 2 * M
    assert used.loc["LLC"]["median_ns"] == pytest.approx(12.0, rel=2e-3)
    assert used.loc["mem"]["median_ns"] == pytest.approx(100.0, rel=2e-3)


def test_one_slow_size_ends_no_level_but_is_marked(tmp_path: Path) -> None:
    memory.publish(tmp_path, loads={"random": memory.LOADS["random"]})
    pairs = as_float64(load_pairs(tmp_path))
    pairs.loc[pairs["point"] == "random.256K.huge", "median_ns"] *= 2
    plateaus = find_plateaus(pairs, load_cpus(tmp_path)).set_index(LEVEL_KEYS)
    slow = plateaus.loc["random", 1, "L2"]
    assert slow["sizes"] == 3
    assert slow["rise"] == pytest.approx(2, rel=1e-3)


@pytest.mark.long
def test_without_known_caches_there_are_no_plateaus_and_all_sizes_are_shown(
    tmp_path: Path,
) -> None:
    bare = tuple(replace(cpu, caches=()) for cpu in memory.cpus())
    plain = memory.publish(tmp_path)
    run = memory.publish(tmp_path, facts=replace(plain.facts, cpus=bare))
    text = show_run(tmp_path, run.run_id)
    assert "by its size" in text
    of_64m = [line for line in text.splitlines() if line.strip().startswith("64M ")]
    assert len(of_64m) == 3


@pytest.mark.long
def test_show_has_the_levels_first_and_every_size_on_demand(tmp_path: Path) -> None:
    run = memory.publish(tmp_path)
    text = show_run(tmp_path, run.run_id)
    chase, _, bandwidth = text.partition("bandwidth/")
    chase_lines = read_lines(chase)
    bandwidth_lines = read_lines(bandwidth)
    assert "L2 1M 64K-512K 3.50 14.0 1.50 6.0" in chase_lines
    assert "L1 32K 8K-16K 500.0 250.0 38.5" in bandwidth_lines
    assert "L1 32K 8K-16K 1000 500.0 76.9" in bandwidth_lines
    assert "512K   3.50" not in text
    detail = Detail(all_sizes=True)
    every = show_run(tmp_path, run.run_id, only=Only("chase"), detail=detail)
    sizes = [line.split()[0] for line in every.splitlines() if line.endswith("6.0")]
    assert sizes == ["L2", "64K", "256K", "512K", "768K"]
    assert "bandwidth" not in every


def test_kinds_of_cores_have_tables_of_their_own(tmp_path: Path) -> None:
    memory.publish(tmp_path)
    pairs = as_float64(load_pairs(tmp_path))
    fast = pairs[pairs["benchmark"] == "chase"].assign(relation="self P")
    slow = fast.assign(relation="self E", ping_cpu=1, pong_cpu=1)
    slow["median_ns"] *= 2
    both = pd.concat([fast, slow], ignore_index=True)
    plateaus = find_plateaus(both, load_cpus(tmp_path))
    text = render_ladder(select_ladder_steps(both), plateaus)
    numbers = re.findall(r"^(CPU .*)\n.*\nL1 +\S+ +\S+ +(\S+)", text, re.MULTILINE)
    assert numbers == [("CPU 0 (P)", "1.00"), ("CPU 1 (E)", "2.00")]


def test_a_size_that_jumps_shows_its_levels(tmp_path: Path) -> None:
    memory.publish(tmp_path)
    pairs = as_float64(load_pairs(tmp_path))
    chase = pairs[pairs["benchmark"] == "chase"].copy()
    is_jumping = (chase["order"] == "random") & (chase["bytes"] == 8 * M)
    chase.loc[is_jumping, "other_ns"] = 123.0
    plateaus = find_plateaus(chase, load_cpus(tmp_path))
    text = render_ladder(select_ladder_steps(chase), plateaus, all_sizes=True)
    lines = read_lines(text)
    assert "8M 12.0|123.0 48.0 2.00 8.0" in lines
    assert "LLC 16M 2M-8M 12.0|123.0 48.0 2.00 8.0" in lines
    assert "a|b: the main level is a;" in text


def test_other_benchmarks_have_no_ladders(tmp_path: Path) -> None:
    memory.publish(tmp_path)
    pairs = as_float64(load_pairs(tmp_path))
    assert len(select_ladder_steps(pairs.assign(benchmark="cas"))) == 0
    assert find_plateaus(pairs[:0], load_cpus(tmp_path)).empty


def test_sizes_are_written_as_in_the_names_of_points() -> None:
    sizes = [format_size(size) for size in (4096, 1536 * K, 3 * M, 1 << 30, 1 << 41, 5)]
    assert sizes == ["4K", "1536K", "3M", "1G", "2048G", "5"]


@pytest.mark.parametrize("relation", ["system", "system P-E"])
def test_cpus_of_several_nodes_share_the_peak_of_the_machine(relation: str) -> None:
    level = {
        "benchmark": "bandwidth",
        "setting": "read",
        "unit": "byte",
        "level": "mem",
        "relation": relation,
        "threads": 4,
        "ping_cpu": 0,
        "median_ns": 1 / 90,
    }
    run = {
        "memory": {"peak_mbps": 240_000},
        "nodes": [{"node": node, "peak_mbps": 120_000} for node in (0, 1)],
    }
    cpus = pd.DataFrame({"cpu": range(4), "node": [0, 0, 1, 1]})
    hierarchy = MemoryHierarchy(pd.DataFrame(), pd.DataFrame([level]), pd.DataFrame())
    lines = describe_memory(run, hierarchy, cpus)
    assert lines == ["memory, bandwidth read of 4 CPUs: 90.0 of 240.0 GB/s, 38%"]
