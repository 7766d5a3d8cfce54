"""From raw samples to numbers: load, then bursts, pairs and matrices; levels, flags and topology."""

from typing import TYPE_CHECKING

from fleet.late import import_on_access

if TYPE_CHECKING:
    from fleet.analysis.reduce.burst_levels import (
        DIRECTION_BURSTS,
        DRIFT_CHANGE,
        asymmetry,
        describe_rows,
        find_drift,
        find_main_bursts,
        find_main_runs,
        half_sample_modes,
        halves,
    )
    from fleet.analysis.reduce.bursts import SAMPLE_COLUMNS, of_arrow
    from fleet.analysis.reduce.comparison_rows import (
        Only,
        build_comparison_rows,
        history_of,
        overview,
        overview_history,
    )
    from fleet.analysis.reduce.cross_checks import CHECKS, CROSS_CHECK_MEANINGS, breaches, compared
    from fleet.analysis.reduce.flags import MEANINGS, PAIR_FLAGS, SIBLING_NEARER, not_nearest, with_pair_flags
    from fleet.analysis.reduce.heatmap import SHADES
    from fleet.analysis.reduce.interval import LEAST_RUNS, between_runs, effective_count, student_t
    from fleet.analysis.reduce.ladders import (
        find_plateaus,
        node_cells,
        select_ladder_steps,
        setting_of,
        size_text,
    )
    from fleet.analysis.reduce.load import (
        load_cpus,
        load_run,
        load_runs,
        load_samples,
        read_runs,
        samples_long,
        without_points,
    )
    from fleet.analysis.reduce.matrices import by_relation, matrix, pair_medians, relations
    from fleet.analysis.reduce.pairs import (
        STATS_VERSION,
        history,
        load_pairs,
        pairs_of_run,
        verify_pairs,
        widened,
    )
    from fleet.analysis.reduce.topology import GROUPS, Layout, layout, layout_of
    from fleet.analysis.reduce.topology_check import check_topology

__getattr__ = import_on_access(__name__)
