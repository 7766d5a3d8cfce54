"""A QNX host as it looks over SSH, on a STAND-IN: Linux dressed as QNX. Proves our
code, not QNX.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from fleet.errors import DeployError
from fleet.facts.gather import gather, parse_with_workdir_error, run_probe
from fleet.model import Facts, Host
from fleet.remote.connect import connect
from fleet.remote.connection import Connection
from tests import needs
from tests.command import entry
from tests.hosts.qnx import image, sdp
from tests.hosts.qnx.host import Inside
from tests.hosts.qnx.image import FULL, MINIMAL, NO_SFTP, RECIPES, Image, Recipe

pytestmark = pytest.mark.slow
NOBODY = 65534
HOST = Host("board", "board")
PROGRAM = b"#!/bin/sh\necho runs\nexit 7\n" + bytes(range(256)) * 2000
DIRECTORY = {
    "full": "/data/home/qnxuser/fleet-qnxuser",
    "no-sftp": "/tmp",
    "minimal": "/tmp",
}


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Recipe], Image]:
    """Return a maker of images, each made once."""
    image_by_recipe: dict[Recipe, Image] = {}

    def make(recipe: Recipe) -> Image:
        if recipe not in image_by_recipe:
            image_by_recipe[recipe] = image.make(
                tmp_path_factory.mktemp("image") / recipe.name, recipe
            )
        return image_by_recipe[recipe]

    return make


@pytest.fixture
def enter(
    images: Callable[[Recipe], Image],
) -> Callable[[Recipe], tuple[Image, Inside]]:
    """Return a maker of images, without what other tests left there, and of a shell
    inside.
    """

    def make(recipe: Recipe) -> tuple[Image, Inside]:
        board = images(recipe)
        for left in board.shmem.iterdir():
            left.unlink()
        return board, Inside(board)

    return make


def deploy_program(connection: Connection, facts: Facts, data: bytes = PROGRAM) -> str:
    """Put a program where the agent would go, see it run, and return its path."""
    path = f"{facts.workdir}/fleet-agent-{hashlib.sha256(data).hexdigest()[:16]}"
    put = connection.put(data, path, mode=0o700)
    assert put.exit_code == 0, put
    ran = connection.run(path)
    assert ran.exit_code == 7, ran
    assert ran.stdout == b"runs\n", ran
    return path


@pytest.mark.parametrize(
    "user", [None, NOBODY], ids=["as we are", "as an ordinary user"]
)
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_every_image_is_recognised_and_takes_a_program_over_ssh(make_qnx, recipe, user):
    if user is not None:
        needs.root()
    server, board = make_qnx(recipe, user)
    host = server.entry()
    with connect(host) as connection:
        looked, unusable = parse_with_workdir_error(
            run_probe(connection, host, read_only=True), host
        )
        assert board.files() == set(), "looking only must write nothing"
        facts = gather(connection, host)
        path = deploy_program(connection, facts)
        again = gather(connection, host)
    assert unusable is None
    assert facts.os == "qnx-standin"
    assert facts.arch == "x86_64"
    assert facts.kernel == "8.0.0"
    assert len(facts.cpus) == 2
    assert facts.workdir == DIRECTORY[recipe.name]
    assert looked.workdir.startswith(facts.workdir)
    assert again.workdir_entries == (path.rpartition("/")[2],)
    assert len(board.files()) == 1


def test_where_the_shell_starts_nothing_from_the_only_writable_place_its_own_words_are_quoted(
    make_qnx,
):
    server, board = make_qnx(replace(NO_SFTP, name="strict", strict_shell=True))
    host = server.entry()
    with connect(host) as connection:
        _, unusable = parse_with_workdir_error(
            run_probe(connection, host, read_only=True), host
        )
        with pytest.raises(DeployError) as refused:
            gather(connection, host)
    for text in (str(refused.value), str(unusable)):
        assert re.search(
            r"/dev/shmem: cannot run programs: .*/fleet-probe-\d+: .*Permission denied",
            text,
        )
    assert board.files() == set()


def test_sftp_is_used_where_it_opens_and_does_without_cat_and_chmod(make_qnx):
    bare = (
        FULL.without("cat")
        .without("chmod")
        .without("cksum")
        .without("mv")
        .without("rm")
    )
    server, board = make_qnx(bare)
    host = server.entry()
    with connect(host) as connection:
        deploy_program(connection, gather(connection, host))
    assert not [name for name in board.files() if "." in name], board.files()


def test_an_image_that_names_an_sftp_server_it_has_not_is_reached_through_cat(make_qnx):
    server, board = make_qnx(FULL)
    (board.root / "usr/libexec/sftp-server").unlink()
    host = server.entry()
    with connect(host) as connection:
        deploy_program(connection, gather(connection, host))


@contextmanager
def missing(place: Path) -> Iterator[None]:
    """Take a program away for as long as the block lasts."""
    hidden = place.parent.parent / "hidden"
    place.rename(hidden)
    try:
        yield
    finally:
        hidden.rename(place)


NEEDED = {
    "cat": "There is no SFTP, and cat and chmod would have to be there.",
    "chmod": "There is no SFTP, and cat and chmod would have to be there.",
}


@pytest.mark.parametrize("recipe", [NO_SFTP, MINIMAL], ids=lambda recipe: recipe.name)
def test_each_tool_that_is_missing_does_not_matter_or_is_named(images, recipe):
    board = images(recipe)
    programs = [
        *(board.root / "system/bin").iterdir(),
        *(board.root / "proc/boot").iterdir(),
    ]
    for number, place in enumerate(sorted(programs)):
        if place.name in ("ksh", "toybox") or (
            recipe is MINIMAL and place.name == "pidin"
        ):
            # without these there is nothing left; a test of its own tells of pidin
            continue
        connection = Inside(board)
        data = PROGRAM + str(number).encode()
        with missing(place):
            facts = gather(connection, HOST)
            if place.name in NEEDED:
                put = connection.put(data, f"{facts.workdir}/fleet-agent-x", mode=0o700)
                assert put.exit_code == 1, (place, put)
                assert NEEDED[place.name] in put.stderr.decode(), (place, put)
            else:
                deploy_program(connection, facts, data)


def test_without_a_rename_the_file_is_copied_and_nothing_stays_beside_it(enter):
    board, connection = enter(NO_SFTP)
    path = deploy_program(connection, gather(connection, HOST))
    assert board.files() == {f"shmem/{path.rpartition('/')[2]}"}


def test_a_program_that_is_there_whole_is_not_written_again(enter):
    board, connection = enter(NO_SFTP)
    path = deploy_program(connection, gather(connection, HOST))
    (program,) = board.shmem.iterdir()
    before = program.stat()
    assert deploy_program(connection, gather(connection, HOST)) == path
    assert program.stat().st_ino == before.st_ino
    assert program.stat().st_mtime_ns == before.st_mtime_ns


@pytest.mark.parametrize("obstacle", ["half", "link", "other", "theirs"])
def test_something_else_under_the_name_is_replaced_and_never_written_into(
    enter, obstacle
):
    board, connection = enter(NO_SFTP)
    path = deploy_program(connection, gather(connection, HOST))
    place = board.shmem / path.rpartition("/")[2]
    elsewhere = board.shmem / "elsewhere"
    place.unlink()
    match obstacle:
        case "half":
            place.write_bytes(PROGRAM[:1000])
        case "link":
            elsewhere.write_bytes(PROGRAM)
            place.symlink_to("elsewhere")
        case "other":
            place.write_bytes(bytes(len(PROGRAM)))
        case "theirs":
            needs.root()
            place.write_bytes(PROGRAM)
            os.chown(place, 12345, 12345)
            assert gather(connection, HOST).workdir_entries == ()
    deploy_program(connection, gather(connection, HOST))
    assert place.read_bytes() == PROGRAM
    assert not place.is_symlink()
    assert place.stat().st_uid == os.geteuid()


def test_what_a_cut_link_left_is_listed_and_can_be_removed(enter):
    board, connection = enter(MINIMAL)
    (board.shmem / "fleet-agent-1.0123456789abcdef").write_bytes(b"half")
    facts = gather(connection, HOST)
    assert facts.workdir_entries == ("fleet-agent-1.0123456789abcdef",)
    gone = connection.run(f"rm -f {facts.workdir}/{facts.workdir_entries[0]}")
    assert gone.exit_code == 0
    assert gather(connection, HOST).workdir_entries == ()


@pytest.mark.parametrize("recipe", [FULL, MINIMAL], ids=lambda recipe: recipe.name)
def test_a_check_shows_what_the_host_said_and_changes_nothing(make_qnx, recipe, fleet):
    server, board = make_qnx(recipe)
    fleet.hosts(server.entry(name="board"))
    done = fleet("check")
    assert board.files() == set()
    assert f"SFTP          {'yes' if recipe.sftp else 'no'}" in done.stdout, (
        done.stdout + done.stderr
    )
    for words in (
        "pidin info    CPU:X86_64 Release:8.0.0",
        "HOME, user",
        "refused /var/tmp: is not there",
    ):
        assert words in done.stdout
    assert "the host is a stand-in made of linux, not qnx" in done.stdout.lower()


@pytest.mark.parametrize("recipe", [FULL, MINIMAL], ids=lambda recipe: recipe.name)
def test_what_lies_there_is_cleaned_away(make_qnx, recipe, fleet):
    server, board = make_qnx(recipe)
    host = server.entry(name="board")
    with connect(host) as connection:
        facts = gather(connection, host)
        path = deploy_program(connection, facts)
        connection.put(b"half", f"{path}.0123456789abcdef")
    (board.shmem / "theirs").touch()
    fleet.hosts(host)
    done = fleet("clean")
    assert done.exit_code == 0, done.stdout + done.stderr
    assert board.files() == {"shmem/theirs"}


def test_a_check_without_pidin_leaves_the_cpus_to_the_agent(make_qnx, fleet, tmp_path):
    server, _ = make_qnx(FULL.without("pidin"))
    host = server.entry(name="board")
    platform = json.dumps({"toolchain": {"sdp": str(sdp.install(tmp_path / "sdp"))}})
    fleet.inventory(f"defaults: {platform}\nhosts:\n{entry(host)}")
    done = fleet("check")
    assert done.exit_code == 0, done.stdout + done.stderr
    assert "pidin info    none" in done.stdout
    assert "only the agent can tell on how many CPUs" in done.stdout


@contextmanager
def replace_program(place: Path, script: str) -> Iterator[None]:
    """Put a script in the place of a program for as long as the block lasts."""
    with missing(place):
        place.write_text(f"#!/bin/sh\n{script}\n")
        place.chmod(0o755)
        try:
            yield
        finally:
            place.unlink()


def test_a_checksum_we_do_not_understand_is_settled_by_reading_back(enter):
    board, connection = enter(NO_SFTP)
    facts = gather(connection, HOST)
    with replace_program(
        board.root / "system/bin/cksum", 'echo "12345 $(wc -c <"$1") $1"'
    ):
        deploy_program(connection, facts)


@pytest.mark.parametrize(
    ("without", "words"),
    [(None, "1000 of "), ("cksum", "did not arrive whole")],
    ids=["counted", "read back"],
)
def test_a_file_that_arrives_short_is_an_error_and_does_not_stay(enter, without, words):
    board, connection = enter(NO_SFTP if without is None else NO_SFTP.without(without))
    facts = gather(connection, HOST)
    with replace_program(board.root / "system/bin/cat", 'exec head -c 1000 "$@"'):
        put = connection.put(PROGRAM, f"{facts.workdir}/fleet-agent-x", mode=0o700)
    assert put.exit_code == 1, put
    assert words in put.stderr.decode(), put
    assert list(board.shmem.iterdir()) == []
