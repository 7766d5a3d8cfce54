"""`fleet check` as a person types it: real hosts, dead ones among them, and nothing
changed on any.
"""

import json
import os
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from fleet.agent.forecast import Forecast
from fleet.analysis.views import show_run
from fleet.console.check import (
    render_checks,
    render_checks_json,
    render_without_information,
)
from fleet.errors import AgentError, BuildError, DeployError
from fleet.facts import probe
from fleet.model import Facts, Finding, Host, Plan, Severity
from fleet.remote.cancellation import Cancellation, Cancelled
from fleet.session.check import CheckedHost, RunPreview
from fleet.session.events import Outcome, State
from fleet.store import Store
from tests import needs
from tests.command import Fleet, interrupt
from tests.hosts.client import know
from tests.hosts.sshd import SshHost

LOCAL = "hosts:\n  here: {via: local, address: localhost, workdir: %s}\n"
BUSY = "The host is busy: 99 runnable threads"
CHECK = {
    "target",
    "cpu_model",
    "kernel",
    "cpus",
    "workdir",
    "workdir_made",
    "run",
    "findings",
}
RUN = {
    "agent",
    "plan",
    "cpus",
    "pairs",
    "bursts",
    "points",
    "memory_bytes",
    "seconds",
    "no_forecast",
}
UNMEASURABLE = {  # of a host: its inventory entry, how a run on it would end, and why
    "file": ("workdir: /dev/null", DeployError, "is not a directory"),
    "uncompiled": (
        "build: controller, toolchain: {cc: no-such-cc}",
        BuildError,
        "not installed",
    ),
    "unsent": (
        "build: prebuilt, toolchain: {binary: /no/agent}",
        BuildError,
        "/no/agent",
    ),
    "small": ("cpus: 0-70", AgentError, "cannot be used: this process may use 0"),
    "apart": ("plan: {pairs: 0-71}", AgentError, "CPU 71 cannot be used"),
}


@dataclass(frozen=True)
class Asked:
    """One inventory checked as JSON and text on a busy machine, and with `-b clock`."""

    folder: Path
    exit_codes: tuple[int, int]
    hosts: dict[str, Any]
    text: str
    clock: str
    before: list[tuple[str, int, int]]
    after: list[tuple[str, int, int]]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """Hosts that can be measured, hosts that cannot, and a dead one."""
    needs.program("gcc", "gcc")
    needs.cpus(2)
    folder = tmp_path_factory.mktemp("asked")
    first, other, *_ = sorted(os.sched_getaffinity(0))
    entries = {
        "new": f"workdir: {folder / 'not' / 'there'}",
        "sent": "build: controller, toolchain: {cc: gcc}",
        "paired": (
            f"cpus: [{first}, {other}], plan: {{benchmarks: [cas], pairs: ordered}}"
        ),
        **{name: entry for name, (entry, _, _) in UNMEASURABLE.items()},
    }
    lines = [
        f"  {name}: {{via: local, address: localhost, {entry}}}\n"
        for name, entry in entries.items()
    ]
    (folder / "home").mkdir()
    with Fleet(folder) as fleet:
        plant_load(fleet)
        fleet.inventory(
            "hosts:\n  dead: {address: 127.0.0.1, port: 1}\n" + "".join(lines)
        )
        before = listing(folder)
        extras = ((), ("--json",), ("new", "--cpus", str(other), "-b", "clock"))
        text, printed, clock = (fleet("check", "-q", *extra) for extra in extras)
    hosts = {host["host"]: host for host in printed.json}
    codes = (text.exit_code, printed.exit_code)
    return Asked(
        folder, codes, hosts, text.stdout, clock.stdout, before, listing(folder)
    )


@pytest.fixture
def fleet(fleet: Fleet, tmp_path: Path) -> Fleet:
    """One host, this machine."""
    fleet.inventory(LOCAL % (tmp_path / "work"))
    return fleet


def listing(*folders: Path) -> list[tuple[str, int, int]]:
    """Everything below, by name, size and time of change."""
    paths = [path for folder in folders for path in [folder, *folder.rglob("*")]]
    return sorted(
        (str(path), path.lstat().st_size, path.lstat().st_mtime_ns) for path in paths
    )


def plant_load(fleet: Fleet) -> None:
    """Have this machine say that it is busy: the probe's grep is one that tells of
    another load before.
    """
    real = needs.program("grep", "grep")
    planted = fleet.folder / "planted"
    planted.mkdir()
    (planted / "grep").write_text(
        '#!/bin/sh\ncase "$*" in *proc/uptime*)'
        f" echo '{probe.MARK} load'; echo 'proc/loadavg:99 99 99 1/1 1'; echo"
        f" '{probe.MARK} files' ;;\n"
        f'esac\nexec {real} "$@"\n'
    )
    (planted / "grep").chmod(0o700)
    fleet.environment["PATH"] = f"{planted}:{os.environ['PATH']}"


def test_a_check_changes_nothing_on_a_host(answers: Asked) -> None:
    assert answers.after == answers.before


def test_a_check_says_what_a_run_would_do(answers: Asked) -> None:
    new = answers.hosts["new"]
    assert new["state"] == "complete"
    assert new["exit_code"] == 0
    assert set(new) == {
        "host",
        "state",
        "stage",
        "exit_code",
        "message",
        "notes",
        "check",
        "reported",
    }
    assert set(new["check"]) == CHECK
    assert set(new["check"]["run"]) == RUN
    assert new["check"]["run"]["agent"].startswith("would be sent, built with ")
    assert new["check"]["workdir"] == f"{answers.folder}/not/there"
    assert new["check"]["workdir_made"] is False
    assert f"would create {answers.folder}/not/there." in answers.text
    for finding in new["check"]["findings"]:
        assert set(finding) == {
            "kind",
            "severity",
            "found",
            "remedy",
            "evidence",
            "condition",
        }


def test_an_agent_to_be_built_here_is_previewed_with_its_compiler(
    answers: Asked,
) -> None:
    assert answers.hosts["sent"]["exit_code"] == 0
    assert (
        "The agent would be built with gcc on the controller and sent; " in answers.text
    )


def test_only_the_cpus_and_pairs_of_the_plan_are_counted(answers: Asked) -> None:
    run = answers.hosts["paired"]["check"]["run"]
    assert run["cpus"] == 2
    assert run["pairs"] == 2
    assert run["bursts"] == 20
    assert (
        "fleet run would measure cas on 2 CPUs: 2 pairs, 20 bursts or more, about"
        in answers.text
    )


@pytest.mark.parametrize("name", UNMEASURABLE)
def test_a_host_that_cannot_be_measured_keeps_its_findings_and_ends_as_a_run_would(
    answers: Asked, name: str
) -> None:
    host, (_, error, words) = answers.hosts[name], UNMEASURABLE[name]
    assert host["state"] == "failed"
    assert host["stage"] == error.stage
    assert host["exit_code"] == error.exit_code
    assert words in host["message"]
    assert host["message"] in answers.text
    assert host["check"]["run"] is None
    assert BUSY in host["check"]["findings"][0]["found"]


def test_a_dead_host_costs_the_others_nothing(answers: Asked) -> None:
    assert answers.exit_codes == (1, 1)
    assert answers.hosts["dead"]["check"] is None
    assert "dead: failed in stage connect" in answers.text


def test_many_hosts_share_a_finding_printed_once(answers: Asked) -> None:
    names = ["new", "sent", "paired", *UNMEASURABLE]
    assert answers.text.count(BUSY) == 1
    _, heading, findings = answers.text.partition("\n\nFindings\n")
    assert heading
    assert findings.startswith(f"  serious: {BUSY}")
    assert f"\n      {len(names)} hosts: {', '.join(names)}\n" in findings


def test_what_a_run_is_asked_can_be_asked_of_a_check(answers: Asked) -> None:
    assert (
        "fleet run would measure clock on 1 CPU: 10 bursts or more, about"
        in answers.clock
    )


def test_a_host_that_allows_one_cpu_is_no_host_for_pairs(fleet: Fleet) -> None:
    cpu = str(min(os.sched_getaffinity(0)))
    process = fleet.start(
        "check", "-q", prefix=(needs.program("taskset", "util-linux"), "-c", cpu)
    )
    text = process.communicate()[0]
    assert process.returncode == AgentError.exit_code
    assert f"need two CPUs, and the affinity mask or --cpus has only CPU {cpu}" in text


@pytest.mark.long
def test_a_serious_finding_is_kept_with_the_run_and_shown_with_its_numbers(
    fleet: Fleet,
) -> None:
    needs.cpus(2)
    plant_load(fleet)
    fleet.inventory(
        (LOCAL % (fleet.folder / "work")).replace("}", ", build: controller}")
    )
    ran = fleet("run", "-q", "-b", "cas", "--rounds", "1", "--pairs", "per-relation:1")
    assert ran.exit_code == 0, ran.stderr
    (run,) = Store(fleet.results).list_runs()
    page = show_run(fleet.results, run.run_id)
    _, heading, warnings = page.partition("\nWarnings\n")
    assert heading
    assert BUSY in warnings


def test_a_host_over_ssh_is_checked_and_nothing_in_its_home_changes(
    tmp_path: Path, fleet: Fleet, known_hosts: Path, ssh_host: SshHost
) -> None:
    know(known_hosts, ssh_host)
    workdir = tmp_path / "work"
    workdir.mkdir(mode=0o700)
    (workdir / "kept").write_text("as it was")
    (ssh_host.home / ".profile").touch()
    before = listing(ssh_host.home, workdir)
    fleet.hosts(
        ssh_host.entry(name="home"), ssh_host.entry(name="named", workdir=str(workdir))
    )
    done = fleet("check", "-q", "--json")
    assert done.exit_code == 0, done.stderr
    home, named = (host["check"] for host in done.json)
    assert home["workdir"] == str(ssh_host.home / ".cache" / "fleet")
    assert named["workdir"] == str(workdir)
    assert named["workdir_made"] is True
    assert listing(ssh_host.home, workdir) == before


def a_check(number: int) -> CheckedHost:
    """One of many boards: some dead, all busy to a different degree, the even ones with
    a governor.
    """
    board = Host(f"b{number:03}", "192.0.2.1")
    if number % 40 == 7:
        message = f"{board.name}: no route to host."
        return CheckedHost(
            Outcome(board, State.FAILED, stage="connect", message=message, exit_code=3)
        )
    governor = Finding(
        "governor", Severity.WARNING, "Governor powersave.", "set it", "governor"
    )
    load = Finding("load", Severity.SERIOUS, f"The load is {number}.", "end it", "load")
    facts = Facts(
        "linux", "aarch64", cpu_model="Cortex-A76", kernel="6.12", workdir="/w"
    )
    forecast = Forecast(4, 6, 0, 12, 10, 120, 0, 5000, 5000, 0, 625, None, 1)
    intended = RunPreview("is already on the host", Plan(), forecast)
    findings = (governor, load) if number % 2 == 0 else (load,)
    return CheckedHost(Outcome(board, State.COMPLETE), facts, findings, intended)


def test_two_hundred_hosts_are_checked_on_a_page_the_worst_first() -> None:
    checked = [a_check(number) for number in range(200)]
    text = render_checks(checked)
    assert len(text.splitlines()) < 25
    assert text.startswith("195 hosts: b[000-006,008-046,")
    assert (
        "5 hosts, connect: b[007,047,087,127,167]\n  the first: b007: no route to host."
        in text
    )
    serious = text.index("  serious: The load is 0. (on b000; similar on the others)")
    warning = text.index("  warn")
    assert serious < warning
    assert "\n      100 hosts: b[000,002," in text
    assert text.endswith("195 of 200 hosts can be measured.")
    entries = json.loads(render_checks_json(checked))["rows"]
    assert [len(host["check"]["findings"]) for host in entries if host["check"]].count(
        2
    ) == 100


def test_findings_that_only_inform_are_counted_unless_asked_for() -> None:
    check = a_check(0)
    boost = Finding("boost", Severity.INFO, "Boost is unknown.", "", "boost")
    informed = replace(check, findings=(*check.findings, boost))
    assert "Boost is unknown." in render_checks([informed])
    text = render_without_information([informed])
    assert "Boost" not in text
    assert "Governor powersave." in text
    assert text.endswith("\n\n1 more finding for information: fleet check -v")
    assert render_without_information([check]) == render_checks([check])


def test_ctrl_c_ends_a_check_in_its_pause(fleet: Fleet) -> None:
    process = fleet.start("check")
    assert process.stderr is not None
    while "noise" not in (line := process.stderr.readline()):
        assert line, "it ended before its pause"
    interrupt(process)
    out, _ = process.communicate()
    assert process.returncode == 130
    assert "here: interrupted in stage noise" in out


def test_a_pause_ends_when_the_person_asks_to_stop() -> None:
    cancellation = Cancellation()
    threading.Timer(0.05, cancellation.request_and_stop_streams).start()
    with pytest.raises(Cancelled):
        cancellation.pause(3600)
