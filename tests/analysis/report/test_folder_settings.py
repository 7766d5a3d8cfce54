"""A page does not depend on the folder in which it is made."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fleet.store import Store
from tests import builders
from tests.command import ROOT, Fleet

DRAW = """
from fleet.analysis.report.figures import Margins, draw
margins = Margins(9, 9, 9, 9)
print(draw("x", "x", (99, 99), lambda axes: axes.set_title("title"), margins))
"""


def draw_in(folder: Path) -> str:
    """The figure that a new interpreter draws in a folder, whose latex comes first."""
    done = subprocess.run(
        [sys.executable, "-c", DRAW],
        cwd=folder,
        env={
            "PYTHONPATH": str(ROOT),
            "HOME": str(folder),
            "PATH": f"{folder}:/usr/bin:/bin",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.long
def test_settings_of_a_folder_change_no_figure(tmp_path: Path) -> None:
    without = draw_in(tmp_path)
    latex = tmp_path / "latex"
    latex.write_text(f"#!/bin/sh\n: > {tmp_path}/PWN\nexit 1\n")
    latex.chmod(0o700)
    (tmp_path / "matplotlibrc").write_text("text.usetex: True\naxes.facecolor: red\n")
    assert draw_in(tmp_path) == without
    assert not (tmp_path / "PWN").exists()


@pytest.mark.parametrize("kind", ["FIFO", "device"])
def test_settings_of_a_folder_that_never_end_are_refused(
    kind: str, tmp_path: Path
) -> None:
    settings = tmp_path / "matplotlibrc"
    if kind == "FIFO":
        os.mkfifo(settings)
    else:
        settings.symlink_to("/dev/zero")
    run = builders.a_run()
    with Fleet(tmp_path) as fleet:
        Store(fleet.results).publish(run, builders.make_bursts(run))
        command = fleet.start("report")
        _, stderr = command.communicate(timeout=60)
    assert (command.returncode, stderr) == (
        2,
        f"fleet: {settings}: it is a {kind}, not a file of settings; move it away.\n",
    )
