"""Chooses compilers and flags for a target and names builds; pure. `on_controller` and `on_host` run them."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from fleet.agent.build.systems import SYSTEMS
from fleet.model import Facts, Target
from fleet.once import once

FILE_PREFIX, HASH_DIGITS = "fleet-agent-", 16
_HASH = f"(-[0-9a-f]{{{HASH_DIGITS}}})"
BUILD_FACTS = "base/build_facts.h"
ZIG = ("python", "-m", "ziglang")
"""The ziglang package in the controller's own Python; `on_controller` puts in that interpreter's path."""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A compiler command and flags for one target; `name` is for people. release: where no other would do."""

    name: str
    command: tuple[str, ...]
    cflags: tuple[str, ...]
    target: Target
    release: str = ""
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def sources(self, sources: Mapping[str, bytes], build: str) -> dict[str, bytes]:
        """The files to compile, with a header for build id and flags, since qcc may split a quoted -D."""
        defines = {"FLEET_BUILD_ID": build, "FLEET_CFLAGS": " ".join(self.cflags)}
        header = "".join(f"#define {name} {_c_string(value)}\n" for name, value in defines.items())
        return {**sources, BUILD_FACTS: header.encode()}

    def arguments(self, sources: Iterable[str], output: str) -> tuple[str, ...]:
        """The whole command line that makes `output` from the C files among `sources`."""
        units = (name for name in sources if name.endswith(".c"))
        return (*self.command, *self.cflags, "-I.", "-o", output, *units)


def on_host(command: str, target: Target, extra: Sequence[str] = ()) -> Toolchain:
    """A compiler on the host itself: whatever it links by default runs there."""
    cflags = (*SYSTEMS[target.os].cflags, *extra)
    return Toolchain(f"{command} on the host", tuple(command.split()), cflags, target)


def on_controller(
    target: Target, controller: Target, compiler: str | None, extra: Sequence[str] = ()
) -> list[Toolchain]:
    """Toolchains worth trying on the controller, best first, static but for the last. compiler: only it."""
    flags = SYSTEMS[target.os].cflags
    static = (*flags, "-static", "-s", *extra)  # stripped: a tenth of the size to send
    if compiler is not None:
        return [Toolchain(f"{compiler} on the controller", (compiler,), static, target)]
    cross = SYSTEMS[target.os].cross.get(target.arch)
    commands: list[tuple[str, ...]] = []
    if target == controller:
        commands += [("cc",), ("gcc",), ("clang",)]
    if cross is not None:
        commands += [(f"{prefix}-gcc",) for prefix in cross.gcc]
        commands += [("zig", "cc", "-target", *cross.zig)]
    found = [Toolchain(f"{' '.join(c)} on the controller", c, static, target) for c in commands]
    if cross is not None:
        found.append(zig(target, extra))
    if target == controller:
        found.append(Toolchain("cc on the controller (not static)", ("cc",), (*flags, *extra), target))
    return found


def zig(target: Target, extra: Sequence[str] = ()) -> Toolchain:
    """The ziglang package in the controller's Python, linking statically. Raises KeyError where it cannot."""
    system = SYSTEMS[target.os]
    command = (*ZIG, "cc", "-target", *system.cross[target.arch].zig)
    flags = (*system.cflags, "-static", "-s", *extra)
    return Toolchain(f"{' '.join(command)} on the controller", command, flags, target)


def sources_for(target: Target, files: Mapping[str, bytes]) -> dict[str, bytes] | None:
    """Pick from the agent's files those a target is built from; None if it has no file of its own."""
    own = (f"native/{target.os}.c", f"native/{target.arch}.c")
    if any(name not in files for name in own):
        return None
    more = (f"native/{target.os}_", f"native/{target.arch}_")
    wanted = {*own, "native/generic.c"}
    return {
        name: text
        for name, text in files.items()
        if name.endswith(".h") or not name.startswith("native/") or name in wanted or name.startswith(more)
    }


def targets(files: Mapping[str, bytes]) -> list[str]:
    """Name what the agent's files can be built for, for error messages: every file in native/."""
    names = (name.removeprefix("native/") for name in files if name.startswith("native/"))
    stems = {name.removesuffix(".c") for name in names if name.endswith(".c") and name != "generic.c"}
    return sorted(stem for stem in stems if not any(stem.startswith(f"{other}_") for other in stems))


def build_id(sources: Mapping[str, bytes], toolchain: Toolchain) -> str:
    """Name a build by its content: sources, target, release, compiler command, flags. 16 hex digits."""
    words = (f"{toolchain.target}{toolchain.release}", *toolchain.command, *toolchain.cflags)
    return _build_id(tuple(sorted(sources.items())), words)


@once
def _build_id(sources: tuple[tuple[str, bytes], ...], words: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for word in words:
        digest.update(word.encode() + b"\0")
    for name, text in sources:
        digest.update(f"{name}\0{len(text)}\0".encode() + text)
    return digest.hexdigest()[:16]


def file_name(build: str, binary: bytes | None = None) -> str:
    """The agent's name on a host: its build and, if known, a hash of its content, which nobody can guess."""
    return f"{FILE_PREFIX}{build}-{_content(binary)}" if binary else f"{FILE_PREFIX}{build}"


@once
def _content(binary: bytes) -> str:
    return hashlib.sha256(binary).hexdigest()[:HASH_DIGITS]


def found(build: str, names: Iterable[str]) -> str | None:
    """The first of these names that an agent of that build has, with a hash or without; None if none is."""
    pattern = re.compile(f"{FILE_PREFIX}{build}{_HASH}?")
    return next((name for name in names if pattern.fullmatch(name)), None)


def changed(facts: Facts) -> list[str]:
    """The agents in a host's directory whose content is not that of their names."""
    return [
        name
        for name, digest in facts.workdir_hashes.items()
        if re.fullmatch(f"{FILE_PREFIX}[0-9a-f]+{_HASH}", name) and not digest.startswith(name[-HASH_DIGITS:])
    ]


def _c_string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
