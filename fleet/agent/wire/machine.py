"""What only a program is told of a machine: the agent's `--machine` (docs/wire.md), as model.Cpu.

A QNX host has no tool that tells its topology, so the facts are completed once the agent is there.
`read` and `complete` are pure; `describe` asks.
"""

import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fleet.agent.wire.records import CPU_LIMIT, PROTOCOL, WireError, short
from fleet.model import Agent, Cache, Cpu, Facts
from fleet.plan.cpulist import MAX_CPU
from fleet.remote.connection import Connection

TIMEOUT_S = 60.0
CACHE_LIMIT = 8
KEPT_BEHIND = "@fleet-agent-machine@"
"""The line behind which the records are kept with the probe's answer, for later readers."""

_INT64_MAX = 2**63 - 1
_ASKED = "qnx"


@dataclass(frozen=True, slots=True)
class Machine:
    """What the agent said: its OS, which for an imitation is not the host's, and the CPUs it may use."""

    build: str
    os: str
    arch: str
    cpus: tuple[Cpu, ...]
    text: str


def describe(connection: Connection, agent: Agent, facts: Facts) -> Facts:
    """The facts with what the agent is told of the CPUs; unchanged where the probe knows it all.

    An agent that cannot tell costs nothing but a note. LinkError passes through.
    """
    if facts.target.os != _ASKED:
        return facts
    done = connection.run(f"{shlex.quote(agent.path)} --machine </dev/null", timeout_s=TIMEOUT_S)
    try:
        if done.exit_code != 0:
            raise WireError(done.stderr.decode("utf-8", "replace").strip() or f"exit code {done.exit_code}")
        return complete(facts, read(done.stdout))
    except WireError as err:
        note = f"the agent could not tell the topology, so relations are unknown: {err}"
        return replace(facts, notes=(*facts.notes, note))


def read(output: bytes) -> Machine:
    """Read the records of `--machine`; lines before them are skipped. Raises WireError, as for the wire."""
    lines = [line for line in output.splitlines() if line.startswith(b'{"record":')]
    first, *rest = [_object(line) for line in lines[: CPU_LIMIT + 2]] or [{}]
    if first.get("record") != "machine" or first.get("protocol") != PROTOCOL:
        raise WireError(f"a record `machine` of protocol {PROTOCOL} expected, got {short(output[:80])}")
    if len(rest) != first.get("cpus") or len(rest) > CPU_LIMIT:
        raise WireError(f"machine: {len(rest)} CPUs arrived, {short(first.get('cpus'))} were announced")
    numbers = [_number(fields, "cpu", MAX_CPU) for fields in rest]
    if len(set(numbers)) < len(numbers):
        raise WireError("machine: a CPU was named twice")
    arch = _text(first, "arch")
    text = b"\n".join(lines).decode("utf-8", "replace")
    return Machine(_text(first, "build"), _text(first, "os"), arch, _cpus(numbers, rest, arch), text)


def complete(facts: Facts, machine: Machine) -> Facts:
    """Lay what the agent told over the facts. A CPU it did not name exists, but may not be used."""
    told = {cpu.cpu: cpu for cpu in machine.cpus}
    known = {cpu.cpu: cpu for cpu in facts.cpus}
    cpus = [_merged(known.get(number), told.get(number)) for number in sorted({*known, *told})]
    return replace(
        facts,
        os=machine.os if machine.os.startswith(facts.target.os) else facts.os,
        cpus=tuple(cpus),
        cpu_model=facts.cpu_model or " + ".join(dict.fromkeys(c.model for c in cpus if c.model)) or None,
        probe=f"{facts.probe}\n{KEPT_BEHIND}\n{machine.text}",
    )


def _merged(known: Cpu | None, told: Cpu | None) -> Cpu:
    if told is None:
        assert known is not None  # noqa: S101 - one of them named the CPU
        return replace(known, allowed=False)
    return replace(
        told,
        model=known.model if known and known.model else told.model,
        max_khz=told.max_khz or (known.max_khz if known else None),
    )


# ---- groups -----------------------------------------------------------------------------------------------


def _cpus(numbers: list[int], records: list[Mapping[str, Any]], arch: str) -> tuple[Cpu, ...]:
    by_number = sorted(zip(numbers, records, strict=True), key=lambda pair: pair[0])
    ids = {number: _number_or_none(fields, "hardware_id") for number, fields in by_number}
    groups = {
        name: {number: _number_or_none(fields, name) for number, fields in by_number}
        for name in ("core", "cluster", "die", "package")
    }
    if arch == "aarch64":
        groups |= _of_mpidr(ids)
    leaders = {name: _leaders(group) for name, group in groups.items()}
    caches = _caches({number: _cache_records(fields) for number, fields in by_number})
    return tuple(
        Cpu(
            cpu=number,
            model=_text(fields, "name") if fields.get("name") is not None else None,
            max_khz=(_number_or_none(fields, "mhz", 10**9) or 0) * 1000 or None,
            core=leaders["core"].get(number),
            cluster=leaders["cluster"].get(number),
            die=leaders["die"].get(number),
            package=leaders["package"].get(number),
            llc=_last_shared(caches[number]),
            caches=caches[number],
        )
        for number, fields in by_number
    )


def _leaders(group: Mapping[Any, Any]) -> dict[Any, int]:
    """The lowest CPU of each CPU's group; CPUs of which the group is not told are left out."""
    lowest: dict[Any, int] = {}
    for number, name in sorted(group.items()):
        if name is not None:
            lowest.setdefault(name, number)
    return {number: lowest[name] for number, name in group.items() if name is not None}


def _of_mpidr(ids: Mapping[int, int | None]) -> dict[str, dict[int, int | None]]:
    """Cores and clusters by MPIDR_EL1's affinity fields (Arm ARM, D19.2). Nothing where ids are not unique.

    With MT set the lowest field counts the threads of a core, so cores and clusters are one field higher.
    Where a startup program keeps the fields only, all zero in the lowest tells the same.
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


def _caches(told: Mapping[int, list[Mapping[str, Any]]]) -> dict[int, tuple[Cache, ...]]:
    """Each CPU's caches, with the CPUs that share them; none are named where sharing is not told."""
    sharers: dict[tuple[int, str, int], list[int]] = {}
    read_: dict[int, list[tuple[int, str, int | None, Cache]]] = {}
    for number, records in told.items():
        for fields in records:
            level, kind = _number(fields, "level", 9), _text(fields, "kind")
            group = _number_or_none(fields, "group")
            cache = Cache(
                level, kind, _number_or_none(fields, "bytes"), _number_or_none(fields, "line_bytes"), ()
            )
            read_.setdefault(number, []).append((level, kind, group, cache))
            if group is not None:
                sharers.setdefault((level, kind, group), []).append(number)
    return {
        number: tuple(
            replace(cache, shared_cpus=tuple(sharers[level, kind, group])) if group is not None else cache
            for level, kind, group, cache in read_.get(number, [])
        )
        for number in told
    }


def _last_shared(caches: Iterable[Cache]) -> int | None:
    """The lowest CPU that shares the last-level cache, if that is told."""
    data = [cache for cache in caches if cache.kind != "Instruction"]
    return min(max(data, key=lambda cache: cache.level).shared_cpus, default=None) if data else None


# ---- fields -----------------------------------------------------------------------------------------------


def _object(line: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as err:
        raise WireError(f"not a JSON record: {short(line)}") from err
    if not isinstance(value, dict):
        raise WireError(f"not a JSON object: {short(line)}")
    return value


def _cache_records(fields: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    value = fields.get("caches")
    if not isinstance(value, list) or len(value) > CACHE_LIMIT or not all(isinstance(c, dict) for c in value):
        raise WireError(f"caches: at most {CACHE_LIMIT} objects expected, got {short(value)}")
    return value


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or len(value) > 200 or not value.isprintable():
        raise WireError(f"{key}: a short text expected, got {short(value)}")
    return value


def _number(fields: Mapping[str, Any], key: str, most: int = _INT64_MAX) -> int:
    value = fields.get(key)
    if type(value) is not int or not 0 <= value <= most:
        raise WireError(f"{key}: a number from 0 to {most} expected, got {short(value)}")
    return value


def _number_or_none(fields: Mapping[str, Any], key: str, most: int = _INT64_MAX) -> int | None:
    return None if fields.get(key) is None else _number(fields, key, most)
