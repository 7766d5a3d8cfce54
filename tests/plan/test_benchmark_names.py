"""Benchmarks and variants are named as they are printed, in every command."""

import pytest

from fleet.errors import UsageError
from fleet.plan.benchmark_names import (
    BenchmarkName,
    assign_to_benchmarks,
    check_variants,
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
    requested = parse_requested({"benchmarks": "cas/c11,clock", "variant": None})
    assert (requested.benchmarks, requested.variant) == (("cas", "clock"), "cas=c11")


@pytest.mark.parametrize(
    ("benchmarks", "variant", "why"),
    [
        ("chase random", None, "chase always measures all its settings"),
        ("cas/c11,cas/cmpxchg", None, "one variant of cas"),
        ("cas/c11", "lse", "keep one of them"),
        ("cas/cc11", None, "unknown variant 'cc11' of cas"),
        ("/c11", None, "names no benchmark"),
    ],
)
def test_what_a_run_cannot_measure_is_refused(
    benchmarks: str, variant: str | None, why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        parse_requested({"benchmarks": benchmarks, "variant": variant})


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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lsee", "unknown variant 'lsee'; there are auto, all, and for cas cmpxchg"),
        (
            "cas=mov",
            "unknown variant 'mov' of cas; there are auto, all, and for cas cmpxchg",
        ),
        ("csa=lse", "unknown benchmark 'csa'"),
        ("lse,mov", "write several variants as"),
        ("", "unknown variant ''"),
        ("cas=", "unknown variant ''"),
    ],
)
def test_an_unknown_word_is_refused_with_what_there_is(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check_variants(text)


@pytest.mark.parametrize(
    "text", ["auto", "all", "lse", "cas=lse, readwrite=ldar", "cas=all", "clock=auto"]
)
def test_what_is_known_is_taken(text: str) -> None:
    assert check_variants(text) == text.replace(" ", "")
