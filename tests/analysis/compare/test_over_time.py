"""What changed when: the method on arrays, and the command on the lab's machine that
changed in one night.
"""

import re
import shutil
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from benchmarks import over_time as simulated
from fleet import late
from fleet import open as open_results
from fleet.analysis.base import Floats
from fleet.analysis.compare import (
    append_means,
    clean_series,
    drop_changes_of_parts,
    find_changes,
    find_changes_over_time,
    mark_usual,
)
from fleet.analysis.reduce import label_levels_of_hosts, load_overview
from fleet.analysis.views import render_changes
from fleet.errors import StoreWarning
from fleet.store import Listing, Store
from tests import builders
from tests.command import Fleet


def quiet(rows: int = 12, nights: int = 30, seed: int = 2) -> Floats:
    noise = np.random.default_rng(seed).standard_normal((rows, nights))
    return np.log(50) + 0.005 * noise


def test_a_step_has_a_date_and_a_slow_change_has_none() -> None:
    log_ns = quiet()
    log_ns[3, 17:] += 0.05
    log_ns[8] += np.linspace(0, 0.08, 30)
    step, gradual = find_changes(log_ns)
    assert step.row == 3
    assert step.night == 17
    assert step.dated is True
    assert step.first <= 17 <= step.last
    assert step.low < 0.05 < step.high
    assert gradual.row == 8
    assert gradual.dated is False
    assert gradual.moved > 0.03


def find_rows_and_nights(log_ns: Floats) -> list[tuple[int, int]]:
    return [(step.row, step.night) for step in find_changes(log_ns)]


def test_rows_whose_parts_are_too_short_to_be_split_again_have_their_step() -> None:
    log_ns = quiet(rows=2, nights=10)
    log_ns[:, 5:] += 0.2
    assert find_rows_and_nights(log_ns) == [(0, 5), (1, 5)]


def test_nothing_is_found_where_nothing_changed_nor_in_a_few_nights() -> None:
    assert find_changes(quiet()) == []
    log_ns = quiet(nights=7)
    log_ns[3, 4:] += 0.2
    assert find_changes(log_ns) == []


def test_missing_nights_are_just_missing() -> None:
    log_ns = quiet()
    log_ns[3, 17:] += 0.05
    log_ns[3, [2, 9, 17, 18, 25]] = np.nan
    log_ns[5, :12] = np.nan
    (step,) = find_changes(log_ns)
    assert step.row == 3
    assert step.night == 19


@pytest.mark.parametrize("second", [0.05, -0.05])
def test_changes_of_a_row_that_follow_one_another_are_all_found(second: float) -> None:
    log_ns = quiet(nights=60)
    log_ns[3, 20:] += 0.05
    log_ns[3, 40:] += second
    changes = find_changes(log_ns)
    assert [(change.row, change.night) for change in changes] == [(3, 20), (3, 40)]
    assert [change.dated for change in changes] == [True, True]


def test_levels_met_again_are_one_and_a_lasting_switch_is_named() -> None:
    log_ns = quiet(rows=2)
    log_ns[0, [4, 5, 6, 12, 13, 20, 21, 22]] += np.log(2)
    log_ns[1, 18:] += np.log(2)
    levels = label_levels_of_hosts(log_ns, np.arange(2))
    switching = clean_series(log_ns, levels, np.array([True, True]))
    assert np.ptp(switching.log_ns, axis=1).max() < 0.05
    ((row, night, moved),) = switching.elsewhere
    assert (row, night) == (1, 18)
    assert moved == pytest.approx(np.log(2), abs=0.01)
    steady = clean_series(log_ns, levels, np.array([False, False]))
    assert steady.elsewhere == []
    assert np.ptp(steady.log_ns[1]) > 0.6, (
        "of a machine that does not switch it is a change"
    )


def test_odd_nights_are_named_and_hide_no_change() -> None:
    log_ns = quiet()
    log_ns[3, 17:] += 0.05
    log_ns[3, [5, 24]] += np.log(1.3)
    levels = label_levels_of_hosts(log_ns, np.zeros(12, dtype=np.int64))
    no_row_switches = np.zeros(12, dtype=bool)
    clean = clean_series(log_ns, levels, no_row_switches)
    assert [(row, night) for row, night, _ in clean.odd] == [(3, 5), (3, 24)]
    assert find_rows_and_nights(clean.log_ns) == [(3, 17)]


def test_what_all_hosts_share_is_one_change_and_what_one_has_is_its_own() -> None:
    hosts = np.repeat(np.arange(4), 3)
    relations = np.tile(np.arange(3), 4)
    log_ns = quiet(nights=12, seed=3)
    log_ns[relations == 1, 6:] += 0.03
    pool = append_means(log_ns, hosts, relations)
    (change,) = drop_changes_of_parts(find_changes(pool.log_ns), pool)
    assert change.night == 6
    assert pool.members[change.row].tolist() == (relations == 1).tolist()

    alone = quiet(nights=12)
    alone[4, 6:] += 0.2
    pool = append_means(alone, hosts, relations)
    (change,) = drop_changes_of_parts(find_changes(pool.log_ns), pool)
    assert change.row == 4


def test_correlation_from_night_to_night_is_no_change() -> None:
    chance = np.random.default_rng(5)
    for _ in range(5):
        series = simulated.make_series(chance, 30, "AR")
        changes = simulated.find_session_changes(series, "AR")
        assert not any(change.dated for change in changes)


def test_the_night_in_which_a_machine_of_the_lab_changed(made_lab: Path) -> None:
    fleet = Fleet(made_lab, {"COLUMNS": "80"})
    done = fleet("compare", "lucca", "--fail-on-change")
    assert done.exit_code == 20
    assert "14 runs, 14 nights: 1 change\n" in done.stdout
    assert "2026-11-03 to 11-04  lucca, cas package" in done.stdout
    assert "kernel 6.12.1-demo → 6.13.0-demo (1 of 1 host)" in " ".join(
        done.stdout.split()
    )
    assert max(map(len, done.stdout.splitlines())) <= 80
    few = fleet("compare", "node1", "--fail-on-change", "--json")
    assert few.exit_code == 2
    assert not few.json[0]["has_verdict"]


def test_only_changes_since_a_night_count_and_all_runs_judge_them(
    made_lab: Path,
) -> None:
    history = find_changes_over_time(made_lab / "results", ["lucca"])
    assert history.has_changed
    assert history.keep_new(date(2026, 11, 4)).has_changed
    later = history.keep_new(date(2026, 11, 5))
    assert not later.has_changed
    assert later.changes.empty
    assert later.runs == history.runs
    assert render_changes(later).endswith("14 nights: 0 changes since 2026-11-05")


def test_an_accepted_change_is_listed_and_fails_no_more(
    made_lab: Path, tmp_path: Path
) -> None:
    shutil.copytree(made_lab, tmp_path / "lab")
    root = Store(tmp_path / "lab" / "results")
    runs = [run for run in root.list_runs() if run.host_id == "lucca"]
    nights = {f"{run.started_utc:%m-%d}": run.run_id for run in runs}
    fleet = Fleet(tmp_path / "lab", {"COLUMNS": "80"})
    command = ("compare", "lucca", "--fail-on-change")
    root.label([nights["11-03"]], {"accepted": "yes"})
    assert fleet(*command).exit_code == 20
    root.label([nights["11-05"]], {"accepted": "yes"})
    done = fleet(*command)
    assert done.exit_code == 0
    assert "14 nights: 0 changes, 1 accepted" in done.stdout
    assert "accepted; kernel 6.12.1-demo → 6.13.0-demo" in done.stdout
    assert "label.accepted" not in done.stdout


def test_a_span_of_time_is_for_a_single_selection_alone(made_lab: Path) -> None:
    fleet = Fleet(made_lab)
    refused = fleet("compare", "lucca", "rome", "--since", "4d")
    assert refused.exit_code == 2
    assert "--since" in refused.stderr
    assert fleet("compare", "lucca", "--since", "yesterday").exit_code == 2


@pytest.mark.long
def test_a_virtual_machine_at_another_level_is_named_first_with_an_exit_code_of_its_own(
    tmp_path: Path,
) -> None:
    cpus = builders.small_desktop()
    for night in range(1, 13):
        run = builders.a_run(
            cpus, run_id=f"r202601{night:02}T030000Z-{night:08x}", rounds=2
        )
        facts = replace(run.facts, hypervisor="kvm")
        run = replace(
            run,
            started_utc=f"2026-01-{night:02}T03:00:00Z",
            facts=facts,
            session_id=run.run_id,
        )
        ns = 24.0 if night < 8 else 50.0
        bursts = builders.make_bursts(
            run, noise=0.005, ns=lambda *_, ns=ns: ns, seed=night
        )  # type: ignore[misc]
        Store(tmp_path / "results").publish(run, bursts)
    with Fleet(tmp_path) as fleet:
        done = fleet("compare", "all", "--fail-on-change")
    assert done.exit_code == 22
    first = done.stdout.splitlines()[0]
    assert "0 changes, 2 at another level" in first
    assert re.search(r": 24\.\d, since 2026-01-08 (49\.\d|50\.\d)\)$", first)


def test_notebooks_get_the_same_changes(made_lab: Path) -> None:
    results = open_results(made_lab / "results")
    (entry,) = results.changes("lucca").to_dict("records")
    assert entry["hosts"] == ("lucca",)
    assert entry["relation"] == "package"
    assert f"{entry['after']}" == "2026-11-04"
    assert entry["changed"]
    assert results.changes("siena").empty


def test_without_scipy_all_runs_are_usual_and_a_warning_says_so(
    made_lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make run` leaves scipy out: showing a host with eight nights does without."""
    listing = Listing(made_lab / "results")
    rows = load_overview(
        listing, [run for run in listing.runs if run.host_id == "lucca"]
    )
    assert not mark_usual(listing, rows)["is_usual"].all()
    for name in vars(late.special).keys() - {"_name"}:
        monkeypatch.delattr(late.special, name)
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    with pytest.warns(
        StoreWarning,
        match="scipy.special cannot be imported.* runs before a change count",
    ):
        assert mark_usual(listing, rows)["is_usual"].all()
