"""Deploying, with the real sh, the real compiler and real files; the host is this
machine.
"""

import hashlib
import os
import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import fleet
from fleet.agent.build.on_controller import Builder
from fleet.agent.deploy import check_entries, deploy, preview
from fleet.errors import BuildError, DeployError, ProbeError, UsageError
from fleet.model import BuildPlace, Compiler, Facts, Host, RequestedToolchain, Via
from tests import needs
from tests.command import UNOPTIMIZED, Fleet
from tests.shared import local_connection

HERE = Host(name="here", address="localhost", via=Via.LOCAL, toolchain=UNOPTIMIZED)
SMALL_AGENT = {
    "main.c": (
        b"""
#include <stdio.h>
#include "base/build_facts.h"
#include "native/native.h"
int main(int arguments, char **argument) {
	return arguments == 2 && is_build_id(argument[1]) ? puts(FLEET_BUILD_ID) < 0 : 2;
}
"""
    ),
    "native/native.h": b"int is_build_id(const char *);\n",
    "native/generic.c": (
        b"""
#include <string.h>
#include "native.h"
int is_build_id(const char *option) { return !strcmp(option, "--build-id"); }
"""
    ),
    "native/linux.c": b"typedef int no_empty_unit;\n",
    **{
        f"native/{arch}.c": b"typedef int no_empty_unit;\n"
        for arch in ("x86_64", platform.machine())
    },
}


class Deployer:
    """Deploys to a workdir of its own; `notes` collects what was reported."""

    def __init__(self, tmp_path: Path) -> None:
        self.workdir = tmp_path / "workdir"
        self.workdir.mkdir(mode=0o700)
        self.cache = tmp_path / "cache"
        self.notes: list[str] = []

    def facts(self, *compilers: str, **more: object) -> Facts:
        return Facts(
            os="linux",
            arch=platform.machine(),
            workdir=str(self.workdir),
            workdir_entries=tuple(os.listdir(self.workdir)),  # noqa: PTH208 - names are what facts hold
            compilers=tuple(
                Compiler(command, f"{command} 1.0") for command in compilers
            ),
            **more,  # type: ignore[arg-type]
        )

    def __call__(self, host: Host, facts: Facts):
        with local_connection(host) as connection:
            return deploy(
                connection, host, facts, Builder(self.cache), self.notes.append
            )


@pytest.fixture
def whole_deployer(tmp_path: Path) -> Deployer:
    """Deploys the real agent, which takes seconds to compile."""
    needs.program("cc", "gcc")
    return Deployer(tmp_path)


@pytest.fixture
def deployer(whole_deployer: Deployer, monkeypatch: pytest.MonkeyPatch) -> Deployer:
    """Deploys a program that knows its build id and nothing else."""
    monkeypatch.setattr("fleet.agent.build.source.read_sources", lambda: SMALL_AGENT)
    return whole_deployer


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def read_build_id(path: str, *loader: str) -> str:
    done = subprocess.run(
        [*loader, path, "--build-id"], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.slow
def test_a_compiler_on_the_host_builds_there_and_the_second_time_nothing(
    whole_deployer: Deployer,
) -> None:
    deployer = whole_deployer
    first = deployer(HERE, deployer.facts("cc"))
    assert first.place == "built on the host with cc 1.0"
    assert read_build_id(first.path) == first.build
    content = hashlib.sha256(Path(first.path).read_bytes()).hexdigest()
    assert os.listdir(deployer.workdir) == [f"fleet-agent-{first.build}-{content[:16]}"]  # noqa: PTH208
    assert Path(first.path).stat().st_mode & 0o077 == 0

    again = deployer(HERE, deployer.facts("cc"))
    assert again.place == "already on the host"
    assert again == replace(first, place=again.place)


@pytest.mark.parametrize("compilers", [("cc",), ()], ids=["built there", "sent"])
def test_an_agent_that_is_no_longer_what_its_name_says_is_not_used(
    deployer: Deployer, compilers: tuple[str, ...]
) -> None:
    first = deployer(HERE, deployer.facts(*compilers))
    path = Path(first.path)
    content = path.read_bytes()
    path.write_bytes(b"")  # as after a power cut
    empty = {path.name: hashlib.sha256(b"").hexdigest()}
    deployer.notes.clear()

    unseen = deployer(HERE, deployer.facts(*compilers))
    assert unseen.path == first.path
    assert path.read_bytes() == b"", "a host that cannot hash does not see it"

    again = deployer(HERE, deployer.facts(*compilers, workdir_hashes=empty))
    assert again.path == first.path
    assert again.build == first.build
    assert again.place == first.place
    assert path.read_bytes() == content
    assert any(
        f"{path} has changed since it was put there" in note for note in deployer.notes
    )

    deployer.notes.clear()
    sound = {path.name: hashlib.sha256(content).hexdigest()}
    stamp = path.stat().st_mtime_ns
    deployer(HERE, deployer.facts(*compilers, workdir_hashes=sound))
    assert path.stat().st_mtime_ns == stamp
    assert not any(
        "has changed since it was put there" in note for note in deployer.notes
    )


def test_a_host_without_a_hash_program_gets_a_name_without_one(
    deployer: Deployer, tmp_path: Path
) -> None:
    few = tmp_path / "few"
    few.mkdir()
    for name in ("cat", "mkdir", "mv", "rm", "cc", "as", "ld"):
        (few / name).symlink_to(needs.program(name, "coreutils"))
    with local_connection(replace(HERE, env={"PATH": str(few)})) as connection:
        agent = deploy(
            connection,
            HERE,
            deployer.facts("cc"),
            Builder(deployer.cache),
            deployer.notes.append,
        )
    assert Path(agent.path).name == f"fleet-agent-{agent.build}"
    assert deployer(HERE, deployer.facts("cc")).path == agent.path


def test_a_compiler_is_asked_for_its_version_only_where_something_has_to_be_built(
    deployer: Deployer, tmp_path: Path
) -> None:
    def names(*commands: str) -> Facts:
        compilers = tuple(Compiler(command, "") for command in commands)
        return replace(deployer.facts(), compilers=compilers)

    silent = script(tmp_path / "silent-cc", 'touch "$0.asked"; exit 1')
    first = deployer(HERE, names(silent, "cc"))
    assert Path(f"{silent}.asked").exists()
    version = subprocess.run(
        ["cc", "--version"], capture_output=True, text=True, check=True
    ).stdout
    assert first.place == f"built on the host with {version.splitlines()[0]}"
    assert read_build_id(first.path) == first.build

    talking = script(tmp_path / "cc", 'touch "$0.asked"; echo mine')
    with local_connection(
        replace(HERE, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    ) as connection:
        again = deploy(
            connection,
            HERE,
            names("cc"),
            Builder(deployer.cache),
            deployer.notes.append,
        )
    assert again.place == "already on the host"
    assert again.path == first.path
    assert not Path(f"{talking}.asked").exists()


def test_without_a_compiler_the_controller_builds_once_for_many_hosts(
    deployer: Deployer,
) -> None:
    first = deployer(HERE, deployer.facts())
    assert "on the controller" in first.place
    assert read_build_id(first.path) == first.build
    cached = deployer.cache / f"fleet-agent-{first.build}"
    stamp = cached.stat().st_mtime_ns
    Path(first.path).unlink()
    assert deployer(HERE, deployer.facts()) == first
    assert cached.stat().st_mtime_ns == stamp


def test_an_agent_that_cannot_be_kept_on_the_controller_is_sent_all_the_same(
    deployer: Deployer, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    deployer.cache = tmp_path / "file" / "cache"
    agent = deployer(HERE, deployer.facts())
    assert read_build_id(agent.path) == agent.build


def test_a_compiler_that_fails_is_quoted_and_the_controller_builds(
    deployer: Deployer, tmp_path: Path
) -> None:
    broken = script(
        tmp_path / "broken-cc", "echo 'fatal error: stdio.h: No such file' >&2; exit 1"
    )
    agent = deployer(HERE, deployer.facts(broken))
    (note,) = deployer.notes
    assert "fatal error: stdio.h: No such file" in note
    assert note.endswith("The agent comes from the controller instead.")
    assert read_build_id(agent.path) == agent.build


@pytest.mark.parametrize(
    "words",
    ["echo 'fatal error: stdio.h: No such file' >&2; exit 1", "exit 0"],
    ids=["fails", "lies"],
)
def test_where_only_the_host_may_build_its_failure_is_the_error(
    deployer: Deployer, tmp_path: Path, words: str
) -> None:
    broken = script(tmp_path / "broken-cc", words)
    host = replace(HERE, build=BuildPlace.HOST)
    with pytest.raises(
        BuildError, match=r"here: .*broken-cc on the host could not build the agent"
    ):
        deployer(host, deployer.facts(broken))
    assert os.listdir(deployer.workdir) == []  # noqa: PTH208 - nothing is left behind


def test_no_compiler_anywhere_lists_what_was_tried(
    deployer: Deployer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("fleet.agent.build.on_controller.find_spec", lambda name: None)
    with pytest.raises(
        BuildError,
        match=(
            r"(?s)here: no agent for linux-.*cc on the controller: not"
            r" installed.*Install"
        ),
    ):
        deployer(HERE, deployer.facts())


def test_an_agent_shipped_with_fleet_needs_no_compiler_and_has_no_flags_of_ones_own(
    deployer: Deployer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    built = deployer(HERE, deployer.facts())
    Path(built.path).unlink()
    deployer.notes.clear()
    monkeypatch.setattr("fleet.agent.build.on_controller.SHIPPED", deployer.cache)
    monkeypatch.setattr(
        "fleet.agent.build.on_controller.resolve_command", lambda command: None
    )
    deployer.cache = tmp_path / "another"
    place = f"built with zig, shipped with fleet {fleet.__version__}"
    assert (
        preview(HERE, deployer.facts(), Builder(deployer.cache)).description
        == f"would be sent, {place}"
    )
    sent = deployer(HERE, deployer.facts())
    assert sent.build == built.build
    assert sent.place == place
    assert deployer.notes == []
    assert read_build_id(sent.path) == sent.build
    with pytest.raises(BuildError, match="not installed"):
        deployer(
            replace(HERE, toolchain=RequestedToolchain(cflags=("-O1",))),
            deployer.facts(),
        )


def test_a_target_without_sources_names_those_there_are(deployer: Deployer) -> None:
    with pytest.raises(ProbeError, match=r"no agent for linux-vax .*x86_64"):
        deployer(HERE, replace(deployer.facts("cc"), arch="vax"))


def test_a_prebuilt_binary_is_sent_and_asked_for_its_build(deployer: Deployer) -> None:
    built = deployer(HERE, deployer.facts("cc"))
    prebuilt = deployer.cache.parent / "prebuilt"
    Path(built.path).rename(prebuilt)
    host = replace(
        HERE,
        build=BuildPlace.PREBUILT,
        toolchain=RequestedToolchain(binary=str(prebuilt)),
    )
    agent = deployer(host, deployer.facts())
    assert agent.build == built.build
    assert agent.path != built.path


def test_a_prebuilt_binary_for_another_machine_never_travels(
    deployer: Deployer, tmp_path: Path
) -> None:
    foreign = tmp_path / "foreign"
    foreign.write_bytes(
        b"\x7fELF\x02\x01\x01" + bytes(11) + (243).to_bytes(2, "little") + bytes(60)
    )
    host = replace(
        HERE,
        build=BuildPlace.PREBUILT,
        toolchain=RequestedToolchain(binary=str(foreign)),
    )
    with pytest.raises(BuildError, match="it is for riscv64, the host is"):
        deployer(host, deployer.facts())
    assert os.listdir(deployer.workdir) == []  # noqa: PTH208


@pytest.mark.parametrize(
    ("build", "toolchain", "compilers", "words"),
    [
        (
            "auto",
            {"cc": "no-such-cc"},
            ["cc"],
            r"(?s)no-such-cc on the host could not.*not found",
        ),
        ("host", {}, [], "looked for cc, gcc, clang"),
        (
            "prebuilt",
            {"binary": "/no/such"},
            [],
            "cannot read the prebuilt agent /no/such: No such file",
        ),
        (
            "prebuilt",
            {"binary": "/dev/zero"},
            [],
            "the prebuilt agent /dev/zero: it is a device, not a file",
        ),
        (
            "prebuilt",
            {"binary": "/tmp"},
            [],
            "the prebuilt agent /tmp: it is a folder, not a file",
        ),
    ],
)
def test_an_agent_that_cannot_come_from_where_the_inventory_says_is_an_error(
    deployer: Deployer,
    build: str,
    toolchain: dict[str, Any],
    compilers: list[str],
    words: str,
) -> None:
    host = replace(
        HERE, build=BuildPlace(build), toolchain=RequestedToolchain(**toolchain)
    )
    with pytest.raises(BuildError, match=words):
        deployer(host, deployer.facts(*compilers))


def test_a_workdir_that_went_away_is_a_deploy_error(deployer: Deployer) -> None:
    facts = deployer.facts("cc")
    deployer.workdir.rmdir()
    with pytest.raises(
        DeployError,
        match=(
            r"here: cannot write the agent into (?s:.*)See that cat, wc, chmod and mv"
            r" work"
        ),
    ):
        deployer(HERE, facts)


def test_a_workdir_with_blanks_and_quotes_is_only_a_name(
    deployer: Deployer, tmp_path: Path
) -> None:
    odd = tmp_path / "it's a $(touch pwned) `dir`"
    odd.mkdir()
    agent = deployer(HERE, replace(deployer.facts("cc"), workdir=str(odd)))
    assert read_build_id(agent.path) == agent.build
    assert not list(tmp_path.rglob("pwned"))


WRONG = {
    "and no agent for qnx-riscv64": Host("a", "a", os="qnx", arch="riscv64"),
    "{binary: /no/such}` cannot be read": Host(
        "a",
        "a",
        build=BuildPlace.PREBUILT,
        toolchain=RequestedToolchain(binary="/no/such"),
    ),
    "none of /no/such, ~nobody/key is there": Host(
        "a", "a", identity_files=("/no/such", "~nobody/key")
    ),
}


@pytest.mark.parametrize("words", WRONG)
def test_what_cannot_work_is_named(words: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_entries([Host("fine", "fine"), WRONG[words]])
    assert words in str(refused.value)


def test_what_may_work_is_left_to_the_host(tmp_path: Path) -> None:
    (tmp_path / "held.pub").write_text("ssh-ed25519 AAAA")
    held = (str(tmp_path / "held"),)
    prebuilt = RequestedToolchain(binary=sys.executable)
    check_entries(
        [
            Host("a", "a", identity_files=("/no/such", *held)),
            Host("b", "b", via=Via.LOCAL, identity_files=("/no/such",)),
            Host("c", "c", build=BuildPlace.PREBUILT, toolchain=prebuilt),
            Host("d", "d", os="qnx", arch="aarch64"),
        ]
    )


@pytest.mark.parametrize("dry", [[], ["--dry-run"]], ids=["run", "dry run"])
def test_a_run_and_its_dry_run_say_the_same(tmp_path: Path, dry: list[str]) -> None:
    with Fleet(tmp_path) as fleet:
        fleet.inventory(
            "hosts:\n  a: {via: local, build: prebuilt, toolchain: {binary:"
            " /no/such}}\n"
        )
        done = fleet("run", *dry)
        assert done.exit_code == 2
        assert (
            "inventory.yaml:2: a: `toolchain: {binary: /no/such}` cannot be read here"
            in done.stderr
        )
        assert not fleet.results.exists()
