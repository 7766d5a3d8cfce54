"""Read and analyse runs, also in notebooks. Only this package imports pandas. Its names
load on first use.
"""

from typing import TYPE_CHECKING

from fleet.late import import_on_access

if TYPE_CHECKING:
    from fleet.analysis.reduce.host_numbers import history
    from fleet.analysis.reduce.ladders import find_plateaus, select_ladder_steps
    from fleet.analysis.reduce.load import (
        load_counters,
        load_cpus,
        load_runs,
        load_samples,
        samples_long,
    )
    from fleet.analysis.reduce.matrices import matrix, pair_medians
    from fleet.analysis.reduce.numbers import load_numbers
    from fleet.analysis.reduce.pairs import load_pairs
    from fleet.analysis.reduce.topology import make_layout
    from fleet.analysis.reduce.topology_check import check_topology
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
