"""A controller killed while it publishes batches of runs: nothing lost, nothing twice, always readable."""

import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pandas as pd
import pytest

from fleet.store import Store
from tests.command import ROOT

KILLS = int(os.environ.get("FLEET_KILLS", "8"))
PUBLISH = """
import sys
from dataclasses import replace
from itertools import count
from fleet.store import Store, store
from tests.builders import a_run, bursts_of
store.BATCH_RUNS = 5
root = Store(sys.argv[1])
for number in count():
    run = replace(a_run(run_id=f"r{sys.argv[2]}-{number:05}"), session_id=sys.argv[2])
    with root.journal(run):
        root.publish(run, bursts_of(run), batch=True)
    print(run.run_id, flush=True)
"""


@pytest.mark.slow
@pytest.mark.timeout(30 + 6 * KILLS)
@pytest.mark.filterwarnings("error::fleet.errors.StoreWarning")
def test_killed_while_it_publishes_batches_every_run_is_in_the_tables_once(tmp_path: Path) -> None:
    store, chance, reported = Store(tmp_path), random.Random(7), set[str]()
    store.make_ready()
    stop, faults = threading.Event(), list[object]()
    reader = threading.Thread(target=_read, args=(tmp_path, stop, faults))
    reader.start()
    for kill in range(KILLS):
        process = subprocess.Popen(
            [sys.executable, "-c", PUBLISH, str(tmp_path), f"s{kill}"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        reported.add(process.stdout.readline().strip())
        time.sleep(chance.uniform(0, 0.3))
        process.kill()
        reported |= set(process.stdout.read().split()) - {""}
        process.wait()
        store.complete_tables(f"s{kill}")  # as `fleet resume` of the session does
    stop.set()
    reader.join()
    assert faults == []
    published = [run.run_id for run in store.published()]
    assert len(published) == len(set(published))
    assert reported <= set(published)
    assert sorted(pd.read_parquet(tmp_path / "_runs")["run_id"]) == sorted(published)
    assert set(pd.read_parquet(tmp_path / "_cpus")["run_id"]) == set(published)
    assert set(pd.read_parquet(tmp_path)["run_id"]) == set(published)


def _read(root: Path, stop: threading.Event, faults: list[object]) -> None:
    """Read the table of runs again and again, with pandas alone; collect what is wrong."""
    while not stop.is_set():
        if not (root / "_runs").exists():
            continue
        try:
            ids = pd.read_parquet(root / "_runs", columns=["run_id"])["run_id"]
        except FileNotFoundError:
            continue  # small files were put together between pandas' listing and its opening of one
        except Exception as error:
            faults.append(error)
        else:
            faults += ids[ids.duplicated()].tolist()
