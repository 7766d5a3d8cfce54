"""Ladders in a report and in a notebook: their numbers, their lines and what is said to
a screen reader.
"""

import math
import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure

from fleet.analysis.reduce import (
    MemoryHierarchy,
    arrange_memory,
    as_float64,
    find_plateaus,
    load_cpus,
    load_pairs,
    select_ladder_steps,
)
from fleet.analysis.report import build_ladders, plots, render
from tests import memory


@pytest.mark.long
def test_a_report_has_the_levels_first_and_a_figure_of_each_ladder(
    tmp_path: Path,
) -> None:
    run = memory.publish(tmp_path)
    page = render(tmp_path, [run.run_id])
    assert "<title>Memory: m</title>" in page
    first = page.partition("<nav")[0]
    numbers = re.findall(r"<td>([0-9.]+)", first)
    assert numbers == [
        "1.00",
        "3.50",
        "12.0",
        "100.0",
        "500.0",
        "250.0",
        "125.0",
        "40.0",
    ]
    pictures = re.findall(r'<svg[^>]* aria-label="([^"]*)"', page)
    assert [label.partition(", on ")[0] for label in pictures] == [
        "chase/mov, CPU 0",  # on the first screen
        "chase/mov, CPU 0",
        "bandwidth/avx2, CPU 0",
        "bandwidth/avx2, 2 CPUs, 0 to 1, all together",
    ]
    assert "L2 random 3.50, cycles 14.0, rising 1.50, cycles 6.0" in pictures[0]
    assert "this page does not show it" not in page


@pytest.mark.long
def test_the_marks_in_a_table_of_levels_are_explained_where_they_occur(
    tmp_path: Path,
) -> None:
    run = memory.publish(tmp_path)
    pairs, cpus = as_float64(load_pairs(tmp_path)), load_cpus(tmp_path)
    kinds = sorted(
        {f"{row.benchmark}/{row.variant}" for row in pairs.itertuples()}, reverse=True
    )
    ladder = build_ladders(pairs, arrange_memory(pairs, cpus), kinds)[0]
    assert ladder.levels_caption == f"{ladder.heading} by the level of the memory"
    marked = replace(ladder, levels=ladder.levels.assign(rise=9.0, other_ns=30.0))
    assert ladder.levels_caption in marked.levels_caption
    assert "~: no plateau" in marked.levels_caption
    assert "a|b: the main level is a" in marked.levels_caption
    assert f">{ladder.levels_caption}" in render(tmp_path, [run.run_id])


@pytest.mark.long
def test_of_several_runs_the_figure_on_the_first_screen_says_whose_it_is(
    tmp_path: Path,
) -> None:
    runs = [
        memory.publish(tmp_path),
        memory.publish(tmp_path, started="2026-01-03T00:00:00Z"),
    ]
    ids = [run.run_id for run in runs]
    one, two = (
        re.findall("<figcaption>(.*?)</figcaption>", render(tmp_path, some))[0]
        for some in (ids[:1], ids)
    )
    assert two == f"{one}, on m 2026-01-02"


@pytest.mark.slow
def test_runs_are_compared_by_level(tmp_path: Path) -> None:
    slow = {**memory.BYTES, "read": {**memory.BYTES["read"], "L2": 0.005}}
    runs = [
        memory.publish(tmp_path),
        memory.publish(tmp_path, rates=slow, started="2026-01-03T00:00:00Z"),
    ]
    ids = [run.run_id for run in runs]
    page = render(tmp_path, ids, sides=(ids[0], ids[1]))
    (row,) = re.findall(r"<tr><th scope=\"row\">bandwidth/avx2 L2 read</th>.*", page)
    assert "<td>250.0</td><td>200.0</td><td>-20.0%</td>" in row
    targets = set(re.findall(r'href="#([^"]+)"', page))
    assert targets <= set(re.findall(r'id="([^"]+)"', page))


@pytest.mark.long
@pytest.mark.parametrize("rate", [False, True])
def test_a_ladder_is_drawn_with_its_caches_and_levels(
    tmp_path: Path, rate: bool
) -> None:
    memory.publish(tmp_path)
    pairs = as_float64(load_pairs(tmp_path, benchmark="bandwidth" if rate else "chase"))
    steps, levels = (
        select_ladder_steps(pairs),
        find_plateaus(pairs, load_cpus(tmp_path)),
    )
    steps, levels = (rows[rows["threads"] == 1] for rows in (steps, levels))
    axes = plots.ladder(steps, levels, Figure().add_subplot(), rate=rate)
    lines = {line.get_label(): line for line in axes.get_lines()}
    name, costs = (
        ("read", memory.BYTES["read"]) if rate else ("random", memory.LOADS["random"])
    )
    drawn = lines[name].get_ydata()
    assert drawn[0] == pytest.approx(1 / costs["L1"] if rate else costs["L1"], rel=2e-3)
    assert drawn[-1] == pytest.approx(
        1 / costs["mem"] if rate else costs["mem"], rel=2e-3
    )
    assert [text.get_text() for text in axes.texts] == ["L1", "L2", "LLC", "mem"]
    upright = [
        line.get_xdata()[0]
        for line in axes.get_lines()
        if len(set(line.get_xdata())) == 1
    ]
    assert upright == [memory.L1, memory.L2, memory.LLC]


def test_loads_under_load_are_drawn_over_what_the_others_got_in_the_order_asked() -> (
    None
):
    """Also where they get less the more they ask for."""
    got = {
        0: (0.0, 100.0),
        4000: (4.0, 105.0),
        8000: (7.5, 150.0),
        math.nan: (7.0, 190.0),
    }
    usual = {
        "benchmark": "loaded",
        "variant": "mov",
        "bytes": 1 << 28,
        "threads": 2,
        "relation": "package",
    }
    rows = pd.DataFrame(
        {
            **usual,
            "ping_cpu": 0,
            "pong_cpu": 1,
            "operation": "read" if rate else "idle",
            "load_mbps": asked,
            "other_rate": rate,
            "median_ns": ns,
            "low_ns": ns - 1,
            "high_ns": ns + 1,
        }
        for asked, (rate, ns) in reversed(got.items())
    )
    no_ladders = MemoryHierarchy(rows[:0], rows[:0], rows[:0])
    (curve,) = build_ladders(rows, no_ladders, ["loaded/mov"])
    assert (curve.axis, curve.cpus) == (
        "GB/s of the other threads",
        "2 CPUs, 0 to 1, all together",
    )
    axes = plots.ladder(curve.steps, axes=Figure().add_subplot(), over=curve.over)
    (line,) = axes.get_lines()
    assert line.get_label() == "read"
    assert list(zip(line.get_xdata(), line.get_ydata(), strict=True)) == [*got.values()]
