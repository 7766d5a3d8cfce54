"""`fleet prune` on a copy of the lab."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fleet.analysis.compare import choose_removable
from fleet.store import Store
from fleet.store.places import parse_place
from fleet.store.verify import verify
from tests.command import Fleet

MIDDLE = datetime(2026, 11, 5, 12, tzinfo=UTC)


@pytest.fixture
def lab(made_lab: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made_lab, tmp_path / "lab"))


def list_ids(root: Store, host: str) -> list[str]:
    return [run.run_id for run in root.list_runs() if run.host_id == host]


def test_the_first_eight_runs_and_the_last_stay(lab: Path) -> None:
    runs = Store(lab / "results").list_runs()
    removable = choose_removable(runs, datetime(2027, 1, 1, tzinfo=UTC))
    of_lucca = [run for run in runs if run.host_id == "lucca"]
    chosen = [run for run in removable if run.host_id == "lucca"]
    assert chosen == of_lucca[8:-1]


def test_a_baseline_begins_with_the_last_accepted_run(lab: Path) -> None:
    root = Store(lab / "results")
    ids = list_ids(root, "lucca")
    root.label([ids[5]], {"accepted": "yes"})
    removable = choose_removable(root.list_runs(), datetime(2027, 1, 1, tzinfo=UTC))
    chosen = [run.run_id for run in removable if run.host_id == "lucca"]
    assert chosen == ids[:5]


def test_what_is_left_is_whole_and_a_dry_run_removes_nothing(lab: Path) -> None:
    root = Store(lab / "results")
    removable = choose_removable(root.list_runs(), MIDDLE)
    gone = {run.run_id for run in removable}
    left = [run.run_id for run in root.list_runs() if run.run_id not in gone]
    assert gone
    age = (datetime.now(UTC) - MIDDLE).total_seconds()
    older = ("--older", f"{round(age / 60)}m")
    with Fleet(lab, {"COLUMNS": "80"}) as fleet:
        listed = fleet("prune", *older, "--dry-run")
        assert listed.stdout.endswith(
            f"Would remove {len(gone)} runs from before 2026-11-05.\n"
        )
        assert all(run_id in listed.stdout for run_id in gone)
        assert len(root.list_runs()) == len(left) + len(gone)
        done = fleet("prune", *older)
    assert done.stdout == f"Removed {len(gone)} runs from before 2026-11-05.\n"
    assert [run.run_id for run in root.list_runs()] == left
    assert verify(parse_place(lab / "results")).problems == ()
    assert not any((lab / "results").glob(f"*/*/run_id={min(gone)}"))


def test_a_selection_keeps_the_runs_of_other_hosts(lab: Path) -> None:
    root = Store(lab / "results")
    before = list_ids(root, "siena")
    with Fleet(lab) as fleet:
        fleet("prune", "lucca", "--older", "1m")
    assert len(list_ids(root, "lucca")) == 9
    assert list_ids(root, "siena") == before
