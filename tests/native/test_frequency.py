"""A core's frequency, by clocks of any step: on a machine where time passes only by
additions.
"""

import subprocess
from pathlib import Path

import pytest

from tests import needs
from tests.native.build import AGENT
from tests.shared import run_folder


@pytest.fixture(scope="module")
def binary() -> Path:
    program = run_folder() / "frequency"
    options = ["-std=gnu11", "-O1", "-Wall", "-Werror", f"-I{AGENT}"]
    source = Path(__file__).with_name("frequency.c")
    subprocess.run(
        [needs.program("gcc", "gcc"), *options, "-o", program, source], check=True
    )
    return program


@pytest.mark.parametrize(
    ("rate", "step"), [(1e9, 1), (2.6e9, 26), (1e8, 1), (25e6, 1), (19.2e6, 1)]
)
@pytest.mark.parametrize("mhz", [600, 1500, 2999, 3111, 4321, 5700])
def test_a_frequency_is_known_to_a_third_of_1_percent(
    binary: Path, mhz: int, rate: float, step: int
) -> None:
    done = subprocess.run(
        [binary, str(mhz), str(rate), str(step)], capture_output=True, check=True
    )
    assert int(done.stdout) == pytest.approx(mhz, rel=0.0034)
