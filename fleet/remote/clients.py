"""The client program of each `via` but `ssh`: its words, and what it prints if it fails."""

import math
import os
import shutil
from functools import partial
from pathlib import Path

from fleet.errors import AuthError, HostKeyError, ProbeError, UnreachableError
from fleet.model import Host, HostKeyPolicy, Via
from fleet.model.client import by_hand, client_words
from fleet.remote import shell
from fleet.remote.command import Client, Sign
from fleet.remote.ssh import config_lookup

_PASSING = partial(UnreachableError, passing=True)
_NO_SHELL = "The image has no /bin/sh; use one that has it, or add busybox to it."
_CONTAINER = (
    Sign("executable file not found", ProbeError, _NO_SHELL),
    Sign("no such file or directory", ProbeError, _NO_SHELL),
    Sign("attempted to invoke a command that was not found", ProbeError, _NO_SHELL),
    Sign("is not running", UnreachableError, "Start the container."),
    Sign("on running containers", UnreachableError, "Start the container."),
    Sign("o such container", UnreachableError, "Is it running, and is `address` its name? See `ps`."),
    Sign("permission denied", AuthError, "May your user use the daemon (group docker)?"),
    Sign("Cannot connect to the Docker daemon", _PASSING, "Start the daemon, or set DOCKER_HOST."),
)
_WORKS = (
    " If that works: it may need an option that passes stdin on (-i), or, as ssh does, fleet's words as one "
    '("{shell}", the last word of `command`).'
)
_NO_CLUSTER = "Does kubeconfig name the cluster? `kubectl cluster-info`."
_OVER = "The allocation is over, as when a node fails without `salloc --no-kill`: ask for a new one."
_SIGNS = {
    "srun": (
        Sign("nodes are busy", _PASSING, "Another step holds the CPUs: is `--overlap` in `command`?"),
        Sign(
            "configuration is not available", UnreachableError, "Not in the job? `scontrol show hostnames`."
        ),
        Sign("Invalid job id", UnreachableError, "There is no such allocation: `salloc --no-shell -N ...`."),
        Sign("has expired", UnreachableError, _OVER),
        Sign("Job/step already completing", UnreachableError, _OVER),
        Sign("Communication connection failure", _PASSING, "The node is down, or its slurmd: `sinfo -R`."),
    ),
    "kubectl": (
        *_CONTAINER[:2],
        Sign("not found", UnreachableError, "Is the pod there? See `kubectl get pods`."),
        Sign("orbidden", AuthError, "Your role needs `create` for `pods/exec`."),
        Sign("nable to connect to the server", _PASSING, _NO_CLUSTER),
        Sign("The connection to the server", _PASSING, _NO_CLUSTER),
    ),
    "podman": _CONTAINER,
    "docker": _CONTAINER,
    "adb": (
        Sign("unauthorized", AuthError, "Accept this machine's key on the device."),
        Sign("offline", _PASSING, "The device does not answer: replug it, or `adb reconnect`."),
        Sign("not found", UnreachableError, "See `adb devices`."),
        Sign("more than one device", UnreachableError, 'Name one: `-s "{address}"` in `command`.'),
    ),
}
_KEEPALIVE_S, _MISSED = 5, 3  # a host that answers none of so many is gone
_USER_ACTS_S = 60.0  # the user may have to touch a token
_NO_SESSION = 255  # ssh's own exit code
_OPENSSH_SIGNS = (
    Sign("Host key verification failed", HostKeyError),
    Sign("REMOTE HOST IDENTIFICATION HAS CHANGED", HostKeyError),
    Sign("No matching host key", HostKeyError),
    Sign("Permission denied (", AuthError),
    Sign("Too many authentication failures", AuthError),
    Sign("No supported authentication methods", AuthError),
    Sign("kex_exchange_identification", _PASSING),
    Sign("banner exchange", _PASSING),
    Sign("Connection reset by", _PASSING),
    Sign("Connection closed by", _PASSING),
)


def _openssh(host: Host, timeout_s: float) -> Client:
    """The user's own ssh, for what paramiko does not know; all sessions share the first one's.

    Raises UnreachableError without an ssh.
    """

    def words(mark: str, folder: Path) -> tuple[str, ...]:
        ssh = _command(host, timeout_s, folder)
        return (ssh[0], "-E", str(folder / f"{mark}.log"), *ssh[1:], shell.LOADER + mark)

    return Client(
        program="ssh",
        words=words,
        by_hand=f"`{by_hand(host)}`.",
        signs=_OPENSSH_SIGNS,
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


def client_of(host: Host, timeout_s: float) -> Client:
    """The client program that the host's entry names; for this machine its shell."""
    if host.via is Via.OPENSSH:
        return _openssh(host, timeout_s)
    local = host.via is Via.LOCAL
    program = os.path.basename((*host.command, "sh")[0])  # noqa: PTH119
    return Client(
        program=program,
        words=lambda mark, _: client_words(host, shell.loader(mark)),
        by_hand=f"`{by_hand(host)}`." + _WORKS * (not local),
        answer_s=timeout_s,
        signs=_SIGNS.get(program, ()),
        ends_input=local,
    )
