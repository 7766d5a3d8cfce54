"""The table of numbers to publish, as CSV, Markdown and LaTeX."""

import csv
import io
import re
from pathlib import Path

import pytest

from fleet.analysis.exchange import write_number_table
from fleet.analysis.views import UsualNumbers, load_usual_numbers, select_runs_to_show
from fleet.store import Listing
from tests.command import Fleet


@pytest.fixture(scope="module")
def usual(made_lab: Path) -> UsualNumbers:
    listing = Listing(made_lab / "results")
    runs = select_runs_to_show(listing, ["pisa", "verona"]).runs
    return load_usual_numbers(listing, runs)


def test_csv_has_a_row_per_number_within_its_interval_in_the_units_of_show(
    made_lab: Path,
) -> None:
    with Fleet(made_lab) as fleet:
        text = fleet("export", "pisa", "verona", "-F", "table").stdout
        shown = fleet("show", "pisa").stdout
    rows = [*csv.DictReader(io.StringIO(text))]
    assert [row["host"] for row in rows] == sorted(row["host"] for row in rows)
    of_pisa = [row for row in rows if row["host"] == "pisa"]
    own = {(row["benchmark"], row["relation"]): row for row in of_pisa}
    for row in own.values():
        assert float(row["low"]) < float(row["number"]) < float(row["high"])
    memory = own["bandwidth/avx2 read", "mem"]
    assert memory["unit"] == "GB/s"
    assert memory["runs"] == "8"
    assert re.search(rf"bandwidth.* mem +{float(memory['number']):.1f} ", shown)
    assert own["cas/cmpxchg", "smt"]["unit"] == "ns"
    # one run of the host has no interval between runs
    assert {row["low"] for row in rows if row["host"] == "verona"} == {""}


def test_markdown_and_latex_have_the_digits_of_show_and_escape_names(
    usual: UsualNumbers,
) -> None:
    named = usual.table.replace({"host_name": {"pisa": r"a|b_c&\d"}})
    usual = usual._replace(table=named)
    markdown = write_number_table(usual, ".md")
    table, _, notes = markdown.partition("\n\n")
    columns = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
    assert columns == {9}
    assert r"| a\|b\_c\&\\d | chase/mov random | L1 | 1.04 | 1.04 | 1.05 |" in table
    assert "95 % interval between the runs of a host" in notes
    latex = write_number_table(usual, ".tex")
    assert r"a|b\_c\&\textbackslash{}d & chase/mov random & L1 & 1.04" in latex
    assert latex.count(r"\\") == len(usual.table) + 1
    assert "\n% low, high: 95 % interval between" in latex


def test_the_suffix_of_the_file_chooses_the_kind_of_table(
    made_lab: Path, tmp_path: Path
) -> None:
    file = tmp_path / "numbers.tex"
    with Fleet(made_lab) as fleet:
        assert fleet("export", "pisa", "-F", "table", "-o", str(file)).exit_code == 0
        refused = fleet("export", "pisa", "-F", "table", "--value", "p99")
    assert file.read_text().startswith(r"\begin{tabular}{lllrrrlr}")
    assert refused.exit_code == 2
    assert "--value chooses the number of a pair" in refused.stderr
