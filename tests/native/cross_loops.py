"""The intended loops of chase and bandwidth on architectures that are emulated; written
as in targets.py.
"""

_Loop = tuple[str, ...]


def _parts(parts: int, step: int, *texts: str) -> _Loop:
    """Each of the texts for 8 registers in turn, in so many parts of 8 * step bytes.

    {i} is the register and {o} the offset; a text of several lines is several
    instructions.
    """
    return tuple(
        line
        for part in range(parts)
        for text in texts
        for i in range(8)
        for line in text.format(i=i, x=32 + i, o=(8 * part + i) * step).split("\n")
    )


def _each(text: str, registers: range) -> _Loop:
    return tuple(text.format(i=i) for i in registers)


# ---- i386
# -------------------------------------------------------------------------------------------------


def _sse2(text: str) -> _Loop:
    return tuple(text.format(i=i, o=f"{i * 16:#x}" if i else "") for i in range(8))


def _sse2_turn(*body: str, copies: bool = False) -> _Loop:
    more = ("add $0x80,<from>",) if copies else ()
    return (*body, *more, "add $0x80,<at>", "cmp <end>,<at>", "jb LOOP")


def _sse2_half(first: int) -> _Loop:
    offsets = [f"{o:#x}" if o else "" for o in range(first, first + 64, 16)]
    return (
        *(f"movaps {o}(<at>),%xmm{i}" for i, o in enumerate(offsets)),
        *(f"psubd %xmm4,%xmm{i}" for i in range(4)),
        *(f"movaps %xmm{i},{o}(<at>)" for i, o in enumerate(offsets)),
    )


_SSE2_ADDRESS = ("movd <at>,%xmm0", "pshufd $0x0,%xmm0,%xmm0")
_SSE2_FROM = _sse2("movaps {o}(<from>),%xmm{i}")

I386: dict[str, _Loop] = {
    "i386_chase_mov": (*("mov (<line>),<line>",) * 16, "dec <n>", "jne LOOP"),
    "i386_read_sse2": _sse2_turn(*_sse2("movaps {o}(<at>),%xmm{i}")),
    "i386_write_sse2": _sse2_turn(*_SSE2_ADDRESS, *_sse2("movaps %xmm0,{o}(<at>)")),
    "i386_nt_sse2": _sse2_turn(*_SSE2_ADDRESS, *_sse2("movntps %xmm0,{o}(<at>)")),
    "i386_modify_sse2": _sse2_turn(*_sse2_half(0), *_sse2_half(64)),
    "i386_copy_sse2": _sse2_turn(
        *_SSE2_FROM, *_sse2("movaps %xmm{i},{o}(<at>)"), copies=True
    ),
    "i386_ntcopy_sse2": _sse2_turn(
        *_SSE2_FROM, *_sse2("movntps %xmm{i},{o}(<at>)"), copies=True
    ),
}

# ---- armv7
# ------------------------------------------------------------------------------------------------

_LOW = "{d0-d7}"
_HIGH = "{d16-d23}"
_NEON_END = ("cmp <at>,<end>", "bcc LOOP")

ARMV7: dict[str, _Loop] = {
    "armv7_chase_ldr": (*("ldr <line>,[<line>]",) * 16, "subs <n>,<n>,#1", "bne LOOP"),
    "armv7_read_neon": (
        *(f"vldmia <at>!,{_LOW}", f"vldmia <at>!,{_HIGH}") * 2,
        *_NEON_END,
    ),
    "armv7_write_neon": (
        *_each("vdup.32 q{i},<at>", range(4)),
        *(f"vstmia <at>!,{_LOW}",) * 4,
        *_NEON_END,
    ),
    "armv7_modify_neon": (
        *(
            f"vldmia <at>,{_LOW}",
            *_each("vsub.i32 q{i},q{i},q12", range(4)),
            f"vstmia <at>!,{_LOW}",
        )
        * 4,
        *_NEON_END,
    ),
    "armv7_copy_neon": (
        *(
            f"vldmia <from>!,{_LOW}",
            f"vldmia <from>!,{_HIGH}",
            f"vstmia <at>!,{_LOW}",
            f"vstmia <at>!,{_HIGH}",
        )
        * 2,
        *_NEON_END,
    ),
}

# ---- riscv64
# ----------------------------------------------------------------------------------------------

_NTL = "add zero,zero,t0"
_GROUPS = (0, 8, 16, 24)


def _rvv(*texts: str) -> _Loop:
    return tuple(text.format(i=i) for i in _GROUPS for text in texts)


def _words(*texts: str) -> _Loop:
    return _parts(4, 8, *texts)


_RVV_ADDRESS = (
    "vsetvli t2,t1,e64,m8,ta,ma",
    "vmv.v.x v0,<at>",
    "vsetvli t0,t1,e8,m8,ta,ma",
)
_RVV_FROM = _rvv("vle8.v v{i},(<from>)", "add <from>,<from>,t0")
_RVV_END = "bltu <at>,<end>,LOOP"
_LD_END = ("add <at>,<at>,256", _RVV_END)
_LD_COPY_END = ("add <at>,<at>,256", "add <from>,<from>,256", _RVV_END)

RISCV64: dict[str, _Loop] = {
    "riscv64_chase_ld": (
        *("ld <line>,0(<line>)",) * 16,
        "addw <n>,<n>,-1",
        "bnez <n>,LOOP",
    ),
    "riscv64_read_rvv": (*_rvv("vle8.v v{i},(<at>)", "add <at>,<at>,t0"), _RVV_END),
    "riscv64_write_rvv": (
        *_RVV_ADDRESS,
        *_rvv("vse8.v v0,(<at>)", "add <at>,<at>,t0"),
        _RVV_END,
    ),
    "riscv64_nt_rvv": (
        *_RVV_ADDRESS,
        *_rvv(_NTL, "vse8.v v0,(<at>)", "add <at>,<at>,t0"),
        _RVV_END,
    ),
    "riscv64_modify_rvv": (
        *_rvv(
            "vle8.v v{i},(<at>)",
            "vadd.vi v{i},v{i},1",
            "vse8.v v{i},(<at>)",
            "add <at>,<at>,t0",
        ),
        _RVV_END,
    ),
    "riscv64_copy_rvv": (
        *_RVV_FROM,
        *_rvv("vse8.v v{i},(<at>)", "add <at>,<at>,t0"),
        _RVV_END,
    ),
    "riscv64_ntcopy_rvv": (
        *_RVV_FROM,
        *_rvv(_NTL, "vse8.v v{i},(<at>)", "add <at>,<at>,t0"),
        _RVV_END,
    ),
    "riscv64_read_ld": (*_words("ld a{i},{o}(<at>)"), *_LD_END),
    "riscv64_write_ld": (*_words("sd <at>,{o}(<at>)"), *_LD_END),
    "riscv64_nt_ld": (*_words(f"{_NTL}\nsd <at>,{{o}}(<at>)"), *_LD_END),
    "riscv64_modify_ld": (
        *_words("ld a{i},{o}(<at>)", "add a{i},a{i},1", "sd a{i},{o}(<at>)"),
        *_LD_END,
    ),
    "riscv64_copy_ld": (
        *_words("ld a{i},{o}(<from>)", "sd a{i},{o}(<at>)"),
        *_LD_COPY_END,
    ),
    "riscv64_ntcopy_ld": (
        *_words("ld a{i},{o}(<from>)", f"{_NTL}\nsd a{{i}},{{o}}(<at>)"),
        *_LD_COPY_END,
    ),
    "riscv64_zero_cbo": ("cbo.zero (<at>)", "add <at>,<at>,64", _RVV_END),
}

# ---- ppc64le
# ----------------------------------------------------------------------------------------------


def _vectors(*texts: str) -> _Loop:
    return _parts(2, 16, *texts)


def _ppc_turn(*body: str, step: int = 256, copies: bool = False) -> _Loop:
    steps = (f"addi <{base}>,<{base}>,{step}" for base in ("at", "from")[: 1 + copies])
    return (*body, *steps, "cmpld <at>,<end>", "blt LOOP")


PPC64LE: dict[str, _Loop] = {
    "ppc64le_chase_ld": (
        *("ld <line>,0(<line>)",) * 16,
        "addi <n>,<n>,-1",
        "cmpwi <n>,0",
        "bne LOOP",
    ),
    "ppc64le_read_vsx": _ppc_turn(*_vectors("lxv vs{x},{o}(<at>)")),
    "ppc64le_write_vsx": _ppc_turn(
        "mtvsrdd vs32,<at>,<at>", *_vectors("stxv vs32,{o}(<at>)")
    ),
    "ppc64le_modify_vsx": _ppc_turn(
        *_vectors("lxv vs{x},{o}(<at>)", "vsubudm v{i},v{i},v8", "stxv vs{x},{o}(<at>)")
    ),
    "ppc64le_copy_vsx": _ppc_turn(
        *_vectors("lxv vs{x},{o}(<from>)", "stxv vs{x},{o}(<at>)"), copies=True
    ),
    "ppc64le_zero_dcbz": _ppc_turn("dcbz 0,<at>", step=128),
}

# ---- s390x
# ------------------------------------------------------------------------------------------------


def _s390x_turn(*body: str, copies: bool = False) -> _Loop:
    steps = (f"aghi <{base}>,256" for base in ("at", "from")[: 1 + copies])
    return (*body, *steps, "clgr <at>,<end>", "jl LOOP")


def _vx_half(offset: int) -> _Loop:
    return (
        f"vlm %v16,%v23,{offset}(<at>)",
        *_each("vsg %v{i},%v{i},%v24", range(16, 24)),
        f"vstm %v16,%v23,{offset}(<at>)",
    )


S390X: dict[str, _Loop] = {
    "s390x_chase_lg": (*("lg <line>,0(<line>)",) * 16, "brct <n>,LOOP"),
    "s390x_read_vx": _s390x_turn("vlm %v16,%v31,0(<at>)"),
    "s390x_write_vx": _s390x_turn("vlvgp %v16,<at>,<at>", "vstm %v16,%v31,0(<at>)"),
    "s390x_modify_vx": _s390x_turn(*_vx_half(0), *_vx_half(128)),
    "s390x_copy_vx": _s390x_turn(
        "vlm %v16,%v31,0(<from>)", "vstm %v16,%v31,0(<at>)", copies=True
    ),
    "s390x_copy_mvc": _s390x_turn("mvc 0(256,<at>),0(<from>)", copies=True),
    "s390x_zero_xc": _s390x_turn("xc 0(256,<at>),0(<at>)"),
}

# ---- loongarch64
# ------------------------------------------------------------------------------------------

_LSX_END = ("addi.d $t0,$t0,256", "bltu $t0,<end>,LOOP")
_LSX_COPY_END = ("addi.d $t1,$t1,256", *_LSX_END)
_LA_END = "bltu <at>,<end>,LOOP"
_LA_STEP = "addi.d <at>,<at>,256"


def _lasx(*texts: str) -> _Loop:
    return _parts(1, 32, *texts)


LOONGARCH64: dict[str, _Loop] = {
    "loongarch64_chase_ld": (
        *("ld.d <line>,<line>,0",) * 16,
        "addi.w <n>,<n>,-1",
        "bnez <n>,LOOP",
    ),
    "loongarch64_read_lasx": (*_lasx("xvld $xr{i},$t0,{o}"), *_LSX_END),
    "loongarch64_write_lasx": (
        "xvreplgr2vr.d $xr0,$t0",
        *_lasx("xvst $xr0,$t0,{o}"),
        *_LSX_END,
    ),
    "loongarch64_modify_lasx": (
        *_lasx(
            "xvld $xr{i},$t0,{o}", "xvaddi.du $xr{i},$xr{i},1", "xvst $xr{i},$t0,{o}"
        ),
        *_LSX_END,
    ),
    "loongarch64_copy_lasx": (
        *_lasx("xvld $xr{i},$t1,{o}", "xvst $xr{i},$t0,{o}"),
        *_LSX_COPY_END,
    ),
    "loongarch64_read_lsx": (*_vectors("vld $vr{i},$t0,{o}"), *_LSX_END),
    "loongarch64_write_lsx": (
        "vreplgr2vr.d $vr0,$t0",
        *_vectors("vst $vr0,$t0,{o}"),
        *_LSX_END,
    ),
    "loongarch64_modify_lsx": (
        *_vectors(
            "vld $vr{i},$t0,{o}", "vaddi.du $vr{i},$vr{i},1", "vst $vr{i},$t0,{o}"
        ),
        *_LSX_END,
    ),
    "loongarch64_copy_lsx": (
        *_vectors("vld $vr{i},$t1,{o}", "vst $vr{i},$t0,{o}"),
        *_LSX_COPY_END,
    ),
    "loongarch64_read_ld": (*_words("ld.d $t{i},<at>,{o}"), _LA_STEP, _LA_END),
    "loongarch64_write_ld": (*_words("st.d <at>,<at>,{o}"), _LA_STEP, _LA_END),
    "loongarch64_modify_ld": (
        *_words("ld.d $t{i},<at>,{o}", "addi.d $t{i},$t{i},1", "st.d $t{i},<at>,{o}"),
        *(_LA_STEP, _LA_END),
    ),
    "loongarch64_copy_ld": (
        *_words("ld.d $t{i},<from>,{o}", "st.d $t{i},<at>,{o}"),
        *(_LA_STEP, "addi.d <from>,<from>,256", _LA_END),
    ),
}
