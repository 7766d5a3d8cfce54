"""The data of a map are the numbers of its pairs, whatever the order of its CPUs."""

import base64
import json
import zlib
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleet.analysis.reduce import load_pairs
from fleet.analysis.report import render
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
