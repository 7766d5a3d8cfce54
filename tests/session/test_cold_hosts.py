"""`fleet run` on hosts that have no agent yet: those that are alike compile once,
whoever is first.
"""

import os
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests import needs
from tests.command import Fleet
from tests.hosts.sshd import MakeHosts
from tests.session.test_run_ssh import CLOCK, know

HOSTS = 4


@pytest.fixture
def fleet(fleet: Fleet, tmp_path: Path) -> Fleet:
    """Its cache of agents is empty: `fleet run` would take a finished one from
    there.
    """
    fleet.environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    return fleet


@pytest.mark.long
def test_cold_hosts_that_are_alike_compile_once(
    fleet: Fleet, make_hosts: MakeHosts, known_hosts: Path, tmp_path: Path
) -> None:
    servers = make_hosts(HOSTS)
    know(known_hosts, *servers)
    compiled = tmp_path / "compiled"
    cc = tmp_path / "bin/cc"
    cc.parent.mkdir()
    log = (  # the first half of each build
        f"case $PWD in */0) echo compiled >>{compiled} ;; esac"
    )
    cc.write_text(f'#!/bin/sh\n{log}\nexec {needs.program("cc", "gcc")} "$@" -O0\n')
    cc.chmod(0o755)
    path = f"{cc.parent}:{os.environ['PATH']}"
    entries = [
        replace(s.entry(name=f"h{i}"), env={"PATH": path})
        for i, s in enumerate(servers)
    ]

    for chosen in (entries[:-1], entries[-1:]):  # the last one in a later session
        fleet.hosts(*chosen)
        done = fleet("run", *CLOCK)
        assert done.exit_code == 0, done.stdout + done.stderr
        assert compiled.read_text() == "compiled\n"
    tables = [
        pq.read_table(file).to_pylist() for file in (fleet.results / "runs").iterdir()
    ]
    rows = [row for table in tables for row in table]
    (maker,) = [
        row for row in rows if row["agent_place"].startswith("built on the host with ")
    ]
    sent = f"{maker['agent_place'].replace(' on the host', '')} on a host like this one"
    assert [row["agent_place"] for row in rows].count(sent) == HOSTS - 1
    assert len({(row["agent_build"], row["agent_compiler"]) for row in rows}) == 1
