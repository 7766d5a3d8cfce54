"""Describes the client program of each `via` but `ssh`: its command line, and what its errors mean."""

import json
import math
import os
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from fleet.errors import AuthError, FleetError, HostKeyError, ProbeError, UnreachableError
from fleet.model import Host, HostKeyPolicy, Via
from fleet.model.client import client_command, manual_command
from fleet.remote import shell
from fleet.remote.command import Client, Sign
from fleet.remote.ssh import config_lookup

_ERRORS: Mapping[str, Callable[[str], FleetError]] = {
    "auth": AuthError,
    "connect": UnreachableError,
    "host-key": HostKeyError,
    "passing": partial(UnreachableError, passing=True),
    "probe": ProbeError,
}
# By program what it prints, the word of the error that it means, and perhaps what to do about it.
_SIGNS = {
    program: [Sign(text, _ERRORS[word], *remedy) for text, word, *remedy in signs]
    for programs, signs in json.loads(Path(__file__).with_suffix(".json").read_text()).items()
    for program in programs.split()
}
_WORKS = (
    " If that works: it may need an option that passes stdin on (-i), or, as ssh does, fleet's words as one "
    '("{shell}", the last word of `command`).'
)
_KEEPALIVE_S, _MISSED = 5, 3  # a host that answers none of so many is gone
_USER_ACTS_S = 60.0  # the user may have to touch a token
_NO_SESSION = 255  # ssh's own exit code


def _openssh_client(host: Host, timeout_s: float) -> Client:
    """Return the user's own ssh, for what paramiko cannot do; all sessions share the first one's connection.

    Raises UnreachableError without an ssh program.
    """

    def words(mark: str, folder: Path) -> tuple[str, ...]:
        ssh = _ssh_command(host, timeout_s, folder)
        return (ssh[0], "-E", str(folder / f"{mark}.log"), *ssh[1:], shell.LOADER + mark)

    return Client(
        program="ssh",
        command_line=words,
        by_hand=f"`{manual_command(host)}`.",
        signs=_SIGNS[Via.OPENSSH],
        answer_timeout_s=timeout_s + _USER_ACTS_S,
        env={"SSH_ASKPASS_REQUIRE": "never"},
        shares_first_session=True,
        ends_input=True,
        own_exit_code=_NO_SESSION,
    )


def _ssh_command(host: Host, timeout_s: float, folder: Path) -> tuple[str, ...]:
    """Return the ssh command up to the host's name, with what the inventory overrides."""
    ssh = shutil.which("ssh")
    if ssh is None:
        raise UnreachableError(f"{host.name}: `via: openssh` needs the ssh program, and PATH leads to none.")
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
    own_settings = config_lookup.look_up(host.name, host.address, host.user, host.port, file)
    if own_settings.get("controlpath", ("none",))[-1] == "none":  # else the user shares sessions already
        settings |= {"ControlMaster": "auto", "ControlPath": folder / "session", "ControlPersist": "no"}
    unwanted = {"forkafterauthentication": "no", "sessiontype": "default", "stdinnull": "no"}
    settings |= {key: value for key, value in unwanted.items() if own_settings.get(key, (value,)) != (value,)}
    return (
        ssh,
        *(("-F", file) if file else ()),
        *(word for name, value in settings.items() for word in ("-o", f"{name}={value}")),
        *(("-o", "IdentitiesOnly=yes") if host.identity_files else ()),
        *(word for path in host.identity_files for word in ("-i", os.path.expanduser(path))),  # noqa: PTH111
        *(("-J", ",".join(host.jump)) if host.jump else ()),
        *(("-p", str(host.port)) if host.port else ()),
        *(("-l", host.user) if host.user else ()),
        *("--", host.address),
    )


def choose_client(host: Host, timeout_s: float) -> Client:
    """Return the client program that the host's entry names; for this machine its shell."""
    if host.via is Via.OPENSSH:
        return _openssh_client(host, timeout_s)
    local = host.via is Via.LOCAL
    program = os.path.basename((*host.command, "sh")[0])  # noqa: PTH119
    return Client(
        program=program,
        command_line=lambda mark, _: client_command(host, shell.loader_command(mark)),
        by_hand=f"`{manual_command(host)}`." + _WORKS * (not local),
        answer_timeout_s=timeout_s,
        signs=_SIGNS.get(program, ()),
        ends_input=local,
    )
