"""The notebooks run as they are, from a copy, and are stored without what they
print.
"""

import json
import shutil
from pathlib import Path

import pytest

from fleet.analysis.compare import compare
from tests import needs
from tests.shared import agents_cache

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_output(path: Path) -> None:
    cells = json.loads(path.read_text())["cells"]
    assert cells
    for cell in cells:
        assert not cell.get("outputs"), "clear all outputs before saving"
        assert cell.get("execution_count") is None


@pytest.mark.long
def test_the_shipped_runs_tell_a_real_change_from_a_mere_name(tmp_path: Path) -> None:
    root = shutil.copytree(
        FOLDER / "data", tmp_path / "data", ignore=shutil.ignore_patterns(".fleet")
    )
    (changed,) = compare(root, ["lines=apart", "lines=together"])
    assert dict(changed.relations[["benchmark", "verdict"]].to_numpy()) == {
        "cas": "cannot tell",
        "readwrite": "changed",
    }
    (same,) = compare(root, ["kernel=a", "kernel=b"])
    assert not same.has_changed
    assert (
        sum(file.stat().st_size for file in (FOLDER / "data").rglob("*.parquet"))
        < 1_000_000
    )


@pytest.mark.slow
def test_measuring_shows_its_progress_below_the_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET_AGENT_LOCK", str(tmp_path / "agent.lock"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(agents_cache()))
    nbformat = needs.python_module("nbformat", "nbformat")
    nbclient = needs.python_module("nbclient", "nbclient")
    needs.python_module("ipykernel", "ipykernel")
    code = "import fleet\nr = fleet.measure((), 'clock', rounds=3)\nr"
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    where = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(book, kernel_name="python3", resources=where).execute()
    progress, result = book.cells[0].outputs
    assert "1 of 1 hosts done: 1 complete" in progress["data"]["text/plain"]
    assert "1 run of 1 host" in result["data"]["text/html"]


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    nbformat = needs.python_module("nbformat", "nbformat")
    nbclient = needs.python_module("nbclient", "nbclient")
    needs.python_module("ipykernel", "ipykernel")
    shutil.copy(path, tmp_path)
    shutil.copytree(
        FOLDER / "data", tmp_path / "data", ignore=shutil.ignore_patterns(".fleet")
    )
    book = nbformat.read(tmp_path / path.name, as_version=4)
    where = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(book, kernel_name="python3", resources=where).execute()
    outputs = [out for cell in book.cells for out in cell.get("outputs", [])]
    assert any("image/png" in out.get("data", {}) for out in outputs)
    assert not [out for out in outputs if out.get("name") == "stderr"]
    nbformat.write(book, tmp_path / "run.ipynb")
