"""Well-formed lies: a recorded conversation, and a stored run, with one thing in them that cannot be."""

import base64
import copy
import json
import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fleet.agent.wire import conversation
from fleet.model import Cpu, Host, RunState
from fleet.store import Store, rows
from fleet.store.gate import parse_record
from fleet.store.rows import RECORD, unpack_record
from tests import builders

RECORDED = Path(__file__).parent / "recordings" / "wire" / "every-benchmark.jsonl"
SAID = [json.loads(line) for line in RECORDED.read_text().splitlines()]
MACHINE = tuple(Cpu(number, core=number, llc=0, package=0, node=0) for number in range(2))
DEEP = 600
MANY = int(os.environ.get("FLEET_LIES", "60"))  # of each kind of lie, file and decoder that a slow test makes
VALUES: tuple[Any, ...] = (
    *(0, 1, -1, 2**31 - 1, 2**31, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 10**30, 0.5, 1e308, None, True),
    *("", "x", "0", "\0", "<b>\x1b[2J", "a" * 1000, "é" * 48, "\u202e", "[]", "{}", "null", "[1]"),
    *("2026-01-01T00:00:00", "0001-01-01T00:00:00+14:00", '{"a":null}', "[" * DEEP + "]" * DEEP),
    *([], [[]], {}, {"a": 1}, [None], [0] * 5000, [[[[[[[[[[[1]]]]]]]]]]], {"benchmarks": 5}),
)
DROPPED = object()
Said = list[dict[str, Any]]
WHOLE: dict[str, Callable[[Said], None]] = {
    "no burst": lambda said: _only(said, ()),
    "numbers of 0": lambda said: _set_in_each_burst(said, ticks=[0, 0, 0, 1]),
    "the first sample all of it": lambda said: _set_in_each_burst(said, ticks=[2**53, 0, 0, 0]),
    "a clock of one tick a second": lambda said: said[0].update(ticks_per_second=1),
    "a ladder as one number": lambda said: describe_benchmark(said, "chase").update(view="cpus", shape="cpu"),
    "a matrix as a ladder": lambda said: describe_benchmark(said, "cas").update(view="ladder", shape="group"),
    "threads nobody has": lambda said: said[0].update(counters=[], cpus=[1, 0, 65535], pairs=2**63 - 1),
    "a word of no format": lambda said: said[0].update(compiler="{0}%s$x$<b>|\u2028"),
}
"""Lies that are more than one value in one place, all of which can be stored."""


def whole() -> Iterator[tuple[str, list[bytes]]]:
    """Each of WHOLE, and all that it says."""
    for what, change in WHOLE.items():
        said = copy.deepcopy(SAID)
        change(said)
        yield what, list(map(line, said))


def bursts(said: Said, benchmark: str) -> Said:
    """The bursts of a benchmark."""
    return [record for record in said if record["record"] == "burst" and record["benchmark"] == benchmark]


def describe_benchmark(said: Said, benchmark: str) -> dict[str, Any]:
    """Return the hello's description of a benchmark."""
    found: dict[str, Any] = next(one for one in said[0]["benchmarks"] if one["name"] == benchmark)
    return found


def _only(said: Said, kept: Sequence[dict[str, Any]]) -> None:
    said[1:-1] = kept
    said[0].update(bursts=len(kept), bursts_max=len(kept))
    said[-1].update(bursts=len(kept))


def _set_in_each_burst(said: Said, **values: object) -> None:
    for burst in said[1:-1]:
        if not burst.get("other_ticks"):
            burst.update(values)


def conversations(seed: int) -> Iterator[tuple[str, list[bytes]]]:
    """Lying agents without end: what each changed, and all it says."""
    chance = random.Random(seed)
    while True:
        said = copy.deepcopy(SAID)
        benchmark = chance.choice(sorted({record["benchmark"] for record in said[1:-1]}))
        of_benchmark = [record for record in said[1:-1] if record["benchmark"] == benchmark]
        liars = chance.choice([said[:1], of_benchmark, of_benchmark, of_benchmark[:1], said[-1:]])
        places = [place for place in _places(liars[0]) if place != ("record",)]
        place, value = chance.choice(places), chance.choice((*VALUES, *[DROPPED] * 8))
        for record in liars:
            _put(record, place, value)
        yield f"{benchmark} {len(liars)} {place} {value!r:.40}", list(map(line, said))


def publish(root: Path, lines: list[bytes], number: int) -> str | None:
    """Store what an agent said as run `number`, as a session does; why not, where it was refused."""
    bursts: list[Any] = []
    so_far = conversation.read_run([lines], bursts.append)
    if so_far.damage or so_far.missing:
        return so_far.damage or so_far.missing
    run = builders.a_run(MACHINE, f"r20260102T030405Z-{number:08x}", Host(f"h{number}", "192.0.2.7"))
    state = RunState.PARTIAL if so_far.failed else RunState.COMPLETE
    ended = {"hello": so_far.hello, "end": so_far.end, "failed": so_far.failed, "notes": tuple(so_far.notes)}
    Store(root).publish(replace(run, state=state, **ended), bursts)  # type: ignore[arg-type]  # by name
    return None


def craft(file: Path, seed: int) -> str:
    """Write a samples file anew with one thing changed; say which."""
    chance = random.Random(seed)
    opened = pq.ParquetFile(file)
    metadata = {**(opened.schema_arrow.metadata or {}), **(opened.metadata.metadata or {})}
    table, value = opened.read(), chance.choice((*VALUES, *[DROPPED] * 4))
    match chance.choice(("row", "row", "cpus", "json", "json", "column", "chunks")):
        case "column":
            what = chance.choice(table.column_names)
            table = _without(table, what, chance)
        case "chunks":
            what, metadata[b"fleet.chunks"] = "chunks", chance.choice([b"a,b", b"0", b"1,1", b"9" * 5000])
        case kind:
            record = parse_record(unpack_record(metadata[RECORD]))
            read = json.loads(rows.to_json({"run": record.row, "cpus": record.cpus}))
            row = read["cpus"][0] if kind == "cpus" else read["run"]
            what = chance.choice([name for name in row if name.endswith("_json") or kind != "json"])
            if kind == "json":
                held = {"": json.loads(row[what])}
                _put(held, chance.choice(_places(held)), value)
                row[what] = json.dumps(held.get(""))
            else:
                _put(row, (what,), value)
            metadata[b"fleet.run"] = pack_record(json.dumps(read).encode())
            what = f"{kind} {what} {value!r:.40}"
    builders.put_table(table.replace_schema_metadata(metadata), file)
    return what


def pack_record(record: bytes) -> bytes:
    """A record as it stands in a file, whatever it holds."""
    return base64.b64encode(pa.compress(record, "zstd", asbytes=True))


def _without(table: Any, name: str, chance: random.Random) -> Any:
    at, count = table.column_names.index(name), len(table)
    field = table.schema.field(at)
    made = chance.choice(
        [
            pa.nulls(count, field.type),
            *(pa.array([one] * count) for one in (0, -5, 2**62, float("nan"), "<b>")),
        ]
    )
    if chance.random() < 0.2:
        return table.drop_columns([name])
    return table.set_column(at, pa.field(name, made.type), made)


def _places(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path to everything in an object; of a list to its ends."""
    found = [above] if above else []
    inner = value.items() if isinstance(value, dict) else []
    if isinstance(value, list) and value:
        inner = {0: value[0], len(value) - 1: value[-1]}.items()
    return found + [place for key, item in inner for place in _places(item, (*above, key))]


def _put(record: Any, place: tuple[Any, ...], value: Any) -> None:
    for key in place[:-1]:
        record = record[key]
    if value is DROPPED:
        del record[place[-1]]
    else:
        record[place[-1]] = value


def line(record: Any) -> bytes:
    """A record as the agent writes it."""
    return json.dumps(record, separators=(",", ":")).encode()
