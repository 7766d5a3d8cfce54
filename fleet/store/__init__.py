"""The results root: journal what arrives, publish it as tables, say what is there.

`places` says where a root is, `schema` what the tables are; `rows` fills them, `journal` and `publish` write,
`runs` reads. A name is loaded when it is first used, and pyarrow inside the functions that need it, so that a
command which stores nothing does not pay for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet.store.ids import new_run_id, new_session_id
    from fleet.store.journal import Journal
    from fleet.store.runs import Listing, RunSummary
    from fleet.store.sessions import Intent
    from fleet.store.store import Store

__all__ = ["Intent", "Journal", "Listing", "RunSummary", "Store", "new_run_id", "new_session_id"]

_HOMES = {
    "Intent": "sessions",
    "Journal": "journal",
    "Listing": "runs",
    "RunSummary": "runs",
    "Store": "store",
    **dict.fromkeys(("new_run_id", "new_session_id"), "ids"),
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"fleet.store.{_HOMES[name]}"), name)
