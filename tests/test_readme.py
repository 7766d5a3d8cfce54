"""The outputs in the docs are those of the commands before them, in the lab that `fleet
demo` makes.

`python -m tests.test_readme` puts the lines that are printed now in the place of those
most like them.
"""

import difflib
import re
import shlex
import tempfile
from pathlib import Path

import pytest

import fleet
from fleet.demo import unpack_lab
from fleet.errors import EXIT_WORSE
from tests.command import Fleet

ROOT = Path(__file__).parent.parent
SECTIONS = (
    ("README.md", "## What it shows"),
    ("README.md", "## Questions and their commands"),
    ("docs/README.md", "## Questions and their commands"),
    ("docs/comparing.md", "# Comparing and accepting"),
)
# outputs of a real machine, and of fifty hosts
ELSEWHERE = {
    "docs/check.md",
    "docs/scale.md",
}
# a stranger's terminal; the width of our pages
COLUMNS = {
    "README.md": "80",
    "docs/README.md": "80",
    "docs/comparing.md": "120",
}
RULE = (
    "| CPU | summary | SMT siblings | one last-level cache | one socket | across"
    " sockets |\n| --- | --- | --- | --- | --- | --- |\n"
)
CPUS = (
    *(
        "epyc-7742",
        "epyc-7763",
        "epyc-9654",
        "xeon-x5650",
        "xeon-e5-2698-v3",
        "xeon-platinum-8358",
    ),
    *(
        "ryzen-threadripper-3990x",
        "ryzen-7-5800x3d",
        "ryzen-9-5950x",
        "ryzen-9-7950x",
        "ryzen-9-9950x",
    ),
    *("i7-6700k", "i9-9900k", "i9-12900k", "i9-13980hx-boost", "i9-13980hx-noboost"),
    *("rpi4-linux", "rpi5-linux"),
)


def answers(text: str) -> list[tuple[str, list[str]]]:
    """Each command of the text with the lines printed below it; `…` stands for lines
    left out.
    """
    commands: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                commands.append((line.removeprefix("$ "), []))
            else:
                commands[-1][1].append(line)
    return [
        (command, lines)
        for command, lines in commands
        if command.startswith("fleet ") and lines
    ]


def answers_of_pages() -> list[tuple[str, str, list[str]]]:
    """Each page, command and lines of the sections that are tested."""
    sections = (
        (page, (ROOT / page).read_text().partition(title)[2].partition("\n## ")[0])
        for page, title in SECTIONS
    )
    return [
        (page, *answer) for page, section in sections for answer in answers(section)
    ]


def missing(expected: list[str], printed: list[str]) -> str | None:
    """The first expected line that does not come next; after a `…` it may come
    later.
    """
    row = 0
    skipping = False
    for line in expected:
        if line.strip() == "…":
            skipping = True
            continue
        if skipping:
            row = next(
                (place for place in range(row, len(printed)) if printed[place] == line),
                len(printed),
            )
        if row >= len(printed) or printed[row] != line:
            return line
        row, skipping = row + 1, False
    return None


def test_every_page_with_outputs_is_tested_or_of_other_machines() -> None:
    assert len([page for page, *_ in answers_of_pages() if page == "README.md"]) >= 5
    pages = {
        f"docs/{path.name}"
        for path in (ROOT / "docs").glob("*.md")
        if answers(path.read_text())
    }
    assert pages == ELSEWHERE | {page for page, _ in SECTIONS} - {"README.md"}


@pytest.mark.long
@pytest.mark.parametrize(("page", "command", "lines"), answers_of_pages())
def test_a_page_shows_what_the_command_prints(
    page: str, command: str, lines: list[str], made_lab: Path
) -> None:
    done = Fleet(made_lab, {"COLUMNS": COLUMNS[page]})(
        *shlex.split(command, comments=True)[1:]
    )
    assert done.exit_code in (0, EXIT_WORSE), done.stderr
    assert missing(lines, done.stdout.splitlines()) is None


def renew(expected: list[str], printed: list[str]) -> list[str]:
    """The expected lines as they are printed now: of each the one most like it."""
    return [
        (
            line
            if line.strip() == "…"
            else next(iter(difflib.get_close_matches(line, printed, 1, 0.5)), line)
        )
        for line in expected
    ]


def tabulate_cpus() -> str:
    """Return the lines of the table of CPUs: medians of some shipped summaries, by
    relation.
    """
    cells = fleet.open(ROOT / "notebooks/data").summaries(benchmark="cas")
    cells = cells[cells["variant"] != "c11"]
    lines = []
    for name in CPUS:
        part = cells[cells["summary"] == name]
        # of all kinds of cores
        relations = part["relation"].map(lambda relation: relation.partition(" ")[0])
        medians = part.groupby(relations)["latency_ns"].median()
        words = ("smt", "llc", "package", "system")
        numbers = (f"{medians[word]:.0f}" if word in medians else "-" for word in words)
        cpu = part["cpu_model"].iloc[0].removeprefix("13th Gen ")
        lines.append(f"| {cpu} | `{name}` | {' | '.join(numbers)} |\n")
    return "".join(lines)


def test_the_table_of_cpus_is_that_of_the_shipped_summaries() -> None:
    assert f"{RULE}{tabulate_cpus()}\n" in (ROOT / "README.md").read_text()


def rewrite() -> None:
    """Write the pages anew; a person looks at the difference."""
    front = ROOT / "README.md"
    front.write_text(
        re.sub(
            rf"{re.escape(RULE)}(\|.*\n)*", RULE + tabulate_cpus(), front.read_text()
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        unpack_lab(Path(folder) / "lab")
        for name, command, lines in answers_of_pages():
            demo = Fleet(Path(folder) / "lab", {"COLUMNS": COLUMNS[name]})
            printed = demo(*shlex.split(command, comments=True)[1:]).stdout.splitlines()
            old, new = (
                "\n".join([f"$ {command}", *part])
                for part in (lines, renew(lines, printed))
            )
            page = ROOT / name
            page.write_text(page.read_text().replace(old, new))


if __name__ == "__main__":
    rewrite()
