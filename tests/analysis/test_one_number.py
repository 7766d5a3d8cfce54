"""A host has one number: every command, page, export and frame says the same, with the
same levels between runs.
"""

import json
import random
import re
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fleet
from fleet.analysis.compare import mark_usual
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
_FIRST_NIGHT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_MISSED = 0.15  # of the nights


def publish_hosts(root: Path, seed: int, most_runs: int) -> None:
    """Publish hosts that are measured each night but for some, 3 times or more, with
    the labels side=a or side=b in turn.

    The first three have one to three levels 3 to 40 % apart and may drift; the last one
    is slower from the middle night on.
    """
    chance = random.Random(seed)
    for host in range(4):
        levels = [1.0]
        for _ in range(host % 3):
            levels.append(levels[-1] * (1 + chance.uniform(0.03, 0.4)))
        drift = chance.choice((0.0, 0.002))
        nights = chance.randint(3, most_runs)
        for number in range(nights):
            if number > 3 and chance.random() < _MISSED:
                continue
            factor = chance.choice(levels) * (1 + drift * number)
            if host == 3 and number > nights / 2:
                factor *= 1.15
            publish_night(root, f"h{host}", number, factor)


def load_usual_rows(root: Path) -> pd.DataFrame:
    """Load the numbers of runs since the last change of their host, with levels."""
    numbers = mark_usual(root, add_run_levels(fleet.open(root).numbers()))
    return numbers[numbers["is_usual"]]


def publish_night(root: Path, host: str, number: int, factor: float) -> None:
    """Publish the run of one night. factor: of all its latencies."""
    night = _FIRST_NIGHT + timedelta(days=number)
    ns = {name: ns * factor for name, ns in builders.NS.items()}
    simulated.publish(
        root,
        simulated.desktop(host, ns=ns, run_sd=0.005),
        number,
        rounds=2,
        session=f"s{night:%Y%m%dT%H%M%SZ}-00000000",
        labels={"side": "ab"[number % 2]},
        started=f"{night:%Y-%m-%dT%H:%M:%SZ}",
    )


@cache
def expect_levels(root: Path) -> dict[tuple[str, str], list[tuple[float, int]]]:
    """Return the levels of each host and relation, the main one first."""
    levels = summarize_levels(load_usual_rows(root), ["host_id", "relation"])
    names = zip(levels["host_id"], levels["relation"], strict=True)
    levels["number"] = list(names)
    listed = list_levels(levels, "number")
    return {name: [tuple(level) for level in own] for name, own in listed.items()}


@cache
def print_once(place: Path, *arguments: str) -> str:
    """Return what a command prints; it runs once for all tests of a place."""
    with Fleet(place, {"COLUMNS": "200"}) as command:
        return command(*arguments).stdout


def split_at_gaps(ns: "pd.Series[float]") -> list[tuple[float, int]] | None:
    """Return the geometric mean and count of each group of numbers that are close to
    one another, the largest first; None if a gap may be one or not.
    """
    log_ns = np.sort(np.log(ns.to_numpy(dtype=float)))
    gaps = np.diff(log_ns)
    is_undecided = (gaps > np.log(1.05)) & (gaps < np.log(1.13))
    if is_undecided.any():
        return None
    starts = np.flatnonzero(gaps >= np.log(1.13)) + 1
    groups = np.split(log_ns, starts)
    groups.sort(key=lambda own: (-len(own), own[0]))
    return [(float(np.exp(own.mean())), len(own)) for own in groups]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((1, 12), marks=pytest.mark.long),
        *(pytest.param((seed, 40), marks=pytest.mark.slow) for seed in range(2, 8)),
    ],
)
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("one_number")
    publish_hosts(folder / "results", *request.param)
    return folder


def read_words(page: Path) -> str:
    """Return the text of a page without its tags, with single spaces."""
    text = re.sub(r"<[^>]*>", " ", page.read_text())
    return " ".join(text.split())


def rows_of_relation(rows: pd.DataFrame, host: str, relation: str) -> pd.DataFrame:
    return rows[(rows["host_id"] == host) & (rows["relation"] == relation)]


def test_no_number_lies_between_two_levels(place: Path) -> None:
    """Whatever the rule of levels is: far apart is apart, close is together."""
    rows = load_usual_rows(place / "results")
    told = 0
    for (host, relation), levels in expect_levels(place / "results").items():
        own = rows_of_relation(rows, host, relation)
        levels_ns = [ns for ns, _ in levels]
        levels_runs = [runs for _, runs in levels]
        assert sum(levels_runs) == len(own)
        groups = split_at_gaps(own["median_ns"])
        if groups:
            told += 1
            assert levels_runs == [runs for _, runs in groups]
            assert levels_ns == pytest.approx([ns for ns, _ in groups])
    assert told


def test_show_of_one_host_and_of_all_say_the_same(place: Path) -> None:
    levels = expect_levels(place / "results")
    totals = fleet.open(place / "results").runs()["host_id"].value_counts()
    hosts = sorted({host for host, _ in levels})
    every = print_once(place, "show", "all")
    pages = {host: print_once(place, "show", host) for host in hosts}
    for host, page in pages.items():
        row = re.search(rf"^{host} .*", every, re.MULTILINE)
        assert row is not None
        for relation in _RELATIONS:
            main, runs = levels[host, relation][0]
            start = rf"^{_KIND} +{relation} +{main:.1f} "
            counts = rf"\b{runs} of {totals[host]}\b"
            assert re.search(f"{start}.*{counts}", page, re.MULTILINE)
            assert f" {main:.1f}" in row[0]


def test_a_number_of_several_levels_names_each_with_its_runs(place: Path) -> None:
    levels = expect_levels(place / "results")
    every = print_once(place, "show", "all")
    listed = re.findall(r"^levels differ between runs: (.*)$", every, re.MULTILINE)
    several = {name: own for name, own in levels.items() if len(own) > 1}
    for line in listed:
        if found := re.match(r"(\w+), cas, (\w+): (.*)", line):
            own = several[found[1], found[2]]
            assert found[3] == describe_levels(own)
    assert bool(listed) == bool(several)


def test_exports_have_the_number_of_show(place: Path) -> None:
    levels = expect_levels(place / "results")
    with Fleet(place) as command:
        markdown = command("export", "all", "-F", "markdown").stdout
        bencher = json.loads(command("export", "all", "-F", "bmf").stdout)
    for (host, relation), own in levels.items():
        main_ns, main_runs = own[0]
        counts = str(main_runs)
        if len(own) > 1:
            counts = ", ".join(f"{runs} at {ns:.1f}" for ns, runs in own)
        names = rf"{host} \| {_KIND} \| {relation}"
        row = rf"^\| {names} \| {counts} \| {main_ns:.1f} \|"
        assert re.search(row, markdown, re.MULTILINE)
        exported = bencher[f"{host} {_KIND} {relation}"]
        assert exported["latency"]["value"] == pytest.approx(main_ns)


def test_a_page_has_the_numbers_and_levels_of_show(place: Path) -> None:
    levels = expect_levels(place / "results")
    with Fleet(place) as command:
        command("report", "all", "-o", "page.html")
    page = (place / "page.html").read_text()
    words = read_words(place / "page.html")
    for (host, relation), own in levels.items():
        (label,) = re.findall(rf"Run medians of {_KIND}, {relation}: ([^\"]*) ns", page)
        main_ns, _ = own[0]
        assert f"{host} {main_ns:.1f}" in label.split("; ")
        listed = f"{host}, cas, {relation}: {describe_levels(own)}"
        assert (listed in words) == (len(own) > 1)


def describe_levels(levels: list[tuple[float, int]]) -> str:
    return ", ".join(f"{runs} run{'s' * (runs > 1)} at {ns:.1f}" for ns, runs in levels)


def test_a_history_has_the_numbers_of_the_table(place: Path) -> None:
    root = place / "results"
    listing = Listing(root)
    numbers = load_numbers(listing)
    with Fleet(place) as command:
        printed = json.loads(command("runs", "--relation", "smt", "--json").stdout)
    rows = {
        "smt": pd.DataFrame(printed["rows"]),
        "package": load_history(listing, listing.runs, "package"),
    }
    for relation, history in rows.items():
        own = numbers[numbers["relation"] == relation]
        assert map_medians(history) == map_medians(own)


def map_medians(rows: pd.DataFrame) -> dict[str, float]:
    return dict(zip(rows["run_id"], rows["median_ns"], strict=True))


def test_a_comparison_has_the_levels_of_show(place: Path) -> None:
    root = place / "results"
    numbers = add_run_levels(fleet.open(root).numbers())
    labels = fleet.open(root).runs().set_index("run_id")["labels_json"].map(json.loads)
    numbers["side"] = [labels[run_id]["side"] for run_id in numbers["run_id"]]
    for comparison in fleet.open(root).compare("side=a", "side=b"):
        (host,) = comparison.a.hosts
        for row in comparison.relations.itertuples():
            own = rows_of_relation(numbers, host, row.relation)
            of_a = own[own["side"] == "a"]
            of_b = own[own["side"] == "b"]
            assert row.levels == own["run_level"].nunique()
            assert count_runs_at(of_a, row.a_ns) == [row.a_compared]
            assert count_runs_at(of_b, row.b_ns) == [row.b_compared]


def test_numbers_go_out_as_rows(place: Path) -> None:
    with Fleet(place) as command:
        command("export", "all", "-F", "numbers", "-o", "numbers.csv")
        refused = command("export", "all", "-F", "numbers", "--value", "min")
    rows = pd.read_csv(place / "numbers.csv")
    numbers = fleet.open(place / "results").numbers()
    assert [*rows["run_id"]] == [*numbers["run_id"]]
    assert [*rows["median_ns"]] == pytest.approx([*numbers["median_ns"]])
    assert refused.exit_code == 2


def count_runs_at(numbers: pd.DataFrame, ns: float) -> list[int]:
    """Return how many runs each level of this latency has."""
    levels = summarize_levels(numbers, ["host_id"])
    is_at_level = levels["ns"].between(ns * (1 - _ROUNDING), ns * (1 + _ROUNDING))
    return levels["runs"][is_at_level].tolist()


def test_a_site_has_the_number_and_levels_of_show(place: Path) -> None:
    levels = expect_levels(place / "results")
    with Fleet(place) as command:
        command("report", "all", "-o", "site/")
    for (host, relation), own in levels.items():
        words = read_words(place / "site" / "m" / f"{host}.html")
        main_ns, _ = own[0]
        assert f" {relation} {main_ns:.1f} ±" in words
        if len(own) > 1:
            assert f"cas, {relation}: {describe_levels(own)}" in words


def test_a_run_has_the_numbers_of_the_table_wherever_it_is_shown(place: Path) -> None:
    numbers = fleet.open(place / "results").numbers()
    table = numbers.set_index(["run_id", "relation"]).to_dict("index")
    last_runs = numbers.groupby("host_id")["run_id"].last()
    shown = json.loads(print_once(place, "show", "all", "--json"))["rows"]
    accepted = json.loads(print_once(place, "accept", "all", "--json"))["rows"]
    cards = {}
    with Fleet(place) as command:
        for host, run_id in last_runs.items():
            cards[run_id] = command("report", host, "-o", f"{host}.svg").stdout
    for run_id, card in cards.items():
        for relation in _RELATIONS:
            ns = table[run_id, relation]["median_ns"]
            assert f"| {relation} | {ns:.1f} ns |" in card
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


def test_what_is_expected_of_a_machine_is_one_level_of_its_earlier_runs(
    place: Path,
) -> None:
    numbers = add_run_levels(fleet.open(place / "results").numbers())
    accepted = json.loads(print_once(place, "accept", "all", "--json"))["rows"]
    judged = 0
    for machine in accepted:
        earlier = numbers[numbers["run_id"] != machine["run_id"]]
        for row in machine["rows"]:
            if row["source"] != "earlier runs" or row["low"] is None:
                continue
            judged += 1
            own = rows_of_relation(earlier, machine["host"], row["relation"])
            levels = summarize_levels(own, ["host_id"])
            is_expected = levels["ns"].between(row["low"], row["high"])
            assert levels["runs"][is_expected].tolist() == [row["count"]]
    assert judged
