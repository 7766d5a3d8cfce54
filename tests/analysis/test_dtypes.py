"""A column has one dtype in every table that notebooks get, whatever is unknown in it."""

from collections import defaultdict
from pathlib import Path

import matplotlib as mpl
import pandas as pd
import pytest

import fleet
from fleet import analysis
from fleet.analysis.base import drop_dtypes, set_dtypes
from fleet.analysis.report import plots

TWO_MEANINGS = {
    "ticks",  # of a burst, a list; of a sample, a number
    "labels",  # of a burst's run, as text; of a run over time, as a mapping
}


@pytest.fixture(scope="module")
def tables(made_lab: Path) -> dict[str, pd.DataFrame]:
    """Every table of the door, of many runs, of one, and without a row."""
    root = made_lab / "results"
    results = fleet.open(root)
    (compared,) = results.compare("rome", "milan")
    pairs = analysis.load_pairs(root, host_id=["pisa", "siena"])
    bursts = analysis.load_samples(root, host_id="siena")
    return {
        "runs": results.runs(),
        "runs of one": results.runs("siena"),
        "numbers": results.numbers(),
        "pairs": results.pairs("verona", "siena"),
        "pairs of one": results.pairs("siena"),
        "samples": results.samples("siena", warmups=True),
        "bursts": results.bursts("siena", pair="0-1"),
        "summaries": results.summaries("rpi4-linux"),
        "changes": results.changes("lucca"),
        "odd": results.odd("node*"),
        "relations": compared.relations,
        "compared pairs": compared.pairs,
        "environment": compared.environment,
        "load_runs": analysis.load_runs(root, host_id="rome"),
        "load_cpus": analysis.load_cpus(root),
        "load_samples": bursts,
        "load_counters": analysis.load_counters(root, host_id="siena"),
        "load_pairs": pairs,
        "load_numbers": analysis.load_numbers(root),
        "history": analysis.history(root, host_id="siena"),
        "plateaus": analysis.find_plateaus(pairs, analysis.load_cpus(root)),
        "steps": analysis.select_ladder_steps(pairs),
        "pair_medians": analysis.pair_medians(bursts),
        "samples_long": analysis.samples_long(bursts),
        "no runs": analysis.load_runs(root, host_id="nobody"),
        "no pairs": analysis.load_pairs(root, host_id="nobody"),
        "no samples": analysis.load_samples(root, host_id="nobody"),
        "no numbers": analysis.load_numbers(root, host_id="nobody"),
    }


def test_a_column_has_one_dtype_in_all_tables(tables: dict[str, pd.DataFrame]) -> None:
    # the tables that have a column, by its dtype there
    dtypes: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, table in tables.items():
        for column, dtype in table.dtypes.items():
            dtypes[column][str(dtype)].append(name)
    several = {column: dict(by) for column, by in dtypes.items() if len(by) > 1}
    assert set(several) <= TWO_MEANINGS, several
    for dtype, columns in (
        ("string", ("run_id", "why")),
        ("boolean", ("smt", "boost")),
        ("Int64", ("threads", "converged")),
    ):
        for column in columns:
            assert set(dtypes[column]) == {dtype}, column


def test_what_is_unknown_is_null_and_equals_nothing(
    tables: dict[str, pd.DataFrame],
) -> None:
    assert tables["runs"]["boost"].isna().all(), "the lab does not say"
    threads = tables["pairs"]["threads"]
    assert threads.isna().any()
    assert threads.dropna().tolist() == [int(count) for count in threads.dropna()]


def test_fleets_functions_take_the_tables_that_they_give(made_lab: Path) -> None:
    root = made_lab / "results"
    results = fleet.open(root)
    pairs = results.pairs("pisa", benchmark="chase")
    assert len(analysis.select_ladder_steps(pairs))
    assert len(analysis.find_plateaus(pairs, analysis.load_cpus(root)))
    last = results.runs("siena")["run_id"].iloc[-1]
    own = results.pairs(last, benchmark="cas")
    cpus = analysis.load_cpus(root, run_id=last)
    table = analysis.matrix(own, cpus["cpu"])
    assert table.equals(results.matrix("siena", "cas").loc[table.index, table.columns])
    layout = analysis.make_layout(cpus, list(table.index))
    assert sorted(layout.cpus) == sorted(table.index)


def test_pictures_are_drawn_of_the_tables(made_lab: Path) -> None:
    mpl.use("Agg")
    results = fleet.open(made_lab / "results")
    assert plots.burst_histogram(results.bursts("siena", pair="0-1")).patches
    steps = analysis.select_ladder_steps(results.pairs("pisa", benchmark="chase"))
    assert plots.ladder(steps).lines
    runs = results.numbers("rome", benchmark="cas").rename(
        columns={"host_id": "host", "median_ns": "ns"}
    )
    assert plots.run_dots(runs).lines


def test_a_table_comes_back_as_fleet_made_it() -> None:
    text = pd.Series(["a", None], dtype=object)
    count = pd.Series([1.0, float("nan")])
    answer = pd.Series([True, None], dtype=object)
    table = pd.DataFrame({"variant": text, "threads": count, "boost": answer})
    typed = set_dtypes(table)
    assert [str(dtype) for dtype in typed.dtypes] == ["string", "Int64", "boolean"]
    pd.testing.assert_frame_equal(drop_dtypes(typed), table)
