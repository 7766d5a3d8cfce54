"""Looks up what ssh_config says of a host: asks `ssh -G`, at best once for many hosts.

FLEET_SSH_CONFIG replaces the user's and the system's file, as `ssh -F` does. Without
ssh, paramiko reads it.
"""

import re
import shutil
import subprocess
import threading
from collections.abc import Collection, Mapping, Sequence
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
_PATH_KEYS = ("identityfile", "certificatefile")
_HOP_KEYS = ("proxycommand", "proxyjump")  # their ${VAR} is left to a shell
_FILES_AT_MOST = 200  # of an ssh_config, included ones too
# what ssh answered to questions that differ in their name only; None if the answers
# may differ as well
_shared_settings: dict[tuple[object, ...], Settings | None] = {}
_shared_lock = threading.Lock()
_SEPARATOR = "\x1f"  # stands in no setting
# ForkAfterAuthentication is an error without a command
_ANY_COMMAND = ("-o", "RemoteCommand=true")
_TOKEN_OR_VARIABLE = re.compile(r"%|\$\{")  # how %h or ${HOME} begins
# a line of ssh_config: its keyword, and its value without blanks around it
_LINE = re.compile(r"\s*([A-Za-z0-9]+)(?:\s*=\s*|\s+)(.*?)\s*")
_LINE_ABOUT_OTHER_LINES = re.compile(r"(?im)^\s*((?:match|include)\b.*)")


@dataclass(frozen=True, slots=True)
class _Query:
    """A question to `ssh -G`. Answers are cached by query: `stamps` make it another one
    once a file has changed.
    """

    ssh: str  # the program's path
    name: str
    user: str | None
    port: int | None
    file: str | None  # instead of the user's and the system's
    stamps: tuple[object, ...]  # time and size of each file, as they are now

    def list_options(self) -> list[str]:
        """Return the options of ssh for the file, user and port that are set."""
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

    host_name: the host's name in the inventory, for errors. user, port: override the
    file's. file: read instead of the user's and the system's file. If this machine has
    no ssh, paramiko reads `file`, or else the user's file alone.
    """
    ssh = shutil.which("ssh")
    files = [file] if file else [str(find_user_file()), _SYSTEM_FILE]
    try:
        if ssh is None:
            return _ask_paramiko(files[0], name, user, port)
        # cached answers hold only as long as the files have these times and sizes
        stamps = tuple(map(read_stamp, files))
        query = _Query(ssh, name, user, port, file, stamps)
        settings = _ask_once_for_like_names(query)
        if settings is not None:
            return settings
        # like names may have other settings, so ask for this one alone
        return _ask_ssh(query)
    except UnreachableError as error:
        raise UnreachableError(f"{host_name}: {error}") from error


def find_user_file() -> Path:
    """Return the path of the user's ssh_config."""
    return Path(expand_home("~/.ssh/config"))


def _ask_once_for_like_names(query: _Query) -> Settings | None:
    """Return what `ssh -G` says. It is asked once for all names that match the same
    `Host` lines, since these have the same settings but for `hostname`. Return None if
    such names may differ in other settings.
    """
    name = query.name
    host_lines = _read_host_lines_unless_complex(query.file, query.stamps)
    if host_lines is None:
        return None
    # A name that a `Host` line lists has settings of its own. A name with capitals is
    # asked for alone, too, since ssh turns them into small letters.
    if name in host_lines.names or name != name.lower():
        return None
    # whether each pattern matches: names that agree in all of these share an answer
    matches = [matches_pattern(name, pattern) for pattern in host_lines.patterns]
    key = (query.ssh, query.user, query.file, query.stamps, *matches)
    with _shared_lock:
        if key not in _shared_settings:
            # without the port, which callers take from their own query; with a command,
            # as one setting is an error without any
            settings = _run_ssh(replace(query, port=None), *_ANY_COMMAND)
            _shared_settings[key] = settings
            if _depends_on_name(settings, name):
                _shared_settings[key] = None
        shared = _shared_settings[key]
    if shared is None:  # the settings depend on the name
        return None
    return {**shared, "hostname": (name,)}


def _depends_on_name(settings: Settings, name: str) -> bool:
    """Report whether another name that matches the same `Host` lines may have other
    settings than these of `name`, apart from `hostname`.
    """
    # Without a HostName line, `ssh -G` prints the name itself. Such a line may contain
    # %h, the name.
    has_host_name_line = settings.get("hostname") != (name,)
    if has_host_name_line:
        return True
    # ssh would complete the name by a domain, then look up the new name
    if settings.get("canonicalizehostname", ("false",)) != ("false",):
        return True
    # `ssh -G` prints hops and paths with their tokens, perhaps %h, the name
    for key in (*_HOP_KEYS, *_PATH_KEYS):
        has_token = any(map(_TOKEN_OR_VARIABLE.search, settings.get(key, ())))
        if has_token:
            return True
    # in all other settings, `ssh -G` has replaced each token: %h by the name
    for key, texts in settings.items():
        has_name = any(name in text for text in texts)
        if has_name and key not in ("host", "hostname"):
            return True
    return False


class _HostLines(NamedTuple):
    """What stands on the `Host` lines of an ssh_config, without the ! of negations."""

    names: Collection[str]  # also the patterns
    patterns: Collection[str]  # those of the names that have * or ?


@lru_cache(maxsize=16)
def _read_host_lines_unless_complex(
    file: str | None, _stamps: tuple[object, ...]
) -> _HostLines | None:
    """Return the names on all `Host` lines of the files and of the files they include;
    None if a line is too complex for us, as `Match` is, if a file cannot be read or if
    there are too many files. The stamps make the cache miss once a file has changed,
    included files aside.
    """
    user_file = find_user_file()
    user_folder = user_file.parent
    # each file, and the folder for relative names on its `Include` lines
    if file:  # as ssh does with the file of its -F
        pending = [(Path(file), user_folder)]
    else:
        pending = [(user_file, user_folder), (Path(_SYSTEM_FILE), _SYSTEM_FOLDER)]
    names: dict[str, None] = {}  # as a set that keeps the order
    for path, folder in pending:  # the loop also reaches the files that it appends
        lines = _read_lines(path)
        if lines is None:
            return None
        for keyword, value in lines:
            if _is_complex(keyword, value):
                return None
            if keyword == "host":
                names |= _split_host_line(value)
            elif keyword == "include":
                included = _list_included(folder, value)
                pending += [(included_path, folder) for included_path in included]
        if len(pending) > _FILES_AT_MOST:
            return None
    patterns = [name for name in names if "*" in name or "?" in name]
    return _HostLines(names.keys(), patterns)


def _split_host_line(value: str) -> dict[str, None]:
    return dict.fromkeys(word.removeprefix("!") for word in value.split())


def _is_complex(keyword: str, value: str) -> bool:
    """Report whether only ssh itself can tell which names a line is for."""
    if keyword == "match":
        return True
    is_quoted = re.search(r"[\"'\\$%]", value) is not None
    return keyword in ("include", "host") and is_quoted


def _read_lines(path: Path) -> list[tuple[str, str]] | None:
    """Return (keyword, value) of each line. If there is no such file, the list is
    empty; if the file cannot be read, return None.
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
    """List the files that an `Include` line names, such as "conf.d/*.conf ~/other".
    Relative names are in `folder`.
    """
    paths: list[Path] = []
    for pattern in patterns.split():
        absolute = folder / expand_home(pattern)
        paths += map(Path, glob(str(absolute)))  # noqa: PTH207
    return paths


@lru_cache(maxsize=4096)  # a jump host serves many hosts
def _ask_ssh(query: _Query) -> Settings:
    """Ask `ssh -G` for settings whose tokens, such as %h, are replaced.

    ssh replaces tokens in ControlPath and RemoteCommand. It leaves tokens in file names
    and in hops (ProxyCommand and ProxyJump). If tokens are left, ssh is asked again:
    all file names are then given to it as one ControlPath, and all hops as one
    RemoteCommand, parted by _SEPARATOR. Its answer is split into names and hops again.
    """
    settings = _run_ssh(query, *_ANY_COMMAND)
    identity_files = settings.get("identityfile", ())
    paths = [*identity_files, *settings.get("certificatefile", ())]
    hops = [get_last(settings, key) for key in _HOP_KEYS]
    paths_have_tokens = any(map(_TOKEN_OR_VARIABLE.search, paths))
    hops_have_tokens = any(map(_TOKEN_OR_VARIABLE.search, hops))
    if not paths_have_tokens and not hops_have_tokens:
        return settings
    options = [*_set_remote_command(hops)]
    if paths_have_tokens:
        options += _set_control_path(paths)
    answer = _run_ssh(query, *options)
    if paths_have_tokens:
        paths = answer["controlpath"][0].split(_SEPARATOR)
        settings["identityfile"] = tuple(paths[: len(identity_files)])
        settings["certificatefile"] = tuple(paths[len(identity_files) :])
    hops = answer["remotecommand"][0].split(_SEPARATOR)
    for key, hop in zip(_HOP_KEYS, hops, strict=True):
        settings[key] = (hop,)
    return settings


def _set_remote_command(hops: Sequence[str]) -> list[str]:
    return ["-o", f"RemoteCommand={_SEPARATOR.join(hops)}"]


def _set_control_path(paths: Sequence[str]) -> list[str]:
    """Return the option that gives ssh the paths as one ControlPath, in double quotes,
    as file names may have blanks.
    """
    text = _SEPARATOR.join(paths).replace("\\", "\\\\").replace('"', '\\"')
    return ["-o", f'ControlPath="{text}"']


def _run_ssh(query: _Query, *options: str) -> dict[str, tuple[str, ...]]:
    """Return the settings that `ssh -G` prints, by lower-case key. Raises
    UnreachableError.
    """
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
    # ssh_config's first value of a setting holds
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
        # paramiko has a list for some settings, and None for a ProxyCommand of `none`
        values = value if isinstance(value, list) else [str(value or "none")]
        settings[key.lower()] = tuple(values)
    not_understood = _list_not_understood(text, settings)
    if not_understood:
        raise UnreachableError(
            f"{path}: without an ssh program, fleet cannot read"
            f" `{not_understood[0].strip()}`. Install OpenSSH's client, or remove this"
            " line."
        )
    # paramiko replaces tokens, but leaves the %% that stands for %
    proxy_command = get_last(settings, "proxycommand", "none")
    settings["proxycommand"] = (proxy_command.replace("%%", "%"),)
    return settings


def _list_not_understood(text: str, settings: Settings) -> list[str]:
    """List what paramiko does not read as ssh does: lines of the ssh_config that begin
    by `Match` or `Include`, and settings in which a token or a variable is left.

    A variable such as ${HOME} may be left in a ProxyCommand, whose shell replaces it.
    In any setting, %% is no token but stands for %.
    """
    not_understood = _LINE_ABOUT_OTHER_LINES.findall(text)
    for key, values in settings.items():
        for value in values:
            text_without_escapes = value.replace("%%", "")
            is_any_left = _TOKEN_OR_VARIABLE.search(text_without_escapes) is not None
            has_only_variables = "%" not in value
            is_left_to_shell = key == "proxycommand" and has_only_variables
            if is_any_left and not is_left_to_shell:
                not_understood.append(f"{key} {value}")
    return not_understood
