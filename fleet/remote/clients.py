"""The client programs that give a shell on a host: how each is called, and what its
messages mean.
"""

import json
import math
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    """A text by which a client's output tells a failure."""

    text: str
    error: Callable[[str], errors.FleetError]  # makes the error from a message
    remedy: str = ""  # a sentence for the user; "" if there is no good one


@dataclass(frozen=True, slots=True)
class Client:
    """A program that gives a shell on a host."""

    program: str
    # makes the command line from a session's mark and a folder for MARK.log, where the
    # client may keep a log
    command_line: Callable[[str, Path], Sequence[str]]
    command_to_try: str  # by hand, if the client fails; for messages
    answer_timeout_s: float  # until its shell answers
    failure_signs: Sequence[Sign] = ()  # the first that its output has is taken
    env: Mapping[str, str] = field(default_factory=dict)
    shares_first_session: bool = False  # later sessions use the first one's connection
    passes_on_end_of_file: bool = False  # on its stdin, to the command on the host
    own_exit_code: int | None = None  # of its own failures; None: it has no such code
    reading_pause_s: float = 0.0  # between two readings of a long command's output


_ERRORS: Mapping[str, Callable[[str], errors.FleetError]] = {
    "auth": errors.AuthError,
    "connect": UnreachableError,
    "host-key": errors.HostKeyError,
    "passing": partial(UnreachableError, is_transient=True),
    "probe": errors.ProbeError,
}


def _read_signs() -> dict[str, list[Sign]]:
    """Return the signs of each program from clients.json. A key of the file names one
    program or several, such as "docker podman". Its value has a row for each sign: a
    text, a key of _ERRORS, and perhaps a remedy, as in ["is not running", "connect",
    "Start the container."].
    """
    path = Path(__file__).with_suffix(".json")
    table = json.loads(path.read_text())
    signs_by_program = {}
    for programs, rows in table.items():
        signs = []
        for text, error_word, *remedy in rows:
            signs.append(Sign(text, _ERRORS[error_word], *remedy))
        for program in programs.split():
            signs_by_program[program] = signs
    return signs_by_program


_SIGNS_BY_PROGRAM = _read_signs()
_IF_BY_HAND_WORKS = (
    " If that works: it may need an option that passes stdin on (-i), or, as ssh does,"
    ' fleet\'s words as one ("{shell}", the last word of `command`).'
)
# a host that answers none of so many keepalives is gone
_KEEPALIVE_S = 5
_KEEPALIVES_MISSED = 3
_USER_ACTS_S = 60.0  # the user may have to touch a token
_SSH_FAILED = 255  # ssh's exit code of its own failures
# of a command on this machine, which may be measuring it: no thread of ours wakes more
# often than ten times a second
_READING_PAUSE_S = 0.1
_DEFAULTS_OF_NEWER_SSH = {
    "forkafterauthentication": "no",
    "sessiontype": "default",
    "stdinnull": "no",
}
"""Defaults of settings under which no command could run if the user's ssh_config has
others. An older ssh knows no such settings, so they are only named if it has.
"""


def _openssh_client(host: Host, timeout_s: float) -> Client:
    """Return the client for `via: openssh`: the user's own ssh, which can do what
    paramiko cannot. The user may have to touch a token, so ssh gets more time to
    connect.
    """
    return Client(
        program="ssh",
        command_line=partial(_ssh_command, host, timeout_s),
        command_to_try=f"`{shell_test_command(host)}`.",
        failure_signs=_SIGNS_BY_PROGRAM[Via.OPENSSH],
        answer_timeout_s=timeout_s + _USER_ACTS_S,
        env={"SSH_ASKPASS_REQUIRE": "never"},
        shares_first_session=True,
        passes_on_end_of_file=True,
        own_exit_code=_SSH_FAILED,
    )


def _ssh_command(
    host: Host, timeout_s: float, mark: str, folder: Path
) -> tuple[str, ...]:
    """Return the ssh command that runs the loader, the sh script that reads commands on
    stdin. What the inventory says overrides ssh_config. mark: the random word that
    names the session's log in `folder` and marks its output. Raises UnreachableError if
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
    the socket of the shared connection. file: what FLEET_SSH_CONFIG names, or None.

    Sessions share one connection, by the user's ControlPath if ssh_config has one.
    """
    accepts_new = host.host_key is HostKeyPolicy.ACCEPT_NEW
    key_checking = "accept-new" if accepts_new else "yes"
    settings: dict[str, object] = {
        "BatchMode": "yes",
        "StrictHostKeyChecking": key_checking,
        "ConnectTimeout": max(1, math.ceil(timeout_s)),
        "ServerAliveInterval": _KEEPALIVE_S,
        "ServerAliveCountMax": _KEEPALIVES_MISSED,
        "ForwardAgent": "no",
        "ForwardX11": "no",
        "ClearAllForwardings": "yes",
        "RemoteCommand": "none",
        "RequestTTY": "no",
    }
    user_settings = config.look_up(host.name, host.address, host.user, host.port, file)
    control_path = user_settings.get("controlpath", ("none",))[-1]
    are_sessions_shared = control_path != "none"
    if not are_sessions_shared:
        settings |= {
            "ControlMaster": "auto",
            "ControlPath": folder / "session",
            "ControlPersist": "no",
        }
    # An older ssh refuses settings that it does not know, so set only those that the
    # user has changed: ssh knows them.
    for key, default in _DEFAULTS_OF_NEWER_SSH.items():
        is_set_otherwise = key in user_settings and user_settings[key] != (default,)
        if is_set_otherwise:
            settings[key] = default
    return settings


def choose_client(host: Host, timeout_s: float) -> Client:
    """Return the client program that the host's entry names, or this machine's shell
    for `via: local`.
    """
    if host.via is Via.OPENSSH:
        return _openssh_client(host, timeout_s)
    program = "sh"
    if host.command:
        program = os.path.basename(host.command[0])  # noqa: PTH119
    client = Client(
        program=program,
        command_line=partial(_shell_command, host),
        command_to_try=f"`{shell_test_command(host)}`.",
        answer_timeout_s=timeout_s,
        failure_signs=_SIGNS_BY_PROGRAM.get(program, ()),
    )
    if host.via is Via.LOCAL:
        return replace(
            client, passes_on_end_of_file=True, reading_pause_s=_READING_PAUSE_S
        )
    return replace(client, command_to_try=client.command_to_try + _IF_BY_HAND_WORKS)


def _shell_command(host: Host, mark: str, _folder: Path) -> Sequence[str]:
    """Return the host's command that runs the loader in /bin/sh. It keeps no log."""
    return client_command(host, ("/bin/sh", "-c", shell.SCRIPT, mark))
