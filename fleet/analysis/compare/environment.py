"""Lists what differs between the environments of two sides: kernel, governor, plan, agent, ..."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

# Columns of `runs` that explain a number; ids, moments and loads are not among them.
FACTS = (
    "target",
    "cpu_model",
    "cpu_family",
    "cpu_model_number",
    "cpu_stepping",
    "microcode",
    "board",
    "firmware",
    "cpus_measured",
    "smt",
    "hypervisor",
    "container",
    "distribution",
    "kernel",
    "kernel_version",
    "kernel_cmdline",
    "libc",
    "governor",
    "frequency_driver",
    "boost",
    "idle_driver",
    "idle_state",
    "idle_exit_us",
    "isolated_cpus",
    "nohz_full_cpus",
    "irqbalance",
    "numa_balancing",
    "huge_pages",
    "page_bytes",
    "cpu_quota",
    "rt_runtime_us",
    "clock",
    "clock_source",
    "ticks_per_second",
    "user",
    "agent_build",
    "agent_compiler",
    "agent_cflags",
    "preset",
    "estimator",
)
_OBJECTS = {"labels_json": "label", "mitigations_json": "mitigation", "plan_json": "plan"}
_NO_DIFFERENCE = {"plan.seed", "plan.deadline_s"}
_CLOCK_RATE = 3  # significant figures; two calibrations of one clock differ beyond
_UNKNOWN = "unknown"


def environment(a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    """A row per difference: `what`, `a`, `b` (values as text, most frequent first), `between`.

    between: no value is on both sides; else it varies within a side, and is no difference between the two.

    a, b: rows of the `runs` table. A value that changes within a side is listed unless the other side has the
    same set of values.
    """
    facts_a, facts_b = ([_facts(row) for row in side.to_dict("records")] for side in (a, b))
    names = list(dict.fromkeys(name for run in (*facts_a, *facts_b) for name in run))
    rows = []
    for name in names:
        values = [Counter(run.get(name, _UNKNOWN) for run in side) for side in (facts_a, facts_b)]
        if set(values[0]) != set(values[1]) and name not in _NO_DIFFERENCE:
            between = not set(values[0]) & set(values[1])
            rows.append({"what": name, "a": _listed(values[0]), "b": _listed(values[1]), "between": between})
    if not set(a["boot_id"].dropna()) & set(b["boot_id"].dropna()) and _one_host(a, b):
        rows.append({"what": "boot", "a": _boots(a), "b": _boots(b), "between": True})
    return pd.DataFrame(rows, columns=["what", "a", "b", "between"])


def _facts(run: Mapping[Any, Any]) -> dict[str, str]:
    """The facts and the plan of a run as text, by name."""
    facts = {name: _text(name, run[name]) for name in FACTS}
    for column, kind in _OBJECTS.items():
        for key, value in json.loads(run[column]).items():
            facts[f"{kind}.{key}"] = _requested(value) if kind == "plan" else _text(key, value)
    return facts


def _requested(value: Any) -> str:
    """A value of the plan; a choice of pairs as on the command line."""
    if not isinstance(value, Mapping):
        return "default" if value is None else _text("", value)
    if value.get("listed"):
        return " ".join(f"{a}-{b}" for a, b in value["listed"])
    return f"{value['which']}:{value['per_relation']}" if value.get("per_relation") else str(value["which"])


def _text(name: str, value: Any) -> str:
    if not pd.api.types.is_scalar(value):
        return ",".join(map(str, value)) or "none"
    if value is None or pd.isna(value):
        return _UNKNOWN
    if name == "ticks_per_second":
        return f"{float(f'{value:.{_CLOCK_RATE}g}'):.0f}"
    return str(value)


def _listed(values: Counter[str]) -> str:
    if len(values) == 1:
        return next(iter(values))
    return ", ".join(f"{value} ({count} runs)" for value, count in values.most_common())


def _one_host(a: pd.DataFrame, b: pd.DataFrame) -> bool:
    known: Callable[[pd.DataFrame], bool] = lambda side: bool(side["boot_id"].notna().all())  # noqa: E731
    return set(a["host_id"]) == set(b["host_id"]) and known(a) and known(b)


def _boots(side: pd.DataFrame) -> str:
    count = side["boot_id"].nunique()
    return "1 boot" if count == 1 else f"{count} boots"
