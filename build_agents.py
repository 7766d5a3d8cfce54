"""Builds the agents that a wheel carries: `python build_agents.py FOLDER [TARGET...]`.

With zig only, which brings its C library, so that the bytes depend on its release and
not on this machine's compilers and libraries.
"""

import hashlib
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from fleet.agent.build import toolchain as tc
from fleet.agent.build.elf import explain_mismatch, read_elf
from fleet.agent.build.on_controller import compile_here, resolve_command
from fleet.agent.build.source import read_sources
from fleet.agent.build.systems import SYSTEMS, ZIG
from fleet.errors import BuildError
from fleet.model import Target

TARGETS = {
    str(target): target
    for os in SYSTEMS
    for arch in SYSTEMS[os].cross
    if (target := Target(os, arch))
}


def build(folder: Path, names: Sequence[str]) -> None:
    """Replace the agents in `folder` by those for the targets named; print each one's
    SHA-256 and target.

    Raises BuildError where zig is missing or fails, or its program could not run there
    or lacks its build id.
    """
    if unknown := [name for name in names if name not in TARGETS]:
        raise BuildError(
            f"no target {', '.join(unknown)}; there are {', '.join(TARGETS)}."
        )
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob(f"{tc.FILE_PREFIX}*"):
        stale.unlink()
    targets = [TARGETS[name] for name in names or TARGETS]
    with ThreadPoolExecutor(os.cpu_count()) as builders:  # each waits for a compiler
        built = list(builders.map(_build, targets))
    for target, (build_id, binary) in zip(targets, built, strict=True):
        (folder / tc.agent_file_name(build_id)).write_bytes(binary)
        print(f"{hashlib.sha256(binary).hexdigest()}  {target}", flush=True)  # noqa: T201  a script


def _build(target: Target) -> tuple[str, bytes]:
    files = tc.select_sources(target, read_sources()) or {}
    toolchain = next(
        t
        for t in tc.controller_toolchains(target, target, None)
        if t.command[:3] == ZIG
    )
    command = resolve_command(toolchain.command)
    if command is None:
        raise BuildError("zig is missing: pip install -r constraints-slow.txt")
    build_id = tc.build_id(files, toolchain)
    binary = compile_here(
        replace(toolchain, command=command), files, build_id, nullcontext
    )
    why = explain_mismatch(read_elf(binary), target, None)
    if why is None and build_id.encode() not in binary:
        why = f"it lacks its build id {build_id}"
    if why is not None:
        raise BuildError(f"the agent for {target} is wrong: {why}.")
    return build_id, binary


if __name__ == "__main__":
    try:
        build(Path(sys.argv[1]), sys.argv[2:])
    except BuildError as err:
        sys.exit(str(err))
