"""Performance events: names, and what perf_event_open(2) is given; `counters.json` names its sources."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fleet.model import Facts
from fleet.text import nearest

MOST = 16  # events at once (agent/machine/counters.h)
_RAW = 4  # PERF_TYPE_RAW
_RAW_CODE = re.compile(r"r([0-9a-f]{1,16})")


@dataclass(frozen=True, slots=True)
class Event:
    """An event as the kernel numbers it. kernel: what the kernel does for the thread is counted too."""

    type: int
    config: int
    kernel: bool = False


@dataclass(frozen=True, slots=True)
class _Family:
    """CPUs with the same events. coherence: those that say where a line came from, as many as fit at once."""

    events: Mapping[str, Event]
    coherence: tuple[str, ...]


_TABLE = json.loads(Path(__file__).with_name("counters.json").read_text())
# What the kernel itself maps to each CPU, or counts without a CPU's help.
_EVERYWHERE = {name: Event(**event) for name, event in _TABLE["everywhere"].items()}
_GENERIC = tuple(_TABLE["generic"])
# By vendor, family and model as in /proc/cpuinfo; Arm: implementer, architecture, part. None: any model.
_FAMILIES = {
    (cpu["vendor"], int(cpu["family"], 0), cpu["model"] and int(cpu["model"], 0)): _Family(
        {name: Event(_RAW, int(code, 16)) for name, code in one["events"].items()}, tuple(one["coherence"])
    )
    for one in _TABLE["families"]
    for cpu in one["cpus"]
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


def resolved(names: Sequence[str], facts: Facts) -> tuple[str, ...]:
    """The events that a host's CPU has, each as the agent reads it: `cycles=0:0x0`."""
    return tuple(
        f"{name}={event.type}:{event.config:#x}{':k' * event.kernel}"
        for name, event in _found(names, facts)
        if event is not None
    )


def missing(names: Sequence[str], facts: Facts) -> str | None:
    """A note about the events that are in no table for the host's CPU; None if there are none."""
    lacking = [name for name, event in _found(names, facts) if event is None]
    if not lacking:
        return None
    model = facts.cpu_model or "of an unknown model"
    return (
        f"Not counted: {', '.join(lacking)} (not known for this CPU, {model}: name other events, or raw "
        "codes such as r04d2)."
    )


def _found(names: Sequence[str], facts: Facts) -> Iterable[tuple[str, Event | None]]:
    family = _family_of(facts)
    known = {**_EVERYWHERE, **(family.events if family else {})}
    for name in _expanded(names, family):
        raw = _RAW_CODE.fullmatch(name)
        yield name, Event(_RAW, int(raw[1], 16)) if raw else known.get(name)


def _expanded(names: Sequence[str], family: _Family | None) -> tuple[str, ...]:
    """The names with those of a group in its place; a group that the CPU lacks stays."""
    groups = {"generic": _GENERIC, "coherence": family.coherence if family else ("coherence",)}
    return tuple(dict.fromkeys(event for name in names for event in groups.get(name, (name,))))


def _family_of(facts: Facts) -> _Family | None:
    try:
        family, model = int(facts.cpu_family or "", 0), int(facts.cpu_model_number or "", 0)
    except ValueError:
        return None
    vendor = facts.cpu_vendor or ""
    return _FAMILIES.get((vendor, family, model)) or _FAMILIES.get((vendor, family, None))
