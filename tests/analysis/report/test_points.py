"""States of fetch and blocks of interleave in a report: the cells of `fleet show`, as tables of the page."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

from fleet.analysis.report.page import render
from fleet.analysis.views.show import show_text
from fleet.model import Burst, Parameters, Run
from fleet.store import Store
from tests import builders
from tests.analysis.markup import Markup

HOSTILE = "<script>alert(1)</script>"
OWN_NS, THIRD_NS, WRITTEN_NS = 4.4, 61.5, 80.2
ALONE_NS, SHARED_NS, BLOCK = 2.0, 5.0, 1024


def publish(root: Path, **changes: object) -> Run:
    """Store a run of fetch and interleave on two CPUs of one last-level cache."""
    run = builders.a_run(benchmarks=("fetch", "interleave"), **changes)
    Store(root).publish(run, bursts())
    return run


def bursts() -> Iterator[Burst]:
    """Two rounds of each point."""
    for visit in range(2):
        for state, operation, ns in (
            ("own", "read", OWN_NS),
            ("third", "read", THIRD_NS),
            (HOSTILE, "read", 9.0),
            ("written", "swap", WRITTEN_NS),
        ):
            setting = Parameters(
                bytes=1 << 17, stride_bytes=256, operation=operation, state=state, order="chase"
            )
            yield burst(visit, "fetch", ns, setting, f"{state}.{operation}")
        for sharing, ns in (("own", ALONE_NS), ("shared", SHARED_NS)):
            setting = Parameters(
                bytes=1 << 17, block_bytes=BLOCK, operation="write", sharing=sharing, threads=2
            )
            yield burst(visit, "interleave", ns, setting, f"write.{sharing}.1K")


def burst(visit: int, benchmark: str, ns: float, setting: Parameters, point: str) -> Burst:
    iterations = 1 << 20
    ticks = round(ns * iterations * builders.TICKS_PER_SECOND / 1e9)
    return builders.a_burst(
        benchmark=benchmark,
        variant="mov",
        round=visit,
        iterations=iterations,
        ticks=(ticks,) * 5,
        point=point,
        unit="line",
        parameters=setting,
    )


def cells(page: str, label: str) -> list[list[str]]:
    """The rows of the table whose region has a name that ends so, titles first."""
    (region,) = re.findall(rf'aria-label="[^"]*{re.escape(label)}">(.*?)</table>', page, re.DOTALL)
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", region)]


def test_states_and_blocks_are_tables_of_their_run(tmp_path: Path) -> None:
    page = render(tmp_path, [publish(tmp_path).run_id])
    assert Markup(page).errors == []
    assert "this page does not show it" not in page
    assert HOSTILE not in page
    titles, *states = cells(page, "fetch/mov on rpi5: read, each line naming the next (latency)")
    assert len(titles) == 2
    assert states == [["own", "4.4"], ["third", "61.5"], ["&lt;script&gt;alert(1)&lt;/script&gt;", "9.0"]]
    assert cells(page, "taken for writing, each line naming the next")[1:] == [["written", "80.2"]]
    assert cells(page, f"interleave/mov on rpi5: {titles[1]}, stores") == [
        ["block", "own", "shared", "ratio", "boundary"],
        ["1K", "2.00", "5.00", "2.50", "48.0"],
    ]


def test_the_page_has_the_cells_of_fleet_show(tmp_path: Path) -> None:
    run_id = publish(tmp_path).run_id
    page = render(tmp_path, [run_id])
    shown = [line.split() for line in show_text(tmp_path, run_id).splitlines()]
    for label in ("naming the next (latency)", "taken for writing, each line naming the next", ", stores"):
        for row in cells(page, label):
            assert [unescape(cell) for cell in row] in shown


def test_a_run_of_neither_latencies_nor_ladders_has_no_empty_first_table(tmp_path: Path) -> None:
    page = render(tmp_path, [publish(tmp_path).run_id])
    assert 'id="medians"' not in page
    assert "No samples are stored" not in page
