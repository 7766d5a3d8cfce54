"""The client programs that give a shell on a host: how each is called, and what its
messages mean.
"""

import json
import math
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from fleet import errors
from fleet.errors import UnreachableError
from fleet.home import expand_home
from fleet.model import Host, HostKeyPolicy, Via
from fleet.model.client import client_command, shell_test_command
from fleet.remote import shell
from fleet.remote.ssh import config


class Sign(NamedTuple):
    """A text that a client prints, the error that it means, and what to do about it, if
    anything.
    """

    text: str
    error: Callable[[str], errors.FleetError]
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Client:
    """A program that gives a shell on a host."""

    program: str
    # from a session's mark and a folder for MARK.log
    command_line: Callable[[str, Path], Sequence[str]]
    by_hand: str  # what the user may try
    answer_timeout_s: float  # until its shell answers
    signs: Sequence[Sign] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    shares_first_session: bool = False  # later sessions use the first one's connection
    ends_input: bool = False  # it passes on end-of-file on stdin
    own_exit_code: int | None = None  # of its own failures
    pause_s: float = 0.0  # between two readings of what a long command prints


_ERRORS: Mapping[str, Callable[[str], errors.FleetError]] = {
    "auth": errors.AuthError,
    "connect": UnreachableError,
    "host-key": errors.HostKeyError,
    "passing": partial(UnreachableError, passing=True),
    "probe": errors.ProbeError,
}


def _read_signs() -> dict[str, list[Sign]]:
    """Return the signs of each program. The file has, for programs, what they print,
    the word of the error, and perhaps what to do about it.
    """
    path = Path(__file__).with_suffix(".json")
    table = json.loads(path.read_text())
    signs_by_program = {}
    for programs, rows in table.items():
        signs = [Sign(text, _ERRORS[word], *remedy) for text, word, *remedy in rows]
        for program in programs.split():
            signs_by_program[program] = signs
    return signs_by_program


_SIGNS = _read_signs()
_WORKS = (
    " If that works: it may need an option that passes stdin on (-i), or, as ssh does,"
    ' fleet\'s words as one ("{shell}", the last word of `command`).'
)
# a host that answers none of so many keepalives is gone
_KEEPALIVE_S = 5
_MISSED = 3
_USER_ACTS_S = 60.0  # the user may have to touch a token
_NO_SESSION = 255  # ssh's own exit code
# Overrides what the user's ssh_config sets otherwise, and only then, since an older ssh
# knows none of it.
# of a command on this machine, which may be measuring it: no thread of ours wakes more
# often than ten times a second
_PAUSE_S = 0.1
_UNLESS_SET = {
    "forkafterauthentication": "no",
    "sessiontype": "default",
    "stdinnull": "no",
}


def _openssh_client(host: Host, timeout_s: float) -> Client:
    """Return the client for `via: openssh`: the user's own ssh, which can do what
    paramiko cannot.
    """
    return Client(
        program="ssh",
        command_line=partial(_ssh_command, host, timeout_s),
        by_hand=f"`{shell_test_command(host)}`.",
        signs=_SIGNS[Via.OPENSSH],
        answer_timeout_s=timeout_s + _USER_ACTS_S,
        env={"SSH_ASKPASS_REQUIRE": "never"},
        shares_first_session=True,
        ends_input=True,
        own_exit_code=_NO_SESSION,
    )


def _ssh_command(
    host: Host, timeout_s: float, mark: str, folder: Path
) -> tuple[str, ...]:
    """Return the ssh command with the inventory's overrides. Raises UnreachableError if
    there is no ssh.
    """
    ssh = shutil.which("ssh")
    if ssh is None:
        raise UnreachableError(
            f"{host.name}: `via: openssh` needs ssh, which is not in PATH; install it."
        )
    file = os.environ.get("FLEET_SSH_CONFIG")
    words = [ssh, "-E", str(folder / f"{mark}.log")]
    if file:
        words += ["-F", file]
    for name, value in _override_settings(host, timeout_s, folder, file).items():
        words += ["-o", f"{name}={value}"]
    if host.identity_files:
        words += ["-o", "IdentitiesOnly=yes"]
    for path in host.identity_files:
        words += ["-i", expand_home(path)]
    if host.jump:
        words += ["-J", ",".join(host.jump)]
    if host.port:
        words += ["-p", str(host.port)]
    if host.user:
        words += ["-l", host.user]
    return (*words, "--", host.address, shell.LOADER + mark)


def _override_settings(
    host: Host, timeout_s: float, folder: Path, file: str | None
) -> Mapping[str, object]:
    """Return the settings that ssh shall have whatever ssh_config says. folder: for
    the socket of the shared connection. file: as FLEET_SSH_CONFIG names it.
    """
    accepts_new = host.host_key is HostKeyPolicy.ACCEPT_NEW
    key_checking = "accept-new" if accepts_new else "yes"
    settings: dict[str, object] = {
        "BatchMode": "yes",
        "StrictHostKeyChecking": key_checking,
        "ConnectTimeout": max(1, math.ceil(timeout_s)),
        "ServerAliveInterval": _KEEPALIVE_S,
        "ServerAliveCountMax": _MISSED,
        "ForwardAgent": "no",
        "ForwardX11": "no",
        "ClearAllForwardings": "yes",
        "RemoteCommand": "none",
        "RequestTTY": "no",
    }
    user_settings = config.look_up(host.name, host.address, host.user, host.port, file)
    control_path = user_settings.get("controlpath", ("none",))[-1]
    if control_path == "none":  # else the user shares sessions already
        settings |= {
            "ControlMaster": "auto",
            "ControlPath": folder / "session",
            "ControlPersist": "no",
        }
    for key, value in _UNLESS_SET.items():
        if key in user_settings and user_settings[key] != (value,):
            settings[key] = value
    return settings


def choose_client(host: Host, timeout_s: float) -> Client:
    """Return the client program that the host's entry names, or this machine's shell
    for `via: local`.
    """
    if host.via is Via.OPENSSH:
        return _openssh_client(host, timeout_s)
    is_local = host.via is Via.LOCAL
    program = "sh"
    if host.command:
        program = os.path.basename(host.command[0])  # noqa: PTH119
    by_hand = f"`{shell_test_command(host)}`."
    if not is_local:
        by_hand += _WORKS
    return Client(
        program=program,
        command_line=partial(_shell_command, host),
        by_hand=by_hand,
        answer_timeout_s=timeout_s,
        signs=_SIGNS.get(program, ()),
        ends_input=is_local,
        pause_s=_PAUSE_S if is_local else 0.0,
    )


def _shell_command(host: Host, mark: str, _folder: Path) -> Sequence[str]:
    return client_command(host, ("/bin/sh", "-c", shell.SCRIPT, mark))
