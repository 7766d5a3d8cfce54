import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fleet.analysis.reduce import load_cpus, load_runs, load_samples, samples_long
from fleet.errors import StoreError, StoreWarning
from fleet.model import Host
from fleet.store import Store, new_run_id, schema
from tests import builders
from tests.processes import obeying_permissions


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two runs on two hosts, one burst of `cas` and one of `clock` each."""
    for name in ("a", "b"):
        run = builders.a_run(run_id=new_run_id(), host=Host(name, "192.0.2.1"))
        cas = builders.a_burst(ticks=(900, 500, 700), iterations=100, warmup=1)
        clock = builders.a_burst(
            benchmark="clock", variant="rdtscp", pong_cpu=0, ticks=(30, 40), warmup=0
        )
        Store(tmp_path).publish(run, [cas, clock])
    return tmp_path


def test_every_column_is_there_also_without_rows(tmp_path: Path) -> None:
    for frame, table in (
        (load_samples(tmp_path), "samples"),
        (load_runs(tmp_path), "runs"),
        (load_cpus(tmp_path), "cpus"),
    ):
        assert list(frame.columns) == [column.name for column in schema.TABLES[table]]
        assert frame.empty


def values(frame: pd.DataFrame, column: str) -> set[object]:
    return set(frame[column])


def test_filters_choose_host_run_and_benchmark(root: Path) -> None:
    assert len(load_samples(root)) == 4
    assert values(load_samples(root, host_id="a"), "host_id") == {"a"}
    assert values(load_samples(root, benchmark="clock"), "benchmark") == {"clock"}
    run_id = load_runs(root)["run_id"][0]
    assert values(load_samples(root, run_id=run_id), "run_id") == {run_id}
    assert load_samples(root, host_id="nobody").empty


def test_filters_take_several_values_relations_and_labels(root: Path) -> None:
    every = load_samples(root, host_id=["a", "b"], benchmark={"cas", "clock"})
    assert len(every) == 4
    assert values(load_samples(root, relation="self"), "benchmark") == {"clock"}
    assert load_samples(root, labels={"rack": "b3"}).empty
    host = Host("c", "192.0.2.1", labels={"rack": "c"})
    run = builders.a_run(run_id=new_run_id(), host=host)
    Store(root).publish(run, [builders.a_burst()])
    in_rack = {"rack": "c"}
    assert values(load_samples(root, labels=in_rack), "host_id") == {"c"}
    assert values(load_runs(root, labels=in_rack), "host_id") == {"c"}
    assert values(load_cpus(root, host_id="c"), "run_id") == {run.run_id}


def test_only_the_columns_asked_for_are_read(root: Path) -> None:
    frame = load_samples(root, benchmark="cas", columns=["ping_cpu", "flags"])
    assert list(frame.columns) == ["ping_cpu", "flags"]
    assert len(frame) == 2


def test_plain_pandas_reads_the_same_in_one_line(root: Path) -> None:
    ours = load_samples(root, benchmark="cas")
    plain = pd.read_parquet(root / "samples", filters=[("benchmark", "==", "cas")])
    assert ticks_by_run(ours) == ticks_by_run(plain)


def ticks_by_run(frame: pd.DataFrame) -> list[tuple[str, list[int]]]:
    """Return run and ticks of each row, in the order of the runs."""
    rows = zip(frame["run_id"].astype(str), frame["ticks"], strict=True)
    return sorted((run_id, list(ticks)) for run_id, ticks in rows)


def list_run_ids(root: Path) -> list[str]:
    return load_samples(root)["run_id"].astype(str).unique().tolist()


def test_a_file_in_the_place_of_a_host_hides_no_other_host(root: Path) -> None:
    (run,) = load_runs(root, host_id="a")["run_id"].unique()
    others = list_run_ids(root)
    others.remove(run)
    assert others != []
    folder = root / "samples/host_id=a"
    folder.rename(root / "_elsewhere")
    folder.write_text("no folder")
    assert load_samples(root, run_id=run).empty
    assert list_run_ids(root) == others


def test_a_folder_that_may_not_be_read_is_an_error_and_not_an_empty_frame() -> None:
    # not tmp_path, which only its owner may enter
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o755)
        Store(root).publish(builders.a_run(), [builders.a_burst()])
        samples = root / "samples/host_id=rpi5"
        samples.chmod(0)
        with obeying_permissions():
            for where in ({}, {"host_id": "rpi5"}, {"labels": {"rack": "b2"}}):
                with pytest.raises(StoreError, match="Permission denied"):
                    load_samples(root, **where)  # type: ignore[arg-type]
        samples.chmod(0o755)


def test_a_column_that_older_files_lack_does_not_vanish(root: Path) -> None:
    (old,) = root.glob("samples/host_id=a/*/samples.parquet")
    table = pq.ParquetFile(old).read().drop_columns(["line_node"])
    builders.put_table(table, old)
    assert load_samples(root)["line_node"].isna().all()


def test_one_row_per_sample_with_its_latency(root: Path) -> None:
    long = samples_long(load_samples(root, host_id="a"))
    cas = long[long["benchmark"] == "cas"]
    assert list(cas["ticks"]) == [900, 500, 700]
    assert list(cas["is_warmup"]) == [True, False, False]
    assert list(cas["sample"]) == [0, 1, 2]
    # 0.4 ns a tick, 100 round trips, one way
    np.testing.assert_allclose(cas["latency_ns"], [1.8, 1.0, 1.4])
    clock = long[long["benchmark"] == "clock"]
    # readings are not halved
    np.testing.assert_allclose(clock["latency_ns"], [0.012, 0.016])


def test_no_rows_have_no_samples(tmp_path: Path) -> None:
    assert samples_long(load_samples(tmp_path)).empty


def test_a_file_that_is_no_parquet_is_named(root: Path) -> None:
    (spoilt,) = root.glob("samples/host_id=a/*/samples.parquet")
    spoilt.write_text("no")
    words = "cannot read the samples table: samples/host_id=a"
    with pytest.warns(StoreWarning, match=words):
        readable = load_samples(root)
    assert values(readable, "host_id") == {"b"}
    with pytest.raises(StoreError, match=words):
        load_samples(root, host_id="a")


def test_null_means_the_host_did_not_tell(root: Path) -> None:
    row = load_runs(root).iloc[0]
    assert row["kernel"] is None or pd.isna(row["kernel"])
    assert row["cpu_model"] == "Model T"
    smt = schema.arrow_schema("runs").field("smt")
    assert pa.types.is_boolean(smt.type)
