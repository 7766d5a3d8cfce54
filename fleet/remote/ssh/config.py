"""Resolves the route to a host from the inventory, which wins, and from ssh_config.

FLEET_SSH_CONFIG replaces the user's and the system's file, as `ssh -F` does. Without
ssh, paramiko reads it.
"""

import contextlib
import getpass
import os
import pwd
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from glob import glob
from pathlib import Path
from typing import NamedTuple, TypeVar

from fleet.addresses import read_address, read_hop, read_user
from fleet.errors import UnreachableError
from fleet.model import Host, HostKeyPolicy, InputError
from fleet.remote.ssh.known_hosts import matches_pattern, read_stamp

_NOT_HONOURED = {
    "certificatefile": (
        "CertificateFile (a certificate named KEY-cert.pub beside its key is)"
    ),
    "pkcs11provider": "PKCS11Provider",
    "knownhostscommand": "KnownHostsCommand",
    "bindaddress": "BindAddress",
    "bindinterface": "BindInterface",
}
_HOPS_AT_MOST = 8
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One sshd on the way to a host, and how to authenticate there."""

    name: str  # as the user wrote it
    address: str
    port: int
    user: str
    inventory_files: tuple[str, ...]  # the inventory's keys, offered first
    identity_files: tuple[str, ...]  # those of ssh_config
    only_these: bool  # offer no other keys
    use_agent: bool  # False forbids the agent even for these
    host_key_name: str  # as in known_hosts
    host_key: HostKeyPolicy
    user_known_hosts: tuple[str, ...]
    global_known_hosts: tuple[str, ...]
    proxy_command: str | None  # tokens replaced
    jump: tuple[str, ...]  # by its own ssh_config
    connect_timeout_s: float | None
    notes: tuple[str, ...]


def resolve_route(host: Host) -> tuple[Endpoint, ...]:
    """Return the SSH servers to pass, the host's own last. Raises UnreachableError if
    ssh_config is bad.
    """
    target = _make_endpoint(host, host.address, host.user, host.port)
    if host.identity_files:
        target = replace(target, identity_files=(), only_these=True)
    jump = host.jump or target.jump
    if not jump:
        return (target,)
    return (*_resolve_hops(host, jump), replace(target, proxy_command=None))


def _resolve_hops(host: Host, jump: Sequence[str]) -> list[Endpoint]:
    """Resolve the jump hosts in order. As in OpenSSH, only the first one's own
    ProxyJump is followed.
    """
    hops: list[Endpoint] = []
    pending = tuple(jump)
    while pending:
        if len(hops) + len(pending) > _HOPS_AT_MOST:
            raise UnreachableError(
                f"{host.name}: more than {_HOPS_AT_MOST} jump hosts. Does ProxyJump in"
                " your ssh_config make a host jump through itself?"
            )
        endpoints = [
            _make_endpoint(host, *_parse_value(host, read_hop, hop, "ProxyJump"))
            for hop in pending
        ]
        first = endpoints[0]
        hops = [
            first,
            *(replace(hop, proxy_command=None) for hop in endpoints[1:]),
            *hops,
        ]
        pending = first.jump
        if pending:
            hops[0] = replace(first, proxy_command=None)
    return hops


def _make_endpoint(
    host: Host, name: str, user: str | None, port: int | None
) -> Endpoint:
    settings = look_up(host.name, name, user, port, os.environ.get("FLEET_SSH_CONFIG"))
    expand = os.path.expanduser  # ~user, too

    def get(key: str, default: str = "none") -> str:
        return (settings.get(key) or (default,))[-1]

    def list_files(key: str, default: str) -> tuple[str, ...]:
        return tuple(
            expand(file) for file in split_files(get(key, default)) if file != "none"
        )

    address = _parse_value(host, read_address, get("hostname", name), "HostName")
    real_port = port or int(get("port", "22"))
    real_user = _parse_value(
        host, read_user, user or get("user", "") or getpass.getuser(), "User"
    )
    agent, jump, command = (
        get("identityagent", "SSH_AUTH_SOCK"),
        get("proxyjump"),
        get("proxycommand"),
    )
    notes = [
        f"ssh_config: {name} is not honoured"
        for key, name in _NOT_HONOURED.items()
        if get(key) != "none"
    ]
    if agent not in ("none", "SSH_AUTH_SOCK"):
        notes.append(
            "ssh_config: IdentityAgent is not honoured, only the agent at"
            " $SSH_AUTH_SOCK"
        )
    timeout = get("connecttimeout")
    return Endpoint(
        name=name,
        address=address,
        port=real_port,
        user=real_user,
        inventory_files=tuple(map(expand, host.identity_files)),
        identity_files=tuple(map(expand, settings.get("identityfile", ()))),
        only_these=get("identitiesonly") in ("yes", "true"),
        use_agent=agent != "none",
        host_key_name=get("hostkeyalias", "") or known_hosts_name(address, real_port),
        host_key=host.host_key,
        user_known_hosts=list_files(
            "userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2"
        ),
        global_known_hosts=list_files(
            "globalknownhostsfile", "/etc/ssh/ssh_known_hosts"
        ),
        proxy_command=None if command == "none" else command,
        jump=() if jump == "none" else tuple(hop.strip() for hop in jump.split(",")),
        connect_timeout_s=(
            float(timeout) if timeout.isdecimal() and int(timeout) else None
        ),
        notes=tuple(notes),
    )


def _parse_value(host: Host, parse: Callable[[str], R], text: str, keyword: str) -> R:
    """Parse and check a value of ssh_config that a ProxyCommand's shell may get. Raises
    UnreachableError.
    """
    try:
        return parse(text)
    except InputError as error:
        raise UnreachableError(
            f"{host.name}: {keyword} {text!r} in your ssh_config: {error}."
        ) from error


def known_hosts_name(address: str, port: int) -> str:
    """Format a host as known_hosts does: `name`, or `[name]:port` if the port is not
    22.
    """
    return address.lower() if port == 22 else f"[{address.lower()}]:{port}"


def split_files(text: str) -> list[str]:
    """Split files as `ssh -G` prints them: "/a b/known_hosts ~/c" -> ["/a
    b/known_hosts", "~/c"].
    """
    return re.split(r" +(?=[/~])", text) if text else []


Settings = Mapping[str, tuple[str, ...]]

_SSH_G_TIMEOUT_S = 10.0
_SYSTEM_FILE = "/etc/ssh/ssh_config"
_SYSTEM_FOLDER = Path("/etc/ssh")
_DEFAULT_KEYS = ("id_rsa", "id_ecdsa", "id_ed25519")
_HOP_TOKENS = ("proxycommand", "proxyjump")  # their ${VAR} is left to a shell
_FILES_AT_MOST = 200  # of an ssh_config, included ones too
_alike: dict[tuple[object, ...], dict[str, tuple[str, ...]] | None] = {}
_alike_guard = threading.Lock()
_SEPARATOR = "\x1f"  # stands in no setting
# ForkAfterAuthentication is an error without
_ANY_COMMAND = (
    "-o",
    "RemoteCommand=true",
)
_TOKEN = re.compile(r"%|\$\{")

_LINE = re.compile(r"\s*([A-Za-z0-9]+)(?:\s*=\s*|\s+)(.*?)\s*")


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
        settings = _ask_once_for_like_names(ssh, name, user, file, stamps)
        return (
            _ask_ssh(ssh, name, user, port, file, stamps)
            if settings is None
            else settings
        )
    except UnreachableError as error:
        raise UnreachableError(f"{host_name}: {error}") from error


def find_user_file() -> Path:
    """Return the path of the user's ssh_config, in the account's home as for ssh;
    without ssh, in $HOME.
    """
    if shutil.which("ssh"):
        with contextlib.suppress(KeyError):  # an account without an entry
            return Path(pwd.getpwuid(os.getuid()).pw_dir) / ".ssh" / "config"
    return Path("~/.ssh/config").expanduser()


def _ask_once_for_like_names(
    ssh: str, name: str, user: str | None, file: str | None, stamps: tuple[object, ...]
) -> Settings | None:
    """Ask `ssh -G` once for all names that match the same `Host` lines; None if their
    settings may differ.
    """
    names, patterns = _read_host_lines_unless_complex(file, stamps) or ({name}, ())
    if name in names or name != name.lower():
        return None
    key = (
        ssh,
        user,
        file,
        stamps,
        *(matches_pattern(name, pattern) for pattern in patterns),
    )
    with _alike_guard:
        if key not in _alike:
            settings = _run_ssh(ssh, name, user, None, file, *_ANY_COMMAND)
            _alike[key] = None if _depends_on_name(settings, name) else settings
        shared = _alike[key]
    return shared and {**shared, "hostname": (name,)}


def _depends_on_name(settings: Settings, name: str) -> bool:
    """Report whether settings may differ for another name that matches the same `Host`
    lines.
    """
    with_tokens = (
        text for key in (*_HOP_TOKENS, "identityfile") for text in settings.get(key, ())
    )
    others = (
        text
        for key, texts in settings.items()
        if key not in ("host", "hostname")
        for text in texts
    )
    return (
        settings.get("hostname") != (name,)
        or settings.get("canonicalizehostname") not in (None, ("false",))
        or any(map(_TOKEN.search, with_tokens))
        or any(name in text for text in others)
    )


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
    folder = find_user_file().parent
    pending = (
        [(Path(file), folder)]
        if file
        else [(find_user_file(), folder), (Path(_SYSTEM_FILE), _SYSTEM_FOLDER)]
    )
    words: dict[str, None] = {}
    for path, folder in pending:
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            continue
        except (OSError, ValueError):
            return None
        for keyword, value in (
            match.groups() for match in map(_LINE.fullmatch, text.split("\n")) if match
        ):
            match keyword.lower():
                case "match":
                    return None
                case "include" | "host" if re.search(r"[\"'\\$%]", value):
                    return None
                case "host":
                    words |= dict.fromkeys(
                        word.removeprefix("!") for word in value.split()
                    )
                case "include":
                    globs = [
                        str(folder / Path(word).expanduser()) for word in value.split()
                    ]
                    pending += [
                        (Path(name), folder)
                        for pattern in globs
                        for name in glob(pattern)  # noqa: PTH207
                    ]
        if len(pending) > _FILES_AT_MOST:
            return None
    patterns = [word for word in words if "*" in word or "?" in word]
    return _HostLines(words.keys(), patterns)


@lru_cache(maxsize=4096)  # a jump host serves many hosts
def _ask_ssh(
    ssh: str,
    name: str,
    user: str | None,
    port: int | None,
    file: str | None,
    _stamps: tuple[object, ...],
) -> Settings:
    """Ask `ssh -G`; if tokens remain, ask again with them moved to settings whose
    tokens it replaces.
    """
    settings = _run_ssh(ssh, name, user, port, file, *_ANY_COMMAND)
    paths = settings.get("identityfile", ())
    hops = [settings.get(key, ("none",))[-1] for key in _HOP_TOKENS]
    if not any(_TOKEN.search(text) for text in (*paths, *hops)):
        return settings
    options = ["-o", f"RemoteCommand={_SEPARATOR.join(hops)}"]
    if any(map(_TOKEN.search, paths)):
        quoted_paths = _SEPARATOR.join(paths).replace("\\", "\\\\").replace('"', '\\"')
        options += ["-o", f'ControlPath="{quoted_paths}"']
    replaced = _run_ssh(ssh, name, user, port, file, *options)
    if any(map(_TOKEN.search, paths)):
        paths = tuple(replaced["controlpath"][0].split(_SEPARATOR))
    hops = replaced["remotecommand"][0].split(_SEPARATOR)
    return {
        **settings,
        "identityfile": paths,
        **{key: (hop,) for key, hop in zip(_HOP_TOKENS, hops, strict=True)},
    }


def _run_ssh(
    ssh: str,
    name: str,
    user: str | None,
    port: int | None,
    file: str | None,
    *options: str,
) -> dict[str, tuple[str, ...]]:
    command = [
        ssh,
        "-G",
        *(["-F", file] if file else []),
        *(["-l", user] if user else []),
    ]
    command += ["-p", str(port)] if port else []
    try:
        done = subprocess.run(
            [*command, *options, "--", name],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SSH_G_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UnreachableError(
            f"`ssh -G {name}` did not answer within {_SSH_G_TIMEOUT_S:g} s. "
            "Is there a slow `Match exec` in your ssh_config?"
        ) from None
    if done.returncode != 0:
        raise UnreachableError(
            f"`ssh -G {name}` failed: {done.stderr.decode(errors='replace').strip()}. "
            "Correct `address` in the inventory, or your ssh_config."
        )
    settings: dict[str, tuple[str, ...]] = {}
    for line in done.stdout.decode(errors="surrogateescape").split("\n"):
        key, _, value = line.partition(" ")
        settings[key.lower()] = (*settings.get(key.lower(), ()), value)
    return settings


def _ask_paramiko(file: str, name: str, user: str | None, port: int | None) -> Settings:
    """Read `file` by paramiko. Raises UnreachableError for lines that paramiko does not
    read as ssh does.
    """
    from paramiko import (  # noqa: PLC0415  slow to load, and needed only without ssh
        SSHConfig,
    )
    from paramiko.ssh_exception import SSHException  # noqa: PLC0415

    settings: dict[str, tuple[str, ...]] = {
        "identityfile": tuple(f"~/.ssh/{key}" for key in _DEFAULT_KEYS)
    }
    path = Path(file)
    if file == "none" or not path.exists():
        return settings
    overrides = [
        *([f"User {user}"] if user else []),
        *([f"Port {port}"] if port else []),
    ]
    try:
        text = path.read_text(encoding="utf-8")
        config = SSHConfig.from_text("\n".join([*overrides, text])).lookup(name)
    except (SSHException, OSError, ValueError) as error:
        raise UnreachableError(f"{path} cannot be used: {error}") from error
    for key, value in config.items():
        settings[key.lower()] = (
            tuple(value) if isinstance(value, list) else (str(value or "none"),)
        )
    not_understood = re.findall(r"(?im)^\s*((?:match|include)\b.*)", text) + [
        f"{key} {value}"
        for key, values in settings.items()
        for value in values
        if _TOKEN.search(value.replace("%%", ""))
        and not (key == "proxycommand" and "%" not in value)
    ]
    if not_understood:
        raise UnreachableError(
            f"{path}: without an ssh program, fleet cannot read"
            f" `{not_understood[0].strip()}`. Install OpenSSH's client, or remove this"
            " line."
        )
    return {
        **settings,
        "proxycommand": (
            settings.get("proxycommand", ("none",))[-1].replace("%%", "%"),
        ),
    }
