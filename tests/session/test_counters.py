"""Counters from the command line to `fleet show`, with events that need no PMU."""

import re

import pandas as pd
import pytest

from tests import needs
from tests.seccomp import refusing

PLAN = ("run", "-b", "cas,clock", "--rounds", "2", "-q", "--counters")


@pytest.fixture
def fleet(fleet):
    needs.cpus(2)
    return fleet


def test_counts_are_stored_and_shown_beside_the_numbers(fleet):
    done = fleet(*PLAN, "task-clock,page-faults")
    assert done.exit_code == 0, done.stderr
    frame = pd.read_parquet(fleet.results / "counters")
    assert set(frame["event"]) == {"task-clock", "page-faults"}
    assert len(frame) == 2 * (
        2 * len(fleet.samples()) - (fleet.samples()["benchmark"] == "clock").sum()
    )
    page = fleet("show").stdout
    assert page.count(" events: counted per round trip in each thread") == 1
    assert page.count(" events: counted per reading in each thread") == 1
    assert re.search(r"^thread +task-clock( +page-faults)?$", page, re.MULTILINE)
    assert re.search(
        r"^thread .* page-faults$|^0 everywhere: page-faults;", page, re.MULTILINE
    )
    assert fleet("verify").exit_code == 0


@pytest.mark.slow
def test_where_counting_is_forbidden_the_run_says_so_once_and_is_done(fleet):
    process = fleet.start(*PLAN, "generic,task-clock", prefix=refusing("EPERM"))
    _, err = process.communicate()
    assert process.returncode == 0, err
    assert len(fleet.samples()) > 0
    assert not (fleet.results / "counters").exists()
    page = fleet("show").stdout
    assert page.count("Not counted: cycles, instructions") == 1
    assert "events: counted per" not in page


def test_a_wrong_name_is_refused_before_anything_is_connected_to(fleet):
    done = fleet(*PLAN, "cyles")
    assert done.exit_code == 2
    assert "did you mean 'cycles'? There are generic, coherence, cycles" in done.stderr
    assert not fleet.results.exists()
