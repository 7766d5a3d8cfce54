"""The reading half, which alone imports pandas, for notebooks; a name is loaded when it is first used."""

from typing import TYPE_CHECKING

from fleet.late import import_on_access

if TYPE_CHECKING:
    from fleet.analysis.compare.verdicts import compare_pairs, compare_relations
    from fleet.analysis.exchange.imports import lay_out_published, load_published
    from fleet.analysis.reduce.ladders import ladders, plateaus
    from fleet.analysis.reduce.load import load_counters, load_cpus, load_runs, load_samples, samples_long
    from fleet.analysis.reduce.matrices import matrix, pair_medians
    from fleet.analysis.reduce.pairs import history, load_pairs
    from fleet.analysis.reduce.topology import layout
    from fleet.analysis.reduce.topology_check import check_topology

_HOMES = {
    "compare.verdicts": ("compare_pairs", "compare_relations"),
    "exchange.imports": ("load_published", "lay_out_published"),
    "reduce.ladders": ("ladders", "plateaus"),
    "reduce.load": ("load_counters", "load_cpus", "load_runs", "load_samples", "samples_long"),
    "reduce.matrices": ("matrix", "pair_medians"),
    "reduce.pairs": ("history", "load_pairs"),
    "reduce.topology": ("layout",),
    "reduce.topology_check": ("check_topology",),
}
__all__ = [name for names in _HOMES.values() for name in names]
__getattr__ = import_on_access(__name__, _HOMES)
