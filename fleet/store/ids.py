"""Make the IDs of runs and sessions from time and a random end, so that controllers need not coordinate."""

import os
import re
from datetime import UTC, datetime

from fleet.errors import StoreError
from fleet.model.host import NOT_TEXT_IN_PATHS

RUN_FILE = "run.json"  # in a journal: what is measured
KEY = rf"^(?!(?i:{'|'.join(NOT_TEXT_IN_PATHS)})\Z)[A-Za-z][A-Za-z0-9._-]{{0,127}}\Z"
_KEY = re.compile(KEY)


def new_run_id(now: datetime | None = None) -> str:
    """Make a run ID, `rYYYYMMDDThhmmssZ-xxxxxxxx`, sorted by time; digits alone would be read as a number."""
    return _make_id("r", now)


def new_session_id(now: datetime | None = None) -> str:
    """Make a session ID: like a run ID, but with `s`."""
    return _make_id("s", now)


def require_key(key: str, what: str) -> str:
    """Return `key` if it can stand in a path of the dataset, else raise StoreError."""
    if not _KEY.fullmatch(key):
        raise StoreError(
            f"{what} {key!r} cannot be a key in the tables: a letter, then letters, digits, '.', '_' or '-'; "
            f"and not {', '.join(NOT_TEXT_IN_PATHS)}."
        )
    return key


def _make_id(letter: str, now: datetime | None) -> str:
    moment = (now or datetime.now(UTC)).astimezone(UTC)
    return f"{letter}{moment:%Y%m%dT%H%M%SZ}-{os.urandom(4).hex()}"
