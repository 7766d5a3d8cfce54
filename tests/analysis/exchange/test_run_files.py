"""Files of others: zips that hold no runs, or too much, and what ends a process."""

import re
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from fleet.analysis.exchange import import_runs
from fleet.errors import DamagedFileError, UsageError
from fleet.store import Store, schema
from fleet.store.writing import write_table
from tests import builders
from tests.command import ROOT, Fleet


def write_zip(file: Path, members: dict[str, bytes], packing: int = 0) -> None:
    with zipfile.ZipFile(file, "w", packing) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def overlap(file: Path) -> None:
    """Write a zip whose hundred members are the same packed bytes."""
    write_zip(file, {"a.parquet": bytes(1 << 20)}, zipfile.ZIP_DEFLATED)
    data = file.read_bytes()
    end = data.rindex(b"PK\5\6")
    begin = data.rindex(b"PK\1\2", 0, end)
    entry = data[begin:end]
    entries = b"".join(
        entry.replace(b"a.parquet", b"%09d" % number) for number in range(100)
    )
    counts = struct.pack("<HHLL", 100, 100, len(entries), begin)
    file.write_bytes(data[:begin] + entries + b"PK\5\6" + bytes(4) + counts + bytes(2))


def encrypt(file: Path) -> None:
    write_zip(file, {"a.parquet": b"secret"})
    data = bytearray(file.read_bytes())
    for mark, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        data[data.index(mark) + flags] |= 1
    file.write_bytes(data)


def repeat(file: Path) -> None:
    write_zip(file, {"a.parquet": b"1", "b.parquet": b"2"})
    file.write_bytes(file.read_bytes().replace(b"b.parquet", b"a.parquet"))


BAD_ZIPS: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda file: write_zip(file, {}), "runs.zip: holds no files"),
    "only a folder": (
        lambda file: write_zip(file, {"folder/": b""}),
        "runs.zip: holds no files",
    ),
    "without a byte": (lambda file: file.write_bytes(b""), "cannot be read as a zip"),
    "overlapping": (overlap, "runs.zip: its files overlap"),
    "encrypted": (encrypt, "runs.zip: a.parquet: is encrypted"),
    "repeated": (repeat, "runs.zip: a.parquet: is there twice"),
    "packed by others": (
        lambda file: write_zip(file, {"a": b"1"}, zipfile.ZIP_BZIP2),
        "runs.zip: a: is not packed by `deflate`",
    ),
}


@pytest.mark.parametrize("kind", BAD_ZIPS)
def test_a_zip_that_is_none_of_fleets_is_refused_by_name(
    kind: str, tmp_path: Path
) -> None:
    write, message = BAD_ZIPS[kind]
    file = tmp_path / "runs.zip"
    write(file)
    with pytest.raises(UsageError, match=re.escape(message)):
        import_runs(tmp_path / "root", [file], None)
    assert not (tmp_path / "root").exists()


def test_a_damaged_member_is_named_with_its_zip(tmp_path: Path) -> None:
    file = tmp_path / "runs.zip"
    write_zip(file, {"../../evil.parquet": b"PAR1 is no table PAR1"})
    with pytest.raises(DamagedFileError) as damaged:
        import_runs(tmp_path / "root", [file], None)
    assert f"{file}: ../../evil.parquet" in str(damaged.value)
    assert "~0" not in str(damaged.value)
    assert "/tmp" not in str(damaged.value).replace(str(tmp_path), "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs.zip"]


IMPOSSIBLE = {
    "a list": ({"labels_json": "[]"}, "labels_json"),
    "no JSON": ({"labels_json": "{"}, "labels_json"),
    "a number": ({"labels_json": '{"a": 1}'}, "labels_json"),
    "no latency": ({"latency_ns": -5.0}, "latency_ns is -5.0"),
    "no relation": ({"relation": "near"}, "relation is 'near'"),
}


def write_hand_made_summary(file: Path, changes: dict[str, object]) -> None:
    """Write a summary that only its seal makes one of fleet's."""
    row = dict.fromkeys(column.name for column in schema.TABLES["summaries"]) | {
        "summary": "x",
        "tool": "fleet",
        "estimator": "median",
        "source": "me",
        "benchmark": "cas",
        "relation": "llc",
        "ping_cpu": 0,
        "pong_cpu": 1,
        "latency_ns": 5.0,
        "labels_json": "{}",
    }
    rows = [row | changes]
    table = pa.Table.from_pylist(rows, schema.arrow_schema("summaries"))
    write_table(file, table)


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_a_summary_with_impossible_values_is_not_imported(
    name: str, tmp_path: Path
) -> None:
    changes, words = IMPOSSIBLE[name]
    write_hand_made_summary(tmp_path / "x.parquet", changes)
    with pytest.raises(UsageError, match=f"x: cannot be stored as .*{words}"):
        import_runs(tmp_path / "root", [tmp_path / "x.parquet"], None)


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_a_stored_summary_with_impossible_values_is_named(
    name: str, tmp_path: Path
) -> None:
    changes, words = IMPOSSIBLE[name]
    with Fleet(tmp_path) as fleet:
        (fleet.results / "summaries").mkdir(parents=True)
        write_hand_made_summary(fleet.results / "summaries/x.parquet", changes)
        listed = fleet("runs", "--summaries")
        shown = fleet("show", "summary:x")
        verified = fleet("verify")
    assert (listed.exit_code, shown.exit_code, verified.exit_code) == (0, 11, 11)
    assert "It is left out." in " ".join(listed.stderr.split())
    for output in (listed.stderr, shown.stderr, verified.stdout + verified.stderr):
        assert f"summaries/x.parquet: {words}" in " ".join(output.split())


# It ends each process that `multiprocessing` starts as a crash of a library would.
CRASH = """
import os, sys
if "--multiprocessing-fork" in sys.orig_argv:
    os.abort()
"""


def test_a_file_that_ends_the_process_costs_a_sentence(tmp_path: Path) -> None:
    run = builders.a_run()
    Store(tmp_path / "results").publish(run, builders.make_bursts(run))
    (tmp_path / "crash").mkdir()
    (tmp_path / "crash/sitecustomize.py").write_text(CRASH)
    crashing = {"PYTHONPATH": f"{tmp_path}/crash:{ROOT}"}
    with Fleet(tmp_path) as fleet:
        assert fleet("export", "-o", "run.parquet").exit_code == 0
        fleet.environment |= crashing
        process = fleet.start("import", "run.parquet", "-r", "there")
        _, stderr = process.communicate()
        assert process.returncode == 2
        assert "run.parquet: reading it ended the process" in stderr
        assert "Traceback" not in stderr
        del fleet.environment["PYTHONPATH"]
        process = fleet.start("import", "run.parquet", "-r", "there")
        assert process.communicate()[0].endswith("imported\n")
