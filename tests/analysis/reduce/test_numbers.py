"""The table `numbers`: a row per run and number, the same however it is made."""

from pathlib import Path

import pandas as pd
import pytest

import fleet
from fleet.analysis.reduce import (
    Only,
    add_run_levels,
    as_float64,
    load_numbers,
    load_pairs,
    select_numbers,
    verify_numbers,
)
from fleet.errors import UsageError
from fleet.store import Listing


def test_a_relation_has_the_median_of_its_pairs(made_lab: Path) -> None:
    root = made_lab / "results"
    pairs = as_float64(load_pairs(root))
    numbers = load_numbers(root)
    smt = numbers[(numbers["relation"] == "smt") & (numbers["benchmark"] == "cas")]
    own = pairs[(pairs["relation"] == "smt") & (pairs["benchmark"] == "cas")]
    medians = own.groupby("run_id")["median_ns"].median()
    assert len(smt) > 10
    assert dict(zip(smt["run_id"], smt["median_ns"], strict=True)) == dict(medians)


def test_numbers_are_read_as_they_were_made(made_lab: Path) -> None:
    root = made_lab / "results"
    first = load_numbers(root)
    pd.testing.assert_frame_equal(first, load_numbers(root))
    assert verify_numbers(root) == []
    assert {"L1", "mem"} <= {*first["level"].dropna()}
    assert not first.duplicated(["run_id", "benchmark", "variant", "relation"]).any()


def test_some_cpus_have_numbers_of_their_own(made_lab: Path) -> None:
    listing = Listing(made_lab / "results")
    runs = [run for run in listing.runs if run.host_name == "pisa"]
    whole = select_numbers(listing, runs, Only("cas"))
    of_cores = select_numbers(listing, runs, Only("cas", "P"))
    assert {*of_cores["relation"]} < {*whole["relation"]}
    assert whole["pairs"].sum() > of_cores["pairs"].sum()
    with pytest.raises(UsageError, match="not measured"):
        select_numbers(listing, runs, Only("nothing"))


def test_only_a_median_has_an_interval(made_lab: Path) -> None:
    listing = Listing(made_lab / "results")
    runs = [run for run in listing.runs if run.host_name == "pisa"]
    lowest = select_numbers(listing, runs, Only("cas"), pair_column="min_ns")
    medians = select_numbers(listing, runs, Only("cas"))
    assert sorted(lowest["median_ns"]) == sorted(medians["min_sample_ns"])
    assert lowest[["spread", "widest"]].isna().all(axis=None)
    assert medians[["spread", "widest"]].notna().all(axis=None)


def test_a_notebook_gets_the_numbers_of_a_selection(made_lab: Path) -> None:
    numbers = fleet.open(made_lab / "results").numbers("rome", benchmark="cas")
    assert {*numbers["host_id"]} == {"rome"}
    assert {*numbers["benchmark"]} == {"cas"}
    assert numbers.attrs["unit"] == "one way, ns"


def test_levels_do_not_depend_on_what_else_is_selected(made_lab: Path) -> None:
    numbers = load_numbers(made_lab / "results")
    every = add_run_levels(numbers)
    lucca = add_run_levels(numbers[numbers["host_id"] == "lucca"])
    own = every[every["host_id"] == "lucca"]
    assert [*own["run_level"]] == [*lucca["run_level"]]
    assert [*own["is_main"]] == [*lucca["is_main"]]
