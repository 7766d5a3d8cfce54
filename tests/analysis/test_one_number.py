"""A host has one number: every command, page, export and frame says the same, with the
same levels between runs.
"""

import json
import random
import re
from pathlib import Path

import pandas as pd
import pytest

import fleet
from fleet.analysis.reduce import (
    add_run_levels,
    list_levels,
    load_history,
    load_numbers,
    summarize_levels,
)
from fleet.store import Listing
from tests import builders, simulated
from tests.command import Fleet

_RELATIONS = ("smt", "package")
_KIND = "cas/cmpxchg"
_ROUNDING = 1e-9  # of a geometric mean


def publish_hosts(root: Path, seed: int) -> None:
    """Publish hosts with 3 to 20 runs at one to three levels 3 to 40 % apart; runs of
    each have the labels side=a or side=b in turn.
    """
    chance = random.Random(seed)
    for host in range(3):
        levels = [1.0]
        for _ in range(host):
            levels.append(levels[-1] * (1 + chance.uniform(0.03, 0.4)))
        drift = chance.choice((0.0, 0.002))
        for number in range(chance.randint(3, 20)):
            factor = chance.choice(levels) * (1 + drift * number)
            ns = {name: ns * factor for name, ns in builders.NS.items()}
            simulated.publish(
                root,
                simulated.desktop(f"h{host}", ns=ns, run_sd=0.005),
                number,
                rounds=2,
                session=f"s202601{number + 1:02}T000000Z-00000000",
                labels={"side": "ab"[number % 2]},
            )


def expect_levels(root: Path) -> dict[tuple[str, str], list[tuple[float, int]]]:
    """Return the levels of each host and relation, the main one first."""
    numbers = add_run_levels(fleet.open(root).numbers())
    levels = summarize_levels(numbers, ["host_id", "relation"])
    names = zip(levels["host_id"], levels["relation"], strict=True)
    listed = list_levels(levels.assign(number=list(names)), "number")
    return {name: [tuple(level) for level in own] for name, own in listed.items()}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(1, marks=pytest.mark.long),
        *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6)),
    ],
)
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("one_number")
    publish_hosts(folder / "results", request.param)
    return folder


def test_no_number_lies_between_two_levels(place: Path) -> None:
    numbers = add_run_levels(fleet.open(place / "results").numbers())
    levels = expect_levels(place / "results")
    for (host, relation), own in levels.items():
        rows = numbers[(numbers["host_id"] == host) & (numbers["relation"] == relation)]
        assert sum(runs for _, runs in own) == len(rows)
        for ns, runs in own:
            near = rows["median_ns"][(rows["median_ns"] / ns - 1).abs() < 0.16]
            assert near.min() * (1 - _ROUNDING) <= ns <= near.max() * (1 + _ROUNDING)
            assert runs <= len(near)


def test_show_of_one_host_and_of_all_say_the_same(place: Path) -> None:
    levels = expect_levels(place / "results")
    with Fleet(place, {"COLUMNS": "200"}) as command:
        every = command("show", "all").stdout
        for host in sorted({host for host, _ in levels}):
            page = command("show", host).stdout
            for relation in _RELATIONS:
                own = levels[host, relation]
                total = sum(runs for _, runs in own)
                main, runs = own[0]
                line = rf"^{_KIND} +{relation} +{main:.1f} .*\b{runs} of {total}\b"
                assert re.search(line, page, re.MULTILINE)
                row = re.search(rf"^{host} .*", every, re.MULTILINE)
                assert row is not None
                assert f" {main:.1f}" in row[0]


def test_a_number_of_several_levels_names_each_with_its_runs(place: Path) -> None:
    levels = expect_levels(place / "results")
    with Fleet(place, {"COLUMNS": "200"}) as command:
        every = command("show", "all").stdout
    listed = re.findall(r"^levels differ between runs: (.*)$", every, re.MULTILINE)
    several = {name: own for name, own in levels.items() if len(own) > 1}
    for line in listed:
        if found := re.match(r"(\w+), cas, (\w+): (.*)", line):
            own = several[found[1], found[2]]
            words = [f"{runs} run{'s' * (runs > 1)} at {ns:.1f}" for ns, runs in own]
            assert found[3] == ", ".join(words)
    assert bool(listed) == bool(several)


def test_exports_have_the_number_of_show(place: Path) -> None:
    levels = expect_levels(place / "results")
    with Fleet(place) as command:
        markdown = command("export", "all", "-F", "markdown").stdout
        bencher = json.loads(command("export", "all", "-F", "bmf").stdout)
    for (host, relation), own in levels.items():
        counts = str(own[0][1])
        if len(own) > 1:
            counts = ", ".join(f"{runs} at {ns:.1f}" for ns, runs in own)
        row = rf"^\| {host} \| {_KIND} \| {relation} \| {counts} \| {own[0][0]:.1f} \|"
        assert re.search(row, markdown, re.MULTILINE)
        value = bencher[f"{host} {_KIND} {relation}"]["latency"]["value"]
        assert value == pytest.approx(own[0][0])


def test_a_page_has_the_number_of_show(place: Path) -> None:
    levels = expect_levels(place / "results")
    with Fleet(place) as command:
        command("report", "all", "-o", "page.html")
    page = (place / "page.html").read_text()
    for own in levels.values():
        assert f"{own[0][0]:.1f}" in page


def test_a_history_has_the_numbers_of_the_table(place: Path) -> None:
    root = place / "results"
    listing = Listing(root)
    numbers = load_numbers(listing)
    for relation in _RELATIONS:
        history = load_history(listing, listing.runs, relation)
        own = numbers[numbers["relation"] == relation]
        pd.testing.assert_series_equal(
            history.set_index("run_id")["median_ns"].sort_index(),
            own.set_index("run_id")["median_ns"].sort_index(),
        )


def test_a_comparison_has_the_levels_of_show(place: Path) -> None:
    root = place / "results"
    numbers = add_run_levels(fleet.open(root).numbers())
    sides = fleet.open(root).runs().set_index("run_id")["labels_json"].map(json.loads)
    numbers["side"] = [sides[run_id]["side"] for run_id in numbers["run_id"]]
    for comparison in fleet.open(root).compare("side=a", "side=b"):
        (host,) = comparison.a.hosts
        for row in comparison.relations.itertuples():
            own = numbers[
                (numbers["host_id"] == host) & (numbers["relation"] == row.relation)
            ]
            assert row.levels == own["run_level"].nunique()


def test_numbers_go_out_as_rows(place: Path) -> None:
    with Fleet(place) as command:
        command("export", "all", "-F", "numbers", "-o", "numbers.csv")
        refused = command("export", "all", "-F", "numbers", "--value", "min")
    rows = pd.read_csv(place / "numbers.csv")
    numbers = fleet.open(place / "results").numbers()
    assert [*rows["run_id"]] == [*numbers["run_id"]]
    assert [*rows["median_ns"]] == pytest.approx([*numbers["median_ns"]])
    assert refused.exit_code == 2


def test_a_site_has_the_number_and_levels_of_show(place: Path) -> None:
    levels = expect_levels(place / "results")
    with Fleet(place) as command:
        command("report", "all", "-o", "site/")
    for (host, relation), own in levels.items():
        page = (place / "site" / "m" / f"{host}.html").read_text()
        words = " ".join(re.sub(r"<[^>]*>", " ", page).split())
        assert f" {relation} {own[0][0]:.1f} ±" in words
        if len(own) > 1:
            counts = [f"{runs} run{'s' * (runs > 1)} at {ns:.1f}" for ns, runs in own]
            assert f"cas, {relation}: {', '.join(counts)}" in words


def test_a_run_has_the_numbers_of_the_table_wherever_it_is_shown(place: Path) -> None:
    numbers = fleet.open(place / "results").numbers()
    table = numbers.set_index(["run_id", "relation"]).to_dict("index")
    with Fleet(place) as command:
        shown = json.loads(command("show", "all", "--json").stdout)["rows"]
        accepted = json.loads(command("accept", "all", "--json").stdout)["rows"]
        card = command("report", "h0", "-o", "card.svg").stdout
    for document in shown:
        run_id = document["run"]["run_id"]
        for row in document["relations"]:
            own = table[run_id, row["relation"]]
            for column in ("median_ns", "min_ns", "max_ns", "p99_ns", "spread"):
                assert row[column] == own[column]
    for machine in accepted:
        for row in machine["rows"]:
            own = table[machine["run_id"], row["relation"]]
            assert row["ns"] == pytest.approx(own["median_ns"], rel=_ROUNDING)
    last = numbers.loc[numbers["host_id"] == "h0", "run_id"].iloc[-1]
    for relation in _RELATIONS:
        assert f"| {relation} | {table[last, relation]['median_ns']:.1f} ns |" in card
