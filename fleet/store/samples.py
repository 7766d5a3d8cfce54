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
SMALL_SAMPLES = 4096  # a file with fewer is a small one
ROW_GROUP_BURSTS = 16_384
_DICTIONARIES = sorted(
    {*schema.dictionary_columns("samples")} - {*schema.PATH_COLUMNS["samples"]}
)
# Encoded byte by byte, so that an outlier takes room for itself only.
_SPLIT = (
    *("ticks.list.element", "start_offset_ns", "round"),
    *("line_page", "line_offset", "line_physical", "core_ghz"),
)


def write_samples(
    path: Path, counters_path: Path, run: Run, bursts: Iterable[Burst] | BurstColumns
) -> RunRecord:
    """Write bursts to a new samples file, and their event counts, if any, to a new
    counters file; return the record. Raises OSError, StoreError.
    """
    digest = hashlib.sha256()
    chunk_sizes = list[int]()  # bursts of each chunk
    samples = 0
    flagged = 0
    samples_file: Any = None  # opened for the first chunk, which there always is
    counters_file: Any = None  # opened for the first count
    with ExitStack() as open_files:
        for chunk in _pack_chunks(bursts):
            table = chunk.to_table(run)
            _hash_table(digest, table)
            if samples_file is None:
                # if the first chunk is not full, it is the only one: then the file
                # has no more samples than this chunk
                is_small = chunk.sample_count < SMALL_SAMPLES and not _is_full(chunk)
                writer = _open_writer(path, small=is_small)
                samples_file = open_files.enter_context(writer)
            samples_file.write_table(table, ROW_GROUP_BURSTS)
            counters = chunk.counters_table(run)
            if counters is not None:
                if counters_file is None:
                    writer = open_writer(counters_path, counters.schema)
                    counters_file = open_files.enter_context(writer)
                counters_file.write_table(counters)
            chunk_sizes.append(len(chunk))
            samples += chunk.sample_count
            flagged += chunk.flagged
        contents = {
            "bursts": sum(chunk_sizes),
            "samples": samples,
            "flagged_bursts": flagged,
            "content_sha256": digest.hexdigest(),
        }
        record = RunRecord(make_runs_row(run, contents), make_cpus_rows(run))
        samples_file.add_key_value_metadata(_make_metadata(record, chunk_sizes))
    return record


def _pack_chunks(bursts: Iterable[Burst] | BurstColumns) -> Iterator[BurstColumns]:
    """Yield the bursts in chunks, all but the last full. No bursts make one empty
    chunk. Bursts that are in columns already are one chunk.
    """
    if isinstance(bursts, BurstColumns):
        yield bursts
        return
    chunk = BurstColumns()
    is_first = True
    for burst in bursts:
        chunk.add(burst)
        if _is_full(chunk):
            yield chunk
            chunk = BurstColumns()
            is_first = False
    if len(chunk) or is_first:
        yield chunk


def _is_full(chunk: BurstColumns) -> bool:
    """Report whether a chunk has as many numbers as one may have."""
    values = chunk.sample_count + chunk.other_samples + chunk.counter_row_count
    return values >= CHUNK_SAMPLES


def _make_metadata(record: RunRecord, sizes: Sequence[int]) -> dict[str, str]:
    """Return the metadata of a samples file. sizes: the number of bursts of each
    chunk.
    """
    metadata = {RECORD.decode(): pack_record(record)}
    if len(sizes) > 1:
        metadata["fleet.chunks"] = ",".join(map(str, sizes))
    return metadata


def _open_writer(path: Path, *, small: bool) -> AbstractContextManager[Any]:
    """Open a new samples file. small: leave out zstd, statistics and page checksums,
    which would not pay.
    """
    options: dict[str, Any] = {
        "compression": "zstd",
        "compression_level": 3,
        "use_dictionary": _DICTIONARIES,
    }
    if small:
        options = {
            "compression": "lz4",
            "use_dictionary": False,
            "write_statistics": False,
            "write_page_checksum": False,
        }
    encodings = dict.fromkeys(_SPLIT, "BYTE_STREAM_SPLIT")
    shape = schema.file_schema("samples")
    return open_writer(path, shape, column_encoding=encodings, **options)


def hash_samples(file: TableFile) -> str:
    """Check every value of a samples file; return the SHA-256 of its samples, hashed in
    the chunks in which they were written. Raises StoreError.
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
    """Return the number of bursts of each chunk, such as "900,37" in the metadata; of
    all bursts if it has no such list. Raises StoreError if the list is damaged.
    """
    text = file.metadata.get(b"fleet.chunks")
    if not text:
        return [file.rows]
    sizes = []
    if _CHUNKS.fullmatch(text):
        sizes = [int(size) for size in text.split(b",")]
    if sum(sizes) != file.rows or 0 in sizes:
        raise StoreError(
            f"{file.error_prefix}: its list of chunks is damaged. Restore it from a"
            " copy."
        )
    return sizes


def _hash_table(digest: Any, table: Any) -> None:
    """Hash the values, not the file: pyarrow may write equal values as different
    bytes.
    """
    columns = zip(table.column_names, table.itercolumns(), strict=True)
    for name, chunked_column in columns:
        is_one = chunked_column.num_chunks == 1
        column = chunked_column.chunk(0) if is_one else chunked_column.combine_chunks()
        digest.update(name.encode())
        _hash_column(digest, column)


def _hash_column(digest: Any, column: Any) -> None:
    """Hash a column: where it has nulls, if it has any, and its values."""
    if column.null_count:
        _hash_validity(digest, column)
    if pa.types.is_list(column.type):
        _hash_lists(digest, column)
    elif pa.types.is_dictionary(column.type):
        texts = column.cast(pa.string()).fill_null("")  # nulls are hashed above
        digest.update("\n".join(texts.to_pylist()).encode())
    elif pa.types.is_boolean(column.type):
        values = map(bool, column.to_pylist())
        digest.update(bytes(values))
    else:
        _hash_numbers(digest, column)


def _hash_validity(digest: Any, column: Any) -> None:
    """Hash a byte for each value of a column: 0 for a null, else 1."""
    if _is_all_null(column):
        digest.update(bytes(len(column)))  # zeros
    else:
        is_valid = column.is_valid()
        digest.update(is_valid.to_numpy(zero_copy_only=False))


def _hash_numbers(digest: Any, column: Any) -> None:
    """Hash the bytes of numbers, with 0 for null; take a short cut if all are null."""
    if _is_all_null(column):
        digest.update(bytes(len(column) * column.type.bit_width // 8))  # zeros
    elif column.null_count:
        digest.update(column.fill_null(0).to_numpy())
    else:
        digest.update(column.to_numpy())


def _is_all_null(column: Any) -> bool:
    """Report whether a column has only nulls, as most have: zeros are hashed faster."""
    return bool(column.null_count == len(column))


def _hash_lists(digest: Any, column: Any) -> None:
    """Hash the lengths of lists, then only those values that are in these lists."""
    offsets = column.offsets.to_numpy()
    lengths = np.diff(offsets)
    digest.update(lengths)
    first = int(offsets[0])
    end = int(offsets[-1])
    _hash_column(digest, column.values[first:end])
