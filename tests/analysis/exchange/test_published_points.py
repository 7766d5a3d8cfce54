"""The published numbers of points: whole, with their source, and never taken for pairs."""

from pathlib import Path

import pytest

from fleet.analysis import load_published_points
from fleet.analysis.exchange.beside import beside_points, beside_points_text
from fleet.analysis.exchange.imports import find_summary, points_list, points_text
from fleet.errors import UsageError
from tests import memory, points
from tests.command import Fleet


def test_every_published_point_has_a_number_and_a_source() -> None:
    rows = load_published_points()
    assert set(rows["benchmark"]) == {"bandwidth", "fetch", "interleave", "gemm"}
    assert (rows["unit_ns"] > 0).all()
    assert rows["source"].str.startswith("https://").all()
    ladder = rows[rows["point"].str.fullmatch(r"read\.own\..*\.x1")]["value"]
    assert len(ladder) == 16
    assert (ladder.iloc[0], ladder.max(), ladder.iloc[-1]) == (380.22, 457.55, 13)


def test_times_of_a_pass_are_ns_a_line() -> None:
    rows = load_published_points().set_index("point")["unit_ns"]
    assert rows["shared.write.1K"] == pytest.approx(22.78e3 / 4096)
    assert rows["written.stream.128K"].iloc[0] == pytest.approx(11.89e3 / 2048)
    assert rows["read.own.1M.x1"] == pytest.approx(1 / 181.53)


def test_they_are_listed_and_printed_and_not_compared_as_pairs(tmp_path: Path) -> None:
    assert "spr-mm_amx: Intel Xeon, Sapphire Rapids" in points_list()
    assert "shared.write.1K   22.78  us       5.56" in points_text("spr-mm_amx")
    with pytest.raises(UsageError, match="has points and no pairs of CPUs; `fleet show summary:spr-mm_amx`"):
        find_summary(tmp_path, "summary:spr-mm_amx")
    with Fleet(tmp_path) as fleet:
        listed = fleet("runs", "--summaries").stdout
        assert "spr-mm_amx" in listed
        shown = fleet("show", "summary:spr-mm_amx").stdout
        assert "forwarded by the owner" in shown
        for words, why in (
            (("show", "summary:rpi4-linux", "rome"), "fleet compare summary:rpi4-linux rome lays"),
            (("show", "summary:rpi4-linux", "--csv"), "shown whole"),
            (("runs", "rome", "--summaries"), "lists all"),
        ):
            done = fleet(*words)
            assert (done.exit_code, why in " ".join(done.stderr.split())) == (2, True), done.stderr


def test_a_ladder_is_laid_beside_the_nearest_sizes_that_were_published(tmp_path: Path) -> None:
    run = memory.publish(tmp_path)
    rows = beside_points(tmp_path, [run.run_id, "summary:spr-mm_amx"])
    (near,) = rows[rows["point"] == "read.own.1M.x1"].to_dict("records")
    assert near["at"] == "read.own.768K.x1"
    assert (near["published"], near["number"]) == (181.53, pytest.approx(250, rel=2e-3))
    assert near["ratio"] == pytest.approx(250 / 181.53, rel=2e-3)
    assert "read.own.128M.x1" not in set(rows["point"])  # twice the largest size of the run


def test_what_other_cpus_wrote_is_laid_beside_in_the_published_unit(tmp_path: Path) -> None:
    run = points.publish(tmp_path)
    rows = beside_points(tmp_path, [run.run_id, "summary:spr-mm_amx"])
    found = rows.set_index("point").loc["shared.write.1K"]
    assert found["number"] == pytest.approx(5.0 * 4096 / 1000, rel=2e-3)
    assert found["ratio"] == pytest.approx(5.0 * 4096 / 22.78e3, rel=2e-3)
    page = beside_points_text(rows)
    assert "no verdict is possible" in page
    assert "own.write.1K" in page


def test_points_are_laid_beside_by_the_command_and_only_beside_runs_that_have_them(tmp_path: Path) -> None:
    run = points.publish(tmp_path / "results")
    with Fleet(tmp_path) as fleet:
        assert "shared.write.1K" in fleet("compare", run.run_id, "summary:spr-mm_amx").stdout
    with pytest.raises(UsageError, match="laid beside runs"):
        beside_points(tmp_path, ["summary:spr-mm_amx"])
