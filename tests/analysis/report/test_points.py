"""States of fetch and blocks of interleave in a report: the cells of `fleet show`, as
tables of the page.
"""

import re
from pathlib import Path

import pytest

from fleet.analysis.report import render
from tests import points
from tests.analysis.markup import Markup

pytestmark = pytest.mark.long


def cells(page: str, label: str) -> list[list[str]]:
    """The rows of the table whose region has a name that ends so, titles first."""
    (region,) = re.findall(
        rf'aria-label="[^"]*{re.escape(label)}">(.*?)</table>', page, re.DOTALL
    )
    return [
        re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)
        for row in re.findall(r"<tr>(.*?)</tr>", region)
    ]


def test_states_and_blocks_are_tables_of_their_run(tmp_path: Path) -> None:
    page = render(tmp_path, [points.publish(tmp_path).run_id])
    assert Markup(page).errors == []
    assert "this page does not show it" not in page
    assert cells(page, "fetch/mov on rpi5: read, each line naming the next") == [
        ["state", "package"],
        ["own", "4.40"],
        ["third", "61.5"],
        ["memory", "150.0"],
    ]
    assert cells(page, "taken for writing, each line naming the next")[1:] == [
        ["written", "80.2"]
    ]
    assert cells(page, "interleave/mov on rpi5: package, stores") == [
        ["block", "own", "shared", "ratio", "boundary"],
        ["1K", "2.00", "5.00", "2.50", "48.0"],
    ]


def test_the_first_screen_has_their_key_numbers(tmp_path: Path) -> None:
    page = render(tmp_path, [points.publish(tmp_path).run_id])
    assert "No samples are stored" not in page
    first = re.findall(r"<t[hd][^>]*>([^<]*)", page.partition("<nav")[0])
    fetched, written = "fetch/mov", "interleave/mov"
    assert [cell.strip() for cell in first if cell.strip()] == [
        *("benchmark", "own", "third", "memory", fetched, "4.40", "61.5", "150.0"),
        *("benchmark", "1K", written, "5.00"),
    ]


def test_every_run_has_a_dot_in_a_panel_of_each_state(tmp_path: Path) -> None:
    runs = [
        points.publish(
            tmp_path, started_utc=f"2026-01-0{day}T00:00:00Z", noise=0.01
        ).run_id
        for day in (2, 3)
    ]
    page = render(tmp_path, runs)
    panels = re.findall(r'aria-label="Run medians of ([^:"]+)', page)
    assert panels == [
        *(
            f"fetch/mov read chase, package, {state}"
            for state in ("own", "third", "memory")
        ),
        "interleave/mov write shared, package, 1K",
    ]
