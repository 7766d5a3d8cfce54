"""One session on the workers of a real Dask cluster, one of which is killed in the
middle.
"""

import json
import os
import re
import signal
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest

from fleet.errors import EXIT_INTERRUPTED
from fleet.store import Store
from tests import needs
from tests.command import Fleet, interrupt, wait_for
from tests.hosts.client import know
from tests.hosts.s3 import BUCKET, ObjectStore
from tests.hosts.sshd import MakeHosts
from tests.session.test_log import a_log, session_id

pytestmark = pytest.mark.slow
PLAN = ("-b", "clock", "--rounds", "20", "--samples", "9", "--plan", "spread_s=2")
KEY = ["run_id", "benchmark", "variant", "round", "ping_cpu", "pong_cpu"]


@pytest.fixture
def fleet(tmp_path: Path, make_hosts: MakeHosts, known_hosts: Path) -> Fleet:
    """Four hosts, which are one machine: nothing but --lock off lets them be measured
    at once.
    """
    needs.python_module("distributed", "corefleet[dask]")
    fleet = Fleet(tmp_path, {"FLEET_SSH_CONFIG": os.environ["FLEET_SSH_CONFIG"]})
    hosts = make_hosts(4)
    know(known_hosts, *hosts)
    fleet.hosts(*(host.entry() for host in hosts))
    return fleet


def open_journals(root: Path) -> dict[int, str]:
    """The run each process is journaling at this moment, by process."""
    journals = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended, or it is not ours
            for link in (process / "fd").iterdir():
                target = link.readlink()
                if (
                    target.is_relative_to(root / ".fleet/journal")
                    and target.suffix == ".jsonl"
                ):
                    journals[int(process.name)] = target.parent.name
    return journals


def test_workers_import_nothing_from_the_current_folder(fleet: Fleet) -> None:
    (fleet.folder / "multiprocessing.py").write_text("open('PWN', 'w')\n")
    done = fleet("run", "--dask", "local:1", "--lock", "off", *PLAN)
    assert done.exit_code == 0, done
    assert not (fleet.folder / "PWN").exists()


def test_a_worker_killed_in_mid_shard_costs_nothing_and_measures_nothing_twice(
    fleet: Fleet,
) -> None:
    root = fleet.results.resolve()
    seen: dict[int, list[str]] = {}

    def a_worker_is_at_its_second_host() -> bool:
        assert session.poll() is None, session.communicate()
        for process, run_id in open_journals(root).items():
            runs = seen.setdefault(process, [])
            if run_id not in runs:
                runs.append(run_id)
        return any(len(runs) > 1 for runs in seen.values())

    a_log(Store(fleet.results), session_id(1))
    with fleet:
        session = fleet.start(
            "run", "--dask", "local:2", "--parallel", "1", "--lock", "off", *PLAN
        )
        wait_for(a_worker_is_at_its_second_host)
        victim, (stored, cut) = next(
            (pid, runs) for pid, runs in seen.items() if len(runs) > 1
        )
        os.kill(victim, signal.SIGKILL)
        out, err = session.communicate()
    # who spin on the same CPUs may starve a burst
    assert session.returncode in (0, 1), out + err

    runs = pd.read_parquet(fleet.results / "runs")
    samples = fleet.samples()
    assert len(runs) == 4
    assert runs["host_name"].is_unique
    assert runs["session_id"].nunique() == 1
    assert {stored, cut} <= set(runs["run_id"])
    assert not samples.duplicated(KEY).any()
    assert set(runs["bursts"] + runs["failed_bursts"]) == {
        samples["ping_cpu"].nunique() * 20
    }
    assert len(samples) == runs["bursts"].sum()
    assert list((fleet.results / ".fleet/journal").iterdir()) == []
    check_progress(fleet, err, runs, first=stored, second=cut)


def check_progress(
    fleet: Fleet, err: str, runs: pd.DataFrame, first: str, second: str
) -> None:
    """The progress of each host was printed at once, its end once: on stderr and in the
    session's log.
    """
    lines = err.splitlines()
    for name in runs["host_name"]:
        assert (
            sum(
                line.startswith((f"{name}: complete, ", f"{name}: partial, "))
                for line in lines
            )
            == 1
        ), err
        assert f"{name}: measure" in lines, err
    names = runs.set_index("run_id")["host_name"]
    ended = next(
        i
        for i, line in enumerate(lines)
        if line.startswith(f"{names[first]}: ") and " bursts in " in line
    )
    # long before their shard ended
    assert ended < lines.index(f"{names[second]}: measure")
    (log,) = fleet.results.glob(".fleet/logs/*/session.log")  # and the old one is gone
    text = log.read_text()
    for name in runs["host_name"]:
        assert f" {name}: stage measure\n" in text
        assert len(re.findall(rf" {name}: (complete|partial) in stage ", text)) == 1
    assert list(log.parent.iterdir()) == [log]


def test_a_host_that_has_ended_keeps_its_outcome_when_its_shard_is_withdrawn(
    tmp_path: Path,
) -> None:
    needs.python_module("distributed", "corefleet[dask]")
    with Fleet(tmp_path) as fleet:
        fleet.inventory("hosts: {first: {via: local}, second: {via: local}}\n")
        session = fleet.start(
            "run", "--dask", "local:1", "--parallel", "1", "--json", *PLAN
        )
        assert session.stderr is not None
        while "second: measure" not in (line := session.stderr.readline()):
            assert line, session.communicate()
        interrupt(session)
        out, err = session.communicate()
    assert session.returncode == EXIT_INTERRUPTED, err
    assert "Traceback" not in err
    first, second = json.loads(out)["rows"]
    assert (first["state"], second["state"]) == ("complete", "interrupted")
    assert first["run_id"] in set(fleet.samples()["run_id"])
    assert len(list((fleet.results / ".fleet/journal").glob("s*.json"))) == 1


def test_workers_of_a_scheduler_publish_into_an_object_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = needs.python_module("distributed", "corefleet[dask]")
    root = f"s3://{BUCKET}/team"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state of the workers"))
    with (
        ObjectStore(tmp_path / "buckets") as server,
        Fleet(tmp_path, server.environment) as fleet,
    ):
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        with distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=None
        ) as cluster:
            fleet.inventory("hosts: {here: {via: local}}\n")
            arguments = ("-r", root, "-b", "clock", "--rounds", "2", "--json")
            done = fleet("run", "--dask", cluster.scheduler_address, *arguments)
        assert done.exit_code == 0, done.stderr
        assert [entry["state"] for entry in done.json] == ["complete"]
        listed = fleet("runs", "-r", root, "--json").json
        assert [run["run_id"] for run in listed] == [
            entry["run_id"] for entry in done.json
        ]


def test_a_scheduler_that_dies_gives_up_its_shards_and_is_no_bug(
    tmp_path: Path,
) -> None:
    distributed = needs.python_module("distributed", "corefleet[dask]")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        Fleet(tmp_path) as fleet,
    ):
        fleet.inventory("hosts: {here: {via: local}}\n")
        session = fleet.start(
            "run",
            "--dask",
            cluster.scheduler_address,
            "-b",
            "clock",
            "--plan",
            "spread_s=30s",
        )
        wait_for(lambda: open_journals(fleet.results.resolve()))
        cluster.close()
        out, err = session.communicate()
    assert session.returncode == 1, out + err
    assert "its shard was given up" in out, out + err


@pytest.mark.parametrize(
    ("where", "words", "exit_code"),
    [
        ("nonsense", "neither a scheduler", 2),
        ("local:0", "neither a scheduler", 2),
        ("tcp://127.0.0.1:9", "no scheduler answers", 3),
    ],
)
def test_a_cluster_that_is_none_is_refused(
    where: str, words: str, exit_code: int, tmp_path: Path
) -> None:
    needs.python_module("distributed", "corefleet[dask]")
    with Fleet(tmp_path) as fleet:
        fleet.inventory("hosts: {here: {via: local}}\n")
        done = fleet("run", "--dask", where)
    assert done.exit_code == exit_code, done.stderr
    assert words in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
