"""The user's own `ssh` (`via: openssh`): its words and failures; for what paramiko does not know."""

import math
import os
import shlex
import shutil
from functools import partial
from pathlib import Path

from fleet.errors import AuthError, HostKeyError, UnreachableError
from fleet.model import Host, HostKeyPolicy
from fleet.remote import shell
from fleet.remote.command import Client, Sign
from fleet.remote.ssh import config_lookup

_KEEPALIVE_S, _MISSED = 5, 3  # a host that answers none of so many is gone
_USER_ACTS_S = 60.0  # the user may have to touch a token
_NO_SESSION = 255  # ssh's own exit code
_BUSY = partial(UnreachableError, passing=True)
_SIGNS = (
    Sign("Host key verification failed", HostKeyError),
    Sign("REMOTE HOST IDENTIFICATION HAS CHANGED", HostKeyError),
    Sign("No matching host key", HostKeyError),
    Sign("Permission denied (", AuthError),
    Sign("Too many authentication failures", AuthError),
    Sign("No supported authentication methods", AuthError),
    Sign("kex_exchange_identification", _BUSY),
    Sign("banner exchange", _BUSY),
    Sign("Connection reset by", _BUSY),
    Sign("Connection closed by", _BUSY),
)


def openssh(host: Host, timeout_s: float) -> Client:
    """The client for a host; all sessions share the first one's. UnreachableError without an ssh."""

    def words(mark: str, folder: Path) -> tuple[str, ...]:
        ssh = _command(host, timeout_s, folder)
        return (ssh[0], "-E", str(folder / f"{mark}.log"), *ssh[1:], shell.LOADER + mark)

    return Client(
        program="ssh",
        words=words,
        by_hand=f"`{_by_hand(_command(host, timeout_s, Path()))}`.",
        signs=_SIGNS,
        answer_s=timeout_s + _USER_ACTS_S,
        env={"SSH_ASKPASS_REQUIRE": "never"},
        shares=True,
        ends_input=True,
        own_code=_NO_SESSION,
    )


def _command(host: Host, timeout_s: float, folder: Path) -> tuple[str, ...]:
    """The ssh command up to the host's name: the user's configuration, and what the inventory overrides."""
    ssh = shutil.which("ssh")
    if ssh is None:
        raise UnreachableError(f"{host.name}: `via: openssh` needs the ssh program, and PATH leads to none.")
    known = host.host_key is not HostKeyPolicy.ACCEPT_NEW
    settings: dict[str, object] = {
        "BatchMode": "yes",
        "StrictHostKeyChecking": "yes" if known else "accept-new",
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
    own = config_lookup.lookup(host.name, host.address, host.user, host.port, file)
    if own.get("controlpath", ("none",))[-1] == "none":  # else the user shares sessions already
        settings |= {"ControlMaster": "auto", "ControlPath": folder / "session", "ControlPersist": "no"}
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


def _by_hand(ssh: tuple[str, ...]) -> str:
    """The command for a person to try: without the settings that matter to a program only."""
    settings = {at + offset for at, word in enumerate(ssh) if word == "-o" for offset in (0, 1)}
    words = [word for at, word in enumerate(ssh) if at and at not in settings]
    return shlex.join(["ssh", *words, "/bin/sh -c uname"])
