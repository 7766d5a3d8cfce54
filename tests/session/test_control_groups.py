"""A host that a control group above the agent's own limits: as in a Slurm step or a pod."""

import os
from pathlib import Path

import pandas as pd
import pytest

from tests.command import Fleet
from tests.hosts import odd

CHASE = ("-b", "chase", "--rounds", "1", "-q", "--json")


def test_a_plan_keeps_to_the_limit_or_is_refused_by_its_name(tmp_path: Path) -> None:
    work = tmp_path / "work"
    name = f"fleet-test-memory-{os.getpid()}"
    with odd.limited_group(name, "160M") as group, Fleet(tmp_path) as fleet:
        into = f'echo $$ >{group}/cgroup.procs; exec "$@"'
        fleet.inventory(f"hosts:\n  job: {{via: command, workdir: {work}, command: [sh, -c, '{into}', -]}}\n")
        (refused,) = fleet("run", *CHASE, "--sizes", "256M").json
        assert refused["stage"] == "usage"
        assert not (tmp_path / "results").exists() or not any(fleet.results.rglob("*.parquet"))
        assert f"available (control group /{name}, 160 MiB) may be taken: --sizes," in refused["message"]
        assert "no unfinished session" in fleet("resume").stdout
        (kept,) = fleet("run", *CHASE, "--sizes", "16K,32K").json
        assert kept["state"] in {"complete", "partial"}, kept
        assert len(fleet.samples()) > 0


@pytest.mark.slow
def test_a_quota_of_cpu_time_is_told_and_costs_time_only(tmp_path: Path) -> None:
    name = f"fleet-test-quota-{os.getpid()}"
    with odd.limited_group(name, "10000", "cpu") as group, Fleet(tmp_path) as fleet:
        words = f'echo $$ >{group}/cgroup.procs; exec "$@"'
        host = f"via: command, workdir: {tmp_path}/work, command: [sh, -c, '{words}', -]"
        fleet.inventory(f"hosts:\n  pod: {{{host}}}\n")
        assert (
            f"CPU time is limited (control group /{name}, 0.1 CPUs): where none is left"
            in fleet("check", "-q").stdout
        )
        (kept,) = fleet("run", "-b", "clock", "--rounds", "2", "-q", "--json").json
        assert kept["state"] in {"complete", "partial"}, kept
        limited = (
            f"CPU time is limited (control group /{name}, 0.1 CPUs): bursts take up to 10 times as long."
        )
        assert limited in kept["notes"]
        assert pd.read_parquet(fleet.results / "runs")["cpu_quota"].tolist() == [0.1]


@pytest.mark.slow
def test_a_limit_that_cannot_be_seen_costs_what_lies_beyond_it(tmp_path: Path) -> None:
    name = f"fleet-test-hidden-{os.getpid()}"
    with odd.limited_group(name, "160M") as group, Fleet(tmp_path) as fleet:
        words = f'echo $$ >{group}/cgroup.procs; umount -l /sys/fs/cgroup/memory; exec "$@"'
        host = f"via: command, workdir: {tmp_path}/work, command: [unshare, -m, sh, -c, '{words}', -]"
        fleet.inventory(f"hosts:\n  job: {{{host}}}\n")
        (kept,) = fleet("run", "-b", "chase,clock", "--sizes", "16K,128M", *CHASE[2:]).json
        assert kept["state"] == "partial"
        assert "128M" in kept["message"]
        assert "the agent was killed for lack of memory (oom_kill 1)" in kept["message"]
        assert any(note.startswith("Given up after an agent was killed: ") for note in kept["notes"])
        assert {*fleet.samples()["bytes"].dropna()} == {16 << 10}
        assert "no unfinished session" in fleet("resume").stdout
