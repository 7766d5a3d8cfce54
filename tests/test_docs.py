"""Docs that cannot lie: every command has help with an example, every link leads
somewhere.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from fleet import errors
from fleet.cli.app import app

ROOT = Path(__file__).parent.parent
PAGES = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").glob("*.md"),
    ROOT / "agent" / "README.md",
]


def commands() -> dict[str, Any]:
    """The commands that help lists, by their names."""
    every = typer.main.get_command(app).commands
    return {name: command for name, command in every.items() if not command.hidden}


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_command_is_in_the_index_and_explains_itself(name: str) -> None:
    command = commands()[name]
    assert f"| `fleet {name}` |" in (ROOT / "docs/README.md").read_text()
    assert f"Example: fleet {name}" in command.help
    for parameter in command.params:
        assert len((parameter.help or "").split()) > 1, (
            f"fleet {name} {parameter.opts[0]}"
        )


@pytest.mark.parametrize(
    "page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix()
)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)[^)]*\)", page.read_text()):
        path, _, place = target.partition("#")
        if "://" not in target:
            file = page.parent / path if path else page
            assert file.exists(), f"{page.name}: {target}"
            assert not place or place in places(file), f"{page.name}: {target}"


def test_the_table_of_what_replaces_fabric_names_modules() -> None:
    table = (ROOT / "docs/decisions.md").read_text().partition("| fleet's own |")[2]
    rows = table.partition("\n\n")[0].splitlines()[2:]
    names = [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert len(names) >= 5
    modules = {path.stem for path in (ROOT / "fleet/remote/ssh").glob("*.py")}
    assert {*names} <= modules


def places(page: Path) -> set[str]:
    """Return what a link into a page can name: its headings, as GitHub writes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        for heading in headings
    }


def test_the_tour_is_twelve_files_that_can_be_read_in_an_hour() -> None:
    text = (
        (ROOT / "docs/design.md")
        .read_text()
        .partition("## A tour")[2]
        .partition("| to change |")[0]
    )
    files = re.findall(r"^\d+\. \[.*\]\(\.\./(.*)\)", text, re.MULTILINE)
    assert len(files) == 12
    assert sum(len((ROOT / file).read_text().splitlines()) for file in files) <= 3_600


def test_the_index_links_every_page() -> None:
    index = (ROOT / "docs/README.md").read_text()
    pages = {path.name for path in ROOT.glob("docs/*.md")} - {"README.md"}
    linked = set(re.findall(r"\]\(([a-z]+\.md)", index))
    assert pages == linked


def test_the_site_has_every_page_once() -> None:
    """Also those outside docs/ that pages link; only `make docs` needs mkdocs."""
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    pages = list_site_pages(site["nav"])
    linked = {file for page in PAGES for file in linked_pages(page)}
    expected = {
        file.removeprefix("docs/") if file.startswith("docs/") else f"project/{file}"
        for file in linked | {path.relative_to(ROOT).as_posix() for path in PAGES}
    }
    assert sorted(pages) == sorted(expected | {"api.md"})


def list_site_pages(entries: list[Any]) -> list[str]:
    """List the pages of a part of mkdocs' navigation."""
    pages: list[str] = []
    for entry in entries:
        (target,) = entry.values()
        pages += [target] if isinstance(target, str) else list_site_pages(target)
    return pages


def linked_pages(page: Path) -> set[str]:
    """Return the Markdown files of the repository that a page links."""
    links = re.findall(r"\]\((?!\w+:|#)([^)#\s]+\.md)", page.read_text())
    return {
        (page.parent / link).resolve().relative_to(ROOT).as_posix() for link in links
    }


def test_the_front_page_is_read_in_five_minutes() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= 1_000


def test_the_index_lists_every_exit_code() -> None:
    stages = vars(errors).values()
    codes = {
        c.exit_code
        for c in stages
        if isinstance(c, type) and issubclass(c, errors.FleetError)
    }
    text = (ROOT / "docs/README.md").read_text().partition("## Exit codes")[2]
    named = {int(number) for number in re.findall(r"\d+", text)}
    others = {value for name, value in vars(errors).items() if name.startswith("EXIT_")}
    assert codes | others | {0} == named
