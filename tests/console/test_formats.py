"""Every command with every format, where something was found and where nothing was."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.command import Done

pytestmark = pytest.mark.long

SELECTIONS = {
    "compare lucca": "package",  # a change, with its date
    "compare pisa": "",
    "compare all": "package",
    "compare rome milan": "llc",
    "compare kernel=old kernel=new": "llc",
    "compare siena rome": "",
    "compare node* --siblings": "node6",
    "compare node1,node2,node3 --siblings": "",
    "show": "rome",
    "show rome": "llc",
    "show lucca": "package",
    "show pisa -b chase": "random",
    "show node*": "node6",
    "show siena rome": "siena",
}
"""Words of a command, and a word that each of its formats has in its answer."""
LONG = ("compare all", "compare kernel=old kernel=new", "compare rome milan")
"""Those that take many seconds."""


def parse_json(text: str) -> Any:
    """Parse JSON as its standard has it, without NaN or Infinity."""
    return json.loads(text, parse_constant=pytest.fail)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words, marks=pytest.mark.slow if words in LONG else ())
        for words in SELECTIONS
    ],
)
def test_each_format_of_an_answer_is_valid_and_has_what_was_found(
    made_lab: Path, fleet_here: Callable[..., Done], words: str
) -> None:
    command = [*words.split(), "-r", str(made_lab / "results")]
    text, as_json, as_csv = (
        fleet_here(*command, *form) for form in ((), ("--json",), ("--csv",))
    )
    assert {(done.exit_code, done.stderr) for done in (text, as_json, as_csv)} == {
        (0, "")
    }
    parse_json(as_json.stdout)
    header, *rows = csv.reader(io.StringIO(as_csv.stdout))
    assert {len(row) for row in rows} <= {len(header)}
    for answer in (text.stdout, as_json.stdout, as_csv.stdout):
        assert SELECTIONS[words] in answer


def test_every_selected_run_is_written_or_the_answer_says_which(
    made_lab: Path, fleet_here: Callable[..., Done], tmp_path: Path
) -> None:
    root = ("-r", str(made_lab / "results"))
    folder = str(tmp_path)
    samples = fleet_here("export", "siena", "node1", "-F", "samples", *root)
    rows = [*csv.DictReader(io.StringIO(samples.stdout))]
    runs = {(row["host_name"], row["run_id"]) for row in rows}
    listed = fleet_here("runs", "siena", "node1", "--json", *root).json
    assert runs == {(run["host_name"], run["run_id"]) for run in listed}
    assert all(row["cpu_model"] and row["started_utc"] for row in rows)
    packed = fleet_here("export", "siena", "node1", *root, "-o", f"{folder}/all.zip")
    assert packed.stdout.count(" as r") == 3
    assert f"and {len(runs) - 3} more, each under" in packed.stdout
    told = " ".join(packed.stdout.split())  # lines are broken at the width
    assert f"all.zip: {len(runs)} runs, " in told
    matrix = fleet_here("export", "siena", *root, "-b", "cas")
    count = len([run for run in listed if run["host_name"] == "siena"])
    assert (f"1 of {count} runs" in matrix.stderr) == (count > 1)
    for form in ("--json", "--csv"):
        output = fleet_here("show", "siena", form, *root).stdout
        assert all(
            run["run_id"] in output for run in listed if run["host_name"] == "siena"
        )
