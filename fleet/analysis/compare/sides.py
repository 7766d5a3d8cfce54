"""Resolves the sides of a comparison to runs: run ids, a host, a label, or a label on a host."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fleet.analysis.reduce.load import load_runs, published
from fleet.errors import UsageError
from fleet.store import RunSummary

_SHOWN = 8
_FORMS = "A side is a run, runs joined by commas, a host, label=value, or host@label=value"


@dataclass(frozen=True, slots=True)
class ComparisonSide:
    """One side: its name on the command line, and its rows of the `runs` table, oldest first."""

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
    """The sides named by `texts`. Raises UsageError if one matches no run, or two share a run."""
    stored = published(root)
    if not stored:
        raise UsageError(f"{root}: no runs are stored here. `fleet run` measures; --results names a root.")
    chosen = {text: _matching(stored, text) for text in texts}
    runs = load_runs(root, run_id={run_id for ids in chosen.values() for run_id in ids})
    found = [
        ComparisonSide(text, runs[runs["run_id"].isin(ids)].reset_index(drop=True))
        for text, ids in chosen.items()
    ]
    for place, side in enumerate(found):
        for other in found[:place]:
            shared = sorted(set(side.runs["run_id"]) & set(other.runs["run_id"]))
            if shared:
                raise UsageError(
                    f"run {shared[0]} is on both sides, {other.name!r} and {side.name!r}; a run cannot "
                    f"be compared with itself. Make one of them narrower."
                )
    return found


def _matching(runs: Sequence[RunSummary], text: str) -> set[str]:
    """The ids of the runs that `text` means."""
    host, at, label = text.rpartition("@")
    if "=" in host:  # the @ stands in the label's value
        host, at, label = "", "", text
    key, equals, value = label.partition("=")
    if not equals:
        if "," in text:
            return {_run(runs, part) for part in text.split(",") if part}
        return {run.run_id for run in runs if _is_of(run, text)} or {_run(runs, text)}
    found = {
        run.run_id for run in runs if dict(run.labels).get(key) == value and (not at or _is_of(run, host))
    }
    if not found:
        there = sorted({f"{k}={v}" for run in runs for k, v in run.labels})
        raise UsageError(f"no run has the label {text!r}. Labels: {_some(there)}. {_FORMS}.")
    return found


def _is_of(run: RunSummary, host: str) -> bool:
    return host in (run.host_name, run.host_id)


def _run(runs: Sequence[RunSummary], text: str) -> str:
    """The one run whose id is `text` or begins with it."""
    begun = [run.run_id for run in runs if run.run_id.startswith(text)]
    if text in begun:
        return text
    if len(begun) == 1:
        return begun[0]
    if begun:
        raise UsageError(f"{text!r} matches {len(begun)} runs: {_some(begun)}. Give more of the id.")
    hosts = sorted({run.host_name for run in runs})
    raise UsageError(f"no run and no host {text!r}. Hosts: {_some(hosts)}. {_FORMS}.")


def _some(names: Sequence[str]) -> str:
    return (", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")) or "none"
