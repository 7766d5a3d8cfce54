"""`fleet run` with a whole aarch64 machine among the hosts: another kernel, compiler
and instructions.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from fleet.model import BuildPlace, Host, Via
from tests import needs
from tests.command import Done, Fleet, journal_lines, wait_for
from tests.hosts.client import know, know_behind, ssh
from tests.hosts.proxy import FaultProxy, Faults
from tests.hosts.sshd import MakeHosts
from tests.hosts.vm import Image, Vm, aarch64_image, aarch64_vm, armv7_vm, s390x_vm

__all__ = ["aarch64_image", "aarch64_vm", "armv7_vm", "s390x_vm"]  # fixtures

pytestmark = pytest.mark.vm

LOCAL = Host(name="here", address="localhost", via=Via.LOCAL)
QUICK = ("--rounds", "3", "--samples", "4", "-q", "--json")
FOR_LONG = (
    "-b",
    "clock",
    "--rounds",
    "20000",
    "--samples",
    "3",
    "--reconnect",
    "0",
    "-q",
    "--json",
)


@pytest.fixture
def vm_alone(aarch64_image: Image, tmp_path: Path) -> Vm:
    """A machine of this test's own, not started: it may be broken."""
    with Vm(aarch64_image, tmp_path) as vm:
        yield vm


def cross_built(vm: Vm, **changes: object) -> Host:
    """The machine's entry, its agent built here: its own compiler takes a while, being
    emulated.
    """
    needs.program("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu")
    return vm.entry(name="arm", build=BuildPlace.CONTROLLER, **changes)


def run_cas(
    fleet: Fleet, known_hosts: Path, vm: Vm, host: Host, benchmark: str = "cas"
) -> set[str]:
    """Measure a machine; return the variants that it used."""
    know(known_hosts, vm)
    fleet.hosts(host)
    done = fleet("run", "-b", benchmark, *QUICK)
    assert done.exit_code == 0, done.stdout + done.stderr
    return set(fleet.samples()["variant"].astype(str))


def outcomes(done: Done) -> dict[str, dict[str, object]]:
    """Return the objects of `fleet run --json` by host."""
    assert "Traceback" not in done.stderr
    assert done.stdout, done.stderr
    return {outcome["host"]: outcome for outcome in done.json}


def bursts_in_journals(fleet: Fleet) -> bool:
    """Whether a burst has come in that is not published yet."""
    files = [
        path for path in (fleet.results / ".fleet/journal").rglob("*") if path.is_file()
    ]
    return any(b'"record":"burst"' in path.read_bytes() for path in files)


def run_and_overhear(fleet: Fleet, copy: Path, *plan: str) -> list[dict[str, Any]]:
    """Every record the one host's agent sent in a good run, kept where publishing does
    not reach.
    """
    process = fleet.start("run", *plan, "-q", "--json")

    def streams() -> list[Path]:
        return list((fleet.results / ".fleet/journal").glob("*/stream.jsonl"))

    try:
        wait_for(lambda: bool(streams()))
        os.link(streams()[0], copy)
        out, err = process.communicate()
    finally:
        process.kill()
    assert process.returncode == 0, out + err
    return [json.loads(line) for line in journal_lines(copy) if line.startswith(b"{")]


def test_a_mixed_session_stores_every_host_that_lasted_with_its_own_architecture(
    fleet: Fleet, make_hosts: MakeHosts, known_hosts: Path, aarch64_vm: Vm
) -> None:
    needs.cpus(2)
    *servers, cut = make_hosts(4)
    know(known_hosts, aarch64_vm, *servers)
    with FaultProxy((cut.address, cut.port), Faults(cut_down_after=45_000)) as cutting:
        know_behind(known_hosts, cutting, cut)
        fleet.hosts(
            LOCAL,
            *(server.entry(name=f"server{i}") for i, server in enumerate(servers)),
            aarch64_vm.entry(name="arm"),
            servers[0].entry(name="dead", address="127.0.0.1", port=1),
            cut.entry(name="cut", address=cutting.address, port=cutting.port),
        )
        # an agent is there afterwards: `cut` could not send one it has built, and bursts
        built = fleet("run", "server0", "-b", "clock", "--rounds", "1", "-q")
        assert built.exit_code == 0, built.stdout + built.stderr
        plan = (
            "-b",
            "cas,readwrite,clock",
            "--rounds",
            "80",
            "--samples",
            "4",
            "--reconnect",
            "0",
        )
        done = fleet("run", *plan, "-q", "--json")
    by_host = outcomes(done)
    lasted = {"here", "server0", "server1", "server2", "arm"}
    assert done.exit_code == 1
    assert {name: by_host[name]["state"] for name in by_host} == dict.fromkeys(
        lasted, "complete"
    ) | {
        "dead": "failed",
        "cut": "failed",
    }
    assert (by_host["dead"]["stage"], by_host["cut"]["stage"]) == ("connect", "link")
    assert bursts_in_journals(fleet)
    samples = fleet.samples().astype({"host_id": str, "benchmark": str, "variant": str})
    assert set(samples["host_id"]) == lasted
    arm = samples[samples["host_id"] == "arm"]
    cpus = len(os.sched_getaffinity(0))
    assert len(arm) == 80 * (1 + 1 + 2)
    assert len(samples[samples["host_id"] == "here"]) == 80 * (
        2 * cpus * (cpus - 1) // 2 + cpus
    )
    assert set(arm[arm["benchmark"] == "cas"]["variant"]) == {"lse"}
    assert not set(samples[samples["host_id"] == "here"]["variant"]) & {"lse", "llsc"}
    assert all(
        ticks > 0
        for burst in arm[arm["benchmark"] == "cas"]["ticks"]
        for ticks in burst
    )


@pytest.mark.parametrize(
    ("cpu", "variant"), [("cortex-a72", "llsc"), ("cortex-a76", "lse")]
)
def test_the_instructions_follow_the_cpu_not_the_build(
    fleet: Fleet, known_hosts: Path, vm_alone: Vm, cpu: str, variant: str
) -> None:
    vm_alone.start(cpu=cpu)
    assert run_cas(fleet, known_hosts, vm_alone, cross_built(vm_alone)) == {variant}


def test_its_own_compiler_builds_the_agent_and_the_second_run_finds_it_there(
    fleet: Fleet, known_hosts: Path, aarch64_vm: Vm, tmp_path: Path
) -> None:
    know(known_hosts, aarch64_vm)
    fleet.hosts(aarch64_vm.entry(name="arm", build=BuildPlace.HOST))
    listings = []
    for _ in range(2):
        done = fleet("run", "-b", "clock", *QUICK)
        assert done.exit_code == 0, done.stdout + done.stderr
        listings.append(
            ssh(
                aarch64_vm, "stat -c '%n %y' ~/.cache/fleet/*", tmp_path
            ).stdout.splitlines()
        )
    assert listings[0] == listings[1]
    assert len(listings[0]) == 1


def test_a_cross_built_agent_runs_there(
    fleet: Fleet, known_hosts: Path, aarch64_vm: Vm
) -> None:
    host = cross_built(aarch64_vm, workdir="/tmp/cross")
    assert run_cas(fleet, known_hosts, aarch64_vm, host) == {"lse"}


def test_both_ways_of_swapping_run_on_one_cpu_that_has_both(
    fleet: Fleet, known_hosts: Path, aarch64_vm: Vm
) -> None:
    variants = run_cas(
        fleet, known_hosts, aarch64_vm, aarch64_vm.entry(name="arm"), "cas/all"
    )
    assert variants >= {"lse", "llsc"}


def test_a_machine_of_one_cpu_is_told_so(
    fleet: Fleet, known_hosts: Path, vm_alone: Vm
) -> None:
    vm_alone.start(smp=1)
    know(known_hosts, vm_alone)
    fleet.hosts(cross_built(vm_alone))
    outcome = outcomes(fleet("run", "-b", "cas", *QUICK))["arm"]
    assert outcome["state"] == "failed"
    assert "CPU" in str(outcome["message"])


@pytest.mark.parametrize(
    ("machine", "compiler", "arch", "variants", "clock"),
    [
        ("s390x_vm", "s390x-linux-gnu-gcc", "s390x", ("cs", "st"), "stckf"),
        ("armv7_vm", "arm-linux-gnueabihf-gcc", "armv7", ("ldrex", "ldr"), "cntvct"),
    ],
)
def test_another_word_size_and_byte_order_is_cross_built_measured_and_stored_exactly(
    request: pytest.FixtureRequest,
    fleet: Fleet,
    known_hosts: Path,
    machine: str,
    compiler: str,
    arch: str,
    variants: tuple[str, str],
    clock: str,
    tmp_path: Path,
) -> None:
    needs.program(compiler, f"gcc-{compiler.removesuffix('-gcc')}")
    vm: Vm = request.getfixturevalue(machine)
    know(known_hosts, vm)
    fleet.hosts(vm.entry(name=arch))  # it has no compiler, so the agent comes from here
    plan = ("-b", "cas,readwrite,clock", "--rounds", "60", "--samples", "4")
    hello, *sent = run_and_overhear(fleet, tmp_path / "overheard", *plan)
    bursts = [record for record in sent if record["record"] == "burst"]
    samples = fleet.samples()
    stored = {
        (burst.benchmark, burst.variant, burst.round, burst.ping_cpu): tuple(
            burst.ticks
        )
        for burst in samples.itertuples()
    }
    assert {key[:2] for key in stored} == {
        ("cas", variants[0]),
        ("readwrite", variants[1]),
        ("clock", clock),
    }
    assert hello["arch"] == arch
    assert hello["os"] == "linux"
    assert hello["clock"] == clock
    assert len(stored) == len(samples) == len(bursts) > 0
    assert stored == {
        (burst["benchmark"], burst["variant"], burst["round"], burst["ping"]): tuple(
            burst["ticks"]
        )
        for burst in bursts
    }


@pytest.mark.parametrize("fault", ["power cut", "frozen"])
def test_a_machine_that_dies_in_mid_run_keeps_what_had_arrived(
    fleet: Fleet, known_hosts: Path, vm_alone: Vm, fault: str
) -> None:
    vm_alone.start()
    know(known_hosts, vm_alone)
    fleet.hosts(cross_built(vm_alone))
    process = fleet.start("run", *FOR_LONG)
    try:
        wait_for(lambda: bursts_in_journals(fleet))
        if fault == "frozen":
            vm_alone.freeze()
        else:
            vm_alone.stop()
        out, err = process.communicate()
    finally:
        process.kill()
        vm_alone.thaw()
    assert "Traceback" not in err
    (outcome,) = json.loads(out)["rows"]
    assert outcome["state"] == "failed"
    assert outcome["stage"] == "link"
    assert process.returncode == 6
    assert bursts_in_journals(fleet)
