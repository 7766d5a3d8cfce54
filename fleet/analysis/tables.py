"""The functions that `fleet.analysis` offers: those of the rooms below, with one dtype
a column (`set_dtypes`) in the tables that they return and take.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import pandas as pd

from fleet.analysis.base.dtypes import drop_dtypes, set_dtypes
from fleet.analysis.reduce import (
    host_numbers,
    ladders,
    load,
    matrices,
    numbers,
    pairs,
    topology,
    topology_check,
)

P = ParamSpec("P")
R = TypeVar("R")


def publish(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function for callers outside fleet.

    The tables that it takes may have the dtypes of `set_dtypes`; `function` gets them
    with the plain dtypes that fleet's own functions need. A table that it returns has
    those of `set_dtypes`.
    """

    @wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> R:
        plain: Any = [_drop_dtypes_of_table(argument) for argument in arguments]
        named: Any = {
            name: _drop_dtypes_of_table(value) for name, value in keywords.items()
        }
        result: Any = function(*plain, **named)
        if isinstance(result, pd.DataFrame):
            return set_dtypes(result)  # type: ignore[return-value]  # R is a frame here
        return result  # type: ignore[no-any-return]

    return call


def _drop_dtypes_of_table(argument: object) -> object:
    """Return a table with plain dtypes, and any other argument as it is."""
    if isinstance(argument, pd.DataFrame):
        return drop_dtypes(argument)
    return argument


check_topology = publish(topology_check.check_topology)
find_plateaus = publish(ladders.find_plateaus)
history = publish(host_numbers.history)
load_counters = publish(load.load_counters)
load_cpus = publish(load.load_cpus)
load_numbers = publish(numbers.load_numbers)
load_pairs = publish(pairs.load_pairs)
load_runs = publish(load.load_runs)
load_samples = publish(load.load_samples)
make_layout = publish(topology.make_layout)
matrix = publish(matrices.matrix)
pair_medians = publish(matrices.pair_medians)
samples_long = publish(load.samples_long)
select_ladder_steps = publish(ladders.select_ladder_steps)
