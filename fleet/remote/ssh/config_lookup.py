"""What ssh_config sets for a name: from `ssh -G`, once for all names if possible, or paramiko's parser."""

import contextlib
import glob
import os
import pwd
import re
import shutil
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

from fleet.errors import UnreachableError
from fleet.once import once

Settings = Mapping[str, tuple[str, ...]]

_DEFAULT_KEYS = ("id_rsa", "id_ecdsa", "id_ed25519")
_SSH_G_TIMEOUT_S = 10.0
_PLAIN_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")  # one that ssh uses as it is
_LINE = re.compile(r"\s*([A-Za-z0-9]+)(?:\s*=\s*|\s+)(.*?)\s*")
_DISTINGUISHING = {"hostname", "proxyjump", "canonicalizehostname"}
_MATCHES_ALL = {"all", "final all"}
# A pattern of `Host` that matches no plain name: .host, vsock/*
_NO_PLAIN_NAME = re.compile(r"\.[^*?]*|[^!*?]*[/%].*")
_SYSTEM_FILE = "/etc/ssh/ssh_config"
_INCLUDES_AT_MOST = 16


def lookup(host_name: str, name: str, user: str | None, port: int | None, file: str | None) -> Settings:
    """What ssh_config resolves for `name`: values by lower-case key. file: read instead. UnreachableError."""
    ssh = _program(os.environ.get("PATH"))
    if ssh is None:
        return _ask_paramiko(host_name, name, file)
    if not _PLAIN_NAME.fullmatch(name):
        return _ask_ssh(ssh, host_name, name, user, port, file)
    return _common(ssh, file).lookup(host_name, name, user, port)


@once
def _program(path: str | None) -> str | None:
    return shutil.which("ssh", path=path)


@once
def _common(ssh: str, file: str | None) -> "_Common":
    return _Common(ssh, file)


class _Common:
    """The one answer for all names, while the files allow it and the answer for a second name agrees."""

    def __init__(self, ssh: str, file: str | None) -> None:
        self._ssh = ssh
        self._file = file
        self._guard = threading.Lock()
        self._possible = all(_same_for_all(Path(each)) for each in _files(file))
        self._first: Settings | None = None
        self._confirmed = False

    def lookup(self, host_name: str, name: str, user: str | None, port: int | None) -> Settings:
        """Return the settings for `name`; ssh is asked only if necessary."""
        with self._guard:
            if self._possible and not self._confirmed:
                return self._compare(host_name, name, user, port)
        if self._possible and self._first is not None:
            return _for_name(self._first, name, user, port)
        return _ask_ssh(self._ssh, host_name, name, user, port, self._file)

    def _compare(self, host_name: str, name: str, user: str | None, port: int | None) -> Settings:
        """Ask ssh for the first and the second name, and compare."""
        settings = _ask_ssh(self._ssh, host_name, name, user, port, self._file)
        if self._first is None:
            self._first = _ask_ssh(self._ssh, host_name, name, None, None, self._file)
        self._possible = _for_name(self._first, name, user, port) == settings
        self._confirmed = self._possible and self._first["hostname"] != (name,)
        return settings


def _for_name(first: Settings, name: str, user: str | None, port: int | None) -> Settings:
    """Derive the settings for `name` from those for another name."""
    own = {"hostname": (name,)} | ({"host": (name,)} if "host" in first else {})
    own |= ({"user": (user,)} if user else {}) | ({"port": (str(port),)} if port else {})
    return {**first, **own}


def user_file() -> Path:
    """The account's ssh_config, whatever $HOME is, as ssh finds it; without an ssh that of $HOME."""
    if shutil.which("ssh"):
        with contextlib.suppress(KeyError):  # an account without an entry
            return Path(pwd.getpwuid(os.getuid()).pw_dir) / ".ssh" / "config"
    return Path("~/.ssh/config").expanduser()


def _files(file: str | None) -> list[str]:
    if file is not None:
        return [] if file == "none" else [file]
    return [str(user_file()), _SYSTEM_FILE]


def _same_for_all(path: Path, depth: int = 0) -> bool:
    """Whether the file and its includes set the same for every plain name; False if in doubt."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False
    applies = True
    for line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        keyword, value = (found[1].lower(), found[2]) if found else ("match", "")
        if keyword == "host":
            applies = value == "*"
            if not applies and not all(_NO_PLAIN_NAME.fullmatch(each) for each in value.split()):
                return False
        elif keyword == "match":
            applies = True
            if value.lower() not in _MATCHES_ALL:
                return False
        elif applies and not _same_setting(keyword, value, depth):
            return False
    return True


def _same_setting(keyword: str, value: str, depth: int) -> bool:
    if keyword == "include":
        return _same_includes(value, depth + 1)
    return keyword not in _DISTINGUISHING and "%" not in value


def _same_includes(value: str, depth: int) -> bool:
    if depth > _INCLUDES_AT_MOST or not value.startswith("/") or re.search(r"[\s\"'$~%\\]", value):
        return False
    return all(_same_for_all(Path(each), depth) for each in glob.glob(value))  # noqa: PTH207


def _ask_ssh(
    ssh: str, host_name: str, name: str, user: str | None, port: int | None, file: str | None
) -> Settings:
    command = [ssh, "-G", *(["-F", file] if file else []), *(["-l", user] if user else [])]
    command += [*(["-p", str(port)] if port else []), "--", name]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SSH_G_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise UnreachableError(
            f"{host_name}: `ssh -G {name}` did not answer within {_SSH_G_TIMEOUT_S:g} s. "
            "Is there a slow `Match exec` in your ssh_config?"
        ) from None
    if done.returncode != 0:
        raise UnreachableError(
            f"{host_name}: `ssh -G {name}` failed: {done.stderr.decode(errors='replace').strip()}. "
            "Correct `address` in the inventory, or your ssh_config."
        )
    settings: dict[str, tuple[str, ...]] = {}
    for line in done.stdout.decode(errors="surrogateescape").splitlines():
        key, _, value = line.partition(" ")
        settings[key.lower()] = (*settings.get(key.lower(), ()), value)
    return settings


def _ask_paramiko(host_name: str, name: str, file: str | None) -> Settings:
    from paramiko import SSHConfig  # noqa: PLC0415  slow to load, and needed only without ssh
    from paramiko.ssh_exception import SSHException  # noqa: PLC0415

    path = Path(file) if file else user_file()
    settings: dict[str, tuple[str, ...]] = {"identityfile": tuple(f"~/.ssh/{key}" for key in _DEFAULT_KEYS)}
    if file == "none" or not path.exists():
        return settings
    try:
        found = SSHConfig.from_path(str(path)).lookup(name)
    except (SSHException, OSError) as error:
        raise UnreachableError(f"{host_name}: {path} cannot be used: {error}") from error
    for key, value in found.items():
        settings[key.lower()] = tuple(value) if isinstance(value, list) else (str(value),)
    return settings
