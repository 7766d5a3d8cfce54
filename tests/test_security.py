"""What is promised about security (docs/security.md), tried by a host and a neighbour
who mean ill.
"""

import json
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fleet.model import BuildPlace, Host, Via
from fleet.session.events import ignore
from fleet.session.host_progress import MAX_NOTES, NOTE_LIMIT, HostProgress
from fleet.text import as_json, hide_secrets, one_line, printable
from tests import needs
from tests.command import ROOT, Done, Fleet
from tests.shared import local_connection

SECRETS = {
    "environment of the inventory": "hunter2-environment",
    "kernel command line": "hunter2-cmdline",
    "credentials of an object store": "hunter2-aws",
}
CLOCK = ("-b", "clock", "--rounds", "2", "--samples", "9")
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e<script>alert(1)</script>"


@dataclass(frozen=True)
class Seen:
    """Everything a session of two hosts left or showed: a good one, and one whose
    compiler tells secrets.

    processes: every command line on this machine while it ran. requests: rights
    somebody was asked for.
    """

    done: tuple[Done, ...]
    folder: Path
    processes: str
    requests: str


def plant_programs(folder: Path) -> Path:
    """Programs that come first: a grep that finds a password on the kernel's command
    line, and a sudo.
    """
    folder.mkdir()
    grep = needs.program("grep", "grep")
    password = f"nfs_password={SECRETS['kernel command line']}"
    # in no command line itself
    (folder / "add").write_text(f"s#^\\(proc/cmdline:.*\\)#\\1 {password}#\n")
    scripts = {
        "grep": (
            f'case "$*" in *proc/cmdline*) ;; *) exec {grep} "$@" ;; esac\n'
            f'{grep} "$@" | sed -f {folder}/add\n'
        ),
        **{
            name: f'echo "{name} $*" >>{folder}/asked; exit 1\n'
            for name in ("sudo", "su", "doas", "pkexec")
        },
    }
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}")
        (folder / name).chmod(0o700)
    return folder


def evil_compiler(path: Path) -> str:
    """A compiler that answers and then, instead of compiling, tells its environment and
    drives terminals.
    """
    words = (
        EVIL.encode("unicode_escape")
        .decode()
        .replace("\\x", "\\\\x")
        .replace("\\u202e", "")
    )
    path.write_text(
        '#!/bin/sh\ncase $1 in --version) echo "evil 1.0"; exit 0 ;; esac\n'
        f"printf '{words}'.\"$LAB_SITE $LAB_SITE\" >&2\nexit 1\n"
    )
    path.chmod(0o700)
    return str(path)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    needs.program("cc", "gcc")
    folder = tmp_path_factory.mktemp("security")
    tools = plant_programs(folder / "tools")
    environment = {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "AWS_SECRET_ACCESS_KEY": SECRETS["credentials of an object store"],
        "FLEET_CI": "",
    }
    compiler = evil_compiler(folder / "evilcc")
    token = SECRETS["environment of the inventory"]
    with Fleet(folder, environment) as fleet:
        fleet.inventory(
            "defaults: {via: local, address: localhost, env: {LAB_SITE:"
            f" {token}}}}}\nhosts:\n  good: {{workdir: {folder}/work/good, build:"
            f" controller}}\n  evil: {{workdir: {folder}/work/evil, build: host,"
            f" toolchain: {{cc: {compiler}}}}}\n"
        )
        old = os.umask(0)  # what our own files are is not left to the person's umask
        try:
            # long enough to be seen
            process = fleet.start("run", *CLOCK, "--plan", "spread_s=5")
        finally:
            os.umask(old)
        lines = set()
        while process.poll() is None:
            lines |= set(command_lines())
        out, err = process.communicate()
        done = [Done(process.returncode, out, err)]
        readers = [
            fleet.start(*words)
            for words in (("check", "--json"), ("show",), ("clean", "-n"))
        ]
        for reader in readers:
            out, err = reader.communicate()
            done.append(Done(reader.returncode, out, err))
    request_log = tools / "asked"
    yield Seen(
        tuple(done),
        folder,
        "\n".join(lines),
        request_log.read_text() if request_log.exists() else "",
    )
    shutil.rmtree(folder, ignore_errors=True)


def command_lines() -> Iterator[str]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue


def kept_text(folder: Path) -> str:
    """Every file as text, tables unpacked."""
    texts = []
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".parquet":
            table = pq.read_table(path, partitioning=None)
            texts.append(f"{table.to_pylist()} {table.schema.metadata}")
        elif path.is_file():
            texts.append(path.read_bytes().decode("utf-8", "replace"))
    return "\n".join(texts)


@pytest.mark.slow
def test_the_session_was_what_it_should_be(seen: Seen) -> None:
    """Else what follows would prove nothing."""
    run = seen.done[0]
    assert run.exit_code == 1, run.stderr
    assert "1 of 2 hosts stored" in run.stdout
    assert "evilcc on the host could not build the agent" in run.stdout
    assert "nfs_password=…" in kept_text(seen.folder / "results")
    assert "fleet-agent-" in seen.processes


@pytest.mark.slow
@pytest.mark.parametrize("kind", SECRETS)
def test_no_secret_is_in_any_output_file_or_process_list(seen: Seen, kind: str) -> None:
    secret = SECRETS[kind]
    for done in seen.done:
        assert secret not in done.stdout + done.stderr
    for place in ("results", "work", "home"):
        assert secret not in kept_text(seen.folder / place), place
    assert secret not in seen.processes


@pytest.mark.slow
def test_what_a_host_says_drives_no_terminal(seen: Seen) -> None:
    logs = kept_text(seen.folder / "results" / ".fleet/logs")
    for text in (seen.done[0].stdout, seen.done[0].stderr, logs, seen.done[1].stdout):
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
    assert "\\x1b]0;owned" in seen.done[0].stdout
    assert "\\x1b]0;owned" in logs


@pytest.mark.slow
def test_what_lies_on_a_host_is_ours_alone_whatever_the_umask(seen: Seen) -> None:
    paths = [
        path for path in (seen.folder / "work").rglob("*") if path.parent != seen.folder
    ]
    assert [path for path in paths if path.name.startswith("fleet-agent-")]
    for path in paths:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


@pytest.mark.slow
def test_sudo_and_its_kin_are_never_called(seen: Seen) -> None:
    assert seen.requests == ""


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    needs.program("cc", "gcc")
    with Fleet(tmp_path) as fleet:
        work = str(tmp_path / "work")
        fleet.hosts(
            Host(
                "here", "localhost", via=Via.LOCAL, workdir=work, build=BuildPlace.HOST
            )
        )
        yield fleet


def swap_agent(folder: Path) -> tuple[Path, str]:
    """Put a program that lies about its build in the agent's place; its path and the
    build.
    """
    (agent,) = (folder / "work").glob("fleet-agent-*")
    build = agent.name.split("-")[2]
    real = folder / "other"
    agent.rename(real)
    agent.write_text(f'#!/bin/sh\n{real} "$@" | sed "s/{build}/{"0" * 16}/"\n')
    agent.chmod(0o700)
    return agent, build


@pytest.mark.slow
def test_an_agent_replaced_since_it_was_put_there_is_not_run(fleet: Fleet) -> None:
    assert fleet("run", "-q", *CLOCK).exit_code == 0
    agent, build = swap_agent(fleet.folder)
    done = fleet("run", "-q", *CLOCK)
    assert done.exit_code == 0
    assert (
        f"{agent} has changed since it was put there: its SHA-256 differs."
        in fleet("show", "here").stdout
    )
    assert agent.read_bytes().startswith(b"\x7fELF")
    assert build in agent.name


@pytest.mark.slow
def test_an_agent_whose_content_nobody_knows_is_not_believed_if_it_says_another_build(
    fleet: Fleet,
) -> None:
    """As on a host without sha256sum, or when it is replaced in the moment between
    question and start.
    """
    assert fleet("run", "-q", *CLOCK).exit_code == 0
    agent, build = swap_agent(fleet.folder)
    agent.rename(agent.with_name(f"fleet-agent-{build}"))
    done = fleet("run", "-q", "--json", *CLOCK)
    assert done.exit_code == 10
    assert done.json[0]["stage"] == "measure"
    assert (
        f"is build '{'0' * 16}', but {build} was put there. Somebody replaced it"
        in done.json[0]["message"]
    )
    assert len(fleet("runs", "--json").json) == 2, (
        "the first, and the one that is not believed"
    )
    assert len(fleet.samples().groupby(["run_id"], observed=True)) == 1


def test_a_binary_at_work_is_not_written_into(tmp_path: Path) -> None:
    """Another file takes its place; the old one goes on until its process ends."""
    path = tmp_path / "fleet-agent-x"
    shutil.copy(needs.program("cat", "coreutils"), path)
    with subprocess.Popen(
        [path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as running:
        with local_connection(Host("here", "localhost", via=Via.LOCAL)) as connection:
            assert connection.put(b"#!/bin/sh\n", str(path), mode=0o700).exit_code == 0
        assert path.read_bytes() == b"#!/bin/sh\n"
        assert running.communicate(b"still here")[0] == b"still here"


def test_a_planted_link_in_the_workdirs_place_is_refused(fleet: Fleet) -> None:
    elsewhere = fleet.folder / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (fleet.folder / "work").symlink_to(elsewhere)
    done = fleet("run", "-q", "--json", *CLOCK)
    assert done.exit_code == 9
    assert done.json[0]["stage"] == "deploy"
    assert "is a symbolic link" in done.json[0]["message"]
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("tools", ["ordinary", "minimal"])
def test_a_link_planted_in_a_files_place_is_not_followed(
    tmp_path: Path, tools: str
) -> None:
    shared = tmp_path / "shared"
    folder = tmp_path / "folder"
    file = tmp_path / "file"
    shared.mkdir()
    folder.mkdir()
    file.write_text("precious")
    with local_connection(Host("here", "localhost")) as connection:
        if tools == "minimal":
            connection.use_minimal_tools(os.environ["PATH"])
        for target in (file, folder, tmp_path / "nowhere"):
            place = shared / f"agent-{target.name}"
            place.symlink_to(target)
            done = connection.put(b"#!/bin/sh\n", str(place), mode=0o700)
            assert done.exit_code == 0
            assert done.stderr == b""
            assert not place.is_symlink()
            assert place.read_bytes() == b"#!/bin/sh\n"
        (shared / "agent").mkdir()
        assert connection.put(b"#!/bin/sh\n", str(shared / "agent")).exit_code != 0
    assert file.read_text() == "precious"
    assert not any(folder.iterdir())
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "file",
        "folder",
        "shared",
    ]
    assert not any((shared / "agent").iterdir())
    assert len(list(shared.iterdir())) == 4


def test_a_password_in_the_inventory_is_refused_unsaid(fleet: Fleet) -> None:
    fleet.inventory("hosts: {a: {password: hunter2}}\n")
    done = fleet("hosts")
    assert done.exit_code == 2
    assert "this file must hold no secret" in done.stderr
    assert "hunter2" not in done.stderr


def test_an_error_that_names_a_strange_file_drives_no_terminal(fleet: Fleet) -> None:
    done = fleet("hosts", "-i", "no\x07such")
    assert done.exit_code == 2
    assert "no\\x07such" in done.stderr


def test_text_is_harmless_in_terminal_page_and_json() -> None:
    assert "\x1b" not in printable(EVIL)
    assert one_line("a\nfake: line") == "a\\nfake: line"
    text = as_json({"said": EVIL + "\x7f\ud800ü"})
    assert text.isprintable() or set(filter(lambda c: not c.isprintable(), text)) == {
        "\n"
    }
    assert "ü" in text
    assert json.loads(text) == {"said": EVIL + "\x7f\ud800ü"}


def test_a_value_is_hidden_wherever_it_is_repeated_the_longest_first() -> None:
    assert hide_secrets("abcd abcdef x", ["abcd", "abcdef", "x", ""]) == "… … x"


def test_a_host_that_notes_without_end_fills_no_memory() -> None:
    progress = HostProgress(Host("h", "x"), ignore)
    for _ in range(10 * MAX_NOTES):
        progress.note("n" * 10 * NOTE_LIMIT)
    assert len(progress.notes) == MAX_NOTES + 1
    assert sum(map(len, progress.notes)) < (MAX_NOTES + 1) * (NOTE_LIMIT + 50)
    assert "further notes" in progress.notes[-1]


def test_every_promise_names_tests_that_exist() -> None:
    page = (ROOT / "docs" / "security.md").read_text()
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page)
    assert len(named) > 25
    for path, test in named:
        assert f"def {test}(" in (ROOT / path).read_text(), f"{path}::{test}"
