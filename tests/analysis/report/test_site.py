"""The site of `fleet report SELECTION -o DIR/`."""

import base64
import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fleet.analysis.report import site
from fleet.errors import UsageError
from fleet.store import Listing, Store
from tests import simulated
from tests.analysis.markup import Markup
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
    return site.write_site(root, Listing(root).runs, folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def times(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*.*")}


def test_every_machine_has_a_row_and_a_page_and_links_lead_somewhere(root: Path, tmp_path: Path) -> None:
    write(root, tmp_path / "site")
    found = contents(tmp_path / "site")
    assert {
        *("index.html", "runs.json", "changes.html", "changes.xml"),
        *("m/desk.html", "card/desk.svg", "card/desk.png", "map/desk.png"),
    } < {*found}
    assert sum(name.startswith("model/cpu-") for name in found) == 3
    assert "card/single.svg" not in found
    for name, data in found.items():
        if name.endswith(".html"):
            page = Markup(data.decode())
            assert page.errors == []
            folder = (tmp_path / "site" / name).parent
            for link in [*page.values("href"), *page.values("src")]:
                assert link == "#main" or (folder / link).resolve().is_file(), link
    assert [row["runs"] for row in json.loads(found["runs.json"]) if row["host"] == "desk"] == [2]


def test_only_its_own_style_and_script_are_allowed(root: Path, tmp_path: Path) -> None:
    write(root, tmp_path / "site")
    for name, scripts in (("index.html", 1), ("m/desk.html", 0)):
        text = (tmp_path / "site" / name).read_text()
        (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
        for tag, count in (("style", 1), ("script", scripts)):
            own = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
            assert len(own) == text.count(f"<{tag}") == count
            digests = re.findall(rf"{tag}-src '(sha256-[^']*)'", policy)
            made = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in own]
            assert digests == [f"sha256-{one}" for one in made]
        assert policy.startswith("default-src 'none'; img-src data: 'self';")
        assert not re.search(r"<[^>]* (style|on\w+)=", text)
        assert HOSTILE not in text


def test_the_same_runs_give_the_same_bytes_and_nothing_is_written_again(root: Path, tmp_path: Path) -> None:
    write(root, tmp_path / "one")
    write(root, tmp_path / "two")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    before = times(tmp_path / "one")
    assert "0 of them made anew" in write(root, tmp_path / "one")
    assert times(tmp_path / "one") == before | {site.STATE: times(tmp_path / "one")[site.STATE]}


def test_a_new_run_makes_its_machine_and_the_index_anew_alone(root: Path, tmp_path: Path) -> None:
    write(root, tmp_path / "site")
    before = times(tmp_path / "site")
    simulated.publish(root, simulated.desktop("board"), 4)
    assert "1 of them made anew" in write(root, tmp_path / "site")
    changed = {name for name, at in times(tmp_path / "site").items() if before.get(name) != at}
    assert {name for name in changed if "desk" in name} == set()
    assert {"index.html", "m/board.html"} < changed
    write(root, tmp_path / "anew")
    assert contents(tmp_path / "anew") == contents(tmp_path / "site")


def test_a_machine_whose_runs_are_withdrawn_goes(root: Path, tmp_path: Path) -> None:
    write(root, tmp_path / "site")
    (tmp_path / "site" / "m" / "mine.html").write_text("my own")
    Store(root).withdraw([run.run_id for run in Listing(root).runs if run.host_id == "board"])
    write(root, tmp_path / "site")
    left = contents(tmp_path / "site")
    assert not [name for name in left if "board" in name]
    assert "m/mine.html" in left


def test_what_fleet_did_not_make_is_not_touched(root: Path, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("mine")
    with pytest.raises(UsageError, match="not made by fleet"):
        write(root, tmp_path / "site")
    other = tmp_path / "other"
    write(root, other)
    (tmp_path / "precious").write_text("precious")
    state = json.loads((other / site.STATE).read_text())
    state["files"] |= {"../precious": "", "m/../../precious": "", str(tmp_path / "precious"): ""}
    (other / site.STATE).write_text(json.dumps(state))
    write(root, other)
    assert (tmp_path / "precious").exists()
    for damaged in ("[]", "{", '{"files": 1, "machines": 2}'):
        (other / site.STATE).write_text(damaged)
        with pytest.raises(UsageError, match="cannot be read"):
            write(root, other)


def test_the_command_writes_a_site_into_a_folder(root: Path, tmp_path: Path, fleet_here: CALL) -> None:
    done = fleet_here("report", "*", "-o", f"{tmp_path}/new/", "-r", str(root))
    assert (done.exit_code, done.stdout.split(":")[0]) == (0, f"{tmp_path}/new"), done.stderr
    assert (tmp_path / "new" / "index.html").is_file()


def test_changes_are_on_the_page_of_the_model_on_one_for_all_and_in_a_feed(
    made_lab: Path, tmp_path: Path
) -> None:
    root = Listing(made_lab / "results")
    chosen = [run for run in root.runs if run.host_id == "lucca" or run.host_id.startswith("node")]
    site.write_site(root, chosen, tmp_path)
    pages = contents(tmp_path)
    (mini,), (node,) = (
        [Markup(data.decode()) for name, data in pages.items() if kind in name]
        for kind in ("model/cpu-Made-up-mini", "model/cpu-Made-up-node")
    )
    assert "lucca, cas package" in mini.text
    assert "9 equal machines, 36 runs: 1 odd: node6" in node.text
    assert {f"../m/node{number}.html" for number in range(1, 10)} < {*node.values("href")}
    assert "kernel 6.12.1-demo → 6.13.0-demo" in Markup(pages["changes.html"].decode()).text
    feed = ElementTree.fromstring(pages["changes.xml"])
    names = {"atom": "http://www.w3.org/2005/Atom"}
    (entry,) = feed.findall("atom:entry", names)
    assert entry.findtext("atom:title", "", names).startswith("lucca, cas package: +")
    (link,) = entry.findall("atom:link", names)
    assert str(link.get("href")) in pages
    for name in ("id", "title", "updated"):
        assert feed.findtext(f"atom:{name}", "", names), name
        assert entry.findtext(f"atom:{name}", "", names), name
