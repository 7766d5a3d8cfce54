"""THE TABLE of performance events: names, and what perf_event_open(2) is given for them on each CPU.

Sources: perf_event_open(2) for what the kernel names; github.com/intel/perfmon at 6dadedf for Intel (events
D1, D2, D3 and B7 of SKX, CLX, ICX, SPR, EMR and GNR); Linux tools/perf/pmu-events/arch for AMD (amdzen3 to
amdzen5, event 43, ls_dmnd_fills_from_sys) and Arm (common-and-microarch.json).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fleet.text import nearest

if TYPE_CHECKING:
    from fleet.model import Facts

MOST = 16  # events at once (agent/machine/counters.h)
_RAW = 4  # PERF_TYPE_RAW
_RAW_CODE = re.compile(r"r([0-9a-f]{1,16})")


@dataclass(frozen=True, slots=True)
class Event:
    """An event as the kernel numbers it. kernel: what the kernel does for the thread is counted too."""

    type: int
    config: int
    kernel: bool = False


def _raw(**codes: int) -> Mapping[str, Event]:
    return {name: Event(_RAW, code) for name, code in codes.items()}


# What the kernel itself maps to each CPU, or counts without a CPU's help.
_EVERYWHERE: Mapping[str, Event] = {
    "cycles": Event(0, 0),
    "instructions": Event(0, 1),
    "cache-references": Event(0, 2),
    "cache-misses": Event(0, 3),
    "branches": Event(0, 4),
    "branch-misses": Event(0, 5),
    "task-clock": Event(1, 1),
    "page-faults": Event(1, 2),
    "context-switches": Event(1, 3, kernel=True),
    "cpu-migrations": Event(1, 4, kernel=True),
}
_GENERIC = ("cycles", "instructions", "cache-references", "cache-misses", "branch-misses")

# Retired loads by where the line came from: umask, then event select.
_INTEL = _raw(
    l1_hit=0x01D1,
    l2_hit=0x02D1,
    l3_hit=0x04D1,
    l3_miss=0x20D1,
    snoop_miss=0x01D2,
    snoop_hit_clean=0x02D2,
    snoop_hit_modified=0x04D2,
    no_snoop=0x08D2,
    memory_local=0x01D3,
    memory_remote=0x02D3,
    remote_modified=0x04D3,
    remote_clean=0x08D3,
)
_INTEL_AMX = {**_INTEL, **_raw(amx_busy=0x02B7)}
# Fills of the L1 cache that loads and stores asked for, by where the line came from.
_AMD = _raw(
    fill_l2=0x0143,
    fill_complex=0x0243,
    fill_near_cache=0x0443,
    memory_local=0x0843,
    fill_far_cache=0x1043,
    memory_remote=0x4043,
)
_ARM = _raw(
    l1_refill=0x03,
    l2_refill=0x17,
    l3_refill=0x2A,
    remote_access=0x31,
    last_cache_read=0x36,
    last_cache_read_miss=0x37,
)


@dataclass(frozen=True, slots=True)
class _Family:
    """CPUs with the same events. coherence: those that say where a line came from, as many as fit at once."""

    name: str
    events: Mapping[str, Event]
    coherence: tuple[str, ...]


_LOADS = ("snoop_hit_modified", "snoop_hit_clean", "no_snoop", "remote_modified")
_XEON = _Family("Xeon Scalable", _INTEL, _LOADS)
_XEON_AMX = _Family("Xeon with AMX", _INTEL_AMX, _LOADS)
_ZEN = _Family(
    "Zen 3 to 5", _AMD, ("fill_complex", "fill_near_cache", "fill_far_cache", "memory_local", "memory_remote")
)
_NEOVERSE = _Family(
    "Neoverse", _ARM, ("l1_refill", "l2_refill", "last_cache_read", "last_cache_read_miss", "remote_access")
)
# By vendor, family and model as in /proc/cpuinfo; Arm: implementer, architecture, part. None: any model.
_FAMILIES: Mapping[tuple[str, int, int | None], _Family] = {
    ("GenuineIntel", 6, 0x55): _XEON,  # Skylake, Cascade Lake
    ("GenuineIntel", 6, 0x6A): _XEON,  # Ice Lake
    ("GenuineIntel", 6, 0x6C): _XEON,
    ("GenuineIntel", 6, 0x8F): _XEON_AMX,  # Sapphire Rapids
    ("GenuineIntel", 6, 0xCF): _XEON_AMX,  # Emerald Rapids
    ("GenuineIntel", 6, 0xAD): _XEON_AMX,  # Granite Rapids
    ("GenuineIntel", 6, 0xAE): _XEON_AMX,
    ("AuthenticAMD", 0x19, None): _ZEN,
    ("AuthenticAMD", 0x1A, None): _ZEN,
    ("0x41", 8, 0xD0C): _NEOVERSE,  # N1
    ("0x41", 8, 0xD40): _NEOVERSE,  # V1
    ("0x41", 8, 0xD49): _NEOVERSE,  # N2
    ("0x41", 8, 0xD4F): _NEOVERSE,  # V2
}
_GROUPS = ("generic", "coherence")
NAMES = tuple(
    dict.fromkeys([*_EVERYWHERE, *(name for family in _FAMILIES.values() for name in family.events)])
)


def read(text: str) -> tuple[str, ...]:
    """Read "generic", "coherence" or a list of names and raw codes; repeats are dropped."""
    names = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    for name in names:
        if name not in (*_GROUPS, *NAMES) and not _RAW_CODE.fullmatch(name):
            known = (*_GROUPS, *NAMES)
            raise ValueError(
                f"unknown event {name[:40]!r}{nearest(name, known)} There are {', '.join(known)}, and raw "
                "codes such as r04d2"
            )
    if (most := max(len(_expanded(names, family)) for family in _FAMILIES.values())) > MOST:
        raise ValueError(f"names {most} events, and at most {MOST} are counted at once")
    return names


def resolved(names: Sequence[str], facts: "Facts") -> tuple[str, ...]:
    """The events that a host's CPU has, each as the agent reads it: `cycles=0:0x0`."""
    return tuple(
        f"{name}={event.type}:{event.config:#x}{':k' * event.kernel}"
        for name, event in _found(names, facts)
        if event is not None
    )


def missing(names: Sequence[str], facts: "Facts") -> str | None:
    """A note about the events that are in no table for the host's CPU; None if there are none."""
    lacking = [name for name, event in _found(names, facts) if event is None]
    if not lacking:
        return None
    model = facts.cpu_model or "of an unknown model"
    return (
        f"Not counted: {', '.join(lacking)} (not known for this CPU, {model}: name other events, or raw "
        "codes such as r04d2)."
    )


def _found(names: Sequence[str], facts: "Facts") -> Iterable[tuple[str, Event | None]]:
    family = _family_of(facts)
    known = {**_EVERYWHERE, **(family.events if family else {})}
    for name in _expanded(names, family):
        raw = _RAW_CODE.fullmatch(name)
        yield name, Event(_RAW, int(raw[1], 16)) if raw else known.get(name)


def _expanded(names: Sequence[str], family: _Family | None) -> tuple[str, ...]:
    """The names with those of a group in its place; a group that the CPU lacks stays."""
    groups = {"generic": _GENERIC, "coherence": family.coherence if family else ("coherence",)}
    return tuple(dict.fromkeys(event for name in names for event in groups.get(name, (name,))))


def _family_of(facts: "Facts") -> _Family | None:
    try:
        family, model = int(facts.cpu_family or "", 0), int(facts.cpu_model_number or "", 0)
    except ValueError:
        return None
    vendor = facts.cpu_vendor or ""
    return _FAMILIES.get((vendor, family, model)) or _FAMILIES.get((vendor, family, None))
