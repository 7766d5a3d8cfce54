"""The report as a browser shows it: real and simulated hosts, wide and narrow, light
and dark.
"""

import re
from pathlib import Path

import pytest
from matplotlib import image

from fleet.analysis.base import find_last_session_runs
from fleet.analysis.report import render
from fleet.model import Host, Via
from fleet.store import Listing
from tests import builders, simulated
from tests.browser import DESK, Browser
from tests.command import Fleet

pytestmark = pytest.mark.slow

TELEPHONE = (390, 844)
_BEYOND_THE_EDGE = """
[...document.querySelectorAll("body *")]
  .filter(e => !e.closest(".scroll") && !e.closest("svg") && !e.matches(".skip"))
  .filter(e => e.getBoundingClientRect().right > innerWidth + 1)
  .map(e => e.outerHTML.slice(0, 80))
"""
_CUT_FROM_PICTURES = """
[...document.querySelectorAll("svg text")].filter(t => {
  const own = t.getBoundingClientRect(), all = t.ownerSVGElement.getBoundingClientRect();
  const across = own.left < all.left - 1 || own.right > all.right + 1;
  return across || own.top < all.top - 2 || own.bottom > all.bottom + 2;
}).map(t => t.textContent + " in " + t.ownerSVGElement.getAttribute("aria-label").slice(0, 60))
"""
_SMALLEST_TEXT = """
Math.min(...[...document.querySelectorAll(".panels svg text")].map(t =>
  parseFloat(getComputedStyle(t).fontSize) * Math.hypot(t.getScreenCTM().a, t.getScreenCTM().b)))
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report `fleet report` writes of this machine, really measured, and of three
    simulated ones.
    """
    folder = tmp_path_factory.mktemp("fleet")
    desk = simulated.desktop(
        "desk", two_levels=frozenset({(0, 1)}), drifting=frozenset({(1, 3)})
    )
    with Fleet(folder) as fleet:
        fleet.hosts(Host("localhost", "localhost", via=Via.LOCAL))
        measured = fleet("run", "-b", "cas,clock", "--rounds", "5")
        assert measured.exit_code == 0, measured.stderr
        simulated.publish(
            fleet.results, desk, 0, benchmarks=("cas", "readwrite", "clock")
        )
        simulated.publish(
            fleet.results,
            simulated.laptop("laptop-with-a-long-name.example.org"),
            1,
            rounds=5,
        )
        simulated.publish(
            fleet.results,
            simulated.server(cpus=builders.two_sockets()[:48]),
            2,
            rounds=3,
            samples=4,
        )
        ran = fleet(
            "report",
            "localhost",
            "desk",
            "laptop-with-a-long-name.example.org",
            "server",
            "-o",
            "r.html",
        )
        assert ran.exit_code == 0, ran.stderr
        assert re.fullmatch(r"r\.html: 4 runs, 0\.\d MB\n", ran.stdout)
        assert fleet("report", "-o", "inventory.yaml").exit_code == 2
    return folder / "r.html"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Browser:
    return Browser(tmp_path_factory.mktemp("browser"))


def test_the_browser_has_nothing_to_complain_of_and_nothing_to_fetch(
    page: Path, browser: Browser, tmp_path: Path
) -> None:
    assert browser.complaints(page) == []
    fetching = tmp_path / "fetching.html"
    fetching.write_text(
        page.read_text().replace(
            "</main>", '<img src="https://fleet.invalid/x.png"></main>'
        )
    )
    assert len(browser.complaints(fetching)) == 1


def test_the_message_is_on_the_first_screen(page: Path, browser: Browser) -> None:
    script = """{
      answer: document.querySelector("#answer p").getBoundingClientRect().top,
      medians: document.querySelector("#medians table").getBoundingClientRect().bottom,
      picture: document.querySelector("#medians .picture img").getBoundingClientRect().bottom,
      width: document.querySelector("#medians table").getBoundingClientRect().right
    }"""
    sizes = browser.ask(page, script, DESK)
    assert 0 < sizes["answer"] < sizes["medians"]
    assert max(sizes["medians"], sizes["picture"]) < DESK[1]
    assert sizes["width"] <= DESK[0]
    top = "e => document.querySelector(e).getBoundingClientRect().top"
    seen = f'["#answer p", "#medians .picture"].map({top}).map(y => y < innerHeight)'
    folded = (
        'getComputedStyle(document.querySelector(".more > summary")).display !== "none"'
    )
    assert browser.ask(page, f"[...{seen}, {folded}]", TELEPHONE) == [True, True, True]
    assert browser.ask(page, folded, DESK) is False


@pytest.mark.parametrize("size", [DESK, TELEPHONE, (320, 640)])
def test_nothing_is_cut_or_too_small(
    page: Path, browser: Browser, size: tuple[int, int]
) -> None:
    widths = "document.documentElement.scrollWidth, innerWidth"
    script = f"[{widths}, {_BEYOND_THE_EDGE}, {_CUT_FROM_PICTURES}, {_SMALLEST_TEXT}]"
    width, window, beyond, cut, smallest = browser.ask(page, script, size)
    assert window == size[0]
    assert width <= window
    assert beyond == []
    assert cut == []
    assert smallest >= 9  # CSS pixels


@pytest.mark.parametrize("size", [DESK, TELEPHONE])
def test_the_page_follows_the_theme(
    page: Path, browser: Browser, size: tuple[int, int]
) -> None:
    light, dark = (
        image.imread(browser.screenshot(page, f"{size[0]}-{dark}.png", size, dark=dark))
        for dark in (False, True)
    )
    assert light.shape[1] == dark.shape[1] == size[0]
    assert light[..., :3].mean() > 0.8
    assert dark[..., :3].mean() < 0.25


def test_the_tick_box_colours_all_maps_on_one_scale(
    page: Path, browser: Browser
) -> None:
    every = '[...document.querySelectorAll("#run-2 .map td")]'
    cells = f"{every}.map(cell => getComputedStyle(cell).backgroundColor).join()"
    ticked = f'[{cells}, document.querySelector("#common").click(), {cells}]'
    own, _, common = browser.ask(page, ticked, DESK)
    assert own != common


def test_twenty_hosts_of_32_cpus_stay_below_five_megabytes(tmp_path: Path) -> None:
    two_levels = frozenset({(0, 1), (2, 7)})
    for number in range(20):
        machine = simulated.laptop(f"laptop{number:02}", two_levels=two_levels)
        simulated.publish(
            tmp_path,
            machine,
            number,
            rounds=5,
            samples=2,
            benchmarks=("cas", "readwrite"),
        )
    size = len(
        render(
            tmp_path,
            find_last_session_runs(Listing(tmp_path)),
        ).encode()
    )
    assert size < 5_000_000
