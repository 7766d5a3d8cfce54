"""One function finds the files of the user's account, as ssh does."""

import os
import pwd
from pathlib import Path

import pytest

from fleet.home import expand_home
from fleet.model import Host
from fleet.remote.ssh import config, route


def test_the_home_is_that_of_the_account_whatever_the_variable_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    account = pwd.getpwuid(os.getuid())
    monkeypatch.setenv("HOME", "/elsewhere")
    for path in ("~/.ssh/config", f"~{account.pw_name}/.ssh/config"):
        assert expand_home(path) == f"{account.pw_dir.rstrip('/')}/.ssh/config"


@pytest.mark.parametrize("path", ["/a/~", "a/b", "~nobody-of-this-name/a"])
def test_what_names_no_account_stays(path: str) -> None:
    assert expand_home(path) == path


def test_without_an_entry_of_the_account_the_variable_decides(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("fleet.home.os.getuid", lambda: 4_123_456_789)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert expand_home("~/a") == f"{tmp_path}/a"
    monkeypatch.setenv("HOME", "/")
    assert expand_home("~/a") == "/a"


@pytest.mark.parametrize("ssh", [True, False], ids=["ssh", "no ssh"])
def test_settings_known_hosts_and_keys_come_from_one_home(
    account_home: Path, monkeypatch: pytest.MonkeyPatch, ssh: bool
) -> None:
    if not ssh:
        monkeypatch.setattr(config.shutil, "which", lambda _: None)
    monkeypatch.delenv("FLEET_SSH_CONFIG", raising=False)
    (end,) = route.resolve_route(Host("web1", "192.0.2.1"))
    (named,) = route.resolve_route(
        Host("web2", "192.0.2.2", identity_files=("~/keys/lab",))
    )
    assert str(account_home / ".ssh/id_ed25519") in end.identity_files
    assert named.inventory_files == (str(account_home / "keys/lab"),)
    if not ssh:  # with it, `ssh -G` names the file in the account's true home
        assert str(account_home / ".ssh/known_hosts") in end.user_known_hosts
    assert config.find_user_file() == account_home / ".ssh/config"
