"""Build one self-contained HTML page about one or more runs: see `page.render`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleet.errors import UsageError
from fleet.late import import_on_access
from fleet.store.files import require_regular

if TYPE_CHECKING:
    from fleet.analysis.report.card import (
        FORMATS,
        Card,
        lay_out_card,
        make_card,
        render_paste_text,
        to_png,
    )
    from fleet.analysis.report.figures import Margins, draw
    from fleet.analysis.report.host_picture import (
        draw_hosts,
        lay_out_host_picture,
        render_hosts_paste_text,
    )
    from fleet.analysis.report.ladders import build_ladders
    from fleet.analysis.report.markup import CARDS, require_writable_output
    from fleet.analysis.report.page import render
    from fleet.analysis.report.site import STATE, write_site

_import_name = import_on_access(__name__)
_SETTINGS = Path("matplotlibrc")  # matplotlib reads it from the current folder


def __getattr__(name: str) -> Any:
    """Import a name when it is first used.

    Most of the names import matplotlib, which then reads the file _SETTINGS of the
    current folder. Raises UsageError if that is no regular file: matplotlib would wait
    without end for a named pipe.
    """
    # matplotlib ignores a folder of that name
    if _SETTINGS.exists() and not _SETTINGS.is_dir():
        try:
            require_regular(_SETTINGS, "a file of settings; move it away")
        except OSError as err:
            raise UsageError(f"{_SETTINGS.absolute()}: {err}.") from err
    return _import_name(name)
