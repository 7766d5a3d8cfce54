"""Programs that know nothing of fleet read every table of a root, all with the same
rows and columns.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.dataset as ds
import pytest

from fleet.model import Host, Parameters
from fleet.store import Store, new_run_id, schema
from fleet.store.rows import require_hello
from fleet.store.writing import write_summary
from tests import builders, needs
from tests.spark import prepare_spark
from tests.store.test_links import SUMMARY

TABLES = ("samples", "runs", "cpus", "counters", "summaries")
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a root of hosts with little in common: benchmarks, architectures, sizes,
    names, what they tell.
    """
    root = tmp_path_factory.mktemp("results")
    store = Store(root)

    def publish(
        name: str,
        arch: str,
        *bursts: Any,
        benchmark: str = "cas",
        counters: tuple[str, ...] = (),
    ) -> None:
        run = builders.a_run(
            builders.small_desktop(),
            new_run_id(),
            Host(name, "192.0.2.1"),
            benchmarks=(benchmark,),
        )
        facts = replace(run.facts, arch=arch)
        hello = replace(require_hello(run), counters=counters)
        run = replace(run, facts=facts, hello=hello)
        store.publish(run, bursts or builders.make_bursts(run))

    chase = {
        "benchmark": "chase",
        "variant": "mov",
        "unit": "load",
        "pong_cpu": 0,
        "cpus": (0,),
    }
    point = {
        "point": "32 KiB",
        "parameters": Parameters(bytes=1 << 15, pages="4k"),
        "checked": True,
    }
    publish("plain", "x86_64")
    publish("plain", "x86_64")
    publish(
        "long",
        "x86_64",
        *(builders.a_burst(round=visit, ticks=(7,) * 1000) for visit in range(9)),
    )
    publish(
        "true", "aarch64", builders.a_burst(steal_ppm=(0, 7), core_mhz=(2000, 3000))
    )
    publish("7", "riscv64", builders.a_burst(**chase, **point), benchmark="chase")
    publish(
        "counted",
        "s390x",
        builders.a_burst(counters=(((1, 2, 3),), (None,))),
        counters=("cycles",),
    )
    write_summary(root, "board", [SUMMARY])
    return root


def pandas_rows(folder: Path) -> Rows:
    return pd.read_parquet(folder).to_dict("records")


def pyarrow_rows(folder: Path) -> Rows:
    return ds.dataset(folder, partitioning="hive").to_table().to_pylist()


def polars_rows(folder: Path) -> Rows:
    polars = needs.python_module("polars", "polars")
    return polars.scan_parquet(folder).collect().to_dicts()


def duckdb_rows(folder: Path) -> Rows:
    duckdb = needs.python_module("duckdb", "duckdb")
    return duckdb.sql(f"from '{folder}/**/*.parquet'").to_arrow_table().to_pylist()


READERS = [
    pyarrow_rows,
    *(
        pytest.param(read, marks=pytest.mark.slow)
        for read in (polars_rows, duckdb_rows)
    ),
]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("read", READERS)
def test_readers_agree_on_every_row_and_column(
    root: Path, table: str, read: Callable[[Path], Rows]
) -> None:
    check(read(root / table), root, table)


@pytest.mark.long
@pytest.mark.parametrize("read", [pandas_rows, *READERS])
def test_a_host_named_like_a_value_stays_text(
    tmp_path: Path, read: Callable[[Path], Rows]
) -> None:
    for name, host_id in publish_odd_names(tmp_path).items():
        assert {row["host_id"] for row in read(tmp_path / name / "samples")} == {
            host_id
        }


@pytest.mark.slow
def test_spark_agrees_on_every_row_and_column_and_name(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare_spark(tmp_path, monkeypatch)
    from pyspark.sql import SparkSession  # noqa: PLC0415

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    try:
        for table in TABLES:
            check(
                spark.read.parquet(str(root / table)).toArrow().to_pylist(), root, table
            )
        for name, host_id in publish_odd_names(tmp_path).items():
            rows = spark.read.parquet(str(tmp_path / name / "samples")).collect()
            assert {row["host_id"] for row in rows} == {host_id}
    finally:
        spark.stop()


def publish_odd_names(folder: Path) -> dict[str, str]:
    """Make a root for each name that a reader may take for a number, a moment or null;
    give its host id.
    """
    host_ids = {}
    for name in (
        "7",
        "true",
        "False",
        "NaN",
        "inf",
        "Infinity",
        "epoch",
        "2026-01-02",
        "None",
        "null",
    ):
        run = builders.a_run(host=Host(name, "192.0.2.1"))
        Store(folder / name).publish(run, [builders.a_burst()])
        host_ids[name] = run.host.host_id
    return host_ids


def check(rows: Rows, root: Path, table: str) -> None:
    """Compare rows with those of pandas, and their columns with the schema."""
    usual = pandas_rows(root / table)
    assert {*rows[0]} == {*usual[0]} == {column.name for column in schema.TABLES[table]}
    assert sorted(map(as_text, rows)) == sorted(map(as_text, usual))
    counts = {
        "samples": 28 * 3 * 2 + 9 + 3,
        "runs": 6,
        "cpus": 48,
        "counters": 1,
        "summaries": 1,
    }
    assert len(rows) == counts[table]


def as_text(row: dict[str, Any]) -> str:
    return json.dumps({name: plain(value) for name, value in sorted(row.items())})


def plain(value: Any) -> Any:
    """Make a value the same whichever types a reader has for nulls, numbers, lists and
    moments.
    """
    if isinstance(value, (list, np.ndarray)):
        return [plain(item) for item in value]
    if value is None or pd.isna(value):
        return None
    if isinstance(value, datetime):
        return value.timestamp()
    return value if isinstance(value, str) else float(value)
