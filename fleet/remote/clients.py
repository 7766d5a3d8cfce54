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

from fleet import errors
from fleet.errors import UnreachableError
from fleet.model import Host, HostKeyPolicy, Via
from fleet.model.client import client_command, shell_test_command
from fleet.remote import shell
from fleet.remote.ssh import config

Sign = tuple[str, Callable[[str], errors.FleetError], str]
"""A text that a client prints, the error that it means, and what to do about it, if
anything.
"""


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


_ERRORS: Mapping[str, Callable[[str], errors.FleetError]] = {
    "auth": errors.AuthError,
    "connect": UnreachableError,
    "host-key": errors.HostKeyError,
    "passing": partial(UnreachableError, passing=True),
    "probe": errors.ProbeError,
}
# By program what it prints, the word of the error that it means, and perhaps what to do
# about it.
_SIGNS = {
    program: [(text, _ERRORS[word], "".join(remedy)) for text, word, *remedy in signs]
    for programs, signs in json.loads(
        Path(__file__).with_suffix(".json").read_text()
    ).items()
    for program in programs.split()
}
_WORKS = (
    " If that works: it may need an option that passes stdin on (-i), or, as ssh does,"
    ' fleet\'s words as one ("{shell}", the last word of `command`).'
)
_KEEPALIVE_S, _MISSED = 5, 3  # a host that answers none of so many is gone
_USER_ACTS_S = 60.0  # the user may have to touch a token
_NO_SESSION = 255  # ssh's own exit code


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
    key_must_be_known = host.host_key is not HostKeyPolicy.ACCEPT_NEW
    settings: dict[str, object] = {
        "BatchMode": "yes",
        "StrictHostKeyChecking": "yes" if key_must_be_known else "accept-new",
        "ConnectTimeout": max(1, math.ceil(timeout_s)),
        "ServerAliveInterval": _KEEPALIVE_S,
        "ServerAliveCountMax": _MISSED,
        "ForwardAgent": "no",
        "ForwardX11": "no",
        "ClearAllForwardings": "yes",
        "RemoteCommand": "none",
        "RequestTTY": "no",
    }
    file = os.environ.get("FLEET_SSH_CONFIG")
    own_settings = config.look_up(host.name, host.address, host.user, host.port, file)
    if (
        own_settings.get("controlpath", ("none",))[-1] == "none"
    ):  # else the user shares sessions already
        settings |= {
            "ControlMaster": "auto",
            "ControlPath": folder / "session",
            "ControlPersist": "no",
        }
    unwanted = {
        "forkafterauthentication": "no",
        "sessiontype": "default",
        "stdinnull": "no",
    }
    settings |= {
        key: value
        for key, value in unwanted.items()
        if own_settings.get(key, (value,)) != (value,)
    }
    return (
        *(ssh, "-E", str(folder / f"{mark}.log")),
        *(("-F", file) if file else ()),
        *(
            word
            for name, value in settings.items()
            for word in ("-o", f"{name}={value}")
        ),
        *(("-o", "IdentitiesOnly=yes") if host.identity_files else ()),
        *(
            word
            for path in host.identity_files
            for word in ("-i", os.path.expanduser(path))  # noqa: PTH111
        ),
        *(("-J", ",".join(host.jump)) if host.jump else ()),
        *(("-p", str(host.port)) if host.port else ()),
        *(("-l", host.user) if host.user else ()),
        *("--", host.address, shell.LOADER + mark),
    )


def choose_client(host: Host, timeout_s: float) -> Client:
    """Return the client program that the host's entry names, or this machine's shell
    for `via: local`.
    """
    if host.via is Via.OPENSSH:
        return _openssh_client(host, timeout_s)
    local = host.via is Via.LOCAL
    program = os.path.basename((*host.command, "sh")[0])  # noqa: PTH119
    return Client(
        program=program,
        command_line=lambda mark, _: client_command(
            host, ("/bin/sh", "-c", shell.SCRIPT, mark)
        ),
        by_hand=f"`{shell_test_command(host)}`." + _WORKS * (not local),
        answer_timeout_s=timeout_s,
        signs=_SIGNS.get(program, ()),
        ends_input=local,
    )
