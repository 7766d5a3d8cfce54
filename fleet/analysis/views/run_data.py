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
    """A run to show. pairs, relations: in plan order; relations from `list_relations`.
    counters: per unit. number: the column of `pairs` to show.
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
    number: str

    def select_relations(self, pairs: pd.DataFrame) -> pd.DataFrame:
        """Select the numbers of the relations of one benchmark, variant and point."""
        own = select_relations(self.relations, pairs)
        if len(own):
            return own
        # `numbers` has one point of a benchmark of pairs; this is another
        alone = pairs.assign(point=None)
        numbers = compute_numbers(alone, self.cpus, self.descriptions, self.number)
        return list_relations(numbers, self.descriptions)


def load_run_data(root: Root, run_id: str, only: Only) -> RunData:
    """Load the data that is shown of a run. Raises UsageError if nothing of `only` was
    measured.
    """
    (run,), _, cpus = load.read_runs(root, [run_id])
    descriptions = read_descriptions(run["hello"])
    all_pairs = as_float64(load_pairs(root, run_id=run_id))
    pairs_as_planned = sort_as_planned(all_pairs, run["benchmarks"])
    pairs = only.select(pairs_as_planned, cpus)
    measured_cpus = {*pairs["ping_cpu"], *pairs["pong_cpu"]}
    numbers = load_shown_numbers(root, [run], only, descriptions)
    relations = list_relations(numbers, descriptions)
    counters = load.load_counters(root, run_id=run_id)
    return RunData(
        run=run,
        cpus=cpus,
        order=make_layout(cpus, sorted(measured_cpus)),
        bursts=load.load_samples(root, run_id=run_id, columns=BURST_COLUMNS),
        pairs=pairs,
        relations=sort_as_planned(relations, run["benchmarks"]),
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
