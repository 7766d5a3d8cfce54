"""Many hosts on a screen: a line a host, the fastest first, all comparable runs of
each.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from fleet.analysis.base import format_value, wrap_to_width
from fleet.analysis.reduce import (
    Only,
    add_run_levels,
    history,
    load_overview,
    name_cells,
    summarize_hosts,
)
from fleet.analysis.views import (
    Canvas,
    describe_interval,
    draw_sparkline,
    group_columns,
    render_extremes,
    render_host_table,
    select_runs_to_show,
    show_runs,
)
from fleet.errors import UsageError
from fleet.model import SHIPPED
from fleet.store import Listing, Store
from fleet.store.schema import TABLES
from tests import simulated
from tests.command import Fleet


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Publish four runs each of a quick and a slow desktop, one of a laptop in the last
    session.
    """
    place = tmp_path_factory.mktemp("overview")
    slow = {relation: 1.5 * ns for relation, ns in simulated.builders.NS.items()}
    machines = (
        simulated.desktop("slow", ns=slow),
        simulated.desktop("quick"),
        simulated.laptop("other"),
    )
    for number in range(4):
        for machine in machines[: 3 if number == 3 else 2]:
            simulated.publish(
                place,
                machine,
                number,
                rounds=4,
                session=f"s2026010{number}T000000Z-00000000",
            )
    return place


def test_hosts_are_in_order_of_their_latency(root: Path) -> None:
    selection = select_runs_to_show(Listing(root), [])
    assert len(selection.runs) == 3
    text = show_runs(root, selection, Canvas(80))
    assert re.findall(r"^(quick|slow|other) ", text, re.MULTILINE)[-1] == "slow"
    assert max(map(len, wrap_to_width(text, 80).splitlines())) <= 80
    assert text.count("siblings of one core") == 1


def load_rows(place: Path | Listing, hosts: list[str]) -> pd.DataFrame:
    """Load the rows of the runs that are shown of hosts; without hosts, of the last
    session.
    """
    listing = place if isinstance(place, Listing) else Listing(place)
    return load_overview(listing, select_runs_to_show(listing, hosts).runs)


def publish_nights(root: Path, factors: Sequence[float]) -> None:
    """Publish a session of host `flips` for each factor of its latencies."""
    for number, factor in enumerate(factors):
        ns = {name: factor * ns for name, ns in simulated.builders.NS.items()}
        machine = simulated.desktop("flips", ns=ns)
        session = f"s2026010{number}T000000Z-00000000"
        simulated.publish(root, machine, number, rounds=4, session=session)


def test_hosts_that_are_selected_count_with_all_their_comparable_runs(
    root: Path,
) -> None:
    table = summarize_hosts(load_rows(root, ["slow", "quick"]))
    assert set(table["runs"]) == {4}
    past = history(root, host_id="slow", relation="smt")["median_ns"]
    row = table[(table["host_id"] == "slow") & (table["relation"] == "smt")].iloc[0]
    assert past.min() <= row["median_ns"] <= past.max()
    assert 0 < row["half"] < 0.2


def test_a_new_run_is_as_uncertain_as_runs_like_it_differ(root: Path) -> None:
    """Say nothing of hosts with fewer than three comparable runs."""
    keys = ["benchmark", "relation"]
    new = select_runs_to_show(Listing(root), []).runs[0]
    history = load_rows(root, ["slow", "quick", "other"])
    rows = history[history["run_id"] == new.run_id]
    alone = summarize_hosts(rows, None).set_index(keys)
    among = summarize_hosts(rows, history).set_index(keys)
    assert (alone["median_ns"] == among["median_ns"]).all()
    assert describe_interval(alone) == "of the number, within the run"
    assert describe_interval(among).startswith("of one run, by how 3")
    same = history[history["host_id"] == new.host_id]
    for key, part in same.groupby(keys):
        deviation = np.log(part["median_ns"]).std()
        half = np.expm1(t.ppf(0.975, 3) * deviation)
        assert len(part) == 4
        assert among.loc[key, "runs_of_half"] == 4
        assert among.loc[key, "half"] == pytest.approx(half, rel=1e-3)
    two = same.groupby(keys).tail(2)
    of_host = rows[rows["host_id"] == new.host_id]
    among_two = summarize_hosts(of_host, two)
    assert describe_interval(among_two).endswith("the run")


def test_a_run_that_is_named_is_shown_alone(root: Path) -> None:
    run_id = Store(root).list_runs()[0].run_id
    selection = select_runs_to_show(Listing(root), [run_id])
    assert selection.latest == (run_id,)
    assert "comparable runs" not in show_runs(root, selection, Canvas(80))


def test_one_host_is_shown_in_detail_with_its_earlier_runs(root: Path) -> None:
    selection = select_runs_to_show(Listing(root), ["quick"])
    text = show_runs(root, selection, Canvas(80))
    assert "4 comparable runs" in text
    assert re.search(
        r"^cas/cmpxchg +smt .* ±\d\.\d% .*[▁▂▃▄▅▆▇█]{4}$", text, re.MULTILINE
    )


def test_runs_at_different_levels_are_not_averaged(tmp_path: Path) -> None:
    publish_nights(tmp_path, (1, 1, 1, 0.25, 1))
    selection = select_runs_to_show(Listing(tmp_path), ["flips"])
    table = summarize_hosts(load_overview(tmp_path, selection.runs))
    for row in table.to_dict("records"):
        (usual, usual_runs), (other, other_runs) = row["levels"]
        assert usual_runs == 4
        assert other_runs == 1
        assert row["median_ns"] == usual
        assert usual == pytest.approx(4 * other, rel=0.15)
        assert row["half"] < 0.2
    levels = r"flips, cas, smt: 4 runs at [\d.]+, 1 run at [\d.]+$"
    for text in (render_host_table(table, Canvas(80)), render_extremes(table, 100)):
        assert re.search(levels, text, re.MULTILINE)
    assert " 4 of 5 " in show_runs(tmp_path, selection, Canvas(80))


def test_three_runs_at_two_levels_are_named_with_both(tmp_path: Path) -> None:
    medians = {}
    for number, ns in enumerate((27.0, 106.8, 25.3)):
        run = simulated.publish(tmp_path, simulated.desktop("h0"), number, rounds=4)
        medians[run.run_id] = ns
    rows = load_overview(tmp_path, Listing(tmp_path).runs)
    rows = add_run_levels(rows.assign(median_ns=rows["run_id"].map(medians)))
    text = render_host_table(summarize_hosts(rows, rows), Canvas(80))
    assert "h0, cas, smt: 2 runs at 26.1, 1 run at 106.8" in text
    widths = re.findall(r"±([\d.]+)%", text.replace("±95%", ""))
    assert all(float(width) < 100 for width in widths)


def test_an_interval_is_never_over_several_levels(tmp_path: Path) -> None:
    """Publish three runs at three levels: the number and its interval are of one of
    them.
    """
    publish_nights(tmp_path, (1.0, 2.0, 4.5))
    history = load_rows(tmp_path, ["flips"])
    table = summarize_hosts(history, history)
    assert (table["runs_of_half"] == 1).all()
    assert (table["half"] < 0.2).all()
    assert describe_interval(table) == "of the number, within the run"


def test_ranks_are_colours_and_do_not_count_as_width(root: Path) -> None:
    table = summarize_hosts(load_rows(root, []))
    coloured = render_host_table(table, Canvas(80, colour=True))
    plain = render_host_table(table, Canvas(80))
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


def test_where_intervals_do_not_fit_their_range_is_in_the_legend(root: Path) -> None:
    table = summarize_hosts(load_rows(root, []))
    narrow = render_host_table(table, Canvas(34))
    assert re.search(r"^slow +\d+\.\d +", narrow, re.MULTILINE)
    assert "half of them within ±" in narrow
    without_intervals = table.assign(half=float("nan"))
    assert "±95%" not in render_host_table(without_intervals, Canvas(34))


def test_an_interval_beyond_all_of_the_number_is_unsettled(root: Path) -> None:
    table = summarize_hosts(load_rows(root, []))
    all_wide = render_host_table(table.assign(half=6.346), Canvas(200))
    assert re.search(r"^slow .* unsettled", all_wide, re.MULTILINE)
    table["half"] = [0.02] * (len(table) - 1) + [1.01]
    one_wide = render_host_table(table, Canvas(34))
    assert "half of them within ±2.0%, others unsettled" in one_wide


def test_noise_looks_flat_and_change_does_not() -> None:
    assert set(draw_sparkline([100.0, 100.4, 99.8])) <= set("▃▄▅")
    assert draw_sparkline([100.0, 200.0]) == "▁█"
    assert len(draw_sparkline([1.0] * 100)) == 24


@pytest.mark.long
def test_every_benchmark_has_its_columns(made_lab: Path) -> None:
    listing = Listing(made_lab / "results")
    table = summarize_hosts(load_rows(listing, ["all"]))
    columns = {group.title: list(group.columns) for group in group_columns(table)}
    assert columns["cas/cmpxchg or lse"] == [
        "smt",
        "cluster E-E",
        "llc",
        "package",
        "package P-P",
        "package P-E",
        "package E-E",
        "system",
    ]
    levels = ["L1", "L2", "LLC", "mem"]
    assert columns["chase/mov random"] == levels
    assert columns["bandwidth/avx2 read"] == levels
    assert columns["fetch/mov read chase, smt"] == [
        "own",
        "written",
        "clean",
        "both",
        "evicted",
        "memory",
    ]
    assert columns["interleave/avx2 write shared, smt"] == [
        "64",
        "256",
        "1K",
        "4K",
        "16K",
        "64K",
    ]
    assert columns["gemm peak"] == ["avx2"]
    names = {kind.partition("/")[0] for run in listing.runs for kind in run.benchmarks}
    assert {*table["benchmark"]} == {*names, "load"}


@pytest.mark.long
@pytest.mark.parametrize("width", [60, 80, 120])
def test_columns_that_do_not_fit_stand_below(made_lab: Path, width: int) -> None:
    table = summarize_hosts(load_rows(made_lab / "results", ["all"]))
    text = render_host_table(table, Canvas(width))
    assert max(map(len, wrap_to_width(text, width).splitlines())) <= width
    tables, _, _ = text.partition("\nsmt: ")
    for row in table.to_dict("records"):
        value = format_value(SHIPPED[row["benchmark"]], row["median_ns"])
        assert f" {value}" in tables


def test_only_some_cpus_can_be_shown(made_lab: Path) -> None:
    listing = Listing(made_lab / "results")
    runs = select_runs_to_show(listing, ["pisa", "rome"]).runs
    slow = load_overview(listing, runs, Only(cpus="E"))
    assert {*slow["relation"]} == {"cluster E-E", "package E-E"}
    pair = load_overview(listing, runs, Only("cas", "8,9"))
    assert {*pair["relation"]} == {"cluster E-E", "llc"}
    with pytest.raises(
        UsageError,
        match=r"CPUs big: .* there are CPUs 0-63; kinds of cores P, E; smt, cluster,"
        r" llc, package, system\.$",
    ):
        load_overview(listing, runs, Only(cpus="big"))


@pytest.mark.parametrize(
    ("words", "relations"),
    [
        ("E,P", {"smt", "cluster E-E", "package P-P", "package P-E", "package E-E"}),
        ("smt,cluster", {"smt", "cluster E-E"}),
        ("package", {"package P-P", "package P-E", "package E-E"}),
        ("package P-E", {"package P-E"}),
        ("E,package", {"package E-E"}),
        ("0-7, 8", {"smt", "package P-P", "package P-E"}),
    ],
)
def test_numbers_kinds_and_what_cpus_share_are_words_of_one_list(
    made_lab: Path, words: str, relations: set[str]
) -> None:
    listing = Listing(made_lab / "results")
    runs = select_runs_to_show(listing, ["pisa"]).runs[:1]
    rows = load_overview(listing, runs, Only("cas", words))
    assert {*rows["relation"]} == relations


def test_a_table_of_hosts_is_sorted_by_the_column_that_is_named(made_lab: Path) -> None:
    fastest = "order of hosts: the fastest first, by"
    with Fleet(made_lab) as fleet:
        by_name = list_hosts(fleet, "-b", "cas", "--sort", "host")
        by_smt = list_hosts(fleet, "-b", "cas", "--sort", "smt")
        by_llc, llc_order = list_hosts(fleet, "--sort", "cas llc", "-b", "cas")
        _, usual_order = list_hosts(fleet, "-b", "cas")
        refused = fleet("show", "all", "--sort", "speed")
        counted = fleet("show", "all", "-c", "E").stdout
    names = ["milan", "pisa", "rome", "verona"]
    assert by_name == (names, "order of hosts: by name")
    assert by_smt == (["pisa", "verona", "milan", "rome"], f"{fastest} cas smt")
    assert by_llc[:2] == ["milan", "rome"]
    assert llc_order == f"{fastest} cas llc"
    assert usual_order == f"{fastest} the mean over all columns"
    assert refused.exit_code == 2
    assert "There are host, runs, cas smt, " in refused.stderr
    assert counted.startswith("1 host, 8 runs, ")


def list_hosts(fleet: Fleet, *options: str) -> tuple[list[str], str]:
    """Show four hosts; return them in the order of the table, and what is said of it."""
    shown = ("pisa", "rome", "milan", "verona")
    lines = fleet("show", *shown, *options).stdout.splitlines()
    first_words = [line.split()[0] for line in lines if line.split()]
    hosts = [word for word in first_words if word in shown]
    order = next((line for line in lines if line.startswith("order of hosts")), "")
    return hosts[:4], order


def make_loaded_rows(**columns: object) -> pd.DataFrame:
    rows = pd.DataFrame(columns).assign(
        run_id="r", benchmark="loaded", variant="mov", relation="package"
    )
    return rows.reindex(columns=[column.name for column in TABLES["pairs"]])


@pytest.mark.parametrize(
    ("loads", "about", "columns"),
    [
        (
            {"read": [1000, 16000, None], "mix": [1000, None]},
            "full, package",
            ["idle", "read", "mix"],
        ),
        (
            {"read": [1000, 16000], "mix": [1000, None]},
            "full, package",
            ["idle", "mix"],
        ),
        (
            {"read": [1000, 16000], "mix": [1000]},
            "16 GB/s each, package",
            ["idle", "read"],
        ),
    ],
)
def test_a_lesser_load_does_not_stand_for_the_greatest(
    loads: dict[str, list[int | None]], about: str, columns: list[str]
) -> None:
    operations = ["idle"]
    rates: list[float | None] = [0.0]
    for name, own in loads.items():
        operations += [name] * len(own)
        rates += own
    rows = make_loaded_rows(operation=operations, load_mbps=rates, point="p")
    cells = name_cells(rows, pd.DataFrame())
    shown = cells[cells["column"].notna()]
    assert set(shown["about"]) == {about}
    assert [*shown.sort_values("place")["column"]] == columns


def test_what_others_got_at_full_load_is_a_rate_of_its_own() -> None:
    rows = make_loaded_rows(
        point=["idle.x2.64M.huge", "read.at16G.x2.64M.huge", "read.full.x2.64M.huge"],
        operation=["idle", "read", "read"],
        load_mbps=[0, 16000, None],
        other_rate=[0, 16, 32],
        median_ns=200.0,
        threads=2,
        bytes=1 << 26,
    )
    cells = name_cells(rows, pd.DataFrame())
    assert [*cells["benchmark"]] == ["loaded", "loaded", "loaded", "load"]
    assert [*cells["relation"]] == [
        "package idle",
        "package read at16G x2",
        "package read full",
        "package read full",
    ]
    assert [*cells["median_ns"]] == [200.0, 200.0, 200.0, 1 / 32]
    beside = cells[cells["column"].notna()]
    assert [*beside["benchmark"]] == ["loaded", "loaded", "load"]
    assert [*beside["column"]] == ["idle", "read", "read"]
    assert format_value(SHIPPED["load"], beside["median_ns"].iloc[2]) == "32.0"


def test_loads_of_several_sizes_and_numbers_of_threads_are_told_apart() -> None:
    rows = make_loaded_rows(
        point=["read.full.x2.64M.huge", "read.full.x8.1G.huge", "idle.x8.1G.huge"],
        load_mbps=[None, None, 0],
        threads=[2, 8, 8],
        bytes=[1 << 26, 1 << 30, 1 << 30],
    )
    cells = name_cells(rows, pd.DataFrame())
    assert [*cells["relation"]] == [
        "package read full 64M x2",
        "package read full 1G x8",
        "package idle 1G x8",
    ]


@pytest.mark.long
def test_details_are_those_of_a_host_that_has_what_was_asked_for(
    made_lab: Path,
) -> None:
    listing = Listing(made_lab / "results")
    selection = select_runs_to_show(listing, ["all"])
    every = show_runs(listing, selection, Canvas(80))
    assert every.endswith("Details: fleet show lucca")
    of_bandwidth = show_runs(listing, selection, Canvas(80), Only("bandwidth"))
    assert of_bandwidth.endswith("Details: fleet show verona")


def test_hosts_measured_with_different_variants_are_ranked_in_one_table(
    made_lab: Path,
) -> None:
    listing = Listing(made_lab / "results")
    selection = select_runs_to_show(listing, ["rome", "siena"])
    text = show_runs(listing, selection, Canvas(), Only("cas"))
    assert text.count("\nhost ") == 1
