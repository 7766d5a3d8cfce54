"""Entries that cannot work are named before anything is connected to, by --dry-run as well."""

import sys
from pathlib import Path

import pytest

from fleet.agent.deploy import check_entries
from fleet.errors import UsageError
from fleet.model import BuildPlace, Host, RequestedToolchain, Via
from tests.command import Fleet

WRONG = {
    "and no agent for qnx-riscv64": Host("a", "a", os="qnx", arch="riscv64"),
    "{binary: /no/such}` cannot be read": Host(
        "a", "a", build=BuildPlace.PREBUILT, toolchain=RequestedToolchain(binary="/no/such")
    ),
    "none of /no/such, ~nobody/key is there": Host("a", "a", identity_files=("/no/such", "~nobody/key")),
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
        fleet.inventory("hosts:\n  a: {via: local, build: prebuilt, toolchain: {binary: /no/such}}\n")
        done = fleet("run", *dry)
        assert done.exit_code == 2
        assert "inventory.yaml:2: a: `toolchain: {binary: /no/such}` cannot be read here" in done.stderr
        assert not fleet.results.exists()
