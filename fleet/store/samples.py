"""Writes one run's bursts as a samples file, in memory that does not grow with the run.

Bursts are taken in chunks; each is sorted so that row groups can be skipped by benchmark, relation and
pair. A run of up to `CHUNK_SAMPLES` samples is one chunk and so sorted as a whole.
"""

import hashlib
from array import array
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

from fleet.interval import Spreads
from fleet.model import Burst, Run, Topology
from fleet.store import schema
from fleet.store.columns import Numbers, Words, built, fixed, lists, raw
from fleet.store.rows import Contents, Relations, hello_of, runs_row, to_json

CHUNK_SAMPLES = 4 << 20
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
# Encoded byte by byte, which an outlier spoils for itself only.
_SPLIT = (
    "ticks.list.element",
    "start_offset_ns",
    "round",
    "line_page",
    "line_offset",
)


def write_samples(path: Path, run: Run, bursts: Iterable[Burst]) -> tuple[Contents, dict[str, Any]]:
    """Write `bursts` to a new file at `path`; say what was written, and the run's row. Raises OSError."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    with pq.ParquetWriter(
        path,
        schema.arrow_schema("samples"),
        compression="zstd",
        compression_level=3,
        use_dictionary=[column.name for column in schema.SAMPLES if column.type == "dictionary<string>"],
        column_encoding=dict.fromkeys(_SPLIT, "BYTE_STREAM_SPLIT"),
    ) as writer:
        digest = hashlib.sha256()
        total = Contents(0, 0, 0, "")
        chunk, spreads = _Chunk(run), Spreads()
        for burst in bursts:
            chunk.add(burst)
            if len(burst.ticks) > burst.warmup:
                spreads.add(_kind(burst), _middle(burst))
            if chunk.samples >= CHUNK_SAMPLES:
                total = _write_chunk(writer, chunk, digest, total)
                chunk = _Chunk(run)
        total = _write_chunk(writer, chunk, digest, total)
        contents = Contents(total.bursts, total.samples, total.flagged, digest.hexdigest(), spreads.widest())
        row = runs_row(run, contents)
        writer.add_key_value_metadata({"fleet.content_sha256": contents.sha256, "fleet.run": to_json(row)})
    return contents, row


def read_contents(path: Path) -> Contents:
    """Read a samples file back and say what it holds; the digest is the one it was written with.

    Raises OSError where it cannot be read.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415

    with pq.ParquetFile(path) as file:
        bursts = samples = flagged = 0
        for batch in file.iter_batches(batch_size=ROW_GROUP_BURSTS, columns=["ticks", "flags"]):
            bursts += batch.num_rows
            samples += len(batch.column("ticks").flatten())
            flagged += sum(1 for flags in batch.column("flags").to_pylist() if flags)
        metadata = file.schema_arrow.metadata | (file.metadata.metadata or {})
    return Contents(bursts, samples, flagged, metadata[b"fleet.content_sha256"].decode())


def read_digest(filesystem: Any, path: str) -> str:
    """The digest a samples file was written with; reads its footer only. Raises OSError."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    metadata = pq.read_metadata(path, filesystem=filesystem).metadata or {}
    digest: bytes = metadata[b"fleet.content_sha256"]
    return digest.decode()


def _kind(burst: Burst) -> tuple[str, str, int, int]:
    """What a burst is a repetition of; both directions of a pair are one."""
    low, high = sorted((burst.ping_cpu, burst.pong_cpu))
    return burst.benchmark, burst.variant, low, high


def _middle(burst: Burst) -> float:
    """The burst's median sample in ticks per round trip, warm-ups left out."""
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
        self.flagged = 0

    @property
    def samples(self) -> int:
        """Ticks taken so far."""
        return len(self._ticks)

    def add(self, burst: Burst) -> None:
        """Take one burst."""
        words = (
            burst.benchmark,
            burst.variant,
            self._relation(burst.ping_cpu, burst.pong_cpu),
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
        self._ticks.extend(burst.ticks)
        self._ends.append(len(self._ticks))
        self.flagged += bool(burst.flags)

    def table(self) -> Any:
        """The chunk as a pyarrow table in the schema of samples, sorted."""
        import pyarrow as pa  # noqa: PLC0415

        shape = schema.arrow_schema("samples")
        rows = len(self._ends) - 1
        same = array("d", [1e9 / hello_of(self._run).ticks_per_second]) * rows
        columns = {name: kept.column(shape.field(name).type) for name, kept in self._words.items()}
        columns |= {name: kept.column(shape.field(name).type) for name, kept in self._numbers.items()}
        columns |= {
            "host_id": built(shape.field("host_id").type, [self._run.host.host_id] * rows),
            "run_id": built(shape.field("run_id").type, [self._run.run_id] * rows),
            "ns_per_tick": fixed(shape.field("ns_per_tick").type, same),
            "ticks": lists(shape.field("ticks").type, self._ends, self._ticks),
        }
        table = pa.table([columns[field.name] for field in shape], schema=shape)
        return table.take(_order(table))


def _write_chunk(writer: Any, chunk: _Chunk, digest: Any, total: Contents) -> Contents:
    table = chunk.table()
    writer.write_table(table, row_group_size=ROW_GROUP_BURSTS)
    _feed(digest, table)
    return Contents(
        total.bursts + table.num_rows, total.samples + chunk.samples, total.flagged + chunk.flagged, ""
    )


def _order(table: Any) -> Any:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    keys = pa.table({name: _plain_strings(table.column(name)) for name in _SORTED_BY})
    return pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in _SORTED_BY])


def _plain_strings(column: Any) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column


def _feed(digest: Any, table: Any) -> None:
    """Hash the values themselves, not the file: another release of pyarrow may write other bytes."""
    for name in table.column_names:
        column = _plain_strings(table.column(name)).combine_chunks()
        digest.update(name.encode())
        if name == "ticks":
            digest.update(raw(column.value_lengths()))
            digest.update(raw(column.flatten()))
        elif name in _UNSURE:
            digest.update(raw(column, unknown=-1))
        elif name in _COUNTS or name == "ns_per_tick":
            digest.update(raw(column))
        else:
            digest.update("\n".join(column.to_pylist()).encode())
