"""From `fleet check` to a stored run on hosts with little more than a shell and an SSH
server.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fleet.model import BuildPlace, RequestedToolchain
from tests import needs
from tests.command import Fleet
from tests.hosts.tiny import TinyHost, tiny_host
from tests.session.test_run_ssh import CLOCK, only

pytestmark = pytest.mark.slow


@pytest.fixture(params=[False, True], ids=["no C library", "musl"])
def tiny(
    request: pytest.FixtureRequest, tmp_path: Path, client_key: Path, known_hosts: Path
) -> Iterator[TinyHost]:
    with tiny_host(tmp_path / "tiny", client_key, musl=request.param) as host:
        known_hosts.write_text(host.known_hosts_line)
        yield host


def test_dropbear_and_busybox_from_check_to_a_stored_run(
    fleet: Fleet, tiny: TinyHost
) -> None:
    musl = (tiny.root / "lib/ld-musl-x86_64.so.1").exists()
    entry = tiny.entry("tiny")
    if musl:
        compiler = RequestedToolchain(cc=needs.program("musl-gcc", "musl-tools"))
        entry = replace(entry, build=BuildPlace.CONTROLLER, toolchain=compiler)
    fleet.hosts(entry)

    checked = fleet("check", "--json")
    assert checked.exit_code == 0, checked.stdout + checked.stderr
    assert "error" not in checked.json[0]
    assert not list(tiny.root.rglob("fleet-agent-*")), "looking only must write nothing"

    done = fleet("run", *CLOCK)
    assert only(done)[0] == 0, done.stdout
    (agent,) = tiny.root.rglob("fleet-agent-*")
    assert agent.parent == tiny.root / "root/.cache/fleet"
    (row,) = pq.read_table(next((fleet.results / "runs").iterdir())).to_pylist()
    assert row["state"] == "complete"
    if musl:
        assert row["libc"].startswith("musl")
        assert row["distribution"] == "Alpine Linux v3.20"
    assert len(fleet.samples()) == 2 * len(os.sched_getaffinity(0))

    assert fleet("clean", "--json").json[0]["removed"]
    assert not list(tiny.root.rglob("fleet-agent-*"))


def test_an_agent_that_needs_glibc_is_not_sent_to_a_musl_host(
    fleet: Fleet, tmp_path: Path, client_key: Path, known_hosts: Path
) -> None:
    dynamic = RequestedToolchain(binary=needs.program("cat", "coreutils"))
    with tiny_host(tmp_path / "tiny", client_key, musl=True) as host:
        known_hosts.write_text(host.known_hosts_line)
        fleet.inventory(
            f"hosts:\n  tiny: {{address: {host.address}, port: {host.port}, user: root,"
            f" identity_files: [{client_key}], build: {BuildPlace.PREBUILT}, toolchain:"
            f" {{binary: {dynamic.binary}}}}}\n"
        )
        code, stage, message = only(fleet("run", *CLOCK))
    assert code == 8
    assert stage == "build"
    assert "it needs glibc" in message
    assert "musl" in message


def test_toybox_and_mksh_are_enough_where_temporary_files_have_no_place(
    tmp_path: Path,
) -> None:
    """As on Android."""
    needs.root()
    toybox = needs.program("toybox", "toybox")
    mksh = needs.program("mksh", "mksh")
    names = subprocess.run(
        [toybox], capture_output=True, text=True, check=True
    ).stdout.split()
    for folder in ("bin", "data"):
        (tmp_path / folder).mkdir()
    for name in names:
        (tmp_path / "bin" / name).symlink_to(toybox)
    hidden = "for d in /tmp /var/tmp /dev/shm; do mount -t tmpfs -o ro none $d; done"
    shell = (
        f"mount --bind {mksh} $(readlink -f /bin/sh); export PATH=/mnt/bin HOME="
        " TMPDIR=/mnt/data"
    )
    words = f'mount --bind {tmp_path} /mnt; {hidden}; {shell}; exec "$@"'
    with Fleet(tmp_path) as fleet:
        command = json.dumps(
            ["unshare", "-m", needs.program("bash", "bash"), "-c", words, "-"]
        )
        fleet.inventory(f"hosts:\n  phone: {{via: command, command: {command}}}\n")
        (row,) = fleet(
            "run", "-b", "clock", "--rounds", "2", "--samples", "9", "-q", "--json"
        ).json
        assert row["state"] in {"complete", "partial"}, row["message"]
        assert any(
            note.startswith("The machine lock could not be taken")
            for note in row["notes"]
        )
        assert list((tmp_path / f"data/fleet-{os.getuid()}").glob("fleet-agent-*"))
        assert fleet("clean", "-q").exit_code == 0
        assert list((tmp_path / "data").iterdir()) == []
