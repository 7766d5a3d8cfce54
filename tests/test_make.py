"""`make` tells a stranger what is missing before it begins, instead of failing
half-way.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fleet.errors import explain
from tests import needs

ROOT = Path(__file__).resolve().parents[1]


def setup_with(python: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run `make setup` in `folder`, where `python` is the text of a script that plays
    Python.
    """
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    (folder / "python").write_text(f"#!/bin/sh\n{python}\n")
    (folder / "python").chmod(0o755)
    command = [needs.program("make", "make"), "setup", f"PYTHON={folder / 'python'}"]
    return subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("python", "says"),
    [
        ("case $2 in *version_info*) exit 1;; esac", "Python 3.11 or newer"),
        ("case $2 in *ensurepip*) exit 1;; esac", "apt-get install python3-venv"),
        ("echo no such interpreter >&2; exit 127", "Python 3.11 or newer"),
    ],
    ids=["too old", "no venv", "no python"],
)
def test_setup_names_what_this_python_lacks_and_makes_nothing(
    tmp_path: Path, python: str, says: str
) -> None:
    done = setup_with(python, tmp_path)
    assert done.returncode != 0
    assert says in done.stdout
    assert not (tmp_path / ".venv").exists()


def test_an_interrupted_setup_is_taken_up_again(tmp_path: Path) -> None:
    """The mark of a complete environment comes last, so a failed install leaves
    none.
    """
    done = setup_with(
        '[ "$1" != -m ] || { mkdir -p .venv/bin; cp /bin/false .venv/bin/python; }',
        tmp_path,
    )
    assert done.returncode != 0
    assert not (tmp_path / ".venv/complete").exists()


def test_a_library_that_measuring_does_without_is_named_with_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".venv").mkdir()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    missing = ModuleNotFoundError("No module named 'scipy'", name="scipy")
    assert f"`make setup` in {tmp_path}" not in str(explain(missing))
    (tmp_path / ".venv/measures").touch()
    assert f"`make setup` in {tmp_path} installs it." in str(explain(missing))
    (tmp_path / ".venv/complete").touch()
    assert "pip install 'corefleet[compare]'" in str(explain(missing))


def test_windows_is_told_where_the_controller_runs() -> None:
    code = "import sys, fleet.__main__; sys.platform = 'win32'; fleet.__main__.main()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert (
        done.stderr
        == "fleet: the controller runs on Linux and macOS. On Windows run it in WSL.\n"
    )


def test_the_lock_holds_hashes_and_no_address() -> None:
    """`--require-hashes` needs a hash for each; an address would tie everybody to one
    index.
    """
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = [line for line in lines if "==" in line and not line.startswith(" ")]
    assert pinned
    assert all(line.endswith("\\") for line in pinned)
    assert not any("://" in line for line in lines)
