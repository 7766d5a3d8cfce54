"""Reads the agent's `--machine` (docs/wire.md), for hosts like QNX's whose topology no tool shows."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from fleet.agent.build.systems import SYSTEMS
from fleet.agent.wire.line import PROTOCOL, Int64, WireError, checked, short
from fleet.agent.wire.records import CPU_LIMIT, CpuNumber, fits
from fleet.model import Agent, Cache, Cpu, Facts, last_shared
from fleet.remote.connection import Connection
from fleet.text import last_lines

TIMEOUT_S = 60.0
KEPT_BEHIND = "@fleet-agent-machine@"
"""The line behind which the records are kept with the probe's answer, for later readers."""

_Text = Annotated[str, Meta(max_length=200)]


@dataclass(frozen=True, slots=True)
class Machine:
    """What the agent sent: its OS, which for an imitation is not the host's, and the CPUs it may use."""

    os: str
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
    core: Annotated[int, fits("core", "cpus")] | None = None
    cluster: Annotated[int, fits("cluster", "cpus")] | None = None
    die: Annotated[int, fits("die", "cpus")] | None = None
    package: Annotated[int, fits("package", "cpus")] | None = None


def describe(connection: Connection, agent: Agent, facts: Facts) -> Facts:
    """The facts, completed by what the agent says of CPUs where the probe does not suffice, or a note."""
    if not SYSTEMS[facts.target.os].agent_topology:
        return facts
    done = connection.run(f"{shlex.quote(agent.path)} --machine </dev/null", timeout_s=TIMEOUT_S)
    try:
        if done.exit_code != 0:
            raise WireError(last_lines(done.stderr) if done.stderr.strip() else f"exit code {done.exit_code}")
        return complete(facts, read(done.stdout))
    except WireError as err:
        note = f"the agent could not read the topology, so relations are unknown: {err}"
        return replace(facts, notes=(*facts.notes, note))


def read(output: bytes) -> Machine:
    """Read the records of `--machine`; lines before them are skipped. Raises WireError, as for the wire."""
    lines = [line for line in output.splitlines() if line.startswith(b'{"record":')]
    if not lines:
        raise WireError(f"a record `machine` of protocol {PROTOCOL} expected, got {short(output)}")
    first = checked(msgspec.json.Decoder(_Machine), lines[0])
    if first.protocol != PROTOCOL:
        raise WireError(f"a record `machine` of protocol {PROTOCOL} expected, got {short(lines[0])}")
    decoder = msgspec.json.Decoder(_Cpu)
    cpus = [checked(decoder, line) for line in lines[1 : CPU_LIMIT + 2]]
    if len(cpus) != first.cpus or len(cpus) > CPU_LIMIT:
        raise WireError(f"machine: {len(cpus)} CPUs arrived, {first.cpus} were announced")
    if len({cpu.cpu for cpu in cpus}) < len(cpus):
        raise WireError("machine: a CPU was named twice")
    names = [cpu.name or "" for cpu in cpus] + [cache.kind for cpu in cpus for cache in cpu.caches]
    for text in (first.build, first.os, first.arch, *names):
        if not text.isprintable():
            raise WireError(f"machine: printable text expected, got {short(text)}")
    text = b"\n".join(lines).decode("utf-8", "replace")
    return Machine(first.os, _cpus(cpus, first.arch), text)


def complete(facts: Facts, machine: Machine) -> Facts:
    """Add the agent's CPUs to the facts. A CPU that only the facts name exists, but may not be used."""
    usable = {cpu.cpu: cpu for cpu in machine.cpus}
    known = {cpu.cpu: cpu for cpu in facts.cpus}
    cpus = [_merged(known.get(number), usable.get(number)) for number in sorted({*known, *usable})]
    return replace(
        facts,
        os=machine.os if machine.os.startswith(facts.target.os) else facts.os,
        cpus=tuple(cpus),
        cpu_model=facts.cpu_model or " + ".join(dict.fromkeys(c.model for c in cpus if c.model)) or None,
        probe=f"{facts.probe}\n{KEPT_BEHIND}\n{machine.text}",
    )


def _merged(known: Cpu | None, usable: Cpu | None) -> Cpu:
    if usable is None:
        assert known is not None  # noqa: S101 - one of them named the CPU
        return replace(known, allowed=False)
    return replace(
        usable,
        model=known.model if known and known.model else usable.model,
        max_khz=usable.max_khz or (known.max_khz if known else None),
    )


def _cpus(records: Sequence[_Cpu], arch: str) -> tuple[Cpu, ...]:
    records = sorted(records, key=lambda record: record.cpu)
    groups = {
        name: {record.cpu: getattr(record, name) for record in records}
        for name in ("core", "cluster", "die", "package")
    }
    if arch == "aarch64":
        groups |= _of_mpidr({record.cpu: record.hardware_id for record in records})
    leaders: dict[str, Any] = {name: _leaders(group) for name, group in groups.items()}
    caches = _caches(records)
    return tuple(
        Cpu(
            cpu=record.cpu,
            model=record.name,
            max_khz=(record.mhz or 0) * 1000 or None,
            **{name: leader.get(record.cpu) for name, leader in leaders.items()},
            llc=last_shared(caches[record.cpu]),
            caches=caches[record.cpu],
        )
        for record in records
    )


def _leaders(group: Mapping[Any, Any]) -> dict[Any, int]:
    """The lowest CPU of each CPU's group; CPUs of unknown group are left out."""
    lowest: dict[Any, int] = {}
    for number, name in sorted(group.items()):
        if name is not None:
            lowest.setdefault(name, number)
    return {number: lowest[name] for number, name in group.items() if name is not None}


def _of_mpidr(ids: Mapping[int, int | None]) -> dict[str, dict[int, int | None]]:
    """Cores and clusters by MPIDR_EL1's affinity fields (Arm ARM, D19.2). Nothing where ids are not unique.

    With MT set the lowest field counts the threads of a core, so cores and clusters are one field higher.
    Where a startup program keeps the fields only, all zero in the lowest means the same.
    """
    known = {number: id_ for number, id_ in ids.items() if id_ is not None}
    places = {number: (id_ >> 8 & 0xFF000000) | (id_ & 0xFFFFFF) for number, id_ in known.items()}
    if len(known) < len(ids) or len(set(places.values())) < len(places):
        return {"core": {}, "cluster": {}}
    marked = all(id_ >> 24 & 1 for id_ in known.values())
    shift = 8 if marked or (len(places) > 1 and not any(place & 0xFF for place in places.values())) else 0
    return {
        "core": {number: place >> shift for number, place in places.items()},
        "cluster": {number: place >> (shift + 8) for number, place in places.items()},
    }


def _caches(records: Sequence[_Cpu]) -> dict[int, tuple[Cache, ...]]:
    """Each CPU's caches, with the CPUs that share them; none are named where sharing is unknown."""
    sharers: dict[tuple[int, str, int | None], list[int]] = {}
    for record in records:
        for cache in record.caches:
            sharers.setdefault((cache.level, cache.kind, cache.group), []).append(record.cpu)

    def shared(cache: _Cache) -> tuple[int, ...]:
        return () if cache.group is None else tuple(sharers[cache.level, cache.kind, cache.group])

    return {
        record.cpu: tuple(Cache(c.level, c.kind, c.bytes, c.line_bytes, shared(c)) for c in record.caches)
        for record in records
    }
