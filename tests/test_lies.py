"""Refuse what is well formed but wrong where it is read, without a traceback; slow
tests make lies.MANY.
"""

import itertools
import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fleet.agent.wire import conversation
from fleet.agent.wire.parts import read_run
from fleet.agent.wire.records import WireError, decode_record
from fleet.analysis.views import show_as_json
from fleet.errors import EXIT_BUG, DamagedFileError, StoreError
from fleet.model import Burst, Cpu, Failed, Load
from fleet.store import gate, rows
from fleet.store.anonymized_run import import_run
from fleet.store.burst_columns import BurstColumns
from fleet.store.places import parse_place
from fleet.store.reading import TableFile
from fleet.store.rows import (
    drop_defaults,
    make_cpus_rows,
    make_runs_row,
    to_json,
    unpack_record,
)
from fleet.store.schema import arrow_schema
from fleet.store.verify import verify
from tests import builders, lies
from tests.command import Fleet
from tests.lies import MANY

FEW = 10
COMMANDS = (("show",), ("show", "--csv"), ("runs", "--json"), ("verify",))
OF_ALL = (("compare", "h0", "h1"), ("report", "--force"))
HONEST = f"r20260102T030405Z-{0:08x}"


# of a run with a lie
DETAILED = (
    ("report", "{run}", "--force"),
    ("show", "{run}", "--ladder"),
    ("compare", HONEST, "{run}"),
)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    (tmp_path / "here").mkdir()
    with Fleet(tmp_path / "here") as new_fleet:
        yield new_fleet


def publish_lies(fleet: Fleet, count: int, seed: int) -> dict[str, str]:
    """Publish an honest run and those lies of so many that are accepted; what each was,
    by its run.
    """
    assert publish_honest(fleet.results, 0) is None
    accepted = {}
    single_lies = itertools.islice(lies.conversations(seed), count)
    all_lies = itertools.chain(lies.whole_lies(), single_lies)
    for number, (lie, lines) in enumerate(all_lies, 1):
        if lies.publish(fleet.results, lines, number) is None:
            accepted[f"r20260102T030405Z-{number:08x}"] = lie
    return accepted


def publish_honest(root: Path, number: int) -> str | None:
    """Publish the recorded run as it is; why not, where it was refused."""
    return lies.publish(root, lies.RECORDED.read_bytes().splitlines(), number)


def no_bug(fleet: Fleet, *arguments: str, of: object) -> None:
    """Run a command; whatever it finds, it says so in its own words."""
    done = fleet(*arguments)
    about = (of, arguments, done.stderr[-3000:])
    assert done.exit_code != EXIT_BUG, about
    assert "Traceback" not in done.stderr, about


def publish_recorded(root: Path) -> Path:
    """Publish the honest run; return its samples file."""
    publish_honest(root, 0)
    (file,) = root.glob("samples/host_id=*/*/samples.parquet")
    return file


def open_table(root: Path, file: Path, kind: str = "samples") -> TableFile:
    return TableFile(parse_place(root), str(file.relative_to(root)), kind)


def test_a_lie_is_refused_at_its_line_or_does_no_harm(fleet: Fleet) -> None:
    accepted = publish_lies(fleet, FEW, seed=1)
    assert len(accepted) <= FEW
    for command in COMMANDS:
        no_bug(fleet, *command, of=accepted)


def read_samples(file: Path) -> pa.Table:
    """Read a samples file, with the metadata of the file."""
    table = pq.ParquetFile(file).read()
    return table.replace_schema_metadata(pq.read_metadata(file).metadata)


def replace_column(table: pa.Table, name: str, value: object) -> pa.Table:
    """Put one value into all rows of a column; its field stays as it is."""
    index = table.column_names.index(name)
    field = table.schema.field(index)
    return table.set_column(index, field, pa.array([value] * len(table), field.type))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_lying_agent_strands_its_run_or_breaks_a_command(fleet: Fleet) -> None:
    accepted = publish_lies(fleet, MANY, seed=2)
    for command in (*COMMANDS, *OF_ALL):
        no_bug(fleet, *command, of=accepted)
    for run, lie in accepted.items():
        for command in DETAILED:
            arguments = [word.format(run=run) for word in command]
            no_bug(fleet, *arguments, of=lie)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_crafted_file_breaks_a_command(fleet: Fleet, tmp_path: Path) -> None:
    commands = (*COMMANDS, ("compare", "h0", "h1"), ("show", "h1"))
    read_crafted_lies(fleet, tmp_path, MANY // 2, 5, commands)


def test_a_crafted_file_is_named_or_does_no_harm(fleet: Fleet, tmp_path: Path) -> None:
    read_crafted_lies(fleet, tmp_path, 4, 4, (("show",), ("verify",)))


def test_a_crafted_file_is_refused_by_the_gate_or_read_like_any_other(
    tmp_path: Path,
) -> None:
    honest = tmp_path / "honest"
    root = tmp_path / "results"
    publish_recorded(honest)
    refused = 0
    for seed in range(MANY // 10):
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(honest, root)
        (file,) = root.glob("samples/*/*/samples.parquet")
        lie = lies.craft(file, seed)
        try:
            list(show_as_json(root, [HONEST]))
        except DamagedFileError as err:
            assert str(file.relative_to(root)) in str(err), lie
            refused += 1
    assert refused > MANY // 40


def read_crafted_lies(
    fleet: Fleet,
    folder: Path,
    count: int,
    seed: int,
    commands: tuple[tuple[str, ...], ...],
) -> None:
    honest = folder / "honest"
    for number in range(2):
        publish_honest(honest, number)
    for derived in ("runs", "cpus"):  # made again of the record
        shutil.rmtree(honest / derived)
    for number in range(count):
        shutil.rmtree(fleet.results, ignore_errors=True)
        shutil.copytree(honest, fleet.results)
        (file,) = fleet.results.glob("samples/host_id=h1/*/samples.parquet")
        lie = lies.craft(file, seed + 100 * number)
        for command in commands:
            no_bug(fleet, *command, of=lie)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ran_ppm": [2**31, 0]}, "ran_ppm[0]: expected int <= 2147483647"),
        ({"iterations": 2**63 - 1}, "iterations: expected int <= 9007199254740992"),
        (
            {"iterations": 2**53, "ticks": [1] * 1000},
            "1000 samples of 9007199254740992 iterations are too",
        ),
        ({"unit": "line"}, "without a point"),
        ({"line_node": 2**31}, "line_node: expected int | null <= 2147483647"),
    ],
)
def test_a_number_is_bounded_by_its_column_and_by_what_is_computed_from_it(
    changes: dict[str, object], words: str
) -> None:
    burst = next(record for record in lies.SAID if record.get("benchmark") == "cas")
    assert decode_record(json.dumps(burst).encode())
    with pytest.raises(WireError) as refused:
        decode_record(json.dumps(burst | changes).encode())
    assert words.partition(" | null")[0] in str(refused.value)


def reason_to_refuse(root: Path, records: list[dict[str, Any]]) -> str:
    """Publish what an agent said; return why it was refused, "" if it was not."""
    lines = [lies.line(record) for record in records]
    return lies.publish(root, lines, 0) or ""


@pytest.mark.parametrize(
    ("benchmark", "changes", "words"),
    [
        ("message", {"other_ticks": []}, "other_ticks of a pair is one list, not 0"),
        ("fetch", {"state": None}, "state is None"),
        ("fetch", {"operation": "guess"}, "operation is 'guess'"),
        ("interleave", {"block_bytes": None}, "no block_bytes"),
        ("bandwidth", {"threads": 7}, "7 threads on"),
        ("gemm", {"point": "stream.0x0x0.16K.huge.x1"}, "has a size of 0"),
        (
            "gemm",
            {"operation": "peak"},
            "has another operation than its parameters, peak",
        ),
        ("chase", {"bytes": 4096}, "is of another size than its parameters"),
        ("bandwidth", {"bytes": 4096}, "is of another size than its parameters"),
        ("interleave", {"block_bytes": 96}, "is of another size than its parameters"),
        ("chase", {"order": "window"}, "has another order than its parameters, window"),
        ("fetch", {"state": "both"}, "has another state than its parameters, both"),
    ],
)
def test_a_burst_agrees_with_what_is_known_of_its_benchmark(
    tmp_path: Path, benchmark: str, changes: dict[str, object], words: str
) -> None:
    records = json.loads(json.dumps(lies.SAID))
    kinds = {kind["benchmark"]: kind for kind in records[0]["plan"]["benchmarks"]}
    kind = kinds[benchmark]
    for burst in lies.bursts(records, benchmark):
        old_point = burst["point"]
        is_of_burst = changes.keys() & burst.keys()
        changed = burst if is_of_burst else burst["parameters"]
        changed.update(changes)
        kind["points"] = [
            burst["point"] if point == old_point else point for point in kind["points"]
        ]
    assert words in reason_to_refuse(tmp_path, records)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda sent: lies.bursts(sent, "chase")[-1]["parameters"].update(
                threads=1, stride_bytes=64
            ),
            "other parameters",
        ),
        (
            lambda records: records[0]["benchmarks"][0].update(heading="\x1b[2J"),
            "printable texts",
        ),
        (
            lambda records: records[0]["benchmarks"][0].update(unit="u" * 300),
            "printable texts",
        ),
        (
            lambda records: lies.description(records, "chase").update(
                view="matrix", parameters=[]
            ),
            "view matrix, which",
        ),
    ],
)
def test_a_description_is_short_and_printable_and_a_point_one_thing(
    tmp_path: Path, change: Callable[[Any], None], words: str
) -> None:
    records = json.loads(json.dumps(lies.SAID))
    change(records)
    assert words in reason_to_refuse(tmp_path, records)


def test_samples_of_a_column_that_nobody_knows_are_not_checked_with_it(
    tmp_path: Path,
) -> None:
    file = publish_recorded(tmp_path)
    table = read_samples(file)
    long_texts = pa.array(["x" * (1 << 20)] * len(table))
    builders.put_table(table.append_column("more", long_texts), file)
    (problem,) = verify(parse_place(tmp_path)).problems
    assert "a column 'more' is not in the table" in problem


def test_the_path_says_whose_samples_they_are_and_each_column_comes_once_in_its_type(
    tmp_path: Path,
) -> None:
    file = publish_recorded(tmp_path)
    table = read_samples(file)
    rounds = table["round"]
    index = table.column_names.index("round")

    other = pa.array(["another"] * len(table))
    named = table.append_column("run_id", other).append_column("host_id", other)
    builders.put_table(named, file)
    own = open_table(tmp_path, file)
    run_ids = own.read(["run_id"])["run_id"].to_pylist()
    assert set(run_ids) == {own.record.row["run_id"]}

    builders.put_table(table.append_column("round", rounds), file)
    with pytest.raises(StoreError, match="two columns with the same name"):
        open_table(tmp_path, file).read(["round"])

    nullable = table.schema.field(index).with_nullable(True)
    builders.put_table(table.set_column(index, nullable, rounds), file)
    with pytest.raises(StoreError, match="its column round may hold nulls"):
        open_table(tmp_path, file).read(["round"])

    wide = rounds.cast("int64")
    builders.put_table(table.set_column(index, "round", wide), file)
    with pytest.raises(
        StoreError, match="its column round is of the type int64, not int32"
    ):
        open_table(tmp_path, file).read(["round"])


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("unit", "x" * 501, "unit is 501 bytes long"),
        ("relation", "neighbour", "relation is 'neighbour'"),
        ("benchmark", "\x1b[2J", "benchmark"),
        ("iterations", 0, "iterations is 0 to 0"),
        ("warmup", 9, "more warm-up samples than ticks"),
        ("ticks", [0] * 9, "most samples of a burst took no time"),
        ("ticks", [1000] * (1 << 20), "a burst has 1048576 ticks"),
        ("cpus", [7, 8], "cpus of a burst from"),
    ],
)
def test_a_value_that_fleet_never_writes_is_named_by_verify_and_not_imported(
    tmp_path: Path, column: str, value: object, words: str
) -> None:
    file = publish_recorded(tmp_path)
    four_bursts = read_samples(file).slice(0, 4)
    builders.put_table(replace_column(four_bursts, column, value), file)
    (problem,) = verify(parse_place(tmp_path)).problems
    assert words in problem
    other = tmp_path / "other"
    with pytest.raises(StoreError, match=re.escape(words)):
        import_run(parse_place(other), file)
    assert not (other / "samples").exists()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("point", None),
        ("operation", None),
        ("ns_per_tick", float("inf")),
        ("ticks", [0] * 9),
        ("ticks", []),
    ],
)
def test_impossible_values_cost_no_other_run_its_place_and_are_no_bug(
    fleet: Fleet, column: str, value: object
) -> None:
    for number in range(2):
        publish_honest(fleet.results, number)
    (file,) = fleet.results.glob("samples/host_id=h1/*/samples.parquet")
    builders.put_table(replace_column(read_samples(file), column, value), file)
    for words in (("show", "all"), ("report", "all", "--force", "-o", "-")):
        done = fleet(*words)
        assert done.exit_code == 0, done.stderr
        assert "h0" in done.stdout
    assert fleet("show", "h1").exit_code in (0, StoreError.exit_code)
    assert fleet("verify").exit_code == StoreError.exit_code


def test_few_bytes_that_unpack_to_more_samples_than_bursts_have_are_not_imported(
    tmp_path: Path,
) -> None:
    file = publish_recorded(tmp_path)
    one_burst = read_samples(file).slice(0, 1)
    lying = replace_column(one_burst, "ticks", [1000] * 10_000_000)
    builders.put_table(lying, file)
    assert file.stat().st_size < 1 << 20
    with pytest.raises(StoreError, match="unpack to more than bursts can"):
        import_run(parse_place(tmp_path / "other"), file)


def test_a_text_that_is_not_utf8_is_refused_by_name(tmp_path: Path) -> None:
    file = publish_recorded(tmp_path)
    table = read_samples(file)
    index = table.column_names.index("relation")
    field = table.schema.field(index)
    spoilt = pa.array([b"\xff"] * len(table)).view(pa.string())
    builders.put_table(table.set_column(index, field, spoilt), file)
    with pytest.raises(DamagedFileError, match=r"samples\.parquet.*UTF8"):
        open_table(tmp_path, file).read(["relation"])


def test_every_command_reads_the_same_record_of_a_run(fleet: Fleet) -> None:
    """A second record is hidden in a value of the metadata behind the first."""
    file = publish_recorded(fleet.results)
    for derived in ("runs", "cpus"):
        shutil.rmtree(fleet.results / derived)
    table = pq.ParquetFile(file).read()
    about = dict(pq.read_metadata(file).metadata)
    record = json.loads(unpack_record(about[rows.RECORD]))
    record["run"]["host_name"] = "another"
    packed = lies.pack_record(json.dumps(record).encode())
    key = b"\x18%c%b\x18" % (len(rows.RECORD), rows.RECORD)
    about[b"zzz"] = key + _write_varint(len(packed)) + packed
    builders.put_table(table.replace_schema_metadata(about), file)
    assert "another" not in fleet("runs").stdout + fleet("show").stdout
    assert fleet("verify").exit_code == 0


def _write_varint(number: int) -> bytes:
    low = number & 127
    if number < 128:
        return bytes([low])
    return bytes([low | 128]) + _write_varint(number >> 7)


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        (
            "failed_json",
            to_json([drop_defaults(Failed("cas", "a", 0, 0, 1, "x" * 1001))]),
            "1000 char",
        ),
        ("notes", ["x"] * 1025, "1024"),
        ("notes", ["x" * 8193], "8192"),
    ],
)
def test_a_record_holds_no_more_than_any_has(
    column: str, value: object, words: str
) -> None:
    record = {**RECORD, "run": RECORD["run"] | {column: value}}
    with pytest.raises(ValueError, match=words):
        read_packed(record)


def read_packed(record: dict[str, Any]) -> gate.RunRecord:
    """Pack a record, and read it as one of a file."""
    packed = lies.pack_record(json.dumps(record).encode())
    return gate.parse_record(unpack_record(packed))


@pytest.mark.long
@pytest.mark.parametrize(
    "more",
    [
        "",
        '"point":"x1","parameters":{"pages":"base","threads":2},',
        '"point":"a","parameters":{"bytes":1,"stride_bytes":1,"operation":"read","order":"a","pages":"base","threads":2},',
    ],
)
@pytest.mark.parametrize("reason", ["x", "\\u00e9" * 160])
def test_as_many_failed_bursts_as_a_host_may_send_fit_into_a_record(
    more: str, reason: str
) -> None:
    head = '{"record":"failed","benchmark":"message","variant":"mov","round":0,"ping":0,"pong":1,'
    line = f'{head}{more}"reason":"{reason}"}}'.encode()
    count = min(conversation.FAILED_LIMIT, conversation.WORDS_LIMIT_BYTES // len(line))
    failed = [drop_defaults(decode_record(line)) for _ in range(count)]
    text = to_json(failed)
    assert len(gate.parse_json_column("failed_json", text)) == count
    gate.convert_row("runs", {"failed_json": text}, ["failed_json"])


def test_a_record_is_not_unpacked_beyond_what_any_has(tmp_path: Path) -> None:
    bomb = lies.pack_record(b'{"run":{"a":"' + b" " * (1 << 26) + b'"}}')
    assert len(bomb) < 1 << 20
    with pytest.raises(ValueError, match=f"more than {gate.RECORD_BYTES} bytes"):
        unpack_record(bomb)
    file = publish_recorded(tmp_path)
    about = {"fleet.run": bomb.decode()}
    builders.put_table(pq.read_table(file).replace_schema_metadata(about), file)
    with pytest.raises(StoreError, match="its record of the run has more than"):
        assert open_table(tmp_path, file).record
    with pytest.raises(ValueError, match="cannot be unpacked"):
        unpack_record(lies.pack_record(b"{}")[:-4])


@pytest.mark.parametrize(
    "changes",
    [
        {"memory_bytes": 2**63},
        {"idle_exit_us": 10**30},
        {"load": Load(running=2**63)},
        {"cpus": (Cpu(0, node=2**31),)},
        {"cpus": (Cpu(0, capacity=-(2**40)),)},
        {"probe": "\x01" * (4 << 20)},
    ],
)
def test_facts_that_no_column_can_hold_are_refused(changes: dict[str, Any]) -> None:
    facts = builders.a_run().facts
    gate.check_machine(facts)
    with pytest.raises(ValueError, match=r"expected|bytes"):
        gate.check_machine(replace(facts, **changes))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
RUN = builders.a_run()
RECORD = json.loads(
    to_json({"run": make_runs_row(RUN, builders.CONTENTS), "cpus": make_cpus_rows(RUN)})
)


@pytest.mark.slow
@settings(max_examples=20 * MANY, deadline=None)
@given(st.sampled_from([*RECORD["run"]]), JSON, st.booleans())
@example("plan_json", {"a": [[[[[[[[[[[1]]]]]]]]]]]}, True)
@example("started_utc", "2026-01-01T00:00:00", False)
def test_any_record_is_read_or_refused(column: str, value: Any, inside: bool) -> None:
    held = json.dumps(value) if inside else value
    run = RECORD["run"] | {column: held}
    try:
        record = read_packed({**RECORD, "run": run})
    except ValueError as err:
        assert len(str(err)) < 1000
        return
    pa.Table.from_pylist([record.row], arrow_schema("runs"))


@pytest.mark.slow
@settings(max_examples=5 * MANY, deadline=None)
@given(st.integers(0, len(lies.SAID) - 1), st.data())
def test_any_value_in_a_conversation_is_taken_or_refused(
    number: int, data: st.DataObject
) -> None:
    records = json.loads(json.dumps(lies.SAID))
    lying = records[number]
    key = data.draw(st.sampled_from([name for name in lying if name != "record"]))
    lying[key] = data.draw(JSON)
    bursts: list[Burst] = []
    read_run([map(lies.line, records)], bursts.append)
    taken = BurstColumns()
    for burst in bursts:
        taken.add(burst)
    honest = read_run([lies.RECORDED.read_bytes().splitlines()])
    taken.to_table(replace(RUN, hello=honest.hello))
