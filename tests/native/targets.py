"""The targets the agent is built for, one row each: how to build, run and disassemble
it, and its loops.

To add an architecture: one row. A loop is the exact sequence of instructions from its
label to its last branch; in operands, names in <> must be registers and mean the same
register wherever they stand; those that begin with stack_ are variables in memory. A
branch to the label is written LOOP, those to labels within the loop INNER and SECOND.
"""

from dataclasses import dataclass, replace

from tests.native import (
    contend_loops,
    cross_loops,
    gemm_loops,
    line_loops,
    stream_loops,
)
from tests.native.contend_loops import (
    A64_END,
    ARM_END,
    LOONG_END,
    PPC_END,
    RISCV_END,
    X86_END,
)
from tests.native.preload import TROUBLE


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """One (os, arch), the tools for it (command, Debian package), and its loops by
    symbol.

    `native`: what stands in the place of native/<arch>.c; () for the file itself.
    `emulators`: command prefixes with which the binary runs here, by what CPU they
    pretend to be. `clocks`: what those CPUs may have to time with. `lacks`: the
    variants that the first of those CPUs has not. `auto`: the variants of cas and
    readwrite that are taken there when nobody asks for one.
    """

    name: str
    gcc: tuple[str, str]
    objdump: tuple[str, str]
    loops: dict[str, tuple[str, ...]]
    emulators: dict[str, tuple[str, ...]]
    clang: tuple[str, ...] | None = None
    emulator_package: str = "qemu-user-static"
    native: tuple[str, ...] = ()
    auto: tuple[str, str] = ("c11", "c11")
    lacks: tuple[str, ...] = ()
    clocks: tuple[str, ...] = ()
    gcc_flags: tuple[str, ...] = ()


X86_CMPXCHG = ("mov <from>,%eax", "lock cmpxchg <to>,(<line>)", "jne LOOP", *X86_END)
X86_64 = Target(
    name="linux-x86_64",
    gcc=("gcc", "gcc"),
    clang=("clang",),
    objdump=("objdump", "binutils"),
    loops={
        "x86_64_cas_cmpxchg": X86_CMPXCHG,
        "x86_64_cas_xchg": (
            "mov <to>,<seen>",
            "xchg <seen>,(<line>)",
            "cmp <from>,<seen>",
            "jne LOOP",
            *X86_END,
        ),
        "x86_64_cas_ttas": (
            "mov (<line>),%eax",
            "cmp <from>,%eax",
            "jne LOOP",
            "lock cmpxchg <to>,(<line>)",
            "jne LOOP",
            *X86_END,
        ),
        "x86_64_readwrite_mov": (
            "mov (<watched>),<seen>",
            "cmp <from>,<seen>",
            "jne LOOP",
            "mov <to>,(<written>)",
            "xor $0x1,<from>",
            "xor $0x1,<to>",
            *X86_END,
        ),
        **stream_loops.X86_64,
        **line_loops.X86_64,
        **contend_loops.X86_64,
        **gemm_loops.X86_64,
    },
    emulators={"native": ()},
)

AARCH64 = Target(
    name="linux-aarch64",
    gcc=("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
    clang=("clang", "--target=aarch64-linux-gnu", "-fuse-ld=lld"),
    objdump=("aarch64-linux-gnu-objdump", "binutils-aarch64-linux-gnu"),
    loops={
        "aarch64_cas_lse": (
            "mov <seen>,<from>",
            "cas <seen>,<to>,[<line>]",
            "cmp <seen>,<from>",
            "b.ne LOOP",
            *A64_END,
        ),
        "aarch64_cas_llsc": (
            "ldxr <seen>,[<line>]",
            "cmp <seen>,<from>",
            "b.ne LOOP",
            "stxr <failed>,<to>,[<line>]",
            "cbnz <failed>,LOOP",
            *A64_END,
        ),
        "aarch64_cas_wfe": (
            "sevl",
            "wfe",
            "ldxr <seen>,[<line>]",
            "cmp <seen>,<from>",
            "b.ne INNER",
            "stxr <failed>,<to>,[<line>]",
            "cbnz <failed>,LOOP",
            *A64_END,
        ),
        **{
            f"aarch64_readwrite_{load}": (
                f"{load} <seen>,[<watched>]",
                "cmp <seen>,<from>",
                "b.ne LOOP",
                f"{store} <to>,[<written>]",
                "eor <from>,<from>,#0x1",
                "eor <to>,<to>,#0x1",
                *A64_END,
            )
            for load, store in (("ldr", "str"), ("ldapr", "stlr"), ("ldar", "stlr"))
        },
        **stream_loops.AARCH64,
        **line_loops.AARCH64,
        **contend_loops.AARCH64,
        **gemm_loops.AARCH64,
    },
    emulators={
        "max": ("qemu-aarch64-static", "-cpu", "max"),
        "cortex-a72": ("qemu-aarch64-static", "-cpu", "cortex-a72"),
    },
)

I386 = Target(
    name="linux-i386",
    gcc=("i686-linux-gnu-gcc", "gcc-i686-linux-gnu"),
    objdump=("i686-linux-gnu-objdump", "binutils-i686-linux-gnu"),
    loops={
        "i386_cas_cmpxchg": X86_CMPXCHG,
        "i386_readwrite_mov": (
            "cmp <from>,(<watched>)",
            "jne LOOP",
            "mov <to>,(<written>)",
            "xor $0x1,<from>",
            "xor $0x1,<to>",
            *X86_END,
        ),
        **cross_loops.I386,
        **line_loops.I386,
        **contend_loops.I386,
    },
    emulators={"max": ("qemu-i386-static",)},
    auto=("cmpxchg", "mov"),
    clocks=("tsc", "monotonic_raw"),
)

ARMV7 = Target(
    name="linux-armv7",
    gcc=("arm-linux-gnueabihf-gcc", "gcc-arm-linux-gnueabihf"),
    objdump=("arm-linux-gnueabihf-objdump", "binutils-arm-linux-gnueabihf"),
    loops={
        "armv7_cas_ldrex": (
            "ldrex <seen>,[<line>]",
            "cmp <seen>,<from>",
            "bne LOOP",
            "strex <failed>,<to>,[<line>]",
            "cmp <failed>,#0",
            "bne LOOP",
            *ARM_END,
        ),
        **{
            f"armv7_readwrite_{name}": (
                "ldr <seen>,[<watched>]",
                "cmp <seen>,<from>",
                "bne LOOP",
                *barrier,
                "str <to>,[<written>]",
                "eor <from>,<from>,#1",
                "eor <to>,<to>,#1",
                *ARM_END,
            )
            for name, barrier in (("ldr", ()), ("dmb", ("dmb ish",)))
        },
        **cross_loops.ARMV7,
        **line_loops.ARMV7,
        **contend_loops.ARMV7,
    },
    emulators={"cortex-a15": ("qemu-arm-static", "-cpu", "cortex-a15")},
    auto=("ldrex", "ldr"),
    clocks=("cntvct", "monotonic_raw"),
)

RISCV64 = Target(
    name="linux-riscv64",
    gcc=("riscv64-linux-gnu-gcc", "gcc-riscv64-linux-gnu"),
    objdump=("riscv64-linux-gnu-objdump", "binutils-riscv64-linux-gnu"),
    loops={
        "riscv64_cas_lrsc": (
            "lr.w <seen>,(<line>)",
            "bne <seen>,<from>,LOOP",
            "sc.w <failed>,<to>,(<line>)",
            "bnez <failed>,LOOP",
            *RISCV_END,
        ),
        "riscv64_cas_zacas": (
            "mv <seen>,<from>",
            "amocas.w <seen>,<to>,(<line>)",
            "bne <seen>,<from>,LOOP",
            *RISCV_END,
        ),
        **{
            f"riscv64_readwrite_{name}": (
                "lw <seen>,0(<watched>)",
                "bne <seen>,<from>,LOOP",
                *barrier,
                "sw <to>,0(<written>)",
                "xor <from>,<from>,1",
                "xor <to>,<to>,1",
                *RISCV_END,
            )
            for name, barrier in (("lw", ()), ("fence", ("fence r,w",)))
        },
        **cross_loops.RISCV64,
        **line_loops.RISCV64,
        **contend_loops.RISCV64,
    },
    emulators={
        "rvv": ("qemu-riscv64-static", "-cpu", "rv64,v=true,vext_spec=v1.0"),
        "rv64": ("qemu-riscv64-static",),
    },
    auto=("lrsc", "lw"),
    lacks=("zacas", "cbo"),
    clocks=("rdtime",),
)

PPC64LE = Target(
    name="linux-ppc64le",
    gcc=("powerpc64le-linux-gnu-gcc", "gcc-powerpc64le-linux-gnu"),
    objdump=("powerpc64le-linux-gnu-objdump", "binutils-powerpc64le-linux-gnu"),
    loops={
        "ppc64le_cas_lwarx": (
            "lwarx <seen>,0,<line>",
            "cmpw <seen>,<from>",
            "bne LOOP",
            "stwcx. <to>,0,<line>",
            "bne LOOP",
            *PPC_END,
        ),
        **{
            f"ppc64le_readwrite_{name}": (
                "lwz <seen>,0(<watched>)",
                "cmpw <seen>,<from>",
                "bne LOOP",
                *barrier,
                "stw <to>,0(<written>)",
                "xori <from>,<from>,1",
                "xori <to>,<to>,1",
                *PPC_END,
            )
            for name, barrier in (("lwz", ()), ("lwsync", ("lwsync",)))
        },
        **cross_loops.PPC64LE,
        **line_loops.PPC64LE,
        **contend_loops.PPC64LE,
    },
    emulators={"power9": ("qemu-ppc64le-static", "-cpu", "power9")},
    auto=("lwarx", "lwz"),
    clocks=("timebase",),
)

S390X = Target(
    name="linux-s390x",
    gcc=("s390x-linux-gnu-gcc", "gcc-s390x-linux-gnu"),
    objdump=("s390x-linux-gnu-objdump", "binutils-s390x-linux-gnu"),
    loops={
        "s390x_cas_cs": (
            "lr <expected>,<from>",
            "cs <expected>,<to>,0(<line>)",
            "jne LOOP",
            "brct <n>,LOOP",
        ),
        "s390x_readwrite_st": (
            "c <from>,0(<watched>)",
            "jne LOOP",
            "st <to>,0(<written>)",
            "xilf <from>,1",
            "xilf <to>,1",
            "brct <n>,LOOP",
        ),
        **cross_loops.S390X,
        **line_loops.S390X,
        **contend_loops.S390X,
    },
    emulators={"max": ("qemu-s390x-static",)},
    auto=("cs", "st"),
    clocks=("stckf",),
)

LOONGARCH64 = Target(
    name="linux-loongarch64",
    gcc=("zig", "ziglang"),  # Debian 12 has no compiler for it
    gcc_flags=("cc", "-target", "loongarch64-linux-musl", "-mcpu=generic_la64-lsx"),
    objdump=("llvm-objdump-16", "llvm-16"),
    loops={
        "loongarch64_cas_llsc": (
            "ll.w <seen>,<line>,0",
            "bne <seen>,<from>,LOOP",
            "move <stored>,<to>",
            "sc.w <stored>,<line>,0",
            "beqz <stored>,LOOP",
            *LOONG_END,
        ),
        "loongarch64_cas_amcas": (
            "move $t0,<from>",
            "amcas.w $t0,$t1,$t2",
            "bne $t0,<from>,LOOP",
            *LOONG_END,
        ),
        **{
            f"loongarch64_readwrite_{name}": (
                "ld.w <seen>,<watched>,0",
                "bne <seen>,<from>,LOOP",
                *barrier,
                "st.w <to>,<written>,0",
                "xori <from>,<from>,1",
                "xori <to>,<to>,1",
                *LOONG_END,
            )
            for name, barrier in (("ld", ()), ("dbar", ("dbar 18",)))
        },
        **cross_loops.LOONGARCH64,
        **line_loops.LOONGARCH64,
        **contend_loops.LOONGARCH64,
    },
    # Guest memory reserved ahead: without it Zig's malloc, which asks each time for the
    # addresses below its last, and qemu 7.2, which answers from wherever the host has
    # room, end in ENOMEM now and then.
    emulators={"la464": ("qemu-loongarch64-static", "-R", "0x100000000")},
    auto=("llsc", "ld"),
    lacks=("amcas", "lasx", "lsx"),
    clocks=("rdtime",),
)


def make_troubled(name: str) -> Target:
    """Return x86_64 with the loops of a file in trouble/."""
    return replace(X86_64, name=f"linux-{name}", native=(str(TROUBLE / f"{name}.c"),))


TARGETS = (X86_64, AARCH64)
CROSS = (I386, ARMV7, RISCV64, PPC64LE, S390X, LOONGARCH64)
