"""Caches the rows of the files of `runs`, so that a listing opens only those it has not seen.

`_index/runs.json` in the state directory holds, for each file, its size and time and its rows as plain
values. It may be deleted, torn or old at any time: what does not fit is read again.
"""

import json
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fleet.store.files import read_regular
from fleet.store.places import Folder, Place

_FILE = "runs.json"
Rows = dict[str, list[dict[str, Any]]]  # by name of the file


def remembered(place: Place, names: Sequence[str], columns: Sequence[str]) -> Rows:
    """The rows of those files that are as they were when the index was written."""
    try:
        index = json.loads(read_regular(_folder(place) / _FILE))
        if index["columns"] != list(columns):
            return {}
        kept = index["files"]
        return {
            name: [dict(zip(columns, row, strict=True)) for row in kept[name][1]]
            for name in names
            if name in kept and kept[name][0] == _stamp(place, name)
        }
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return {}


def remember(place: Place, rows: Rows, columns: Sequence[str]) -> None:
    """Write the index anew; where that is not possible, listings only stay slower."""
    draft = _folder(place) / f".{_FILE}.{secrets.token_hex(4)}"
    try:
        index = {
            "columns": list(columns),
            "files": {
                name: [_stamp(place, name), [[row[column] for column in columns] for row in part]]
                for name, part in rows.items()
            },
        }
        draft.parent.mkdir(exist_ok=True)
        draft.write_text(json.dumps(index, separators=(",", ":")))
        draft.replace(draft.with_name(_FILE))
    except OSError:
        with suppress(OSError):
            draft.unlink()


def _folder(place: Place) -> Path:
    return place.state_dir / "_index"


def _stamp(place: Place, name: str) -> list[int]:
    """What changes when a file does; objects are never written twice."""
    if not isinstance(place, Folder):
        return []
    about = os.stat(place.path(name))  # noqa: PTH116  # a thousand of them: a third of the time
    return [about.st_size, about.st_mtime_ns]
