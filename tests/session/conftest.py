"""What the tests of sessions share."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import needs
from tests.command import Fleet


@pytest.fixture
def fleet(tmp_path: Path, known_hosts: Path) -> Iterator[Fleet]:
    """Fleet with an inventory of this machine, and an ssh_config that names an empty known_hosts file."""
    needs.program("cc", "gcc")
    with Fleet(tmp_path, {"FLEET_SSH_CONFIG": os.environ["FLEET_SSH_CONFIG"]}) as fleet:
        fleet.inventory("hosts:\n  here: {via: local}\n")
        yield fleet
