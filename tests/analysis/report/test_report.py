import base64
import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from fleet.analysis.base import find_last_session_runs
from fleet.analysis.report import render, require_writable_output, write_site
from fleet.analysis.views import NO_LIMIT, select_runs_to_show, show_runs
from fleet.errors import StoreError, UsageError
from fleet.model import Failed, Host
from fleet.store import Listing, Store
from fleet.store.files import write_output
from tests import builders, simulated
from tests.analysis.markup import Markup
from tests.command import Done, Fleet

HOSTILE = (
    "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }} $x$"
    " \x1b[2J\u202e"
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two runs of a desktop with two levels and a drift, and one of a like machine that
    is slower.
    """
    root = tmp_path_factory.mktemp("results")
    desk = simulated.desktop(
        "desk", two_levels=frozenset({(0, 1)}), drifting=frozenset({(1, 3)})
    )
    slower = {relation: 1.2 * ns for relation, ns in builders.NS.items()}
    simulated.publish(root, desk, 0, benchmarks=("cas", "clock"))
    simulated.publish(root, desk, 1)
    simulated.publish(
        root, simulated.desktop("desk-vm", ns=slower, facts={"hypervisor": "kvm"}), 2
    )
    return render(root, find_last_session_runs(Listing(root)))


@pytest.fixture(scope="module")
def read(page: str) -> Markup:
    return Markup(page)


def test_the_page_is_well_formed(read: Markup) -> None:
    assert read.errors == []
    ids = read.values("id")
    assert len(ids) == len(set(ids))


def test_every_link_and_reference_leads_somewhere(page: str, read: Markup) -> None:
    targets = [href.removeprefix("#") for href in read.values("href")]
    targets += re.findall(r"url\(#([^)]+)\)", page)
    targets += [name for tag in ("aria-labelledby", "for") for name in read.values(tag)]
    assert targets
    assert set(targets) <= set(read.values("id"))


def test_nothing_is_fetched_and_nothing_runs(page: str, read: Markup) -> None:
    (policy,) = (
        m["content"]
        for m in read.all("meta")
        if m.get("http-equiv") == "Content-Security-Policy"
    )
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy == (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:;"
        f" script-src 'sha256-{digest}'"
    )
    assert len(script.encode()) <= 16_384
    assert "innerHTML" not in script
    assert all(href.startswith("#") for href in read.values("href"))
    assert all(
        source.startswith("data:image/png;base64,") for source in read.values("src")
    )
    fetching = {"link", "iframe", "object", "embed", "base", "form"}
    assert not {tag for tag, _ in read.elements} & fetching
    assert not [
        name
        for _, attributes in read.elements
        for name in attributes
        if name.startswith("on")
    ]
    assert "://" not in page
    assert "@import" not in page


def test_the_message_comes_first_and_the_warnings_last(page: str) -> None:
    order = [
        page.index(mark)
        for mark in (
            'id="answer"',
            'id="medians"',
            "<nav",
            'id="runs"',
            'id="run-1"',
            'id="warnings"',
        )
    ]
    assert order == sorted(order)


def test_a_screen_reader_finds_its_way(read: Markup) -> None:
    tags = [tag for tag, _ in read.elements]
    for landmark in ("header", "main", "nav", "footer"):
        assert tags.count(landmark) == 1
    assert read.all("html")[0]["lang"] == "en"
    levels = [int(tag[1]) for tag in tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert tags.count("caption") == tags.count("table") > 5
    assert all(
        cell.get("scope") in ("col", "row", "colgroup", "rowgroup")
        for cell in read.all("th")
    )
    assert all(image["alt"] for image in read.all("img"))
    assert all(
        picture["role"] == "img" and picture["aria-label"]
        for picture in read.all("svg")
    )
    assert all(
        box["aria-label"] and box["tabindex"] == "0"
        for box in read.all("div")
        if box.get("role")
    )
    assert (
        next(attributes for tag, attributes in read.elements if tag == "a")["href"]
        == "#main"
    )


def test_it_is_made_for_light_dark_print_and_narrow_screens(
    page: str, read: Markup
) -> None:
    for condition in ("(prefers-color-scheme: dark)", "print", "(max-width: 30rem)"):
        assert f"@media {condition}" in page
    assert any(meta.get("name") == "viewport" for meta in read.all("meta"))
    assert "currentColor" in page


def test_it_has_every_picture_and_lists_warnings_and_where_they_apply(
    page: str, read: Markup
) -> None:
    assert re.search(
        r"multimodal: pairs have over a tenth.*desk 2026\S+( \S+:\S+)? \(\d of 36\)",
        read.text,
    )
    assert re.search(
        r"0-1 has two levels: \d+\.\d ±\S+%, and \d+\.\d in \d+% of bursts",
        read.text,
    )
    assert re.search(r"drift: pairs became faster or slower during the run", read.text)
    assert "one run only" in read.text
    assert re.search(r'<td class="wrap odd">kvm</td>', page)
    titles = " ".join(read.values("aria-label"))
    assert "Run medians of cas/cmpxchg, smt" in titles
    assert "Distribution of all samples" in titles


def test_each_map_is_coloured_by_its_own_scale_and_by_the_common_one(
    page: str, read: Markup
) -> None:
    # slow on desk, not so slow beside desk-vm
    assert re.search(r'<td class="a31 b2\d">4\d\.\d</td>', page)
    assert any(box.get("id") == "common" for box in read.all("input"))
    assert "body:has(#common:checked) .b31" in page


def test_what_hosts_and_people_said_is_only_text(tmp_path: Path) -> None:
    cpus = builders.small_desktop()[:2]
    host = Host("evil", "192.0.2.7", labels={HOSTILE: HOSTILE})
    run = builders.a_run(cpus, host=host)
    facts = replace(
        run.facts, cpu_model=HOSTILE, kernel=HOSTILE, mitigations={HOSTILE: HOSTILE}
    )
    failed = (Failed("cas", "cmpxchg", 1, 0, 1, HOSTILE),)
    Store(tmp_path).publish(
        replace(run, facts=facts, notes=(HOSTILE,), failed=failed),
        builders.make_bursts(run),
    )
    page = render(tmp_path, [run.run_id], title=HOSTILE)
    read = Markup(page)
    assert read.errors == []
    assert len(read.all("script")) == 1
    assert not [image for image in read.all("img") if image.get("src") == "x"]
    assert read.text.count("<script>alert(1)</script>") >= 5
    assert "{{ 7*7 }}" in read.text
    assert "\x1b" not in page
    assert "\u202e" not in page


@pytest.mark.long
def test_one_run_has_no_differences_and_no_common_scale(tmp_path: Path) -> None:
    run = simulated.publish(tmp_path, simulated.desktop(), rounds=2)
    read = Markup(render(tmp_path, [run.run_id, run.run_id], title="Just one"))
    assert read.errors == []
    assert {"differences", "scale", "common"}.isdisjoint(read.values("id"))
    assert "Just one" in read.text
    assert "1 host, 1 run, 2026-01-02 03:00 UTC. Measured: cas/cmpxchg" in read.text


@pytest.mark.long
def test_single_runs_are_compared_only_on_request_and_named_by_their_labels(
    tmp_path: Path,
) -> None:
    runs = [
        simulated.publish(
            tmp_path,
            simulated.desktop("desk"),
            number,
            rounds=2,
            labels={"bios": f"1.{number}"},
        )
        for number in (0, 1)
    ]
    first, second = (run.run_id for run in runs)
    text = Markup(render(tmp_path, [first, second])).text
    assert "against" not in text
    assert "1 host, 2 relations, 2 runs, 1 night: no verdict" in text
    assert re.search(r"desk 2026-\d\d-\d\d \d\d:\d\d:\d\d bios=1\.1", text)
    page = Markup(render(tmp_path, [first, second], sides=(first, second))).text
    assert f"B, {second}, against A, {first}" in page


@pytest.mark.long
@pytest.mark.parametrize("words", ["lucca", "pisa", "lucca,node*"])
def test_a_page_says_what_the_terminal_says(
    words: str,
    made_lab: Path,
    fleet_here: Callable[..., Done],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    several, root = "," in words, ("-r", str(made_lab / "results"))
    page = " ".join(
        Markup(fleet_here("report", words, "-o", "-", *root).stdout).text.split()
    )
    answers = [fleet_here("compare", words, *root).stdout]
    if several:
        answers += [fleet_here("compare", words, "--siblings", *root).stdout]
    sentences = [text.partition("\n")[0] for text in answers]
    accepted = (
        fleet_here("accept", words, *root).stdout.partition("\n\n")[0].splitlines()
    )
    sentences += [line for line in accepted if not several or ": slower" in line]
    changes = [
        change
        for text in answers
        for change in re.findall(r"[+-]\d+\.\d%(?: to [+-]\S+)?", text)
    ]
    assert bool(changes) == (words != "pisa")
    numbers = []
    if several:  # of one host, show has the last run beside what is usual
        printed = fleet_here("show", words, *root).stdout
        sentences += [printed.partition("\n")[0]]
        numbers = re.findall(r"\d+\.\d+ ±\d+\.\d%", printed)
        assert len(numbers) >= 10
    assert [said for said in (*sentences, *changes, *numbers) if said not in page] == []


@pytest.mark.long
@pytest.mark.parametrize("benchmarks", [("cas",), ("clock",)])
def test_one_cpu_and_clock_only_are_reported(
    tmp_path: Path, benchmarks: tuple[str, ...]
) -> None:
    run = simulated.publish(
        tmp_path, simulated.one_cpu(), rounds=3, benchmarks=benchmarks
    )
    read = Markup(render(tmp_path, [run.run_id]))
    assert read.errors == []
    assert ("one clock reading" in read.text) == (benchmarks == ("clock",))


def test_a_run_in_which_everything_failed_is_reported(tmp_path: Path) -> None:
    run = replace(
        builders.a_run(), failed=(Failed("cas", "cmpxchg", 0, 0, 1, "stuck"),)
    )
    Store(tmp_path).publish(run, [])
    read = Markup(render(tmp_path, [run.run_id]))
    assert read.errors == []
    assert "no samples are stored" in read.text
    assert "stuck" in read.text


@pytest.mark.long
def test_a_big_machine_is_shown_by_groups_and_as_a_picture(tmp_path: Path) -> None:
    run = simulated.publish(
        tmp_path,
        simulated.server(cpus=builders.two_sockets()[:48]),
        rounds=1,
        samples=2,
    )
    page = render(tmp_path, [run.run_id])
    read = Markup(page)
    assert read.errors == []
    assert "medians between groups of CPUs" in read.text
    assert any(
        label.startswith("Map of cas/cmpxchg on server, 48 CPUs")
        for label in read.values("aria-label")
    )
    assert len(page) < 400_000
    # on both axes, also of the small map on the first screen
    assert page.count(">socket 0</text>") == 4
    assert page.index("<svg") < page.index("<nav")


@pytest.mark.long
def test_pairs_that_changed_no_more_than_chance_are_grey_and_others_not(
    tmp_path: Path,
) -> None:
    runs = simulated.publish_change(tmp_path)
    unchanged = render(tmp_path, runs[:2], sides=(runs[0], runs[1]))
    changed = render(tmp_path, runs, sides=("new=0", "new=1"))
    assert set(re.findall(r'class="(d\d+)"', unchanged)) == {"d16"}
    assert {"d0", "d31"} & set(re.findall(r'class="(d\d+)"', changed))


@pytest.mark.long
def test_two_sides_are_compared_host_by_host_with_all_hosts_first(
    tmp_path: Path,
) -> None:
    for number in range(6):
        for index, name in enumerate(("one", "two", "three")):
            ns = {
                relation: (1 + 0.1 * (number % 2)) * ns
                for relation, ns in builders.NS.items()
            }
            labels = {"kernel": "new" if number % 2 else "old"}
            machine = simulated.Machine(name, builders.small_desktop()[:3], ns=ns)
            simulated.publish(
                tmp_path,
                machine,
                3 * number + index,
                rounds=3,
                samples=3,
                labels=labels,
            )
    sides = ("kernel=old", "kernel=new")
    runs = [run.run_id for run in Store(tmp_path).list_runs()]
    page = render(tmp_path, runs, sides=sides)
    assert Markup(page).errors == []
    (forest,) = re.findall(r'aria-label="(Changes of cas/cmpxchg package[^"]*)"', page)
    rows = re.findall(
        r"(?:: |; )([\w ]+) \+(\d+)\.\d% ", forest.partition("intervals")[2]
    )
    assert rows[0][0] == "all hosts"
    assert {name for name, _ in rows[1:]} == {"one", "two", "three"}
    assert {abs(int(change) - 10) <= 3 for _, change in rows} == {True}
    assert "Student" in page


def test_a_run_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not published"):
        render(tmp_path, ["r1"])
    with pytest.raises(UsageError, match="no run"):
        render(tmp_path, [])


def test_only_a_report_is_replaced_unasked(tmp_path: Path, page: str) -> None:
    path = tmp_path / "report.html"
    require_writable_output(path)
    write_output(path, [page], replace=True)
    require_writable_output(path)
    write_output(path, [page + " "], replace=True)
    assert path.read_text() == page + " "
    path.write_text("<html>my thesis</html>")
    with pytest.raises(
        UsageError, match="is not a report of fleet; it was not changed"
    ):
        require_writable_output(path)
    require_writable_output(path, force=True)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (".", "it is a folder"),
        ("nowhere/a.html", "there is no directory"),
        ("card.jpg", "is not a page"),
    ],
)
def test_where_no_report_can_be_written_is_said_before_any_work(
    tmp_path: Path, name: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        require_writable_output(tmp_path / name)


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link.html").symlink_to(tmp_path / "real.html")
    write_output(tmp_path / "link.html", ["page"], replace=True)
    assert (tmp_path / "real.html").read_text() == "page"


@pytest.mark.long
def test_of_many_runs_the_last_of_each_host_has_a_row_and_a_section(
    tmp_path: Path,
) -> None:
    for number in range(4):
        for name in ("one", "two"):
            simulated.publish(
                tmp_path,
                simulated.desktop(name),
                2 * number + (name == "two"),
                rounds=3,
            )
    runs = [run.run_id for run in Store(tmp_path).list_runs()]
    page = render(tmp_path, runs)
    read = Markup(page)
    assert read.errors == []
    sections = [name for name in read.values("id") if re.fullmatch(r"run-\d+", name)]
    assert len(sections) == 2
    assert "of several runs the geometric mean of those at the main level" in page
    assert len(re.findall(r'<th scope="row" class="host"><a href="#run-', page)) == 2


@pytest.mark.slow
def test_of_many_runs_of_one_host_the_first_screen_has_the_map_of_the_last(
    tmp_path: Path,
) -> None:
    for number in range(7):
        simulated.publish(tmp_path, simulated.desktop("one"), number, rounds=1)
    page = render(tmp_path, [run.run_id for run in Store(tmp_path).list_runs()])
    front = page.partition('<figure class="picture">')[2].partition("</figure>")[0]
    assert "Map of cas/cmpxchg on " in front
    (anchor,) = re.findall('href="#([^"]+)"', front)
    assert f'id="{anchor}"' in page


@pytest.mark.long
def test_a_number_is_of_the_runs_since_the_last_change_in_table_page_and_site(
    made_lab: Path, tmp_path: Path
) -> None:
    listing = Listing(made_lab / "results")
    runs = select_runs_to_show(listing, ["lucca", "milan"]).runs
    table = show_runs(
        listing, select_runs_to_show(listing, ["lucca", "milan"]), NO_LIMIT
    )
    alone = show_runs(listing, select_runs_to_show(listing, ["lucca"]), NO_LIMIT)
    page = Markup(render(listing, [run.run_id for run in runs])).text
    write_site(listing, runs, tmp_path)
    (number,) = re.findall(r"lucca .* (\S+) ±\S+ +- +\d+$", table, re.MULTILINE)
    assert f"cas/cmpxchg  package   {number}" in alone
    assert "since the last change: lucca cas, 2026-11-04" in table
    assert "usual since the last change: lucca cas, 2026-11-04" in alone
    assert re.search(
        rf"Since the last change: lucca cas, 2026-11-04.*lucca.*{number} ±",
        page,
        re.DOTALL,
    )
    for name in ("index.html", "m/lucca.html"):
        assert number in Markup((tmp_path / name).read_text()).text


def test_a_home_that_cannot_be_written_is_not_the_readers_business(
    tmp_path: Path,
) -> None:
    simulated.publish(tmp_path / "results", simulated.desktop("desk"), 0)
    with Fleet(tmp_path, {"HOME": "/proc/nobody"}) as fleet:
        process = fleet.start("report")
        assert (process.communicate()[1], process.returncode) == ("", 0)


@pytest.mark.long
def test_a_finding_leads_to_the_picture_of_its_relation(made_lab: Path) -> None:
    listing = Listing(made_lab / "results")
    runs = select_runs_to_show(listing, ["lucca"]).runs
    page = render(listing, [run.run_id for run in runs], selection=["lucca"])
    (place,) = re.findall('<li><strong><a href="#([^"]+)">lucca, ', page)
    assert f'<figure id="{place}"><figcaption><strong>cas/cmpxchg package<' in page
    assert set(re.findall('href="#([^"]+)"', page)) <= set(Markup(page).values("id"))


def test_sides_that_have_no_number_in_common_say_so(made_lab: Path) -> None:
    listing = Listing(made_lab / "results")
    runs = select_runs_to_show(listing, ["lucca", "siena"]).runs
    run_ids = [run.run_id for run in runs]
    page = Markup(render(listing, run_ids, sides=("lucca", "siena")))
    assert page.errors == []
    assert "They have no benchmark, variant and relation in common." in page.text
