"""The intended loops of contend on each architecture, written as in targets.py; of
locks what is in them.
"""

_Loop = tuple[str, ...]
X86_END = ("dec <n>", "jne LOOP")  # of every loop that counts its rounds


def _x86(ax: str) -> dict[str, _Loop]:
    return {
        "faa_lock": ("mov $0x1,%eax", "lock xadd %eax,(<word>)", *X86_END),
        "add_lock": (
            *("mov (<word>),%eax", f"lea 0x1({ax}),<next>", "inc <tries>"),
            *("lock cmpxchg <next>,(<word>)", "jne INNER", *X86_END),
        ),
        "put_lock": (
            *("mov <value>,%eax", "xchg %eax,(<word>)", "add %eax,<sum>"),
            *("inc <value>", *X86_END),
        ),
    }


def _add_prefix(arch: str, loops: dict[str, _Loop]) -> dict[str, _Loop]:
    return {f"{arch}_{name}": loop for name, loop in loops.items()}


X86_64 = _add_prefix("x86_64", _x86("%rax"))
I386 = _add_prefix("i386", _x86("%eax"))

A64_END = ("sub <n>,<n>,#0x1", "cbnz <n>,LOOP")
_A64_PUT = ("add <sum>,<sum>,<seen>", "add <value>,<value>,#0x1", *A64_END)
AARCH64 = _add_prefix(
    "aarch64",
    {
        "faa_lse": ("mov <next>,#0x1", "ldadd <next>,<seen>,[<word>]", *A64_END),
        "add_lse": (
            *("ldr <seen>,[<word>]", "mov <status>,<seen>", "add <next>,<seen>,#0x1"),
            *(
                "add <tries>,<tries>,#0x1",
                "cas <seen>,<next>,[<word>]",
                "cmp <seen>,<status>",
                "b.ne INNER",
            ),
            *A64_END,
        ),
        "put_lse": ("swp <value>,<seen>,[<word>]", *_A64_PUT),
        "faa_llsc": (
            *(
                "ldxr <seen>,[<word>]",
                "add <next>,<seen>,#0x1",
                "stxr <status>,<next>,[<word>]",
            ),
            *("cbnz <status>,LOOP", *A64_END),
        ),
        "put_llsc": (
            *(
                "ldxr <seen>,[<word>]",
                "stxr <status>,<value>,[<word>]",
                "cbnz <status>,LOOP",
                *_A64_PUT,
            ),
        ),
    },
)

ARM_END = ("subs <n>,<n>,#1", "bne LOOP")
_ARM_FAILED = ("cmp <status>,#0", "bne LOOP")
ARMV7 = _add_prefix(
    "armv7",
    {
        "faa_ldrex": (
            *(
                "ldrex <seen>,[<word>]",
                "add <next>,<seen>,#1",
                "strex <status>,<next>,[<word>]",
            ),
            *(*_ARM_FAILED, *ARM_END),
        ),
        "put_ldrex": (
            *("ldrex <seen>,[<word>]", "strex <status>,<value>,[<word>]", *_ARM_FAILED),
            *("add <sum>,<sum>,<seen>", "add <value>,<value>,#1", *ARM_END),
        ),
    },
)

RISCV_END = ("addw <n>,<n>,-1", "bnez <n>,LOOP")
RISCV64 = _add_prefix(
    "riscv64",
    {
        "faa_amo": ("li <next>,1", "amoadd.w <seen>,<next>,(<word>)", *RISCV_END),
        "put_amo": (
            *(
                "amoswap.w <seen>,<value>,(<word>)",
                "addw <sum>,<sum>,<seen>",
                "addw <value>,<value>,1",
            ),
            *RISCV_END,
        ),
    },
)

PPC_END = ("addi <n>,<n>,-1", "cmpwi <n>,0", "bne LOOP")
PPC64LE = _add_prefix(
    "ppc64le",
    {
        "faa_lwarx": (
            *(
                "lwarx <seen>,0,<word>",
                "addi <next>,<seen>,1",
                "stwcx. <next>,0,<word>",
                "bne LOOP",
            ),
            *PPC_END,
        ),
        "put_lwarx": (
            *("lwarx <seen>,0,<word>", "stwcx. <value>,0,<word>", "bne LOOP"),
            *("add <sum>,<sum>,<seen>", "addi <value>,<value>,1", *PPC_END),
        ),
    },
)

S390X = _add_prefix(
    "s390x",
    {
        "add_cs": (
            *(
                "l <seen>,0(<word>)",
                "lr <next>,<seen>",
                "ahi <next>,1",
                "ahi <tries>,1",
            ),
            *("cs <seen>,<next>,0(<word>)", "jne INNER", "brct <n>,LOOP"),
        ),
        "put_cs": (
            *("l <seen>,0(<word>)", "cs <seen>,<value>,0(<word>)", "jne INNER"),
            *("ar <sum>,<seen>", "ahi <value>,1", "brct <n>,LOOP"),
        ),
    },
)

LOONG_END = ("addi.w <n>,<n>,-1", "bnez <n>,LOOP")
LOONGARCH64 = _add_prefix(
    "loongarch64",
    {
        "faa_am": ("addi.w <next>,$zero,1", "amadd.w <seen>,<next>,<word>", *LOONG_END),
        "put_am": (
            *(
                "amswap.w <seen>,<value>,<word>",
                "add <sum>,<sum>,<seen>",
                "addi.w <value>,<value>,1",
            ),
            *LOONG_END,
        ),
    },
)


def _locks(
    name: str, arch: str, ticket: tuple[str, ...], mcs: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    return {f"{arch}_ticket_{name}": ticket, f"{arch}_mcs_{name}": mcs}


def _c11(ticket: tuple[str, ...], mcs: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    return _locks("c11", "generic", ticket, mcs)


_X86_TICKET = ("lock xadd",)
_X86_MCS = ("xchg", "lock cmpxchg")
_X86 = _c11(_X86_TICKET, _X86_MCS)
LOCKS = {
    "linux-x86_64": (
        _X86 | _locks("lock", "x86_64", ("pause", *_X86_TICKET), ("pause", *_X86_MCS))
    ),
    "linux-i386": (
        _X86 | _locks("lock", "i386", ("pause", *_X86_TICKET), ("pause", *_X86_MCS))
    ),
    "linux-aarch64": _locks(
        "lse",
        "aarch64",
        ("ldaddal", "ldar", "stlr"),
        ("swpal", "casal", "ldar", "stlr"),
    ),
    "linux-armv7": _c11(("ldrex", "strex", "dmb"), ("ldrex", "strex", "dmb")),
    "linux-riscv64": _c11(
        ("amoadd.w", "fence"), ("amoswap.d", "lr.d", "sc.d", "fence")
    ),
    "linux-ppc64le": _c11(("lwarx", "stwcx.", "lwsync"), ("ldarx", "stdcx.", "lwsync")),
    "linux-s390x": _c11(("laa ",), ("csg ",)),
    "linux-loongarch64": _c11(("amadd", "dbar"), ("amswap", "ll.d", "sc.d", "dbar")),
}
