"""A command lists a root once, and its tables stay small."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from fleet.analysis.reduce import load_samples
from fleet.analysis.report import render
from fleet.analysis.views import show_run
from fleet.cli.app import app
from fleet.model import Cpu, Host
from fleet.store import Listing, Store, new_run_id, places
from fleet.store.places import Folder
from tests import builders
from tests.planting import home
from tests.shared import agents_cache

START = datetime(2026, 1, 1, tzinfo=UTC)


def fill(
    root: Path, hosts: int, runs: int, *, batch: bool = True, cpus: tuple[Cpu, ...] = ()
) -> None:
    """Runs of each host, an hour apart."""
    store = Store(root)
    for number in range(hosts * runs):
        moment = START + timedelta(hours=number)
        host = Host(f"host{number % hosts}", "192.0.2.7")
        run = builders.a_run(
            cpus or builders.small_desktop(), run_id=new_run_id(moment), host=host
        )
        run = replace(run, started_utc=moment.isoformat(), ended_utc=None)
        bursts = (
            [builders.a_burst()] if cpus else builders.make_bursts(run, seed=number)
        )
        store.publish(run, bursts, batch=batch)
    store.flush()


class Counted(Folder):
    """A folder that counts how often each folder is listed."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.listed: Counter[str] = Counter()

    def files(self, pattern: str, closed: list[OSError] | None = None) -> list[str]:
        self.listed[pattern.partition("/")[0]] += 1
        return super().files(pattern, closed)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two hosts with eight runs each."""
    root: Path = tmp_path_factory.mktemp("root")
    fill(root, 2, 8)
    return root


@pytest.mark.long
@pytest.mark.parametrize(
    "words",
    [
        ["runs"],
        ["runs", "--relation", "smt"],
        ["show", "host0"],
        ["show", "host0", "host1", "--map"],
        ["show", "all", "--json"],
        ["compare", "host0", "host1"],
        ["report", "host0", "host1", "-o", "-"],
        ["report", "--compare", "host0", "host1", "-o", "-"],
        ["export", "host0"],
    ],
    ids=" ".join,
)
def test_a_command_lists_each_folder_once(
    root: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = listings(root, words, monkeypatch)
    assert listed["samples"] == listed["amendments"] == 1
    assert max(listed.values()) == 1


def listings(
    root: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> Counter[str]:
    """Count how often the command lists each folder of the root."""
    folders: list[Counted] = []

    def open_counted(path: Path) -> Counted:
        folders.append(Counted(path))
        return folders[-1]

    with monkeypatch.context() as patched:
        patched.setattr(places, "Folder", open_counted)
        done = CliRunner().invoke(app, [*words, "-r", str(root)])
    assert done.exit_code == 0, done.output
    return sum((place.listed for place in folders), Counter[str]())


@pytest.mark.parametrize(
    "words", [["label", "host0", "bios=2.1"], ["withdraw", "host0"], ["withdraw"]]
)
def test_what_amends_runs_lists_each_folder_once(
    tmp_path: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, 1, 2)
    listed = listings(tmp_path, words, monkeypatch)
    assert listed.pop("amendments") <= 3, (
        "those before it are counted, and it is read back"
    )
    assert max(listed.values()) == 1


def test_a_session_lists_a_root_once_at_its_end_however_many_hosts_it_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the numbers that it prints; `resume` also before and after, for what other
    sessions have left.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(agents_cache()))
    inventory = "hosts:\n" + "".join(
        f"  here{number}: {{via: local}}\n" for number in range(2)
    )
    Path("inventory.yaml").write_text(
        inventory.replace("local}", "local, build: controller, lock: wait}")
    )
    plan = [
        "-b",
        "clock",
        "-c",
        "0",
        "--rounds",
        "1",
        "-s",
        "10",
        "--plan",
        "iterations=1000",
        "-q",
    ]
    listed = listings(tmp_path / "results", ["run", *plan], monkeypatch)
    assert listed["samples"] == 1
    listed = listings(tmp_path / "results", ["resume"], monkeypatch)
    assert listed["samples"] <= 1


def test_a_reading_does_not_change_while_it_is_held(tmp_path: Path) -> None:
    fill(tmp_path, 1, 2)
    held = Listing(tmp_path)
    before = held.runs
    fill(tmp_path, 2, 4)
    assert held.runs == before
    assert len(show_run(held, before[-1].run_id)) > 0
    assert len(Listing(tmp_path).runs) == 10


def test_of_many_runs_a_report_reads_the_ticks_of_the_last_of_each_host_only(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = home(load_samples)
    run_ids = set[str]()
    read_all = module.load_samples
    read_parts = module.load_samples_in_parts

    def load_without_ticks(root: Listing, **how: Any) -> pd.DataFrame:
        assert "ticks" not in how["columns"]
        return read_all(root, **how)

    def note_run_id(root: Listing, run_id: str, **how: Any) -> Iterator[pd.DataFrame]:
        run_ids.add(run_id)
        return read_parts(root, run_id, **how)

    monkeypatch.setattr(home(load_samples), "load_samples", load_without_ticks)
    monkeypatch.setattr(home(load_samples), "load_samples_in_parts", note_run_id)
    listing = Listing(root)
    page = render(listing, [run.run_id for run in listing.runs])
    last = {run.host_id: run.run_id for run in listing.runs}
    assert run_ids == set(last.values())
    assert page.count('<section id="run-') == 2


def test_a_listing_of_what_is_known_loads_no_library_of_tables(root: Path) -> None:
    code = (
        "import sys; from fleet.cli import main; sys.argv[1:] = ['runs', '-r',"
        " sys.argv[1]]\ntry: main()"
    )
    code += "\nfinally: assert not {'pandas', 'pyarrow', 'numpy'} & set(sys.modules)"
    Listing(root).runs  # noqa: B018  writes the index
    done = subprocess.run(
        [sys.executable, "-c", code, str(root)],
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.count("host1") == 8
