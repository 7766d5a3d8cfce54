"""The lab to learn on: made through the real store, the same every time, and never
taken for measurements.
"""

import re
from pathlib import Path

import pandas as pd
import pytest

from fleet.analysis import load_counters, load_pairs
from fleet.analysis.reduce import CROSS_CHECK_MEANINGS, load_runs, load_samples
from fleet.errors import StoreError
from fleet.inventory.select import load
from fleet.model import BENCHMARKS
from fleet.store.places import parse_place
from fleet.store.verify import verify
from tests.builders import burst_key
from tests.command import Fleet
from tests.lab import make, points
from tests.lab.machines import EVERYTHING, MACHINES, Machine


@pytest.mark.long
def test_the_lab_is_a_results_root_like_any_other(made_lab: Path) -> None:
    report = verify(parse_place(made_lab / "results"))
    assert report.problems == ()
    assert report.runs == sum(map(len, make.nights().values())) + make.REPEATS + 1


@pytest.mark.slow
def test_the_shipped_lab_is_what_its_script_makes(
    made_lab: Path, tmp_path: Path
) -> None:
    """After a change of the format or of the machines, `make lab` makes it anew."""
    make.write_lab(tmp_path)
    shipped, rebuilt = (load_runs(root / "results") for root in (made_lab, tmp_path))
    columns = ["run_id", "host_id", "content_sha256", "labels_json", "benchmarks"]
    pd.testing.assert_frame_equal(shipped[columns], rebuilt[columns])
    assert (made_lab / "inventory.yaml").read_text() == (
        tmp_path / "inventory.yaml"
    ).read_text()


def test_every_run_says_that_it_is_made_up(made_lab: Path) -> None:
    runs = load_runs(made_lab / "results")
    assert runs["notes"].map(lambda notes: make.NOTE in notes).all()
    assert runs["labels_json"].str.contains('"made-up":"yes"').all()
    assert runs["cpu_model"].str.startswith("Made-up").all()


def test_the_inventory_names_the_machines_and_leads_to_none_of_them(
    made_lab: Path,
) -> None:
    hosts = load(made_lab / "inventory.yaml").hosts
    names = [machine.name for machine in (*MACHINES, EVERYTHING)]
    assert [host.name for host in hosts] == [*names, "localhost"]
    assert all(host.address.endswith(".invalid") for host in hosts[:-1])


def machine_named(name: str) -> Machine:
    return next(machine for machine in MACHINES if machine.name == name)


def test_one_machine_has_most_benchmarks_and_counted_events(made_lab: Path) -> None:
    pairs = load_pairs(made_lab / "results", host_id=EVERYTHING.name)
    assert (
        set(pairs["benchmark"])
        == set(EVERYTHING.benchmarks)
        == set(BENCHMARKS) - {"clock"}
    )
    assert set(load_counters(made_lab / "results")["event"]) == set(points.COUNTED)
    first, again = (list(points.bursts(EVERYTHING, 2, 0)) for _ in range(2))
    assert first == again
    assert len({*map(burst_key, first)}) == len(first)


@pytest.mark.long
def test_numbers_of_different_benchmarks_fit_together(made_lab: Path) -> None:
    with Fleet(made_lab, {"COLUMNS": "80"}) as fleet:
        summary = fleet("show", EVERYTHING.name).stdout
        both_ways = fleet("show", EVERYTHING.name, "--ways", "-b", "message").stdout
    assert not [key for key in CROSS_CHECK_MEANINGS if f"  {key}: " in summary]
    assert re.search(r"^package, ping +\d+ +3 +1$", summary, re.MULTILINE), (
        "counted for each relation"
    )
    assert "-0.0 ±" not in both_ways
    for words in (
        "message/mov",
        "taken for writing",
        "system, stores",
        "a CPU",
        "snoop_hit_modified",
    ):
        assert words in summary
    assert re.search(r"^ 0-2 +15[0-9]\.\d +14[0-9]\.\d ", both_ways, re.MULTILINE)


def test_the_kernel_matters_where_the_machine_says_so(made_lab: Path) -> None:
    rome = load_samples(
        made_lab / "results", host_id="rome", relation="llc", labels={"kernel": "old"}
    )
    assert set(rome["benchmark"]) == {"cas"}
    assert rome["run_id"].nunique() == machine_named("rome").nights.count("old")


def test_one_of_the_equal_nodes_is_slow_and_one_machine_changed_in_a_night(
    made_lab: Path,
) -> None:
    nodes = load_pairs(made_lab / "results", labels={"kind": "node"})
    across = (
        nodes[nodes["relation"] == "package"]
        .groupby("host_id", observed=True)["median_ns"]
        .median()
    )
    assert across.idxmax() == "node6"
    assert (across.drop("node6") < 0.95 * across["node6"]).all()
    assert len(across) == 9
    lucca = load_pairs(made_lab / "results", host_id="lucca", relation="package")
    nightly = lucca.groupby("run_id", observed=True)["median_ns"].median()
    new = machine_named("lucca").nights.count("new")
    assert len(nightly) == 14
    assert nightly[-new:].min() > 1.03 * nightly[:-new].max()


def test_a_lab_that_does_not_fit_on_the_disk_leaves_nothing_behind(
    tmp_path: Path,
) -> None:
    (tmp_path / "empty").mkdir()
    with Fleet(tmp_path) as fleet:
        for folder in ("lab", "empty"):
            process = fleet.start(
                "demo",
                folder,
                prefix=("/bin/sh", "-c", 'ulimit -f 16; exec "$@"', "sh"),
            )
            stdout, stderr = process.communicate()
            assert process.returncode == StoreError.exit_code
            assert stdout == ""
            assert f"{folder}: cannot be made: File too large" in stderr
    assert not (tmp_path / "lab").exists()
    assert not any((tmp_path / "empty").iterdir())


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "mine").write_text("keep")
    with Fleet(tmp_path) as fleet:
        done = fleet("demo", "lab")
    assert done.exit_code == 2
    assert "not empty" in done.stderr
    assert [path.name for path in (tmp_path / "lab").iterdir()] == ["mine"]
