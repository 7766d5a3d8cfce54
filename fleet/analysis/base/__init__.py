"""Selecting runs, tables of pandas, and formatting: what every part of `analysis` stands on."""

from typing import TYPE_CHECKING

from fleet.late import import_on_access

if TYPE_CHECKING:
    from fleet.analysis.base.selection import find_run, last_session, select
    from fleet.analysis.base.tables import Bools, Floats
    from fleet.analysis.base.text import (
        SHARED,
        change_shown,
        csv_text,
        fitted,
        json_text,
        measured,
        pair_text,
        units_text,
    )

__getattr__ = import_on_access(__name__)
