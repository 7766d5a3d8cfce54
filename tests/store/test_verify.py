from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fleet.analysis import load_pairs, load_samples
from fleet.errors import StoreError
from fleet.store import Store, samples
from fleet.store.checksums import seal_file
from fleet.store.places import parse_place
from fleet.store.verify import verify
from fleet.store.writing import write_summary
from tests import builders, simulated
from tests.command import Done, Fleet
from tests.store.test_links import SUMMARY


@pytest.fixture
def root(tmp_path: Path) -> Path:
    simulated.publish(
        tmp_path, simulated.desktop(), rounds=3, benchmarks=("cas", "clock")
    )
    return tmp_path


def samples_file(root: Path) -> Path:
    (file,) = root.glob("samples/host_id=*/*/samples.parquet")
    return file


def spoil(file: Path, position: int, bit: int = 0) -> None:
    """Flip one bit of a file."""
    content = bytearray(file.read_bytes())
    content[position] ^= 1 << bit
    file.write_bytes(content)


def test_a_root_that_is_as_it_was_written_has_no_problem(root: Path) -> None:
    result = verify(parse_place(root))
    assert result.runs == 1
    assert result.files == 3
    assert result.problems == ()
    assert result.samples == load_samples(root)["ticks"].map(len).sum()


def test_a_run_of_several_chunks_is_verified_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "CHUNK_SAMPLES", 100)
    simulated.publish(tmp_path, simulated.desktop(), rounds=3)
    assert verify(parse_place(tmp_path)).problems == ()
    spoil(samples_file(tmp_path), position=500)
    assert len(verify(parse_place(tmp_path)).problems) == 1


def test_other_samples_than_those_published_are_found(root: Path) -> None:
    file = samples_file(root)
    table = pq.read_table(file, partitioning=None)
    metadata = pq.read_metadata(file).metadata
    with pq.ParquetWriter(file, table.schema) as writer:
        writer.write_table(table.slice(1))
        writer.add_key_value_metadata(metadata)
    seal_file(file)
    (problem,) = verify(parse_place(root)).problems
    assert "not the samples that were published" in problem


@pytest.mark.parametrize(
    "file",
    [
        "samples/host_id=*/*/samples.parquet",
        "runs/*.parquet",
        "cpus/*.parquet",
        "summaries/*.parquet",
    ],
)
@pytest.mark.parametrize(
    "mark", [" (conflicted copy 2026-01-02)", ".sync-conflict-20260102"]
)
def test_a_copy_that_a_sync_tool_left_in_a_table_is_named(
    root: Path, file: str, mark: str
) -> None:
    write_summary(root, "board", [SUMMARY])
    (original,) = root.glob(file)
    copy = original.with_name(f"{original.stem}{mark}.parquet")
    copy.write_bytes(original.read_bytes())
    if file.startswith("samples"):
        (copy.parent / f".{copy.name}").touch()  # which no reader takes
    (problem,) = verify(parse_place(root)).problems
    assert f"{copy.name}: not a file of fleet's" in problem


def replace_values(file: Path, column: str, values: pa.Array) -> None:
    """Put other values into a column of a table's file."""
    table = pq.read_table(file)
    index = table.column_names.index(column)
    builders.put_table(table.set_column(index, column, values), file)


def test_a_file_to_give_away_is_verified(
    root: Path, fleet_here: Callable[..., Done]
) -> None:
    write_summary(root, "board", [SUMMARY])
    run = root / "run.parquet"
    medians = root / "medians.parquet"
    export = ("export", "all", "-r", str(root))
    assert fleet_here(*export, "-o", str(run)).exit_code == 0
    assert fleet_here(*export, "-o", str(medians), "--medians").exit_code == 0
    for file in (run, medians, root / "summaries" / "board.parquet"):
        done = fleet_here("verify", str(file))
        assert done.exit_code == 0, done.stdout
        assert done.stdout.endswith("1 file: all as written.\n"), done.stdout

    spoil(run, position=500)
    (runs,) = (root / "runs").iterdir()
    text = root / "text.parquet"
    text.write_text("CPU,0,1\n")
    about_runs = "a file of runs, not a run or a summary"
    for file, why in ((run, "damaged"), (runs, about_runs), (text, "text.parquet")):
        done = fleet_here("verify", str(file))
        assert done.exit_code == StoreError.exit_code, done.stdout
        assert why in done.stdout, done.stdout


def test_a_file_without_checksums_is_refused(root: Path) -> None:
    file = samples_file(root)
    table = pq.ParquetFile(file).read()
    metadata = pq.read_metadata(file).metadata
    pq.write_table(table.replace_schema_metadata(metadata), file)
    problems = verify(parse_place(root)).problems
    assert "it has no checksums" in " ".join(problems)


def test_a_value_that_the_record_does_not_have_is_found_in_both_tables(
    root: Path,
) -> None:
    (cpus,) = (root / "cpus").iterdir()
    (runs,) = (root / "runs").iterdir()
    count = pq.read_metadata(cpus).num_rows
    replace_values(cpus, "core", pa.array([7] * count, pa.int32()))
    replace_values(runs, "cpu_model", pa.array(["Another"]))
    in_runs, in_cpus = verify(parse_place(root)).problems
    assert "that of the samples: cpu_model. Remove it: it is made again" in in_runs
    assert "that of the samples: core. Remove it and the files in runs" in in_cpus


def test_a_row_that_no_listing_takes_is_found(root: Path) -> None:
    (file,) = (root / "runs").iterdir()
    table = pq.read_table(file)
    replace_values(file, "run_id", pa.array(["z" * 2000]))
    too_long = pq.read_table(file).cast(table.schema)
    builders.put_table(pa.concat_tables([table, too_long]), file)
    (problem,) = verify(parse_place(root)).problems
    assert "runs.run_id" in problem


def test_a_row_that_is_missing_is_found(root: Path) -> None:
    (cpus,) = (root / "cpus").iterdir()
    builders.put_table(pq.read_table(cpus).slice(1), cpus)
    (problem,) = verify(parse_place(root)).problems
    assert "that of the samples: number of rows" in problem


def test_a_run_in_the_place_of_another_is_found(root: Path) -> None:
    folder = samples_file(root).parent
    folder.rename(folder.with_name("run_id=r20260102T030405Z-00000000"))
    (problem,) = verify(parse_place(root)).problems
    assert "holds run" in problem


def test_the_command_names_what_is_damaged_and_exits_with_11(tmp_path: Path) -> None:
    run = builders.a_run()
    with Fleet(tmp_path) as fleet:
        Store(fleet.results).publish(run, builders.make_bursts(run))
        assert fleet("verify").stdout == "1 run, 15 samples, 3 files: all as written.\n"
        spoil(samples_file(fleet.results), position=100)
        done = fleet("verify", str(fleet.results))
        assert done.exit_code == 11
        assert "checksum" in done.stdout
        assert "3 files: 1 problem." in done.stdout
        assert fleet("verify", "--json").json[0]["runs"] == 1


def test_a_samples_file_of_another_program_is_named_wherever_it_is_read(
    root: Path,
) -> None:
    table = pq.read_table(samples_file(root), partitioning=None)
    builders.put_table(table.replace_schema_metadata(None), samples_file(root))
    with pytest.raises(StoreError, match="no record of its run"):
        load_pairs(root, host_id="desktop")
    (problem,) = verify(parse_place(root)).problems
    assert "no record of its run" in problem
