"""Import and export: matrices of other tools, and the summaries made from them."""

from typing import TYPE_CHECKING

from fleet.late import import_on_access

if TYPE_CHECKING:
    from fleet.analysis.exchange.export import (
        export_matrix,
        export_numbers,
        export_samples,
        render_markdown,
    )
    from fleet.analysis.exchange.guess import guess_topology
    from fleet.analysis.exchange.imports import (
        ImportMetadata,
        compute_model_medians,
        find_summaries,
        find_summary,
        import_files,
        is_guessed,
        load_imports,
        load_published,
        make_grid,
        make_summary_rows,
    )
    from fleet.analysis.exchange.number_table import write_number_table
    from fleet.analysis.exchange.openmetrics import render_openmetrics
    from fleet.analysis.exchange.run_files import import_runs
    from fleet.analysis.exchange.sides_table import render_sides
    from fleet.analysis.exchange.summaries import (
        render_summaries,
        tabulate_side_medians,
    )
    from fleet.analysis.exchange.tools import TOOLS, WRITERS, Grid, read_matrices

__getattr__ = import_on_access(__name__)
