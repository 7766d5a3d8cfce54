"""Finds the agents that a wheel carries, so that neither a host nor the controller needs a compiler.

`release` builds them. A checkout has none: it builds what its sources have become.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from fleet import __version__
from fleet.agent.build import toolchain as tc
from fleet.agent.build.source import INSTALLED

FOLDER = INSTALLED / "build"


def find(
    toolchains: Iterable[tc.Toolchain], sources: Mapping[str, bytes]
) -> tuple[Path, tc.Toolchain] | None:
    """The file that one of these toolchains made of exactly these sources; None if there is none.

    Build ids name the files, so with a compiler or flags of the inventory's own, none is found.
    """
    for toolchain in toolchains:
        path = FOLDER / tc.file_name(tc.build_id(sources, toolchain))
        if path.is_file():
            return path, replace(toolchain, name=f"zig, shipped with fleet {__version__}")
    return None
