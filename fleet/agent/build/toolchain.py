"""Chooses compilers and flags for a target and names builds; pure. `on_controller` and
`on_host` run them.
"""

import hashlib
import json
import re
from collections import defaultdict
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
TIMED = ("bench/", "burst/samples.", "burst/worker.")
"""How the paths of files begin that run while the time is taken, as do native/'s of an
architecture.
"""
FAST_COMPILE_FLAG = "-O1"
"""For files that are not timed: compiling takes two thirds of the time of -O2."""
Sources = Mapping[str, bytes]
"""The agent's files, by path in its folder."""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A compiler's command and flags for a target."""

    name: str  # for messages
    command: tuple[str, ...]
    cflags: tuple[str, ...]
    target: Target
    build_id_salt: str = ""  # what else the build ID depends on, as the OS's release
    # variables to set beside those of this process
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def files_to_compile(self, sources: Sources, build: str) -> dict[str, bytes]:
        """Return the agent's files, the C files of `merge_untimed_files`, which are
        compiled instead of those that they include, and a header that defines the build
        ID and the flags.

        A header defines them because qcc may split the value of a -D option at its
        blanks.
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
        timed_files = self.list_timed_files(sources)
        merged_files = self.merge_untimed_files(sources)
        compiler = (*self.command, *self.cflags, "-I.")
        return (*compiler, "-o", output, *merged_files, *timed_files)

    def list_timed_files(self, sources: Sources) -> list[str]:
        """List the C files that run while the time is taken."""
        arch = self.target.arch
        timed = (*TIMED, f"native/{arch}.", f"native/{arch}_", "native/generic.")
        return sorted(
            name for name in sources if name.endswith(".c") and name.startswith(timed)
        )

    def merge_untimed_files(self, sources: Sources) -> dict[str, bytes]:
        """Return for each folder of the sources one C file that includes the folder's
        untimed C files, those that do not run while the time is taken. Each folder is a
        room of the agent: for the folder "plan" that is "room_plan.c", with lines such
        as `#include "plan/make.c"`. Few compilations ("unity builds") end sooner than
        many.
        """
        c_files = {name for name in sources if name.endswith(".c")}
        untimed_files = c_files.difference(self.list_timed_files(sources))
        text_by_merged_file = defaultdict[str, bytes](bytes)
        for name in sorted(untimed_files):
            folder, _, _ = name.rpartition("/")
            merged_file = f"room_{folder}.c" if folder else "room_main.c"
            text_by_merged_file[merged_file] += f'#include "{name}"\n'.encode()
        return dict(text_by_merged_file)


def host_toolchain(
    command: str, target: Target, extra: Sequence[str] = ()
) -> Toolchain:
    """Return the toolchain of a compiler on the host itself. It needs no flag such as
    -static: what the compiler links by default runs there.
    """
    cflags = (*SYSTEMS[target.os].cflags, *extra)
    return Toolchain(f"{command} on the host", tuple(command.split()), cflags, target)


def controller_toolchains(
    target: Target, controller: Target, compiler: str | None, extra: Sequence[str] = ()
) -> list[Toolchain]:
    """Return the toolchains to try on the controller, best first. First come those that
    link a static agent. For a host like this machine, cc without -static is the last.
    compiler: the only one to try, or None. extra: more cflags.
    """
    system = SYSTEMS[target.os]
    # -s leaves the symbols out, so that a tenth of the bytes is to be sent
    static = (*system.cflags, "-static", "-s", *extra)
    if compiler is not None:
        return [Toolchain(f"{compiler} on the controller", (compiler,), static, target)]
    is_native = target == controller
    commands = list[tuple[str, ...]]()
    if is_native:
        commands += [("cc",), ("gcc",), ("clang",)]
    commands += system.cross.get(target.arch, ())
    toolchains = [
        Toolchain(f"{' '.join(command)} on the controller", command, static, target)
        for command in commands
    ]
    if is_native:
        name = "cc on the controller (not static)"
        toolchains.append(Toolchain(name, ("cc",), (*system.cflags, *extra), target))
    return toolchains


def select_sources(target: Target, files: Sources) -> dict[str, bytes] | None:
    """Return the files that a target is built from; None if the agent does not support
    the target.
    """
    os_file = f"native/{target.os}"
    arch_file = f"native/{target.arch}"
    if f"{os_file}.c" not in files or f"{arch_file}.c" not in files:
        return None
    # such as native/linux.c and native/linux_memory.c
    own_prefixes = (
        "native/generic.",
        f"{os_file}.",
        f"{os_file}_",
        f"{arch_file}.",
        f"{arch_file}_",
    )
    selected = dict[str, bytes]()
    for name, text in files.items():
        is_of_one_target = name.startswith("native/") and not name.endswith(".h")
        if not is_of_one_target or name.startswith(own_prefixes):
            selected[name] = text
    return selected


def select_small_agent_if_enough(
    sources: Sources, benchmarks: Collection[str] | None
) -> dict[str, bytes]:
    """Return the sources of the small agent, which is built faster, if it has all
    `benchmarks`; else all sources. None stands for all benchmarks.
    """
    if benchmarks is None or not set(benchmarks).issubset(SMALL):
        return dict(sources)
    needed = {f"bench/{name}.c" for name in (*SMALL, "all", "bench", "sizes")}
    selected = dict[str, bytes]()
    for name, text in sources.items():
        is_of_benchmark = name.startswith("bench/") and name.endswith(".c")
        if name in needed or not is_of_benchmark:
            selected[name] = text
    selected[BENCHMARK_LIST] = _render_benchmark_list(SMALL)
    return selected


def _render_benchmark_list(names: Iterable[str]) -> bytes:
    """Return the header that lists benchmarks as an X macro: the C files define X for
    what they make of each benchmark.
    """
    words = " ".join(f"X({name})" for name in names)
    return f"#define BENCHMARKS(X) {words}\n".encode()


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
    """Hash sources, target, salt, compiler command and flags; return 16 hex digits."""
    words = (
        f"{toolchain.target}{toolchain.build_id_salt}",
        *toolchain.command,
        *toolchain.cflags,
    )
    return _hash_build(tuple(sorted(sources.items())), words)


@once
def _hash_build(sources: tuple[tuple[str, bytes], ...], words: tuple[str, ...]) -> str:
    """Hash the words of a build and the (path, text) of each source; return 16 hex
    digits. A null byte ends each word, path and length, so that no two builds hash the
    same bytes.
    """
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
    """Return the first of the file names that is of an agent of this build, with or
    without a hash; None if there is no such name.
    """
    pattern = re.compile(f"{FILE_PREFIX}{build}{_HASH}?")
    return next((name for name in names if pattern.fullmatch(name)), None)


def hide_damaged_agents(facts: Facts) -> tuple[Facts, list[str]]:
    """Return the facts without the damaged agents, and the names of these. A name is
    "fleet-agent-BUILD-HASH"; an agent is damaged if the SHA-256 of its content does not
    begin with HASH. A name without HASH tells nothing.
    """
    name_with_hash = re.compile(f"{FILE_PREFIX}[0-9a-f]+{_HASH}")
    damaged = list[str]()
    for name, digest in facts.workdir_hashes.items():
        hash_in_name = name[-HASH_DIGITS:]
        is_checkable = name_with_hash.fullmatch(name) is not None
        if is_checkable and not digest.startswith(hash_in_name):
            damaged.append(name)
    entries = tuple(name for name in facts.workdir_entries if name not in damaged)
    return replace(facts, workdir_entries=entries), damaged
