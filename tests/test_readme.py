"""The answers on the front page are those of the commands before them, in the lab that `fleet demo` makes.

`python -m tests.test_readme` puts the lines that are printed now in the place of those most like them.
"""

import difflib
import re
import shlex
import tempfile
from pathlib import Path

import pytest

import fleet
from fleet.demo import unpack_lab
from fleet.errors import EXIT_BELOW
from tests.command import Fleet

ROOT = Path(__file__).parent.parent
SECTION = "## Questions and their commands"
COLUMNS = "80"  # as a stranger's terminal
RULE = "| CPU | summary | SMT siblings | one cluster | one socket |\n| --- | --- | --- | --- | --- |\n"


def answers() -> list[tuple[str, list[str]]]:
    """Each command of the section with the lines printed below it; `…` stands for lines left out."""
    section = (ROOT / "README.md").read_text().partition(SECTION)[2].partition("\n## ")[0]
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", section, flags=re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ "), []))
            else:
                found[-1][1].append(line)
    return [(command, lines) for command, lines in found if command.startswith("fleet ") and lines]


@pytest.fixture(scope="module")
def demo(made_lab: Path) -> Fleet:
    return Fleet(made_lab, {"COLUMNS": COLUMNS})


def missing(expected: list[str], printed: list[str]) -> str | None:
    """The first expected line that does not come next; after a `…` it may come later."""
    at, skipping = 0, False
    for line in expected:
        if line.strip() == "…":
            skipping = True
            continue
        if skipping:
            at = next((place for place in range(at, len(printed)) if printed[place] == line), len(printed))
        if at >= len(printed) or printed[at] != line:
            return line
        at, skipping = at + 1, False
    return None


def test_the_front_page_has_answers() -> None:
    assert len(answers()) >= 5


@pytest.mark.parametrize(("command", "lines"), answers(), ids=[command for command, _ in answers()])
def test_the_front_page_shows_what_the_command_prints(command: str, lines: list[str], demo: Fleet) -> None:
    done = demo(*shlex.split(command, comments=True)[1:])
    assert done.exit_code in (0, EXIT_BELOW), done.stderr
    assert missing(lines, done.stdout.splitlines()) is None


def renew(expected: list[str], printed: list[str]) -> list[str]:
    """The expected lines as they are printed now: of each the one most like it."""
    return [
        line if line.strip() == "…" else next(iter(difflib.get_close_matches(line, printed, 1, 0.5)), line)
        for line in expected
    ]


def tabulate_cpus() -> str:
    """Return the lines of the table of CPUs: the medians of the shipped summaries, by relation."""
    cells = fleet.open(ROOT / "notebooks/data").summaries(benchmark="cas")
    cells = cells[(cells["variant"] != "c11") & (cells["tool"] == "core_latency")]
    lines = []
    for name, part in cells.groupby("summary"):
        medians = part.groupby("relation")["latency_ns"].median()
        words = ("smt", "cluster", "package")
        numbers = (f"{medians[word]:.0f}" if word in medians else "-" for word in words)
        lines.append(f"| {part['cpu_model'].iloc[0]} | `{name}` | {' | '.join(numbers)} |\n")
    return "".join(lines)


def test_the_table_of_cpus_is_that_of_the_shipped_summaries() -> None:
    assert f"{RULE}{tabulate_cpus()}\n" in (ROOT / "README.md").read_text()


def rewrite() -> None:
    """Write the front page anew; a person looks at the difference."""
    page = ROOT / "README.md"
    text = page.read_text()
    text = re.sub(rf"{re.escape(RULE)}(\|.*\n)*", RULE + tabulate_cpus(), text)
    with tempfile.TemporaryDirectory() as folder, Fleet(Path(folder) / "lab", {"COLUMNS": COLUMNS}) as demo:
        unpack_lab(demo.folder)
        for command, lines in answers():
            printed = demo(*shlex.split(command, comments=True)[1:]).stdout.splitlines()
            old, new = ("\n".join([f"$ {command}", *part]) for part in (lines, renew(lines, printed)))
            text = text.replace(old, new)
    page.write_text(text)


if __name__ == "__main__":
    rewrite()
