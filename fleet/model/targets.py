"""The operating systems and architectures that agents are built for, by their names in targets."""

from collections.abc import Mapping
from dataclasses import dataclass

OSES = ("linux", "qnx")


@dataclass(frozen=True, slots=True)
class Architecture:
    """One architecture. elf: e_machine, word bits and byte order of its programs. aliases: other names."""

    elf: tuple[int, int, str]
    aliases: tuple[str, ...] = ()


ARCHES: Mapping[str, Architecture] = {
    "x86_64": Architecture((62, 64, "<"), ("amd64", "x64")),
    "i386": Architecture((3, 32, "<"), ("i486", "i586", "i686")),
    "aarch64": Architecture((183, 64, "<"), ("arm64",)),
    "armv7": Architecture((40, 32, "<"), ("armv7l", "armv8l")),
    "riscv64": Architecture((243, 64, "<")),
    "ppc64le": Architecture((21, 64, "<")),
    "s390x": Architecture((22, 64, ">")),
    "loongarch64": Architecture((258, 64, "<")),
}


def find_arch(word: str) -> str | None:
    """Return our name of an architecture: "arm64" -> "aarch64"; None if there is no agent for it."""
    return next((name for name, arch in ARCHES.items() if word == name or word in arch.aliases), None)
