"""Writes one run's bursts as a samples file, in memory that does not grow with the run.

Bursts are taken in chunks; each is sorted so that row groups can be skipped by benchmark, relation and
pair. A run of up to `CHUNK_SAMPLES` samples is one chunk and so sorted as a whole.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fleet.errors import StoreError
from fleet.model import Burst, Run
from fleet.store import schema
from fleet.store.burst_columns import COUNTS, MAYBE, SINCE_1_2, BurstColumns
from fleet.store.checksums import seal, sealed
from fleet.store.columns import list_parts, raw, words
from fleet.store.files import sync, write
from fleet.store.reading import TableFile
from fleet.store.rows import Contents, RunRecord, cpus_rows, packed, runs_row, unpacked

CHUNK_SAMPLES = 4 << 20
SMALL_SAMPLES = 4096
ROW_GROUP_BURSTS = 16_384
_DICTIONARIES = [column.name for column in schema.SAMPLES if column.type == "dictionary<string>"]
# Encoded byte by byte, which an outlier spoils for itself only.
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
    """Write `bursts` to a new file at `path` and wait for the disk; return the run's record in it.

    counters: takes each chunk of bursts too, for what was counted meanwhile. A run of one chunk is put
    together in memory and written in one go. Raises OSError.
    """
    digest, total = hashlib.sha256(), Contents(0, 0, 0, "")
    sizes = list[int]()
    memory: Any = None
    file: Any = None
    for chunk, last in _chunks(bursts):
        if counters is not None:
            counters(run, chunk)
        small = last and not sizes and chunk.samples < SMALL_SAMPLES
        table = chunk.table(run, whole=not small)
        _feed(digest, table)
        if file is None:
            memory = _memory() if last else None
            file = _writer(memory or path, table.schema, small=small)
        file.write_table(table, row_group_size=ROW_GROUP_BURSTS)
        sizes.append(len(chunk))
        total = replace(
            total,
            bursts=total.bursts + len(chunk),
            samples=total.samples + chunk.samples,
            flagged=total.flagged + chunk.flagged,
        )
    with file:
        contents = replace(total, sha256=digest.hexdigest())
        record = RunRecord(runs_row(run, contents), cpus_rows(run))
        file.add_key_value_metadata(_metadata(record, sizes))
    if memory is None:
        seal(path)
        sync(path)
    else:
        write(path, sealed(memoryview(memory.getvalue())))
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


def read_record(metadata: Mapping[bytes, bytes]) -> RunRecord:
    """The record of a run from the metadata of its samples file. Raises ValueError where there is none."""
    return unpacked(metadata.get(b"fleet.run", b""))


def record_of(file: TableFile) -> RunRecord:
    """The record in a samples file. Raises StoreError where there is none."""
    try:
        return read_record(file.metadata)
    except (ValueError, KeyError) as err:
        raise StoreError(f"{file.what}: no record of its run: {err}. Restore it from a copy.") from err


def _metadata(record: RunRecord, sizes: Sequence[int]) -> dict[str, str]:
    return {
        "fleet.table": "samples",
        "fleet.schema_version": schema.SCHEMA_VERSION,
        "fleet.run": packed(record),
    } | ({"fleet.chunks": ",".join(map(str, sizes))} if len(sizes) > 1 else {})


def _memory() -> Any:
    import pyarrow as pa  # noqa: PLC0415

    return pa.BufferOutputStream()


def _writer(where: Any, shape: Any, *, small: bool = False) -> Any:
    """A writer of samples.

    Of few samples zstd makes no less than LZ4 and takes three times as long; statistics help only a reader
    that can skip row groups, and checksums of pages one that does not read the whole file, which has its own.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415

    return pq.ParquetWriter(
        where,
        shape,
        compression="lz4" if small else "zstd",
        compression_level=None if small else 3,
        use_dictionary=False if small else [name for name in _DICTIONARIES if name in shape.names],
        column_encoding=dict.fromkeys(_SPLIT, "BYTE_STREAM_SPLIT"),
        write_statistics=not small,
        write_page_checksum=not small,
    )


def content_sha256(file: TableFile) -> str:
    """The digest of the samples a file holds now; StoreError where it cannot be read.

    Bursts were hashed in the chunks they were written in. Files of schema 1.1 do not tell how large those
    were; it follows from bursts of equal length.
    """
    sizes_text = file.metadata.get(b"fleet.chunks")
    if sizes_text:
        sizes = [int(size) for size in sizes_text.split(b",")]
    else:
        each = -(-CHUNK_SAMPLES * file.rows // max(file.values("ticks"), 1))
        sizes = [min(each, file.rows - at) for at in range(0, file.rows, max(each, 1))] or [0]
    digest = hashlib.sha256()
    for table in file.as_stored(sizes):
        _feed(digest, table)
    return digest.hexdigest()


def _feed(digest: Any, table: Any) -> None:
    """Hash the values themselves, not the file: another release of pyarrow may write other bytes.

    Columns that came with 1.2 count only where they hold something, so runs without points keep their digest.
    """
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
