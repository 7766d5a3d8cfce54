"""The line for `git bisect run` in docs/comparing.md, on runs of simulated commits."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import builders, needs, simulated
from tests.command import ROOT

COMMITS = 6
FIRST_SLOW = 4  # its place


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    done = subprocess.run(
        [needs.program("git", "git"), *identity, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def publish_runs(root: Path, commit: str, number: int, factor: float) -> None:
    """Publish three runs of a host with the label of a commit."""
    ns = {name: ns * factor for name, ns in builders.NS.items()}
    for repeat in range(3):
        place = 3 * number + repeat
        session = f"s202601{1 + place:02}T000000Z-00000000"
        desktop = simulated.desktop("node7", ns=ns, run_sd=0.002)
        labels = {"commit": commit}
        simulated.publish(
            root, desktop, place, rounds=4, session=session, labels=labels
        )


@pytest.mark.long
def test_the_line_of_the_page_finds_the_commit(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    git(repository, "init", "-q", "-b", "main")
    root = tmp_path / "results"
    publish_runs(root, "good", 0, 1.0)
    commits = []
    for number in range(COMMITS):
        git(repository, "commit", "-q", "--allow-empty", "-m", f"change {number}")
        commits.append(git(repository, "rev-parse", "--short", "HEAD"))
        factor = 1.2 if number >= FIRST_SLOW else 1.0
        publish_runs(root, commits[-1], 1 + number, factor)
    tools = tmp_path / "bin"
    tools.mkdir()
    fleet = Path(sys.executable).with_name("fleet")
    stub = tools / "fleet"  # what a commit measures is published already
    stub.write_text(f'#!/bin/sh\n[ "$1" = run ] || exec {fleet} "$@"\n')
    boot = repository / "boot"
    cannot_boot = commits[2]  # to be skipped
    boot.write_text(f"#!/bin/sh\n[ $(git rev-parse --short HEAD) != {cannot_boot} ]\n")
    for script in (stub, boot):
        script.chmod(0o755)
    git(repository, "bisect", "start", commits[-1], commits[0])
    page = (ROOT / "docs" / "comparing.md").read_text()
    (line,) = re.findall(r"^git bisect run .*?\x27$", page, re.DOTALL | re.MULTILINE)
    environment = {
        **os.environ,
        "PATH": f"{tools}:{os.environ['PATH']}",
        "FLEET_RESULTS": str(root),
    }
    done = subprocess.run(
        ["sh", "-c", line],
        cwd=repository,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{commits[FIRST_SLOW]}" in git(
        repository, "rev-parse", "--short", "refs/bisect/bad"
    )
