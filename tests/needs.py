"""What a test needs from the machine it runs on: a tool, root, a module.

On a developer's machine a missing one skips the test and names the Debian package to
install. In CI (FLEET_CI=1) it fails it, so that a layer cannot go green by being left
out.
"""

import importlib
import os
import shutil
from types import ModuleType
from typing import NoReturn

import pytest

_SYSTEM_PATH = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def program(name: str, package: str) -> str:
    """Return the path of a program of Debian's `package`; looks also where daemons
    live.
    """
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *_SYSTEM_PATH))
    return shutil.which(name, path=path) or missing(
        f"no program {name!r}: apt-get install {package}"
    )


def file(path: str, package: str) -> str:
    """Return `path` itself, a file that Debian's `package` brings."""
    return (
        path
        if os.path.exists(path)  # noqa: PTH110
        else missing(f"no file {path}: apt-get install {package}")
    )


def python_module(name: str, package: str) -> ModuleType:
    """Import and return the module `name`, which the distribution `package` brings."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        missing(f"no Python module {name!r}: pip install {package}")


def root() -> None:
    """Go on only as root."""
    if os.geteuid() != 0:
        missing("needs root: mounts, users or namespaces")


def cpus(count: int) -> None:
    """Go on only where this process may use at least `count` CPUs."""
    usable = len(os.sched_getaffinity(0))
    if usable < count:
        missing(f"needs {count} CPUs, may use {usable}")


def missing(reason: str) -> NoReturn:
    """Skip the test, or fail it in CI, because of `what`."""
    if os.environ.get("FLEET_CI") == "1":
        pytest.fail(f"{reason} (FLEET_CI=1: nothing may be left out)", pytrace=False)
    pytest.skip(reason)
