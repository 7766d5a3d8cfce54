"""What the controller knows of benchmarks: the agent's own description, shipped, or as
a run has it.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from fleet.model import (
    BENCHMARKS,
    LOAD,
    SHIPPED,
    Burst,
    Parameters,
    Shape,
    View,
    benchmark_from_description,
    read_descriptions,
)
from tests.native.describe import describe

ROOT = Path(__file__).parents[2]
TOLD = {
    "name": "cas",
    "question": "",
    "unit": "call",
    "latencies": 1,
    "shape": "cpu",
    "view": "matrix",
    "heading": "ns per call",
    "parameters": [],
}


def test_the_shipped_descriptions_are_what_the_agent_says() -> None:
    for path, text in describe().items():
        assert path.read_text() == text, "make describe"


def test_nothing_is_guessed_of_a_benchmark_that_nobody_described() -> None:
    unknown = SHIPPED["unheard_of"]
    assert unknown.latencies == 1
    assert unknown.shape == Shape.UNKNOWN
    assert unknown.view == View.TABLE
    assert unknown.heading == "ns per unit"


def test_a_run_describes_what_this_version_does_not_know() -> None:
    own = read_descriptions({"benchmarks": [TOLD, TOLD | {"name": "getppid"}]})
    assert (
        own["getppid/any"]
        == own["getppid"]
        == benchmark_from_description(TOLD | {"name": "getppid"})
    )
    assert own["cas"] is BENCHMARKS["cas"]
    assert read_descriptions({}) == SHIPPED
    assert SHIPPED["load"] == LOAD


@pytest.mark.long
def test_a_benchmark_is_the_same_in_every_process() -> None:
    """Load it in processes that import different modules, in different orders."""
    script = (
        "from fleet.model import SHIPPED; print(SHIPPED['load'], SHIPPED['cas'],"
        " SHIPPED['unheard_of'])"
    )
    modules = (
        "fleet.analysis.reduce.cells",
        "fleet.analysis.report.page",
        "fleet.store.runs",
        "fleet.cli",
    )
    answers = set()
    for order in ((), modules, modules[::-1]):
        program = "".join(f"import {module}\n" for module in order) + script
        answers.add(
            subprocess.run(
                [sys.executable, "-c", program], check=True, capture_output=True
            ).stdout
        )
    (answer,) = answers
    assert b"GB/s" in answer


def test_words_of_a_newer_agent_are_no_error() -> None:
    newer = benchmark_from_description(
        {**TOLD, "shape": "ring", "view": "polar", "colour": "red"}
    )
    assert newer.shape == Shape.UNKNOWN
    assert newer.view == View.TABLE


def test_a_parameter_that_this_version_does_not_store_contradicts_no_point() -> None:
    mode = {"name": "mode", "type": "word", "words": {"warm": "cached", "cold": "not"}}
    newer = benchmark_from_description(TOLD | {"view": "table", "parameters": [mode]})
    visit = ("cas", "c11", 0, 0, 0, 1, 0, (1,), 0, (0, 0), (0, 0), None)
    burst = Burst(*visit, point="warm", parameters=Parameters())
    assert newer.find_mismatch(burst) is None


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_word_has_a_meaning(name: str) -> None:
    benchmark = BENCHMARKS[name]
    assert benchmark.question
    assert benchmark.heading
    words = [
        word
        for one in benchmark.parameters
        if one.type == "word"
        for word in one.words.items()
    ]
    assert all(word and meaning for word, meaning in words)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_page_about_benchmarks_says_what_its_number_is(name: str) -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    assert any(
        line.startswith(f"| `{name}` |")
        and line.endswith(f"| {BENCHMARKS[name].heading} |")
        for line in page.splitlines()
    )


def test_words_stand_in_the_order_of_their_description() -> None:
    (state,) = BENCHMARKS["fetch"].parameters_with_role("row")
    shuffled = ["unheard_of", "memory-walked", "own", "clean"]
    assert sorted(shuffled, key=state.sort_key) == [
        "own",
        "clean",
        "memory-walked",
        "unheard_of",
    ]
