"""`fleet run` over real OpenSSH on loopback: many hosts at once, odd hosts, hosts that
fail.
"""

import json
import os
import signal
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fleet.model import BuildPlace, Host, HostKeyPolicy, Via
from tests import needs
from tests.command import UNOPTIMIZED, Done, Fleet, journal_lines, wait_for
from tests.hosts.client import know, know_behind
from tests.hosts.proxy import FaultProxy, Faults
from tests.hosts.sshd import MakeHosts, MakeKnown, SshHost, keygen

CLOCK = ("-b", "clock", "--rounds", "2", "--samples", "9", "-q", "--json")
LOCAL = Host(name="here", address="localhost", via=Via.LOCAL)


def states(done: Done) -> dict[str, tuple[str, str]]:
    assert done.stdout, done.stderr
    return {entry["host"]: (entry["state"], entry["stage"]) for entry in done.json}


def only(done: Done) -> tuple[int, str, str]:
    """Exit code, stage and message of the one host of a session."""
    assert "Traceback" not in done.stderr
    (entry,) = done.json
    return done.exit_code, entry["stage"], entry["message"]


def keeping_a_copy(folder: Path) -> tuple[str, ...]:
    """Have an sshd write all that its commands print into ~/printed as well."""
    bash = needs.program("bash", "bash")
    script = folder / "keep"
    script.write_text(
        f'#!{bash}\nset -o pipefail\n{bash} -c "$SSH_ORIGINAL_COMMAND" | tee -a'
        ' "$HOME/printed"\n'
    )
    script.chmod(0o755)
    return (f"ForceCommand {script}",)


def bursts(text: str) -> dict[tuple[str, int, int, int], list[int]]:
    """Every burst an agent printed: its key and its ticks."""
    records = (
        json.loads(line)
        for line in text.splitlines()
        if line.startswith('{"record":"burst"')
    )
    return {
        (r["benchmark"], r["round"], r["ping"], r["pong"]): r["ticks"] for r in records
    }


@pytest.mark.slow
def test_twenty_hosts_at_once_store_number_for_number_what_their_agents_printed(
    fleet: Fleet, make_hosts: MakeHosts, known_hosts: Path, tmp_path: Path
) -> None:
    servers = make_hosts(20, options=keeping_a_copy(tmp_path))
    know(known_hosts, *servers)
    fleet.hosts(
        *(
            s.entry(name=f"h{i}", build=BuildPlace.CONTROLLER)
            for i, s in enumerate(servers)
        )
    )
    done = fleet("run", "-b", "clock", "--rounds", "3", "-q", "--json")
    assert done.exit_code == 0, done.stdout + done.stderr
    samples = fleet.samples()
    for i, server in enumerate(servers):
        printed = bursts((server.home / "printed").read_text())
        mine = samples[samples["host_id"].astype(str) == f"h{i}"]
        stored = {
            (str(r.benchmark), r.round, r.ping_cpu, r.pong_cpu): list(r.ticks)
            for r in mine.itertuples()
        }
        assert len(stored) == 3 * len(os.sched_getaffinity(0))
        assert stored == printed


def test_a_host_builds_its_own_agent_and_keeps_it(
    fleet: Fleet, make_known: MakeKnown
) -> None:
    server = make_known()
    fleet.hosts(
        server.entry(name="board", build=BuildPlace.HOST, toolchain=UNOPTIMIZED)
    )
    assert only(fleet("run", *CLOCK))[0] == 0
    (agent,) = (server.home / ".cache" / "fleet").iterdir()
    stamp = agent.stat().st_mtime_ns
    assert only(fleet("run", *CLOCK))[0] == 0
    assert agent.stat().st_mtime_ns == stamp


@pytest.mark.long
def test_verbose_prints_each_step_to_a_host_and_why_it_failed(
    fleet: Fleet, make_hosts: MakeHosts, known_hosts: Path
) -> None:
    good, stranger = make_hosts(2)
    know(known_hosts, good)
    fleet.hosts(good.entry(name="board"), stranger.entry(name="stranger"))
    steps = fleet("clean", "-v").stderr.splitlines()
    mine = [
        step.removeprefix("board: ") for step in steps if step.startswith("board: ")
    ]
    places = [
        next(place for place, step in enumerate(mine) if step.startswith(begins))
        for begins in (
            "connecting to 127.",
            "host key SHA256:",
            f"key {good.client_key}",
            "logged in",
        )
    ]
    assert places == sorted(places)
    assert any("stranger: host-key failed: 127." in step for step in steps)
    assert "paramiko.board: " not in "".join(steps)
    more = fleet("clean", "-vv", "board").stderr
    assert "Authentication (publickey) successful!" in more
    assert "logged in" not in fleet("clean", "board").stderr


def test_a_host_that_has_its_agent_costs_one_connection_and_two_shells(
    fleet: Fleet, make_known: MakeKnown
) -> None:
    """The first asks for the facts and ends with the agent, the other asks for the
    load after the run.
    """
    server = make_known()
    fleet.hosts(server.entry(name="board", build=BuildPlace.CONTROLLER))
    for connections, commands in ((1, 3), (2, 5)):  # the agent has to be sent once
        assert only(fleet("run", *CLOCK))[0] == 0
        log = server.log.read_text()
        assert log.count("Accepted publickey") == connections
        assert log.count("Starting session: ") == commands
    run, _ = sorted((fleet.results / "runs").iterdir())
    row = pq.read_table(run).to_pylist()[0]
    assert row["load_1m_before"] is not None
    assert row["load_1m_after"] is not None
    assert row["agent_compiler"]


@pytest.mark.slow
def test_the_good_host_is_stored_whatever_the_bad_ones_do(
    fleet: Fleet,
    ssh_host: SshHost,
    make_hosts: MakeHosts,
    known_hosts: Path,
    tmp_path: Path,
) -> None:
    """A session of every kind of failure at once: each host has its own outcome."""
    (stranger,) = make_hosts(1)
    changed, cut = make_hosts(2)
    wrong_key = keygen(tmp_path / "wrong_key")
    other_key = ssh_host.known_hosts_line.split()[2]
    know(known_hosts, ssh_host, cut)
    with known_hosts.open("a") as file:
        file.write(f"[{changed.address}]:{changed.port} ssh-ed25519 {other_key}\n")
    with (
        FaultProxy((ssh_host.address, ssh_host.port), Faults(silent=True)) as silent,
        FaultProxy((cut.address, cut.port), Faults(cut_down_after=30_000)) as cutting,
    ):
        know_behind(known_hosts, cutting, cut)
        fleet.hosts(
            LOCAL,
            ssh_host.entry(name="good"),
            ssh_host.entry(name="refused", address="127.0.0.1", port=1),
            ssh_host.entry(name="silent", address=silent.address, port=silent.port),
            stranger.entry(name="stranger"),
            changed.entry(name="changed"),
            ssh_host.entry(name="wrongkey", identity_files=(str(wrong_key),)),
            cut.entry(name="cut", address=cutting.address, port=cutting.port),
        )
        plan = "run -b clock --rounds 400 --samples 3 -q --json --connect-timeout 10"
        done = fleet(*plan.split())
    assert done.exit_code == 1
    by_host = states(done)
    assert (
        by_host["here"] == by_host["good"] == by_host["cut"] == ("complete", "done")
    ), done.stdout
    assert by_host["refused"] == by_host["silent"] == ("failed", "connect")
    assert by_host["stranger"] == by_host["changed"] == ("failed", "host-key")
    assert by_host["wrongkey"] == ("failed", "auth")
    samples = fleet.samples()
    assert set(samples["host_id"].astype(str)) == {"here", "good", "cut"}
    assert set(samples.groupby("host_id", observed=True).size()) == {
        400 * len(os.sched_getaffinity(0))
    }
    assert not samples.duplicated(["run_id", "round", "ping_cpu"]).any(), (
        "the link was cut again and again"
    )
    messages = {entry["host"]: entry["message"] for entry in done.json}
    assert all(
        message.startswith(f"{name}: ") for name, message in messages.items() if message
    )


@pytest.mark.parametrize(
    ("fault", "code", "stage", "words"),
    [
        ("refused", 3, "connect", "refused"),
        ("stranger", 4, "host-key", "ssh-keyscan"),
        ("changed", 4, "host-key", "ssh-keygen -R"),
        ("wrong key", 5, "auth", "id_tests"),
    ],
)
def test_a_single_cause_gives_its_own_exit_code_and_advice(
    fleet: Fleet,
    ssh_host: SshHost,
    make_hosts: MakeHosts,
    known_hosts: Path,
    tmp_path: Path,
    fault: str,
    code: int,
    stage: str,
    words: str,
) -> None:
    know(known_hosts, ssh_host)
    host = ssh_host.entry(name="board")
    match fault:
        case "refused":
            host = ssh_host.entry(name="board", address="127.0.0.1", port=1)
        case "stranger":
            known_hosts.write_text("")
        case "changed":
            other = (
                keygen(tmp_path / "other").with_suffix(".pub").read_text().split()[1]
            )
            known_hosts.write_text(
                f"[{ssh_host.address}]:{ssh_host.port} ssh-ed25519 {other}\n"
            )
        case "wrong key":
            key = keygen(tmp_path / "other_id_tests")
            host = ssh_host.entry(name="board", identity_files=(str(key),))
    fleet.hosts(host)
    found_code, found_stage, message = only(fleet("run", *CLOCK))
    assert found_code == code, message
    assert found_stage == stage, message
    assert words in message


@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, signal.SIGTERM, signal.SIGKILL],
    ids=["^C", "TERM", "KILL"],
)
def test_a_stopped_controller_leaves_no_agent_on_the_host_and_keeps_what_arrived(
    fleet: Fleet, ssh_host: SshHost, known_hosts: Path, number: signal.Signals
) -> None:
    know(known_hosts, ssh_host)
    fleet.hosts(ssh_host.entry(name="board"))
    process = fleet.start(
        "run", "-b", "clock", "--rounds", "100000", "--samples", "9", "-q"
    )
    journals = lambda: list((fleet.results / ".fleet/journal").glob("*/stream.jsonl"))  # noqa: E731
    wait_for(lambda: any(path.stat().st_size > 3_000 for path in journals()))
    (hello,) = (line for line in journal_lines(journals()[0]) if b'"hello"' in line)
    process.send_signal(number)
    process.communicate()
    assert process.returncode == (-number if number is signal.SIGKILL else 130)
    wait_for(lambda: not Path(f"/proc/{json.loads(hello)['pid']}").exists())
    assert '"burst"' in journals()[0].read_text()


def test_accept_new_takes_a_stranger_once_and_is_strict_from_then_on(
    fleet: Fleet, ssh_host: SshHost, known_hosts: Path
) -> None:
    fleet.hosts(
        ssh_host.entry(
            name="board", build=BuildPlace.CONTROLLER, host_key=HostKeyPolicy.ACCEPT_NEW
        )
    )
    assert only(fleet("run", *CLOCK))[0] == 0
    assert ssh_host.known_hosts_line.split()[2] in known_hosts.read_text()
    fleet.hosts(ssh_host.entry(name="board", build=BuildPlace.CONTROLLER))
    assert only(fleet("run", *CLOCK))[0] == 0


@pytest.mark.slow
def test_sessions_that_deploy_the_same_agent_at_once_leave_one_whole_binary(
    fleet: Fleet, make_known: MakeKnown
) -> None:
    server = make_known()
    fleet.hosts(server.entry(name="board"))
    sessions = [fleet.start("run", *CLOCK, "--lock", "wait") for _ in range(3)]
    for session in sessions:
        output, _ = session.communicate()
        assert session.returncode == 0, output
    (agent,) = [path for path in server.home.rglob("*") if path.is_file()]
    assert agent.name.startswith("fleet-agent-")
