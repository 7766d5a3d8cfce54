"""Renders client commands for hosts without SSH: the inventory's own, or presets such
as `via: srun`.
"""

import os
import re
import shlex
from collections.abc import Sequence

from fleet.model.errors import InputError
from fleet.model.host import Host, Via

# What `command:` stands for where the inventory gives none. docs/remote.md lists more
# for other programs.
PRESETS = {
    "srun": (
        *(
            "srun",
            "--overlap",
            "-N1",
            "-n1",
            "--mem=0",
            "--cpu-bind=none",
            "--immediate=10",
        ),
        *("--quit-on-interrupt", "--jobid={env:SLURM_JOB_ID}", "--nodelist={address}"),
    ),
    "kubectl": (
        *("kubectl", "exec", "-i", "--quiet", "--namespace={label:namespace?}"),
        *("--container={label:container?}", "{address}", "--"),
    ),
    "podman": ("podman", "exec", "-i", "{address}"),
    "docker": ("docker", "exec", "-i", "{address}"),
}
_ADVICE = {
    "user": "set `user`",
    "port": "set `port`",
    "label": "set the label",
    "env": "set the variable",
}
_TEMPLATE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def client_command(host: Host, shell: Sequence[str]) -> tuple[str, ...]:
    """Return the host's command, with `shell` in place of `{shell}` or appended. Raises
    InputError.
    """
    words = [_fill_template(word, host, shlex.join(shell)) for word in host.command]
    joined = any("shell" in _TEMPLATE.findall(word) for word in host.command)
    return tuple(word for word in words if word is not None) + (
        () if joined else tuple(shell)
    )


def shell_test_command(host: Host) -> str:
    """Return the command by which people can test a host's shell without fleet."""
    if host.command or host.via is Via.LOCAL:
        return shlex.join(client_command(host, ("/bin/sh", "-c", "uname")))
    jump, port = ("-J", ",".join(host.jump)), ("-p", str(host.port))
    keys = (word for file in host.identity_files for word in ("-i", file))
    to = f"{host.user}@{host.address}" if host.user else host.address
    options = (*(jump if host.jump else ()), *(port if host.port else ()), *keys)
    return shlex.join(["ssh", *options, to, "/bin/sh -c uname"])


def _fill_template(word: str, host: Host, shell: str) -> str | None:
    """Replace a word's templates; return None if an optional one, `{…?}`, has no value.
    Raises InputError.
    """
    values = {
        "name": host.name,
        "address": host.address,
        "user": host.user,
        "shell": shell,
    }
    values["port"] = str(host.port) if host.port else None
    left_out = False

    def replace_template(match: re.Match[str]) -> str:
        nonlocal left_out
        if match[0] in {"{{", "}}"}:
            return match[0][0]
        name = (match[1] or "").removesuffix("?")
        kind, _, key = name.partition(":")
        if name not in values and not (kind in ("label", "env") and key):
            raise InputError(
                f"{match[0]} is not a template; there are {{name}}, {{address}},"
                " {user}, {port}, {label:KEY}, {env:NAME} and {shell}, and"
                " {{ is a brace"
            )
        named = {"label": host.labels, "env": os.environ}.get(kind, values)
        text = named.get(key or name)
        if text is None and match[0].endswith("?}"):
            left_out = True
        elif text is None:
            raise InputError(f"{host.name}: no value for {match[0]}; {_ADVICE[kind]}")
        elif text.startswith("-") and not match.start():
            raise InputError(
                f"{host.name}: {match[0]} is {text!r}, an option to the program"
            )
        return text or ""

    filled = _TEMPLATE.sub(replace_template, word)
    return None if left_out else filled
