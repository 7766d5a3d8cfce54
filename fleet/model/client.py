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
        "srun",
        "--overlap",
        "-N1",
        "-n1",
        "--mem=0",
        "--cpu-bind=none",
        "--immediate=10",
        "--quit-on-interrupt",
        "--jobid={env:SLURM_JOB_ID}",
        "--nodelist={address}",
    ),
    "kubectl": (
        "kubectl",
        "exec",
        "-i",
        "--quiet",
        "--namespace={label:namespace?}",
        "--container={label:container?}",
        "{address}",
        "--",
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
_TEMPLATES_THERE_ARE = (
    "there are {name}, {address}, {user}, {port}, {label:KEY}, {env:NAME} and {shell},"
    " and {{ is a brace"
)


def client_command(host: Host, shell: Sequence[str]) -> tuple[str, ...]:
    """Return the words of the host's command, with its templates filled in. A word with
    an optional template that has no value is left out. Raises InputError.

    shell: the words of the shell's command. They replace `{shell}`, as one text; if no
    word of the host's command has that template, they are added at the end.
    """
    shell_text = shlex.join(shell)
    words: list[str] = []
    for word in host.command:
        filled_word = _fill_templates(word, host, shell_text)
        if filled_word is not None:
            words.append(filled_word)
    templates_of_words = [_TEMPLATE.findall(word) for word in host.command]
    if not any("shell" in names for names in templates_of_words):
        words += shell
    return tuple(words)


def shell_test_command(host: Host) -> str:
    """Return the command by which people can test a host's shell without fleet, such as
    `ssh -p 2222 ann@h1 '/bin/sh -c uname'`.
    """
    if host.command or host.via is Via.LOCAL:
        return shlex.join(client_command(host, ("/bin/sh", "-c", "uname")))
    words = ["ssh"]
    if host.jump:
        words += ["-J", ",".join(host.jump)]
    if host.port:
        words += ["-p", str(host.port)]
    for file in host.identity_files:
        words += ["-i", file]
    target = host.address
    if host.user:
        target = f"{host.user}@{host.address}"
    words += [target, "/bin/sh -c uname"]
    return shlex.join(words)


def _fill_templates(word: str, host: Host, shell: str) -> str | None:
    """Replace a word's templates; return None if an optional one, `{…?}`, has no value.
    Raises InputError.
    """
    # look up all values first: a wrong template is an error even in a word that is left
    # out for another
    values = [
        _find_template_value(match, host, shell) for match in _TEMPLATE.finditer(word)
    ]
    texts = [value for value in values if value is not None]
    if len(texts) < len(values):
        return None
    texts_in_order = iter(texts)  # one for each template
    return _TEMPLATE.sub(lambda _: next(texts_in_order), word)


def _find_template_value(match: re.Match[str], host: Host, shell: str) -> str | None:
    """Return the text that replaces a template such as `{user}`, `{label:KEY}` or
    `{env:NAME}`; None for an optional one, as `{user?}`, that has no value. Raises
    InputError.
    """
    template = match[0]
    if template in ("{{", "}}"):
        return template[0]
    # what stands between the braces; None for a brace that has no partner
    name = (match[1] or "").removesuffix("?")
    kind, _, key = name.partition(":")
    values = {
        "name": host.name,
        "address": host.address,
        "user": host.user,
        "port": str(host.port) if host.port else None,
        "shell": shell,
    }
    if kind == "label" and key:
        text = host.labels.get(key)
    elif kind == "env" and key:
        text = os.environ.get(key)
    elif name in values:
        text = values[name]
    else:
        raise InputError(f"{template} is not a template; {_TEMPLATES_THERE_ARE}")
    if text is None and not template.endswith("?}"):
        raise InputError(f"{host.name}: no value for {template}; {_ADVICE[kind]}")
    # the program would take a word that begins with - as an option of its own
    if text is not None and text.startswith("-") and match.start() == 0:
        raise InputError(
            f"{host.name}: {template} is {text!r}, an option to the program"
        )
    return text
