"""What comparisons and histories are about: rows per run and cell, in the columns of the table `pairs`.

Pairs of CPUs keep their relation. A plateau's relation is its level and setting, as "L2 read" or "mem copy
x64"; that of any other point is followed by its name, as "package written.chase.128K".
"""

from collections.abc import Callable, Sequence

import pandas as pd

from fleet.analysis.reduce.ladders import MEMORY, plateaus
from fleet.analysis.reduce.load import load_cpus, of_benchmark, view_of, without_points
from fleet.analysis.reduce.pairs import by_run, load_pairs, widened
from fleet.errors import UsageError
from fleet.model import Relation, View
from fleet.store import RunSummary
from fleet.store.runs import Root
from fleet.text import nearest, one_line

_RELATIONS = frozenset(map(str, Relation))
_SHOWN = 8


def cells(pairs: pd.DataFrame, cpus: pd.DataFrame, point: str | None = None) -> pd.DataFrame:
    """The rows to compare: of benchmarks of pairs their pairs, of ladders their plateaus.

    pairs: rows of the table `pairs`, widened. cpus: those of the table `cpus` of the same runs. point: only
    the rows of this point, each as measured. Raises UsageError where no run has it.
    """
    views = pairs["benchmark"].map(lambda name: view_of(str(name)))
    if point is not None:
        return _at_point(pairs, point)
    others = pairs[~views.isin([View.MATRIX, View.CPUS, View.LADDER])]
    points = (
        others["point"].astype(object).fillna("")
    )  # of a benchmark that nobody described there may be none
    at_point = (others["relation"].astype(object) + " " + points).map(str.rstrip)
    named = others.assign(relation=at_point)
    levels = plateaus(pairs, cpus)
    many = levels["threads"].map(lambda threads: f" x{threads}" if threads > 1 else "")
    levels = levels.assign(relation=levels["level"] + " " + levels["setting"] + many)
    parts = [without_points(pairs), named, levels]
    filled = [part for part in parts if len(part)]
    return pd.concat(filled, ignore_index=True) if filled else pairs[:0]


def are_pairs(relations: "pd.Series[str]") -> "pd.Series[bool]":
    """Which cells are pairs of CPUs, by their relation."""
    return relations.isin(_RELATIONS)


def history_of(
    root: Root,
    runs: Sequence[RunSummary],
    what: str,
    *,
    benchmark: str | None = None,
    point: bool = False,
    note: Callable[[str], None] | None = None,
) -> pd.DataFrame:
    """A row per run and cell, oldest first, in the columns of `reduce.pairs.history`.

    what: a level such as "L2", a level and its setting such as "L2 read", or if `point` a point's name.
    """
    ids = [run.run_id for run in runs]
    pairs = of_benchmark(widened(load_pairs(root, run_id=ids, note=note)), benchmark)
    rows = cells(pairs, load_cpus(root, run_id=ids), what if point else None)
    wanted = rows["relation"].map(lambda name: point or name == what or name.partition(" ")[0] == what)
    return by_run(runs, rows[wanted.astype(bool)])


def is_level(text: str) -> bool:
    """Whether a text begins with the name of a level of memory, such as "L2", "LLC" or "mem read"."""
    name = text.partition(" ")[0]
    return name in ("LLC", MEMORY) or (name[:1] == "L" and name[1:].isdigit())


def _at_point(pairs: pd.DataFrame, point: str) -> pd.DataFrame:
    rows = pairs[pairs["point"] == point]
    if rows.empty:
        known = sorted(pairs["point"].dropna().unique())
        listed = ", ".join(known[:_SHOWN]) + (", …" if len(known) > _SHOWN else "")
        raise UsageError(
            one_line(
                f"--point {point}: these runs have no such point{nearest(point, known)} "
                f"There are {listed or 'none'}."
            )
        )
    ladders = rows["benchmark"].map(lambda name: view_of(str(name)) is View.LADDER).astype(bool)
    return rows.assign(relation=rows["relation"].where(~ladders, point))
