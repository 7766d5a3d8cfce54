"""Performance events: their names, and their codes for perf_event_open(2).
`counters.json` cites sources.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from fleet.model import Facts, InputError
from fleet.text import suggest_similar

MAX_EVENTS = 16  # events at once (agent/machine/counters.h)
_RAW = "4:{:#x}"  # PERF_TYPE_RAW
_RAW_CODE = re.compile(r"r([0-9a-f]{1,16})")


class _Family(NamedTuple):
    """CPUs with the same events. coherence: names of events that show where a cache
    line came from.
    """

    events: Mapping[str, str]
    coherence: tuple[str, ...]


# Events by name, each as the agent reads it: `TYPE:CONFIG`, with `:k` also in the
# kernel.
_TABLE = json.loads(Path(__file__).with_name("counters.json").read_text())
# What the kernel itself maps to each CPU, or counts without a CPU's help.
_EVERYWHERE = {
    name: f"{event['type']}:{event['config']:#x}{':k' * ('kernel' in event)}"
    for name, event in _TABLE["everywhere"].items()
}
# By vendor, family and model as in /proc/cpuinfo; Arm: implementer, architecture, part.
# None: any model.
_FAMILIES = {
    (
        cpu["vendor"],
        int(cpu["family"], 0),
        cpu["model"] and int(cpu["model"], 0),
    ): _Family(
        {name: _RAW.format(int(code, 16)) for name, code in family["events"].items()},
        tuple(family["coherence"]),
    )
    for family in _TABLE["families"]
    for cpu in family["cpus"]
}
_EVENTS = _EVERYWHERE.keys(), *(family.events for family in _FAMILIES.values())
NAMES = tuple(dict.fromkeys(chain(*_EVENTS)))
_CHOICES = ("generic", "coherence", *NAMES)


def parse_events(text: str) -> tuple[str, ...]:
    """Parse "generic", "coherence" or a list of names and raw codes, without repeats.
    Raises InputError.
    """
    names = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    for name in names:
        if name not in _CHOICES and not _RAW_CODE.fullmatch(name):
            raise InputError(
                f"unknown event {name[:40]!r}{suggest_similar(name, _CHOICES)} There"
                f" are {', '.join(_CHOICES)}, and raw codes such as r04d2"
            )
    # "coherence" stands for other events in each family of CPUs
    needed = max(len(_expand_groups(names, family)) for family in _FAMILIES.values())
    if needed > MAX_EVENTS:
        raise InputError(
            f"names {needed} events, and at most {MAX_EVENTS} are counted at once"
        )
    return names


def agent_events(names: Sequence[str], facts: Facts) -> tuple[str, ...]:
    """Return the events that a host's CPU has, each as the agent's argument:
    `cycles=0:0x0`.
    """
    return tuple(
        f"{name}={code}" for name, code in _look_up_events(names, facts) if code
    )


def describe_unknown_events(names: Sequence[str], facts: Facts) -> str | None:
    """Return a note about the events that are not known for the host's CPU; None if all
    are.
    """
    unknown = [name for name, code in _look_up_events(names, facts) if code is None]
    if not unknown:
        return None
    model = facts.cpu_model or "of an unknown model"
    return (
        f"Not counted: {', '.join(unknown)} (not known for this CPU, {model}: name"
        " other events, or raw codes such as r04d2)."
    )


def _look_up_events(
    names: Sequence[str], facts: Facts
) -> Iterable[tuple[str, str | None]]:
    """Yield each event's name and its code as the agent reads it, such as "4:0x4d2" for
    the raw code r04d2. The code is None if the CPU does not have the event.
    """
    family = _find_family(facts)
    codes = dict(_EVERYWHERE)
    if family:
        codes |= family.events
    for name in _expand_groups(names, family):
        if raw := _RAW_CODE.fullmatch(name):
            yield name, _RAW.format(int(raw[1], 16))
        else:
            yield name, codes.get(name)


def _find_family(facts: Facts) -> _Family | None:
    """Return the family of CPUs that a host's CPU is in, which has events of its own;
    None if no such family is known. Some families are of one model, others of all
    models.
    """
    vendor = facts.cpu_vendor or ""
    try:
        family = int(facts.cpu_family or "", 0)
        model = int(facts.cpu_model_number or "", 0)
    except ValueError:
        return None
    return _FAMILIES.get((vendor, family, model)) or _FAMILIES.get(
        (vendor, family, None)
    )


def _expand_groups(names: Sequence[str], family: _Family | None) -> tuple[str, ...]:
    """Replace "generic" and "coherence" by their events; keep "coherence" if `family`
    is None.
    """
    groups = {"generic": _TABLE["generic"]}
    if family:
        groups["coherence"] = family.coherence
    events = [groups.get(name, [name]) for name in names]
    return tuple(dict.fromkeys(chain(*events)))
