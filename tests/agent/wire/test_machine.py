"""What the agent tells of a machine becomes CPUs and groups; anything else is refused
in words.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.agent.wire.machine import (
    MACHINE_MARK,
    Machine,
    ask_topology,
    merge_facts,
    read_machine,
)
from fleet.agent.wire.records import WireError
from fleet.facts.gather import gather
from fleet.model import Agent, Cache, Cpu, Facts, Host, Relation, Target, Topology, Via
from tests import needs
from tests.native import qnx
from tests.native.agent import run
from tests.shared import local_connection

BOARD = Facts(
    os="qnx",
    arch="aarch64",
    cpus=(Cpu(0, model="Cortex-A76"), Cpu(1)),
    probe="as asked",
)


def records(arch: str, *cpus: dict[str, object], **first: object) -> bytes:
    head = {
        "record": "machine",
        "protocol": 1,
        "build": "b1d5",
        "os": "qnx",
        "arch": arch,
        "cpus": len(cpus),
    }
    empty = {
        "record": "cpu",
        "name": None,
        "mhz": None,
        "hardware_id": None,
        "core": None,
        "caches": [],
    }
    records = [
        {**head, **first},
        *({**empty, "cpu": number, **cpu} for number, cpu in enumerate(cpus)),
    ]
    return b"".join(
        json.dumps(record, separators=(",", ":")).encode() + b"\n" for record in records
    )


def relations(machine: Machine) -> dict[tuple[int, int], Relation]:
    topology = Topology(machine.cpus)
    numbers = [cpu.cpu for cpu in machine.cpus]
    return {(a, b): topology.relation(a, b) for a in numbers for b in numbers if a < b}


def arm(*ids: int) -> Machine:
    return read_machine(records("aarch64", *({"hardware_id": id_} for id_ in ids)))


def test_clusters_of_an_arm_are_read_from_its_affinity_fields() -> None:
    two_of_two = arm(0x80000000, 0x80000001, 0x80000100, 0x80000101)
    assert [(cpu.core, cpu.cluster) for cpu in two_of_two.cpus] == [
        (0, 0),
        (1, 0),
        (2, 2),
        (3, 2),
    ]
    assert relations(two_of_two) == {
        (0, 1): Relation.CLUSTER,
        (2, 3): Relation.CLUSTER,
        (0, 2): Relation.SYSTEM,
        (0, 3): Relation.SYSTEM,
        (1, 2): Relation.SYSTEM,
        (1, 3): Relation.SYSTEM,
    }


@pytest.mark.parametrize(
    ("ids", "cores", "clusters"),
    [
        (
            [0x81000000 | core << 8 for core in range(4)],
            [0, 1, 2, 3],
            [0] * 4,
        ),  # threads in the lowest field
        (
            [core << 8 for core in range(4)],
            [0, 1, 2, 3],
            [0] * 4,
        ),  # the same without the register's flags
        ([0x81000000, 0x81000001, 0x81000100], [0, 0, 2], [0] * 3),
        ([0x80000000, 0x180000000], [0, 1], [0, 1]),  # the highest field lies apart
        ([0, 0], [None] * 2, [None] * 2),
        ([0x80000000, 0x80000000], [None] * 2, [None] * 2),
    ],
)
def test_cores_and_clusters_of_an_arm_are_known_where_the_fields_tell_cpus_apart(
    ids: list[int], cores: list[int | None], clusters: list[int | None]
) -> None:
    cpus = arm(*ids).cpus
    assert [cpu.core for cpu in cpus] == cores
    assert [cpu.cluster for cpu in cpus] == clusters


def test_a_pc_tells_its_groups_and_who_shares_a_cache() -> None:
    def cpu(id_: int) -> dict[str, object]:
        caches = [
            {
                "level": 1,
                "kind": "Data",
                "bytes": 32768,
                "line_bytes": 64,
                "group": id_ >> 1,
            },
            {
                "level": 3,
                "kind": "Unified",
                "bytes": 1 << 24,
                "line_bytes": 64,
                "group": id_ >> 2,
            },
        ]
        return {
            "hardware_id": id_,
            "core": id_ >> 1,
            "package": id_ >> 3,
            "mhz": 2500,
            "caches": caches,
        }

    machine = read_machine(records("x86_64", *(cpu(id_) for id_ in range(16))))
    assert [c.core for c in machine.cpus[:4]] == [0, 0, 2, 2]
    assert [c.llc for c in machine.cpus[:8]] == [0] * 4 + [4] * 4
    assert {c.package for c in machine.cpus} == {0, 8}
    assert machine.cpus[5].caches[1] == Cache(3, "Unified", 1 << 24, 64, (4, 5, 6, 7))
    assert machine.cpus[0].max_khz == 2_500_000
    pairs = relations(machine)
    assert [pairs[0, other] for other in (1, 2, 4, 8)] == [
        Relation.SMT,
        Relation.LLC,
        Relation.PACKAGE,
        Relation.SYSTEM,
    ]


def test_what_the_probe_found_stays_and_a_cpu_we_may_not_use_is_known_as_such() -> None:
    machine = read_machine(
        records("aarch64", {"hardware_id": 0x80000000, "name": "core 0", "mhz": 2400})
    )
    facts = merge_facts(BOARD, machine)
    assert [(cpu.cpu, cpu.allowed, cpu.model) for cpu in facts.cpus] == [
        (0, True, "Cortex-A76"),
        (1, False, None),
    ]
    assert facts.cpus[0].max_khz == 2_400_000
    assert facts.probe == f"as asked\n{MACHINE_MARK}\n{machine.text}"
    assert facts.os == "qnx"


def test_an_imitation_says_that_it_is_one_and_so_do_the_facts() -> None:
    facts = merge_facts(BOARD, read_machine(records("aarch64", {}, os="qnx-standin")))
    assert facts.os == "qnx-standin"
    assert facts.target == Target("qnx", "aarch64")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            records("aarch64", {}, {"cpu": 4095}),
            "it has CPU 4095, but the probe found CPUs 0-1",
        ),
        (
            records("x86_64", {}),
            "it is an agent for 'qnx-x86_64', but the host is qnx-aarch64",
        ),
        (records("aarch64", {}, os="linux"), "it is an agent for 'linux-aarch64', but"),
    ],
)
def test_a_machine_that_the_probe_did_not_find_is_refused(
    answer: bytes, words: str
) -> None:
    with pytest.raises(WireError, match=words):
        merge_facts(BOARD, read_machine(answer))


def test_where_the_probe_finds_no_cpu_the_agent_does() -> None:
    machine = read_machine(
        records("aarch64", {"name": "Cortex-A72"}, {"name": "Cortex-A72"})
    )
    facts = merge_facts(replace(BOARD, cpus=()), machine)
    assert [cpu.cpu for cpu in facts.cpus] == [0, 1]
    assert facts.cpu_model == "Cortex-A72"


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (b"", "a record `machine` of protocol 1 expected"),
        (b"sh: no such file\n", "expected, got 'sh: no such file"),
        (records("x86_64", {}, protocol=2), "of protocol 1 expected"),
        (records("x86_64", {}, cpus=2), "1 CPUs arrived, 2 were announced"),
        (records("x86_64", {}, {"cpu": 0}), "a CPU was named twice"),
        (records("x86_64", {"cpu": -1}), "cpu: expected int >= 0"),
        (records("x86_64", {"core": 2**63}), "core: expected int <= 2147483647"),
        (records("x86_64", {"name": "a\x1b[2J"}), "printable text expected, got 'a"),
        (
            records("x86_64", {"caches": [{"level": 1, "kind": "Data"}] * 9}),
            "caches: expected array of length <= 8",
        ),
        (
            records("x86_64", {"caches": [{"level": 1, "kind": None}]}),
            "kind: expected str, got null",
        ),
    ],
)
def test_what_the_wire_does_not_allow_is_refused_in_words(
    output: bytes, words: str
) -> None:
    with pytest.raises(WireError, match=words):
        read_machine(output)


@given(st.binary(max_size=200))
def test_whatever_a_host_prints_is_a_machine_or_an_error_in_words(noise: bytes) -> None:
    for output in (
        noise,
        b'{"record":' + noise,
        records("x86_64", {}).replace(b"null", noise, 1),
    ):
        try:
            read_machine(output)
        except WireError as err:
            assert str(err).isprintable()


def agent_at(path: str) -> Agent:
    return Agent(path, "b1d5", Target("qnx", "x86_64"), "here")


def test_an_agent_that_cannot_tell_costs_only_a_note(tmp_path: Path) -> None:
    silent = tmp_path / "it's silent"
    silent.write_text("#!/bin/sh\necho 'fleet-agent: cannot' >&2; exit 1\n")
    silent.chmod(0o755)
    with local_connection(Host("here", "localhost", via=Via.LOCAL)) as connection:
        facts = ask_topology(connection, agent_at(str(silent)), BOARD)
        (note,) = facts.notes
        assert note.endswith("relations are unknown: fleet-agent: cannot")
        assert replace(facts, notes=()) == BOARD
        linux = replace(BOARD, os="linux")
        assert ask_topology(connection, agent_at("/no/such"), linux) is linux


@pytest.mark.slow
def test_the_stand_ins_agent_groups_this_machine_as_linux_does() -> None:
    needs.cpus(2)
    done = run("--machine", prefix=qnx.loader("x86_64"), binary=qnx.agent("x86_64"))
    machine = read_machine(done.stdout.encode())
    host = Host("here", "localhost", via=Via.LOCAL)
    with local_connection(host) as connection:
        by_number = {cpu.cpu: cpu for cpu in gather(connection, host).cpus}
    for cpu in machine.cpus:  # None: the CPU itself does not report it
        linux = by_number[cpu.cpu]
        assert cpu.core in (None, linux.core)
        assert cpu.package in (None, linux.package)
        assert cpu.llc in (None, linux.llc)
        shared = {
            (cache.level, cache.kind, cache.shared_cpus)
            for cache in cpu.caches
            if cache.shared_cpus
        }
        assert shared <= {
            (cache.level, cache.kind, cache.shared_cpus) for cache in linux.caches
        }
    assert any(cpu.llc is not None for cpu in machine.cpus)
