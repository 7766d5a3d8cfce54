"""Virtual environments with a wheel of ours, for which nothing is downloaded: the
libraries of others come from the environment of the tests.
"""

import subprocess
import sys
import venv
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

from tests import needs

OURS = "corefleet"


def install_wheel(wheel: Path, folder: Path) -> Path:
    """Install a wheel, and nothing that it needs, into a new environment in `folder`;
    return its bin folder.

    The pip of the tests does so, since one of its own would take longer than all else.
    """
    venv.create(folder)
    python = folder / "bin/python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q"]
    done = subprocess.run(
        [*pip, "--no-deps", "--no-index", "--no-compile", wheel],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{wheel}: {done.stdout}{done.stderr}"
    return folder / "bin"


def find_site(folder: Path) -> Path:
    """Return the folder of the packages of an environment."""
    (site,) = folder.glob("lib/python*/site-packages")
    return site


def link_needed(folder: Path, extras: Iterable[str]) -> None:
    """Link into an environment that has our wheel what the wheel with these extras
    needs and what that needs in turn, and nothing else.
    """
    site = find_site(folder)
    (ours,) = Distribution.discover(name=OURS, path=[str(site)])
    waiting = list_requirements(ours, extras)
    known = set[str]()
    while waiting:
        requirement = waiting.pop()
        if str(requirement) in known:
            continue
        known.add(str(requirement))
        found = ours
        if requirement.name != OURS:
            found = find_release(requirement)
            link_release(found, site)
        waiting += list_requirements(found, requirement.extras)


def list_requirements(owner: Distribution, extras: Iterable[str]) -> list[Requirement]:
    """List what a release with these extras needs on this machine."""
    contexts = [{"extra": extra} for extra in ("", *extras)]
    return [
        requirement
        for requirement in map(Requirement, owner.requires or ())
        if requirement.marker is None
        or any(requirement.marker.evaluate(context) for context in contexts)
    ]


def find_release(requirement: Requirement) -> Distribution:
    """Return the release that the environment of the tests has, which must suffice."""
    try:
        found = distribution(requirement.name)
    except PackageNotFoundError:
        needs.missing(f"no {requirement}: pip install -r constraints-slow.txt")
    assert requirement.specifier.contains(found.version, prereleases=True), requirement
    return found


def link_release(release: Distribution, site: Path) -> None:
    """Link the packages and modules of a release into `site`."""
    tops = {file.parts[0] for file in release.files or ()} - {"..", "__pycache__"}
    for top in tops:
        link = site / top
        if not link.exists():
            link.symlink_to(Path(str(release.locate_file(top))))
