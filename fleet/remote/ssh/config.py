"""Looks up what ssh_config says of a host: asks `ssh -G`, at best once for many hosts.

FLEET_SSH_CONFIG replaces the user's and the system's file, as `ssh -F` does. Without
ssh, paramiko reads it.
"""

import re
import shutil
import subprocess
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from glob import glob
from pathlib import Path
from typing import NamedTuple

from fleet.errors import UnreachableError
from fleet.home import expand_home
from fleet.remote.ssh.known_hosts import matches_pattern, read_stamp

Settings = Mapping[str, tuple[str, ...]]

_SSH_G_TIMEOUT_S = 10.0
_SYSTEM_FILE = "/etc/ssh/ssh_config"
_SYSTEM_FOLDER = Path("/etc/ssh")
_DEFAULT_KEYS = ("id_rsa", "id_ecdsa", "id_ed25519")
_PATHS = ("identityfile", "certificatefile")
_HOP_TOKENS = ("proxycommand", "proxyjump")  # their ${VAR} is left to a shell
_FILES_AT_MOST = 200  # of an ssh_config, included ones too
_alike: dict[tuple[object, ...], dict[str, tuple[str, ...]] | None] = {}
_alike_guard = threading.Lock()
_SEPARATOR = "\x1f"  # stands in no setting
# ForkAfterAuthentication is an error without
_ANY_COMMAND = ("-o", "RemoteCommand=true")
_TOKEN = re.compile(r"%|\$\{")

_LINE = re.compile(r"\s*([A-Za-z0-9]+)(?:\s*=\s*|\s+)(.*?)\s*")


@dataclass(frozen=True, slots=True)
class _Query:
    """A question to `ssh -G`, and the files that its answer depends on."""

    ssh: str
    name: str
    user: str | None
    port: int | None
    file: str | None  # instead of the user's and the system's
    stamps: tuple[object, ...]  # of the files, as they are now

    def list_options(self) -> list[str]:
        options = []
        if self.file:
            options += ["-F", self.file]
        if self.user:
            options += ["-l", self.user]
        if self.port:
            options += ["-p", str(self.port)]
        return options


def get_last(settings: Settings, key: str, default: str = "none") -> str:
    """Return a setting's last value; `default` if it has none."""
    values = settings.get(key)
    return values[-1] if values else default


def look_up(
    host_name: str, name: str, user: str | None, port: int | None, file: str | None
) -> Settings:
    """Return ssh_config's settings for `name` by lower-case key, tokens replaced.
    Raises UnreachableError.

    user, port: override the file's. file: read instead of the user's and the system's
    file.
    """
    ssh = shutil.which("ssh")
    files = [file] if file else [str(find_user_file()), _SYSTEM_FILE]
    try:
        if ssh is None:
            return _ask_paramiko(files[0], name, user, port)
        stamps = tuple(map(read_stamp, files))
        query = _Query(ssh, name, user, port, file, stamps)
        settings = _ask_once_for_like_names(query)
        return _ask_ssh(query) if settings is None else settings
    except UnreachableError as error:
        raise UnreachableError(f"{host_name}: {error}") from error


def find_user_file() -> Path:
    """Return the path of the user's ssh_config."""
    return Path(expand_home("~/.ssh/config"))


def _ask_once_for_like_names(query: _Query) -> Settings | None:
    """Ask `ssh -G` once for all names that match the same `Host` lines; None if their
    settings may differ.
    """
    name = query.name
    host_lines = _read_host_lines_unless_complex(query.file, query.stamps)
    if host_lines is None or name in host_lines.words or name != name.lower():
        return None
    matches = [matches_pattern(name, pattern) for pattern in host_lines.patterns]
    key = (query.ssh, query.user, query.file, query.stamps, *matches)
    with _alike_guard:
        if key not in _alike:
            settings = _run_ssh(replace(query, port=None), *_ANY_COMMAND)
            _alike[key] = None if _depends_on_name(settings, name) else settings
        shared = _alike[key]
    if shared is None:
        return None
    return {**shared, "hostname": (name,)}


def _depends_on_name(settings: Settings, name: str) -> bool:
    """Report whether settings may differ for another name that matches the same `Host`
    lines.
    """
    if settings.get("hostname") != (name,):
        return True
    if settings.get("canonicalizehostname", ("false",)) != ("false",):
        return True
    for key in (*_HOP_TOKENS, *_PATHS):
        texts = settings.get(key, ())
        if any(map(_TOKEN.search, texts)):
            return True
    for key, texts in settings.items():
        if key not in ("host", "hostname") and any(name in text for text in texts):
            return True
    return False


class _HostLines(NamedTuple):
    words: Collection[str]
    patterns: Collection[str]  # among the words


@lru_cache(maxsize=16)
def _read_host_lines_unless_complex(
    file: str | None, _stamps: tuple[object, ...]
) -> _HostLines | None:
    """Return the names on all `Host` lines; None for a `Match`, quoting, an unreadable
    file or too many.
    """
    user_file = find_user_file()
    pending = [(user_file, user_file.parent), (Path(_SYSTEM_FILE), _SYSTEM_FOLDER)]
    if file:
        pending = [(Path(file), user_file.parent)]
    words: dict[str, None] = {}
    for path, folder in pending:  # which grows by what is included
        lines = _read_lines(path)
        if lines is None:
            return None
        for keyword, value in lines:
            if _is_complex(keyword, value):
                return None
            if keyword == "host":
                for word in value.split():
                    words[word.removeprefix("!")] = None
            elif keyword == "include":
                pending += [(name, folder) for name in _list_included(folder, value)]
        if len(pending) > _FILES_AT_MOST:
            return None
    patterns = [word for word in words if "*" in word or "?" in word]
    return _HostLines(words.keys(), patterns)


def _is_complex(keyword: str, value: str) -> bool:
    """Report whether only ssh itself can tell which names a line is for."""
    if keyword == "match":
        return True
    is_quoted = re.search(r"[\"'\\$%]", value) is not None
    return keyword in ("include", "host") and is_quoted


def _read_lines(path: Path) -> list[tuple[str, str]] | None:
    """Return keyword and value of each line, none if there is no file; None if it
    cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    except (OSError, ValueError):
        return None
    matches = map(_LINE.fullmatch, text.split("\n"))
    return [(match[1].lower(), match[2]) for match in matches if match]


def _list_included(folder: Path, patterns: str) -> list[Path]:
    paths: list[Path] = []
    for pattern in patterns.split():
        absolute = folder / expand_home(pattern)
        paths += map(Path, glob(str(absolute)))  # noqa: PTH207
    return paths


@lru_cache(maxsize=4096)  # a jump host serves many hosts
def _ask_ssh(query: _Query) -> Settings:
    """Ask `ssh -G`; if tokens remain, ask again with them moved to settings whose
    tokens it replaces.
    """
    settings = _run_ssh(query, *_ANY_COMMAND)
    paths = [path for key in _PATHS for path in settings.get(key, ())]
    hops = [get_last(settings, key) for key in _HOP_TOKENS]
    has_path_tokens = any(map(_TOKEN.search, paths))
    has_hop_tokens = any(map(_TOKEN.search, hops))
    if not has_path_tokens and not has_hop_tokens:
        return settings
    options = ["-o", f"RemoteCommand={_SEPARATOR.join(hops)}"]
    if has_path_tokens:
        text = _SEPARATOR.join(paths).replace("\\", "\\\\").replace('"', '\\"')
        options += ["-o", f'ControlPath="{text}"']
    answer = _run_ssh(query, *options)
    if has_path_tokens:
        paths = answer["controlpath"][0].split(_SEPARATOR)
        key_count = len(settings.get("identityfile", ()))
        settings["identityfile"] = tuple(paths[:key_count])
        settings["certificatefile"] = tuple(paths[key_count:])
    hops = answer["remotecommand"][0].split(_SEPARATOR)
    for key, hop in zip(_HOP_TOKENS, hops, strict=True):
        settings[key] = (hop,)
    return settings


def _run_ssh(query: _Query, *options: str) -> dict[str, tuple[str, ...]]:
    words = [query.ssh, "-G", *query.list_options(), *options, "--", query.name]
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SSH_G_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UnreachableError(
            f"`ssh -G {query.name}` did not answer within {_SSH_G_TIMEOUT_S:g} s. "
            "Is there a slow `Match exec` in your ssh_config?"
        ) from None
    if done.returncode != 0:
        reason = done.stderr.decode(errors="replace").strip()
        raise UnreachableError(
            f"`ssh -G {query.name}` failed: {reason}. "
            "Correct `address` in the inventory, or your ssh_config."
        )
    settings: dict[str, tuple[str, ...]] = {}
    for line in done.stdout.decode(errors="surrogateescape").split("\n"):
        name, _, value = line.partition(" ")
        key = name.lower()
        settings[key] = (*settings.get(key, ()), value)
    return settings


def _ask_paramiko(file: str, name: str, user: str | None, port: int | None) -> Settings:
    """Read `file` by paramiko. Raises UnreachableError for lines that paramiko does not
    read as ssh does.
    """
    from paramiko import (  # noqa: PLC0415  slow to load, and needed only without ssh
        SSHConfig,
    )
    from paramiko.ssh_exception import SSHException  # noqa: PLC0415

    default_keys = tuple(f"~/.ssh/{key}" for key in _DEFAULT_KEYS)
    settings: dict[str, tuple[str, ...]] = {"identityfile": default_keys}
    path = Path(file)
    if file == "none" or not path.exists():
        return settings
    overrides = []
    if user:
        overrides.append(f"User {user}")
    if port:
        overrides.append(f"Port {port}")
    try:
        text = path.read_text(encoding="utf-8")
        config = SSHConfig.from_text("\n".join([*overrides, text])).lookup(name)
    except (SSHException, OSError, ValueError) as error:
        raise UnreachableError(f"{path} cannot be used: {error}") from error
    for key, value in config.items():
        values = value if isinstance(value, list) else [str(value or "none")]
        settings[key.lower()] = tuple(values)
    not_understood = _list_not_understood(text, settings)
    if not_understood:
        raise UnreachableError(
            f"{path}: without an ssh program, fleet cannot read"
            f" `{not_understood[0].strip()}`. Install OpenSSH's client, or remove this"
            " line."
        )
    proxy_command = get_last(settings, "proxycommand")
    settings["proxycommand"] = (proxy_command.replace("%%", "%"),)
    return settings


def _list_not_understood(text: str, settings: Settings) -> list[str]:
    """List the lines of an ssh_config, and settings in it, that paramiko does not read
    as ssh does.
    """
    not_understood = re.findall(r"(?im)^\s*((?:match|include)\b.*)", text)
    for key, values in settings.items():
        for value in values:
            # paramiko has replaced a ProxyCommand's %h; its ${VAR} is for a shell
            is_for_shell = key == "proxycommand" and "%" not in value
            if _TOKEN.search(value.replace("%%", "")) and not is_for_shell:
                not_understood.append(f"{key} {value}")
    return not_understood
