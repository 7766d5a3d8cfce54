"""The words for variants: every one the agent's sources know, and no other."""

import re
from pathlib import Path

import pytest

from fleet.model import ARCHES
from fleet.plan.variants import VARIANTS, for_benchmarks, variant_choice

NATIVE = Path(__file__).parents[2] / "agent" / "native"


def coded(file: str, benchmark: str) -> tuple[str, ...]:
    """The variants in one file of the agent, in its order."""
    return tuple(re.findall(rf'\.name = "(\w+)"[^}}]*\.{benchmark} =', (NATIVE / file).read_text()))


@pytest.mark.parametrize("arch", ARCHES)
def test_the_variants_of_an_architecture_are_those_of_its_source(arch: str) -> None:
    assert coded(f"{arch}.c", "cas") == ARCHES[arch].cas
    assert coded(f"{arch}.c", "readwrite") == ARCHES[arch].readwrite


@pytest.mark.parametrize("benchmark", ["cas", "readwrite"])
def test_the_last_variant_is_the_one_every_architecture_has(benchmark: str) -> None:
    assert coded("generic.c", benchmark) == (VARIANTS[benchmark][-1],)


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
    assert for_benchmarks(variant, benchmarks) == sent


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
        variant_choice(text)


@pytest.mark.parametrize("text", ["auto", "all", "lse", "cas=lse, readwrite=ldar", "cas=all", "clock=auto"])
def test_what_is_known_is_taken(text: str) -> None:
    assert variant_choice(text) == text.replace(" ", "")
