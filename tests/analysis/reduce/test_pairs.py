import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fleet.analysis.reduce import (
    STATS_VERSION,
    add_pair_flags,
    as_float64,
    history,
    load_pairs,
    load_samples,
    pair_medians,
)
from fleet.errors import StoreError, StoreWarning
from fleet.model import Host, Run
from fleet.store import Listing, Store, new_run_id, schema
from tests import builders
from tests.planting import home

ROOT = Path(__file__).parents[3]


def publish(
    root: Path,
    name: str = "a",
    started: str = "2026-01-02T03:04:05Z",
    **changes: object,
) -> Run:
    run = builders.a_run(
        builders.small_desktop(),
        new_run_id(),
        Host(name, "192.0.2.1"),
        benchmarks=("cas", "clock"),
        rounds=5,
    )
    run = replace(run, started_utc=started, **changes)  # type: ignore[arg-type]
    Store(root).publish(run, builders.make_bursts(run, seed=len(name)))
    return run


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """One run of eight CPUs, `cas` and `clock`."""
    publish(tmp_path)
    return tmp_path


def forget(root: Path) -> None:
    Listing(root).index.path.unlink()


def derivations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs that are derived from now on."""
    runs: list[str] = []
    real = home(load_pairs).derive_pairs

    def spy(place, wanted):
        runs.extend(run.run_id for run in wanted)
        return real(place, wanted)

    monkeypatch.setattr(home(load_pairs), "derive_pairs", spy)
    return runs


def test_they_are_what_the_samples_say(root: Path) -> None:
    expected = add_pair_flags(pair_medians(load_samples(root)))
    loaded = as_float64(load_pairs(root)).drop(columns=["host_id", "stats_version"])
    keys = ["benchmark", "ping_cpu", "pong_cpu"]
    expected, loaded = (
        frame.sort_values(keys).reset_index(drop=True)
        for frame in (expected[loaded.columns], loaded)
    )
    pd.testing.assert_frame_equal(loaded, expected, check_dtype=False, rtol=1e-6)


@pytest.mark.long
def test_many_runs_are_reduced_by_several_processes_to_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        publish(tmp_path, name)
    expected = load_pairs(tmp_path)
    notes = list[str]()
    forget(tmp_path)
    monkeypatch.setattr(home(load_pairs), "MANY_RUNS", 3)
    runs = derivations(monkeypatch)
    pairs = load_pairs(Listing(tmp_path, notes.append))
    pd.testing.assert_frame_equal(pairs, expected, check_categorical=False)
    assert runs == []
    assert (
        notes[0]
        == "reducing the samples of 3 runs to pairs; this is done once for each run"
    )
    assert notes[-1] == "3 of 3 runs"


def test_what_other_processes_leave_out_is_reduced_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        publish(tmp_path, name)
    expected = load_pairs(tmp_path)
    forget(tmp_path)
    monkeypatch.setattr(home(load_pairs), "MANY_RUNS", 3)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    pd.testing.assert_frame_equal(load_pairs(tmp_path), expected)


def test_other_processes_import_nothing_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("a", "b", "c"):
        publish(root, name)
    planted = f"open({str(tmp_path / 'PWN')!r}, 'w')\n"
    for module in ("json", "numpy", "pandas", "fleet", "tempfile"):
        (folder / f"{module}.py").write_text(planted)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(home(load_pairs), "MANY_RUNS", 3)
    runs = derivations(monkeypatch)
    assert set(load_pairs(root)["host_id"]) == {"a", "b", "c"}
    assert runs == []
    assert not (tmp_path / "PWN").exists()


def test_every_column_is_there_also_without_runs(tmp_path: Path) -> None:
    names = [column.name for column in schema.TABLES["pairs"]]
    assert list(load_pairs(tmp_path).columns) == names
    publish(tmp_path)
    assert list(load_pairs(tmp_path, benchmark="none").columns) == names


def test_the_second_reader_derives_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load_pairs(root)
    runs = derivations(monkeypatch)
    pd.testing.assert_frame_equal(load_pairs(root), first)
    assert runs == []


def test_several_at_once_write_the_same(root: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        tables = list(pool.map(lambda _: load_pairs(root), range(4)))
    for frame in (*tables, load_pairs(root)):
        pd.testing.assert_frame_equal(frame, tables[0])


def test_filters_choose_runs_benchmarks_and_relations(root: Path) -> None:
    labelled = publish(root, "b", labels={"kernel": "7.0"})
    assert set(load_pairs(root, host_id="b")["run_id"]) == {labelled.run_id}
    assert set(load_pairs(root, labels={"kernel": "7.0"})["host_id"]) == {"b"}
    smt = load_pairs(
        root,
        relation=["smt"],
        benchmark="cas",
        columns=["ping_cpu", "pong_cpu", "median_ns"],
    )
    assert list(smt.columns) == ["ping_cpu", "pong_cpu", "median_ns"]
    assert len(smt) == 2 * 4
    assert (smt["pong_cpu"] - smt["ping_cpu"] == 4).all()


def test_a_run_reduced_in_slices_gives_the_same(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = load_pairs(root)
    sizes = list[int]()
    real = home(load_pairs).read_bursts

    def spy(table, descriptions):
        sizes.append(len(table))
        return real(table, descriptions)

    forget(root)
    monkeypatch.setattr(home(load_pairs), "SLICE_SAMPLES", 100)
    monkeypatch.setattr(home(load_pairs), "read_bursts", spy)
    pd.testing.assert_frame_equal(load_pairs(root), expected)
    assert sum(sizes) == 5 * (28 + 8)
    # bursts of the six pairs of one CPU: a slice is never less than that
    assert max(sizes) <= 6 * 5
    assert len(sizes) > 5


def test_a_run_whose_samples_were_removed_is_gone(root: Path) -> None:
    shutil.rmtree(root / "samples/host_id=a")
    assert load_pairs(root).empty


def test_a_run_whose_samples_are_damaged_is_named_and_the_others_are_served(
    root: Path,
) -> None:
    publish(root, "b")
    (root / "samples/host_id=a").glob("*/*").__next__().write_bytes(b"no")
    with pytest.raises(
        StoreError, match="cannot read the samples table: samples/host_id=a"
    ):
        load_pairs(root, host_id="a")
    with pytest.warns(StoreWarning, match="host_id=a"):
        assert set(load_pairs(root)["host_id"]) == {"b"}


def test_a_history_has_a_row_per_run_oldest_first(root: Path) -> None:
    publish(root, "b", "2026-01-01T00:00:00Z")
    publish(root, "aa", "2026-01-03T00:00:00Z", labels={"kernel": "7.0"})
    rows = history(root, relation="smt")
    assert list(rows["host_name"]) == ["b", "a", "aa"]
    assert list(rows["pairs"]) == [4, 4, 4]
    np.testing.assert_allclose(rows["median_ns"], 6.0, rtol=0.1)
    assert rows["labels"][2]["kernel"] == "7.0"
    assert list(history(root, host_id="a")["relation"]) == ["smt", "package", "self"]
    assert history(root, host_id="nobody").empty


def test_numbers_change_only_with_the_version_of_the_statistics(root: Path) -> None:
    """Whoever changes what a pair's numbers are must raise STATS_VERSION, or old ones
    stay in the index.
    """
    row = load_pairs(root, benchmark="cas", relation="smt").iloc[0]
    names = (
        "median_ns",
        "low_ns",
        "high_ns",
        "min_ns",
        "p10_ns",
        "mean_ns",
        "mad_ns",
        "p99_ns",
        "max_ns",
        "relation_spread",
    )
    numbers = {
        18: (
            6.0411,
            5.586033,
            6.351647,
            5.7166,
            5.76366,
            5.96921,
            0.0761,
            6.149756,
            6.155,
            0.0496157,
        )
    }
    np.testing.assert_allclose(
        row[list(names)].to_numpy(dtype=float), numbers[STATS_VERSION], rtol=1e-5
    )


@pytest.mark.slow
def test_memory_does_not_grow_with_the_run(tmp_path: Path) -> None:
    """Ten million samples, each slice a tenth of them: less than half of what all at
    once take.
    """
    run = builders.a_run(builders.two_sockets())
    chance = np.random.default_rng(1)
    pairs_of_cpus = [(a, b) for a in range(128) for b in range(a + 1, 128)]
    Store(tmp_path).publish(
        run,
        (
            builders.a_burst(
                round=visit, ping_cpu=a, pong_cpu=b, ticks=tuple(row.tolist())
            )
            for visit in range(4)
            for (a, b), row in zip(
                pairs_of_cpus, chance.integers(50_000, 50_300, (8128, 300)), strict=True
            )
        ),
    )
    code = (
        "import sys, re\nfrom pathlib import Path\nfrom fleet.analysis.reduce import"
        " pairs\ndef peak(): return int(re.search(r'VmHWM:\\s*(\\d+)',"
        " Path('/proc/self/status').read_text())[1])\npairs.SLICE_SAMPLES ="
        " int(sys.argv[2])\nbefore = peak(); found = pairs.load_pairs(sys.argv[1]);"
        " print(len(found), peak() - before)\n"
    )

    def grown_kib(slice_samples: int) -> int:
        done = subprocess.run(
            [sys.executable, "-c", code, tmp_path, str(slice_samples)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        forget(tmp_path)
        count, kib = map(int, done.stdout.split())
        assert count == 128 * 127 // 2
        return kib

    assert grown_kib(1_000_000) < 0.5 * grown_kib(10_000_000)


def test_runs_are_oldest_first_whichever_were_reduced_first(root: Path) -> None:
    runs = [run.run_id for run in Listing(root).runs]
    forget(root)
    load_pairs(root, run_id=runs[-1])
    assert [*load_pairs(root)["run_id"].cat.categories] == runs
