"""Puts a release into a folder: `python release.py dist`, called by `make release` once
the wheel is there.

Without a folder it only says what forbids a release. Beside the wheel and the sdist: a
static agent for each target, named by it, and SHA256SUMS of all files.
"""

import hashlib
import subprocess
import sys
import tomllib
from pathlib import Path

from fleet.agent.build.elf import read_elf
from fleet.agent.build.systems import SYSTEMS
from fleet.agent.build.toolchain import FILE_PREFIX
from fleet.model.version import VERSION

BUILT = Path(__file__).with_name("agent") / "build"


def require_address(pyproject: Path) -> None:
    """Raise SystemExit while pyproject.toml has no public address of the project."""
    urls = tomllib.loads(pyproject.read_text())["project"]["urls"]
    if "//example." in urls["Source"]:
        raise SystemExit(
            f"{urls['Source']} stands for an address: set project.urls in"
            " pyproject.toml."
        )


def require_tag() -> None:
    """Raise SystemExit unless the commit has the tag of this version, and nothing is
    changed beside it.
    """
    command = ["git", "describe", "--tags", "--exact-match", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.stdout.strip() != f"v{VERSION}":
        answer = done.stdout or done.stderr
        raise SystemExit(f"This commit is not v{VERSION} as tagged: {answer}".strip())


def copy_agents(folder: Path) -> None:
    """Copy the finished agents to the folder, named by their targets. Raises SystemExit
    if one is missing.
    """
    for built in sorted(BUILT.glob(f"{FILE_PREFIX}*")):
        binary = built.read_bytes()
        file = folder / f"fleet-agent-{VERSION}-linux-{read_elf(binary).machine}"
        file.write_bytes(binary)
        file.chmod(0o755)
    copied = len([*folder.glob(f"fleet-agent-{VERSION}-linux-*")])
    if copied != len(SYSTEMS["linux"].cross):
        raise SystemExit(
            f"{copied} of {len(SYSTEMS['linux'].cross)} agents are in {BUILT}: make"
            " agents"
        )


def write_checksums(folder: Path) -> None:
    """Write SHA256SUMS, as `sha256sum --check` reads it."""
    files = sorted(path for path in folder.iterdir() if path.name != "SHA256SUMS")
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in files
    ]
    (folder / "SHA256SUMS").write_text("".join(lines))


if __name__ == "__main__":
    require_address(Path(__file__).with_name("pyproject.toml"))
    require_tag()
    for name in sys.argv[1:]:
        copy_agents(Path(name))
        write_checksums(Path(name))
