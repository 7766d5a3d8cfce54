"""The gallery has every option of `fleet show` that draws, and its pictures exist."""

import re
import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "report.md").read_text()
PICTURES = re.findall(r"!\[[^\]]+\]\((gallery/[^)]+)\)", PAGE)


@pytest.mark.parametrize(
    "option", ["--map", "--ladder", "--ways", "--relation", "--compare"]
)
def test_every_option_that_draws_is_named(option: str) -> None:
    assert option in PAGE


def test_the_pictures_exist_and_are_small_and_each_is_shown_once() -> None:
    files = {
        f"gallery/{path.name}": path.stat().st_size
        for path in (DOCS / "gallery").iterdir()
    }
    assert sorted(PICTURES) == sorted(files)
    assert sum(files.values()) < 1_500_000


def test_the_script_draws_these_pictures() -> None:
    script = runpy.run_path(str(DOCS / "gallery.py"))
    assert {
        f"gallery/{name}.png"
        for name in (*script["SHOTS"], *script["PAGES"], *script["HEATMAPS"])
    } == set(PICTURES)


def test_the_front_page_links_it() -> None:
    assert "docs/report.md" in (DOCS.parent / "README.md").read_text()
