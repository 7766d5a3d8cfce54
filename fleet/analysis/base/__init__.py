"""Select runs, convert Arrow tables to pandas, and format text: used by all other parts
of `analysis`.
"""

from typing import TYPE_CHECKING

from fleet.late import import_on_access

if TYPE_CHECKING:
    from fleet.analysis.base.dtypes import drop_dtypes, set_dtypes
    from fleet.analysis.base.run_facts import find_last_runs, read_facts
    from fleet.analysis.base.selection import (
        filter_runs,
        find_last_session_runs,
        find_last_with_samples,
        find_run,
        select_runs,
    )
    from fleet.analysis.base.tables import PAIR_KEY, Bools, Floats, Ints
    from fleet.analysis.base.text import (
        SHARED,
        convert_change,
        describe_units,
        format_csv,
        format_document,
        format_json,
        format_pair,
        format_value,
        wrap_to_width,
    )

__getattr__ = import_on_access(__name__)
