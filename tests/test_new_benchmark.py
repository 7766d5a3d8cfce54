"""A stranger adds the benchmark of docs/porting.md; a controller built before reads
what it measured.
"""

import csv
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests import needs

ROOT = Path(__file__).parent.parent
PLAN = ("-b", "getppid,cas", "--rounds", "3", "--samples", "5", "--cpus", "0,1")
HEADING = "ns per system call"
REACH = 0.15  # of three bursts the number is the median of those at the main level
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


class Controller:
    """A checkout of fleet with an inventory of this machine, and results of its own."""

    def __init__(self, folder: Path, code: Path) -> None:
        self.folder = folder
        self.code = code
        (folder / "inventory.yaml").write_text(
            "hosts:\n  here: {address: localhost, via: local}\n"
        )

    def __call__(self, *arguments: str) -> str:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "PYTHONPATH": str(self.code),
            "FLEET_AGENT_LOCK": str(self.folder / "agent.lock"),
        }
        done = subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            check=False,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def render_all(self) -> dict[str, str]:
        """Return the output of show, report and compare, by command."""
        self("fleet", "report", "-o", "page.html")
        first, second = [
            run["run_id"] for run in json.loads(self("fleet", "runs", "--json"))["rows"]
        ]
        return {
            "show": self("fleet", "show", first),
            "csv": self("fleet", "show", first, "--csv"),
            "report": (self.folder / "page.html").read_text(),
            "compare": self("fleet", "compare", first, second),
        }


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Controller:
    """A checkout after the guide: its code in a new file, its row, `make describe`; and
    two runs.
    """
    needs.cpus(2)
    folder = tmp_path_factory.mktemp("stranger")
    for part in ("fleet", "agent", "tests/native"):
        shutil.copytree(
            ROOT / part,
            folder / part,
            ignore=shutil.ignore_patterns("__pycache__", "fleet-agent"),
        )
    for path in (ROOT / "tests").glob("*.py"):
        shutil.copy(path, folder / "tests")
    guide = (ROOT / "docs" / "porting.md").read_text()
    (code,) = re.findall(r"```c\n(.*?)```", guide, re.DOTALL)
    (folder / "agent" / "bench" / "getppid.c").write_text(code)
    listed = folder / "agent" / "bench" / "list.h"
    row = re.compile(r"^(\tX\(clock\).*\n)", re.MULTILINE)
    listed.write_text(
        row.sub(
            lambda match: match[1] + match[1].replace("clock", "getppid"),
            listed.read_text(),
        )
    )
    controller = Controller(folder, folder)
    controller("tests.native.describe")
    assert "getppid" in controller("fleet", "run", "--help-all")
    for _ in range(2):
        controller("fleet", "run", *PLAN)
    return controller


def test_a_benchmark_by_the_guide_has_its_number_unit_and_heading_everywhere(
    stranger: Controller,
) -> None:
    rows = [
        row
        for row in csv.DictReader(stranger.render_all()["csv"].splitlines())
        if row["benchmark"] == "getppid"
    ]
    assert {row["relation"] for row in rows} == {"self"}
    assert [float(row["median_ns"]) for row in rows] == pytest.approx(
        raw(stranger), rel=REACH
    )
    for command, text in stranger.render_all().items():
        assert HEADING in text or command == "csv", command
        assert "getppid" in text, command


def raw(controller: Controller) -> list[float]:
    """For each CPU of the first run ns a unit of getppid: the median of its bursts'
    medians.
    """
    first = sorted(
        (controller.folder / "results").glob("samples/host_id=*/run_id=*/*.parquet")
    )[0]
    rows = pq.read_table(first).to_pandas()
    rows = rows[rows["benchmark"] == "getppid"]
    bursts = [
        (
            row.ping_cpu,
            sorted(row.ticks[row.warmup :])[2] * row.ns_per_tick / row.iterations,
        )
        for row in rows.itertuples()
    ]
    cpus = sorted({cpu for cpu, _ in bursts})
    return [
        statistics.median(ns for number, ns in bursts if number == cpu) for cpu in cpus
    ]


def test_a_controller_that_was_built_before_shows_what_the_run_says_of_it(
    stranger: Controller, tmp_path: Path
) -> None:
    older = Controller(tmp_path, ROOT)
    shutil.copytree(stranger.folder / "results", tmp_path / "results")
    for command, text in older.render_all().items():
        assert HEADING in text or command == "csv", command


def test_what_nobody_described_is_shown_as_raw_time_under_its_name(
    stranger: Controller, tmp_path: Path
) -> None:
    source = stranger.folder / "agent" / "emit" / "jsonl.c"
    silent = source.read_text().replace(
        "\tadd_benchmarks(plan);", "\t(void)add_benchmarks;"
    )
    assert silent != source.read_text()
    source.write_text(silent)
    shutil.rmtree(stranger.folder / "results")
    for _ in range(2):
        stranger("fleet", "run", *PLAN)
    older = Controller(tmp_path, ROOT)
    shutil.copytree(stranger.folder / "results", tmp_path / "results")
    pages = older.render_all()
    rows = [
        row
        for row in csv.DictReader(pages["csv"].splitlines())
        if row["benchmark"] == "getppid"
    ]
    assert [float(row["median_ns"]) for row in rows] == pytest.approx(
        raw(older), rel=REACH
    )
    for command, text in pages.items():
        assert "ns per unit" in text or command == "csv", command
        assert "getppid" in text, command
