"""Benchmarks and variants are named as they are printed, in every command."""

import pytest

from fleet.errors import UsageError
from fleet.model import BENCHMARKS
from fleet.plan.benchmark_names import (
    BenchmarkName,
    assign_to_benchmarks,
    parse_benchmark_names,
    select_choices,
)
from fleet.plan.options import parse_requested

CHOICES = ("cas/cmpxchg", "cas/c11", "chase/mov", "clock")


def test_a_name_has_a_variant_and_a_setting() -> None:
    assert parse_benchmark_names("cas/c11, chase/mov random x4") == (
        BenchmarkName("cas", "c11"),
        BenchmarkName("chase", "mov", ("random", "x4")),
    )


@pytest.mark.parametrize(
    ("text", "choices"),
    [
        ("cas", ["cas/cmpxchg", "cas/c11"]),
        ("cas/c11,clock", ["cas/c11", "clock"]),
        ("chase random", ["chase/mov"]),
        ("all", list(CHOICES)),
        ("readwrite", []),
    ],
)
def test_a_list_of_names_chooses_kinds(text: str, choices: list[str]) -> None:
    assert select_choices(text, CHOICES) == choices


def test_a_setting_chooses_the_points_that_have_its_words() -> None:
    (name,) = parse_benchmark_names("chase random")
    assert name.matches_point("random.512K.huge")
    assert not name.matches_point("rising.512K.huge")


def test_a_variant_named_with_a_benchmark_is_measured() -> None:
    requested = parse_requested({"benchmarks": "cas/c11,clock"})
    assert requested.benchmarks == ("cas", "clock")
    assert requested.variant == "cas=c11"


def test_a_variant_of_all_benchmarks_is_one_of_those_that_have_it() -> None:
    requested = parse_requested({"benchmarks": "all/ldar"})
    assert requested.benchmarks == tuple(BENCHMARKS)
    assert requested.variant == "readwrite=ldar"
    everything = parse_requested({"benchmarks": "all/all"}).variant
    assert everything == ",".join(f"{name}=all" for name in BENCHMARKS)


@pytest.mark.parametrize(
    ("benchmarks", "why"),
    [
        ("chase random", "chase always measures all its settings"),
        ("cas/c11,cas/cmpxchg", "one variant of cas"),
        ("cas/mov", "unknown variant 'mov' of cas; there are auto, all, cmpxchg"),
        ("all/lsee", "unknown variant 'lsee' of all; there are auto, all"),
        ("csa/lse", "unknown benchmark 'csa'"),
        ("/c11", "names no benchmark"),
    ],
)
def test_what_a_run_cannot_measure_is_refused(benchmarks: str, why: str) -> None:
    with pytest.raises(UsageError, match=f"benchmark .*{why}"):
        parse_requested({"benchmarks": benchmarks})


def test_names_of_nothing_are_refused() -> None:
    with pytest.raises(UsageError, match="names no benchmark"):
        parse_benchmark_names(" , ")


@pytest.mark.parametrize(
    ("variant", "benchmarks", "sent"),
    [
        ("lse", ("cas", "readwrite"), "cas=lse"),
        ("ldar", ("cas", "readwrite", "clock"), "readwrite=ldar"),
        ("c11", ("cas", "readwrite", "clock"), "cas=c11,readwrite=c11"),
        ("lse", ("cas",), "lse"),
        ("all", ("cas", "readwrite"), "all"),
        ("cas=lse,readwrite=ldar", ("cas", "readwrite"), "cas=lse,readwrite=ldar"),
        ("lse", ("readwrite", "clock"), "lse"),
    ],
)
def test_a_lone_name_goes_to_the_benchmarks_that_know_it(
    variant: str, benchmarks: tuple[str, ...], sent: str
) -> None:
    assert assign_to_benchmarks(variant, benchmarks) == sent
