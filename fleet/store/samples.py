"""Writes one run's bursts as a samples file, in chunks, each sorted, so that memory does not grow."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fleet.errors import StoreError
from fleet.late import np
from fleet.model import Burst, Run
from fleet.store import schema
from fleet.store.burst_columns import COUNTS, MAYBE, SINCE_1_2, BurstColumns
from fleet.store.columns import coded, list_parts, raw, words
from fleet.store.reading import TableFile
from fleet.store.rows import RECORD, Contents, RunRecord, cpus_rows, packed, runs_row
from fleet.store.writing import TableWriter

CHUNK_SAMPLES = 4 << 20
_CHUNKS = re.compile(rb"[0-9]{1,9}(,[0-9]{1,9})*")
SMALL_SAMPLES = 4096
ROW_GROUP_BURSTS = 16_384
_DICTIONARIES = [column.name for column in schema.TABLES["samples"] if column.type == "dictionary<string>"]
# Encoded byte by byte, so that an outlier takes room for itself only.
_SPLIT = (
    "ticks.list.element",
    "start_offset_ns",
    "round",
    "line_page",
    "line_offset",
    "line_physical",
    "core_ghz",
)


def write_samples(
    path: Path,
    run: Run,
    bursts: Iterable[Burst] | BurstColumns,
    counters: Callable[[Run, BurstColumns], None] | None = None,
) -> RunRecord:
    """Write `bursts` to a new file, on the disk; return its record. counters: takes each chunk. OSError."""
    digest, samples, flagged = hashlib.sha256(), 0, 0
    sizes = list[int]()
    file: TableWriter | None = None
    for chunk, last in _chunks(bursts):
        if counters is not None:
            counters(run, chunk)
        small = last and not sizes and chunk.samples < SMALL_SAMPLES
        table = chunk.table(run, whole=not small)
        _feed(digest, table)
        if file is None:
            file = _writer(path, table.schema, in_memory=last, small=small)
        file.write(table, ROW_GROUP_BURSTS)
        sizes.append(len(chunk))
        samples, flagged = samples + chunk.samples, flagged + chunk.flagged
    assert file is not None  # noqa: S101  there is at least one chunk
    with file:
        contents = Contents(sum(sizes), samples, flagged, digest.hexdigest())
        record = RunRecord(runs_row(run, contents), cpus_rows(run))
        file.describe(_metadata(record, sizes))
    return record


def _chunks(bursts: Iterable[Burst] | BurstColumns) -> Iterator[tuple[BurstColumns, bool]]:
    """The bursts in chunks, and whether each is the last; at least one."""
    if isinstance(bursts, BurstColumns):
        yield bursts, True
        return
    chunk = BurstColumns()
    for burst in bursts:
        chunk.add(burst)
        if chunk.samples + chunk.other_samples + chunk.counts >= CHUNK_SAMPLES:
            yield chunk, False
            chunk = BurstColumns()
    yield chunk, True


def _metadata(record: RunRecord, sizes: Sequence[int]) -> dict[str, str]:
    return {
        "fleet.table": "samples",
        "fleet.schema_version": schema.SCHEMA_VERSION,
        RECORD.decode(): packed(record),
    } | ({"fleet.chunks": ",".join(map(str, sizes))} if len(sizes) > 1 else {})


def _writer(path: Path, shape: Any, *, in_memory: bool, small: bool) -> TableWriter:
    """A writer of samples; of few, zstd, statistics and checksums of pages cost time and save nothing."""
    return TableWriter(
        path,
        shape,
        in_memory=in_memory,
        compression="lz4" if small else "zstd",
        compression_level=None if small else 3,
        use_dictionary=False if small else [name for name in _DICTIONARIES if name in shape.names],
        column_encoding=dict.fromkeys(_SPLIT, "BYTE_STREAM_SPLIT"),
        write_statistics=not small,
        write_page_checksum=not small,
    )


def content_sha256(file: TableFile) -> str:
    """The digest of the samples a file holds now; StoreError where it cannot be read."""
    digest = hashlib.sha256()
    for table in file.as_stored(_sizes(file)):
        _feed(digest, table)
    return digest.hexdigest()


def rewritten(file: TableFile, path: Path, record: RunRecord) -> RunRecord:
    """Write the samples of a file to a new one, as those of another record; return this with their digest."""
    digest, sizes = hashlib.sha256(), _sizes(file)
    writer: TableWriter | None = None
    for table in file.as_stored(sizes):
        for name in ("host_id", "run_id"):
            at = table.column_names.index(name)
            once = np.zeros(len(table), "i8")
            table = table.set_column(at, name, coded(table.field(at).type, once, [record.row[name]]))  # noqa: PLW2901
        _feed(digest, table)
        if writer is None:
            writer = _writer(path, table.schema, in_memory=False, small=False)
        writer.write(table, ROW_GROUP_BURSTS)
    assert writer is not None  # noqa: S101  there is at least one chunk
    with writer:
        made = RunRecord({**record.row, "content_sha256": digest.hexdigest()}, record.cpus)
        writer.describe(_metadata(made, sizes))
    return made


def _sizes(file: TableFile) -> list[int]:
    """The chunks, in bursts, that are hashed apart."""
    if not (text := file.metadata.get(b"fleet.chunks")):
        return [file.rows]
    sizes = [int(size) for size in text.split(b",")] if _CHUNKS.fullmatch(text) else []
    if sum(sizes) != file.rows or 0 in sizes:
        raise StoreError(f"{file.what}: its list of chunks is damaged. Restore it from a copy.")
    return sizes


def _feed(digest: Any, table: Any) -> None:
    """Hash values, not the file, which pyarrow may write otherwise; empty columns of 1.2 do not count."""
    for name, chunked in zip(table.column_names, table.itercolumns(), strict=True):
        column = chunked.chunk(0) if chunked.num_chunks == 1 else chunked.combine_chunks()
        if name in SINCE_1_2 and column.null_count == len(column):
            continue
        digest.update(name.encode())
        if name == "ticks":
            for part in list_parts(column):
                digest.update(part)
        elif name in MAYBE:
            digest.update(raw(column, unknown=-1))
        elif name in COUNTS or name == "ns_per_tick":
            digest.update(raw(column))
        elif name in SINCE_1_2:
            digest.update(json.dumps(column.to_pylist()).encode())
        else:
            digest.update("\n".join(words(column)).encode())
