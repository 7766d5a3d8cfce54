"""Times are the controller's, in UTC: neither a host's clock nor a time zone moves
them.
"""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fleet.errors import EXIT_WORSE
from tests.command import Fleet


def test_a_host_whose_clock_is_wrong_does_not_date_its_run(tmp_path: Path) -> None:
    """Its `date` says 1999, as on a board without a battery."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "date").write_text("#!/bin/sh\necho 1999-12-31T23:59:59Z\n")
    (programs / "date").chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    with Fleet(tmp_path) as fleet:
        fleet.inventory(f"hosts: {{board: {{via: local, env: {{PATH: '{path}'}}}}}}\n")
        begun = datetime.now(UTC).replace(microsecond=0)
        plan = ("-b", "clock", "--rounds", "2", "--samples", "9", "--lock", "off")
        assert fleet("run", *plan).exit_code == 0
        (run,) = fleet("runs", "--json").json
    assert begun <= datetime.fromisoformat(run["started_utc"]) <= datetime.now(UTC)


@pytest.mark.long
@pytest.mark.parametrize(
    "command",
    [
        *("runs rome", "show rome", "hosts", "accept lucca", "compare lucca"),
        *("runs r20261104*", "runs --json", "export -F openmetrics"),
        *("export all -F numbers", "runs rome --relation llc"),
    ],
)
def test_no_time_zone_changes_what_is_printed(command: str, made_lab: Path) -> None:
    """Fourteen hours ahead, and three and a half behind."""
    printed = {
        run_in_zone(command, zone, made_lab) for zone in ("<+14>-14", "<-03>3:30")
    }
    assert printed == {run_in_zone(command, "UTC0", made_lab)}


def run_in_zone(command: str, zone: str, folder: Path) -> tuple[int, str]:
    """Run `fleet` in a process of its own, which reads $TZ when it starts."""
    done = subprocess.run(
        [sys.executable, "-m", "fleet", *command.split()],
        cwd=folder,
        env={**os.environ, "TZ": zone, "COLUMNS": "100"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, EXIT_WORSE), done.stderr
    return done.returncode, done.stdout
