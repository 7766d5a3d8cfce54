"""Reduce raw samples to numbers: load, then bursts, pairs and matrices; levels, flags
and topology.
"""

from typing import TYPE_CHECKING

from fleet.late import import_on_access

if TYPE_CHECKING:
    from fleet.analysis.reduce.burst_levels import (
        DIRECTION_BURSTS,
        DRIFT_CHANGE,
        estimate_half_widths,
        find_asymmetry,
        find_drift,
        find_half_sample_modes,
        find_main_bursts,
        summarize_bursts,
    )
    from fleet.analysis.reduce.bursts import SAMPLE_COLUMNS, read_bursts
    from fleet.analysis.reduce.cells import name_cells, name_cells_of_point
    from fleet.analysis.reduce.closest import find_closest_sets
    from fleet.analysis.reduce.cross_checks import (
        CHECKS,
        CROSS_CHECK_MEANINGS,
        check_run,
        select_breaches,
    )
    from fleet.analysis.reduce.flags import (
        MEANINGS,
        PAIR_FLAGS,
        add_pair_flags,
        compute_sibling_nearness,
    )
    from fleet.analysis.reduce.group_halves import (
        PairHalves,
        estimate_group_halves,
    )
    from fleet.analysis.reduce.heatmap import SHADES, map_groups
    from fleet.analysis.reduce.host_numbers import (
        history,
        list_levels,
        load_history,
        load_overview,
        select_overview,
        summarize_hosts,
        summarize_levels,
    )
    from fleet.analysis.reduce.interval import (
        compute_half_widths_of_runs,
        count_effective,
        student_t,
    )
    from fleet.analysis.reduce.ladders import (
        MemoryHierarchy,
        arrange_memory,
        describe_memory,
        find_plateaus,
        format_size,
        name_setting,
        select_ladder_steps,
        select_node_cells,
    )
    from fleet.analysis.reduce.line_place import (
        compute_variance_share,
        explain_place_scatter,
    )
    from fleet.analysis.reduce.load import (
        drop_points,
        load_cpus,
        load_run,
        load_runs,
        load_samples,
        merge_descriptions,
        read_runs,
        samples_long,
    )
    from fleet.analysis.reduce.matrices import (
        choose_number_column,
        matrix,
        pair_medians,
    )
    from fleet.analysis.reduce.numbers import (
        Only,
        compute_numbers,
        list_relations,
        load_numbers,
        select_numbers,
        verify_numbers,
    )
    from fleet.analysis.reduce.pairs import (
        STATS_VERSION,
        as_float64,
        load_pairs,
        reduce_run,
        verify_pairs,
    )
    from fleet.analysis.reduce.run_levels import (
        add_run_levels,
        estimate_scatter,
        find_main_levels,
        label_levels,
        label_levels_of_each,
        label_levels_of_hosts,
    )
    from fleet.analysis.reduce.topology import GROUPS, Layout, lay_out_cpus, make_layout
    from fleet.analysis.reduce.topology_check import FINDING_MEANINGS, check_topology

__getattr__ = import_on_access(__name__)
