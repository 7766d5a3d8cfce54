"""Facts of made-up machines, read by the real probe."""

import pytest

from fleet.facts import linux, probe
from fleet.model import Facts
from tests.facts import trees
from tests.facts.shells import ask


@pytest.fixture
def facts(tmp_path):
    """Facts of a made-up machine; `uname -m` as given, since the shell runs here."""

    def read(tree: trees.Tree, machine: str = "x86_64") -> Facts:
        sections = probe.split_sections(
            ask(["/bin/sh"], tmp_path / "home", root=str(tree.write(tmp_path / "root")))
        )
        system = [line for line in sections["system"] if not line.startswith("uname_m")]
        sections["system"] = [*system, f"uname_m {machine}"]
        return linux.parse(sections)

    return read
