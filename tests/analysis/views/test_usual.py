"""What number a host has, in every command and file, and which of its runs is the
last.
"""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from fleet.analysis.exchange import export_numbers
from fleet.analysis.report import render, write_site
from fleet.analysis.views import load_usual_numbers, select_runs_to_show
from fleet.model import Failed, Host
from fleet.store import Listing, Store
from tests import builders, simulated
from tests.analysis.markup import Markup
from tests.command import Fleet


def publish(root: Path, number: int, *benchmarks: str) -> str:
    """Publish a run of the desktop `board`, in a session of its own."""
    run = simulated.publish(
        root,
        simulated.desktop("board"),
        number,
        rounds=2,
        benchmarks=benchmarks,
        session=f"s2026010{number}T000000Z-00000000",
    )
    return run.run_id


def publish_failed(root: Path, run_id: str) -> None:
    """Publish a later run of `board` whose bursts all failed."""
    listing = Listing(root)
    (like,) = [run for run in listing.runs if run.run_id == run_id]
    machine = simulated.desktop("board")
    run = builders.a_run(
        machine.cpus,
        "r20260102T040905Z-0badcafe",
        Host("board", "192.0.2.7"),
        benchmarks=("cas",),
    )
    facts = replace(run.facts, cpu_model=like.cpu_model)
    why = Failed("cas", "cmpxchg", 0, 0, 1, "timeout")
    run = replace(
        run,
        facts=facts,
        failed=(why,),
        session_id="s20260109T000000Z-00000000",
        started_utc="2026-01-02T04:09:05Z",
    )
    Store(root).publish(run, iter(()))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Two runs of cas and clock, then one of clock alone, and one without samples."""
    root = tmp_path / "results"
    publish(root, 1, "cas", "clock")
    last = publish(root, 2, "cas", "clock")
    publish(root, 3, "clock")
    publish_failed(root, last)
    return tmp_path


def test_a_benchmark_is_shown_of_the_last_runs_that_have_it(place: Path) -> None:
    with Fleet(place) as fleet:
        shown = fleet("show", "board", "-b", "cas").stdout
        assert re.search(r"^cas/cmpxchg +smt .* 2 of 2 ", shown, re.MULTILINE)
        assert "cas/cmpxchg: one-way" in fleet("show", "-b", "cas").stdout
        assert "2 runs" in fleet("report", "board", "-b", "cas").stdout
        rows = fleet("export", "board", "-b", "cas", "-F", "markdown").stdout
        assert re.search(r"\| board \| cas/cmpxchg \| smt \| 2 \|", rows)


def test_a_run_without_samples_is_never_the_last(place: Path) -> None:
    with Fleet(place) as fleet:
        for words in (("show", "board"), ("show",)):
            shown = fleet(*words).stdout
            assert "clock/rdtscp" in shown
        assert "board" in fleet("export", "-F", "markdown").stdout
        matrix = fleet("export", "board", "-b", "cas")
        assert matrix.stdout.startswith("CPU,0,1")
        assert "0badcafe" not in matrix.stderr


def test_show_names_what_only_earlier_runs_have(place: Path) -> None:
    with Fleet(place) as fleet:
        shown = fleet("show", "board").stdout
    named = "only earlier runs have cas/cmpxchg of 2026-01-02"
    assert f"{named}: fleet show board -b cas/cmpxchg" in shown
    assert "later, without samples: r20260102T040905Z-0badcafe" in shown
    assert "1 burst failed" in shown


def test_a_run_that_is_alone_is_shown_even_without_samples(place: Path) -> None:
    with Fleet(place) as fleet:
        shown = fleet("show", "r20260102T040905Z-0badcafe")
    assert shown.exit_code == 0
    assert "only earlier runs" not in shown.stdout


def test_a_number_since_a_change_is_the_same_in_show_page_and_exports(
    made_lab: Path,
) -> None:
    listing = Listing(made_lab / "results")
    runs = select_runs_to_show(listing, ["lucca"]).runs
    table = load_usual_numbers(listing, runs).table
    row = table[(table["benchmark"] == "cas") & (table["relation"] == "package")].iloc[
        0
    ]
    assert row["since"] is not None
    assert row["runs"] < len(runs)
    number = f"{row['median_ns']:.1f}"
    markdown = export_numbers(
        listing,
        runs,
        "markdown",
    )
    assert re.search(rf"cas/cmpxchg \| package \| \d+ \| {number} \|", markdown)
    openmetrics = export_numbers(listing, runs, "openmetrics")
    own = re.search(r'latency_seconds{.*"cas".*"package"} (\S+)', openmetrics)
    assert own is not None
    assert float(own[1]) == pytest.approx(row["median_ns"] * 1e-9, rel=1e-4)
    page = render(listing, [run.run_id for run in runs])
    assert f"Run medians of cas/cmpxchg, package: lucca {number} ns" in page
    assert number in Markup(page).text


def test_runs_at_several_levels_are_named_with_their_counts_everywhere(
    tmp_path: Path,
) -> None:
    for number in range(5):
        ns = builders.NS
        if number > 2:
            ns = {name: 1.3 * time for name, time in ns.items()}
        simulated.publish(
            tmp_path,
            simulated.desktop("flips", ns=ns),
            number,
            rounds=3,
            session=f"s2026010{number}T000000Z-00000000",
        )
    listing = Listing(tmp_path)
    usual = load_usual_numbers(listing, listing.runs)
    row = usual.table[usual.table["relation"] == "package"].iloc[0]
    (main, runs), (other, others) = row["levels"]
    assert (runs, others) == (3, 2)
    page = Markup(render(listing, [run.run_id for run in listing.runs])).text
    assert f"flips, cas, package: 3 runs at {main:.1f}, 2 runs at {other:.1f}" in page
    markdown = export_numbers(listing, listing.runs, "markdown")
    assert f"| 3 at {main:.1f}, 2 at {other:.1f} | {main:.1f} |" in markdown


def test_a_host_of_one_run_has_its_interval_beside_hosts_of_many(
    made_lab: Path, tmp_path: Path
) -> None:
    listing = Listing(made_lab / "results")
    runs = select_runs_to_show(listing, ["verona", "lucca"]).runs
    own = [run for run in runs if run.host_name == "verona"]
    pages = []
    for name, shown in (("both", runs), ("alone", own)):
        write_site(listing, shown, tmp_path / name)
        pages.append((tmp_path / name / "m/verona.html").read_text())
    assert len(own) == 1
    assert pages[0] == pages[1]
    assert load_usual_numbers(listing, own).table["half"].notna().any()
