"""A controller killed while it publishes or amends: nothing lost, nothing twice."""

import os
import random
import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path

import pandas as pd
import pytest

from fleet.store import Store
from fleet.store.places import parse_place
from fleet.store.runs import list_unfinished
from fleet.store.verify import verify
from tests.builders import a_run, make_bursts
from tests.command import ROOT

KILLS = int(os.environ.get("FLEET_KILLS", "8"))
PUBLISH = """
import sys
from dataclasses import replace
from itertools import count
from fleet.store import Store, store
from tests.builders import a_run, make_bursts
store.BATCH_RUNS = 5
root = Store(sys.argv[1])
for number in count():
    run = replace(a_run(run_id=f"r{sys.argv[2]}-{number:05}"), session_id=sys.argv[2])
    with root.new_journal(run):
        print("begun", run.run_id, flush=True)
        root.publish(run, make_bursts(run), batch=True)
    print("published", run.run_id, flush=True)
    root.label([run.run_id], {"number": sys.argv[2]})
    print("labelled", run.run_id, flush=True)
    if number % 3 == 0:
        root.withdraw([run.run_id])
        print("withdrawn", run.run_id, flush=True)
    root.list_runs()
"""


DIE_AFTER = """
import os, sys
from fleet.store import Store
from fleet.store.places import Folder
from tests.builders import a_run, make_bursts
put = Folder.put
def put_and_die(place, draft, name):
    put(place, draft, name)
    if name.startswith(sys.argv[2]):
        os.kill(os.getpid(), 9)
Folder.put = put_and_die
run = a_run()
store = Store(sys.argv[1])
with store.new_journal(run):
    store.publish(run, make_bursts(run))
"""


@pytest.mark.parametrize("table", ["samples", "cpus"])
def test_killed_between_two_tables_a_run_is_named_until_the_next_listing_adds_it(
    tmp_path: Path, table: str
) -> None:
    command = [sys.executable, "-c", DIE_AFTER, str(tmp_path), table]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == -9
    problems = verify(parse_place(tmp_path)).problems
    assert "runs: no row of r20260102T030405Z-0badcafe" in " ".join(problems)
    assert len(problems) == (1 if table == "cpus" else 2)
    (run,) = Store(tmp_path).list_runs()
    assert list(pd.read_parquet(tmp_path / "runs")["run_id"]) == [run.run_id]
    assert list(pd.read_parquet(tmp_path / "cpus")["cpu"]) == [0, 1]
    assert verify(parse_place(tmp_path)).problems == ()


def test_rows_that_a_listing_has_added_are_not_added_by_their_session_too(
    tmp_path: Path,
) -> None:
    session = Store(tmp_path)
    for number in range(3):
        run = a_run(run_id=f"r20260102T030405Z-0000000{number}")
        session.publish(run, make_bursts(run), batch=True)
    assert len(Store(tmp_path).list_runs()) == 3
    run = a_run(run_id="r20260102T030405Z-00000009")
    session.publish(run, make_bursts(run), batch=True)
    session.flush()
    ids = [f"r20260102T030405Z-0000000{number}" for number in (0, 1, 2, 9)]
    assert sorted(pd.read_parquet(tmp_path / "runs")["run_id"]) == ids
    assert not pd.read_parquet(tmp_path / "cpus").duplicated(["run_id", "cpu"]).any()
    assert verify(parse_place(tmp_path)).problems == ()


@pytest.mark.slow
@pytest.mark.timeout(30 + 6 * KILLS)
@pytest.mark.filterwarnings("error::fleet.errors.StoreWarning")
def test_killed_at_any_moment_every_run_is_in_the_tables_once_and_every_amendment_holds(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path)
    chance = random.Random(7)
    reported = defaultdict[str, set[str]](set)
    store.require_writable()
    stop = threading.Event()
    faults = list[object]()
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
        lines = [process.stdout.readline() for _ in ("begun", "published")]
        time.sleep(chance.uniform(0, 0.3))
        process.kill()
        for line in lines + process.stdout.readlines():
            event, run_id = line.split()
            reported[event].add(run_id)
        process.wait()
        stored = {
            run.run_id
            for run in store.list_runs(withdrawn=True) + list_unfinished(store.place)
        }
        assert reported["begun"] <= stored
        store.complete_tables(f"s{kill}")  # as `fleet resume` of the session does
    stop.set()
    reader.join()
    assert faults == []
    runs = store.list_runs(withdrawn=True)
    published = [run.run_id for run in runs]
    assert len(published) == len(set(published))
    assert reported["published"] <= set(published)
    assert reported["labelled"] <= {
        run.run_id for run in runs if "number" in dict(run.labels)
    }
    assert reported["withdrawn"].isdisjoint(run.run_id for run in store.list_runs())
    assert all(reported.values())
    assert verify(parse_place(tmp_path)).problems == ()
    assert sorted(pd.read_parquet(tmp_path / "runs")["run_id"]) == sorted(published)
    assert set(pd.read_parquet(tmp_path / "cpus")["run_id"]) == set(published)
    assert set(pd.read_parquet(tmp_path / "samples")["run_id"]) == set(published)


def _read(root: Path, stop: threading.Event, faults: list[object]) -> None:
    """Read the table of runs again and again, with pandas alone; collect what is
    wrong.
    """
    while not stop.is_set():
        if not (root / "runs").exists():
            continue
        try:
            ids = pd.read_parquet(root / "runs", columns=["run_id"])["run_id"]
        except Exception as error:
            faults.append(error)
        else:
            faults += ids[ids.duplicated()].tolist()
