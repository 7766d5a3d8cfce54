"""`via: command` and its named kin: each habit of a client program is measured through,
or named.
"""

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from fleet import errors
from fleet.errors import FleetError, LinkError, ProbeError, UnreachableError
from fleet.inventory.select import load
from fleet.model import Host, Via
from fleet.model.client import PRESETS, client_command
from fleet.remote.connect import connect
from fleet.remote.process import Process
from tests.command import ROOT, Fleet, wait_for
from tests.hosts import slurm
from tests.processes import is_running

STAND_IN = (sys.executable, "-I", str(ROOT / "tests/hosts/stand_in.py"))
CLOCK = ("-b", "clock", "--rounds", "2", "--samples", "9", "-q", "--json")

# By program the error, a word of its remedy, and what the program printed: srun
# 22.05.8, podman 4.3.1, kubectl 1.32 and docker 28.2 were run; the others are from
# their sources' and users' words.
REFUSALS = """
srun UnreachableError --overlap
    srun: error: Unable to create step for job 1: Requested nodes are busy
srun UnreachableError scontrol show hostnames
    srun: error: Unable to create step for job 1: Requested node configuration is not available
srun UnreachableError salloc --no-shell
    srun: error: Unable to confirm allocation for job 99: Invalid job id specified
srun UnreachableError salloc --no-kill
    srun: error: Slurm job 1 has expired
srun UnreachableError sinfo -R
    srun: error: Task launch for StepId=1.13 failed on node n7: Communication connection failure
kubectl UnreachableError kubectl get pods
    Error from server (NotFound): pods "p" not found
kubectl AuthError `pods/exec`
    Error from server (Forbidden): pods "p" is forbidden: User "u" cannot create resource "pods/exec"
kubectl UnreachableError kubeconfig
    The connection to the server localhost:8080 was refused - did you specify the right host or port?
kubectl ProbeError no /bin/sh
    exec: "/bin/sh": stat /bin/sh: no such file or directory: unknown
podman UnreachableError `address`
    Error: no container with name or ID "c" found: no such container
podman ProbeError busybox
    stat /bin/sh: no such file or directory: OCI runtime attempted to invoke a command that was not found
docker UnreachableError daemon
    Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?
adb AuthError Accept this machine's key
    error: device unauthorized.
"""


def board(*command: str, **changes: object) -> Host:
    return Host("board", "board", via=Via.COMMAND, command=command, **changes)  # type: ignore[arg-type]


def stand_in_host(*habits: str) -> Host:
    return board(*STAND_IN, *habits, "--")


def program(folder: Path, name: str, script: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    "refusal", re.findall(r"(?m)^(\S+) (\S+) (.+)\n +(.+)$", REFUSALS)
)
def test_what_a_client_prints_tells_what_to_do(
    tmp_path: Path, refusal: tuple[str, str, str, str]
) -> None:
    name, error, remedy, printed = refusal
    client = program(
        tmp_path, name, f"cat >&2 <<'END'\nnoise\n{printed}\nmore noise\nEND\nexit 0"
    )
    with pytest.raises(getattr(errors, error)) as refused:
        connect(board(client, "exec"))
    text = str(refused.value)
    assert f"board: {name} could not connect: {printed.rstrip('.?')}. " in text
    assert remedy in text


def test_an_unknown_failure_quotes_the_client_and_the_command_to_try(
    tmp_path: Path,
) -> None:
    with pytest.raises(UnreachableError) as refused:
        connect(
            board(program(tmp_path, "client", "echo 'no such thing' >&2"), "two words")
        )
    text = (
        f"client could not connect: no such thing. Try `{tmp_path}/client 'two words'"
        " /bin/sh -c uname`."
    )
    assert text in str(refused.value)


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LinkError, match="board: cannot start /no/such/program"):
        connect(board("/no/such/program"))


def test_a_client_without_a_word_is_given_up_in_time_and_ended(tmp_path: Path) -> None:
    client = program(
        tmp_path, "client", f"echo $$ >{tmp_path}/pid; echo waiting >&2; exec sleep 300"
    )
    with pytest.raises(
        UnreachableError,
        match=r"client did not reach the host's shell within 3 s: waiting",
    ):
        connect(board(client), timeout_s=3)
    wait_for(lambda: not is_running(int((tmp_path / "pid").read_text())))


@pytest.mark.parametrize(
    ("habits", "words"),
    [
        (("terminal",), "gives the command a terminal, .*-it"),
        (("returns",), "gives the command a terminal, .*-it"),
        (("labels", "banner"), "joins both outputs or labels lines. .*--label"),
        (("banner", "returns", "keeps-eof"), "gives the command a terminal"),
    ],
)
def test_what_changes_the_output_is_named_at_once(
    habits: Sequence[str], words: str
) -> None:
    with pytest.raises(ProbeError, match=rf"board: python\S* {words}"):
        connect(stand_in_host(*habits))


def test_a_client_that_keeps_stdin_to_itself_is_told_from_one_that_finds_no_host() -> (
    None
):
    with pytest.raises(
        UnreachableError, match=r"could not connect. Try .*stdin on \(-i\)"
    ):
        connect(stand_in_host("no-input"))


def test_a_file_that_arrives_damaged_is_not_put_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with connect(stand_in_host("flips")) as connection:
        assert connection.put(b"some data", str(path)).exit_code == 0
        done = connection.put(b"a lot of data", str(path))
    assert done.exit_code == 1
    assert done.stderr.strip() == b"other bytes came"
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"some data"]


def test_a_client_that_dies_is_a_broken_link_though_it_says_0() -> None:
    with (
        connect(stand_in_host("dies")) as connection,
        pytest.raises(LinkError, match=r"python\S* session broke\. What"),
    ):
        connection.run("echo $0 >&2; echo one; echo two; echo three; sleep 60")


@pytest.mark.parametrize(
    "habits", [(), ("keeps-eof",), ("keeps-eof", "leaves"), ("leaves",)]
)
def test_nothing_is_left_of_a_command_that_is_stopped(
    tmp_path: Path, habits: Sequence[str]
) -> None:
    """Neither of the shell that waits; where end-of-file does not arrive, a line says
    it.
    """
    with connect(stand_in_host(*habits)) as connection:
        left = [int(connection.run("echo $PPID").stdout)]
        with connection.stream(
            "echo $$; cat; echo end", idle_timeout_s=60, stdin=b"in\nout\n"
        ) as stream:
            lines = iter(stream)
            left.append(int(next(lines)))
            assert [next(lines), next(lines)] == [b"in", b"out"]
            stream.stop()
            assert list(lines) == [b"end"]
            assert stream.exit_code == 0
        left.append(int(connection.run("echo $$").stdout))
    for pid in left:
        wait_for(lambda pid=pid: not is_running(pid))


@pytest.mark.slow
def test_a_controller_that_falls_silent_is_the_end_of_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """bash has `read -t`; an empty line now and then shows that the controller is
    there.
    """
    monkeypatch.setattr("fleet.remote.shell._SILENCE_S", 1)
    monkeypatch.setattr("fleet.remote.process._BEAT_S", 0.2)
    bash = board("sh", "-c", 'shift; exec bash "$@"', "-")
    with connect(bash) as connection:
        with connection.stream(
            "echo one; sleep 2; cat; echo end", idle_timeout_s=60
        ) as stream:
            lines = iter(stream)
            assert next(lines) == b"one"
            stream._session.heartbeat = b""  # type: ignore[attr-defined]
            assert list(lines) == [b"end"]
        with connection.stream(
            "sleep 2; timeout 1 cat; echo $?", idle_timeout_s=60
        ) as stream:
            assert list(stream) == [b"124"]


@pytest.mark.parametrize(("via", "pause_s"), [(Via.LOCAL, 0.1), (Via.COMMAND, 0.0)])
def test_output_of_this_machine_is_read_ten_times_a_second(
    monkeypatch: pytest.MonkeyPatch, via: Via, pause_s: float
) -> None:
    pauses: list[float] = []
    # of this module alone: subprocess sleeps too, while it waits for a client to end
    its_time = SimpleNamespace(**{**vars(time), "sleep": pauses.append})
    monkeypatch.setattr("fleet.remote.command.time", its_time)
    host = Host(name="here", address="localhost", via=via)
    if via is Via.COMMAND:
        host = board("sh", "-c", "{shell}")
    numbers = 40_000  # more than a reading
    with (
        connect(host) as connection,
        connection.stream(f"echo 0; sleep 0.5; seq {numbers}", idle_timeout_s=60) as (
            stream
        ),
    ):
        lines = list(stream)  # all that there is at first is a line
    assert lines == [b"%d" % number for number in range(numbers + 1)]
    assert set(pauses) == {pause_s}


def test_later_sessions_take_the_place_of_none_that_waits(tmp_path: Path) -> None:
    """A file takes the shell that waits for its last command, so that a run starts few
    clients.
    """
    client = program(tmp_path, "client", f'echo started >>{tmp_path}/log; exec "$@"')
    with connect(board(client)) as connection:
        connection.run("echo one")
        assert connection.put(b"data", str(tmp_path / "file")).exit_code == 0
        with connection.stream("echo two", idle_timeout_s=60) as stream:
            assert list(stream) == [b"two"]
    assert (tmp_path / "log").read_text().count("started") == 2


# The inventory


@pytest.fixture
def problem(tmp_path: Path) -> Callable[[str], str]:
    def text(entry: str) -> str:
        path = tmp_path / "inventory.yaml"
        path.write_text(f"hosts:\n  board: {{{entry}}}\n")
        with pytest.raises(FleetError) as refused:
            load(path)
        return str(refused.value).removeprefix(f"{path}:")

    return text


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (
            "via: command",
            "2: hosts.board.via: board: needs `command: [PROGRAM, WORD, ...]` as well",
        ),
        (
            "command: [env]",
            (
                "2: hosts.board.command: board: `command` is for `via: command`, and"
                " this host has"
            ),
        ),
        (
            "via: command, command: docker exec -i x",
            "no shell splits it: [docker, exec, -i, x]",
        ),
        (
            'via: command, command: [a, "{adress}"]',
            "{adress} is not a template; there are {name}, {address}",
        ),
        ('via: command, command: [a, "{"]', "{ is not a template; there are"),
        (
            'via: command, command: [a, "{user}"]',
            "board: no value for {user}; set `user`",
        ),
        (
            'via: command, command: [a, "{label:zone}"]',
            "no value for {label:zone}; set the label",
        ),
        (
            'via: command, command: [a, "{env:UNSET_X}"]',
            "no value for {env:UNSET_X}; set the variable",
        ),
        ('via: command, command: [a, "{env:API_TOKEN}"]', "must not hold a secret"),
        (
            'via: command, labels: {o: "-x"}, command: [a, "{label:o}"]',
            "an option to the program",
        ),
        ("via: srun", "no value for {env:SLURM_JOB_ID}; set the variable"),
    ],
)
def test_a_command_that_cannot_be_is_refused_at_its_line(
    problem: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    entry: str,
    text: str,
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setenv("API_TOKEN", "x")
    assert text in problem(entry)


def test_templates_are_replaced_and_words_without_a_value_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ZONE", "a b")
    host = board(
        *(
            "a",
            "{name}-{{x}}",
            "--z={env:ZONE}",
            "-n={label:n?}",
            "{label:c?}",
            "{user}",
        ),
        user="me",
        labels={"c": "bench"},
    )
    words = ("a", "board-{x}", "--z=a b", "bench", "me")
    assert client_command(host, ("/bin/sh", "-c", "it's")) == (
        *words,
        "/bin/sh",
        "-c",
        "it's",
    )
    joined = board("adb", "-s", "{address}", "shell", "--command={shell}")
    assert client_command(joined, ("sh", "-c", "a b"))[-1] == "--command=sh -c 'a b'"


def test_each_name_has_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    path = tmp_path / "inventory.yaml"
    path.write_text(
        "hosts:\n" + "".join(f"  on-{name}: {{via: {name}}}\n" for name in PRESETS)
    )
    words = {str(host.via): client_command(host, ("S",)) for host in load(path).hosts}
    assert {*words} == {*Via} - {"ssh", "openssh", "local", "command"}
    assert words["kubectl"] == (
        "kubectl",
        "exec",
        "-i",
        "--quiet",
        "on-kubectl",
        "--",
        "S",
    )
    assert words["docker"] == ("docker", "exec", "-i", "on-docker", "S")
    assert words["srun"][-3:] == ("--jobid=7", "--nodelist=on-srun", "S")


def test_the_page_shows_an_inventory_that_loads_and_the_words_of_each_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    page = (ROOT / "docs/remote.md").read_text()
    example = tmp_path / "inventory.yaml"
    example.write_text(page.split("```yaml\n")[1].split("```")[0])
    assert client_command(load(example).hosts[-1], ("S",)) == (
        "adb",
        "-s",
        "R58M12",
        "shell",
        "-T",
        "S",
    )
    for words in PRESETS.values():
        assert f"`{' '.join(words)}`" in page


# The command


def test_a_run_is_stored_whatever_the_clients_habits(tmp_path: Path) -> None:
    habits = {
        "plain": (),
        "pod": ("keeps-eof", "leaves", "banner"),
        "dying": ("dies",),
        "tty": ("terminal",),
    }
    with Fleet(tmp_path) as fleet:
        fleet.inventory(
            "defaults: {via: command}\nhosts:\n"
            + "".join(
                f"  {name}: {{command:"
                f" [{', '.join([*STAND_IN, *habits[name], '--'])}]}}\n"
                for name in habits
            )
        )
        done = fleet("run", *CLOCK)
    states = {entry["host"]: (entry["state"], entry["stage"]) for entry in done.json}
    assert states["plain"][0] == states["pod"][0] == "complete", done.stderr
    assert states["dying"][1] == "link"
    assert states["tty"][1] == "probe"
    assert "Traceback" not in done.stderr


def test_the_manifests_pods_are_measured_by_a_kubectl_with_its_habits(
    tmp_path: Path,
) -> None:
    namespace, daemons = yaml.safe_load_all((ROOT / "docs/kubernetes.yaml").read_text())
    meta = daemons["metadata"]
    pod = daemons["spec"]["template"]
    assert meta["namespace"] == namespace["metadata"]["name"]
    assert daemons["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    assert "limits" not in pod["spec"]["containers"][0]["resources"]

    def running(node: str, name: str, phase: str = "Running") -> dict[str, object]:
        spec = {**pod["spec"], "nodeName": node}
        named = {"name": name, "namespace": meta["namespace"]}
        return {"metadata": named, "spec": spec, "status": {"phase": phase}}

    pods = [
        running("n1", "fleet-a"),
        running("n2", "fleet-cut"),
        running("n3", "fleet-c", "Pending"),
    ]
    program = tmp_path / "bin/kubectl"
    program.parent.mkdir()
    (tmp_path / "pods").write_text(json.dumps({"items": pods}))
    program.write_text(f"""#!/bin/sh
echo "$*" | head -n 1 >>{tmp_path}/asked
[ "$1" = get ] && exec cat {tmp_path}/pods
case $* in *fleet-cut*) habits=dies ;; *) habits="keeps-eof leaves banner" ;; esac
while [ "$1" != -- ]; do shift; done
exec {" ".join(STAND_IN)} $habits "$@"
""")
    program.chmod(0o755)
    with Fleet(tmp_path, {"PATH": f"{program.parent}:{os.environ['PATH']}"}) as fleet:
        assert fleet("init", "--from-kubectl").exit_code == 0
        assert "fleet-c: it is Pending" in (tmp_path / "inventory.yaml").read_text()
        ended = {
            row["host"]: (row["state"], row["stage"])
            for row in fleet("run", *CLOCK).json
        }
        assert ended == {"n1": ("complete", "done"), "n2": ("failed", "link")}
    requests = (tmp_path / "asked").read_text().splitlines()
    assert requests[0] == "get pods -o json"
    assert (
        f"exec -i --quiet --namespace={meta['namespace']} fleet-a -- /bin/sh -c"
        in "\n".join(requests)
    )


@pytest.mark.slow
def test_slurms_nodes_are_measured_and_no_step_is_left(
    tmp_path: Path, slurm_job: dict[str, str]
) -> None:
    with Fleet(tmp_path, slurm_job) as fleet:
        fleet.inventory("hosts:\n  n[1-3]: {via: srun}\n  n9: {via: srun}\n")
        done = fleet("run", *CLOCK)
        states = {
            entry["host"]: (entry["state"], entry["message"]) for entry in done.json
        }
        assert [states[name][0] for name in slurm.NODES] == ["complete"] * 3, states
        assert "scontrol show hostnames" in states["n9"][1]
        for _ in range(5):
            assert fleet("check", *slurm.NODES).exit_code == 0
            assert slurm.steps(slurm_job) == []


@pytest.mark.slow
def test_slurms_limit_is_named_and_a_node_that_dies_is_resumed(tmp_path: Path) -> None:
    names = ("n4", "n5")
    with slurm.allocate_nodes(names) as job, Fleet(tmp_path, job) as fleet:
        fleet.inventory("hosts_from: slurm\n")
        process = fleet.start(
            "run",
            "-b",
            "clock",
            "--rounds",
            "200",
            "--samples",
            "9",
            "--reconnect",
            "1s",
        )
        assert process.stderr
        assert any(line.startswith("n5: measure") for line in process.stderr)
        slurm.kill(job, "n5")
        process.communicate()
        with slurm.restart_daemon(job, "n5"):
            wait_for(lambda: fleet("check", "n5", "-q").exit_code == 0)
            resumed = fleet("resume", "--json", "-q").json
        assert {row["host"]: row["state"] for row in resumed} == {"n5": "complete"}
        refused = fleet(
            "run", "n4", "-b", "chase", "--sizes", "256M", "-q", "--json"
        ).json[0]
        assert refused["stage"] == "usage"
        assert "control group /slurm_n4/uid_0/job_" in refused["message"]
        assert f"{slurm.MEMORY_MIB} MiB" in refused["message"]


AFAR = (  # what no signal to the client's group reaches
    "setsid sh -c 'echo $$; exec sleep 300' & far=$!; "
)
CLIENTS = {
    "end-of-file": AFAR + "trap '' TERM; cat >/dev/null; sleep 0.2; kill $far",
    "SIGTERM": AFAR + "trap 'kill $far; exit' TERM; while :; do sleep 0.05; done",
}


@pytest.fixture
def far() -> Iterator[list[int]]:
    left: list[int] = []
    yield left
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def start_process(script: str, far: list[int]) -> Process:
    process = Process("board", ["/bin/sh", "-c", script], {})
    far.append(int(process.stdout.readline()))
    return process


@pytest.mark.parametrize("message", CLIENTS)
def test_a_client_has_the_time_to_end_what_it_started_afar(
    message: str, far: list[int]
) -> None:
    process = start_process(CLIENTS[message], far)
    process.end()
    wait_for(lambda: not is_running(far[0]))


def test_a_client_that_heeds_no_message_is_killed(far: list[int]) -> None:
    process = start_process(
        "sleep 300 & echo $!; trap '' TERM; while :; do sleep 0.05; done", far
    )
    process.end(0.1)
    assert process.wait(0) == 128 + signal.SIGKILL
    wait_for(lambda: not is_running(far[0]))  # of its own group
