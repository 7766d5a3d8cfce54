"""Comparing runs: the sides, the statistical tests, verdicts and warnings."""

from typing import TYPE_CHECKING

from fleet.late import import_on_access

if TYPE_CHECKING:
    from fleet.analysis.compare.accept import (
        LEAST_VALUES,
        Outcome,
        judge_last_runs,
        judge_numbers,
        predict_next,
    )
    from fleet.analysis.compare.caveats import list_caveats, spell_order
    from fleet.analysis.compare.comparison import Comparison, compare, compare_burst_levels
    from fleet.analysis.compare.false_alarms import count_false_alarms, iter_orders
    from fleet.analysis.compare.history import drop_changes_of_parts, find_changes_over_time, mark_usual
    from fleet.analysis.compare.judge import (
        ALPHA,
        LeastSquares,
        apply_student,
        assign_passes,
        chance_of_levels,
        compute_nanmedian,
        control_false_discovery,
        detectable_change,
        estimate_scatter,
        fit_within_blocks,
        judge_rows,
        label_levels,
        moderate_variances,
    )
    from fleet.analysis.compare.over_time import (
        CALIBRATION,
        Calibration,
        Change,
        add_means,
        clean_series,
        find_best_splits,
        find_changes,
        measure_parts,
    )
    from fleet.analysis.compare.siblings import (
        LEAST_MACHINES,
        Distances,
        compare_cpus,
        compare_siblings,
        measure_distances,
        reduce_runs,
    )
    from fleet.analysis.compare.side_runs import SideRuns, find_chance_limits
    from fleet.analysis.compare.sides import ComparisonSide, resolve_sides
    from fleet.analysis.compare.verdicts import (
        THRESHOLD,
        Verdict,
        compare_pairs,
        compare_relations,
        conclude,
        judge_comparisons,
    )

__getattr__ = import_on_access(__name__)
