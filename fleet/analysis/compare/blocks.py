"""Blocks of runs of both sides: what changes from block to block is no part of their difference."""

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pandas as pd

from fleet.analysis.compare.sides import ComparisonSide
from fleet.errors import UsageError

BY_TIME = "time"


class InBlock(NamedTuple):
    """The block a run is in, and its turn among the runs of both sides by time; 0: not by time."""

    block: str
    turn: int


def blocks_of(a: ComparisonSide, b: ComparisonSide, by: str) -> dict[str, InBlock]:
    """The block of each run that is in one with runs of both sides; by: "time", or the name of a label.

    By time, a block ends as soon as it has runs of both sides. UsageError for no label, or no block.
    """
    runs = pd.concat([a.runs.assign(of_b=False), b.runs.assign(of_b=True)])
    runs = runs.sort_values(["started_utc", "run_id"], kind="stable")
    placed = map(str, by_time(runs["of_b"])) if by == BY_TIME else _by_label(runs, by)
    named = dict(zip(runs["run_id"], placed, strict=True))
    sides = runs.assign(block=runs["run_id"].map(named)).groupby("block")["of_b"].nunique()
    found = {
        run: InBlock(block, turn if by == BY_TIME else 0)
        for turn, (run, block) in enumerate(named.items())
        if sides[block] == 2
    }
    if not found:
        raise UsageError(f"--blocks {by}: no block has runs of both sides, {a.name!r} and {b.name!r}.")
    return found


def by_time(of_b: Iterable[bool]) -> list[int]:
    """The block of each run, in order of time; of_b: the side of each."""
    sides, found, ended = set[bool](), [], 0
    for side in of_b:
        found.append(ended)
        sides.add(bool(side))
        if len(sides) == 2:
            ended += 1
            sides.clear()
    return [min(block, max(ended - 1, 0)) for block in found]


def _by_label(runs: pd.DataFrame, name: str) -> Iterator[str]:
    for run_id, labels in zip(runs["run_id"], runs["labels_json"], strict=True):
        value = json.loads(labels).get(name)
        if value is None:
            raise UsageError(f"--blocks {name}: run {run_id} has no label {name!r}; label it, or use time.")
        yield str(value)
