"""What the docs and notebooks import has types that a strict checker of others sees."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

import fleet
import fleet.analysis
from fleet.plan import keywords
from fleet.plan.options import OFFERED, Option
from tests import needs
from tests.shared import run_folder

ROOT = Path(__file__).parent.parent
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("notebooks/*.md")]
NOTEBOOKS = [*ROOT.glob("notebooks/*.ipynb")]
# libraries of others, without types or not installed
FOREIGN = ("import-untyped", "import-not-found")


def python_of_notebook(path: Path) -> str:
    """All code of a notebook, as one module."""
    cells = json.loads(path.read_text())["cells"]
    return "\n\n".join(
        "".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"
    )


def write_examples(folder: Path) -> Path:
    """Write each Python block of a page, and each notebook, as a module."""
    folder.mkdir()
    for page in PAGES:
        blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
        for number, block in enumerate(blocks):
            (folder / f"{page.stem.lower()}_{number}.py").write_text(block)
    for path in NOTEBOOKS:
        (folder / f"{path.stem}.py").write_text(python_of_notebook(path))
    assert len([*folder.iterdir()]) >= 8
    return folder


def check(folder: Path, *command: str) -> str:
    """What a checker says of a folder of modules."""
    done = subprocess.run(
        [sys.executable, "-m", *command, "."],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.stdout


def check_by_mypy(folder: Path) -> str:
    cache = run_folder() / "mypy"  # of what is imported, which takes most of the time
    disabled = [f"--disable-error-code={code}" for code in FOREIGN]
    return check(
        folder, "mypy", "--strict", "--config-file=", f"--cache-dir={cache}", *disabled
    )


@pytest.mark.long
def test_every_example_passes_mypy_strict(tmp_path: Path) -> None:
    said = check_by_mypy(write_examples(tmp_path / "examples"))
    assert said.startswith("Success"), said


@pytest.mark.slow
def test_every_example_passes_pyright(tmp_path: Path) -> None:
    needs.python_module("basedpyright", "basedpyright")
    folder = write_examples(tmp_path / "examples")
    foreign = {"reportMissingImports": False, "reportMissingTypeStubs": False}
    settings = {"typeCheckingMode": "standard", **foreign}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    said = check(folder, "basedpyright", "--pythonpath", sys.executable)
    assert said.startswith("0 errors"), said


@pytest.mark.long
def test_mypy_sees_what_is_wrong_with_a_use_of_the_door(tmp_path: Path) -> None:
    folder = tmp_path / "wrong"
    folder.mkdir()
    lines = {
        'fleet.measure("a", roundz=5)': "roundz",
        'fleet.measure("a", rounds=[5])': 'incompatible type "list[int]"',
        'fleet.open("a").paris()': 'has no attribute "paris"',
        "fleet.analysis.load_pears": 'no attribute "load_pears"',
        "reveal_type(fleet.open().pairs())": "DataFrame",
        'reveal_type(fleet.measure("a"))': "Results",
        'reveal_type(fleet.analysis.load_pairs("a"))': "DataFrame",
        "reveal_type(fleet.errors.FleetError.exit_code)": "int",
    }
    code = ["import fleet, fleet.analysis", *lines]
    (folder / "wrong.py").write_text("\n".join(code))
    said = check_by_mypy(folder)
    for number, words in enumerate(lines.values(), 2):
        assert re.search(f"wrong.py:{number}: .*{re.escape(words)}", said), said


@pytest.mark.parametrize("package", [fleet, fleet.analysis], ids=["fleet", "analysis"])
def test_the_names_of_a_package_are_listed_and_there(package: object) -> None:
    names = package.__all__
    assert dir(package) == sorted(names)
    for name in names:
        assert getattr(package, name) is not None


def hint_of(option: Option) -> object:
    """The type that a keyword must have, by the grammar of its option."""
    if option.grammar.lists:
        return keywords.Several
    if option.grammar.limits is None:
        return str | None
    is_integer = isinstance(option.grammar.limits[0], int)
    return keywords.Integer if is_integer else keywords.Number


def test_the_keywords_of_measure_are_those_of_the_table_of_options() -> None:
    hints = get_type_hints(keywords.PlanKeywords)
    expected = {option.name: hint_of(option) for option in OFFERED}
    del expected["benchmarks"]  # an argument of its own
    assert hints == expected
