"""Reads the agent's `--machine` (docs/wire.md), for hosts such as QNX where no tool
shows the topology.
"""

import shlex
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

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
    """The answer to `--machine`. os: the agent's, or the one a test imitates. text: the
    answer's lines.
    """

    os: str
    arch: str
    cpus: tuple[Cpu, ...]
    text: str


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
    """Add the CPUs that the agent reports to the facts, if the OS needs that; on
    failure add a note.
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
        raise _expect_machine(output)
    first = decode_line(_MACHINE_RECORD, lines[0])
    if first.protocol != PROTOCOL:
        raise _expect_machine(lines[0])
    cpus = [decode_line(_CPU_RECORD, line) for line in lines[1 : CPU_LIMIT + 2]]
    if len(cpus) != first.cpus or len(cpus) > CPU_LIMIT:
        raise WireError(
            f"machine: {len(cpus)} CPUs arrived, {first.cpus} were announced"
        )
    if len({cpu.cpu for cpu in cpus}) < len(cpus):
        raise WireError("machine: a CPU was named twice")
    for text in _list_texts(first, cpus):
        if not text.isprintable():
            raise WireError(
                f"machine: printable text expected, got {quote_start(text)}"
            )
    text = b"\n".join(lines).decode("utf-8", "replace")
    return Machine(first.os, first.arch, _make_cpus(cpus, first.arch), text)


def _expect_machine(got: bytes) -> WireError:
    return WireError(
        f"a record `machine` of protocol {PROTOCOL} expected, got {quote_start(got)}"
    )


def _list_texts(machine: _Machine, cpus: Sequence[_Cpu]) -> list[str]:
    texts = [machine.build, machine.os, machine.arch]
    for cpu in cpus:
        texts.append(cpu.name or "")
        texts += [cache.kind for cache in cpu.caches]
    return texts


def merge_facts(facts: Facts, machine: Machine) -> Facts:
    """Merge the agent's CPUs into the facts; mark CPUs that it does not report as not
    allowed. Raises WireError for another machine's CPUs.
    """
    reported = {cpu.cpu: cpu for cpu in machine.cpus}
    probed = {cpu.cpu: cpu for cpu in facts.cpus}
    check_machine(facts, Target(machine.os, machine.arch), reported)
    numbers = sorted({*probed, *reported})
    cpus = [
        _merge_cpu(probed.get(number, Cpu(number)), reported.get(number))
        for number in numbers
    ]
    models = dict.fromkeys(cpu.model for cpu in cpus if cpu.model)
    return replace(
        facts,
        os=machine.os,
        cpus=tuple(cpus),
        cpu_model=facts.cpu_model or " + ".join(models) or None,
        probe=f"{facts.probe}\n{MACHINE_MARK}\n{machine.text}",
    )


def _merge_cpu(probed: Cpu, reported: Cpu | None) -> Cpu:
    if reported is None:
        return replace(probed, allowed=False)
    model = probed.model or reported.model
    max_khz = reported.max_khz or probed.max_khz
    return replace(reported, model=model, max_khz=max_khz)


_GROUPS = ("core", "cluster", "die", "package")
_Group = tuple[Any, ...]  # a kind of group, or a cache's level and kind; its number


def _make_cpus(records: Sequence[_Cpu], arch: str) -> tuple[Cpu, ...]:
    """Return the sorted CPUs with the lowest CPU of their core, cluster, die and
    package; None if unknown.
    """
    ordered = sorted(records, key=lambda record: record.cpu)
    groups = _list_groups(ordered, arch)
    members = _find_members(ordered, groups)
    cpus = []
    for record, own_groups in zip(ordered, groups, strict=True):
        cpus.append(_make_cpu(record, own_groups, members))
    return tuple(cpus)


def _list_groups(records: Sequence[_Cpu], arch: str) -> list[dict[str, Any]]:
    """Return the number of each CPU's core, cluster, die and package."""
    groups: list[dict[str, Any]] = [
        {name: getattr(record, name) for name in _GROUPS} for record in records
    ]
    if arch == "aarch64":
        by_mpidr = _group_by_mpidr([record.hardware_id for record in records])
        for group, core_and_cluster in zip(groups, by_mpidr, strict=True):
            group.update(core_and_cluster)
    return groups


def _find_members(
    records: Sequence[_Cpu], groups: Sequence[dict[str, Any]]
) -> dict[_Group, list[int]]:
    """Return the CPUs of each group and cache whose number is known."""
    members = defaultdict[_Group, list[int]](list)
    for record, group in zip(records, groups, strict=True):
        keys: list[_Group] = list(group.items())
        keys += [_make_cache_key(cache) for cache in record.caches]
        for key in keys:
            number = key[-1]  # of the group or cache
            if number is not None:
                members[key].append(record.cpu)
    return members


def _make_cache_key(cache: _Cache) -> _Group:
    return cache.level, cache.kind, cache.group


def _make_cpu(
    record: _Cpu, groups: dict[str, Any], members: dict[_Group, list[int]]
) -> Cpu:
    caches = tuple(_make_cache(cache, members) for cache in record.caches)
    # a group is named by its lowest CPU
    leaders: dict[str, Any] = {}
    for name, number in groups.items():
        cpus = members.get((name, number), [])
        leaders[name] = min(cpus, default=None)
    max_khz = None
    if record.mhz:
        max_khz = 1000 * record.mhz
    return Cpu(
        record.cpu,
        model=record.name,
        max_khz=max_khz,
        llc=lowest_llc_cpu(caches),
        caches=caches,
        **leaders,
    )


def _make_cache(cache: _Cache, members: dict[_Group, list[int]]) -> Cache:
    return Cache(
        level=cache.level,
        kind=cache.kind,
        size_bytes=cache.bytes,
        line_bytes=cache.line_bytes,
        shared_cpus=tuple(members.get(_make_cache_key(cache), ())),
    )


def _group_by_mpidr(ids: Sequence[int | None]) -> list[dict[str, int | None]]:
    """Return each CPU's core and cluster by MPIDR_EL1's affinity fields (Arm ARM,
    D19.2); None if not unique.

    With the MT bit set, the lowest field numbers a core's threads. A startup program
    may have cleared the bit and kept the fields: if every lowest field is zero, the
    fields are read as if the bit were set.
    """
    registers = [id_ for id_ in ids if id_ is not None]
    places = [_join_affinity_fields(register) for register in registers]
    if len(set(places)) < len(ids):
        return [{"core": None, "cluster": None}] * len(ids)
    has_mt_bit = all(register >> 24 & 1 for register in registers)
    has_zero_fields = not any(place & 0xFF for place in places)
    is_mt_bit_cleared = len(places) > 1 and has_zero_fields
    # fields of eight bits, the lowest first: thread (if any), core, cluster
    bits_of_thread = 8 if has_mt_bit or is_mt_bit_cleared else 0
    return [
        {"core": place >> bits_of_thread, "cluster": place >> (bits_of_thread + 8)}
        for place in places
    ]


def _join_affinity_fields(mpidr: int) -> int:
    """Return Aff3 to Aff0, which bits 24 to 31 part, as one number."""
    return (mpidr >> 8 & 0xFF000000) | (mpidr & 0xFFFFFF)
