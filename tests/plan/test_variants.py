"""The words for variants, as people write them."""

import pytest

from fleet.plan.benchmark_names import assign_to_benchmarks, check_variant


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
        ("cas=mov", "unknown variant 'mov' of cas; there are auto, all, and for cas cmpxchg"),
        ("csa=lse", "unknown benchmark 'csa'"),
        ("lse,mov", "written per benchmark"),
        ("", "unknown variant ''"),
        ("cas=", "unknown variant ''"),
    ],
)
def test_an_unknown_word_is_refused_with_what_there_is(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check_variant(text)


@pytest.mark.parametrize("text", ["auto", "all", "lse", "cas=lse, readwrite=ldar", "cas=all", "clock=auto"])
def test_what_is_known_is_taken(text: str) -> None:
    assert check_variant(text) == text.replace(" ", "")
