"""Resolves ssh_config for a name: with the user's own ssh (`ssh -G`), or else with paramiko's parser."""

import contextlib
import os
import pwd
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from fleet.errors import UnreachableError

Settings = Mapping[str, tuple[str, ...]]
NOTES = "notes"  # the key, which ssh_config does not have, of sentences for the user

_SSH_G_TIMEOUT_S = 10.0
_SYSTEM_FILE = "/etc/ssh/ssh_config"
_DEFAULT_KEYS = ("id_rsa", "id_ecdsa", "id_ed25519")
_HOP_TOKENS = ("proxycommand", "proxyjump")  # their ${VAR} is left to a shell
_SEPARATOR = "\x1f"  # stands in no setting
_TOKEN = re.compile(r"%|\$\{")

_LINE = re.compile(r"\s*([A-Za-z0-9]+)(?:\s*=\s*|\s+)(.*?)\s*")
_MATCH_KEYWORDS = {"all", "canonical", "final", "host", "originalhost", "user", "localuser", "exec"}
_NO_HOST = "Host !*"
_USED = {
    *("hostname", "port", "user", "hostkeyalias", "connecttimeout", "addressfamily"),
    *("identityfile", "identitiesonly", "identityagent", "proxyjump", "proxycommand"),
    *("userknownhostsfile", "globalknownhostsfile", "canonicalizehostname", "canonicaldomains"),
    *("canonicalizemaxdots", "canonicalizefallbacklocal"),
}
# What changes neither which host is reached nor how fleet logs in there.
_OF_NO_EFFECT = re.compile(
    r"control.*|serveralive.*|forward.*|gssapi.*|ciphers|macs|(kex|.*key)algorithms|compression|loglevel|.*logging"
    r"|stricthostkeychecking|hashknownhosts|visualhostkey|updatehostkeys|verifyhostkeydns|checkhostip"
    r"|addkeystoagent|usekeychain|ignoreunknown|sendenv|setenv|tcpkeepalive|ipqos|requesttty|remotecommand"
    r"|(local|remote|dynamic|clearall|exitonf).*forward|batchmode|escapechar|permitlocalcommand|localcommand"
    r"|.*authentication|.*acceptedalgorithms|.*acceptedkeytypes|connectionattempts|numberofpasswordprompts"
    r"|rekeylimit|streamlocal.*|tunnel.*|protocol|sessiontype|stdinnull|forkafterauthentication"
)


def look_up(host_name: str, name: str, user: str | None, port: int | None, file: str | None) -> Settings:
    """Return the settings of ssh_config for `name`, with tokens replaced: values by lower-case key.

    user, port: override those of the file. file: is read instead of the user's and the system's. Raises
    UnreachableError.
    """
    ssh = shutil.which("ssh")
    files = [file] if file else [str(user_file()), _SYSTEM_FILE]
    try:
        if ssh is None:
            return _ask_paramiko(files[0], name, user, port)
        return _ask_ssh(ssh, name, user, port, file, tuple(map(_modification_time_ns, files)))
    except UnreachableError as error:
        raise UnreachableError(f"{host_name}: {error}") from error


def user_file() -> Path:
    """Return the account's ssh_config as ssh finds it, whatever $HOME is; without an ssh, that of $HOME."""
    if shutil.which("ssh"):
        with contextlib.suppress(KeyError):  # an account without an entry
            return Path(pwd.getpwuid(os.getuid()).pw_dir) / ".ssh" / "config"
    return Path("~/.ssh/config").expanduser()


def _modification_time_ns(file: str) -> int:
    try:
        return os.stat(file).st_mtime_ns  # noqa: PTH116
    except OSError:
        return 0


@lru_cache(maxsize=4096)  # a jump host serves many hosts
def _ask_ssh(
    ssh: str, name: str, user: str | None, port: int | None, file: str | None, _changed_ns: tuple[int, ...]
) -> Settings:
    """Ask ssh, and a second time for the tokens that `ssh -G` leaves as they are.

    ssh replaces tokens of ControlPath like those of IdentityFile, and tokens of RemoteCommand like those of
    ProxyCommand and ProxyJump.
    """
    command = [ssh, "-G", *(["-F", file] if file else []), *(["-l", user] if user else [])]
    command += ["-p", str(port)] if port else []
    # with a command, since ForkAfterAuthentication is an error without
    settings = _run_ssh([*command, "-o", "RemoteCommand=true"], name)
    paths = settings.get("identityfile", ())
    hops = [settings.get(key, ("none",))[-1] for key in _HOP_TOKENS]
    if not any(_TOKEN.search(text) for text in (*paths, *hops)):
        return settings
    command += ["-o", f"RemoteCommand={_SEPARATOR.join(hops)}"]
    if any(map(_TOKEN.search, paths)):
        quoted_paths = _SEPARATOR.join(paths).replace("\\", "\\\\").replace('"', '\\"')
        command += ["-o", f'ControlPath="{quoted_paths}"']
    replaced = _run_ssh(command, name)
    if any(map(_TOKEN.search, paths)):
        paths = tuple(replaced["controlpath"][0].split(_SEPARATOR))
    hops = replaced["remotecommand"][0].split(_SEPARATOR)
    return {
        **settings,
        "identityfile": paths,
        **{key: (hop,) for key, hop in zip(_HOP_TOKENS, hops, strict=True)},
    }


def _run_ssh(command: Sequence[str], name: str) -> dict[str, tuple[str, ...]]:
    try:
        done = subprocess.run(
            [*command, "--", name],
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
    from paramiko import SSHConfig  # noqa: PLC0415  slow to load, and needed only without ssh
    from paramiko.ssh_exception import SSHException  # noqa: PLC0415

    settings: dict[str, tuple[str, ...]] = {"identityfile": tuple(f"~/.ssh/{key}" for key in _DEFAULT_KEYS)}
    path = Path(file)
    if file == "none" or not path.exists():
        return settings
    overrides = [*([f"User {user}"] if user else []), *([f"Port {port}"] if port else [])]
    try:
        lines, matches = _replace_unknown_matches(path)
        config = SSHConfig.from_text("\n".join([*overrides, *lines])).lookup(name)
    except (SSHException, OSError, ValueError) as error:
        raise UnreachableError(f"{path} cannot be used: {error}") from error
    for key, value in config.items():
        settings[key.lower()] = tuple(value) if isinstance(value, list) else (str(value or "none"),)
    command = settings.get("proxycommand", ("none",))[-1]
    if "%" in command.replace("%%", ""):
        raise UnreachableError(
            f"{path}: without an ssh program fleet understands of the tokens in `ProxyCommand {command}` "
            "only %h, %p and %r. Install OpenSSH's client, or write another."
        )
    settings["proxycommand"] = (command.replace("%%", "%"),)
    unknown = [*matches, *_unsupported_settings(settings, lines)]
    if unknown:
        notes = f"without an ssh program fleet does not understand of {path}: {'; '.join(unknown)}"
        settings[NOTES] = (notes,)
    return settings


def _replace_unknown_matches(path: Path) -> tuple[list[str], list[str]]:
    """Return a file's lines without the Matches that paramiko would take for true, and those Matches."""
    lines, replaced = path.read_text(encoding="utf-8").split("\n"), []
    for number, line in enumerate(lines):
        keyword, value = _split(line)
        words = shlex.split(value) if keyword == "match" else []
        while words:
            condition = words.pop(0).removeprefix("!").lower()
            if condition not in _MATCH_KEYWORDS:
                lines[number] = _NO_HOST
                replaced.append(f"Match {value} (line {number + 1}, left out)")
                break
            if condition not in {"all", "canonical", "final"}:
                words[:1] = []
    return lines, replaced


def _unsupported_settings(settings: Settings, lines: Sequence[str]) -> Iterator[str]:
    """Yield the settings that apply to a host and are not used, and those whose tokens are not replaced."""
    for number, line in enumerate(lines, 1):
        keyword, value = _split(line)
        if keyword == "include" or (
            keyword in settings and keyword not in _USED and not _OF_NO_EFFECT.fullmatch(keyword)
        ):
            yield f"{line.split(maxsplit=1)[0]} (line {number})"
    for key in _USED & settings.keys():
        for value in settings[key]:
            if _TOKEN.search(value.replace("%%", "")):
                yield f"a token in {key} {value}"


def _split(line: str) -> tuple[str, str]:
    """Split a line of ssh_config into its keyword, in lower case, and its value."""
    match = _LINE.fullmatch(line)
    return (match[1].lower(), match[2]) if match else ("", "")
