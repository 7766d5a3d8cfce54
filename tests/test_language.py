"""The language of the project: functions are verbs, values are nouns, and a sentence is
read once.
"""

import ast
import re
from collections.abc import Iterator
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


def functions() -> Iterator[tuple[Path, Function]]:
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, Function):
                yield path, node


def place(path: Path, node: Function, text: str = "") -> str:
    return f"{path.relative_to(ROOT)}:{node.lineno} {node.name} {text}".rstrip()


def variables(node: ast.AST) -> list[str]:
    """List the arguments and assigned variables of a function, of inner ones too."""
    names = [inner.arg for inner in ast.walk(node) if isinstance(inner, ast.arg)]
    return names + [
        inner.id
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
    ]


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
    every = list(functions())
    poor = [
        place(*item)
        for item in every
        if rule.fullmatch(item[1].name) and item[1].name not in EXCEPTIONS
    ]
    assert len(poor) <= MOST * len(every), "\n".join(poor)


def test_a_variable_is_named_by_what_it_holds() -> None:
    every = [
        (path, node, name) for path, node in functions() for name in variables(node)
    ]
    poor = [
        place(path, node, f"variable {name}")
        for path, node, name in every
        if name in VAGUE
    ]
    assert len(poor) <= MOST * len(every), "\n".join(poor)


def test_no_variable_hides_a_function_of_its_module() -> None:
    poor = []
    for path in SOURCES:
        tree = ast.parse(path.read_text())
        own = {node.name for node in tree.body if isinstance(node, Function)}
        for node in ast.walk(tree):
            if isinstance(node, Function):
                poor += [
                    place(path, node, f"hides {name}")
                    for name in own & {*variables(node)}
                ]
    assert not poor, "\n".join(poor)


def test_a_docstring_begins_with_what_the_function_does() -> None:
    every = [(path, node, ast.get_docstring(node)) for path, node in functions()]
    documented = [item for item in every if item[2]]
    poor = [
        place(path, node)
        for path, node, text in documented
        if POOR_OPENING.match(text or "")
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
