"""The results root: journal what arrives, publish it as tables, say what is there.

`places` says where a root is, `schema` what the tables are; `rows` fills them, `journal` and `publish` write,
`summary` reads. pyarrow is imported inside the functions that need it, so that a command which stores
nothing does not pay for it.
"""

from fleet.store.ids import new_run_id, new_session_id
from fleet.store.journal import Journal
from fleet.store.runs import RunSummary
from fleet.store.sessions import Intent
from fleet.store.store import Store

__all__ = ["Intent", "Journal", "RunSummary", "Store", "new_run_id", "new_session_id"]
