"""Lists what differs between the environments of two sides: kernel, governor, plan, agent, ..."""

from collections import Counter

import pandas as pd

from fleet.analysis.reduce.environment import UNKNOWN, environment_of
from fleet.analysis.reduce.load import decoded
from fleet.analysis.views.text import records


def environment(a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    """A row per difference: `what`, `a`, `b` (values as text, most frequent first), `between`.

    between: no value is on both sides; else it varies within a side, and is no difference between the two.

    a, b: rows of the `runs` table. A value that changes within a side is listed unless the other side has the
    same set of values.
    """
    facts_a, facts_b = ([environment_of(decoded(row)) for row in records(side)] for side in (a, b))
    names = list(dict.fromkeys(name for run in (*facts_a, *facts_b) for name in run))
    rows = []
    for name in names:
        values = [Counter(run.get(name, UNKNOWN) for run in side) for side in (facts_a, facts_b)]
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
