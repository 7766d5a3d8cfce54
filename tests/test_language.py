"""The language of the project: functions are verbs, values are nouns, and a sentence is
read once.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "fleet").rglob("*.py"))
PAGES = [
    ROOT / "README.md",
    ROOT / "agent" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]

PARTICIPLE = re.compile(
    r"_*[a-z]*(ed|made|found|told|kept|shown|drawn|written|given|taken|begun|known|sent|built|met|held|said|chosen|meant)"
)
RELATION = re.compile(r"_*((of|in|by|with|without|at|as_of)_\w+|\w+_of)")
VAGUE = {
    *(
        "found",
        "one",
        "each",
        "asked",
        "there",
        "kept",
        "so_far",
        "told",
        "known",
        "made",
        "wanted",
        "given",
    ),
    *(
        "shown",
        "said",
        "lacking",
        "came",
        "least",
        "most",
        "at",
        "what",
        "whole",
        "once",
        "alike",
    ),
}
POOR_OPENING = re.compile(r"(Of|The same|Likewise|What|As of|Who)\b")
EXCEPTIONS = {"feed"}  # a verb, though it ends as a participle does
MOST = 0.01  # the share of names and docstrings that may break a rule
WORDS_IN_A_SENTENCE = 40
MEAN_WORDS_IN_A_SENTENCE = 22

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Names:
    """What a function calls things, and what it says of itself."""

    place: str  # its file, line and name
    name: str
    docstring: str | None
    variables: tuple[str, ...]  # arguments too, and those of inner functions
    neighbours: frozenset[str]  # the functions of its module


@cache
def functions() -> tuple[Names, ...]:
    return tuple(chain.from_iterable(read_names(path) for path in SOURCES))


def read_names(path: Path) -> Iterator[Names]:
    module = ast.parse(path.read_text())
    neighbours = frozenset(
        node.name for node in module.body if isinstance(node, Function)
    )
    for node in ast.walk(module):
        if isinstance(node, Function):
            yield Names(
                f"{path.relative_to(ROOT)}:{node.lineno} {node.name}",
                node.name,
                ast.get_docstring(node),
                tuple(list_variables(node)),
                neighbours,
            )


def list_variables(function: Function) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def sentences(page: Path) -> Iterator[str]:
    """The sentences of a page's running text: without code, tables, headings and link
    targets.
    """
    text = re.sub(r"```.*?```", "\n\n", page.read_text(), flags=re.DOTALL)
    text = re.sub(r"^(\||#|\s*<| {4}).*$", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    for paragraph in re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.)\s", text):
        plain = re.sub(r"`[^`]*`", "Code", " ".join(paragraph.split()))
        yield from (
            sentence
            for sentence in re.split(r"(?<=[.!?:])\s+(?=[A-Z`*(\[])", plain)
            if sentence
        )


@pytest.mark.parametrize("rule", [PARTICIPLE, RELATION], ids=["participle", "relation"])
def test_a_function_is_named_by_what_it_does(rule: re.Pattern[str]) -> None:
    poor = [
        function.place
        for function in functions()
        if rule.fullmatch(function.name) and function.name not in EXCEPTIONS
    ]
    assert len(poor) <= MOST * len(functions()), "\n".join(poor)


def test_a_variable_is_named_by_what_it_holds() -> None:
    every = [
        (function, name) for function in functions() for name in function.variables
    ]
    poor = [
        f"{function.place} variable {name}" for function, name in every if name in VAGUE
    ]
    assert len(poor) <= MOST * len(every), "\n".join(poor)


def test_no_variable_hides_a_function_of_its_module() -> None:
    poor = [
        f"{function.place} hides {name}"
        for function in functions()
        for name in function.neighbours.intersection(function.variables)
    ]
    assert not poor, "\n".join(poor)


def test_a_docstring_begins_with_what_the_function_does() -> None:
    documented = [function for function in functions() if function.docstring]
    poor = [
        function.place
        for function in documented
        if POOR_OPENING.match(function.docstring or "")
    ]
    assert len(poor) <= MOST * len(documented), "\n".join(poor)


@pytest.mark.parametrize(
    "page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix()
)
def test_a_sentence_is_read_once(page: Path) -> None:
    lengths = {sentence: len(sentence.split()) for sentence in sentences(page)}
    assert not [
        sentence for sentence, words in lengths.items() if words > WORDS_IN_A_SENTENCE
    ]
    assert sum(lengths.values()) <= MEAN_WORDS_IN_A_SENTENCE * len(lengths)
