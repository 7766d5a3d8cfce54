"""A command lists a root once, its tables stay small, and nobody notices when files are put together."""

import multiprocessing
import os
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from fleet.analysis.report.page import render
from fleet.analysis.views.show import show_text
from fleet.cli.app import app
from fleet.model import Cache, Cpu, Host
from fleet.store import Listing, Store, new_run_id, places, run_tables
from fleet.store.places import Folder
from fleet.store.reading import TableFile
from fleet.store.verify import verify
from tests import builders
from tests.shared import agents_cache

START = datetime(2026, 1, 1, tzinfo=UTC)


def fill(root: Path, hosts: int, runs: int, *, batch: bool = True, cpus: tuple[Cpu, ...] = ()) -> None:
    """Runs of each host, an hour apart."""
    store = Store(root)
    for number in range(hosts * runs):
        moment = START + timedelta(hours=number)
        host = Host(f"host{number % hosts}", "192.0.2.7")
        run = builders.a_run(cpus or builders.small_desktop(), run_id=new_run_id(moment), host=host)
        run = replace(run, started_utc=moment.isoformat(), ended_utc=None)
        bursts = [builders.a_burst()] if cpus else builders.bursts_of(run, seed=number)
        store.publish(run, bursts, batch=batch)
    store.flush()


class Counted(Folder):
    """A folder that counts how often each pattern is listed."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.listed: Counter[str] = Counter()

    def files(self, pattern: str) -> list[str]:
        self.listed[pattern] += 1
        return super().files(pattern)

    def samples(self) -> dict[str, str]:
        self.listed["samples"] += 1
        return super().samples()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two hosts with eight runs each."""
    root: Path = tmp_path_factory.mktemp("root")
    fill(root, 2, 8)
    return root


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
    assert listed["samples"] == listed["runs/*.parquet"] == listed["amendments/*.json"] == 1
    assert max(listed.values()) == 1


def listings(root: Path, words: list[str], monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the command lists each folder of the root."""
    made: list[Counted] = []

    def counted(path: Path) -> Counted:
        made.append(Counted(path))
        return made[-1]

    with monkeypatch.context() as patched:
        patched.setattr(places, "Folder", counted)
        done = CliRunner().invoke(app, [*words, "-r", str(root)])
    assert done.exit_code == 0, done.output
    return sum((place.listed for place in made), Counter[str]())


@pytest.mark.parametrize("words", [["label", "host0", "bios=2.1"], ["withdraw", "host0"], ["withdraw"]])
def test_what_amends_runs_lists_each_folder_once(
    tmp_path: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, 1, 2)
    assert max(listings(tmp_path, words, monkeypatch).values()) == 1


def test_a_session_lists_a_root_once_at_its_end_however_many_hosts_it_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the numbers that it prints; `resume` also before and after, for what other sessions have left."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(agents_cache()))
    inventory = "hosts:\n" + "".join(f"  here{at}: {{via: local}}\n" for at in range(2))
    Path("inventory.yaml").write_text(inventory.replace("local}", "local, build: controller, lock: wait}"))
    plan = ["-b", "clock", "-c", "0", "--rounds", "1", "-s", "10", "-i", "1000", "-q"]
    listed = listings(tmp_path / "results", ["run", *plan], monkeypatch)
    assert listed["samples"] == listed["runs/*.parquet"] == 1
    listed = listings(tmp_path / "results", ["resume"], monkeypatch)
    assert listed["samples"] <= 1


def test_a_reading_does_not_change_while_it_is_held(tmp_path: Path) -> None:
    fill(tmp_path, 1, 2)
    held = Listing(tmp_path)
    before = held.runs
    fill(tmp_path, 2, 4)
    assert held.runs == before
    assert len(show_text(held, before[-1].run_id)) > 0
    assert len(Listing(tmp_path).runs) == 10


def test_of_many_runs_a_report_reads_the_ticks_of_the_last_of_each_host_only(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fleet.analysis.report import read_runs  # noqa: PLC0415

    whole, parts, asked = read_runs.load.load_samples, read_runs.load.samples_in_parts, set[str]()

    def without_ticks(root: Listing, **how: Any) -> pd.DataFrame:
        assert "ticks" not in how["columns"]
        return whole(root, **how)

    def spied(root: Listing, run_id: str, **how: Any) -> Iterator[pd.DataFrame]:
        asked.add(run_id)
        return parts(root, run_id, **how)

    monkeypatch.setattr(read_runs.load, "load_samples", without_ticks)
    monkeypatch.setattr(read_runs.load, "samples_in_parts", spied)
    listing = Listing(root)
    page = render(listing, [run.run_id for run in listing.runs])
    last = {run.host_id: run.run_id for run in listing.runs}
    assert asked == set(last.values())
    assert page.count('<section id="run-') == 2


def usual_cpus() -> tuple[Cpu, ...]:
    """A desktop of 16 cores with two threads each, caches as the kernel lists them."""
    found = []
    for cpu in range(32):
        core, group = cpu & ~1, cpu // 16 * 16
        own, all_ = (core, core + 1), tuple(range(group, group + 16))
        caches = (
            Cache(1, "Data", 32 << 10, 64, own),
            Cache(1, "Instruction", 32 << 10, 64, own),
            Cache(2, "Unified", 1 << 20, 64, own),
            Cache(3, "Unified", 32 << 20, 64, all_),
        )
        found.append(Cpu(cpu, core=core, llc=group, package=0, node=0, governor="powersave", caches=caches))
    return tuple(found)


def test_the_tables_of_runs_stay_small_before_and_after_they_are_put_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, 10, 6, cpus=usual_cpus())
    before = {name: pd.read_parquet(tmp_path / name) for name in ("runs", "cpus")}
    for name in before:
        assert _bytes(tmp_path / name) / 60 < 2000, name
    there = set((tmp_path / "cpus").iterdir())
    fill(tmp_path, 1, 1, batch=False, cpus=usual_cpus())
    (alone,) = set((tmp_path / "cpus").iterdir()) - there
    assert alone.stat().st_size < 12_000
    monkeypatch.setattr(run_tables, "MANY_FILES", 2)
    assert run_tables.put_together(Folder(tmp_path))
    for name, limit in (("runs", 2000), ("cpus", 1000)):
        (file,) = (tmp_path / name).iterdir()
        assert file.stat().st_size / 61 < limit, name
        about = pq.ParquetFile(file).metadata
        assert about.num_row_groups == 1
        columns = [about.row_group(0).column(at) for at in range(about.num_columns)]
        assert not any(column.has_dictionary_page for column in columns)
        known = {column.path_in_schema for column in columns if column.statistics is not None}
        assert known == {"run_id", "host_id", "session_id"} & {column.path_in_schema for column in columns}
        after = pd.read_parquet(tmp_path / name)
        assert list(map(str, after.dtypes)) == list(map(str, before[name].dtypes))
        kept = after[after["run_id"].isin(before[name]["run_id"].astype(str))]
        assert _sorted(kept).equals(_sorted(before[name]))


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def _sorted(rows: pd.DataFrame) -> pd.DataFrame:
    keys = [name for name in ("run_id", "cpu") if name in rows]
    return rows.astype(str).sort_values(keys).reset_index(drop=True)


def test_of_a_root_that_grew_only_what_is_new_is_opened_and_written(tmp_path: Path) -> None:
    fill(tmp_path, 2, 30)
    Listing(tmp_path).runs  # noqa: B018  writes the index
    index = tmp_path / ".fleet" / "_index" / "runs.jsonl"
    before = index.read_bytes()
    fill(tmp_path, 1, 1)
    assert len(Listing(tmp_path).runs) == 61
    after = index.read_bytes()
    assert after.startswith(before)
    assert len(after) - len(before) < len(before) / 20


def test_of_rows_put_together_only_the_keys_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, 2, 3, batch=False)
    before = Listing(tmp_path).runs
    monkeypatch.setattr(run_tables, "MANY_FILES", 2)
    assert run_tables.put_together(Folder(tmp_path))
    fill(tmp_path, 1, 1, batch=False)
    asked = list[tuple[str, ...]]()

    def spied(read: Any) -> Any:
        def of(self: TableFile, columns: Sequence[str] | None = None, where: object = None) -> object:
            asked.append(tuple(columns or ()))
            return read(self, columns, where)

        return of

    for name in ("read", "stretches"):
        monkeypatch.setattr(TableFile, name, spied(getattr(TableFile, name)))
    monkeypatch.setattr(run_tables, "MANY_FILES", 100)
    assert [run for run in Listing(tmp_path).runs if run in before] == before
    keys = ("run_id", "content_sha256")
    assert sorted(map(len, asked)) == [len(keys), len(keys), max(map(len, asked))]
    assert keys in asked


def test_what_was_put_together_stays_until_there_is_much_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_tables, "MANY_FILES", 3)
    names = list[set[str]]()
    for _ in range(4):
        fill(tmp_path, 1, 3, batch=False)
        assert run_tables.put_together(Folder(tmp_path))
        names.append({path.name for path in (tmp_path / "runs").iterdir()})
    assert [len(found) for found in names] == [1, 2, 3, 1]
    assert names[0] < names[1] < names[2]
    assert len(Listing(tmp_path).runs) == len(pd.read_parquet(tmp_path / "runs")) == 12


def test_a_listing_of_what_is_known_loads_no_library_of_tables(root: Path) -> None:
    code = "import sys; from fleet.cli import main; sys.argv[1:] = ['runs', '-r', sys.argv[1]]\ntry: main()"
    code += "\nfinally: assert not {'pandas', 'pyarrow', 'numpy'} & set(sys.modules)"
    Listing(root).runs  # noqa: B018  writes the index
    done = subprocess.run([sys.executable, "-c", code, str(root)], check=True, capture_output=True, text=True)
    assert done.stdout.count("host1") == 8


def test_the_index_is_written_anew_where_most_of_it_is_of_files_that_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_tables, "MANY_FILES", 2)
    index, sizes = tmp_path / ".fleet" / "_index" / "runs.jsonl", []
    for _ in range(6):
        fill(tmp_path, 1, 3, batch=False)
        Listing(tmp_path).runs  # noqa: B018
        sizes.append(index.stat().st_size / len(Listing(tmp_path).runs))
    assert sizes[-1] < 3 * min(sizes)


@pytest.mark.parametrize("ask", ["runs", "verify"])
def test_files_that_are_put_together_between_listing_and_opening_raise_no_alarm(
    tmp_path: Path, ask: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, 2, 4, batch=False)
    monkeypatch.setattr(run_tables, "MANY_FILES", 2)
    place, real = Folder(tmp_path), Folder.files
    done: list[bool] = []

    def listed(self: Folder, pattern: str) -> list[str]:
        names = real(self, pattern)
        if not done and pattern == "runs/*.parquet":
            done.append(run_tables.put_together(Folder(tmp_path)))
        return names

    monkeypatch.setattr(Folder, "files", listed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if ask == "runs":
            assert len(Listing(place).runs) == 8
        else:
            assert verify(place).problems == ()
    assert done == [True]


def test_a_file_that_stays_listed_and_cannot_be_read_is_named(tmp_path: Path) -> None:
    fill(tmp_path, 1, 2, batch=False)
    first = min((tmp_path / "runs").iterdir())
    first.unlink()
    first.symlink_to("nowhere")
    with pytest.warns(UserWarning, match=first.name):
        assert len(Listing(tmp_path).runs) == 2


def _publisher(root: Path, end: float) -> None:
    store, number = Store(root), 0
    while time.time() < end:
        moment = datetime.now(UTC)
        run = builders.a_run(run_id=new_run_id(moment), host=Host(f"h{number % 3}", "192.0.2.7"))
        run = replace(run, started_utc=moment.isoformat(), ended_utc=None)
        store.publish(run, builders.bursts_of(run))
        number += 1


def _compactor(root: Path, end: float) -> None:
    run_tables.MANY_FILES = 3
    while time.time() < end:
        run_tables.put_together(Folder(root))


@pytest.mark.slow
def test_two_who_put_together_one_who_publishes_and_a_reader_do_not_disturb_one_another(
    tmp_path: Path,
) -> None:
    end = time.time() + float(os.environ.get("FLEET_TEST_SECONDS", "20"))
    Store(tmp_path).make_ready()
    context = multiprocessing.get_context("fork")
    work = (_publisher, _compactor, _compactor)
    others = [context.Process(target=one, args=(tmp_path, end)) for one in work]
    for other in others:
        other.start()
    listed, readings = set[str](), 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        while time.time() < end:
            runs = [run.run_id for run in Listing(tmp_path).runs]
            assert len(runs) == len(set(runs))
            assert listed <= set(runs)
            listed, readings = set(runs), readings + 1
            assert verify(Folder(tmp_path)).problems == ()
    for other in others:
        other.join()
        assert other.exitcode == 0
    final = sorted(run.run_id for run in Listing(tmp_path).runs)
    assert len(final) > 10
    assert readings > 3
    assert sorted(pd.read_parquet(tmp_path / "runs")["run_id"]) == final
    assert sorted(pd.read_parquet(tmp_path / "cpus")["run_id"].astype(str)) == sorted(final * 2)
