"""Puts the manual page into a wheel, where `make wheel` has printed it."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManualPage(BuildHookInterface[Any]):
    """Called by hatchling for every wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002  hatchling's signature
        """Add build/fleet.1 to what an installation puts under its share/man."""
        page = Path(self.root) / "build/fleet.1"
        if page.is_file():
            build_data["shared_data"][str(page)] = "share/man/man1/fleet.1"
