"""`fleet clean`: our files go, what else is there stays, links are not followed, agents
at work are safe.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from fleet.errors import LockedError
from fleet.facts.gather import gather
from fleet.model import Host, Via
from fleet.session import clean
from fleet.store import Intent, Store
from tests import needs
from tests.command import Fleet
from tests.facts.shells import SHELLS
from tests.hosts import odd
from tests.hosts.qnx import image
from tests.hosts.qnx.host import Inside
from tests.hosts.sshd import MakeKnown

BUILD = "0123456789abcdef"
AGENT = f"fleet-agent-{BUILD}"
DONE = "fleet-done-r20260102T030405Z-0badcafe"
OURS = (
    AGENT,
    f"{AGENT}.fedcba9876543210",
    f"{AGENT}-fedcba9876543210",
    f"{AGENT}-fedcba9876543210.fedcba9876543210",
    f"build-{BUILD}-999999999/native/x.c",
    ".probe-77",
    "fleet-probe",
    DONE,
)
THEIRS = (
    *("notes.txt", f"build-{BUILD}-notes/x", ".probe-x"),
    *("fleet-agent-mine", "fleet-agent-0123", f"{AGENT}-mine"),
)


def fill(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")


def below(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> list[str]:
    """A shell of a host, to be run with rm and rmdir as its only programs."""
    package, (program, *arguments) = SHELLS[request.param]
    return [needs.program(program, package), *arguments]


def run(
    shell: list[str], home: Path, *, workdir: Path | None = None, dry_run: bool = False
) -> list[str]:
    """The marked lines it answers."""
    tools = home.parent / "tools"
    if not tools.exists():
        tools.mkdir()
        for tool in ("rm", "rmdir"):
            (tools / tool).symlink_to(needs.program(tool, "coreutils"))
    host = Host("h", "x", workdir=str(workdir) if workdir else None)
    done = subprocess.run(
        shell,
        input=clean.render_script(
            host, dry_run=dry_run, root=str(home.parent / "root")
        ),
        capture_output=True,
        env={"PATH": str(tools), "HOME": str(home)},
        check=False,
    )
    return list(clean._extract_report_lines(host, done.stdout))


def test_every_shell_removes_ours_and_only_ours(
    shell: list[str], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    place = home / ".cache" / "fleet"
    fill(place, *OURS, *THEIRS)
    before = below(place)
    report = run(shell, home, dry_run=True)
    assert below(place) == before
    assert len([line for line in report if line.startswith("found ")]) == len(OURS) + 1
    lines = run(shell, home)
    assert below(place) == set(THEIRS)
    assert sorted(line for line in lines if line.startswith("removed ")) == sorted(
        f"removed {place}/{name.split('/')[0]}" for name in OURS
    )
    assert f"left not empty: {place}/" in lines


def test_the_directory_goes_when_it_is_empty_and_called_ours(
    shell: list[str], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    ours = tmp_path / "home/.cache/fleet"
    named = tmp_path / "bench"
    fill(ours, AGENT)
    fill(named, AGENT)
    assert run(shell, home)[-1] == f"removed {ours}/"
    assert run(shell, home, workdir=named) == [f"removed {named}/{AGENT}"]
    assert not ours.exists()
    assert list(named.iterdir()) == []
    assert run(shell, home) == []


def test_links_are_neither_followed_nor_removed(
    shell: list[str], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    elsewhere = tmp_path / "elsewhere"
    fill(elsewhere, AGENT, "precious")
    place = home / ".cache" / "fleet"
    place.mkdir(parents=True)
    (place / AGENT).symlink_to(elsewhere / "precious")
    (place / f"build-{BUILD}-999999999").symlink_to(elsewhere)
    lines = run(shell, home)
    assert sum(line.startswith("left a link, not ours: ") for line in lines) == 2
    assert len(below(place)) == 2
    shutil.rmtree(place)
    place.symlink_to(elsewhere)
    assert run(shell, home) == [f"left a link, not followed: {place}"]
    assert below(elsewhere) == {AGENT, "precious"}


def test_a_link_inside_a_build_is_removed_not_what_it_leads_to(
    shell: list[str], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    elsewhere = tmp_path / "elsewhere"
    fill(elsewhere, "precious")
    build = home / ".cache" / "fleet" / f"build-{BUILD}-999999999"
    build.mkdir(parents=True)
    (build / "native").symlink_to(elsewhere)
    run(shell, home)
    assert not build.exists()
    assert below(elsewhere) == {"precious"}


def test_an_agent_or_a_build_at_work_keeps_everything(
    shell: list[str], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    place = home / ".cache" / "fleet"
    fill(place, *OURS)
    shutil.copy(needs.program("cat", "coreutils"), place / AGENT)
    before = below(place)
    with subprocess.Popen([place / AGENT], stdin=subprocess.PIPE) as agent:
        assert run(shell, home) == [f"running {agent.pid} {place}/{AGENT}"]
        assert below(place) == before
    fill(place, f"build-{BUILD}-{os.getpid()}/x.c")
    assert run(shell, home) == [
        f"running {os.getpid()} {place}/build-{BUILD}-{os.getpid()}"
    ]


def test_what_another_user_owns_is_left(shell: list[str], tmp_path: Path) -> None:
    needs.root()
    home = tmp_path / "home"
    place = home / ".cache" / "fleet"
    fill(place, AGENT)
    os.chown(place / AGENT, 12345, 12345)
    assert f"left another user's: {place}/{AGENT}" in run(shell, home)
    os.chown(place, 12345, 12345)
    assert run(shell, home) == []
    assert below(place) == {AGENT}


def test_half_a_script_removes_nothing(tmp_path: Path) -> None:
    fill(tmp_path / "fleet", AGENT)
    text = clean.render_script(Host("h", "x", workdir=str(tmp_path / "fleet")))
    for length in range(0, len(text) - 30, 97):
        subprocess.run(
            ["/bin/sh"], input=text[:length], capture_output=True, check=False
        )
    assert below(tmp_path / "fleet") == {AGENT}


def test_a_person_sees_what_would_go_what_went_and_what_is_in_use(fleet: Fleet) -> None:
    place = fleet.folder / "fleet"
    fill(place, AGENT)
    fleet.hosts(Host("here", "localhost", via=Via.LOCAL, workdir=str(place)))
    dry = fleet("clean", "-n")
    assert f"here:\n  would remove {place}/{AGENT}\n" in dry.stdout
    assert (place / AGENT).exists()
    shutil.copy(needs.program("cat", "coreutils"), place / AGENT)
    with subprocess.Popen([place / AGENT], stdin=subprocess.PIPE) as agent:
        done = fleet("clean", "--json", "-q")
        assert done.exit_code == LockedError.exit_code
        assert done.json[0]["stage"] == "lock"
        assert f"process {agent.pid} uses {place}/{AGENT}" in done.json[0]["message"]
    with Store(fleet.results).hold_session(
        Intent(session := "s20260102T030405Z-0badcafe", ("here",))
    ):
        done = fleet("clean", "--json", "-q")
        assert done.exit_code == LockedError.exit_code
        assert done.json[0]["stage"] == "lock"
        assert (
            f"since session {session}, process {os.getpid()} here, measures it"
            in done.json[0]["message"]
        )
    done = fleet("clean")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.endswith("2 paths removed on 1 host.\n")
    assert not place.exists()
    assert "nothing of ours is there" in fleet("clean").stdout


def test_a_busybox_host_is_cleaned_over_ssh(
    fleet: Fleet, make_known: MakeKnown, tmp_path: Path
) -> None:
    server = make_known(*odd.restrict_programs(odd.busybox_only(tmp_path / "bin")))
    place = server.home / ".cache" / "fleet"
    fill(place, AGENT, f"build-{BUILD}-999999999/x.c")
    # not /var/tmp: other tests are at work there
    fleet.hosts(server.entry(name="board", workdir=str(place)))
    done = fleet("clean", "--json")
    assert done.exit_code == 0, done.stderr
    assert [
        path.removeprefix(str(server.home)) for path in done.json[0]["removed"]
    ] == [
        f"/.cache/fleet/{AGENT}",
        f"/.cache/fleet/build-{BUILD}-999999999",
        "/.cache/fleet/",
    ]
    assert not place.exists()


@pytest.mark.slow
@pytest.mark.parametrize("recipe", image.RECIPES, ids=lambda recipe: recipe.name)
def test_a_stand_in_of_a_qnx_host_is_cleaned_with_what_little_it_has(
    recipe: image.Recipe, tmp_path: Path
) -> None:
    board = image.make(tmp_path / recipe.name, recipe)
    connection = Inside(board)
    host = Host("board", "board")
    place = gather(connection, host).workdir
    assert connection.put(b"agent", f"{place}/{AGENT}", mode=0o700).exit_code == 0
    assert connection.put(b"theirs", f"{place}/notes", mode=0o600).exit_code == 0
    done = Inside(board).run("exec /bin/sh", stdin=clean.render_script(host))
    lines = list(clean._extract_report_lines(host, done.stdout))
    assert [line for line in lines if line.startswith("removed ")] == [
        f"removed {'/dev/shmem' if place == '/tmp' else place}/{AGENT}"
    ]
    assert {Path(name).name for name in board.files()} >= {"notes"}
    assert AGENT not in {Path(name).name for name in board.files()}


def test_the_script_is_clean_to_shellcheck() -> None:
    checker = needs.program("shellcheck", "shellcheck")
    done = subprocess.run(
        [checker, "-s", "sh", clean._SCRIPT],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
