"""The intended loops of message, fetch and interleave on each architecture; written as
in targets.py.
"""

_Loop = tuple[str, ...]


def _lines(text: str) -> _Loop:
    """One instruction for each 8 bytes of a line of 64, {o} being their offset."""
    return tuple(text.format(o=offset) for offset in range(0, 64, 8))


# ---- x86_64 and i386
# --------------------------------------------------------------------------------------


def _x86_walk(access: str) -> _Loop:
    return (
        *(
            "lea (<at>,<stride>,1),<line>",
            "add $0x1000,<at>",
            access,
            "add <stride>,<line>",
        ),
        *("cmp <at>,<line>", "jb INNER", "cmp <end>,<at>", "jb LOOP"),
    )


def _x86_blocks(*writes: str, end: str = "<end>") -> _Loop:
    return (
        *(
            "mov <at>,<line>",
            "lea (<at>,<block>,1),<stop>",
            *writes,
            "add $0x40,<line>",
        ),
        *(
            "cmp <stop>,<line>",
            "jb INNER",
            "add <step>,<at>",
            f"cmp {end},<at>",
            "jb LOOP",
        ),
    )


def _x86_parts(move: str, register: str, stride: int) -> _Loop:
    parts = (f"{offset:#x}" if offset else "" for offset in range(0, 64, stride))
    return tuple(f"{move} %{register},{part}(<line>)" for part in parts)


_AVX = (
    "vmovq <line>,%xmm0",
    "vpunpcklqdq %xmm0,%xmm0,%xmm0",
    "vinsertf128 $0x1,%xmm0,%ymm0,%ymm0",
)
_SSE2 = ("movq <line>,%xmm0", "punpcklqdq %xmm0,%xmm0")
_AVX512 = "vpbroadcastq <line>,%zmm0"

_X86: dict[str, _Loop] = {
    "x86_message_mov": ("mov (<word>),<seen>", "cmp <old>,<seen>", "je LOOP"),
    "x86_load_mov": _x86_walk("mov (<line>),<word>"),
    "x86_swap_mov": (
        *(
            "xor <next>,<next>",
            "lock xadd <next>,(<line>)",
            "mov <next>,<line>",
            "dec <n>",
            "jne LOOP",
        ),
    ),
}
X86_64: dict[str, _Loop] = {
    **_X86,
    "x86_store_mov": _x86_walk("mov <line>,0x8(<line>)"),
    "x86_64_blocks_avx512": _x86_blocks(_AVX512, *_x86_parts("vmovaps", "zmm0", 64)),
    "x86_64_nt_blocks_avx512": _x86_blocks(
        _AVX512, *_x86_parts("vmovntps", "zmm0", 64)
    ),
    "x86_64_blocks_avx": _x86_blocks(*_AVX, *_x86_parts("vmovaps", "ymm0", 32)),
    "x86_64_nt_blocks_avx": _x86_blocks(*_AVX, *_x86_parts("vmovntps", "ymm0", 32)),
    "x86_64_blocks_sse2": _x86_blocks(*_SSE2, *_x86_parts("movaps", "xmm0", 16)),
    "x86_64_nt_blocks_sse2": _x86_blocks(*_SSE2, *_x86_parts("movntps", "xmm0", 16)),
    "x86_64_blocks_prefetchnta": (
        *("lea (<at>,<step>,1),<line>", "lea (<line>,<block>,1),<stop>"),
        *("prefetchnta (<line>)", "add $0x20,<line>", "cmp <stop>,<line>", "jne INNER"),
        *(
            "mov <at>,<line>",
            "lea (<at>,<block>,1),<stop>",
            *_AVX,
            "vmovups %ymm0,(<line>)",
        ),
        *("add $0x20,<line>", "cmp <stop>,<line>", "jne SECOND"),
        *("add <step>,<at>", "cmp <end>,<at>", "jb LOOP"),
    ),
}

_I386_SSE2 = ("movd <line>,%xmm0", "pshufd $0x0,%xmm0,%xmm0")

I386: dict[str, _Loop] = {
    **_X86,
    "x86_store_mov": _x86_walk("mov <line>,0x4(<line>)"),
    "i386_blocks_sse2": _x86_blocks(
        *_I386_SSE2, *_x86_parts("movaps", "xmm0", 16), end="<stack_end>"
    ),
    "i386_nt_blocks_sse2": _x86_blocks(
        *_I386_SSE2, *_x86_parts("movntps", "xmm0", 16), end="<stack_end>"
    ),
}

# ---- Arm
# --------------------------------------------------------------------------------------------------

_ARM_NEXT = ("add <line>,<line>,<stride>", "cmp <line>,<at>")


def _a64_walk(access: str) -> _Loop:
    return (
        *("add <line>,<at>,<stride>", "add <at>,<at>,#0x1,lsl #12", access, *_ARM_NEXT),
        *("b.cc INNER", "cmp <at>,<end>", "b.cc LOOP"),
    )


def _a64_blocks(store: str) -> _Loop:
    return (
        *("mov <line>,<at>", "add <stop>,<at>,<block>", "dup v0.2d,<line>"),
        *(
            f"{store} q0,q0,[<line>]",
            f"{store} q0,q0,[<line>,#32]",
            "add <line>,<line>,#0x40",
        ),
        *(
            "cmp <line>,<stop>",
            "b.cc INNER",
            "add <at>,<at>,<step>",
            "cmp <at>,<end>",
            "b.cc LOOP",
        ),
    )


_A64_END = ("mov <line>,<next>", "sub <n>,<n>,#0x1", "cbnz <n>,LOOP")

AARCH64: dict[str, _Loop] = {
    "aarch64_message_ldr": ("ldr <seen>,[<word>]", "cmp <seen>,<old>", "b.eq LOOP"),
    "aarch64_load_ldr": _a64_walk("ldr <word>,[<line>]"),
    "aarch64_store_ldr": _a64_walk("str <line>,[<line>,#8]"),
    "aarch64_swap_lse": ("ldadd xzr,<next>,[<line>]", *_A64_END),
    "aarch64_swap_ldr": (
        *(
            "ldxr <next>,[<line>]",
            "stxr <failed>,<next>,[<line>]",
            "cbnz <failed>,LOOP",
            *_A64_END,
        ),
    ),
    "aarch64_blocks_neon": _a64_blocks("stp"),
    "aarch64_nt_blocks_neon": _a64_blocks("stnp"),
}


def _armv7_walk(access: str) -> _Loop:
    return (
        *("add <line>,<at>,<stride>", "add <at>,<at>,#4096", access, *_ARM_NEXT),
        *("bcc INNER", "cmp <at>,<end>", "bcc LOOP"),
    )


ARMV7: dict[str, _Loop] = {
    "armv7_message_ldr": ("ldr <seen>,[<word>]", "cmp <seen>,<old>", "beq LOOP"),
    "armv7_load_ldr": _armv7_walk("ldr <word>,[<line>]"),
    "armv7_store_ldr": _armv7_walk("str <line>,[<line>,#4]"),
    "armv7_swap_ldr": (
        *(
            "ldrex <next>,[<line>]",
            "strex <failed>,<next>,[<line>]",
            "cmp <failed>,#0",
            "bne LOOP",
        ),
        *("mov <line>,<next>", "subs <n>,<n>,#1", "bne LOOP"),
    ),
    "armv7_blocks_strd": (
        *(
            "mov <line>,<at>",
            "add <stop>,<at>,<block>",
            "mov r2,<line>",
            "mov r3,<line>",
        ),
        *(
            "strd r2,r3,[<line>]",
            *_lines("strd r2,r3,[<line>,#{o}]")[1:],
            "add <line>,<line>,#64",
        ),
        *(
            "cmp <line>,<stop>",
            "bcc INNER",
            "add <at>,<at>,<step>",
            "cmp <at>,<end>",
            "bcc LOOP",
        ),
    ),
}

# ---- riscv64
# ----------------------------------------------------------------------------------------------


def _riscv_walk(access: str) -> _Loop:
    return (
        *(
            "add <line>,<at>,<stride>",
            "add <at>,<at>,t0",
            access,
            "add <line>,<line>,<stride>",
        ),
        *("bltu <line>,<at>,INNER", "bltu <at>,<end>,LOOP"),
    )


RISCV64: dict[str, _Loop] = {
    "riscv64_message_ld": ("ld <seen>,0(<word>)", "beq <seen>,<old>,LOOP"),
    "riscv64_load_ld": _riscv_walk("ld <word>,0(<line>)"),
    "riscv64_store_ld": _riscv_walk("sd <line>,8(<line>)"),
    "riscv64_swap_ld": (
        *(
            "amoadd.d <next>,zero,(<line>)",
            "mv <line>,<next>",
            "addw <n>,<n>,-1",
            "bnez <n>,LOOP",
        ),
    ),
    "riscv64_blocks_sd": (
        *(
            "mv <line>,<at>",
            "add <stop>,<at>,<block>",
            *_lines("sd <line>,{o}(<line>)"),
        ),
        *(
            "add <line>,<line>,64",
            "bltu <line>,<stop>,INNER",
            "add <at>,<at>,<step>",
            "bltu <at>,<end>,LOOP",
        ),
    ),
}

# ---- ppc64le
# ----------------------------------------------------------------------------------------------


def _ppc_walk(access: str) -> _Loop:
    return (
        *(
            "add <line>,<at>,<stride>",
            "addi <at>,<at>,4096",
            access,
            "add <line>,<line>,<stride>",
        ),
        *("cmpld <line>,<at>", "blt INNER", "cmpld <at>,<end>", "blt LOOP"),
    )


PPC64LE: dict[str, _Loop] = {
    "ppc64le_message_ld": ("ld <seen>,0(<word>)", "cmpd <seen>,<old>", "beq LOOP"),
    "ppc64le_load_ld": _ppc_walk("ld <word>,0(<line>)"),
    "ppc64le_store_ld": _ppc_walk("std <line>,8(<line>)"),
    "ppc64le_swap_ld": (
        *(
            "ldarx <next>,0,<line>",
            "stdcx. <next>,0,<line>",
            "bne LOOP",
            "mr <line>,<next>",
        ),
        *("addi <n>,<n>,-1", "cmpwi <n>,0", "bne LOOP"),
    ),
    "ppc64le_blocks_std": (
        *(
            "mr <line>,<at>",
            "add <stop>,<at>,<block>",
            *_lines("std <line>,{o}(<line>)"),
        ),
        *("addi <line>,<line>,64", "cmpld <line>,<stop>", "blt INNER"),
        *("add <at>,<at>,<step>", "cmpld <at>,<end>", "blt LOOP"),
    ),
}

# ---- s390x
# ------------------------------------------------------------------------------------------------


def _s390x_walk(access: str) -> _Loop:
    return (
        *(
            "la <line>,0(<at>,<stride>)",
            "aghi <at>,4096",
            access,
            "agr <line>,<stride>",
        ),
        *("clgr <line>,<at>", "jl INNER", "clgr <at>,<end>", "jl LOOP"),
    )


S390X: dict[str, _Loop] = {
    "s390x_message_lg": ("lg <seen>,0(<word>)", "cgr <seen>,<old>", "je LOOP"),
    "s390x_load_lg": _s390x_walk("lg <word>,0(<line>)"),
    "s390x_store_lg": _s390x_walk("stg <line>,8(<line>)"),
    "s390x_swap_lg": (
        "lghi <next>,0",
        "csg <next>,<next>,0(<line>)",
        "lgr <line>,<next>",
        "brct <n>,LOOP",
    ),
    "s390x_blocks_stg": (
        *(
            "lgr <line>,<at>",
            "la <stop>,0(<at>,<block>)",
            *_lines("stg <line>,{o}(<line>)"),
        ),
        *(
            "aghi <line>,64",
            "clgr <line>,<stop>",
            "jl INNER",
            "agr <at>,<step>",
            "clgr <at>,<end>",
            "jl LOOP",
        ),
    ),
}

# ---- loongarch64
# ------------------------------------------------------------------------------------------


def _loongarch_walk(access: str) -> _Loop:
    return (
        *(
            "add.d <line>,<at>,<stride>",
            "add.d <at>,<at>,$t0",
            access,
            "add.d <line>,<line>,<stride>",
        ),
        *("bltu <line>,<at>,INNER", "bltu <at>,<end>,LOOP"),
    )


LOONGARCH64: dict[str, _Loop] = {
    "loongarch64_message_ld": ("ld.d <seen>,<word>,0", "beq <seen>,<old>,LOOP"),
    "loongarch64_load_ld": _loongarch_walk("ld.d <word>,<line>,0"),
    "loongarch64_store_ld": _loongarch_walk("st.d <line>,<line>,8"),
    "loongarch64_swap_ld": (
        *(
            "amadd.d <next>,$zero,<line>",
            "move <line>,<next>",
            "addi.w <n>,<n>,-1",
            "bnez <n>,LOOP",
        ),
    ),
    "loongarch64_blocks_st": (
        *(
            "move <line>,<at>",
            "add.d <stop>,<at>,<block>",
            *_lines("st.d <line>,<line>,{o}"),
        ),
        *("addi.d <line>,<line>,64", "bltu <line>,<stop>,INNER"),
        *("add.d <at>,<at>,<step>", "bltu <at>,<end>,LOOP"),
    ),
}
