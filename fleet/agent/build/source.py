"""Finds the agent's sources: beside the package in a checkout, inside it in an
installed wheel.
"""

from pathlib import Path

from fleet.late import once

_PACKAGE = Path(__file__).resolve().parents[1]
_CHECKOUT = _PACKAGE.parents[1] / "agent"
INSTALLED = _PACKAGE / "source"
# agents that a wheel carries, made by build_agents.py; a checkout has none
SHIPPED = INSTALLED / "build"


@once
def read_sources() -> dict[str, bytes]:
    """Return the agent's C files and headers by path in its folder. A checkout wins
    over installed ones.
    """
    root = _CHECKOUT if (_CHECKOUT / "native" / "native.h").is_file() else INSTALLED
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*.[ch]"))
    }
