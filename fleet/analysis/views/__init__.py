"""Text for people, and JSON and CSV for programs, printed by the reading commands."""

from typing import TYPE_CHECKING

from fleet.late import import_on_access

if TYPE_CHECKING:
    from fleet.analysis.views.accept import render_acceptance
    from fleet.analysis.views.benchmark_tables import render_tables
    from fleet.analysis.views.changes import (
        changes_as_csv,
        changes_as_json,
        render_changes,
    )
    from fleet.analysis.views.chosen_runs import select_runs_to_show
    from fleet.analysis.views.closest import (
        format_closest_sets,
        load_closest_sets,
        render_closest_sets,
    )
    from fleet.analysis.views.compare import (
        comparisons_as_csv,
        comparisons_as_json,
        render_comparisons,
    )
    from fleet.analysis.views.event_tables import count_per_unit, tabulate_events
    from fleet.analysis.views.headlines import render_headline
    from fleet.analysis.views.heatmap import NO_LIMIT, Canvas, draw_matrix
    from fleet.analysis.views.histograms import (
        find_main_level,
        make_bins,
        render_histograms,
    )
    from fleet.analysis.views.host_columns import group_columns
    from fleet.analysis.views.ladder_tables import render_ladder
    from fleet.analysis.views.marked_rows import (
        load_marked_bursts,
        verify_marked_bursts,
    )
    from fleet.analysis.views.odd_machines import (
        render_siblings,
        siblings_as_csv,
        siblings_as_json,
    )
    from fleet.analysis.views.overview import (
        render_extremes,
        render_heading,
        render_host_table,
    )
    from fleet.analysis.views.pair_bursts import (
        load_pair_bursts,
        load_pair_samples,
    )
    from fleet.analysis.views.point_tables import tabulate_points
    from fleet.analysis.views.product_tables import add_peak_shares
    from fleet.analysis.views.run_history import render_relation_history
    from fleet.analysis.views.run_page import Detail
    from fleet.analysis.views.runs import render_runs, runs_as_json
    from fleet.analysis.views.show import (
        render_maps,
        show_as_csv,
        show_as_json,
        show_run,
        show_runs,
    )
    from fleet.analysis.views.sparkline import draw_sparkline
    from fleet.analysis.views.topology import describe_topology, list_cpu_groups
    from fleet.analysis.views.usual import (
        UsualNumbers,
        describe_interval,
        load_usual_numbers,
    )
    from fleet.analysis.views.warnings import ADVICE, RunWarning, fold_warnings

__getattr__ = import_on_access(__name__)
