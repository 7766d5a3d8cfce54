"""Shows a session in progress below a cell of a notebook, in one line that is written
anew.
"""

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from fleet.console.rows import Rows
from fleet.model import Host
from fleet.session import events

_EVERY_S = 0.25


@contextmanager
def notebook_progress(hosts: Sequence[Host]) -> Iterator[events.EventHandler]:
    """Yield a handler that shows events; outside of a notebook it ignores them."""
    if not _is_in_notebook():
        yield events.ignore
        return
    line = _Line(hosts)
    yield line
    line.write()  # the last events may have come too soon after others to be written


def _is_in_notebook() -> bool:
    """Report whether a kernel of Jupyter runs this program."""
    ipython: Any = sys.modules.get("IPython")
    if ipython is None:
        return False
    return hasattr(ipython.get_ipython(), "kernel")


class _Line:
    """A line below the cell. It describes the session, at most four times a second."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        display: Any = import_module("IPython.display").display
        self._rows = Rows(hosts)
        self._writing = threading.Lock()
        self._wrote_at = self._rows.clock()
        self._shown = display(self._make_output(), raw=True, display_id=True)

    def __call__(self, event: events.Event) -> None:
        """Update the row of the event's host, and the line if it is time."""
        self._rows.update(event)
        if self._rows.clock() - self._wrote_at < _EVERY_S:
            return
        if self._writing.acquire(blocking=False):  # else another thread writes it
            try:
                self.write()
            finally:
                self._writing.release()

    def write(self) -> None:
        """Write the line anew."""
        self._wrote_at = self._rows.clock()
        self._shown.update(self._make_output(), raw=True)

    def _make_output(self) -> dict[str, str]:
        return {"text/plain": self._rows.describe_session()}
