"""What ssh_config says about a name, key by key: `ssh -G` where there is an ssh, else paramiko's parser.

Asking ssh takes a process per host. Where the files say so little that no host can be told from another, one
answer serves all; that is found out by a few simple rules, proved with a second question, and never guessed.
Used by `ssh_config`, which gives the answers their meaning.
"""

import functools
import glob
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

from fleet.errors import UnreachableError

Said = Mapping[str, tuple[str, ...]]

_DEFAULT_KEYS = ("id_rsa", "id_ecdsa", "id_ed25519")
_SSH_G_TIMEOUT_S = 10.0
_PLAIN_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")  # one that ssh neither lower-cases nor takes apart
_LINE = re.compile(r"\s*([A-Za-z0-9]+)(?:\s*=\s*|\s+)(.*?)\s*")
_TELLS_APART = {"match", "hostname", "proxyjump", "canonicalizehostname"}
_SYSTEM_FILE = "/etc/ssh/ssh_config"
_INCLUDES_AT_MOST = 16


def said(host_name: str, name: str, user: str | None, port: int | None, file: str | None) -> Said:
    """Return every key ssh_config resolves for `name`, in lower case, with its values in order.

    file: read instead of the person's and the system's ssh_config. Raises UnreachableError.
    """
    ssh = _program(os.environ.get("PATH"))
    if ssh is None:
        return _ask_paramiko(host_name, name, file)
    if not _PLAIN_NAME.fullmatch(name):
        return _ask_ssh(ssh, host_name, name, user, port, file)
    return _common(ssh, file).said(host_name, name, user, port)


@functools.cache
def _program(path: str | None) -> str | None:
    return shutil.which("ssh", path=path)


@functools.cache
def _common(ssh: str, file: str | None) -> "_Common":
    return _Common(ssh, file)


class _Common:
    """The one answer for all names, as long as the files allow it and a second name has not disproved it."""

    def __init__(self, ssh: str, file: str | None) -> None:
        self._ssh = ssh
        self._file = file
        self._guard = threading.Lock()
        self._possible = all(_tells_no_hosts_apart(Path(each)) for each in _files(file))
        self._first: Said | None = None
        self._confirmed = False

    def said(self, host_name: str, name: str, user: str | None, port: int | None) -> Said:
        """Answer for `name`, and ask ssh only where it has to be."""
        with self._guard:
            if self._possible and not self._confirmed:
                return self._asked(host_name, name, user, port)
        if self._possible and self._first is not None:
            return _about(self._first, name, user, port)
        return _ask_ssh(self._ssh, host_name, name, user, port, self._file)

    def _asked(self, host_name: str, name: str, user: str | None, port: int | None) -> Said:
        """Ask about the first and the second name, and compare."""
        true = _ask_ssh(self._ssh, host_name, name, user, port, self._file)
        if self._first is None:
            self._first = _ask_ssh(self._ssh, host_name, name, None, None, self._file)
        self._possible = _about(self._first, name, user, port) == true
        self._confirmed = self._possible and self._first["hostname"] != (name,)
        return true


def _about(first: Said, name: str, user: str | None, port: int | None) -> Said:
    """The answer for `name`, made of that for another name."""
    own = {"hostname": (name,)} | ({"host": (name,)} if "host" in first else {})
    own |= ({"user": (user,)} if user else {}) | ({"port": (str(port),)} if port else {})
    return {**first, **own}


def _files(file: str | None) -> list[str]:
    if file is not None:
        return [] if file == "none" else [file]
    return [os.path.expanduser("~/.ssh/config"), _SYSTEM_FILE]  # noqa: PTH111


def _tells_no_hosts_apart(path: Path, depth: int = 0) -> bool:
    """Whether the file, with all it includes, says the same of every name; False where that is not plain.

    Only `Host *`, no Match, no %-mark that may stand for a name, nothing of ssh's that looks at names.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False
    for line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        keyword, value = (found[1].lower(), found[2]) if found else ("match", "")
        if keyword in _TELLS_APART or "%" in value or (keyword == "host" and value != "*"):
            return False
        if keyword == "include" and not _includes_tell_none_apart(value, depth + 1):
            return False
    return True


def _includes_tell_none_apart(value: str, depth: int) -> bool:
    if depth > _INCLUDES_AT_MOST or not value.startswith("/") or re.search(r"[\s\"'$~\\]", value):
        return False
    return all(_tells_no_hosts_apart(Path(each), depth) for each in glob.glob(value))  # noqa: PTH207


def _ask_ssh(
    ssh: str, host_name: str, name: str, user: str | None, port: int | None, file: str | None
) -> Said:
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
    said: dict[str, tuple[str, ...]] = {}
    for line in done.stdout.decode(errors="surrogateescape").splitlines():
        key, _, value = line.partition(" ")
        said[key.lower()] = (*said.get(key.lower(), ()), value)
    return said


def _ask_paramiko(host_name: str, name: str, file: str | None) -> Said:
    from paramiko import SSHConfig  # noqa: PLC0415  slow to load, and needed only without ssh
    from paramiko.ssh_exception import SSHException  # noqa: PLC0415

    path = Path(file) if file else Path("~/.ssh/config").expanduser()
    said: dict[str, tuple[str, ...]] = {
        "identityfile": tuple(f"~/.ssh/{key}" for key in _DEFAULT_KEYS),
    }
    if file == "none" or not path.exists():
        return said
    try:
        found = SSHConfig.from_path(str(path)).lookup(name)
    except (SSHException, OSError) as error:
        raise UnreachableError(f"{host_name}: {path} cannot be used: {error}") from error
    for key, value in found.items():
        said[key.lower()] = tuple(value) if isinstance(value, list) else (str(value),)
    return said
