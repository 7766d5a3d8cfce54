"""Runs as files for others: what leaves, and that it comes back whole."""

import json
import re
import shutil
import zipfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from fleet.analysis.exchange import load_imports
from fleet.analysis.reduce import load_pairs, load_samples
from fleet.errors import StoreError
from fleet.model import Node
from fleet.store import Listing, anonymized_run, schema
from fleet.store.places import Folder, samples_name
from fleet.store.reading import TableFile
from fleet.store.rows import RunRecord
from fleet.store.verify import verify
from tests import builders, simulated
from tests.command import Done

MARKER = "Zq7secret"
KEPT = (
    "nosmt=force isolcpus=nohz,domain,1-3,8 hugepagesz=1G intel_idle.max_cstate=0"
    " idle=poll tsc=reliable"
)
GOES = {  # and what it is replaced by is tested below
    *(
        "run_id",
        "session_id",
        "host_id",
        "host_name",
        "started_utc",
        "ended_utc",
        "kernel_cmdline",
    ),
    *(
        "agent_place",
        "hostname",
        "kernel_version",
        "machine_id",
        "boot_id",
        "uptime_s",
        "user",
        "notes",
    ),
    *("labels_json", "plan_json", "hello_json", "host_json", "failed_json", "probe"),
}
CALL = Callable[..., Done]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    facts = {
        "hostname": MARKER,
        "nodes": (Node(0, network=(MARKER,)),),
        "kernel_cmdline": f"root=UUID={MARKER} {KEPT} idle={MARKER} ip=::{MARKER}",
    }
    desk = simulated.desktop(f"desk-{MARKER}", facts=facts)
    for number in range(2):
        simulated.publish(
            folder, desk, number, benchmarks=("cas", "clock"), labels={"who": MARKER}
        )
    return folder


def read_last_record(root: Path) -> RunRecord:
    run = Listing(root).runs[-1]
    return TableFile(
        Folder(root), samples_name(run.host_id, run.run_id), "samples"
    ).record


def plant_marker(record: RunRecord) -> RunRecord:
    """Put the marker into every column of text that does not leave, and within every
    JSON.
    """
    row = dict(record.row)
    number = 0
    for column in schema.TABLES["runs"]:
        if column.name in {
            *anonymized_run.STAYS,
            "kernel_cmdline",
        } or column.type not in (
            "string",
            "list<string>",
        ):
            continue
        number += 1
        if column.name.endswith("_json"):
            value = json.loads(row[column.name])
            own = {"secret": MARKER, "deep": [{"deeper": MARKER}]}
            row[column.name] = json.dumps(
                [own] if isinstance(value, list) else value | own
            )
        else:
            row[column.name] = (
                [MARKER] if column.type.startswith("list") else f"{MARKER}{number}"
            )
    # by which the samples are found
    ids = {name: record.row[name] for name in ("run_id", "host_id")}
    return RunRecord(
        row | ids | {"ended_utc": row["started_utc"] + timedelta(seconds=62)},
        record.cpus,
    )


def test_every_column_is_known_to_leave_or_not() -> None:
    names = {
        column.name for table in ("runs", "cpus") for column in schema.TABLES[table]
    }
    assert names == anonymized_run.STAYS | GOES
    assert not anonymized_run.STAYS & GOES


def test_nothing_that_names_somebody_is_in_the_file(root: Path, tmp_path: Path) -> None:
    record = read_last_record(root)
    exported = anonymized_run.export_run(
        Folder(root), plant_marker(record), tmp_path / "shared.parquet"
    )
    data = (tmp_path / "shared.parquet").read_bytes()
    written = TableFile(Folder(tmp_path), "shared.parquet", "samples").record
    texts = json.dumps([written.row, written.cpus], default=str)
    for text in (
        MARKER,
        record.row["run_id"],
        record.row["session_id"],
        record.row["host_id"],
    ):
        assert text not in texts
        assert text.encode() not in data
    assert MARKER not in str(pq.read_table(tmp_path / "shared.parquet").to_pylist()[:3])
    assert exported.row["kernel_cmdline"] == KEPT
    assert exported.row["started_utc"].hour == 0
    assert exported.row["started_utc"].minute == 0
    assert exported.row["ended_utc"] - exported.row["started_utc"] == timedelta(
        seconds=62
    )


def test_the_file_becomes_the_same_run_of_another_host(
    root: Path, tmp_path: Path, fleet_here: CALL
) -> None:
    file = tmp_path / "rome.parquet"
    friend_root = tmp_path / "there"
    done = fleet_here("export", "desk*", "-o", str(file), "-r", str(root))
    assert done.exit_code == 0, done.stderr
    assert "Left out: labels, hostname" in done.stdout
    for word in ("imported", "is here already"):
        done = fleet_here(
            "import", str(file), "--name", "friend", "-r", str(friend_root)
        )
        assert done.exit_code == 0, done.stderr
        assert word in done.stdout, done.stderr
    (run,) = Listing(friend_root).runs
    ours = load_samples(root, run_id=read_last_record(root).row["run_id"])
    theirs = load_samples(friend_root)
    for name in set(ours) - {"host_id", "run_id"}:
        assert (ours[name].map(str) == theirs[name].map(str)).all(), name
    assert run.host_name == "friend"
    assert verify(Folder(friend_root)).problems == ()
    before = read_last_record(root)
    now = read_last_record(friend_root)
    same = anonymized_run.STAYS & set(now.row) - {"content_sha256", "nodes_json"}
    assert {name: now.row[name] for name in same} == {
        name: before.row[name] for name in same
    }
    (node,) = json.loads(before.row["nodes_json"])
    assert json.loads(now.row["nodes_json"]) == [node | {"network": []}]


def test_what_is_to_be_kept_is_kept(
    root: Path, tmp_path: Path, fleet_here: CALL
) -> None:
    file = tmp_path / "a.parquet"
    assert (
        fleet_here(
            "export", "-o", str(file), "--keep", "labels", "-r", str(root)
        ).exit_code
        == 0
    )
    row = TableFile(Folder(tmp_path), file.name, "samples").record.row
    assert json.loads(row["labels_json"])["who"] == MARKER
    assert row["hostname"] is None
    done = fleet_here(
        "export", "-o", str(tmp_path / "b.parquet"), "--keep", "all", "-r", str(root)
    )
    assert done.exit_code == 2
    assert "hostname" in done.stderr
    # is there
    assert fleet_here("export", "-o", str(file), "-r", str(root)).exit_code == 2


def test_several_runs_travel_in_a_zip(
    root: Path, tmp_path: Path, fleet_here: CALL
) -> None:
    file = tmp_path / "all.zip"
    assert (
        fleet_here("export", "desk*", "-o", str(file), "-r", str(root)).exit_code == 0
    )
    assert len(zipfile.ZipFile(file).namelist()) == 2
    assert fleet_here("import", str(file), "-r", str(tmp_path / "there")).exit_code == 0
    assert len(Listing(tmp_path / "there").runs) == 2
    data = file.read_bytes()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.parquet", data)
    packed = file.read_bytes()
    for damaged in (data[:-30], packed[:60] + b"\xff" * 99 + packed[159:]):
        file.write_bytes(damaged)
        assert (
            fleet_here("import", str(file), "-r", str(tmp_path / "other")).exit_code
            == 2
        )


def test_an_altered_file_is_refused(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    anonymized_run.export_run(Folder(root), read_last_record(root), file)
    data = file.read_bytes()
    chance = np.random.default_rng(27)
    for position in chance.integers(0, len(data), 60).tolist():
        other = bytearray(data)
        other[position] ^= 1 << int(chance.integers(0, 8))
        file.write_bytes(other)
        with pytest.raises(StoreError):
            anonymized_run.import_run(Folder(tmp_path / "there"), file)
    assert (
        not (tmp_path / "there").exists() or Folder(tmp_path / "there").stamps() == {}
    )


def test_other_samples_under_the_same_id_are_refused(
    root: Path, tmp_path: Path
) -> None:
    file = tmp_path / "a.parquet"
    friend_root = Folder(tmp_path / "there")
    exported = anonymized_run.export_run(Folder(root), read_last_record(root), file)
    anonymized_run.import_run(friend_root, file)
    other = Listing(root).runs[0]
    table = TableFile(
        Folder(root), samples_name(other.host_id, other.run_id), "samples", whole=True
    )
    file.unlink()
    ids = {name: exported.row[name] for name in ("run_id", "host_id")}
    anonymized_run.rewrite_samples(
        table, file, RunRecord({**table.record.row, **ids}, exported.cpus)
    )
    with pytest.raises(StoreError, match="with other samples; nothing was changed"):
        anonymized_run.import_run(friend_root, file)


def test_samples_that_the_record_is_not_of_are_refused(
    root: Path, tmp_path: Path
) -> None:
    file = tmp_path / "a.parquet"
    with pytest.raises(
        FileNotFoundError
    ):  # no StoreError: that would name another results root
        anonymized_run.export_run(
            Folder(root), read_last_record(root), tmp_path / "none" / file.name
        )
    anonymized_run.export_run(Folder(root), read_last_record(root), file)
    builders.put_table(pq.read_table(file)[:-1], file)
    with pytest.raises(StoreError):
        anonymized_run.import_run(Folder(tmp_path / "there"), file)


@pytest.mark.long
def test_medians_travel_as_a_summary_with_intervals(
    root: Path, tmp_path: Path, fleet_here: CALL
) -> None:
    file = tmp_path / "medians.parquet"
    friend_root = tmp_path / "there"
    done = fleet_here("export", "desk*", "--medians", "-o", str(file), "-r", str(root))
    assert done.exit_code == 0, done.stderr
    record = read_last_record(root)
    for text in (
        MARKER,
        record.row["run_id"],
        record.row["session_id"],
        record.row["host_id"],
    ):
        assert text.encode() not in file.read_bytes()
        assert text not in str(pq.read_table(file).to_pylist())
    done = fleet_here("import", str(file), "--name", "friend", "-r", str(friend_root))
    assert done.exit_code == 0, done.stderr
    assert "summary:friend: imported" in done.stdout, done.stderr
    pairs = load_pairs(root, run_id=record.row["run_id"])
    pairs = pairs[pairs["ping_cpu"] != pairs["pong_cpu"]]
    imported = load_imports(friend_root)
    keys = ["benchmark", "ping_cpu", "pong_cpu"]
    ours = pairs.sort_values(keys)
    theirs = imported.sort_values(keys)
    assert len(imported) == len(pairs) > 0
    for name, other in (
        ("latency_ns", "median_ns"),
        ("low_ns", "low_ns"),
        ("high_ns", "high_ns"),
    ):
        np.testing.assert_array_equal(
            theirs[name].to_numpy(float), ours[other].to_numpy(float)
        )
    for words in (
        ("show", "summary:friend"),
        ("compare", "summary:friend", "summary:ryzen-9-9950x"),
    ):
        done = fleet_here(*words, "-r", str(friend_root))
        assert done.exit_code == 0
        assert re.search(r"±95%.*±\d+\.\d%", done.stdout, re.DOTALL)
    again = fleet_here("import", str(file), "--name", "friend", "-r", str(friend_root))
    assert again.exit_code == 0
    assert "is here already" in again.stdout
    assert len(load_imports(friend_root)) == len(imported)
    shipped = fleet_here(
        "import", str(file), "--name", "rpi4-linux", "-r", str(friend_root)
    )
    assert shipped.exit_code == 2
    assert "ships a summary" in shipped.stderr
    assert fleet_here("export", "--medians", "-r", str(root)).exit_code == 2
    file.write_bytes(file.read_bytes()[:-9])
    assert (
        fleet_here(
            "import", str(file), "--name", "other", "-r", str(friend_root)
        ).exit_code
        == 11
    )


@pytest.mark.long
def test_medians_of_several_runs_keep_their_own_names(
    root: Path, tmp_path: Path, fleet_here: CALL
) -> None:
    two = shutil.copytree(root, tmp_path / "two")
    simulated.publish(two, simulated.desktop("board"), 5)
    simulated.publish(two, simulated.desktop("board"), 6)
    file = tmp_path / "all.zip"
    friend_root = tmp_path / "there"
    words = (
        "export",
        "all",
        "--medians",
        "--keep",
        "hostname",
        "-o",
        str(file),
        "-r",
        str(two),
    )
    assert fleet_here(*words).exit_code == 0
    refused = fleet_here(
        "import", str(file), "--name", "friend", "-r", str(friend_root)
    )
    count = len(Listing(two).runs)
    assert refused.exit_code == 2
    assert f"not for {count} summaries" in refused.stderr
    assert load_imports(friend_root).empty
    assert fleet_here("import", str(file), "-r", str(friend_root)).exit_code == 0
    assert load_imports(friend_root)["summary"].nunique() == count
