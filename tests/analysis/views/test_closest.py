"""The sets of CPUs that are closest to each other: `fleet show --closest`."""

import re
from pathlib import Path

import numpy as np

from fleet.analysis.reduce import find_closest_sets
from tests.command import Fleet


def test_groups_of_a_cache_are_found_in_noise_the_fastest_first() -> None:
    random = np.random.default_rng(0)
    group = np.arange(24) % 4  # CPUs of a cache are not numbered in a row
    ns = np.where(group[:, None] == group, 20.0 + group, 60.0)
    noise = np.triu(random.normal(1, 0.01, ns.shape), 1)
    matrix = ns * (noise + noise.T)
    np.fill_diagonal(matrix, np.nan)
    sets = find_closest_sets(matrix, 6)
    assert [item.places for item in sets] == [
        tuple(range(first, 24, 4)) for first in range(4)
    ]
    first = sets[0]
    own = matrix[np.ix_(first.places, first.places)]
    assert first.slowest_ns == np.nanmax(own)
    assert matrix[first.ping, first.pong] == first.slowest_ns


def test_cpus_without_a_measured_pair_are_in_no_set_together() -> None:
    matrix = np.full((4, 4), 10.0)
    matrix[0, 1] = matrix[1, 0] = np.nan
    assert all({0, 1} - {*item.places} for item in find_closest_sets(matrix, 2))
    assert find_closest_sets(matrix, 4) == []


def test_the_command_says_what_cannot_be_told_apart_and_held_before(
    made_lab: Path,
) -> None:
    with Fleet(made_lab) as fleet:
        rome = fleet("show", "rome", "--closest", "8", "-c", "cores").stdout
        pisa = fleet("show", "pisa", "--closest", "4").stdout
        wrong = fleet("show", "pisa", "--closest", "40")
        two = fleet("show", "pisa", "rome", "--closest", "4")
    rows = re.findall(r"^(\d+)-(\d+) .*  yes  +(\d) of 7$", rome, re.MULTILINE)
    assert {int(first) for first, _, _ in rows} == {0, 8, 16, 24}, "the caches"
    assert re.search(r"\n12-15 +34\.5 .* yes ", pisa)
    assert re.search(r"\n8-11 +35\.3 .* no ", pisa)
    assert (wrong.exit_code, two.exit_code) == (2, 2)
    assert "the last run has pairs of 16 CPUs" in wrong.stderr


def test_the_document_has_the_sets_that_are_printed(made_lab: Path) -> None:
    with Fleet(made_lab) as fleet:
        printed = fleet("show", "rome", "--closest", "8", "-c", "cores").stdout
        sets = fleet("show", "rome", "--closest", "8", "-c", "cores", "--json").json
        refused = fleet("show", "pisa", "--closest", "4", "--csv")
    rows = [
        f"{item['cpus'][0]}-{item['cpus'][-1]} {item['slowest_ns']:.1f}"
        f" {'-'.join(map(str, item['slowest_pair']))}"
        f" {'yes' if item['best'] else 'no'}"
        f" {item['runs_as_good']} of {item['earlier_runs']}"
        for item in sets
    ]
    without_interval = re.sub(r"±\S+", "", printed)
    lines = [" ".join(line.split()) for line in without_interval.splitlines()]
    assert rows == lines[2 : 2 + len(rows)]
    assert {(item["host"], item["benchmark"]) for item in sets} == {("rome", "cas")}
    assert refused.exit_code == 2
    assert "text, or JSON" in refused.stderr
