"""The data of a map are the numbers of its pairs, whatever the order of its CPUs."""

import base64
import json
import re
import zlib
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleet.analysis.reduce import load_pairs, load_samples
from fleet.analysis.report import render
from fleet.model import Cpu
from fleet.store import Listing, Store
from tests import builders, simulated
from tests.analysis.markup import Markup


def _decode(page: str) -> tuple[dict[str, Any], list[list[float]]]:
    """Return the data of the only map, and the arrays of its pairs."""
    (text,) = Markup(page).values("data-map")
    about = json.loads(text)
    packed = zlib.decompress(base64.b64decode(about["pairs"]))
    return about, np.frombuffer(packed, "<f4").reshape(6, -1).tolist()


def _list_pairs(cpus: Sequence[int]) -> list[tuple[int, int]]:
    return [(min(pair), max(pair)) for pair in combinations(cpus, 2)]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    desk = simulated.desktop("desk", two_levels=frozenset({(0, 1)}))
    simulated.publish(folder, desk)
    return folder


def test_the_page_has_every_pair_once_with_what_show_says_of_it(root: Path) -> None:
    pairs = load_pairs(Listing(root))
    about, (ns, spread, share, other, relation, flags) = _decode(
        render(root, pairs["run_id"].unique().tolist())
    )
    assert about["cpus"] == [0, 4, 1, 5, 2, 6, 3, 7]
    by_pair = pairs.set_index(["ping_cpu", "pong_cpu"])
    for place, pair in enumerate(_list_pairs(about["cpus"])):
        row = by_pair.loc[pair]
        assert ns[place] == row["median_ns"]  # else the last digit shown may differ
        assert spread[place] == pytest.approx(row["spread"], abs=0.0005)
        assert share[place] == pytest.approx(row["other_share"], abs=0.0005)
        assert np.isnan(other[place]) == np.isnan(row["other_ns"])
        assert about["relations"][int(relation[place])] == row["relation"]
        own = set(filter(None, row["flags"].split(",")))
        if row["spread"] > 0.05:
            own.add("wide")
        assert set(about["flags"][int(flags[place])]) == own
    assert sum(not np.isnan(number) for number in other) == 1
    assert (
        about["places"][1]
        == "CPU 4: core 0, cluster 0, cache 0, die 0, node 0, socket 0"
    )


def test_a_pair_that_was_not_measured_has_no_number(tmp_path: Path) -> None:
    run = builders.a_run(builders.small_desktop())
    bursts = builders.make_bursts(run)
    measured = [burst for burst in bursts if {burst.ping_cpu, burst.pong_cpu} != {0, 7}]
    Store(tmp_path).publish(run, measured)
    about, (ns, *_) = _decode(render(tmp_path, [run.run_id]))
    pairs = _list_pairs(about["cpus"])
    assert [pairs[place] for place in np.flatnonzero(np.isnan(ns))] == [(0, 7)]


def test_the_bursts_of_each_pair_are_in_the_order_of_the_run(root: Path) -> None:
    run_id = load_pairs(Listing(root))["run_id"].iloc[0]
    about, _ = _decode(render(root, [run_id]))
    packed = zlib.decompress(base64.b64decode(about["bursts"]))
    steps = np.frombuffer(packed, "<u2").reshape(-1, about["rounds"])
    bursts = load_samples(Listing(root), run_id=run_id, benchmark="cas")
    ticks = [np.median(row.ticks[row.warmup :]) for row in bursts.itertuples()]
    one_way = ticks * bursts["ns_per_tick"] / bursts["iterations"] / 2
    in_order = bursts.assign(ns=one_way).sort_values("round")
    ends = in_order[["ping_cpu", "pong_cpu"]]  # in turn, from round to round
    by_pair = in_order.groupby([ends.min(axis=1), ends.max(axis=1)])["ns"]
    for place, pair in enumerate(_list_pairs(about["cpus"])):
        ns = np.exp(steps[place] / 4000)
        assert ns == pytest.approx(by_pair.get_group(pair), rel=0.0005)


def test_a_page_of_several_runs_in_detail_has_no_bursts(tmp_path: Path) -> None:
    runs = [
        simulated.publish(tmp_path, simulated.desktop("desk"), number).run_id
        for number in range(2)
    ]
    for text in Markup(render(tmp_path, runs)).values("data-map"):
        assert "bursts" not in json.loads(text)


def test_a_machine_without_groups_zooms_to_consecutive_cpus(tmp_path: Path) -> None:
    cpus = tuple(Cpu(n, core=n, llc=0, package=0, node=0) for n in range(33))
    machine = simulated.Machine("flat", cpus)
    run = simulated.publish(tmp_path, machine, rounds=1, samples=2)
    page = render(tmp_path, [run.run_id])
    assert re.findall('<option value="([0-9 ]+)">([^<]+)', page) == [
        *(("0 33", "all 33 CPUs"), ("0 32", "CPUs 0 to 31"), ("32 33", "CPUs 32 to 32"))
    ]


def test_a_slider_of_colours_reaches_to_the_highest_number(root: Path) -> None:
    page = render(root, load_pairs(Listing(root))["run_id"].unique().tolist())
    about, (ns, *_) = _decode(page)
    low, high, is_log = about["scales"]["own"]
    assert not is_log
    (reach,) = re.findall('name="high" min="0" max="([^"]*)"', page)
    assert low + float(reach) * (high - low) == pytest.approx(max(ns), rel=0.02)
    assert max(ns) > high
