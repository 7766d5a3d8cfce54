"""`fleet run` on hosts with something wrong: each either works or says in words what is
wrong.
"""

import os
from pathlib import Path

import pytest

from fleet.model import BuildPlace, RequestedToolchain
from tests import needs
from tests.command import UNOPTIMIZED, Fleet
from tests.hosts import odd
from tests.hosts.sshd import MakeKnown, SshHost
from tests.session.test_run_ssh import CLOCK, know, only


def require_measured(fleet: Fleet) -> None:
    """Measure the clock of the only host."""
    done = fleet("run", *CLOCK)
    code, _, _ = only(done)
    assert code == 0, done.stdout


def without_compilers(make_known: MakeKnown, tmp_path: Path) -> SshHost:
    programs = odd.all_but_compilers(tmp_path / "bin")
    return make_known(*odd.restrict_programs(programs))


def test_a_host_without_a_compiler_gets_its_agent_from_here(
    fleet: Fleet, make_known: MakeKnown, tmp_path: Path
) -> None:
    host = without_compilers(make_known, tmp_path)
    fleet.hosts(host.entry(name="bare"))
    require_measured(fleet)


def test_a_busybox_host_gets_its_agent_from_here(
    fleet: Fleet, make_known: MakeKnown, tmp_path: Path
) -> None:
    programs = odd.busybox_only(tmp_path / "bin")
    host = make_known(*odd.restrict_programs(programs))
    fleet.hosts(host.entry(name="busybox"))
    require_measured(fleet)


def test_build_host_without_a_compiler_is_an_error(
    fleet: Fleet, make_known: MakeKnown, tmp_path: Path
) -> None:
    host = without_compilers(make_known, tmp_path)
    fleet.hosts(host.entry(name="bare", build=BuildPlace.HOST))
    code, stage, message = only(fleet("run", *CLOCK))
    assert code == 8
    assert stage == "build"
    assert "build: controller" in message


@pytest.mark.long
@pytest.mark.parametrize(
    ("compiler", "words"),
    [
        pytest.param(odd.FAILING_COMPILER, "cannot execute cc1", id="fails"),
        pytest.param(odd.LYING_COMPILER, "", id="lies"),
        pytest.param(odd.TCC, "needs GCC or clang", id="tcc"),
    ],
)
def test_a_bad_compiler_is_quoted(
    fleet: Fleet, make_known: MakeKnown, tmp_path: Path, compiler: str, words: str
) -> None:
    if compiler == odd.TCC:
        needs.program("tcc", "tcc")
    programs = odd.add_compiler(odd.all_but_compilers(tmp_path / "bin"), compiler)
    host = make_known(*odd.restrict_programs(programs))
    fleet.hosts(host.entry(name="board", build=BuildPlace.HOST))
    code, stage, message = only(fleet("run", *CLOCK))
    assert code == 8
    assert stage == "build"
    assert "could not build the agent" in message
    assert words in message

    fleet.hosts(host.entry(name="board"))
    require_measured(fleet)


def test_a_wished_compiler_that_is_not_there_is_an_error(
    fleet: Fleet, ssh_host: SshHost, known_hosts: Path
) -> None:
    know(known_hosts, ssh_host)
    toolchain = RequestedToolchain(cc="gcc-1.27")
    fleet.hosts(ssh_host.entry(name="board", toolchain=toolchain))
    code, stage, message = only(fleet("run", *CLOCK))
    assert code == 8
    assert stage == "build"
    assert "gcc-1.27" in message


@pytest.mark.parametrize(
    ("disk", "words"),
    [
        pytest.param(odd.read_only_disk, "read-only", id="read-only"),
        pytest.param(odd.noexec_disk, "noexec", id="noexec"),
        pytest.param(odd.small_disk, "space", id="full"),
    ],
)
def test_a_workdir_that_cannot_be_used_is_named_with_the_remedy(
    fleet: Fleet, ssh_host: SshHost, known_hosts: Path, tmp_path: Path, disk, words: str
) -> None:
    know(known_hosts, ssh_host)
    with disk(tmp_path / "disk") as folder:
        if disk is odd.small_disk:
            (folder / "ballast").write_bytes(bytes(60_000))
        fleet.hosts(ssh_host.entry(name="board", workdir=str(folder / "fleet")))
        code, stage, message = only(fleet("run", *CLOCK))
    assert code == 9, message
    assert stage == "deploy", message
    assert words in message.lower()
    assert str(folder) in message


def test_a_noisy_slow_login_shell_changes_nothing(fleet: Fleet, make_known) -> None:
    host = make_known(*odd.noisy_login(delay_s=0.3))
    fleet.hosts(host.entry(name="chatty", build=BuildPlace.CONTROLLER))
    require_measured(fleet)
    cpus = len(os.sched_getaffinity(0))
    assert len(fleet.samples()) == 2 * cpus


def test_a_noisy_login_shell_does_not_accuse_a_prebuilt_agent(
    fleet: Fleet, make_known: MakeKnown, tmp_path: Path
) -> None:
    host = make_known(*odd.noisy_login())
    fleet.hosts(host.entry(name="chatty", build=BuildPlace.CONTROLLER))
    require_measured(fleet)
    (agent,) = host.home.rglob("fleet-agent-*")
    prebuilt = agent.rename(tmp_path / "agent")
    toolchain = RequestedToolchain(binary=str(prebuilt))
    fleet.hosts(
        host.entry(name="chatty", build=BuildPlace.PREBUILT, toolchain=toolchain)
    )
    require_measured(fleet)


@pytest.mark.parametrize(
    ("shell", "package"),
    [
        ("mksh", "mksh"),
        ("dash", "dash"),
        ("csh", "csh"),
        ("fish", "fish"),
        ("tcsh", "tcsh"),
    ],
)
def test_any_login_shell_will_do(
    fleet: Fleet, make_known: MakeKnown, shell: str, package: str
) -> None:
    program = needs.program(shell, package)
    host = make_known(*odd.login_shell(program, package))
    fleet.hosts(host.entry(name="board", build=BuildPlace.CONTROLLER))
    require_measured(fleet)


@pytest.mark.parametrize(
    "shell",
    [
        "posh",
        *(
            pytest.param(shell, marks=pytest.mark.slow)
            for shell in ("yash", "mksh", "ksh93")
        ),
    ],
)
@pytest.mark.slow
def test_any_posix_shell_will_do_as_bin_sh(
    fleet: Fleet, make_known: MakeKnown, shell: str
) -> None:
    """It answers the probe and builds the agent from sources it unpacks itself."""
    package = "ksh93u+m" if shell == "ksh93" else shell
    host = make_known(*odd.bin_sh(shell, package))
    fleet.hosts(host.entry(name="board", build=BuildPlace.HOST, toolchain=UNOPTIMIZED))
    require_measured(fleet)
    cleaned = fleet("clean", "--json").json[0]
    assert cleaned["removed"], "the agent lies in a directory of ours"


@pytest.mark.slow
def test_a_login_script_that_leaves_a_process_behind_costs_no_run(
    fleet: Fleet, make_known: MakeKnown, tmp_path: Path
) -> None:
    host = make_known(*odd.lingering_login(tmp_path, 1.0, 300))
    fleet.hosts(host.entry(name="board", build=BuildPlace.HOST))
    done = fleet(
        "run", "-b", "clock", "--rounds", "400", "--samples", "50", "-q", "--json"
    )
    assert only(done)[0] == 0, done.stdout
    assert done.json[0]["seconds"] < 100


def test_a_host_restricted_to_one_cpu_says_so_and_still_times_its_clock(
    fleet: Fleet, make_known
) -> None:
    first = min(os.sched_getaffinity(0))
    host = make_known(*odd.only_cpus(str(first)))
    fleet.hosts(host.entry(name="small", build=BuildPlace.CONTROLLER))
    code, stage, message = only(fleet("run", "-b", "cas", "-q", "--json"))
    assert code == 10
    assert stage == "measure"
    assert "two" in message
    require_measured(fleet)
    assert set(fleet.samples()["ping_cpu"]) == {first}


@pytest.mark.parametrize("option", ["--cpus={},{}", "--pairs={}-{}"])
def test_cpus_outside_the_affinity_of_a_login_are_measured_if_they_are_named(
    fleet: Fleet, make_known: MakeKnown, option: str
) -> None:
    needs.cpus(2)
    first, second = sorted(os.sched_getaffinity(0))[:2]
    host = make_known(*odd.only_cpus(str(first)))
    fleet.hosts(host.entry(name="small", build=BuildPlace.CONTROLLER))
    named = option.format(first, second)
    done = fleet("run", "-b", "cas", named, "--rounds", "1", "--samples", "9")
    assert done.exit_code == 0, done.stderr
    samples = fleet.samples()
    measured = set(samples["ping_cpu"]) | set(samples["pong_cpu"])
    assert measured == {first, second}


def test_a_full_disk_on_the_controller_is_named_and_the_others_are_not_harmed(
    fleet: Fleet, ssh_host: SshHost, known_hosts: Path, tmp_path: Path
) -> None:
    know(known_hosts, ssh_host)
    fleet.hosts(ssh_host.entry(name="board", build=BuildPlace.CONTROLLER))
    with odd.mount_disk(tmp_path / "results", "size=256k") as results:
        done = fleet(
            "run", "-b", "clock", "--rounds", "2000", "-q", "--json", "-r", str(results)
        )
        code, stage, message = only(done)
        assert code == 11, message
        assert stage == "store", message
        assert "No space left" in message
        assert list((results / ".fleet/journal").glob("*/stream.jsonl")), (
            "what had arrived must be kept"
        )


@pytest.mark.parametrize(("files", "exit_code"), [(5, 7), (12, 9)])
def test_a_host_that_may_open_too_few_files_is_told_of_its_limit(
    fleet: Fleet, make_known: MakeKnown, tmp_path: Path, files: int, exit_code: int
) -> None:
    login = tmp_path / "login"
    login.write_text(
        f'#!/bin/dash\nulimit -n {files}\nexec /bin/dash -c "$SSH_ORIGINAL_COMMAND"\n'
    )
    login.chmod(0o755)
    fleet.hosts(make_known(f"ForceCommand {login}").entry(name="few"))
    code, _, message = only(fleet("run", *CLOCK))
    assert code == exit_code, message
    assert "allow 64 or more" in message, message


def test_a_pod_is_measured_where_it_has_room_and_named_where_it_has_none(
    fleet: Fleet, tmp_path: Path
) -> None:
    words = 'command: [nsenter, -t, "{label:pid}", -a, --preserve-credentials]'
    with odd.pod(tmp_path / "root") as pid:
        defaults = f'{{via: command, labels: {{pid: "{pid}"}}, {words}}}'
        hosts = "{roomy: {workdir: /tmp/fleet}, narrow: {workdir: /root/fleet}}"
        fleet.inventory(f"defaults: {defaults}\nhosts: {hosts}\n")
        outcomes = fleet("run", *CLOCK, "--json").json
    done = {outcome["host"]: outcome for outcome in outcomes}
    roomy = done["roomy"]
    narrow = done["narrow"]
    assert roomy["state"] == "complete", roomy["message"]
    assert narrow["stage"] == "deploy"
    assert "No space left" in narrow["message"]
