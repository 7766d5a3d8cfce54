"""Read and analyse runs, also in notebooks. Only this package imports pandas. Its names
load on first use.
"""

from typing import TYPE_CHECKING

from fleet.late import import_on_access

if TYPE_CHECKING:
    from fleet.analysis.tables import (
        check_topology,
        find_plateaus,
        history,
        load_counters,
        load_cpus,
        load_numbers,
        load_pairs,
        load_runs,
        load_samples,
        make_layout,
        matrix,
        pair_medians,
        samples_long,
        select_ladder_steps,
    )
else:  # a type checker then sees a name that is not there
    __getattr__ = import_on_access(__name__)

__all__ = [
    "check_topology",
    "find_plateaus",
    "history",
    "load_counters",
    "load_cpus",
    "load_numbers",
    "load_pairs",
    "load_runs",
    "load_samples",
    "make_layout",
    "matrix",
    "pair_medians",
    "samples_long",
    "select_ladder_steps",
]


def __dir__() -> list[str]:
    return __all__
