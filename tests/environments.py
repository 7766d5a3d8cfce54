"""Virtual environments with a wheel of ours."""

import os
import re
import subprocess
import sys
import venv
from functools import cache
from pathlib import Path

from tests import needs
from tests.shared import run_folder

LOCK = Path(__file__).resolve().parents[1] / "constraints-slow.txt"


def install_wheel(wheel: Path, folder: Path) -> Path:
    """Install a wheel, and nothing that it needs, into a new environment in `folder`;
    return its bin folder.
    """
    return install(wheel, folder, "--no-deps")


def install_recipe(wheel: Path, extra: str, folder: Path) -> Path:
    """Install a wheel with an extra, "" for none, and what it needs in the locked
    releases into a new environment in `folder`; return its bin folder.
    """
    wanted = f"{wheel}[{extra}]" if extra else wheel
    return install(wanted, folder, "--constraints", LOCK)


def install(wanted: str | Path, folder: Path, *options: str | Path) -> Path:
    """Install with uv, since pip takes ten times as long."""
    uv = needs.python_module("uv", "uv").find_uv_bin()
    venv.create(folder)
    command = [uv, "pip", "install", "-q", "--python", folder / "bin/python"]
    done = subprocess.run(
        [*command, *options, wanted],
        env=os.environ | find_index() | {"UV_CACHE_DIR": str(run_folder() / "uv")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{wanted}: {done.stdout}{done.stderr}"
    return folder / "bin"


@cache
def find_index() -> dict[str, str]:
    """Return where pip's settings say that packages are, as uv's variable."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.findall(r"\.index-url='(.*)'", done.stdout)
    return {"UV_DEFAULT_INDEX": found[-1]} if found else {}


def find_site(folder: Path) -> Path:
    """Return the folder of the packages of an environment."""
    (site,) = folder.glob("lib/python*/site-packages")
    return site
