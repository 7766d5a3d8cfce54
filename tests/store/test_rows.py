"""Runs turned into rows and JSON, and the relations of many pairs."""

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pytest

from fleet.errors import StoreError
from fleet.model import End, Failed, Host, Load, Run, RunState
from fleet.store import Listing, Store
from fleet.store.gate import RunRecord, parse_record
from fleet.store.rows import (
    make_cpus_rows,
    make_runs_row,
    pack_record,
    to_json,
    unpack_record,
)
from fleet.store.runs import list_unfinished
from tests import builders


def add_raw_keys(run: Run, **raw: Any) -> Run:
    assert run.hello
    return replace(
        run, hello=replace(run.hello, raw=MappingProxyType({**run.hello.raw, **raw}))
    )


def test_the_row_of_a_run_holds_what_was_counted_asked_and_found() -> None:
    run = builders.a_run(builders.small_desktop())
    run = replace(
        run,
        state=RunState.PARTIAL,
        failed=(Failed("cas", "cmpxchg", 0, 0, 1, "stuck"),),
        end=End(7, 1, "done", 3, 4, 0.012),
        ended_utc="2026-01-02T04:00:00Z",
        labels=MappingProxyType({"kernel": "7.0"}),
        load_after=Load(2.5, 3, 60.0, 17),
    )
    row = make_runs_row(run, builders.CONTENTS)
    assert row["bursts"] == 7
    assert row["samples"] == 70
    assert row["flagged_bursts"] == 2
    assert row["content_sha256"] == "5ha"
    assert row["failed_bursts"] == 1
    assert row["converged"] == 3
    assert row["unconverged"] == 4
    assert row["state"] == "partial"
    assert row["cpus_measured"] == 8
    assert row["pairs"] == 28
    assert row["ended_utc"] == datetime(2026, 1, 2, 4, tzinfo=UTC)
    assert row["target"] == f"{run.facts.os}-{run.facts.arch}"
    assert json.loads(row["labels_json"]) == {"rack": "b2", "kernel": "7.0"}
    assert row["precision_reached"] == 0.012
    after = [
        row[f"{name}_after"]
        for name in ("load_1m", "running", "temperature_c", "steal_ticks")
    ]
    assert after == [2.5, 3, 60.0, 17]


def test_a_run_that_did_not_end_has_no_end_in_its_row() -> None:
    row = make_runs_row(
        replace(builders.a_run(), ended_utc=None, end=None), builders.CONTENTS
    )
    assert row["ended_utc"] is None
    assert row["converged"] is None
    assert row["unconverged"] is None


def test_the_compiler_has_the_name_that_the_agent_gives_it() -> None:
    run = add_raw_keys(builders.a_run(), compiler="gcc 12.2.0", cflags="-O1")
    row = make_runs_row(run, builders.CONTENTS)
    assert row["agent_compiler"] == "gcc 12.2.0"
    assert row["agent_cflags"] == "-O1"


def test_a_note_of_the_facts_is_not_repeated_by_the_run() -> None:
    run = builders.a_run()
    run = replace(
        run, facts=replace(run.facts, notes=("one", "two")), notes=("two", "three")
    )
    assert make_runs_row(run, builders.CONTENTS)["notes"] == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        ({"benchmarks": [{"benchmark": "cas", "variant": "lse"}]}, ["cas/lse"]),
        ({"benchmarks": ["cas"]}, ["readwrite"]),
        ({"benchmarks": [{"benchmark": "cas", "variant": "lse"}, 7]}, ["readwrite"]),
        ({"benchmarks": "cas"}, ["readwrite"]),
        ({}, ["readwrite"]),
        (None, ["readwrite"]),
        ("plan", ["readwrite"]),
    ],
)
def test_benchmarks_are_those_of_the_hello_or_those_asked_for(
    plan: object, expected: list[str]
) -> None:
    run = add_raw_keys(builders.a_run(benchmarks=("readwrite",)), plan=plan)
    assert make_runs_row(run, builders.CONTENTS)["benchmarks"] == expected


def test_the_values_of_environment_variables_never_become_json() -> None:
    text = to_json(Host("db", "192.0.2.1", env={"TOKEN": "hunter2", "A": "b"}))
    assert json.loads(text)["env"] == ["A", "TOKEN"]
    assert "hunter2" not in text
    assert (
        to_json({"é": (1, MappingProxyType({"at": datetime(2026, 1, 2, tzinfo=UTC)}))})
        == '{"é":[1,{"at":"2026-01-02T00:00:00+00:00"}]}'
    )


def test_each_cpu_has_a_row_that_says_whether_it_was_measured() -> None:
    run = builders.a_run(builders.small_desktop())
    run = replace(run, hello=replace(run.hello, cpus=(0, 3)))  # type: ignore[type-var]
    rows = make_cpus_rows(run)
    assert [row["cpu"] for row in rows if row["measured"]] == [0, 3]
    assert len(rows) == 8
    assert rows[5]["core"] == 1
    assert rows[5]["llc"] == 0
    assert rows[5]["run_id"] == run.run_id


def test_a_run_without_hello_has_no_row() -> None:
    with pytest.raises(
        StoreError, match="has no hello from the agent: nothing to publish"
    ):
        make_runs_row(replace(builders.a_run(), hello=None), builders.CONTENTS)


def test_a_journal_left_beside_its_published_run_is_not_an_unfinished_run(
    tmp_path: Path,
) -> None:
    """As after a power cut between the last file and the removal of the journal."""
    store = Store(tmp_path)
    run = builders.a_run()
    other = builders.a_run(run_id="r20260102T030405Z-0000cafe")
    with store.new_journal(other) as journal:
        left = journal.folder
    with store.new_journal(run) as journal:
        copy = {path.name: path.read_bytes() for path in journal.folder.iterdir()}
    name = store.publish(run, builders.make_bursts(run))
    again = left.with_name(run.run_id)
    again.mkdir()
    for file, data in copy.items():
        (again / file).write_bytes(data)
    assert [summary.run_id for summary in list_unfinished(store.place)] == [
        other.run_id
    ]
    states = [summary.state for summary in Listing(store.place).list_with_unfinished()]
    assert states.count(RunState.UNFINISHED) == 1
    (tmp_path / name).unlink()
    assert {summary.run_id for summary in list_unfinished(store.place)} == {
        run.run_id,
        other.run_id,
    }


def test_a_record_is_read_back_and_is_json_in_a_plain_zstd_frame() -> None:
    run = builders.a_run()
    record = RunRecord(make_runs_row(run, builders.CONTENTS), make_cpus_rows(run))
    text = pack_record(record).encode()
    assert parse_record(unpack_record(text)) == record
    frame = base64.b64decode(text)
    plain = json.load(pa.CompressedInputStream(pa.BufferReader(frame), "zstd"))
    assert plain["run"]["host_id"] == run.host.host_id
    # single segment, or a content size of 2, 4 or 8 bytes: RFC 8878
    holds_its_size = frame[4] & 0b11100000
    assert holds_its_size
    with pytest.raises(ValueError, match="cannot be unpacked"):
        unpack_record(text[:-8])


@pytest.mark.parametrize("length", [65_535, 65_536, 65_537, 300_000])
def test_a_long_record_is_read_whole(length: int) -> None:
    record = b'{"run":"' + b"." * (length - 10) + b'"}'
    frame = pa.Codec("zstd").compress(record, asbytes=True)
    assert len(record) == length
    assert unpack_record(base64.b64encode(frame)) == record


def test_the_agents_a_host_keeps_are_no_part_of_its_run() -> None:
    run = builders.a_run()
    answer = (
        "@ workdir\nchosen /home/fleet\nfleet-agent-1-2\n@ hashes\n12 "
        " /home/fleet-agent-1-2\n@ end"
    )
    stored = make_runs_row(
        replace(run, facts=replace(run.facts, probe=answer)), builders.CONTENTS
    )["probe"]
    assert stored == "@ workdir\nchosen /home/fleet\n@ hashes\n@ end"
