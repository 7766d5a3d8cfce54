"""A controller killed outright at random moments of real runs, while pandas reads the root all the time."""

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest

from tests import needs
from tests.command import Fleet, journal_lines
from tests.processes import until_we_end

pytestmark = pytest.mark.slow

TIMES = 20
PLAN = ("run", "-b", "clock", "--rounds", "200", "--samples", "3", "-q")
KEY = ["run_id", "benchmark", "variant", "round", "ping_cpu", "pong_cpu"]

READER = """
import sys, pandas as pd
count = before = 0
while True:
    rows = len(pd.read_parquet(sys.argv[1] + "/samples"))
    assert rows >= before, f"{before} rows, then {rows}"
    before, count = rows, count + 1
    print(count, flush=True)
"""


@contextmanager
def read_all_the_while(root: Path) -> Iterator[None]:
    """Read the whole root again and again; fails if one reading did, or if rows ever vanished."""
    reader = subprocess.Popen(
        [*until_we_end(), sys.executable, "-c", READER, str(root)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield
        ended = reader.poll()
    finally:
        reader.kill()
        output, _ = reader.communicate()
    assert ended is None, output
    assert len(output.splitlines()) > TIMES


def test_killed_at_any_moment_nothing_published_is_harmed_and_journals_can_be_read(tmp_path: Path) -> None:
    needs.program("cc", "gcc")
    with Fleet(tmp_path) as fleet:
        fleet.inventory("hosts:\n  here: {via: local}\n")
        assert fleet(*PLAN).exit_code == 0
        began = time.monotonic()
        assert fleet(*PLAN).exit_code == 0
        whole_s = time.monotonic() - began
        bursts = len(fleet.samples()) // 2
        chance = random.Random(7)
        with read_all_the_while(fleet.results):
            for _ in range(TIMES):
                process = fleet.start(*PLAN)
                time.sleep(chance.uniform(0.2, 1.1) * whole_s)
                process.kill()
                process.communicate()
                stored = fleet.samples()
                assert not stored.duplicated(KEY).any()
                assert set(stored.groupby("run_id", observed=True).size()) == {bursts}
        for journal in (fleet.results / ".fleet/journal").glob("*/stream.jsonl"):
            assert json.loads((journal.parent / "run.json").read_text())["run_id"] == journal.parent.name
            records = [json.loads(line) for line in journal_lines(journal) if line]
            assert [record["record"] for record in records[:1]] in ([], ["hello"])
        assert fleet(*PLAN).exit_code == 0
        runs = {run["run_id"]: run["state"] for run in fleet("runs", "--json").json}
        published = set(pd.read_parquet(fleet.results / "samples")["run_id"].astype(str))
        assert published <= {run_id for run_id, state in runs.items() if state == "complete"} | _unlisted(
            fleet
        )


def _unlisted(fleet: Fleet) -> set[str]:
    """Runs whose samples are in place but whose row in `runs` is not: killed between the two renames."""
    committed = {path.stem for path in (fleet.results / "runs").glob("*.parquet")}
    return {path.name for path in (fleet.results / ".fleet/journal").iterdir() if path.name not in committed}
