"""Build one self-contained HTML page about one or more runs: see `page.render`."""

from typing import TYPE_CHECKING

from fleet.late import import_on_access

if TYPE_CHECKING:
    from fleet.analysis.report.card import (
        FORMATS,
        Card,
        lay_out_card,
        make_card,
        render_paste_text,
        to_png,
    )
    from fleet.analysis.report.figures import draw
    from fleet.analysis.report.ladders import build_ladders
    from fleet.analysis.report.markup import CARDS, require_writable_output
    from fleet.analysis.report.page import render
    from fleet.analysis.report.site import STATE, write_site

__getattr__ = import_on_access(__name__)
