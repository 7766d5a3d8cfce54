"""Chooses compilers and flags for a target and names builds; pure. `on_controller` and
`on_host` run them.
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from fleet.agent.build.systems import SYSTEMS
from fleet.late import once
from fleet.model import Facts, Target

FILE_PREFIX = "fleet-agent-"
HASH_DIGITS = 16
_HASH = f"(-[0-9a-f]{{{HASH_DIGITS}}})"
BUILD_FACTS = "base/build_facts.h"
BENCHMARK_LIST = "bench/list.h"
SMALL = ("cas", "readwrite", "clock")
"""The benchmarks of the small agent, which is built on a host for a plan that needs no
others.
"""
LOOPS = ("bench/", "burst/samples.", "burst/worker.")
"""Files that run while the time is taken, as do native/'s of an architecture."""
ROOM_FLAG = "-O1"  # takes two thirds of the time of -O2
Sources = Mapping[str, bytes]
"""The agent's files, by path in its folder."""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A compiler's command and flags for a target. name: for messages. release: the
    OS's, if it matters.
    """

    name: str
    command: tuple[str, ...]
    cflags: tuple[str, ...]
    target: Target
    release: str = ""
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def files_to_compile(self, sources: Sources, build: str) -> dict[str, bytes]:
        """Return the sources, a C file per folder, and a header for build ID and flags:
        qcc may split -D.
        """
        defines = {"FLEET_BUILD_ID": build, "FLEET_CFLAGS": " ".join(self.cflags)}
        header = "".join(
            f"#define {name} {json.dumps(value, ensure_ascii=False)}\n"
            for name, value in defines.items()
        )
        return {
            **sources,
            BUILD_FACTS: header.encode(),
            **self.merge_untimed_files(sources),
        }

    def command_line(self, sources: Sources, output: str) -> tuple[str, ...]:
        """Return one command that compiles the sources to `output`."""
        loops = self.list_timed_files(sources)
        rooms = self.merge_untimed_files(sources)
        return (*self.command, *self.cflags, "-I.", "-o", output, *rooms, *loops)

    def list_timed_files(self, sources: Sources) -> list[str]:
        """List the C files that run while the time is taken."""
        arch = self.target.arch
        timed = (*LOOPS, f"native/{arch}.", f"native/{arch}_", "native/generic.")
        return sorted(
            name for name in sources if name.endswith(".c") and name.startswith(timed)
        )

    def merge_untimed_files(self, sources: Sources) -> dict[str, bytes]:
        """Return, to speed up the build, a C file per folder that includes the folder's
        untimed C files.
        """
        rooms = dict[str, bytes]()
        untimed = {name for name in sources if name.endswith(".c")}
        untimed.difference_update(self.list_timed_files(sources))
        for name in sorted(untimed):
            folder, _, _ = name.rpartition("/")
            room = f"room_{folder or 'main'}.c"
            line = f'#include "{name}"\n'.encode()
            rooms[room] = rooms.get(room, b"") + line
        return rooms


def host_toolchain(
    command: str, target: Target, extra: Sequence[str] = ()
) -> Toolchain:
    """Return the toolchain of a compiler on the host itself: what it links by default
    runs there.
    """
    cflags = (*SYSTEMS[target.os].cflags, *extra)
    return Toolchain(f"{command} on the host", tuple(command.split()), cflags, target)


def controller_toolchains(
    target: Target, controller: Target, compiler: str | None, extra: Sequence[str] = ()
) -> list[Toolchain]:
    """Return the toolchains to try on the controller, best first. compiler: the only
    one to try.
    """
    flags = SYSTEMS[target.os].cflags
    static = (*flags, "-static", "-s", *extra)  # stripped: a tenth of the size to send
    if compiler is not None:
        return [Toolchain(f"{compiler} on the controller", (compiler,), static, target)]
    is_native = target == controller
    commands = list[tuple[str, ...]]()
    if is_native:
        commands += [("cc",), ("gcc",), ("clang",)]
    commands += SYSTEMS[target.os].cross.get(target.arch, ())
    toolchains = [
        Toolchain(f"{' '.join(command)} on the controller", command, static, target)
        for command in commands
    ]
    if is_native:
        name = "cc on the controller (not static)"
        toolchains.append(Toolchain(name, ("cc",), (*flags, *extra), target))
    return toolchains


def select_sources(target: Target, files: Sources) -> dict[str, bytes] | None:
    """Return the files that a target is built from; None if the agent does not support
    the target.
    """
    names = (f"native/{target.os}", f"native/{target.arch}")
    if any(f"{name}.c" not in files for name in names):
        return None
    # such as native/linux.c and native/linux_memory.c
    prefixes = ["native/generic."]
    for name in names:
        prefixes += [f"{name}.", f"{name}_"]

    def is_for_target(name: str) -> bool:
        is_native = name.startswith("native/") and not name.endswith(".h")
        return not is_native or name.startswith(tuple(prefixes))

    return {name: text for name, text in files.items() if is_for_target(name)}


def select_small_agent_if_enough(
    sources: Sources, benchmarks: Collection[str] | None
) -> dict[str, bytes]:
    """Return the sources of the small agent, built faster, if it has all `benchmarks`;
    else all sources.
    """
    if benchmarks is None or not set(benchmarks).issubset(SMALL):
        return dict(sources)
    needed = {f"bench/{name}.c" for name in (*SMALL, "all", "bench", "sizes")}
    selected = dict[str, bytes]()
    for name, text in sources.items():
        is_of_benchmark = name.startswith("bench/") and name.endswith(".c")
        if name in needed or not is_of_benchmark:
            selected[name] = text
    # an X macro: the sources define X for what they make of each benchmark
    words = " ".join(f"X({name})" for name in SMALL)
    macro = f"#define BENCHMARKS(X) {words}\n"
    selected[BENCHMARK_LIST] = macro.encode()
    return selected


def list_targets(files: Sources) -> list[str]:
    """Return the names of the OSs and architectures that the agent supports, for error
    messages.
    """
    stems = set[str]()
    for name in files:
        match = re.fullmatch(r"native/(.+)\.c", name)
        if match is not None and match[1] != "generic":
            stems.add(match[1])
    # a target may have further files, such as aarch64_sve.c
    further = {
        stem for stem in stems for other in stems if stem.startswith(f"{other}_")
    }
    return sorted(stems - further)


def build_id(sources: Sources, toolchain: Toolchain) -> str:
    """Hash sources, target, release, compiler command and flags; return 16 hex
    digits.
    """
    words = (
        f"{toolchain.target}{toolchain.release}",
        *toolchain.command,
        *toolchain.cflags,
    )
    return _build_id(tuple(sorted(sources.items())), words)


@once
def _build_id(sources: tuple[tuple[str, bytes], ...], words: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for word in words:
        digest.update(word.encode() + b"\0")
    for name, text in sources:
        digest.update(f"{name}\0{len(text)}\0".encode() + text)
    return digest.hexdigest()[:16]


@once
def agent_file_name(build: str, binary: bytes | None = None) -> str:
    """Return the agent's file name on a host: its build ID and, given the binary, a
    hash of its content.
    """
    name = f"{FILE_PREFIX}{build}"
    if not binary:
        return name
    digest = hashlib.sha256(binary).hexdigest()
    return f"{name}-{digest[:HASH_DIGITS]}"


def find_agent_of_build(build: str, names: Iterable[str]) -> str | None:
    """Return the first file name that is an agent of this build, with or without a
    hash; None if none is.
    """
    pattern = re.compile(f"{FILE_PREFIX}{build}{_HASH}?")
    return next((name for name in names if pattern.fullmatch(name)), None)


def hide_damaged_agents(facts: Facts) -> tuple[Facts, list[str]]:
    """Return the facts without agents that contradict the hash in their name, and the
    names removed.
    """
    has_hash = re.compile(f"{FILE_PREFIX}[0-9a-f]+{_HASH}").fullmatch
    mismatched = [
        name
        for name, digest in facts.workdir_hashes.items()
        if has_hash(name) and not digest.startswith(name[-HASH_DIGITS:])
    ]
    entries = tuple(name for name in facts.workdir_entries if name not in mismatched)
    return replace(facts, workdir_entries=entries), mismatched
