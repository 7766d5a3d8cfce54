"""Well-formed lies: a recorded conversation, and a stored run, with one thing in them
that cannot be.
"""

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

from fleet.agent.wire.parts import read_run
from fleet.model import Cpu, Host, Plan, Run, RunState
from fleet.store import Store, rows
from fleet.store.gate import parse_record
from fleet.store.rows import RECORD, unpack_record
from tests import builders

RECORDED = Path(__file__).parent / "recordings" / "wire" / "every-benchmark.jsonl"
SAID = [json.loads(line) for line in RECORDED.read_text().splitlines()]
MACHINE = tuple(
    Cpu(number, core=number, llc=0, package=0, node=0) for number in range(2)
)
DEEP = 600
# of each kind of lie, file and decoder that a slow test makes
MANY = int(os.environ.get("FLEET_LIES", "60"))
VALUES: tuple[Any, ...] = (
    *(
        0,
        1,
        -1,
        2**31 - 1,
        2**31,
        2**53,
        2**53 + 1,
        2**63 - 1,
        2**63,
        10**30,
        0.5,
        1e308,
        None,
        True,
    ),
    *(
        "",
        "x",
        "0",
        "\0",
        "<b>\x1b[2J",
        "a" * 1000,
        "é" * 48,
        "\u202e",
        "[]",
        "{}",
        "null",
        "[1]",
    ),
    *(
        "2026-01-01T00:00:00",
        "0001-01-01T00:00:00+14:00",
        '{"a":null}',
        "[" * DEEP + "]" * DEEP,
    ),
    *(
        [],
        [[]],
        {},
        {"a": 1},
        [None],
        [0] * 5000,
        [[[[[[[[[[[1]]]]]]]]]]],
        {"benchmarks": 5},
    ),
)
DROPPED = object()
Said = list[dict[str, Any]]
WHOLE: dict[str, Callable[[Said], None]] = {
    "no burst": lambda records: _only(records, ()),
    "numbers of 0": lambda records: _set_in_each_burst(records, ticks=[0, 0, 0, 1]),
    "the first sample all of it": lambda records: _set_in_each_burst(
        records, ticks=[2**53, 0, 0, 0]
    ),
    "a clock of one tick a second": (
        lambda records: records[0].update(ticks_per_second=1)
    ),
    "a ladder as one number": (
        lambda records: description(records, "chase").update(view="cpus", shape="cpu")
    ),
    "a matrix as a ladder": (
        lambda records: description(records, "cas").update(view="ladder", shape="group")
    ),
    "threads nobody has": (
        lambda records: records[0].update(
            counters=[], cpus=[1, 0, 65535], pairs=2**63 - 1
        )
    ),
    "a word of no format": (
        lambda records: records[0].update(compiler="{0}%s$x$<b>|\u2028")
    ),
}
"""Lies that are more than one value in one place."""


def whole_lies() -> Iterator[tuple[str, list[bytes]]]:
    """Yield each of WHOLE, and all that it says."""
    for name, change in WHOLE.items():
        records = copy.deepcopy(SAID)
        change(records)
        yield name, list(map(line, records))


def bursts(records: Said, benchmark: str) -> Said:
    """Return the bursts of a benchmark."""
    return [
        record
        for record in records
        if record["record"] == "burst" and record["benchmark"] == benchmark
    ]


def description(records: Said, benchmark: str) -> dict[str, Any]:
    """Return the hello's description of a benchmark."""
    keys: dict[str, Any] = next(
        own for own in records[0]["benchmarks"] if own["name"] == benchmark
    )
    return keys


def _only(records: Said, between: Sequence[dict[str, Any]]) -> None:
    records[1:-1] = between
    records[0].update(bursts=len(between), bursts_max=len(between))
    records[-1].update(bursts=len(between))


def _set_in_each_burst(records: Said, **values: object) -> None:
    for burst in records[1:-1]:
        if not burst.get("other_ticks"):
            burst.update(values)


def conversations(seed: int) -> Iterator[tuple[str, list[bytes]]]:
    """Lying agents without end: what each changed, and all it says."""
    chance = random.Random(seed)
    while True:
        records = copy.deepcopy(SAID)
        benchmark = chance.choice(
            sorted({record["benchmark"] for record in records[1:-1]})
        )
        of_benchmark = [
            record for record in records[1:-1] if record["benchmark"] == benchmark
        ]
        liars = chance.choice(
            [records[:1], of_benchmark, of_benchmark, of_benchmark[:1], records[-1:]]
        )
        places = [place for place in _places(liars[0]) if place != ("record",)]
        place = chance.choice(places)
        value = chance.choice((*VALUES, *[DROPPED] * 8))
        for record in liars:
            _put(record, place, value)
        yield (
            f"{benchmark} {len(liars)} {place} {value!r:.40}",
            list(map(line, records)),
        )


def make_asked_run(run_id: str, host: str) -> Run:
    """Return the run whose agent was asked for what the recorded one did."""
    benchmarks = tuple(kind["name"] for kind in SAID[0]["benchmarks"])
    run = builders.a_run(MACHINE, run_id, Host(host, "192.0.2.7"), benchmarks)
    return replace(
        run,
        plan=Plan(benchmarks, seed=SAID[0]["seed"], rounds=1),
        agent=replace(run.agent, build=SAID[0]["build"]),
    )


def publish(
    root: Path, lines: list[bytes], number: int, also: tuple[str, ...] = ()
) -> str | None:
    """Store what an agent said as run `number`, as a session does; why not, where it
    was refused. also: benchmarks that it was asked for beside the recorded ones.
    """
    bursts: list[Any] = []
    run = make_asked_run(f"r20260102T030405Z-{number:08x}", f"h{number}")
    run = replace(run, plan=replace(run.plan, benchmarks=(*run.plan.benchmarks, *also)))
    parsed = read_run([lines], bursts.append, run)
    if parsed.damage or parsed.missing:
        return parsed.damage or parsed.missing
    state = RunState.PARTIAL if parsed.failed else RunState.COMPLETE
    ended = {
        "hello": parsed.hello,
        "end": parsed.end,
        "failed": parsed.failed,
        "notes": tuple(parsed.notes),
    }
    Store(root).publish(replace(run, state=state, **ended), bursts)  # type: ignore[arg-type]  # by name
    return None


def craft(file: Path, seed: int) -> str:
    """Write a samples file anew with one thing changed; say which."""
    chance = random.Random(seed)
    opened = pq.ParquetFile(file)
    metadata = {
        **(opened.schema_arrow.metadata or {}),
        **(opened.metadata.metadata or {}),
    }
    table = opened.read()
    value = chance.choice((*VALUES, *[DROPPED] * 4))
    match chance.choice(("row", "row", "cpus", "json", "json", "column", "chunks")):
        case "column":
            target = chance.choice(table.column_names)
            table = _without(table, target, chance)
        case "chunks":
            target, metadata[b"fleet.chunks"] = (
                "chunks",
                chance.choice([b"a,b", b"0", b"1,1", b"9" * 5000]),
            )
        case kind:
            record = parse_record(unpack_record(metadata[RECORD]))
            read = json.loads(rows.to_json({"run": record.row, "cpus": record.cpus}))
            row = read["cpus"][0] if kind == "cpus" else read["run"]
            target = chance.choice(
                [name for name in row if name.endswith("_json") or kind != "json"]
            )
            if kind == "json":
                held = {"": json.loads(row[target])}
                _put(held, chance.choice(_places(held)), value)
                row[target] = json.dumps(held.get(""))
            else:
                _put(row, (target,), value)
            metadata[b"fleet.run"] = pack_record(json.dumps(read).encode())
            target = f"{kind} {target} {value!r:.40}"
    builders.put_table(table.replace_schema_metadata(metadata), file)
    return target


def pack_record(record: bytes) -> bytes:
    """Pack a record as it stands in a file, whatever it holds."""
    return base64.b64encode(pa.compress(record, "zstd", asbytes=True))


def _without(table: Any, name: str, chance: random.Random) -> Any:
    index = table.column_names.index(name)
    count = len(table)
    field = table.schema.field(index)
    column = chance.choice(
        [
            pa.nulls(count, field.type),
            *(
                pa.array([value] * count)
                for value in (0, -5, 2**62, float("nan"), "<b>")
            ),
        ]
    )
    if chance.random() < 0.2:
        return table.drop_columns([name])
    return table.set_column(index, pa.field(name, column.type), column)


def _places(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path to everything in an object; of a list to its ends."""
    paths = [above] if above else []
    inner = value.items() if isinstance(value, dict) else []
    if isinstance(value, list) and value:
        inner = {0: value[0], len(value) - 1: value[-1]}.items()
    return paths + [
        place for key, item in inner for place in _places(item, (*above, key))
    ]


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
