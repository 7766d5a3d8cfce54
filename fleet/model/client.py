"""The words that start a client program for a host without SSH, and those that have a name (`via: srun`)."""

import os
import re
import shlex
from collections.abc import Sequence

from fleet.model.host import Host, Via

# What `command:` stands for where the inventory gives none. docs/remote.md lists more for other programs.
PRESETS = {
    "srun": (
        *("srun", "--overlap", "-N1", "-n1", "--mem=0", "--cpu-bind=none", "--immediate=10"),
        *("--quit-on-interrupt", "--jobid={env:SLURM_JOB_ID}", "--nodelist={address}"),
    ),
    "kubectl": (
        *("kubectl", "exec", "-i", "--quiet", "--namespace={label:namespace?}"),
        *("--container={label:container?}", "{address}", "--"),
    ),
    "podman": ("podman", "exec", "-i", "{address}"),
    "docker": ("docker", "exec", "-i", "{address}"),
}
_ADVICE = {"user": "set `user`", "port": "set `port`", "label": "set the label", "env": "set the variable"}
_TEMPLATE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def client_words(host: Host, shell: Sequence[str]) -> tuple[str, ...]:
    """The words that run `shell`, in place of `{shell}` or last. ValueError: a template has no value."""
    words = [_filled(word, host, shlex.join(shell)) for word in host.command]
    joined = any("shell" in _TEMPLATE.findall(word) for word in host.command)
    return tuple(word for word in words if word is not None) + (() if joined else tuple(shell))


def by_hand(host: Host) -> str:
    """The command that asks a host's shell without fleet."""
    if host.command or host.via is Via.LOCAL:
        return shlex.join(client_words(host, ("/bin/sh", "-c", "uname")))
    jump, port = ("-J", ",".join(host.jump)), ("-p", str(host.port))
    keys = (word for file in host.identity_files for word in ("-i", file))
    to = f"{host.user}@{host.address}" if host.user else host.address
    given = (*(jump if host.jump else ()), *(port if host.port else ()), *keys)
    return shlex.join(["ssh", *given, to, "/bin/sh -c uname"])


def _filled(word: str, host: Host, shell: str) -> str | None:
    """The word with its templates replaced; None if one that ends in `?` has no value."""
    left_out = False

    def value(found: re.Match[str]) -> str:
        nonlocal left_out
        if found[0] in {"{{", "}}"}:
            return found[0][0]
        name = (found[1] or "").removesuffix("?")
        text = shell if name == "shell" else _value(name, found[0], host)
        if text is None and found[0].endswith("?}"):
            left_out = True
        elif text is None:
            raise ValueError(f"{host.name}: nothing to put for {found[0]}; {_ADVICE[name.partition(':')[0]]}")
        elif text.startswith("-") and not found.start():
            raise ValueError(
                f"{host.name}: {found[0]} is {text!r}, which the program would take as an option"
            )
        return text or ""

    filled = _TEMPLATE.sub(value, word)
    return None if left_out else filled


def _value(name: str, written: str, host: Host) -> str | None:
    kind, _, key = name.partition(":")
    port = str(host.port) if host.port else None
    known = {"name": host.name, "address": host.address, "user": host.user, "port": port}
    if kind == "label" and key:
        return host.labels.get(key)
    if kind == "env" and key:
        return os.environ.get(key)
    if name in known:
        return known[name]
    raise ValueError(
        f"no template {written}; known are {{name}}, {{address}}, {{user}}, {{port}}, {{label:KEY}}, "
        "{env:NAME} and {shell}, and {{ is a brace"
    )
