"""Caches the rows of the files of `runs`, so that a listing opens only those it has not seen.

`_index/runs.jsonl` has the columns and benchmarks that this version knows, then a sealed line for each file
with its stamp and rows. It may be deleted, torn or old at any time: what does not fit is read again.
"""

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from fleet.model import BENCHMARKS
from fleet.store import gate
from fleet.store.checksums import opened_line, sealed_line
from fleet.store.files import draft, open_regular, read_regular
from fleet.store.places import Folder, Place

_FILE = "runs.jsonl"
Rows = Mapping[str, Sequence[Mapping[str, Any]]]  # by name of the file


class RunsIndex:
    """The index of a root as it is now."""

    def __init__(self, place: Place, columns: Sequence[str]) -> None:
        self._place, self._columns = place, tuple(columns)
        self._head = _line([self._columns, [*BENCHMARKS]])
        self._file = place.state_dir / "_index" / _FILE
        self._kept: dict[str, tuple[list[int], list[dict[str, Any]]]] = {}
        self._total, self._seen = 0, set[str]()
        try:
            head, *lines = read_regular(self._file).split(b"\n")
            self._fits = head + b"\n" == self._head
        except OSError:
            self._fits, lines = False, []
        for line in lines if self._fits else ():
            with suppress(ValueError):
                name, stamp, rows = gate.index_line(opened_line(line) or b"", self._columns)
                self._kept[name] = stamp, rows
                self._total += len(rows)

    def known(self, names: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
        """The rows of those of these files that are as they were when they were indexed."""
        found = {}
        for name in names:
            with suppress(OSError, KeyError):
                stamp, rows = self._kept[name]
                if stamp == self._stamp(name):
                    found[name] = rows
        self._seen |= found.keys()
        return found

    def gone(self, names: Collection[str]) -> dict[str, dict[str, Any]]:
        """The rows of files that are none of these, by run id: files now put together have them."""
        lists = (rows for name, (_, rows) in self._kept.items() if name not in names)
        return {row["run_id"]: row for rows in lists for row in rows}

    def keep(self, found: Rows) -> None:
        """Index the files that are there; where that is not possible, listings only stay slower."""
        same = sum(len(found[name]) for name in self._seen)
        with suppress(OSError):
            if not self._fits or self._total - same > same:
                lines = self._lines(found)
                self._place.state_dir.mkdir(exist_ok=True)
                self._file.parent.mkdir(exist_ok=True)
                with draft(self._place.state_dir, _FILE) as new_file:
                    new_file.write_bytes(b"".join([self._head, *lines]))
                    new_file.replace(self._file)
            elif new := {name: rows for name, rows in found.items() if name not in self._seen}:
                with os.fdopen(open_regular(self._file, os.O_WRONLY | os.O_APPEND), "ab") as file:
                    file.write(b"".join([b"\n", *self._lines(new)]))

    def _lines(self, found: Rows) -> list[bytes]:
        return [
            _line([name, self._stamp(name), [[row[column] for column in self._columns] for row in rows]])
            for name, rows in found.items()
        ]

    def _stamp(self, name: str) -> list[int]:
        """What changes when a file does; objects are never written twice."""
        if not isinstance(self._place, Folder):
            return []
        about = os.stat(self._place.path(name))  # noqa: PTH116  # a thousand of them: a third of the time
        return [about.st_size, about.st_mtime_ns]


def _line(value: Any) -> bytes:
    return sealed_line(json.dumps(value, separators=(",", ":"), default=datetime.isoformat).encode())
