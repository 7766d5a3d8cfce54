"""Write and hash a run's samples in chunks, each sorted, so that memory does not grow
with the run.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

from fleet.errors import StoreError
from fleet.late import np, pa
from fleet.model import Burst, Run, read_descriptions
from fleet.store import schema
from fleet.store.burst_columns import BurstColumns
from fleet.store.gate import RunRecord
from fleet.store.reading import TableFile
from fleet.store.rows import RECORD, make_cpus_rows, make_runs_row, pack_record
from fleet.store.values import check_bursts
from fleet.store.writing import open_writer

CHUNK_SAMPLES = 4 << 20
_CHUNKS = re.compile(rb"[0-9]{1,9}(,[0-9]{1,9})*")
SMALL_SAMPLES = 4096
ROW_GROUP_BURSTS = 16_384
_DICTIONARIES = sorted(
    {*schema.dictionary_columns("samples")} - {*schema.PATH_COLUMNS["samples"]}
)
# Encoded byte by byte, so that an outlier takes room for itself only.
_SPLIT = [
    "ticks.list.element",
    "start_offset_ns",
    "round",
    "line_page",
    "line_offset",
    "line_physical",
]
_SPLIT += ["core_ghz"]


def write_samples(
    path: Path, counters_path: Path, run: Run, bursts: Iterable[Burst] | BurstColumns
) -> RunRecord:
    """Write bursts, and any event counts, to new files; return the record. Raises
    OSError, StoreError.
    """
    digest, samples, flagged = hashlib.sha256(), 0, 0
    sizes = list[int]()
    file: Any = None
    counters_file: Any = None
    with ExitStack() as files:
        for chunk in _pack_chunks(bursts):
            table, counters = chunk.to_table(run), chunk.counters_table(run)
            _hash_table(digest, table)
            if file is None:
                small = chunk.sample_count < SMALL_SAMPLES and not _is_full(chunk)
                file = files.enter_context(_open_writer(path, small=small))
            file.write_table(table, ROW_GROUP_BURSTS)
            if counters is not None:
                if counters_file is None:
                    counters_file = files.enter_context(
                        open_writer(counters_path, counters.schema)
                    )
                counters_file.write_table(counters)
            sizes.append(len(chunk))
            samples, flagged = samples + chunk.sample_count, flagged + chunk.flagged
        counts = {"bursts": sum(sizes), "samples": samples, "flagged_bursts": flagged}
        row = make_runs_row(run, {**counts, "content_sha256": digest.hexdigest()})
        record = RunRecord(row, make_cpus_rows(run))
        file.add_key_value_metadata(_make_metadata(record, sizes))
    return record


def _pack_chunks(bursts: Iterable[Burst] | BurstColumns) -> Iterator[BurstColumns]:
    """Yield the bursts in chunks, all but the last full. No bursts make one empty
    chunk.
    """
    if isinstance(bursts, BurstColumns):
        yield bursts
        return
    chunk, is_first = BurstColumns(), True
    for burst in bursts:
        chunk.add(burst)
        if _is_full(chunk):
            yield chunk
            chunk, is_first = BurstColumns(), False
    if len(chunk) or is_first:
        yield chunk


def _is_full(chunk: BurstColumns) -> bool:
    return (
        chunk.sample_count + chunk.other_samples + chunk.counter_row_count
        >= CHUNK_SAMPLES
    )


def _make_metadata(record: RunRecord, sizes: Sequence[int]) -> dict[str, str]:
    chunks = {"fleet.chunks": ",".join(map(str, sizes))} if len(sizes) > 1 else {}
    return {RECORD.decode(): pack_record(record)} | chunks


def _open_writer(path: Path, *, small: bool) -> AbstractContextManager[Any]:
    """Open a new samples file. small: leave out zstd, statistics and page checksums,
    which would not pay.
    """
    return open_writer(
        path,
        schema.file_schema("samples"),
        compression="lz4" if small else "zstd",
        compression_level=None if small else 3,
        use_dictionary=False if small else _DICTIONARIES,
        column_encoding=dict.fromkeys(_SPLIT, "BYTE_STREAM_SPLIT"),
        write_statistics=not small,
        write_page_checksum=not small,
    )


def hash_samples(file: TableFile) -> str:
    """Check every value of a samples file; return the SHA-256 of its samples. Raises
    StoreError.
    """
    digest = hashlib.sha256()
    row = file.record.row
    descriptions = read_descriptions(json.loads(row["hello_json"]))
    for table in file.iter_chunks(_read_chunk_sizes(file)):
        with file.damage_errors():
            check_bursts(table, row["estimator"], descriptions)
        _hash_table(digest, table)
    return digest.hexdigest()


def rewrite_samples(file: TableFile, path: Path, record: RunRecord) -> None:
    """Copy a file's samples to a new file, with another record. Raises OSError,
    StoreError.
    """
    sizes = _read_chunk_sizes(file)
    with _open_writer(path, small=False) as writer:
        for table in file.iter_chunks(sizes):
            writer.write_table(table, ROW_GROUP_BURSTS)
        writer.add_key_value_metadata(_make_metadata(record, sizes))


def _read_chunk_sizes(file: TableFile) -> list[int]:
    """Return the number of bursts of each chunk. Raises StoreError if the list of
    chunks is damaged.
    """
    if not (text := file.metadata.get(b"fleet.chunks")):
        return [file.rows]
    sizes = [int(size) for size in text.split(b",")] if _CHUNKS.fullmatch(text) else []
    if sum(sizes) != file.rows or 0 in sizes:
        raise StoreError(
            f"{file.what}: its list of chunks is damaged. Restore it from a copy."
        )
    return sizes


def _hash_table(digest: Any, table: Any) -> None:
    """Hash the values, not the file: pyarrow may write equal values as different
    bytes.
    """
    for name, chunked in zip(table.column_names, table.itercolumns(), strict=True):
        digest.update(name.encode())
        _hash_column(
            digest,
            chunked.chunk(0) if chunked.num_chunks == 1 else chunked.combine_chunks(),
        )


def _hash_column(digest: Any, column: Any) -> None:
    """Hash a column: the positions of nulls, if any, the lengths of lists, and the
    values.
    """
    # as most columns of a run: hashed in a tenth of the time
    all_null = column.null_count == len(column)
    if column.null_count:
        digest.update(
            bytes(len(column))
            if all_null
            else column.is_valid().to_numpy(zero_copy_only=False)
        )
    if pa.types.is_list(column.type):
        ends = column.offsets.to_numpy()
        digest.update(np.diff(ends))
        _hash_column(digest, column.values[int(ends[0]) : int(ends[-1])])
    elif pa.types.is_dictionary(column.type):
        words = ["" if word is None else word for word in column.dictionary.to_pylist()]
        digest.update(
            "\n".join(
                "" if i is None else words[i] for i in column.indices.to_pylist()
            ).encode()
        )
    elif pa.types.is_boolean(column.type):
        digest.update(bytes(map(bool, column.to_pylist())))
    elif all_null:
        digest.update(bytes(len(column) * column.type.bit_width // 8))
    else:
        digest.update((column.fill_null(0) if column.null_count else column).to_numpy())
