"""The map of a page answers to pointer, finger and keys, at any number of CPUs."""

import html
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fleet.analysis.reduce import load_pairs
from fleet.analysis.report import render, write_site
from fleet.analysis.views import select_runs_to_show
from fleet.model import Cpu, Host
from fleet.store import Listing, Store
from tests import builders, simulated
from tests.analysis.report.test_report import HOSTILE
from tests.browser import DESK, Tab

pytestmark = pytest.mark.slow

TELEPHONE = (390, 844)
_TOLD = 'document.querySelector(".told").innerText'
_SHOWN = (
    '[".still", ".stack", ".told"].map(name =>'
    " getComputedStyle(document.querySelector(name)).display !== 'none')"
)


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with Tab(tmp_path_factory.mktemp("browser")) as tab:
        yield tab


@pytest.fixture(autouse=True)
def no_complaints(tab: Tab) -> Iterator[None]:
    """Fail a test in which the page wrote to the console or threw."""
    tab.complaints.clear()
    yield
    assert tab.complaints == []


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the results of 8 CPUs, of which 0 and 1 have two levels."""
    root = tmp_path_factory.mktemp("results")
    simulated.publish(root, simulated.desktop("desk", two_levels=frozenset({(0, 1)})))
    return root


@pytest.fixture(scope="module")
def page(desk: Path) -> Path:
    path = desk / "page.html"
    path.write_text(render(desk, [run.run_id for run in Store(desk).list_runs()]))
    return path


def _place_cell(tab: Tab, cpus: int, row: int, column: int) -> tuple[float, float]:
    """Scroll to the map and return the middle of a cell in the window."""
    left, top, side = tab.ask(
        "(canvas => { canvas.scrollIntoView({ block: 'center' });"
        " const box = canvas.getBoundingClientRect();"
        " return [box.left, box.top, box.width]; })"
        '(document.querySelector(".stack canvas"))'
    )
    cell = side / cpus
    return left + (column + 0.5) * cell, top + (row + 0.5) * cell


def test_a_pointer_shows_the_number_and_where_its_cpus_are(
    tab: Tab, desk: Path, page: Path
) -> None:
    tab.open(page, DESK)
    tab.point(*_place_cell(tab, 8, 0, 2))
    told = tab.ask(_TOLD)
    pairs = load_pairs(Listing(desk)).set_index(["ping_cpu", "pong_cpu"])
    pair = pairs.loc[0, 1]
    assert f"0-1 package: {pair['median_ns']:.1f} ns ±{pair['spread']:.1%}" in told
    assert f"{pair['other_share']:.0%} at another level, " in told
    assert "multimodal: pairs have over a tenth of their bursts" in told
    assert "CPU 0: core 0, cluster 0, cache 0, die 0, node 0, socket 0" in told
    assert "CPU 1: core 1, " in told
    needle = '(n => [n.hidden, parseFloat(n.style.left)])(document.querySelector(".live .needle"))'
    hidden, place = tab.ask(needle)
    assert not hidden
    tab.point(*_place_cell(tab, 8, 0, 1))
    assert "0-4 smt: " in tab.ask(_TOLD)
    assert tab.ask(needle)[1] < place  # siblings are nearer


def test_a_tap_holds_a_pair_and_a_second_one_gives_the_difference(
    tab: Tab, page: Path
) -> None:
    tab.open(page, TELEPHONE, touch=True)
    tab.tap(*_place_cell(tab, 8, 0, 1))
    tab.wait_for(f'{_TOLD}.includes("held")')
    tab.tap(*_place_cell(tab, 8, 0, 2))
    tab.wait_for(f'{_TOLD}.includes("against 0-4, ")')
    number, difference, held = (
        float(text) for text in tab.ask(f"{_TOLD}.match(/[0-9]+[.][0-9](?= ns)/g)")[:3]
    )
    assert number - held == pytest.approx(difference, abs=0.11)
    assert tab.ask("document.documentElement.scrollWidth") == TELEPHONE[0]
    tab.tap(*_place_cell(tab, 8, 1, 0))  # the pair held, from its other side
    tab.wait_for(f'!{_TOLD}.includes("held")')


def test_keys_move_hold_and_let_go(tab: Tab, page: Path) -> None:
    tab.open(page, DESK)
    tab.ask('document.querySelector(".stack").focus()')
    tab.press("ArrowRight")
    assert "0-4 smt" in tab.ask(_TOLD)
    tab.press("Enter", "ArrowDown", "ArrowDown")
    assert "4-1 " not in tab.ask(_TOLD)
    assert "1-4 " in tab.ask(_TOLD)
    assert "against 0-4" in tab.ask(_TOLD)
    tab.press("Escape", *("ArrowRight",) * 20)
    assert "1-7 " in tab.ask(_TOLD)
    assert "against" not in tab.ask(_TOLD)


def test_without_scripts_and_on_paper_there_is_the_picture(
    tab: Tab, page: Path
) -> None:
    tab.open(page, DESK)
    assert tab.ask(_SHOWN) == [False, True, True]
    tab.show("print")
    assert tab.ask(_SHOWN) == [True, False, False]
    tab.show("screen")
    tab.open(page, DESK, scripts=False)
    assert tab.ask(_SHOWN) == [True, False, False]


def test_a_map_that_was_hidden_answers_once_it_is_shown(tab: Tab, page: Path) -> None:
    tab.show("print")
    tab.open(page, DESK)
    tab.ask('dispatchEvent(new Event("resize"))')
    tab.show("screen")
    tab.ask('dispatchEvent(new Event("resize"))')
    tab.point(*_place_cell(tab, 8, 0, 1))
    assert "0-4 smt" in tab.ask(_TOLD)


@pytest.mark.parametrize("count", [2, 16, 256])
def test_a_map_of_any_size_answers(tab: Tab, tmp_path: Path, count: int) -> None:
    cpus = tuple(
        Cpu(n, core=n % 128, llc=n // 8 * 8, package=n // 64 * 64, node=n // 64)
        for n in range(count)
    )
    run = simulated.publish(
        tmp_path, simulated.Machine("made-up", cpus), rounds=1, samples=2
    )
    page = tmp_path / "page.html"
    page.write_text(render(tmp_path, [run.run_id]))
    assert page.stat().st_size < 1_000_000
    for size in (DESK, TELEPHONE):
        tab.open(page, size)
        tab.point(*_place_cell(tab, count, 0, count - 1))
        assert f"CPU {count - 1}: core {(count - 1) % 128}, " in tab.ask(_TOLD)
        assert tab.ask("document.documentElement.scrollWidth") == size[0]


def test_what_hosts_and_people_said_runs_nothing(tab: Tab, tmp_path: Path) -> None:
    host = Host("evil", "192.0.2.7", labels={HOSTILE: HOSTILE})
    run = builders.a_run(builders.small_desktop()[:4], host=host)
    facts = replace(run.facts, cpu_model=HOSTILE, kernel=HOSTILE)
    run = replace(run, facts=facts, notes=(HOSTILE,))
    Store(tmp_path).publish(run, builders.make_bursts(run))
    text = render(tmp_path, [run.run_id], title=HOSTILE)
    (data,) = re.findall('data-map="([^"]*)"', text)
    about = json.loads(html.unescape(data))
    about["relations"] = [HOSTILE]  # which no host can name today
    about["places"] = [HOSTILE] * 4
    page = tmp_path / "page.html"
    page.write_text(text.replace(data, html.escape(json.dumps(about))))
    tab.open(page, DESK)  # an alert would stop it
    tab.point(*_place_cell(tab, 4, 0, 1))
    assert tab.ask(_TOLD).count("<script>alert(1)</script>") == 3
    assert tab.ask('document.querySelectorAll(".told *:not(p, strong)").length') == 0


# the share of the map's pixels that have a colour of the scale as it is
_COLOURED = """(canvas => {
  const copy = document.createElement("canvas");
  copy.width = copy.height = canvas.width;
  const context = copy.getContext("2d", { willReadFrequently: true });
  context.drawImage(canvas, 0, 0);
  const pixels = context.getImageData(0, 0, copy.width, copy.height).data;
  const { shades } = document.querySelector("main").dataset;
  let count = 0;
  for (let at = 0; at < pixels.length; at += 4) {
    const [red, green, blue] = pixels.slice(at, at + 3);
    const colour = ((red << 16) | (green << 8) | blue).toString(16);
    count += shades.includes("#" + colour.padStart(6, "0"));
  }
  return count / (pixels.length / 4);
})(document.querySelector(".stack canvas"))"""


def test_a_relation_and_a_warning_light_their_pairs(tab: Tab, page: Path) -> None:
    tab.open(page, DESK)
    all_lit = tab.ask(_COLOURED)
    shares = []
    for mark in ("smt", "multimodal"):
        button = f'document.querySelector("[data-light={mark}] button")'
        tab.ask(f"{button}.click()")
        shares.append(tab.ask(_COLOURED))
        assert tab.ask("document.querySelectorAll('[aria-pressed=true]').length") == 1
        tab.ask(f"{button}.click()")
        assert tab.ask(_COLOURED) == all_lit
    smt, multimodal = shares
    assert 0 < multimodal < smt < all_lit / 3  # one pair, and four, of 28


def _choose_order(tab: Tab, order: str) -> str:
    """Order the CPUs and return what the pair of the first two is."""
    tab.ask(
        f"(select => {{ select.value = '{order}';"
        " select.dispatchEvent(new Event('input', { bubbles: true })); })"
        "(document.querySelector('.controls select'))"
    )
    tab.point(*_place_cell(tab, 8, 0, 1))
    told: str = tab.ask(_TOLD)
    return told.partition(":")[0]


def test_cpus_stand_by_topology_number_or_latency(tab: Tab, page: Path) -> None:
    tab.open(page, DESK)
    assert _choose_order(tab, "number") == "0-1 package"
    assert _choose_order(tab, "topology") == "0-4 smt"
    assert _choose_order(tab, "latency") == "0-4 smt"


def test_pairs_are_copied_as_they_are_shown(tab: Tab, page: Path) -> None:
    tab.open(page, DESK)
    tab.ask('document.querySelector("[data-light=smt] button").click()')
    tab.ask(
        "addEventListener('copy', event =>"
        " { window.copied = event.clipboardData.getData('text/plain'); })"
    )
    tab.ask('document.querySelector(".controls button").click()')
    assert "Copied 4 pairs" in tab.ask('document.querySelector(".controls").innerText')
    lines = tab.ask("copied").splitlines()
    assert lines[0] == "CPU,other,relation,ns,±95%,flags"
    assert [line.split(",")[:3] for line in lines[1:]] == [
        [str(cpu), str(cpu + 4), "smt"] for cpu in range(4)
    ]


@pytest.fixture(scope="module")
def server_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a page of 16 CPUs in two sockets, of two caches each."""
    root = tmp_path_factory.mktemp("server")
    cpus = tuple(
        Cpu(n, core=n, llc=n // 4 * 4, package=n // 8 * 8, node=n // 8)
        for n in range(16)
    )
    machine = simulated.Machine("made-up", cpus)
    run = simulated.publish(root, machine, rounds=6, samples=3)
    page = root / "page.html"
    page.write_text(render(root, [run.run_id]))
    return page


_ZOOM = "document.querySelector('[name=zoom]')"
_SEEN = "document.querySelector('.stack canvas').width"


def _place_name(tab: Tab, name: str) -> tuple[float, float]:
    """Scroll to the name of a group above a map and return its middle."""
    x, y = tab.ask(
        "(band => { band.scrollIntoView({ block: 'center' });"
        " const box = band.getBoundingClientRect();"
        " return [box.left + box.width / 2, box.top + box.height / 2]; })"
        "([...document.querySelectorAll('.band.above')]"
        f".find(band => band.textContent === '{name}'))"
    )
    return x, y


def test_a_click_or_tap_on_a_group_zooms_to_it_and_escape_goes_back(
    tab: Tab, server_page: Path
) -> None:
    for size in (DESK, TELEPHONE):
        is_phone = size == TELEPHONE
        tab.open(server_page, size, touch=is_phone)
        choose = tab.tap if is_phone else tab.click
        choose(*_place_name(tab, "socket 1"))
        tab.wait_for(f"{_SEEN} === 8")
        choose(*_place_cell(tab, 8, 0, 7))
        tab.wait_for(f'{_TOLD}.includes("8-15 package")')
        choose(*_place_name(tab, "cache 3"))
        tab.wait_for(f"{_SEEN} === 4")
        assert tab.ask("document.documentElement.scrollWidth") == size[0]
        choose(*_place_cell(tab, 4, 0, 1))
        tab.wait_for(f'{_TOLD}.includes("12-13 ")')
        assert "against 8-15" in tab.ask(_TOLD)  # held before
        choose(*_place_name(tab, "cache 3"))  # again: all are seen
        tab.wait_for(f"{_SEEN} === 16")
    tab.open(server_page, DESK)
    tab.click(*_place_cell(tab, 16, 0, 15))
    tab.ask("document.querySelector('.stack').focus()")
    tab.click(*_place_name(tab, "socket 0"))
    tab.wait_for(f"{_SEEN} === 8")
    tab.press("ArrowRight")
    assert "against 0-15" in tab.ask(_TOLD)
    tab.press("Escape")
    assert "against" not in tab.ask(_TOLD)
    assert tab.ask(_SEEN) == 8
    tab.press("Escape")
    assert tab.ask(_SEEN) == 16


def test_keys_zoom_by_the_list_and_what_is_seen_is_copied(
    tab: Tab, server_page: Path
) -> None:
    tab.open(server_page, DESK)
    assert tab.ask(f"[...{_ZOOM}.options].map(option => option.text)") == [
        *("all 16 CPUs", "socket 0", "socket 1"),
        *("cache 0", "cache 1", "cache 2", "cache 3"),
    ]
    tab.ask(f"{_ZOOM}.focus()")
    tab.press("ArrowDown", "ArrowDown")
    tab.wait_for(f"{_SEEN} === 8")
    tab.ask(
        "addEventListener('copy', event =>"
        " { window.copied = event.clipboardData.getData('text/plain'); })"
    )
    tab.ask("document.querySelector('[name=copy]').click()")
    lines = tab.ask("copied").splitlines()[1:]
    assert len(lines) == 28
    assert {line.split(",")[0] for line in lines} == set(map(str, range(8, 15)))
    tab.ask("document.querySelector('.pairs').open = true")
    tab.wait_for("document.querySelector('.pairs table')?.rows.length === 8")


def test_sliders_move_the_ends_of_the_colours(tab: Tab, server_page: Path) -> None:
    tab.open(server_page, DESK)
    ends = "[...document.querySelectorAll('.scale.own .end')].map(end => parseFloat(end.textContent))"
    colours = "document.querySelector('.stack canvas').toDataURL()"
    before, low_and_high = tab.ask(colours), tab.ask(ends)
    tab.ask("document.querySelector('[name=low]').focus()")
    tab.press(*("ArrowRight",) * 40)
    low, high = tab.ask(ends)
    assert low_and_high[0] < low < high == low_and_high[1]
    assert tab.ask(colours) != before
    words = tab.ask("document.querySelector('[name=low]').ariaValueText")
    assert words == f"{low:.1f} ns"
    tab.ask("document.querySelector('[name=high]').focus()")
    tab.press("Home")  # the ends may pass each other
    assert tab.ask(ends) == [low_and_high[0], low]


def test_the_bursts_of_a_pair_held_are_dots_over_the_run(
    tab: Tab, server_page: Path
) -> None:
    tab.open(server_page, DESK)
    dots = "document.querySelectorAll('.bursts i')"
    told = "document.querySelector('.bursts').innerText"
    assert tab.ask(f"{dots}.length") == 0
    tab.click(*_place_cell(tab, 16, 0, 15))
    number = tab.ask(f"{_TOLD}.match(/0-15 [a-z]+: ([0-9.]+) ns/)[1]")
    words = tab.ask(told)
    match = re.fullmatch(r"0-15: 6 bursts over the run, ([\d.]+) to ([\d.]+) ns", words)
    assert match, words
    assert float(match[1]) <= float(number) <= float(match[2])
    lefts = tab.ask(f"[...{dots}].map(dot => parseFloat(dot.style.left))")
    assert len(lefts) == 6
    assert lefts == sorted(lefts)
    tab.press("Escape")
    assert tab.ask(f"{dots}.length") == 0


def test_the_pairs_of_a_cpu_are_a_table_on_demand(tab: Tab, page: Path) -> None:
    tab.open(page, DESK)
    table = 'document.querySelector(".pairs table")'
    assert tab.ask(f"{table} === null")
    tab.ask('document.querySelector(".pairs").open = true')
    tab.wait_for(f"{table} !== null")
    assert tab.ask(f"{table}.rows.length") == 8
    tab.point(*_place_cell(tab, 8, 1, 0))
    assert tab.ask(f"{table}.caption.textContent").startswith("CPU 4: core 0")
    assert tab.ask(f"{table}.rows[1].innerText").startswith("4\t0\tsmt\t")


def _luminance(colour: str) -> float:
    """Return the relative luminance of "#rrggbb", as WCAG defines it."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        c / 12.92 if c <= 0.04 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    ]
    red, green, blue = linear
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(colour: str, other: str) -> float:
    """Return the contrast of two colours, as WCAG defines it."""
    dark, light = sorted(map(_luminance, (colour, other)))
    return (light + 0.05) / (dark + 0.05)


def test_the_fastest_pairs_stand_out_from_the_diagonal_in_both_themes(
    tab: Tab, page: Path
) -> None:
    for is_dark in (False, True):
        tab.show("screen", dark=is_dark)
        tab.open(page, DESK)
        ground, fastest = tab.ask(
            "[getComputedStyle(document.body).getPropertyValue('--ground'),"
            " document.querySelector('main').dataset.shades.split(' ')[0]]"
        )
        assert _contrast(ground, fastest) >= 3
    tab.show("screen")


def test_words_are_read_in_both_themes(tab: Tab, page: Path) -> None:
    names = ["page", "ink", "muted", "link", "warn", "odd", "odd-ink"]
    for is_dark in (False, True):
        tab.show("screen", dark=is_dark)
        tab.open(page, DESK)
        values = tab.ask(
            f"{names}.map(name =>"
            " getComputedStyle(document.body).getPropertyValue('--' + name).trim())"
        )
        colours = dict(zip(names, values, strict=True))
        for ink, ground in (
            *(("ink", "page"), ("muted", "page"), ("link", "page")),
            *(("ink", "warn"), ("odd-ink", "odd")),
        ):
            assert _contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)
    tab.show("screen")


# the captions of tables that are wider than their place
_TOO_WIDE = (
    "[...document.querySelectorAll('.scroll > table')].filter(table =>"
    " table.checkVisibility() &&"
    " table.scrollWidth > table.parentElement.clientWidth + 1)"
    ".map(table => table.caption.textContent)"
)
_PAPER = (1032, 703)  # CSS pixels of A4 within its margins


def test_no_table_of_a_made_up_lab_is_wider_than_its_place(
    tab: Tab, made_lab: Path, tmp_path: Path
) -> None:
    listing = Listing(made_lab / "results")
    page = tmp_path / "page.html"
    for host in ("verona", "pisa", "rome", "lucca"):
        runs = select_runs_to_show(listing, [host]).runs
        page.write_text(render(listing, [run.run_id for run in runs]))
        for size in (TELEPHONE, DESK, _PAPER):
            tab.show("screen")
            tab.open(page, size, touch=size == TELEPHONE)
            tab.ask(
                "document.querySelectorAll('details').forEach(d => { d.open = true })"
            )
            tab.show("print" if size == _PAPER else "screen")
            assert tab.ask(_TOO_WIDE) == [], (host, size)
    tab.show("screen")


def test_a_machine_of_many_benchmarks_has_map_and_table_on_the_first_screen(
    tab: Tab, made_lab: Path, tmp_path: Path
) -> None:
    listing = Listing(made_lab / "results")
    (run,) = select_runs_to_show(listing, ["verona"]).runs
    page = tmp_path / "page.html"
    page.write_text(render(listing, [run.run_id]))
    row = "#medians tbody tr"
    names = ["#answer p", "#medians .picture svg", row, "#medians summary"]
    bottoms = (
        f"{names}.map(name =>"
        " document.querySelector(name).getBoundingClientRect().bottom)"
    )
    tab.open(page, DESK)
    assert max(tab.ask(bottoms)) < DESK[1]
    tab.open(page, TELEPHONE, touch=True)
    assert max(tab.ask(bottoms)[:3]) < TELEPHONE[1]
    tables = "[...document.querySelectorAll('#medians table')]"
    shown = f"{tables}.filter(table => table.checkVisibility()).length"
    assert tab.ask(shown) == 3
    tab.show("print")
    assert tab.ask(shown) == tab.ask(f"{tables}.length") == 11
    tab.show("screen")


def test_the_map_of_a_machine_of_a_site_is_large_on_hover_focus_or_tap(
    tab: Tab, made_lab: Path, tmp_path: Path
) -> None:
    listing = Listing(made_lab / "results")
    write_site(listing, select_runs_to_show(listing, ["verona", "rome"]).runs, tmp_path)
    page = tmp_path / "index.html"
    large = (
        "[...document.querySelectorAll('#machines img')]"
        ".map(image => image.getBoundingClientRect().width > 150)"
    )
    box = "document.querySelector('#machines img').getBoundingClientRect()"
    middle = f"(box => [box.left + box.width / 2, box.top + box.height / 2])({box})"
    tab.open(page, DESK)
    assert tab.ask(large) == [False, False]
    tab.point(*tab.ask(middle))
    assert tab.ask(large) == [True, False]
    tab.point(0, 0)
    tab.ask("document.querySelector('#q').focus()")
    tab.press("Tab")
    while not tab.ask("document.activeElement.matches('#machines a')"):
        tab.press("Tab")
    assert tab.ask(large) == [True, False]
    tab.open(page, TELEPHONE, touch=True)
    tab.tap(*tab.ask(middle))
    tab.wait_for(f"{large}[0]")
    assert tab.ask("document.documentElement.scrollWidth") == TELEPHONE[0]
    assert tab.ask(_TOO_WIDE) == []


def test_a_made_up_lab_is_printed_on_few_pages(
    tab: Tab, made_lab: Path, tmp_path: Path
) -> None:
    results = made_lab / "results"
    page = tmp_path / "page.html"
    page.write_text(render(results, [run.run_id for run in Store(results).list_runs()]))
    tab.open(page, DESK)
    tab.show("print")
    printed = tab.print(tmp_path / "page.pdf").read_bytes()
    tab.show("screen")
    pages = len(re.findall(rb"/Type /Page\b", printed))
    assert 5 < pages <= 30  # 41 where each table and map had the width of the page


def test_plots_show_the_value_nearest_to_the_pointer_and_by_keys(
    tab: Tab, made_lab: Path, tmp_path: Path
) -> None:
    listing = Listing(made_lab / "results")
    runs = select_runs_to_show(listing, ["pisa"]).runs
    page = tmp_path / "page.html"
    page.write_text(render(listing, [run.run_id for run in runs]))
    tab.open(page, DESK)
    plots = "[...document.querySelectorAll('svg[data-values]')]"
    names = tab.ask(f"{plots}.map(svg => svg.getAttribute('aria-label').split(' ')[0])")
    assert {"Run", "chase/mov,", "bandwidth/avx2,"} <= set(names)
    for name in ("Run", "chase/mov,"):
        svg = f"{plots}[{names.index(name)}]"
        tab.ask(f"{svg}.scrollIntoView({{ block: 'center' }})")
        left, top, x, y, words = tab.ask(
            f"(svg => {{ const box = svg.getBoundingClientRect();"
            " return [box.left, box.top, ...JSON.parse(svg.dataset.values)[2]]; })"
            f"({svg})"
        )
        tab.point(left + x, top + y)
        assert tab.ask(f"{svg}.nextElementSibling.textContent") == words
        tab.ask(f"{svg}.focus()")
        tab.press("ArrowLeft")
        assert tab.ask(f"{svg}.nextElementSibling.textContent") != words
    assert re.fullmatch(r"random, \d+K: \S+ ns", words)


def test_a_map_of_changes_shows_both_sides_and_what_chance_explains(
    tab: Tab, tmp_path: Path
) -> None:
    runs = simulated.publish_change(tmp_path)
    page = tmp_path / "page.html"
    page.write_text(render(tmp_path, runs, sides=("new=0", "new=1")))
    tab.open(page, DESK)
    lines = []
    for column in range(1, 8):
        tab.point(*_place_cell(tab, 8, 0, column))
        lines.append(tab.ask(_TOLD))
    side = r"[\d.]+ ns"
    for line in lines:
        assert re.match(
            r"0-\d \w+: [+-]?\d+\.\d% relative to its relation"
            rf" \(A {side}, B {side}\)\n",
            line,
        )
    by_chance = ["no more than chance explains" in line for line in lines]
    assert not all(by_chance)
    tab.click(*_place_cell(tab, 8, 0, 1))
    tab.point(*_place_cell(tab, 8, 0, 2))
    assert re.search(r"\), against 0-4, [+-]?\d+\.\d%", tab.ask(_TOLD))


def test_the_common_scale_colours_the_map_and_moves_the_mark(
    tab: Tab, tmp_path: Path
) -> None:
    slower = {relation: 3 * ns for relation, ns in builders.NS.items()}
    machines = (simulated.desktop("desk"), simulated.desktop("slow", ns=slower))
    runs = [
        simulated.publish(tmp_path, machine, number, rounds=2).run_id
        for number, machine in enumerate(machines)
    ]
    page = tmp_path / "page.html"
    page.write_text(render(tmp_path, runs))
    tab.open(page, DESK)
    needles = "[...document.querySelectorAll('.needle:not([hidden])')]"
    shown = (
        f"{needles}.filter(needle => needle.checkVisibility())"
        ".map(needle => parseFloat(needle.style.left))"
    )
    tab.point(*_place_cell(tab, 8, 0, 2))
    (own,) = tab.ask(shown)
    tab.ask("document.querySelector('#common').click()")
    tab.point(*_place_cell(tab, 8, 0, 2))
    (common,) = tab.ask(shown)
    assert common < own
