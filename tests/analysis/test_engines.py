"""Other engines read the same results root unchanged; the recipes are those of
docs/reading.md.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fleet.analysis.reduce import load_pairs, load_samples, pair_medians
from fleet.model import Host
from fleet.store import Listing, Store, new_run_id
from tests import builders, needs
from tests.spark import prepare_spark

PAGE = Path(__file__).parents[2] / "docs" / "reading.md"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two hosts with one run each under `results`, pairs derived; the working directory
    is above it.
    """
    root = tmp_path / "results"
    for name in ("a", "b"):
        run = builders.a_run(
            builders.small_desktop(), new_run_id(), Host(name, "192.0.2.1")
        )
        Store(root).publish(run, builders.make_bursts(run, seed=ord(name)))
    Listing(root).list_with_unfinished()
    # as the page says before these recipes
    load_pairs(root).to_parquet(tmp_path / "pairs.parquet")
    monkeypatch.chdir(tmp_path)
    return root


def recipe(heading: str) -> str:
    """The page's blocks of Python under a heading, as one program."""
    rest = PAGE.read_text().partition(f"\n## {heading}\n")[2]
    blocks = re.findall(
        r"^```python\n(.*?)^```",
        rest.partition("\n## ")[0],
        flags=re.MULTILINE | re.DOTALL,
    )
    assert blocks, heading
    return "\n".join(blocks)


def run(heading: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(recipe(heading), f"{PAGE.name}: {heading}", "exec"), names)
    return names


def reduce_by_host(root: Path) -> dict[str, float]:
    """The median of the SMT pairs' medians of each host, by our own reduction."""
    pairs = pair_medians(load_samples(root, relation="smt"))
    hosts = (
        load_samples(root, columns=["host_id", "run_id"]).drop_duplicates().astype(str)
    )
    joined = pairs.merge(hosts, on="run_id")
    return dict(joined.groupby("host_id")["median_ns"].median())


def query_by_host(root: Path) -> dict[str, float]:
    """The same by the medians of the pairs' bursts, which a query can tell."""
    bursts = pd.read_parquet(
        root / "samples",
        filters=[("benchmark", "==", "cas"), ("relation", "==", "smt")],
    )
    bursts["ns"] = [
        np.median(burst.ticks[burst.warmup :])
        * burst.ns_per_tick
        / burst.iterations
        / 2
        for burst in bursts.itertuples()
    ]
    bursts["low"], bursts["high"] = np.sort(bursts[["ping_cpu", "pong_cpu"]], axis=1).T
    pairs = (
        bursts.astype({"host_id": str})
        .groupby(["host_id", "low", "high"])["ns"]
        .median()
    )
    return dict(pairs.groupby("host_id").median())


def test_the_page_for_pandas_says_what_is_so(root: Path) -> None:
    names = run("Plain pandas")
    assert len(names["bursts"]) == 2 * 28 * 3
    assert dict(names["smt"]) == pytest.approx(reduce_by_host(root), rel=1e-6)


def test_the_page_for_fleets_own_readers_says_what_is_so(root: Path) -> None:
    names = run("With fleet's functions")
    assert set(names["pairs"]["host_id"]) == {"a", "b"}
    assert names["table"].shape == (8, 8)
    assert list(names["past"]["relation"].unique()) == ["smt"]


@pytest.mark.slow
def test_duckdb_reads_the_root_unchanged(root: Path) -> None:
    needs.python_module("duckdb", "duckdb")
    names = run("DuckDB")
    rows = {row[0]: row[2] for row in names["history"].fetchall()}
    assert rows == pytest.approx(reduce_by_host(root), rel=1e-6)
    raw = {row[0]: row[1] for row in names["raw"].fetchall()}
    assert raw == pytest.approx(query_by_host(root), rel=1e-6)


@pytest.mark.slow
def test_spark_reads_the_root_unchanged(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare_spark(root.parent, monkeypatch)
    names = run("Spark")
    try:
        raw = {row["host_id"]: row["smt_ns"] for row in names["raw"].collect()}
        medians = {row["host_id"]: row["smt_ns"] for row in names["kept"].collect()}
    finally:
        names["spark"].stop()
    assert raw == pytest.approx(query_by_host(root), rel=1e-6)
    assert medians == pytest.approx(reduce_by_host(root), rel=1e-6)
