"""Checks inventory entries that cannot work, before anything is connected to."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from fleet.agent.build.qnx_sdp import VARIANTS
from fleet.agent.build.systems import SYSTEMS
from fleet.errors import UsageError
from fleet.model import BuildPlace, Host, Target, Via

_MOST_MESSAGES = 20  # messages


def check_entries(hosts: Sequence[Host]) -> None:
    """Raise UsageError that lists every entry that cannot work on any host, with its line and what to do."""
    problems = [
        f"{host.origin or 'inventory'}: {host.name}: {why}" for host in hosts for why in _entry_problems(host)
    ]
    if problems:
        raise UsageError("\n".join(problems[:_MOST_MESSAGES]))


def _entry_problems(host: Host) -> Iterator[str]:
    binary = host.toolchain.binary
    if (
        host.build is BuildPlace.PREBUILT
        and binary is not None
        and not os.access(_expand_home(binary), os.R_OK)
    ):
        yield f"`toolchain: {{binary: {binary}}}` cannot be read here; name the prebuilt agent's file."
    files = host.identity_files
    # one half is enough for ssh-agent
    halves = [_expand_home(name) for file in files for name in (file, f"{file}.pub")]
    if files and host.via in {Via.SSH, Via.OPENSSH} and not any(half.exists() for half in halves):
        yield f"`identity_files`: none of {', '.join(files)} is there; name a key of yours, or leave it out."
    if host.os is None or host.arch is None or host.os not in SYSTEMS:
        return
    if SYSTEMS[host.os].sdp and host.arch not in VARIANTS:
        target = Target(host.os, host.arch)
        yield f"there is no compiler and no agent for {target}; correct or leave out `os` and `arch`."


def _expand_home(file: str) -> Path:
    return Path(os.path.expanduser(file))  # noqa: PTH111  raises nothing for an unknown ~user
