"""States of fetch and blocks of interleave in a report: the cells of `fleet show`, as tables of the page."""

import re
from html import unescape
from pathlib import Path

from fleet.analysis.report.page import render
from fleet.analysis.views.show import show_text
from tests import points
from tests.analysis.markup import Markup

HOSTILE = "<script>alert(1)</script>"


def cells(page: str, label: str) -> list[list[str]]:
    """The rows of the table whose region has a name that ends so, titles first."""
    (region,) = re.findall(rf'aria-label="[^"]*{re.escape(label)}">(.*?)</table>', page, re.DOTALL)
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", region)]


def test_states_and_blocks_are_tables_of_their_run(tmp_path: Path) -> None:
    page = render(tmp_path, [points.publish(tmp_path).run_id])
    assert Markup(page).errors == []
    assert "this page does not show it" not in page
    assert cells(page, "fetch/mov on rpi5: read, each line naming the next (latency)") == [
        ["state", "package"],
        ["own", "4.4"],
        ["third", "61.5"],
        ["memory", "150.0"],
    ]
    assert cells(page, "taken for writing, each line naming the next")[1:] == [["written", "80.2"]]
    assert cells(page, "interleave/mov on rpi5: package, stores") == [
        ["block", "own", "shared", "ratio", "boundary"],
        ["1K", "2.00", "5.00", "2.50", "48.0"],
    ]


def test_a_state_is_only_text(tmp_path: Path) -> None:
    page = render(tmp_path, [points.publish(tmp_path, fetched={("chase", HOSTILE): 9.0}).run_id])
    assert HOSTILE not in page
    assert [unescape(cell) for cell in cells(page, "naming the next (latency)")[1]] == [HOSTILE, "9.0"]


def test_the_page_has_the_cells_of_fleet_show(tmp_path: Path) -> None:
    run_id = points.publish(tmp_path).run_id
    page = render(tmp_path, [run_id])
    shown = [line.split() for line in show_text(tmp_path, run_id).splitlines()]
    for label in ("naming the next (latency)", "taken for writing, each line naming the next", ", stores"):
        for row in cells(page, label):
            assert [unescape(cell) for cell in row] in shown


def test_a_run_of_neither_latencies_nor_ladders_has_no_empty_first_table(tmp_path: Path) -> None:
    page = render(tmp_path, [points.publish(tmp_path).run_id])
    assert 'id="medians"' not in page
    assert "No samples are stored" not in page
