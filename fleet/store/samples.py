"""Writes one run's bursts as a samples file, in memory that does not grow with the run.

Bursts are taken in chunks; each is sorted so that row groups can be skipped by benchmark, relation and
pair. A run of up to `CHUNK_SAMPLES` samples is one chunk and so sorted as a whole.
"""

import hashlib
import json
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from statistics import median
from typing import Any

from fleet.errors import StoreError
from fleet.interval import Spreads
from fleet.model import Burst, Parameters, Relation, Run, Topology
from fleet.store import schema
from fleet.store.checksums import seal, sealed
from fleet.store.columns import Numbers, Words, built, list_parts, lists, numbers, raw, repeated
from fleet.store.files import sync, write
from fleet.store.reading import TableFile
from fleet.store.rows import (
    Contents,
    Relations,
    RunRecord,
    cpus_rows,
    hello_of,
    packed,
    runs_row,
    unpacked,
)

CHUNK_SAMPLES = 4 << 20
SMALL_SAMPLES = 4096
_NEAREST_FIRST = list(map(str, Relation))
ROW_GROUP_BURSTS = 16_384
_SORTED_BY = ("benchmark", "variant", "relation", "ping_cpu", "pong_cpu", "round")
_COUNTS = (
    "round",
    "ping_cpu",
    "pong_cpu",
    "start_offset_ns",
    "iterations",
    "warmup",
)
_WORDS = ("benchmark", "variant", "relation", "flags")
_SWITCHES = (
    "ping_voluntary_switches",
    "ping_involuntary_switches",
    "pong_voluntary_switches",
    "pong_involuntary_switches",
)
_UNSURE = (
    "line_page",
    "line_offset",
    "line_node",
    "line_physical",
    *_SWITCHES,
    "ping_ran_ppm",
    "pong_ran_ppm",
)
_AT_POINTS = tuple(column.name for column in schema.POINT_COLUMNS)
_PARAMETERS = tuple(part.name for part in fields(Parameters))
_DICTIONARIES = [column.name for column in schema.SAMPLES if column.type == "dictionary<string>"]
# Encoded byte by byte, which an outlier spoils for itself only.
_SPLIT = (
    "ticks.list.element",
    "start_offset_ns",
    "round",
    "line_page",
    "line_offset",
)


def write_samples(path: Path, run: Run, bursts: Iterable[Burst]) -> RunRecord:
    """Write `bursts` to a new file at `path` and wait for the disk; return the run's record in it.

    A run of one chunk is put together in memory and written in one go. Raises OSError.
    """
    digest, total, spreads = hashlib.sha256(), Contents(0, 0, 0, ""), Spreads()
    chunk, file, sizes = _Chunk(run), None, list[int]()
    for burst in bursts:
        chunk.add(burst)
        if len(burst.ticks) > burst.warmup:
            spreads.add(_kind(burst), _middle(burst))
        if chunk.samples + chunk.other_samples >= CHUNK_SAMPLES:
            file = file or _writer(path)
            total = _write_chunk(file, chunk, digest, total)
            sizes.append(chunk.bursts)
            chunk = _Chunk(run)
    memory = None if file else _memory()
    file = file or _writer(memory, small=chunk.samples < SMALL_SAMPLES)
    with file:
        total = _write_chunk(file, chunk, digest, total)
        contents = replace(total, sha256=digest.hexdigest(), precision=spreads.widest())
        record = RunRecord(runs_row(run, contents), cpus_rows(run))
        file.add_key_value_metadata(_metadata(contents, record, [*sizes, chunk.bursts]))
    if memory is None:
        seal(path)
        sync(path)
    else:
        write(path, sealed(memoryview(memory.getvalue())))
    return record


def read_record(metadata: Mapping[bytes, bytes]) -> RunRecord:
    """The record of a run from the metadata of its samples file. Raises ValueError where there is none."""
    return unpacked(metadata.get(b"fleet.run", b""))


def record_of(file: TableFile) -> RunRecord:
    """The record in a samples file. Raises StoreError where there is none."""
    try:
        return read_record(file.metadata)
    except (ValueError, KeyError) as err:
        raise StoreError(f"{file.what}: no record of its run: {err}. Restore it from a copy.") from err


def _metadata(contents: Contents, record: RunRecord, sizes: Sequence[int]) -> dict[str, str]:
    return {
        "fleet.table": "samples",
        "fleet.schema_version": schema.SCHEMA_VERSION,
        "fleet.content_sha256": contents.sha256,
        "fleet.run": packed(record),
    } | ({"fleet.chunks": ",".join(map(str, sizes))} if len(sizes) > 1 else {})


def _memory() -> Any:
    import pyarrow as pa  # noqa: PLC0415

    return pa.BufferOutputStream()


def _writer(where: Any, *, small: bool = False) -> Any:
    """A writer of samples.

    Of few samples zstd makes no less than snappy and takes three times as long, and statistics help only a
    reader that can skip row groups.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415

    return pq.ParquetWriter(
        where,
        schema.arrow_schema("samples").remove_metadata(),
        compression="snappy" if small else "zstd",
        compression_level=None if small else 3,
        use_dictionary=_DICTIONARIES,
        column_encoding=dict.fromkeys(_SPLIT, "BYTE_STREAM_SPLIT"),
        write_statistics=not small,
        write_page_checksum=True,
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


def _kind(burst: Burst) -> tuple[str, str, str | None, int, int]:
    """What a burst is a repetition of; both directions of a pair are one."""
    low, high = sorted((burst.ping_cpu, burst.pong_cpu))
    return burst.benchmark, burst.variant, burst.point, low, high


def _middle(burst: Burst) -> float:
    """The burst's median sample in ticks per unit, warm-ups left out."""
    return median(burst.ticks[burst.warmup :]) / burst.iterations


class _Chunk:
    """Bursts on their way to a row group, column by column and unboxed."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._relation = Relations(Topology(run.facts.cpus))
        self._words = {name: Words() for name in _WORDS}
        self._numbers = {name: Numbers() for name in (*_COUNTS, *_UNSURE)}
        self._ticks = array("q")
        self._ends = array("i", [0])
        self._at_points: dict[int, tuple[Any, ...]] = {}  # values of the columns _AT_POINTS, by burst
        self.other_samples = 0
        self.flagged = 0

    @property
    def bursts(self) -> int:
        """Bursts taken so far."""
        return len(self._ends) - 1

    @property
    def samples(self) -> int:
        """Ticks taken so far."""
        return len(self._ticks)

    def add(self, burst: Burst) -> None:
        """Take one burst."""
        words = (
            burst.benchmark,
            burst.variant,
            self._relation_of(burst),
            ",".join(sorted(burst.flags)),
        )
        for kept, word in zip(self._words.values(), words, strict=True):
            kept.append(word)
        numbers = (
            burst.round,
            burst.ping_cpu,
            burst.pong_cpu,
            burst.start_offset_ns,
            burst.iterations,
            burst.warmup,
            burst.line_page,
            burst.line_offset,
            burst.line_node,
            burst.line_physical,
            *(burst.switches or (None,) * len(_SWITCHES)),
            *(burst.ran_ppm or (None, None)),
        )
        for column, number in zip(self._numbers.values(), numbers, strict=True):
            column.append(number)
        if burst.point is not None:
            self._at_points[self.bursts] = _values_at_point(burst)
            self.other_samples += len(burst.ticks) * len(burst.other_ticks or ())
        self._ticks.extend(burst.ticks)
        self._ends.append(len(self._ticks))
        self.flagged += bool(burst.flags)

    def table(self) -> Any:
        """The chunk as a pyarrow table in the schema of samples, sorted."""
        import numpy as np  # noqa: PLC0415
        import pyarrow as pa  # noqa: PLC0415

        shape = schema.arrow_schema("samples")
        order = np.lexsort([self._ranks(name) for name in reversed(_SORTED_BY)])
        once = {"host_id": self._run.host.host_id, "run_id": self._run.run_id}
        columns = {name: kept.column(shape.field(name).type, order) for name, kept in self._columns()}
        columns |= {name: repeated(shape.field(name).type, word, self.bursts) for name, word in once.items()}
        columns |= {
            "ns_per_tick": numbers(
                shape.field("ns_per_tick").type,
                np.full(self.bursts, 1e9 / hello_of(self._run).ticks_per_second),
            ),
            "ticks": lists(shape.field("ticks").type, self._ends, self._ticks, order),
        }
        columns |= self._columns_of_points(shape, order)
        return pa.table([columns[field.name] for field in shape], schema=shape)

    def _columns_of_points(self, shape: Any, order: Any) -> dict[str, Any]:
        import pyarrow as pa  # noqa: PLC0415

        if not self._at_points:
            return {name: pa.nulls(self.bursts, shape.field(name).type) for name in _AT_POINTS}
        none = (None,) * len(_AT_POINTS)
        rows = [self._at_points.get(at, none) for at in order.tolist()]
        return {
            name: built(shape.field(name).type, values)
            for name, values in zip(_AT_POINTS, zip(*rows, strict=True), strict=True)
        }

    def _relation_of(self, burst: Burst) -> str:
        """The smallest group that holds all CPUs of a burst."""
        if burst.cpus is None or len(burst.cpus) < 3:
            return self._relation(burst.ping_cpu, burst.pong_cpu)
        found = (self._relation(burst.ping_cpu, other) for other in burst.cpus[1:])
        return max(found, key=_NEAREST_FIRST.index)

    def _columns(self) -> "Iterable[tuple[str, Words | Numbers]]":
        yield from self._words.items()
        yield from self._numbers.items()

    def _ranks(self, name: str) -> Any:
        return (self._words[name] if name in self._words else self._numbers[name]).ranks()


def _values_at_point(burst: Burst) -> tuple[Any, ...]:
    """The values of the columns _AT_POINTS, in their order."""
    found = burst.parameters or Parameters()
    return (
        burst.point,
        burst.unit,
        *(getattr(found, name) for name in _PARAMETERS),
        burst.cpus,
        None if burst.other_ticks is None else tuple(array("q", ticks) for ticks in burst.other_ticks),
        None if burst.core_mhz is None else sum(burst.core_mhz) / 2000,
        burst.checked,
    )


def _write_chunk(writer: Any, chunk: _Chunk, digest: Any, total: Contents) -> Contents:
    table = chunk.table()
    writer.write_table(table, row_group_size=ROW_GROUP_BURSTS)
    _feed(digest, table)
    return Contents(
        total.bursts + table.num_rows, total.samples + chunk.samples, total.flagged + chunk.flagged, ""
    )


def _feed(digest: Any, table: Any) -> None:
    """Hash the values themselves, not the file: another release of pyarrow may write other bytes.

    Columns that came with 1.2 count only where they hold something, so runs without points keep their digest.
    """
    for name in table.column_names:
        column = table.column(name).combine_chunks()
        if name in _AT_POINTS and column.null_count == len(column):
            continue
        digest.update(name.encode())
        if name == "ticks":
            for part in list_parts(column):
                digest.update(part)
        elif name in _UNSURE:
            digest.update(raw(column, unknown=-1))
        elif name in _COUNTS or name == "ns_per_tick":
            digest.update(raw(column))
        elif name in _AT_POINTS:
            digest.update(json.dumps(column.to_pylist()).encode())
        else:
            digest.update("\n".join(column.to_pylist()).encode())
