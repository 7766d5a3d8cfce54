"""The site of `fleet report SELECTION -o DIR/`."""

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest
import yaml

from fleet.analysis.reduce import drop_points, load_pairs
from fleet.analysis.report import STATE, write_site
from fleet.analysis.views import select_runs_to_show
from fleet.errors import UsageError
from fleet.store import Listing, Store
from tests import simulated
from tests.analysis.exchange.test_tools import CORE_LATENCY
from tests.analysis.markup import Markup
from tests.browser import DESK, Browser
from tests.command import Done

CALL = Callable[..., Done]
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    for number in range(2):
        simulated.publish(folder, simulated.desktop("desk", model=HOSTILE), number)
    simulated.publish(folder, simulated.desktop("board"), 2)
    simulated.publish(folder, simulated.one_cpu("single"), 3, benchmarks=("clock",))
    return folder


def write(root: Path, folder: Path) -> str:
    return write_site(root, Listing(root).runs, folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def times(folder: Path) -> dict[str, int]:
    return {
        str(path.relative_to(folder)): path.stat().st_mtime_ns
        for path in folder.rglob("*.*")
    }


@pytest.mark.long
def test_every_machine_has_a_row_and_a_page_and_links_lead_somewhere(
    root: Path, tmp_path: Path
) -> None:
    write(root, tmp_path / "site")
    pages = contents(tmp_path / "site")
    assert {
        *("index.html", "runs.json", "changes.html", "changes.xml"),
        *("m/desk.html", "card/desk.svg", "card/desk.png", "map/desk.png"),
    } < {*pages}
    assert sum(name.startswith("model/cpu-") for name in pages) == 3
    assert {"card/single.svg", "m/single.parquet"} & {*pages} == set()
    for name, data in pages.items():
        if name.endswith(".html"):
            page = Markup(data.decode())
            assert page.errors == []
            folder = (tmp_path / "site" / name).parent
            for link in [*page.values("href"), *page.values("src")]:
                assert link == "#main" or (folder / link).resolve().is_file(), link
    assert [
        row["runs"] for row in json.loads(pages["runs.json"]) if row["host"] == "desk"
    ] == [2]


@pytest.mark.long
def test_only_its_own_style_and_script_are_allowed(root: Path, tmp_path: Path) -> None:
    write(root, tmp_path / "site")
    for name, scripts in (("index.html", 1), ("m/desk.html", 0)):
        text = (tmp_path / "site" / name).read_text()
        (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
        for tag, count in (("style", 1), ("script", scripts)):
            own = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
            assert len(own) == text.count(f"<{tag}") == count
            digests = re.findall(rf"{tag}-src '(sha256-[^']*)'", policy)
            hashes = [
                base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
                for script in own
            ]
            assert digests == [f"sha256-{script}" for script in hashes]
        assert policy.startswith("default-src 'none'; img-src data: 'self';")
        assert not re.search(r"<[^>]* (style|on\w+)=", text)
        assert HOSTILE not in text


@pytest.mark.long
def test_the_same_runs_give_the_same_bytes_and_nothing_is_written_again(
    root: Path, tmp_path: Path
) -> None:
    write(root, tmp_path / "one")
    write(root, tmp_path / "two")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    before = times(tmp_path / "one")
    assert "0 of them made anew" in write(root, tmp_path / "one")
    assert times(tmp_path / "one") == before | {STATE: times(tmp_path / "one")[STATE]}


@pytest.mark.slow
def test_a_new_run_makes_its_machine_and_the_index_anew_alone(
    root: Path, tmp_path: Path
) -> None:
    write(root, tmp_path / "site")
    before = times(tmp_path / "site")
    simulated.publish(root, simulated.desktop("board"), 4)
    assert "1 of them made anew" in write(root, tmp_path / "site")
    changed = {
        name
        for name, time in times(tmp_path / "site").items()
        if before.get(name) != time
    }
    assert {name for name in changed if "desk" in name} == set()
    assert {"index.html", "m/board.html"} < changed
    write(root, tmp_path / "anew")
    assert contents(tmp_path / "anew") == contents(tmp_path / "site")


@pytest.mark.long
def test_a_machine_whose_runs_are_withdrawn_goes(root: Path, tmp_path: Path) -> None:
    write(root, tmp_path / "site")
    (tmp_path / "site" / "m" / "mine.html").write_text("my own")
    Store(root).withdraw(
        [run.run_id for run in Listing(root).runs if run.host_id == "board"]
    )
    write(root, tmp_path / "site")
    left = contents(tmp_path / "site")
    assert not [name for name in left if "board" in name]
    assert "m/mine.html" in left


@pytest.mark.long
def test_what_fleet_did_not_make_is_not_touched(root: Path, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("mine")
    with pytest.raises(UsageError, match="not made by fleet"):
        write(root, tmp_path / "site")
    other = tmp_path / "other"
    write(root, other)
    (tmp_path / "precious").write_text("precious")
    state = json.loads((other / STATE).read_text())
    state["files"] |= {
        "../precious": "",
        "m/../../precious": "",
        str(tmp_path / "precious"): "",
    }
    (other / STATE).write_text(json.dumps(state))
    write(root, other)
    assert (tmp_path / "precious").exists()
    whole = json.loads((other / STATE).read_text())
    shapes: list[object] = [whole | {key: {"a": [1]}} for key in whole]
    shapes += [[], {"files": 1, "keys": 2}, whole | {"rows": {"a": {"host": "a"}}}]
    for damaged in ("{", "\xff", "", *map(json.dumps, shapes)):
        (other / STATE).write_text(damaged)
        with pytest.raises(UsageError, match="is not what fleet wrote"):
            write(root, other)


@pytest.mark.long
def test_a_machine_has_its_medians_as_a_file_to_import(
    root: Path, tmp_path: Path, fleet_here: CALL
) -> None:
    write(root, tmp_path / "site")
    done = fleet_here(
        "import", f"{tmp_path}/site/m/desk.parquet", "-r", f"{tmp_path}/other"
    )
    assert (done.exit_code, done.stderr) == (0, "")
    taken = pd.read_parquet(tmp_path / "other" / "summaries" / "desk.parquet")
    last = [run.run_id for run in Listing(root).runs if run.host_id == "desk"][-1]
    own = drop_points(load_pairs(root, run_id=last))
    assert sorted(taken["latency_ns"]) == pytest.approx(sorted(own["median_ns"]))
    assert taken["low_ns"].notna().all()


@pytest.mark.long
def test_a_summary_has_a_page_that_names_no_interval(
    root: Path, tmp_path: Path, fleet_here: CALL
) -> None:
    folder = tmp_path / "site"
    done = fleet_here(
        "report", "board", "summary:rpi4*", "-o", f"{folder}/", "-r", str(root)
    )
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith(f"{folder}: 5 machines, 5 of them made anew")
    rows = {row["name"]: row for row in json.loads((folder / "runs.json").read_text())}
    assert (rows["rpi4-qnx800"]["runs"], rows["rpi4-qnx800"]["course"]) == (
        0,
        "no interval",
    )
    assert rows["board"]["runs"] == 1
    page = Markup((folder / "m" / "rpi4-qnx800~summary.html").read_text())
    assert page.errors == []
    assert "QNX 8.0.0" in page.text
    assert "core_latency's median of each pair" in page.text
    assert "no interval" in (folder / "card" / "rpi4-qnx800~summary.svg").read_text()
    again = fleet_here(
        "report", "board", "summary:rpi4*", "-o", f"{folder}/", "-r", str(root)
    )
    assert "0 of them made anew" in again.stdout
    assert (
        fleet_here("report", "board", "-o", f"{folder}/", "-r", str(root)).exit_code
        == 0
    )
    assert not [name for name in contents(folder) if "summary" in name]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("summary:rpi4-linux", "-o", "a.html"), "a summary is part of a site"),
        (("summary:nobody", "-o", "a/"), "no summary is called 'nobody'"),
    ],
)
def test_a_summary_that_is_not_there_or_not_for_a_site_is_refused(
    tmp_path: Path, fleet_here: CALL, words: tuple[str, ...], message: str
) -> None:
    done = fleet_here("report", *words, "-r", str(tmp_path / "none"))
    assert (done.exit_code, message in done.stderr) == (2, True), done.stderr


@pytest.mark.slow
def test_the_index_is_sorted_and_searched_in_a_browser(
    root: Path, tmp_path: Path
) -> None:
    simulated.publish(root, simulated.desktop("shelf", model=HOSTILE), 7)
    write(root, tmp_path / "site")
    index = tmp_path / "site" / "index.html"
    # without a script, models are above their machines
    assert "rowspan=2>&lt;script" in index.read_text()
    browser = Browser(tmp_path)
    assert browser.complaints(index) == []
    script = """(() => {
      const all = (what, of) => Array.from(document.querySelectorAll("#machines " + what), of);
      const head = all("thead button")[1], input = document.getElementById("q");
      const names = () => all("tbody tr:not([hidden]) > th", one => one.textContent);
      const models = all("tbody tr", row => row.cells[0].className);
      head.click(); head.click();
      const sorted = names();
      input.value = "script DESK"; input.dispatchEvent(new Event("input"));
      return [models, sorted, names(), document.getElementById("found").textContent];
    })()"""
    models, names, rows, status = browser.ask(index, script, DESK)
    assert models == ["model"] * 4
    assert names == ["single", "shelf", "desk", "board"]
    assert (rows, status) == (["desk"], "1 of 4 machines")


@pytest.mark.slow
def test_the_numbers_of_a_machine_stand_beside_its_map(
    root: Path, tmp_path: Path
) -> None:
    write(root, tmp_path / "site")
    page = tmp_path / "site" / "m" / "desk.html"
    ends = (
        "['.card', 'table'].flatMap(name =>"
        " (box => [box.left, box.right])"
        "(document.querySelector(name).getBoundingClientRect()))"
    )
    browser = Browser(page.parent)  # where its picture is found
    left, right, table_left, table_right = browser.ask(page, ends, DESK)
    assert 0 <= left < right <= table_left < table_right <= DESK[0]
    left, right, table_left, _ = browser.ask(page, ends, (390, 844))
    assert left == table_left
    assert right <= 390


@pytest.mark.slow
def test_the_check_of_a_gallery_takes_runs_and_matrices_and_no_others(
    root: Path, tmp_path: Path, fleet_here: CALL
) -> None:
    files, friend = tmp_path / "files", tmp_path / "friend"
    files.mkdir()
    for name, more in (("rome", ()), ("milan", ("--medians",))):
        words = (
            "export",
            "board",
            *more,
            "-o",
            f"{files / name}.parquet",
            "-r",
            str(root),
        )
        assert fleet_here(*words).exit_code == 0
    matrix = tmp_path / "t7700.txt"
    matrix.write_text(CORE_LATENCY)
    assert (
        fleet_here("import", str(matrix), "--name", "t", "-r", str(friend)).exit_code
        == 0
    )
    shutil.copy(friend / "summaries" / "t.parquet", files / "core2.parquet")
    text = (Path(__file__).parents[3] / "docs" / "gallery.yaml").read_text()
    # tests/test_recipes.py makes the pages of all summaries
    assert "'summary:*'" in text
    few = "summary:milan summary:core2 'summary:rpi4*'"
    text = text.replace("'summary:*'", few)
    steps = [
        step["run"]
        for step in yaml.safe_load(text)["jobs"]["site"]["steps"]
        if "name" in step
    ]
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    }

    def check() -> int:
        how = {"cwd": tmp_path, "env": environment, "capture_output": True}
        done = (
            subprocess.run(["bash", "-e", "-c", step], check=False, **how)
            for step in steps
        )
        return next((process.returncode for process in done if process.returncode), 0)

    assert len(steps) == 3
    assert check() == 0
    names = {
        row["name"] for row in json.loads((tmp_path / "site" / "runs.json").read_text())
    }
    assert {"rome", "milan", "core2", "rpi4-linux"} < names
    shutil.rmtree(tmp_path / "results")
    (files / "rome.parquet").write_bytes((files / "rome.parquet").read_bytes()[:-9])
    assert check() == 11


@pytest.mark.long
def test_a_machine_has_its_changes_night_by_night(
    made_lab: Path, tmp_path: Path
) -> None:
    root = Listing(made_lab / "results")
    write_site(root, [run for run in root.runs if run.host_id == "lucca"], tmp_path)
    text = (tmp_path / "m" / "lucca.html").read_text()
    page = Markup(text)
    assert page.errors == []
    assert "Facts: 2026-11-04: kernel 6.12.1-demo → 6.13.0-demo." in page.text
    (nights,) = re.findall(r'class="nights" d="([^"]*)"', text)
    (levels,) = re.findall(
        r'class="levels" d="M([\d.]+) ([\d.]+)H([\d.]+)M([\d.]+) ([\d.]+)H([\d.]+)"',
        text,
    )
    heights = [float(y) for y in re.findall(r"M[\d.]+ ([\d.]+)h0", nights)]
    places = [float(x) for x in re.findall(r"M([\d.]+) ", nights)]
    begin, before, until, since, after, end = map(float, levels)
    assert len(heights) == 14
    assert (places[0], places[-1]) == (begin, end)
    assert {until, since} < {*places}
    middle = (before + after) / 2  # the larger number is higher up
    assert after < before
    assert all(
        (height > middle) == (x <= until)
        for x, height in zip(places, heights, strict=True)
    )


@pytest.mark.long
def test_a_change_found_later_is_drawn_on_a_page_whose_runs_are_the_same(
    made_lab: Path, tmp_path: Path
) -> None:
    root = Listing(made_lab / "results")
    runs = [run for run in root.runs if run.host_id == "lucca"]
    write_site(root, runs, tmp_path)
    before = contents(tmp_path)
    state = json.loads(before[STATE])
    state["keys"] = dict.fromkeys(state["keys"], "of another course")
    (tmp_path / STATE).write_text(json.dumps(state))
    (tmp_path / "m" / "lucca.html").write_text("old")
    assert "1 of them made anew" in write_site(root, runs, tmp_path)
    assert contents(tmp_path) == before


@pytest.mark.long
def test_a_page_is_made_anew_where_a_table_of_the_model_alone_is_added(
    tmp_path: Path, fleet_here: CALL
) -> None:
    root, folder, words = (
        tmp_path / "results",
        tmp_path / "site",
        ("--name", "friend", "-b", "cas/cmpxchg"),
    )
    simulated.publish(root, simulated.desktop("desk", model="Made-up desk"), 0)
    matrix = tmp_path / "friend.csv"
    matrix.write_text(fleet_here("export", "desk", "-b", "cas", "-r", str(root)).stdout)
    write(root, folder)
    before = (folder / "m" / "desk.html").read_text()
    done = fleet_here(
        "import", str(matrix), *words, "--cpu-model", "Made-up desk", "-r", str(root)
    )
    assert done.exit_code == 0, done.stderr
    assert "1 of them made anew" in write(root, folder)
    assert (folder / "m" / "desk.html").read_text() != before
    assert "0 of them made anew" in write(root, folder)


@pytest.mark.long
def test_changes_are_on_the_page_of_the_model_on_one_for_all_and_in_a_feed(
    made_lab: Path, tmp_path: Path
) -> None:
    root = Listing(made_lab / "results")
    chosen = [
        run
        for run in root.runs
        if run.host_id == "lucca" or run.host_id.startswith("node")
    ]
    write_site(root, chosen, tmp_path)
    pages = contents(tmp_path)
    (mini,), (node,) = (
        [Markup(data.decode()) for name, data in pages.items() if kind in name]
        for kind in ("model/cpu-Made-up-mini", "model/cpu-Made-up-node")
    )
    assert "lucca, cas package" in mini.text
    assert "9 equal machines, 36 runs: 1 odd: node6" in node.text
    assert {f"../m/node{number}.html" for number in range(1, 10)} < {
        *node.values("href")
    }
    assert (
        "kernel 6.12.1-demo → 6.13.0-demo"
        in Markup(pages["changes.html"].decode()).text
    )
    feed = ElementTree.fromstring(pages["changes.xml"])
    names = {"atom": "http://www.w3.org/2005/Atom"}
    (entry,) = feed.findall("atom:entry", names)
    assert entry.findtext("atom:title", "", names).startswith("lucca, cas package: +")
    (link,) = entry.findall("atom:link", names)
    assert str(link.get("href")) in pages
    for name in ("id", "title", "updated"):
        assert feed.findtext(f"atom:{name}", "", names), name
        assert entry.findtext(f"atom:{name}", "", names), name


@pytest.mark.long
def test_the_page_of_a_model_has_a_row_of_two_cells_for_each_odd_number(
    made_lab: Path, tmp_path: Path
) -> None:
    listing = Listing(made_lab / "results")
    write_site(listing, select_runs_to_show(listing, ["node*"]).runs, tmp_path)
    (page,) = (tmp_path / "model").iterdir()
    odd = [line for line in page.read_text().splitlines() if "node6, " in line]
    assert odd
    assert {line.count("<td") + line.count("<th") for line in odd} == {2}


@pytest.mark.long
def test_the_index_has_a_column_for_each_relation(
    made_lab: Path, tmp_path: Path
) -> None:
    listing = Listing(made_lab / "results")
    runs = select_runs_to_show(listing, ["pisa", "lucca"]).runs
    write_site(listing, runs, tmp_path)
    index = (tmp_path / "index.html").read_text()
    titles = re.findall(r'<th scope="col" data-last>(\w+)</th>', index)
    assert titles == ["smt", "cluster", "package"]
    assert re.search(r"lucca</a>.*<td class=text>cas<td>6\.0<td><td>43\.\d<td>", index)
    assert re.search(r"<td>P-P 37\.\d<br>P-E 42\.\d<br>E-E 46\.\d<td>", index)
