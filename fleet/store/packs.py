"""Keeps what was read of many small runs in `_index`, a file a host and table; any may be deleted."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from fleet.errors import StoreError
from fleet.late import np
from fleet.store.checksums import opened_line, sealed_line
from fleet.store.columns import words
from fleet.store.files import draft, read_regular, write
from fleet.store.ids import checked_key
from fleet.store.places import Folder, Place, samples_name
from fleet.store.reading import TableFile, Where, chosen, joined, readable
from fleet.store.rows import RECORD, RunRecord, unpacked
from fleet.store.runs import RunSummary
from fleet.store.writing import write_table

_MANY = 32  # runs of a host; fewer are read from their own files
_SMALL = 4096  # bursts; opening the file of a larger run takes little beside reading it
_OLD_SHARE = 8  # one run in so many is read from its own file before the pack is made anew
_MARKS = b"fleet.packed_runs"

Own = Callable[[Sequence[RunSummary], Sequence[str] | None, Where], list[Any]]
"""Reads runs from their own files: of each a pyarrow table, None where it is left out."""


class _Pack(NamedTuple):
    """Rows of runs of a host, and by run id what they were made of."""

    rows: Any
    marks: Mapping[str, str]


class Packed(NamedTuple):
    """One sort of packs: its table, columns (None: all), and by run id a mark of what its rows are of."""

    name: str
    table: str
    columns: Sequence[str] | None
    marks: Mapping[str, str]


def packed(
    place: Place,
    sort: Packed,
    runs: Sequence[RunSummary],
    own: Own,
    columns: Sequence[str] | None,
    where: Where,
) -> Any:
    """The rows of runs in order, from packs where that is quicker, else by `own`. columns: None for all."""
    name, table, kept, marks = sort
    if not (many := _many(runs)):
        return joined([rows for rows in own(runs, columns, where) if rows is not None], table, columns)
    wanted = columns if columns is None or "run_id" in columns else [*columns, "run_id"]
    parts, packs_have = [], set[str]()
    for host, of_host in many.items():
        file = place.state_dir / _name(name, host, "parquet")
        pack = _read(place, file, table, kept)
        lacking = [run for run in of_host if pack.marks.get(run.run_id) != marks[run.run_id]]
        if len(lacking) * _OLD_SHARE > len(of_host):
            read = zip(lacking, own(lacking, kept, {}), strict=True)
            pack = _renewed(
                pack, {run.run_id: rows for run, rows in read if rows is not None}, marks, table, kept
            )
            _put(place, file, partial(_write, pack=pack))
            lacking = []  # of these none can be read
        there = {run.run_id for run in of_host} - {run.run_id for run in lacking}
        parts.append(chosen(pack.rows, table, wanted, {**where, "run_id": there}))
        packs_have |= there
    rest = [run for run in runs if run.run_id not in packs_have]
    parts += [rows for rows in own(rest, wanted, where) if rows is not None]
    rows = _in_order(joined(parts, table, wanted), runs)
    return rows if wanted is columns else rows.drop_columns(["run_id"])


def packed_records(place: Place, runs: Sequence[RunSummary]) -> dict[str, RunRecord]:
    """The records in the samples files of runs, by run id; a StoreWarning for each that cannot be read."""
    marks, texts, files = stamps(place, runs), dict[str, bytes](), dict[str, Path]()
    for host in _many(runs):
        files[host] = place.state_dir / _name("records", host, "jsonl")
        texts |= _texts(files[host], marks)
    found: dict[str, RunRecord] = {}
    for run in runs:
        with suppress(KeyError, ValueError):
            found[run.run_id] = unpacked(texts[run.run_id])
    names = {samples_name(run.host_id, run.run_id): run for run in runs if run.run_id not in found}

    def read(name: str) -> RunRecord:
        file = TableFile(place, name, "samples")
        record = file.record
        texts[names[name].run_id] = file.metadata[RECORD]
        return record

    new = readable(list(names), read)
    for host, file in files.items():
        of_host = [run.run_id for run in runs if run.host_id == host]
        lacking = sum(names[name].host_id == host for name in new)
        if lacking * _OLD_SHARE > len(of_host):
            lines = [[run_id, marks[run_id], texts[run_id].decode()] for run_id in of_host if run_id in texts]
            data = b"".join(sealed_line(json.dumps(line).encode()) for line in lines)
            _put(place, file, partial(write, data=data, lasting=False))
    return found | {names[name].run_id: record for name, record in new.items()}


def stamps(place: Place, runs: Sequence[RunSummary]) -> dict[str, str]:
    """By run id what changes when a samples file does; objects are never written twice."""
    if not isinstance(place, Folder):
        return {run.run_id: run.content_sha256 or "" for run in runs}
    found = {}
    for run in runs:
        found[run.run_id] = ""
        with suppress(OSError):
            about = (place.root / samples_name(run.host_id, run.run_id)).stat()
            found[run.run_id] = f"{about.st_size}:{about.st_mtime_ns}"
    return found


def _many(runs: Sequence[RunSummary]) -> dict[str, list[RunSummary]]:
    found: dict[str, list[RunSummary]] = {}
    for run in runs:
        if run.bursts is not None and run.bursts <= _SMALL:
            found.setdefault(run.host_id, []).append(run)
    return {host: of_host for host, of_host in found.items() if len(of_host) >= _MANY}


def _name(name: str, host: str, ending: str) -> str:
    return f"_index/{name}-{checked_key(host, 'host')}.{ending}"


def _read(place: Place, file: Path, table: str, kept: Sequence[str] | None) -> _Pack:
    with suppress(StoreError, ValueError, KeyError):
        opened = TableFile(Folder(place.state_dir), str(file.relative_to(place.state_dir)), table, whole=True)
        marks = json.loads(opened.metadata[_MARKS])
        if isinstance(marks, dict):
            return _Pack(opened.read(kept), marks)
    return _Pack(joined([], table, kept), {})


def _renewed(
    pack: _Pack, new: Mapping[str, Any], marks: Mapping[str, str], table: str, kept: Sequence[str] | None
) -> _Pack:
    """The pack with the rows of these runs too, without those of runs that are no more as they were."""
    old = {run_id for run_id, mark in pack.marks.items() if marks.get(run_id, mark) == mark} - new.keys()
    rows = joined(
        [chosen(pack.rows, table, kept, {"run_id": old}), *new.values()], table, kept
    ).combine_chunks()
    return _Pack(rows, {run_id: pack.marks[run_id] for run_id in old} | {key: marks[key] for key in new})


def _write(path: Path, pack: _Pack) -> None:
    about = {**(pack.rows.schema.metadata or {}), _MARKS: json.dumps(pack.marks).encode()}
    write_table(path, pack.rows.replace_schema_metadata(about), lasting=False)


def _texts(file: Path, marks: Mapping[str, str]) -> dict[str, bytes]:
    """The records in a pack that are as they were, not yet unpacked, by run id."""
    found = {}
    with suppress(OSError):
        for line in read_regular(file).split(b"\n"):
            with suppress(ValueError, TypeError):
                run_id, mark, text = json.loads(opened_line(line) or b"")
                if marks.get(run_id) == mark:
                    found[run_id] = text.encode()
    return found


def _put(place: Place, file: Path, make: Callable[[Path], None]) -> None:
    """Make a pack anew; where that is not possible, reading only stays slower."""
    with suppress(OSError), draft(place.state_dir, file.name) as new:
        file.parent.mkdir(parents=True, exist_ok=True)
        make(new)
        new.replace(file)


def _in_order(rows: Any, runs: Sequence[RunSummary]) -> Any:
    """The rows by run as these stand, those of one as they are."""
    places = {run.run_id: at for at, run in enumerate(runs)}
    ids = rows.column("run_id").combine_chunks()
    at = np.array([places[run_id] for run_id in words(ids)], dtype=np.int64)
    return rows.take(np.argsort(at, kind="stable"))
