"""Bursts that other work disturbed, from end to end: they are taken again, and the run
is complete.
"""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests import needs
from tests.command import Fleet, journal_lines, wait_for
from tests.native.preload import preload
from tests.shared import agents_cache

PLAN = ("run", "-b", "clock", "--cpus", "0", "--rounds", "2")


def fleet_with_stolen_time(folder: Path) -> Fleet:
    """Make a fleet of this machine, whose threads seem to lose half of their time while
    `stealing` exists.
    """
    needs.program("cc", "gcc")
    stealing = folder / "stealing"
    stealing.touch()
    env = preload("stolen.c") | {
        "STOLEN_TICKS": "0",
        "RAN_PERCENT": "50",
        "STOLEN_WHILE": str(stealing),
    }
    cache = str(agents_cache("dynamic"))
    fleet = Fleet(folder, environment={"XDG_CACHE_HOME": cache})
    fleet.inventory(f"hosts:\n  here: {{via: local, env: {json.dumps(env)}}}\n")
    return fleet


def find_failed(fleet: Fleet) -> list[Any]:
    """Return the failed bursts so far, by the journal."""
    paths = fleet.results.glob(".fleet/journal/*/stream*.jsonl")
    lines = [line for path in paths for line in journal_lines(path)]
    return [json.loads(line) for line in lines if b'"failed"' in line[:20]]


@pytest.mark.long
def test_a_stolen_burst_is_taken_again_and_the_run_is_complete(tmp_path: Path) -> None:
    with fleet_with_stolen_time(tmp_path) as fleet:
        running = fleet.start(*PLAN)
        wait_for(lambda: find_failed(fleet))
        (tmp_path / "stealing").unlink()
        stdout, stderr = running.communicate()
        assert running.returncode == 0, stderr
        assert " taken again, " in stdout
        (run,) = pd.read_parquet(fleet.results / "runs").to_dict("records")
        assert run["state"] == "complete"
        assert run["failed_bursts"] == 0
        stolen = json.loads(run["failed_json"])
        assert all(burst["again"] and burst["disturbed"] for burst in stolen)
        assert "other work held it" in stolen[0]["reason"]
        assert len(stolen[0]["ticks"]) == 6
        visits = fleet.samples()[["round", "ping_cpu"]]
        assert sorted(visits["round"]) == [0, 1]
        shown = fleet("show", "here").stdout
        assert "were taken again" in shown
        assert "bursts failed" not in shown


@pytest.mark.long
def test_a_run_cut_before_a_burst_was_taken_again_is_resumed(tmp_path: Path) -> None:
    with fleet_with_stolen_time(tmp_path) as fleet:
        running = fleet.start(*PLAN)
        wait_for(lambda: len(find_failed(fleet)) > 2)
        running.kill()
        running.communicate()
        (tmp_path / "stealing").unlink()
        resumed = fleet("resume", "--json")
        assert resumed.exit_code == 0, resumed.stderr
        (row,) = resumed.json
        assert row["state"] == "complete"
        assert row["again"] >= 2
        assert "no unfinished session" in fleet("resume").stdout
