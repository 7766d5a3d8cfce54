"""Load what `fleet show` shows of a run: pairs in the order of the plan, memory,
events.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from fleet.analysis.reduce import load
from fleet.analysis.reduce.ladders import MemoryHierarchy, arrange_memory
from fleet.analysis.reduce.matrices import estimator_column
from fleet.analysis.reduce.numbers import Only
from fleet.analysis.reduce.pairs import as_float64, load_pairs
from fleet.analysis.reduce.topology import Layout, make_layout
from fleet.analysis.views.event_tables import count_per_unit
from fleet.analysis.views.marked_rows import BURST_COLUMNS
from fleet.model import Descriptions, read_descriptions
from fleet.store.runs import Root


@dataclass(frozen=True, slots=True)
class RunData:
    """A run to show. pairs: in plan order. counters: per unit. number: the column of
    `pairs` to show.
    """

    run: dict[str, Any]
    cpus: pd.DataFrame
    order: Layout
    bursts: pd.DataFrame
    pairs: pd.DataFrame
    memory: MemoryHierarchy
    counters: pd.DataFrame
    descriptions: Descriptions
    number: str


def load_run_data(root: Root, run_id: str, only: Only) -> RunData:
    """Load the data that is shown of a run. Raises UsageError if nothing of `only` was
    measured.
    """
    (run,), _, cpus = load.read_runs(root, [run_id])
    descriptions = read_descriptions(run["hello"])
    stored = as_float64(load_pairs(root, run_id=run_id))
    planned = sort_as_planned(stored, run["benchmarks"])
    pairs = only.select(planned, cpus)
    measured = {*pairs["ping_cpu"], *pairs["pong_cpu"]}
    counters = load.load_counters(root, run_id=run_id)
    return RunData(
        run=run,
        cpus=cpus,
        order=make_layout(cpus, sorted(measured)),
        bursts=load.load_samples(root, run_id=run_id, columns=BURST_COLUMNS),
        pairs=pairs,
        memory=arrange_memory(pairs, cpus, descriptions),
        counters=count_per_unit(counters, pairs),
        descriptions=descriptions,
        number=estimator_column(run),
    )


def sort_as_planned(rows: pd.DataFrame, planned: Sequence[str]) -> pd.DataFrame:
    """Sort rows by benchmark and variant. planned: these in order; others come
    last.
    """
    places = {choice: place for place, choice in enumerate(planned)}
    choices = load.name_benchmarks(rows)
    ranks = choices.map(lambda choice: places.get(choice, len(places)))
    order = ranks.argsort(kind="stable")
    return rows.iloc[order].reset_index(drop=True)
