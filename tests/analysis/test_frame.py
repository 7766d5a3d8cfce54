"""What is shown without pandas is what pandas' frames show, to the last digit."""

import subprocess
import sys
from pathlib import Path

import pytest

from fleet.analysis.frame import Frame, into_pandas
from fleet.analysis.reduce.cells import Only
from fleet.analysis.views import show
from fleet.analysis.views.heatmap import Canvas
from fleet.store import Listing


def shown(root: Path) -> list[str]:
    """All that is shown of a run of each host, and of all runs."""
    listing = Listing(root)
    last = {run.host_id: run for run in listing.runs}
    found = [show.overview_of(listing, listing.runs, Canvas(140), ends=ends) for ends in (False, True)]
    for run in last.values():
        earlier = [one for one in listing.runs if one.host_id == run.host_id]
        found.append(show.show_text(listing, run.run_id, all_sizes=True, as_map=True, earlier=earlier))
        found.append(show.shows_json(listing, [run.run_id]))
    found.append(show.show_text(listing, last["pisa"].run_id, only=Only(cpus="E")))
    return found


@pytest.mark.slow
def test_frames_show_what_pandas_frames_show(made_lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without = shown(made_lab / "results")
    monkeypatch.setattr(Frame, "of_arrow", into_pandas)
    assert without == shown(made_lab / "results")


@pytest.mark.parametrize("words", [["show", "siena"], ["show"], ["runs"]])
def test_commands_that_must_start_fast_do_not_import_pandas(made_lab: Path, words: list[str]) -> None:
    program = f"import sys; sys.argv[1:] = {words!r}\ntry:\n from fleet.__main__ import main; main()\n"
    program += "finally:\n assert 'pandas' not in sys.modules, 'pandas'"
    subprocess.run([sys.executable, "-c", program], cwd=made_lab, check=True, capture_output=True)
