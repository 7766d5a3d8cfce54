"""Reads the agent's `--machine` (docs/wire.md), for hosts such as QNX where no tool
shows the topology.
"""

import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta, Struct

from fleet.agent.build.systems import SYSTEMS
from fleet.agent.wire.asked import check_machine
from fleet.agent.wire.records import (
    CPU_LIMIT,
    PROTOCOL,
    CpuNumber,
    Int64,
    WireError,
    decode_line,
    int_range,
    quote_start,
)
from fleet.model import Agent, Cache, Cpu, Facts, Target, lowest_llc_cpu
from fleet.remote.connection import Connection
from fleet.text import last_lines

TIMEOUT_S = 60.0
MACHINE_MARK = "@fleet-agent-machine@"
"""The line behind which the records are kept with the probe's answer, for later
readers.
"""

_Text = Annotated[str, Meta(max_length=200)]


@dataclass(frozen=True, slots=True)
class Machine:
    """The answer to `--machine`."""

    os: str  # the agent's, or "qnx-standin" if a test imitates QNX
    arch: str
    cpus: tuple[Cpu, ...]
    text: str  # the answer's lines


class _Machine(Struct, tag_field="record", tag="machine"):
    protocol: Int64
    build: _Text
    os: _Text
    arch: _Text
    cpus: Int64


class _Cache(Struct):
    level: Annotated[int, Meta(ge=0, le=9)]
    kind: _Text
    bytes: Int64 | None = None
    line_bytes: Int64 | None = None
    group: Int64 | None = None


class _Cpu(Struct, tag_field="record", tag="cpu"):
    cpu: CpuNumber
    caches: Annotated[list[_Cache], Meta(max_length=8)]
    name: _Text | None = None
    mhz: Annotated[int, Meta(ge=0, le=10**9)] | None = None
    hardware_id: Int64 | None = None
    core: Annotated[int, int_range("core", "cpus")] | None = None
    cluster: Annotated[int, int_range("cluster", "cpus")] | None = None
    die: Annotated[int, int_range("die", "cpus")] | None = None
    package: Annotated[int, int_range("package", "cpus")] | None = None


_MACHINE_RECORD = msgspec.json.Decoder(_Machine)
_CPU_RECORD = msgspec.json.Decoder(_Cpu)


def ask_topology(connection: Connection, agent: Agent, facts: Facts) -> Facts:
    """Return the facts with the CPUs that the agent reports, if no other tool of the OS
    shows the topology; else the facts as they are. On failure add a note instead.
    """
    if not SYSTEMS[facts.target.os].agent_topology:
        return facts
    done = connection.run(
        f"{shlex.quote(agent.path)} --machine </dev/null", timeout_s=TIMEOUT_S
    )
    try:
        if done.exit_code != 0:
            why = f"exit code {done.exit_code}"
            if done.stderr.strip():
                why = last_lines(done.stderr)
            raise WireError(why)
        return merge_facts(facts, read_machine(done.stdout))
    except WireError as err:
        note = f"the agent could not read the topology, so relations are unknown: {err}"
        return replace(facts, notes=(*facts.notes, note))


def read_machine(output: bytes) -> Machine:
    """Read the records of `--machine`, skipping lines before them. Raises WireError."""
    lines = [line for line in output.splitlines() if line.startswith(b'{"record":')]
    if not lines:
        raise _make_no_machine_error(output)
    machine_line, *cpu_lines = lines
    machine = decode_line(_MACHINE_RECORD, machine_line)
    if machine.protocol != PROTOCOL:
        raise _make_no_machine_error(machine_line)
    # one more than are allowed, to see if there are too many
    cpus = [decode_line(_CPU_RECORD, line) for line in cpu_lines[: CPU_LIMIT + 1]]
    if len(cpus) != machine.cpus or len(cpus) > CPU_LIMIT:
        raise WireError(
            f"machine: {len(cpus)} CPUs arrived, {machine.cpus} were announced"
        )
    numbers = {cpu.cpu for cpu in cpus}
    if len(numbers) < len(cpus):
        raise WireError("machine: a CPU was named twice")
    _require_printable(machine, cpus)
    return Machine(
        os=machine.os,
        arch=machine.arch,
        cpus=_make_cpus(cpus, machine.arch),
        text=b"\n".join(lines).decode("utf-8", "replace"),
    )


def _make_no_machine_error(output: bytes) -> WireError:
    return WireError(
        f"a record `machine` of protocol {PROTOCOL} expected, got {quote_start(output)}"
    )


def _require_printable(machine: _Machine, cpus: Sequence[_Cpu]) -> None:
    """Raise WireError if a text of the records cannot be printed safely."""
    texts = [machine.build, machine.os, machine.arch]
    for cpu in cpus:
        texts.append(cpu.name or "")
        texts += [cache.kind for cache in cpu.caches]
    for text in texts:
        if not text.isprintable():
            raise WireError(
                f"machine: printable text expected, got {quote_start(text)}"
            )


def merge_facts(facts: Facts, machine: Machine) -> Facts:
    """Return the probe's facts, completed by what the agent reported of each CPU. A CPU
    that only the probe found is not allowed, since the agent cannot use it. Raises
    WireError if the agent's CPUs are those of another machine.

    The agent's answer is kept in `probe`, behind the probe's answer.
    """
    reported = {cpu.cpu: cpu for cpu in machine.cpus}
    probed = {cpu.cpu: cpu for cpu in facts.cpus}
    check_machine(facts, Target(machine.os, machine.arch), reported)
    cpus = []
    for number in sorted({*probed, *reported}):
        probed_cpu = probed.get(number, Cpu(number))
        cpus.append(_merge_cpu(probed_cpu, reported.get(number)))
    models = dict.fromkeys(cpu.model for cpu in cpus if cpu.model)
    return replace(
        facts,
        os=machine.os,
        cpus=tuple(cpus),
        cpu_model=facts.cpu_model or " + ".join(models) or None,
        probe=f"{facts.probe}\n{MACHINE_MARK}\n{machine.text}",
    )


def _merge_cpu(probed: Cpu, reported: Cpu | None) -> Cpu:
    """Return the CPU that the agent reported, completed by the probe. A CPU that was
    not reported (None) is not allowed.
    """
    if reported is None:
        return replace(probed, allowed=False)
    model = probed.model or reported.model
    max_khz = reported.max_khz or probed.max_khz
    return replace(reported, model=model, max_khz=max_khz)


class _Groups(NamedTuple):
    """The numbers of a CPU's groups as its hardware counts them; None if unknown."""

    core: int | None
    cluster: int | None
    die: int | None
    package: int | None


class _GroupKey(NamedTuple):
    """One group of CPUs. kind: "core", "cluster", ..., or a cache's "L2 Unified"."""

    kind: str
    number: int | None


_CpusByGroup = Mapping[_GroupKey, Sequence[int]]


def _make_cpus(records: Sequence[_Cpu], arch: str) -> tuple[Cpu, ...]:
    """Return the CPUs by number. `_make_cpu` says how their core, cluster, die and
    package are named.
    """
    records = sorted(records, key=lambda record: record.cpu)
    groups = _list_groups(records, arch)
    cpus_by_group = _list_cpus_by_group(records, groups)
    cpus = []
    for record, own_groups in zip(records, groups, strict=True):
        cpus.append(_make_cpu(record, own_groups, cpus_by_group))
    return tuple(cpus)


def _list_groups(records: Sequence[_Cpu], arch: str) -> list[_Groups]:
    """Return the groups of each record's CPU, in the records' order. On 64-bit Arm the
    hardware IDs, which are a register of each CPU, replace the OS's cores and clusters.
    """
    groups = [
        _Groups(record.core, record.cluster, record.die, record.package)
        for record in records
    ]
    if arch != "aarch64":
        return groups
    mpidrs = [record.hardware_id for record in records]
    cores_and_clusters = _read_cores_and_clusters(mpidrs)
    return [
        own._replace(core=core, cluster=cluster)
        for own, (core, cluster) in zip(groups, cores_and_clusters, strict=True)
    ]


def _list_cpus_by_group(
    records: Sequence[_Cpu], groups: Sequence[_Groups]
) -> _CpusByGroup:
    """Return the numbers of the CPUs in each group. The CPUs of a core, cluster, die or
    package are a group, and so are the CPUs behind one cache. groups: for each record,
    the groups of its CPU. Groups without a number are unknown and left out.
    """
    cpus_by_group = defaultdict[_GroupKey, list[int]](list)
    for record, own_groups in zip(records, groups, strict=True):
        keys = [_make_cache_key(cache) for cache in record.caches]
        for kind, number in own_groups._asdict().items():
            keys.append(_GroupKey(kind, number))
        for key in keys:
            if key.number is not None:
                cpus_by_group[key].append(record.cpu)
    return cpus_by_group


def _make_cache_key(cache: _Cache) -> _GroupKey:
    return _GroupKey(f"L{cache.level} {cache.kind}", cache.group)


def _make_cpu(record: _Cpu, groups: _Groups, cpus_by_group: _CpusByGroup) -> Cpu:
    """Return the record's CPU. Each of its core, cluster, die and package is named by
    the lowest CPU in it; None if the group is unknown. groups: the numbers by which the
    agent names these groups.
    """

    def find_lowest_cpu(kind: str, number: int | None) -> int | None:
        cpus = cpus_by_group.get(_GroupKey(kind, number), ())
        return min(cpus, default=None)

    caches = tuple(_make_cache(cache, cpus_by_group) for cache in record.caches)
    return Cpu(
        record.cpu,
        core=find_lowest_cpu("core", groups.core),
        cluster=find_lowest_cpu("cluster", groups.cluster),
        die=find_lowest_cpu("die", groups.die),
        package=find_lowest_cpu("package", groups.package),
        model=record.name,
        max_khz=1000 * record.mhz if record.mhz else None,
        llc=lowest_llc_cpu(caches),
        caches=caches,
    )


def _make_cache(cache: _Cache, cpus_by_group: _CpusByGroup) -> Cache:
    """Return a record's cache with the CPUs that share it; without CPUs if these are
    unknown.
    """
    shared_cpus = cpus_by_group.get(_make_cache_key(cache), ())
    return Cache(
        level=cache.level,
        kind=cache.kind,
        size_bytes=cache.bytes,
        line_bytes=cache.line_bytes,
        shared_cpus=tuple(shared_cpus),
    )


def _read_cores_and_clusters(
    mpidrs: Sequence[int | None],
) -> list[tuple[int | None, int | None]]:
    """Return each CPU's (core, cluster) by the affinity fields of its register
    MPIDR_EL1 (Arm ARM, D19.2). All are None if a register is missing, or two are equal.

    The fields have eight bits each. From the lowest up, they number core and cluster,
    or, if the MT bit (bit 24) is set, thread, core and cluster. A core's number
    includes the fields above it, so that cores of two clusters differ.
    """
    registers = [mpidr for mpidr in mpidrs if mpidr is not None]
    affinities = [_join_affinity_fields(register) for register in registers]
    is_register_missing = len(registers) < len(mpidrs)
    are_two_equal = len(set(affinities)) < len(affinities)
    if is_register_missing or are_two_equal:
        return [(None, None)] * len(mpidrs)
    thread_bits = 8 if _is_lowest_field_of_threads(registers, affinities) else 0
    return [
        (affinity >> thread_bits, affinity >> (thread_bits + 8))
        for affinity in affinities
    ]


def _is_lowest_field_of_threads(
    registers: Sequence[int], affinities: Sequence[int]
) -> bool:
    """Report whether the lowest affinity field numbers threads: each register has the
    MT bit, or a startup program has cleared it and kept the fields. Then the lowest
    field is zero on all CPUs.
    """
    if all(register >> 24 & 1 for register in registers):
        return True
    are_lowest_fields_zero = not any(affinity & 0xFF for affinity in affinities)
    return len(affinities) > 1 and are_lowest_fields_zero


def _join_affinity_fields(mpidr: int) -> int:
    """Return Aff3, Aff2, Aff1 and Aff0 as one number: Aff3 is in bits 32 to 39, apart
    from the others in bits 0 to 23.
    """
    return (mpidr >> 8 & 0xFF000000) | (mpidr & 0xFFFFFF)
