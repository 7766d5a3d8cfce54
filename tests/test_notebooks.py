"""The notebooks run as they are, from a copy, and are stored with what they show.

`python -m tests.test_notebooks` runs them and stores their outputs; it needs nbclient
and ipykernel.
"""

import base64
import io
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from fleet.analysis.compare import compare
from tests import needs
from tests.shared import agents_cache

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_with_what_it_shows(path: Path) -> None:
    text = path.read_text()
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    counts = [cell["execution_count"] for cell in cells]
    assert counts == [*range(1, len(cells) + 1)], "python -m tests.test_notebooks"
    assert '"image/png"' in text
    for folder in (str(FOLDER.parent), tempfile.gettempdir(), str(Path.home())):
        assert f"{folder}/" not in text, "of the machine that ran it"
    assert len(text) < 1_000_000, "a forge draws no larger one"


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
    outputs = list_outputs(run_notebook(path, tmp_path))
    assert any("image/png" in out.get("data", {}) for out in outputs)
    assert not [out for out in outputs if out.get("name") == "stderr"]
    stored = list_outputs(nbformat.read(path, as_version=4))
    assert [sorted(out.get("data", {})) for out in outputs] == [
        sorted(out.get("data", {})) for out in stored
    ]


def run_notebook(path: Path, folder: Path) -> Any:
    """Run a copy of a notebook beside a copy of the data; return it with its outputs."""
    nbformat = needs.python_module("nbformat", "nbformat")
    nbclient = needs.python_module("nbclient", "nbclient")
    needs.python_module("ipykernel", "ipykernel")
    shutil.copytree(
        FOLDER / "data", folder / "data", ignore=shutil.ignore_patterns(".fleet")
    )
    book = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(folder)}}
    client = nbclient.NotebookClient(
        book, kernel_name="python3", resources=where, record_timing=False
    )
    client.execute()
    return book


def list_outputs(book: Any) -> list[Any]:
    return [out for cell in book.cells for out in cell.get("outputs", [])]


def shrink(picture: str) -> str:
    """A PNG in 64 colours, both as text in base 64."""
    image = needs.python_module("PIL.Image", "pillow")
    drawn = image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB")
    small = io.BytesIO()
    drawn.quantize(64).save(small, "png", optimize=True)
    return base64.b64encode(small.getvalue()).decode()


def store_outputs() -> None:
    """Run each notebook and store it with its outputs; a person looks at them."""
    nbformat = needs.python_module("nbformat", "nbformat")
    for path in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as folder:
            book = run_notebook(path, Path(folder))
        book.metadata.language_info = {"name": "python"}
        for output in list_outputs(book):
            if "image/png" in output.get("data", {}):
                output.data["image/png"] = shrink(output.data["image/png"])
        nbformat.write(book, path)


if __name__ == "__main__":
    store_outputs()
