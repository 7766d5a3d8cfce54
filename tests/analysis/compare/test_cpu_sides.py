"""Sides that are some CPUs of a host: `pisa@cpus=E` beside `pisa@cpus=P`."""

from pathlib import Path

import pytest

from fleet.analysis.compare import compare
from fleet.errors import UsageError
from tests.command import Fleet

SIDES = ("pisa@cpus=E", "pisa@cpus=P")


@pytest.mark.parametrize("text", ["pisa@cpus=", "@cpus=E"])
def test_a_side_of_cpus_has_a_host_and_cpus(made_lab: Path, text: str) -> None:
    with pytest.raises(UsageError, match="write a host and its CPUs, as pisa@cpus=E"):
        compare(made_lab / "results", ["pisa", text])


def test_kinds_of_cores_of_one_host_are_two_sides(made_lab: Path) -> None:
    with Fleet(made_lab, {"COLUMNS": "80"}) as fleet:
        text = fleet("compare", *SIDES).stdout
        (row,) = fleet("compare", *SIDES, "-b", "cas", "--json").json
        csv = fleet("compare", *SIDES, "-b", "cas", "--csv").stdout.splitlines()
        shown = fleet("show", "pisa").stdout
    assert text.startswith("pisa@cpus=P against pisa@cpus=E: 2 relations, 2 changed")
    assert "cas/cmpxchg    package   46.8  37.7  -19.6%" in text
    assert "The sides are CPUs of the same runs: pairs are not compared." in text
    assert "repeats itself" not in text
    # the numbers that `show` has of these relations: package E-E and P-P
    assert {"46.7", "37.5"} <= {*shown.split()}
    assert row["a"]["runs"] == row["b"]["runs"]
    assert len(row["a"]["runs"]) == 8
    (relation,) = row["relations"]
    assert (relation["relation"], relation["verdict"]) == ("package", "changed")
    assert relation["freedom"] == 7  # each run is held against itself
    assert len(csv) == 2
    assert "pisa@cpus=E,pisa@cpus=P" in csv[1]


def test_cpus_by_number_keep_their_relations(made_lab: Path) -> None:
    sides = ("rome@cpus=0-7", "rome@cpus=8-15")
    with Fleet(made_lab) as fleet:
        (row,) = fleet("compare", *sides, "-b", "cas", "--json").json
    (relation,) = row["relations"]
    assert (relation["relation"], relation["pairs"]) == ("llc", 28)
    assert relation["verdict"] == "equivalent"


def test_a_page_opens_with_the_sides(made_lab: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    with Fleet(made_lab) as fleet:
        done = fleet("report", "--compare", *SIDES, "-o", str(page))
    assert done.exit_code == 0, done.stderr
    html = page.read_text()
    assert "pisa@cpus=P against pisa@cpus=E" in html
    assert "19.6%" in html


def test_other_ways_to_write_it_say_how(made_lab: Path) -> None:
    with Fleet(made_lab) as fleet:
        twice = fleet("compare", "pisa", "-c", "E", "pisa", "-c", "P")
        unknown = fleet("compare", "pisa@cpus=X", "pisa@cpus=E")
        same = fleet("compare", "pisa@cpus=E", "pisa@kernel=6.13*@cpus=E")
    assert twice.exit_code == unknown.exit_code == same.exit_code == 2
    assert "are sides as pisa@cpus=E pisa@cpus=P" in " ".join(twice.stderr.split())
    assert "kinds of cores P, E" in unknown.stderr
    assert "is on both sides" in same.stderr
