"""What hatchling cannot be told in pyproject.toml: the readme of the package page, and
the manual page.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface


class ManualPage(BuildHookInterface[Any]):
    """Called by hatchling for every wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002  hatchling's signature
        """Add build/fleet.1, where `make wheel` has printed it, to what a wheel puts
        under share/man.
        """
        page = Path(self.root) / "build/fleet.1"
        if page.is_file():
            build_data["shared_data"][str(page)] = "share/man/man1/fleet.1"


class Readme(MetadataHookInterface):
    """Called by hatchling for the metadata of every build."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the readme: README.md with its links into the repository absolute, as an
        index needs them.
        """
        source, tag = metadata["urls"]["Source"], f"v{metadata['version']}"
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = re.sub(r"(!\[[^]]*\]\()(?!\w+:|#)", rf"\1{source}/raw/{tag}/", text)
        text = re.sub(
            r"((?<!!)\[[^]]*\]\()(?!\w+:|#)", rf"\1{source}/blob/{tag}/", text
        )
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
