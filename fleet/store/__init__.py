"""Store results in a root: journal what arrives, publish it, list it. Names are loaded
when first used.
"""

from typing import TYPE_CHECKING

from fleet.late import import_on_access

if TYPE_CHECKING:
    from fleet.store.journal import Journal
    from fleet.store.places import new_run_id, new_session_id
    from fleet.store.runs import Listing, RunSummary
    from fleet.store.store import Failure, Intent, Store, require_readable

__getattr__ = import_on_access(__name__)
