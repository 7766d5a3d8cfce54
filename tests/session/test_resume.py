"""`fleet resume`: whatever cut a session short, every burst that had arrived is stored,
exactly once.
"""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import needs
from tests.command import Fleet, journal_lines, wait_for
from tests.hosts.client import know_behind
from tests.hosts.proxy import FaultProxy
from tests.hosts.sshd import MakeKnown, SshHost

LOCAL = "hosts:\n  here: {via: local}\n"
ROUNDS = 400
PLAN = ("run", "-b", "clock", "--rounds", str(ROUNDS), "--samples", "9", "-q")
LONG = ("run", "-b", "clock", "--rounds", "100000", "--samples", "9", "-q")
KILLS = int(os.environ.get("FLEET_KILLS", "8"))
RESUME = ("resume", "-q", "--json")

Ticks = dict[tuple[str, int, int], list[int]]


def streams(fleet: Fleet) -> list[Path]:
    return sorted((fleet.results / ".fleet/journal").glob("*/stream*.jsonl"))


def read_journals(fleet: Fleet) -> Ticks:
    """Every burst in the journals, read without any code of ours: its key and its
    ticks.
    """
    ticks_by_key: Ticks = {}
    for path in streams(fleet):
        for line in journal_lines(path):
            if line.startswith(b'{"record":"burst"'):
                record = json.loads(line)
                key = (path.parent.name, record["round"], record["ping"])
                assert key not in ticks_by_key, "measured twice"
                ticks_by_key[key] = record["ticks"]
    return ticks_by_key


def agents(fleet: Fleet) -> list[int]:
    """The process ids that agents gave in their hellos."""
    lines = [line for path in streams(fleet) for line in journal_lines(path)]
    return [
        int(json.loads(line)["pid"])
        for line in lines
        if line.startswith(b'{"record":"hello"')
    ]


def read_stored(fleet: Fleet) -> Ticks:
    rows = [
        ((str(row.run_id), int(row.round), int(row.ping_cpu)), list(row.ticks))
        for row in fleet.samples().itertuples()
    ]
    assert len(dict(rows)) == len(rows), "stored twice"
    return dict(rows)


def wait_for_bursts(fleet: Fleet, count: int = 1) -> None:
    wait_for(
        lambda: (
            sum(
                path.read_bytes().count(b'{"record":"burst"') for path in streams(fleet)
            )
            >= count
        )
    )


def cut(fleet: Fleet, plan: tuple[str, ...] = PLAN, count: int = 1) -> None:
    """Start a run and kill its controller once so many bursts are in its journal."""
    process = fleet.start(*plan)
    wait_for_bursts(fleet, count)
    process.kill()
    process.communicate()


def whole(run_id: str, rounds: int = ROUNDS) -> set[tuple[str, int, int]]:
    """The visits of an uninterrupted run."""
    return {
        (run_id, round_, cpu)
        for round_ in range(rounds)
        for cpu in os.sched_getaffinity(0)
    }


@pytest.mark.slow
def test_what_was_measured_before_the_cut_and_after_is_on_one_clock(
    fleet: Fleet,
) -> None:
    cut(fleet)
    before = len(read_journals(fleet))
    assert fleet(*RESUME).exit_code == 0
    samples = fleet.samples().sort_values("start_offset_ns")
    assert samples["round"].is_monotonic_increasing, (
        "rounds come one after the other, cut or not"
    )
    assert 0 < before < len(samples)
    (run,) = fleet("runs", "--json").json
    assert run["state"] == "complete"


@pytest.mark.slow
def test_a_session_killed_before_it_reached_a_host_is_finished_as_it_was_requested(
    fleet: Fleet,
) -> None:
    fleet.inventory(LOCAL + "  other: {address: 127.0.0.1, port: 1}\n")
    done = fleet(*PLAN, "--label", "kernel=test", "--json")
    assert done.exit_code == 1
    fleet.inventory("hosts:\n  here: {via: local}\n  other: {via: local}\n")
    assert "other: measure from the start" in fleet("resume", "--dry-run").stdout
    done = fleet(*RESUME)
    assert [(entry["host"], entry["state"]) for entry in done.json] == [
        ("other", "complete")
    ]
    runs = fleet("runs", "--json").json
    assert len({run["session_id"] for run in runs}) == 1
    assert {run["bursts"] for run in runs} == {ROUNDS * len(os.sched_getaffinity(0))}
    assert all(dict(run["labels"]) == {"kernel": "test"} for run in runs)


@pytest.mark.slow
def test_a_run_under_way_is_left_to_its_controller(fleet: Fleet) -> None:
    process = fleet.start(*LONG)
    wait_for_bursts(fleet)
    done = fleet("resume")
    assert done.exit_code == 12
    assert "is still running: process" in done.stderr
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate()


@pytest.mark.slow
def test_what_arrived_can_be_stored_as_it_is(fleet: Fleet) -> None:
    cut(fleet, LONG, 5)
    before = read_journals(fleet)
    fleet.inventory("hosts:\n  another: {via: local}\n")
    refused = fleet("resume")
    assert refused.exit_code == 2
    assert "the inventory no longer has here" in refused.stderr
    assert fleet("resume", "--publish-partial", "-q").exit_code == 1
    assert read_stored(fleet) == before
    (run,) = fleet("runs", "--json").json
    assert run["state"] == "partial"
    assert fleet("resume").exit_code == 0


def test_bursts_before_a_damaged_line_are_kept_and_the_rest_is_measured_again(
    fleet: Fleet,
) -> None:
    cut(fleet, count=6)
    (stream,) = streams(fleet)
    lines = stream.read_bytes().splitlines(keepends=True)
    # a burst that is lost; the rest of the pair's rounds cannot follow it
    lines[4] = b"\0" * 20 + b"\n"
    stream.write_bytes(b"".join(lines))
    done = fleet("resume")
    assert done.exit_code == 0, done.stderr
    assert "is damaged" in done.stdout + done.stderr
    ((run_id, *_),) = {key[:1] for key in read_stored(fleet)}
    assert read_stored(fleet).keys() == whole(run_id)


def test_a_session_can_be_given_up_by_name_only(fleet: Fleet) -> None:
    cut(fleet)
    assert fleet("resume", "--forget").exit_code == 2
    (note,) = (fleet.results / ".fleet/journal").glob("s*.json")
    done = fleet("resume", "--forget", note.stem)
    assert done.exit_code == 0
    assert "is given up" in done.stdout
    assert not streams(fleet)
    assert fleet("runs", "--json").json == []


def test_a_damaged_run_json_is_named_and_never_called_nothing(fleet: Fleet) -> None:
    cut(fleet)
    (stream,) = streams(fleet)
    note = stream.parent / "run.json"
    timeless = json.loads(note.read_text()) | {"started_utc": "yesterday"}
    del timeless["crc32"]
    note.write_text(json.dumps(timeless))
    done = fleet("resume", "--publish-partial")
    assert done.exit_code == 11
    assert "run.json" in done.stderr
    assert "nothing of it had been measured" not in done.stdout
    assert streams(fleet) == [stream]


def test_a_root_removed_during_the_run_is_reported(fleet: Fleet) -> None:
    running = fleet.start(*LONG)
    wait_for_bursts(fleet)
    shutil.rmtree(fleet.results)
    out, err = running.communicate()
    assert running.returncode == 11, out + err
    assert "was removed or moved during the run" in out + err


@pytest.mark.slow
def test_what_never_began_can_be_given_up(fleet: Fleet) -> None:
    fleet.inventory(
        "hosts:\n  here: {via: local}\n  dead: {address: 127.0.0.1, port: 1}\n"
    )
    cut(fleet)
    (stream,) = streams(fleet)
    stream.write_bytes(b"")
    done = fleet("resume", "--publish-partial", "-q")
    assert "had arrived; its journal is removed" in done.stdout
    assert list((fleet.results / ".fleet/journal").iterdir()) == []
    assert fleet("run", "dead", "-q").exit_code == 3
    assert fleet("run", "dead", "-q").exit_code == 3
    done = fleet("resume", "--publish-partial", "-q")
    assert done.exit_code == 0
    assert "is given up; nothing of it had been measured" in done.stdout
    assert "Also unfinished: s" in done.stderr
    assert fleet("resume", "--publish-partial").exit_code == 0
    assert "no unfinished session" in fleet("resume").stdout
    assert fleet("resume", "--json").json == []
    assert fleet("resume", "s2026").exit_code == 2


@pytest.mark.slow
def test_a_host_booted_anew_is_not_mixed_into_the_run(fleet: Fleet) -> None:
    cut(fleet)
    (note,) = (fleet.results / ".fleet/journal").glob("*/run.json")
    journaled = json.loads(note.read_text())
    del journaled["crc32"]
    journaled["facts"]["boot_id"] = "another"
    note.write_text(json.dumps(journaled))
    done = fleet(*RESUME)
    assert done.exit_code == 10
    assert "has been rebooted" in done.stdout
    assert read_journals(fleet)


@pytest.mark.long
def test_the_second_controller_of_a_machine_is_refused_with_the_firsts_name(
    fleet: Fleet,
) -> None:
    first = fleet.start(*LONG)
    wait_for_bursts(fleet)
    second = fleet(*PLAN, "--json")
    assert second.exit_code == 12, second.stdout
    (entry,) = second.json
    assert entry["stage"] == "lock"
    assert f"@{os.uname().nodename}, session s" in entry["message"]
    assert first.poll() is None
    first.kill()
    first.communicate()
    assert fleet(*PLAN, "--lock", "wait").exit_code == 0


@pytest.mark.slow
def test_two_entries_for_one_machine_are_measured_one_after_the_other(
    fleet: Fleet,
) -> None:
    fleet.inventory("hosts:\n  here: {via: local}\n  alias: {via: local}\n")
    done = fleet("run", "-b", "clock", "--rounds", "300", "--samples", "9", "--json")
    assert done.exit_code == 0, done.stderr
    assert "are the same machine; measured in turn" in done.stderr
    (log,) = (fleet.results / ".fleet/logs").glob("*/session.log")
    assert "stage wait" in log.read_text()
    samples = fleet.samples().groupby("host_id", observed=True).size()
    assert samples.to_dict() == dict.fromkeys(
        ("here", "alias"), 300 * len(os.sched_getaffinity(0))
    )


@pytest.fixture
def board(fleet: Fleet, ssh_host: SshHost, known_hosts: Path) -> Iterator[FaultProxy]:
    """A host behind a proxy, as `board` in the inventory."""
    with FaultProxy((ssh_host.address, ssh_host.port)) as proxy:
        know_behind(known_hosts, proxy, ssh_host)
        fleet.hosts(
            ssh_host.entry(name="board", address=proxy.address, port=proxy.port)
        )
        yield proxy


@pytest.mark.long
@pytest.mark.parametrize(
    "reset",
    [
        pytest.param(False, id="end of file"),
        pytest.param(True, id="reset", marks=pytest.mark.slow),
    ],
)
def test_a_link_cut_in_mid_run_is_dialled_again_and_nothing_is_measured_twice(
    fleet: Fleet, board: FaultProxy, reset: bool
) -> None:
    process = fleet.start(*PLAN)
    wait_for_bursts(fleet)
    board.cut(reset=reset)
    out, err = process.communicate()
    assert process.returncode == 0, out + err
    (run_id,) = {key[0] for key in read_stored(fleet)}
    assert set(read_stored(fleet)) == whole(run_id)
    assert board.accepted == 2


@pytest.mark.slow
def test_an_orphan_behind_a_frozen_link_is_ended_by_its_successor(
    fleet: Fleet, board: FaultProxy, ssh_host: SshHost, known_hosts: Path
) -> None:
    """The old agent hears nothing of its controller's end; the new one, of the same
    run, takes its place.
    """
    process = fleet.start(*LONG)
    wait_for_bursts(fleet)
    (orphan,) = agents(fleet)
    board.freeze()
    process.kill()
    process.communicate()
    known_hosts.write_text(ssh_host.known_hosts_line)
    fleet.hosts(ssh_host.entry(name="board"))
    assert Path(f"/proc/{orphan}").exists()
    resuming = fleet.start(*RESUME)
    wait_for(lambda: len(agents(fleet)) == 2)
    assert not Path(f"/proc/{orphan}").exists()
    wait_for_bursts(fleet, len(read_journals(fleet)) + 1)
    resuming.kill()
    resuming.communicate()


@pytest.mark.slow
def test_a_full_disk_keeps_what_arrived_and_the_rest_is_measured_when_there_is_room(
    fleet: Fleet, tmp_path: Path
) -> None:
    needs.root()
    mount = needs.program("mount", "mount")
    umount = needs.program("umount", "mount")
    small = tmp_path / "results"
    small.mkdir()
    subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=200k", "none", str(small)], check=True
    )
    try:
        done = fleet(*PLAN, "--json")
        assert done.exit_code == 11, done.stdout
        before = read_journals(fleet)
        assert before
        subprocess.run([mount, "-o", "remount,size=64m", str(small)], check=True)
        assert fleet(*RESUME).exit_code == 0
        after = read_stored(fleet)
        assert set(after) == whole(next(iter(after))[0])
        assert {key: after[key] for key in before} == before
    finally:
        subprocess.run([umount, str(small)], check=True)


@pytest.mark.slow
@pytest.mark.timeout(50 * KILLS)
def test_killed_at_random_moments_every_burst_that_had_arrived_is_stored_once(
    fleet: Fleet,
) -> None:
    """SIGKILL of runs and of what resumes them; FLEET_KILLS=100 for as many."""
    plan = (*PLAN, "--rounds", "4000")
    rounds = 4000
    assert fleet(*PLAN).exit_code == 0  # the agent is there from now on
    began = time.monotonic()
    assert fleet(*plan).exit_code == 0
    whole_s = time.monotonic() - began
    chance = random.Random(11)
    kills = 0
    hits = 0
    before: Ticks = {}
    while kills < KILLS or remains(fleet):
        process = fleet.start(*(RESUME if remains(fleet) else plan))
        if kills < KILLS:
            # the random moment, no synchronisation
            time.sleep(chance.uniform(0.2, 1.0) * whole_s)
            kills += process.poll() is None
            process.kill()
        _, err = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), err
        now = read_journals(fleet)
        hits += len(now) > 0
        before |= now
    after = read_stored(fleet)
    assert hits, "no kill hit a run that was measuring"
    assert {key: after[key] for key in before} == before
    runs = {run["run_id"]: run["bursts"] for run in fleet("runs", "--json").json}
    assert set(runs) == {key[0] for key in after}
    for run_id in {key[0] for key in before}:
        assert {key for key in after if key[0] == run_id} == whole(run_id, rounds)
    report(
        f"{kills} kills, {hits} in mid-measurement, {len(runs)} runs, {len(before)}"
        " bursts seen in journals"
    )


def remains(fleet: Fleet) -> bool:
    """Whether a session or a run has anything left in the journals."""
    return any((fleet.results / ".fleet/journal").iterdir())


def report(text: str) -> None:
    """Say it to whoever runs pytest with -s or -rP."""
    sys.stdout.write(f"{text}\n")


@pytest.mark.slow
def test_an_sshd_that_lets_nobody_in_for_a_moment_is_tried_again(
    fleet: Fleet, make_known: MakeKnown
) -> None:
    """MaxStartups: a stranger who says nothing holds the only place, until the first
    try was refused.
    """
    server = make_known("MaxStartups 1")
    fleet.hosts(server.entry(name="board"))
    with socket.create_connection((server.address, server.port)) as stranger:
        stranger.recv(100)
        process = fleet.start("run", "-b", "clock", "--rounds", "2", "--samples", "9")
        wait_for(lambda: b"MaxStartups" in server.log.read_bytes())
    out, err = process.communicate()
    assert process.returncode == 0, out + err
    assert "Trying again (1 of 3)" in err
