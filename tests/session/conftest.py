"""What the tests of sessions share."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import needs
from tests.command import Fleet
from tests.hosts.client import know
from tests.hosts.qnx.host import MakeQnx, maker
from tests.hosts.qnx.image import Image, Recipe
from tests.hosts.sshd import MakeHosts, SshHost


@pytest.fixture
def fleet(tmp_path: Path, known_hosts: Path) -> Iterator[Fleet]:
    """Fleet with an inventory of this machine, and an ssh_config that names an empty
    known_hosts file.
    """
    needs.program("cc", "gcc")
    with Fleet(tmp_path, {"FLEET_SSH_CONFIG": os.environ["FLEET_SSH_CONFIG"]}) as fleet:
        fleet.inventory("hosts:\n  here: {via: local}\n")
        yield fleet


@pytest.fixture
def make_qnx(tmp_path: Path, make_hosts: MakeHosts, known_hosts: Path) -> MakeQnx:
    """`make_qnx(recipe, user=None)`: a stand-in host and its image; no other is known
    from then on.
    """
    make = maker(tmp_path / "qnx", make_hosts)

    def make_known_qnx(
        recipe: Recipe, user: int | None = None
    ) -> tuple[SshHost, Image]:
        server, image = make(recipe, user)
        know(known_hosts, server)
        return server, image

    return make_known_qnx
