"""A host that a control group above the agent's own limits: as in a Slurm step or a
pod.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest

from tests.command import Fleet
from tests.hosts import odd

CHASE = ("-b", "chase", "--rounds", "1", "-q", "--json")


@contextmanager
def limited_host(
    folder: Path, name: str, *limit: str, then: str = "", within: str = "sh"
) -> Iterator[tuple[Fleet, str]]:
    """This machine as the host `job` within a control group with a limit; and the
    group's name.
    """
    name = f"fleet-test-{name}-{os.getpid()}"
    with odd.limited_group(name, *limit) as group, Fleet(folder) as fleet:
        words = f'echo $$ >{group}/cgroup.procs; {then}exec "$@"'
        command = f"[{within}, -c, '{words}', -]"
        fleet.inventory(
            f"hosts:\n  job: {{via: command, workdir: {folder}/work, command:"
            f" {command}}}\n"
        )
        yield fleet, name


def test_a_plan_keeps_to_the_limit_or_is_refused_by_its_name(tmp_path: Path) -> None:
    with limited_host(tmp_path, "memory", "160M") as (fleet, name):
        (refused,) = fleet("run", *CHASE, "--sizes", "256M").json
        assert refused["stage"] == "usage"
        assert not (tmp_path / "results").exists() or not any(
            fleet.results.rglob("*.parquet")
        )
        assert (
            f"available (control group /{name}, 160 MiB) may be taken: --sizes,"
            in refused["message"]
        )
        assert "no unfinished session" in fleet("resume").stdout
        (row,) = fleet("run", *CHASE, "--sizes", "16K,32K").json
        assert row["state"] in {"complete", "partial"}, row
        assert len(fleet.samples()) > 0


@pytest.mark.slow
def test_a_quota_of_cpu_time_is_told_and_costs_time_only(tmp_path: Path) -> None:
    with limited_host(tmp_path, "quota", "10000", "cpu") as (fleet, name):
        limited = f"CPU time is limited (control group /{name}, 0.1 CPUs): "
        assert f"{limited}where none is left" in fleet("check", "-q").stdout
        (row,) = fleet("run", "-b", "clock", "--rounds", "2", "-q", "--json").json
        assert row["state"] in {"complete", "partial"}, row
        assert f"{limited}bursts take up to 10 times as long." in row["notes"]
        assert pd.read_parquet(fleet.results / "runs")["cpu_quota"].tolist() == [0.1]


@pytest.mark.slow
def test_a_limit_that_cannot_be_seen_costs_what_lies_beyond_it(tmp_path: Path) -> None:
    hidden = {"then": "umount -l /sys/fs/cgroup/memory; ", "within": "unshare, -m, sh"}
    with limited_host(tmp_path, "hidden", "160M", **hidden) as (fleet, _):
        (row,) = fleet(
            "run", "-b", "chase,clock", "--sizes", "16K,256M", *CHASE[2:]
        ).json
        assert row["state"] == "partial"
        assert "256M" in row["message"]
        assert "the agent was killed for lack of memory (oom_kill 1)" in row["message"]
        assert any(
            note.startswith("Given up after an agent was killed: ")
            for note in row["notes"]
        )
        assert {*fleet.samples()["bytes"].dropna()} == {16 << 10}
        assert "no unfinished session" in fleet("resume").stdout
