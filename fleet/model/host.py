"""Hosts, the machines in the inventory, and targets, the platforms that agents are
built for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from fleet.model.plan import RequestedOptions

NOT_TEXT_IN_PATHS = ("true", "false", "nan", "inf", "infinity", "epoch")
"""Words, in any case, that DuckDB, polars or Spark take for a value of another type in
a file's path.
"""


class Via(StrEnum):
    """How a host is reached."""

    SSH = "ssh"
    OPENSSH = "openssh"  # by the user's own ssh program
    LOCAL = "local"
    COMMAND = (  # by the program that `command` names; the following are such programs
        "command"
    )
    SRUN = "srun"
    KUBECTL = "kubectl"
    PODMAN = "podman"
    DOCKER = "docker"


class HostKeyPolicy(StrEnum):
    """What to do with the key of a host we have never seen. A changed key is always
    refused.
    """

    STRICT = "strict"
    ACCEPT_NEW = "accept-new"


class LockPolicy(StrEnum):
    """What to do while another controller measures on a machine: give up, wait, or
    measure anyway.
    """

    REFUSE = "refuse"
    WAIT = "wait"
    OFF = "off"


class BuildPlace(StrEnum):
    """Where the agent's binary comes from. AUTO takes the cheapest source that is
    available.
    """

    AUTO = "auto"
    HOST = "host"
    CONTROLLER = "controller"
    BUILD_HOST = "build-host"
    PREBUILT = "prebuilt"


@dataclass(frozen=True, slots=True)
class RequestedToolchain:
    """What the inventory requires of the toolchain (docs/inventory.md). None and ():
    fleet chooses.
    """

    cc: str | None = None
    cflags: tuple[str, ...] = ()
    binary: str | None = None
    sdp: str | None = None
    build_host: str | None = None


@dataclass(frozen=True, slots=True)
class Host:
    """A machine in the inventory (docs/inventory.md), with defaults and groups merged.
    None: not set.
    """

    name: str
    address: str
    via: Via = Via.SSH
    command: tuple[
        str, ...
    ] = ()  # of a client program, for every `via` but the first three
    port: int | None = None
    user: str | None = None
    identity_files: tuple[str, ...] = ()
    jump: tuple[str, ...] = ()  # hops in order, each `[user@]host[:port]`
    host_key: HostKeyPolicy = HostKeyPolicy.STRICT
    os: str | None = None
    arch: str | None = None
    os_release: str | None = None
    build: BuildPlace = BuildPlace.AUTO
    toolchain: RequestedToolchain = RequestedToolchain()
    workdir: str | None = None
    priority: int | None = None
    lock: LockPolicy = LockPolicy.REFUSE
    require: tuple[str, ...] = ()
    wait_s: float = 0.0
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    cpus: tuple[int, ...] | str | None = None
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    plan: RequestedOptions = field(default_factory=RequestedOptions)
    groups: tuple[str, ...] = ()
    build_host: "Host | None" = None  # that `toolchain` names
    origin: str = ""  # "file:line"

    @property
    def host_id(self) -> str:
        """The host's key in tables: its name, prefixed with `h-` if readers would not
        take it for text.
        """
        is_text = self.name[0].isalpha() and self.name.lower() not in NOT_TEXT_IN_PATHS
        if is_text:
            return self.name
        return f"h-{self.name}"


@dataclass(frozen=True, slots=True)
class Target:
    """The OS and architecture (not the machine) that an agent is built for, written
    `linux-aarch64`.
    """

    os: str
    arch: str

    def __str__(self) -> str:
        return f"{self.os}-{self.arch}"


OSES = ("linux", "qnx")
# e_machine, word bits and byte order of its ELF files
ARCHES: Mapping[str, tuple[int, int, str]] = {
    "x86_64": (62, 64, "<"),
    "i386": (3, 32, "<"),
    "aarch64": (183, 64, "<"),
    "armv7": (40, 32, "<"),
    "riscv64": (243, 64, "<"),
    "ppc64le": (21, 64, "<"),
    "s390x": (22, 64, ">"),
    "loongarch64": (258, 64, "<"),
}
_OTHER_NAMES = {
    "amd64": "x86_64",
    "x64": "x86_64",
    "arm64": "aarch64",
    "armv7l": "armv7",
    "armv8l": "armv7",
}
_OTHER_NAMES |= dict.fromkeys(("i486", "i586", "i686"), "i386")


def normalize_arch(word: str) -> str | None:
    """Return our name of an architecture: "arm64" -> "aarch64"; None if there is no
    agent for it.
    """
    return word if word in ARCHES else _OTHER_NAMES.get(word)
