"""Says which runs a side of a comparison means: run ids, a host, a label, or a label on a host."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fleet.analysis.reduce.load import load_runs
from fleet.errors import UsageError

_SHOWN = 8
_FORMS = "A side is a run, runs joined by commas, a host, label=value, or host@label=value"


@dataclass(frozen=True, slots=True)
class ComparisonSide:
    """One side: as it was typed, and its rows of the `runs` table, oldest first."""

    name: str
    runs: pd.DataFrame

    @property
    def hosts(self) -> list[str]:
        """The hosts its runs are of."""
        return sorted(self.runs["host_id"].unique())

    def of_host(self, host_id: str) -> "ComparisonSide":
        """The runs on one host, named host@side."""
        name = self.name if self.name.startswith(f"{host_id}@") else f"{host_id}@{self.name}"
        return ComparisonSide(name, self.runs[self.runs["host_id"] == host_id].reset_index(drop=True))


def sides(root: str | Path, texts: Sequence[str]) -> list[ComparisonSide]:
    """The sides that `texts` mean. Raises UsageError if one means nothing, or two share a run."""
    runs = load_runs(root).sort_values(["started_utc", "run_id"], kind="stable").reset_index(drop=True)
    if runs.empty:
        raise UsageError(f"{root}: no run is stored here yet; `fleet run` measures, --results names a root.")
    labels = [json.loads(text) for text in runs["labels_json"]]
    found = [ComparisonSide(text, _matching(runs, labels, text)) for text in texts]
    for place, side in enumerate(found):
        for other in found[:place]:
            shared = sorted(set(side.runs["run_id"]) & set(other.runs["run_id"]))
            if shared:
                raise UsageError(
                    f"run {shared[0]} is on both sides, {other.name!r} and {side.name!r}; a run compared "
                    f"with itself proves nothing. Narrow one of them."
                )
    return found


def _matching(runs: pd.DataFrame, labels: Sequence[dict[str, str]], text: str) -> pd.DataFrame:
    host, at, label = text.rpartition("@")
    if "=" in host:  # the @ stands in the label's value
        host, at, label = "", "", text
    key, equals, value = label.partition("=")
    if not equals:
        chosen = {_run(runs, part) for part in text.split(",") if part} if "," in text else None
        named = (runs["host_name"] == text) | (runs["host_id"] == text)
        if chosen is None:
            chosen = set(runs["run_id"][named]) if named.any() else {_run(runs, text)}
        return runs[runs["run_id"].isin(chosen)].reset_index(drop=True)
    marked = pd.Series([of_run.get(key) == value for of_run in labels], index=runs.index)
    if at:
        marked &= (runs["host_name"] == host) | (runs["host_id"] == host)
    if not marked.any():
        there = sorted({f"{k}={v}" for of_run in labels for k, v in of_run.items()})
        raise UsageError(f"no run has {text!r}. Labels there are: {_some(there)}. {_FORMS}.")
    return runs[marked].reset_index(drop=True)


def _run(runs: pd.DataFrame, text: str) -> str:
    """The one run whose id is `text` or begins so."""
    begun = [run_id for run_id in runs["run_id"] if run_id.startswith(text)]
    if text in begun:
        return text
    if len(begun) == 1:
        return str(begun[0])
    if begun:
        raise UsageError(f"{text!r} is the beginning of {len(begun)} runs: {_some(begun)}. Type more of it.")
    raise UsageError(
        f"no run and no host {text!r}. Hosts: {_some(sorted(runs['host_name'].unique()))}. {_FORMS}."
    )


def _some(names: Sequence[str]) -> str:
    return (", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")) or "none"
