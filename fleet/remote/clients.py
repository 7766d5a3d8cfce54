"""The client program of each `via` but `ssh`, known by its name: its words, what it prints if it fails."""

import os
from functools import partial

from fleet.errors import AuthError, ProbeError, UnreachableError
from fleet.model import Host, Via
from fleet.model.client import by_hand, client_words
from fleet.remote import shell
from fleet.remote.command import Client, Sign
from fleet.remote.openssh import openssh

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


def client_of(host: Host, timeout_s: float) -> Client:
    """The client program that the host's entry names; for this machine its shell."""
    if host.via is Via.OPENSSH:
        return openssh(host, timeout_s)
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
