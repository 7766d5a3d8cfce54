"""What a run was measured in, as text by name: the machine, its settings, the agent, labels and the plan.

And what of it differs between two sides of a comparison.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pandas as pd

from fleet.analysis.reduce.load import Texts, decoded
from fleet.analysis.views.text import records
from fleet.store.schema import ENVIRONMENT

UNKNOWN, DEFAULT = "unknown", "default"
_OBJECTS = {"labels": "label", "mitigations": "mitigation", "plan": "plan"}
_NO_EFFECT = {"plan.seed", "plan.deadline_s"}  # on the measurement
_CLOCK_RATE = 3  # significant figures; two calibrations of one clock differ beyond


def environments(runs: Sequence[Mapping[str, Any]], also: Sequence[str] = ()) -> dict[str, list[str]]:
    """The columns of ENVIRONMENT and `also`, then labels, mitigations and plan: as "label.kernel", ...

    runs: as `load_run` returns them. Of each name the text of every run, UNKNOWN where one lacks it.
    """
    found = {name: [_text(run[name]) for run in runs] for name in (*also, *ENVIRONMENT)}
    found["ticks_per_second"] = [
        f"{float(format(run['ticks_per_second'], f'.{_CLOCK_RATE}g')):.0f}" for run in runs
    ]
    for at, run in enumerate(runs):
        for column, kind in _OBJECTS.items():
            for key, value in run[column].items():
                text = _requested(value) if kind == "plan" else _text(value)
                found.setdefault(f"{kind}.{key}", [UNKNOWN] * len(runs))[at] = text
    return {name: texts for name, texts in found.items() if name not in _NO_EFFECT}


def differences(a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    """A row per difference: `what`, `a`, `b` (values as text, most frequent first), `between`.

    between: no value is on both sides; else it varies within a side, and is no difference between the two.

    a, b: rows of the `runs` table. A value that changes within a side is listed unless the other side has the
    same set of values.
    """
    texts, rows = Texts(), list[dict[str, object]]()
    both = pd.concat([a, b])[[*ENVIRONMENT, *(f"{name}_json" for name in _OBJECTS)]]
    for name, of_runs in environments([decoded(row, texts) for row in records(both)]).items():
        values = [Counter(of_runs[: len(a)]), Counter(of_runs[len(a) :])]
        if set(values[0]) != set(values[1]):
            between = not set(values[0]) & set(values[1])
            rows.append({"what": name, "a": _listed(values[0]), "b": _listed(values[1]), "between": between})
    known = all(side["boot_id"].notna().all() for side in (a, b))
    if known and set(a["host_id"]) == set(b["host_id"]) and not set(a["boot_id"]) & set(b["boot_id"]):
        rows.append({"what": "boot", "a": _boots(a), "b": _boots(b), "between": True})
    return pd.DataFrame(rows, columns=["what", "a", "b", "between"])


def _listed(values: Counter[str]) -> str:
    if len(values) == 1:
        return next(iter(values))
    return ", ".join(f"{value} ({count} runs)" for value, count in values.most_common())


def _boots(side: pd.DataFrame) -> str:
    count = side["boot_id"].nunique()
    return "1 boot" if count == 1 else f"{count} boots"


def _requested(value: Any) -> str:
    """A value of the plan, as on the command line."""
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
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
