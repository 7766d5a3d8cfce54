"""The intended loops of gemm on architectures that are emulated; written as in targets.py."""

_Loop = tuple[str, ...]

# ---- i386 -------------------------------------------------------------------------------------------------


def _hex(number: int) -> str:
    return f"{number:#x}" if number else ""


def _sse2_row(turn: int, place: str, row: int) -> _Loop:
    products = (
        (
            f"movaps {_hex(48 * turn + 16 * i)}(<b>),%xmm7",
            "mulps %xmm6,%xmm7",
            f"addps %xmm7,%xmm{3 * row + i}",
        )
        for i in range(3)
    )
    loaded = (f"movss {_hex(4 * turn)}({place}),%xmm6", "shufps $0x0,%xmm6,%xmm6")
    return (*loaded, *(text for product in products for text in product))


def _sse2(*ahead: str) -> _Loop:
    turns = (
        _sse2_row(turn, place, row) for turn in range(4) for row, place in enumerate(("<a>", "<a>,<row>,1"))
    )
    return (
        *(text for turn in turns for text in turn),
        *(*ahead, "add $0xc0,<b>", "add <stack_step>,<a>", "dec <steps>", "jne LOOP"),
    )


_SSE2_PEAK = (("movaps %xmm7,%xmm6", "mulps %xmm7,%xmm6", f"addps %xmm6,%xmm{i}") for i in range(6))

I386: dict[str, _Loop] = {
    "i386_gemm_sse2": _sse2(),
    "i386_gemm_ahead_sse2": _sse2("prefetcht2 (<ahead>)", "add <stack_ahead_step>,<ahead>"),
    "i386_peak_sse2": (*(text for three in _SSE2_PEAK for text in three), "dec <turns>", "jne LOOP"),
}

# ---- riscv64 ----------------------------------------------------------------------------------------------


def _rvv_turn(value: str, b: int, following: str = "") -> _Loop:
    """One value of each row by 16 columns; the values of the following turn are loaded in between."""
    rows = range(6)
    loads = [(following.format(i=i),) if following else () for i in rows]
    return tuple(text for i in rows for text in (f"vfmacc.vf v{8 + 4 * i},{value}{i},v{b}", *loads[i]))


def _rvv(*ahead: str) -> _Loop:
    next_b = [(f"vle32.v v{i},(<b>)", "add <b>,<b>,64") for i in (0, 4)]
    return (
        *(*next_b[0], *next_b[1], *(f"flw fa{i},0(<a{i}>)" for i in range(6))),
        *(*_rvv_turn("fa", 0, "flw ft{i},4(<a{i}>)"), *next_b[0]),
        *(*_rvv_turn("ft", 4, "flw fa{i},8(<a{i}>)"), *next_b[1]),
        *(*_rvv_turn("fa", 0, "flw ft{i},12(<a{i}>)"), *_rvv_turn("ft", 4)),
        *(*ahead, *(f"add <a{i}>,<a{i}>,<step>" for i in range(6))),
        *("add <steps>,<steps>,-1", "bnez <steps>,LOOP"),
    )


RISCV64: dict[str, _Loop] = {
    "riscv64_gemm_rvv": _rvv(),
    "riscv64_gemm_ahead_rvv": _rvv("or zero,<ahead>,1", "add <ahead>,<ahead>,<ahead_step>"),
    "riscv64_peak_rvv": (*_rvv_turn("fa", 0) * 4, "add <turns>,<turns>,-1", "bnez <turns>,LOOP"),
}

# ---- ppc64le ----------------------------------------------------------------------------------------------

_VSX = tuple(f"xvmaddasp vs{32 + 4 * i + j},vs{4 + i},vs{j}" for i in range(8) for j in range(4))


def _vsx(*ahead: str) -> _Loop:
    places = [(base, row) for base in ("a", "a4") for row in ("", "<row>", "<row2>", "<row3>")]
    return (
        *(f"lxv vs{i},{16 * i}(<b>)" for i in range(4)),
        *(
            f"lxvwsx vs{4 + i}," + (f"<{base}>,{row}" if row else f"0,<{base}>")
            for i, (base, row) in enumerate(places)
        ),
        *(*_VSX, "addi <b>,<b>,64", *ahead, "add <a>,<a>,<step>", "add <a4>,<a4>,<step>"),
        *("addi <steps>,<steps>,-1", "cmpdi <steps>,0", "bne LOOP"),
    )


PPC64LE: dict[str, _Loop] = {
    "ppc64le_gemm_vsx": _vsx(),
    "ppc64le_gemm_ahead_vsx": _vsx("dcbt 0,<ahead>", "add <ahead>,<ahead>,<ahead_step>"),
    "ppc64le_peak_vsx": (*_VSX, "addi <turns>,<turns>,-1", "cmpdi <turns>,0", "bne LOOP"),
}

# ---- s390x ------------------------------------------------------------------------------------------------


def _vx(*ahead: str) -> _Loop:
    places = [f"0({row}<{base}>)" for base in ("a", "a4") for row in ("", "<row>,", "<row2>,", "<row3>,")]
    rows = (
        (
            f"vlrepf %v{3 + i % 5},{place}",
            *(f"vfmasb %v{j},%v{3 + i % 5},%v{(j - 8) % 3},%v{j}" for j in sums),
        )
        for i, place in enumerate(places)
        for sums in (range(8 + 3 * i, 11 + 3 * i),)
    )
    return (
        *("vlm %v0,%v2,0(<b>)", "la <b>,48(<b>)", *(text for row in rows for text in row)),
        *(*ahead, "agr <a>,<step>", "agr <a4>,<step>", "brctg <steps>,LOOP"),
    )


S390X: dict[str, _Loop] = {
    "s390x_gemm_vx": _vx(),
    "s390x_gemm_ahead_vx": _vx("pfd 1,0(<ahead>)", "agr <ahead>,<ahead_step>"),
    "s390x_peak_vx": (*(f"vfmasb %v{i},%v3,%v0,%v{i}" for i in range(8, 32)), "brctg <turns>,LOOP"),
}

# ---- loongarch64 ------------------------------------------------------------------------------------------


def _lasx_row(row: int) -> _Loop:
    """The sums of a row, by a value and three vectors of B."""
    sums = range(8 + 3 * row, 11 + 3 * row)
    return tuple(f"xvfmadd.s $xr{i},$xr{3 + row % 5},$xr{i - sums[0]},$xr{i}" for i in sums)


def _lasx(*ahead: str) -> _Loop:
    turns = (
        text
        for turn in range(4)
        for text in (
            *(f"xvld $xr{j},$t8,{96 * turn + 32 * j}" for j in range(3)),
            *(
                text
                for row in range(8)
                for text in (f"xvldrepl.w $xr{3 + row % 5},$t{row},{4 * turn}", *_lasx_row(row))
            ),
        )
    )
    return (
        *(*turns, *ahead, "addi.d $t8,$t8,384", *(f"add.d $t{i},$t{i},<step>" for i in range(8))),
        *("addi.d <steps>,<steps>,-1", "bnez <steps>,LOOP"),
    )


LOONGARCH64: dict[str, _Loop] = {
    "loongarch64_gemm_lasx": _lasx(),
    "loongarch64_gemm_ahead_lasx": _lasx("preld 0,<ahead>,0", "add.d <ahead>,<ahead>,<ahead_step>"),
    "loongarch64_peak_lasx": (
        *(text for row in range(8) for text in _lasx_row(row)),
        *("addi.d <turns>,<turns>,-1", "bnez <turns>,LOOP"),
    ),
}
