"""The operating systems and architectures there is an agent for, by their names in targets."""

from collections.abc import Mapping
from dataclasses import dataclass

OSES = ("linux", "qnx")


@dataclass(frozen=True, slots=True)
class Architecture:
    """One architecture.

    elf: e_machine, word bits and byte order of its programs. cas, readwrite, message, chase, bandwidth,
    gemm, fetch, interleave: the variants of these benchmarks in its source, best first, without `c11` and
    `libc`, which all have. aliases: other names in use for it.
    """

    elf: tuple[int, int, str]
    cas: tuple[str, ...]
    readwrite: tuple[str, ...]
    message: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    chase: tuple[str, ...] = ()
    bandwidth: tuple[str, ...] = ()
    gemm: tuple[str, ...] = ()
    fetch: tuple[str, ...] = ()
    interleave: tuple[str, ...] = ()


ARCHES: Mapping[str, Architecture] = {
    "x86_64": Architecture(
        *((62, 64, "<"), ("cmpxchg", "xchg", "ttas"), ("mov",), ("mov",), ("amd64", "x64"), ("mov",)),
        bandwidth=(
            *("avx512", "avx", "sse2", "prefetch", "streams", "tile", "tileblock"),
            *("stosb", "movsb", "clzero"),
        ),
        gemm=("amx-bf16", "amx-int8", "avx512-bf16", "avx512-vnni", "avx512", "avx2"),
        fetch=("mov",),
        interleave=("avx512", "avx", "sse2", "prefetchnta"),
    ),
    "i386": Architecture(
        *((3, 32, "<"), ("cmpxchg",), ("mov",), ("mov",), ("i486", "i586", "i686"), ("mov",)),
        bandwidth=("sse2", "stosb", "movsb"),
        gemm=("sse2",),
        fetch=("mov",),
        interleave=("sse2",),
    ),
    "aarch64": Architecture(
        *((183, 64, "<"), ("lse", "llsc", "wfe"), ("ldar",), ("ldr",), ("arm64",), ("ldr",)),
        bandwidth=("neon", "sve", "zva"),
        fetch=("lse", "ldr"),
        interleave=("neon",),
        gemm=("bfmmla", "i8mm", "neon"),
    ),
    "armv7": Architecture(
        *((40, 32, "<"), ("ldrex",), ("dmb",), ("ldr",), ("armv7l", "armv8l"), ("ldr",)),
        bandwidth=("neon",),
        fetch=("ldr",),
        interleave=("strd",),
    ),
    "riscv64": Architecture(
        *((243, 64, "<"), ("lrsc", "zacas"), ("fence",), ("ld",), (), ("ld",)),
        bandwidth=("rvv", "ld", "cbo"),
        gemm=("rvv",),
        fetch=("ld",),
        interleave=("sd",),
    ),
    "ppc64le": Architecture(
        *((21, 64, "<"), ("lwarx",), ("lwsync",), ("ld",), (), ("ld",)),
        bandwidth=("vsx", "dcbz"),
        gemm=("vsx",),
        fetch=("ld",),
        interleave=("std",),
    ),
    "s390x": Architecture(
        *((22, 64, ">"), ("cs",), ("st",), ("lg",), (), ("lg",)),
        bandwidth=("vx", "mvc", "xc"),
        gemm=("vx",),
        fetch=("lg",),
        interleave=("stg",),
    ),
    "loongarch64": Architecture(
        *((258, 64, "<"), ("llsc", "amcas"), ("dbar",), ("ld",), (), ("ld",)),
        bandwidth=("lasx", "lsx", "ld"),
        gemm=("lasx",),
        fetch=("ld",),
        interleave=("st",),
    ),
}


def arch_named(word: str) -> str | None:
    """Return our name of an architecture: "arm64" -> "aarch64"; None for one we have no agent for."""
    return next((name for name, arch in ARCHES.items() if word == name or word in arch.aliases), None)
