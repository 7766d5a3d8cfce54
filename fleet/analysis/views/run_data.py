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
from fleet.analysis.reduce.numbers import (
    Only,
    compute_numbers,
    list_relations,
    load_shown_numbers,
    select_relations,
)
from fleet.analysis.reduce.pairs import as_float64, load_pairs
from fleet.analysis.reduce.topology import Layout, make_layout
from fleet.analysis.views.event_tables import count_per_unit
from fleet.analysis.views.marked_rows import BURST_COLUMNS
from fleet.model import Descriptions, read_descriptions
from fleet.store.runs import Root


@dataclass(frozen=True, slots=True)
class RunData:
    """A run to show.

    pairs: in the order of the plan. relations: from `list_relations`, in the same
    order; of a benchmark of pairs with several points, only the usual point. counters:
    from `count_per_unit`. number_column: the column of `pairs` that is shown, that of
    the run's estimator.
    """

    run: dict[str, Any]
    cpus: pd.DataFrame
    order: Layout
    bursts: pd.DataFrame
    pairs: pd.DataFrame
    relations: pd.DataFrame
    memory: MemoryHierarchy
    counters: pd.DataFrame
    descriptions: Descriptions
    number_column: str

    def select_relations(self, pairs: pd.DataFrame) -> pd.DataFrame:
        """Select the numbers of the relations of `pairs`, which are of one benchmark,
        variant and point. A point is one setting of the benchmark's parameters.
        """
        loaded = select_relations(self.relations, pairs)
        if len(loaded):
            return loaded
        # Of a benchmark of pairs, only the numbers of the usual point are loaded: the
        # point whose number stands for the pair. These pairs are of another point, so
        # their numbers are computed here. `compute_numbers` takes only pairs of the
        # usual point or without a point, so these pairs are given to it without.
        without_point = pairs.assign(point=None)
        numbers = compute_numbers(
            without_point, self.cpus, self.descriptions, self.number_column
        )
        return list_relations(numbers, self.descriptions)


def load_run_data(root: Root, run_id: str, only: Only) -> RunData:
    """Load the data that is shown of a run. The numbers of its relations are of the
    estimator that the run's preset chose: the median, the mean or the smallest sample.
    Raises UsageError if nothing of `only` was measured.
    """
    runs, _, cpus = load.read_runs(root, [run_id])
    (run,) = runs
    descriptions = read_descriptions(run["hello"])
    planned = run["benchmarks"]
    all_pairs = as_float64(load_pairs(root, run_id=run_id))
    pairs = only.select(sort_as_planned(all_pairs, planned), cpus)
    measured_cpus = {*pairs["ping_cpu"], *pairs["pong_cpu"]}
    numbers = load_shown_numbers(root, [run], only, descriptions)
    relations = list_relations(numbers, descriptions)
    bursts = load.load_samples(root, run_id=run_id, columns=BURST_COLUMNS)
    counters = load.load_counters(root, run_id=run_id)
    return RunData(
        run=run,
        cpus=cpus,
        order=make_layout(cpus, sorted(measured_cpus)),
        bursts=bursts,
        pairs=pairs,
        relations=sort_as_planned(relations, planned),
        memory=arrange_memory(pairs, cpus, descriptions),
        counters=count_per_unit(counters, pairs),
        descriptions=descriptions,
        number_column=estimator_column(run),
    )


def sort_as_planned(rows: pd.DataFrame, planned: Sequence[str]) -> pd.DataFrame:
    """Sort rows by benchmark and variant. planned: these in order; others come
    last.
    """
    places = {choice: place for place, choice in enumerate(planned)}
    last_place = len(places)
    choices = load.name_benchmarks(rows)
    ranks = choices.map(lambda choice: places.get(choice, last_place))
    order = ranks.argsort(kind="stable")
    return rows.iloc[order].reset_index(drop=True)
