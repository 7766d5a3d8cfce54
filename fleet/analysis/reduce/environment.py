"""What a run was measured in, as text by name: the machine, its settings, the agent, labels and the plan."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from fleet.store.schema import ENVIRONMENT

UNKNOWN, DEFAULT = "unknown", "default"
_OBJECTS = {"labels": "label", "mitigations": "mitigation", "plan": "plan"}
_NO_EFFECT = {"plan.seed", "plan.deadline_s"}  # on the measurement
_CLOCK_RATE = 3  # significant figures; two calibrations of one clock differ beyond


def environment_of(run: Mapping[str, Any], also: Sequence[str] = ()) -> dict[str, str]:
    """The columns of ENVIRONMENT and `also`, then labels, mitigations and plan: as "label.kernel", ...

    run: as `load_run` returns it.
    """
    found = {name: _text(run[name]) for name in (*also, *ENVIRONMENT)}
    found["ticks_per_second"] = f"{float(format(run['ticks_per_second'], f'.{_CLOCK_RATE}g')):.0f}"
    for column, kind in _OBJECTS.items():
        for key, value in run[column].items():
            found[f"{kind}.{key}"] = _requested(value) if kind == "plan" else _text(value)
    return {name: text for name, text in found.items() if name not in _NO_EFFECT}


def _requested(value: Any) -> str:
    """A value of the plan, as on the command line."""
    if isinstance(value, list):
        return ",".join(map(str, value)) or "none"
    if not isinstance(value, Mapping):
        return DEFAULT if value is None else _text(value)
    if value.get("listed"):
        return " ".join(f"{a}-{b}" for a, b in value["listed"])
    return f"{value['which']}:{value['per_relation']}" if value.get("per_relation") else str(value["which"])


def _text(value: Any) -> str:
    match value:
        case None:
            return UNKNOWN
        case bool():
            return "yes" if value else "no"
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S} UTC"
        case float():
            return f"{value:.6g}"
        case list() | tuple():
            return " ".join(map(_text, value)) or "none"
        case _:
            return str(value)
