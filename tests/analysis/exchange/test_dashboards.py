"""Medians for other programs: each format as its readers take it, with the numbers of `fleet show`."""

import re
from pathlib import Path

import pandas as pd
import pytest

from fleet.analysis.exchange import render_markdown, render_openmetrics
from fleet.analysis.reduce import load_overview_history
from fleet.analysis.views import compute_host_medians, select_runs_to_show
from fleet.store import Listing
from tests import simulated
from tests.command import Fleet


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("dashboards")
    for number in range(3):
        simulated.publish(place / "results", simulated.desktop(), number, rounds=3)
    return place


@pytest.fixture(scope="module")
def table(root: Path) -> pd.DataFrame:
    found = compute_host_medians(
        load_overview_history(root / "results", select_runs_to_show(Listing(root / "results"), ["all"]).runs)
    )
    return found.assign(host_name='quo"ted|')


def test_prometheus_gets_seconds_and_escaped_labels(table: pd.DataFrame) -> None:
    lines = render_openmetrics(table).splitlines()
    assert lines[-1] == "# EOF"
    samples = [line for line in lines if not line.startswith("#")]
    smt = next(line for line in samples if 'relation="smt"' in line)
    assert r'host="quo\"ted|"' in smt
    assert float(smt.rpartition(" ")[2]) == pytest.approx(
        table[table["relation"] == "smt"]["median_ns"].iloc[0] * 1e-9, rel=1e-5
    )


def test_a_pull_request_gets_a_table(table: pd.DataFrame) -> None:
    lines = render_markdown(table).splitlines()
    assert len(lines) == 2 + len(table)
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {7}


def test_the_command_writes_the_last_session_or_a_selection(root: Path) -> None:
    with Fleet(root) as fleet:
        assert fleet("export", "-F", "markdown").stdout.count("\n") == 4
        assert fleet("export", "all", "-F", "openmetrics", "-b", "cas").stdout.endswith("# EOF\n")
        assert fleet("export", "-F", "openmetrics", "-b", "chase").exit_code == 2


@pytest.mark.parametrize("format_", ["openmetrics", "markdown"])
def test_runs_without_latencies_between_cpus_are_no_empty_table(format_: str, made_lab: Path) -> None:
    with Fleet(made_lab) as fleet:
        done = fleet("export", "verona", "-F", format_, "-b", "bandwidth")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "these runs have no latencies between CPUs" in done.stderr
