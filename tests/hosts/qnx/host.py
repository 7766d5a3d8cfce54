"""A STAND-IN for a QNX host: a real sshd on loopback that runs every command inside an
image. Not QNX.
"""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from fleet.remote.minimal_put import MinimalPut
from fleet.remote.output import Answer, Completed
from fleet.remote.shell import LOADER, new_mark, render_command
from tests.hosts.odd import Options
from tests.hosts.qnx import image
from tests.hosts.qnx.image import Image, Recipe
from tests.hosts.sshd import MakeHosts, SshHost


def options(board: Image) -> Options:
    """Return the options of an sshd that serves `board`. Its SFTP, too, is a program of
    the image.
    """
    sftp = ("Subsystem sftp /usr/libexec/sftp-server",) if board.recipe.sftp else ()
    return (*sftp, f'ForceCommand exec {board.enter} "$SSH_ORIGINAL_COMMAND"')


MakeQnx = Callable[..., tuple[SshHost, Image]]


def maker(folder: Path, make_hosts: MakeHosts) -> MakeQnx:
    """Return `make(recipe, user=None)`, which starts a stand-in host and hands out its
    sshd and its image.
    """
    count = 0

    def make(recipe: Recipe, user: int | None = None) -> tuple[SshHost, Image]:
        nonlocal count
        count += 1
        board = image.make(folder / f"{count}-{recipe.name}", recipe, user)
        (server,) = make_hosts(1, options=options(board))
        return server, board

    return make


@dataclass
class Inside:
    """A connection to an image without SSH on the way, for tests of many images; no
    SFTP, no streams.
    """

    image: Image
    env: dict[str, str] = field(default_factory=dict)
    host_name: str = "board"
    notes: tuple[str, ...] = ()
    banner: str = ""

    def run(
        self, command: str, *, stdin: bytes = b"", timeout_s: float = 30.0
    ) -> Completed:
        """As over SSH: the loader, then the command on its stdin."""
        mark = new_mark()
        text = LOADER + mark
        head = render_command(command, self.env, mark, last=True)
        done = subprocess.run(
            [self.image.enter, text],
            input=head + stdin,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
        out = Answer("board", mark)
        err = Answer("board", mark)
        out.feed(done.stdout)
        err.feed(done.stderr)
        stdout = out.split_at_end_mark() or (done.stdout, b"")
        stderr = err.split_at_end_mark() or (done.stderr, b"")
        return Completed(done.returncode, stdout[0], stderr[0])

    def put(
        self, data: bytes, path: str, *, mode: int = 0o600, timeout_s: float = 60.0
    ) -> Completed:
        """As over SSH to a host of few means."""
        return MinimalPut(
            partial(self.run, timeout_s=timeout_s), None, data, path, mode
        ).put()

    def use_minimal_tools(self, path: str) -> None:
        """See Connection.use_minimal_tools."""
        self.env["PATH"] = path
