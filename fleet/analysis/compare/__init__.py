"""Comparing runs: the sides, the statistical tests, verdicts and warnings."""

from typing import TYPE_CHECKING

from fleet.late import import_on_access

if TYPE_CHECKING:
    from fleet.analysis.compare.accept import (
        MIN_VALUES,
        Outcome,
        find_first_slower,
        judge_last_runs,
        judge_numbers,
        leave_out_odd,
        predict_next,
    )
    from fleet.analysis.compare.baseline import choose_removable, mark_usual
    from fleet.analysis.compare.burst_levels import list_burst_levels
    from fleet.analysis.compare.caveats import (
        PairSummary,
        format_order,
        list_caveats,
        summarize_pairs,
    )
    from fleet.analysis.compare.comparison import Comparison, compare
    from fleet.analysis.compare.history import find_changes_over_time
    from fleet.analysis.compare.judge import (
        ALPHA,
        LeastSquares,
        apply_student,
        assign_passes,
        compute_level_probability,
        compute_nanmedian,
        compute_share_probability,
        control_false_discovery,
        estimate_detectable_change,
        find_chance_limits,
        fit_within_blocks,
        judge_rows,
        moderate_variances,
    )
    from fleet.analysis.compare.series_changes import (
        CALIBRATION,
        Calibration,
        Change,
        append_means,
        clean_series,
        drop_changes_of_parts,
        find_best_splits,
        find_changes,
        measure_parts,
    )
    from fleet.analysis.compare.siblings import (
        Distances,
        compare_cpus,
        compare_siblings,
        measure_distances,
        reduce_machines,
    )
    from fleet.analysis.compare.sides import ComparisonSide, resolve_sides
    from fleet.analysis.compare.verdicts import (
        NO_ORDER,
        THRESHOLD,
        SideRuns,
        Verdict,
        add_verdicts,
        judge_comparisons,
        lay_out_pairs,
        lay_out_relations,
        number_keys,
        reduce_to_relations,
    )

__getattr__ = import_on_access(__name__)
