"""The intended loops of gemm on architectures that are emulated; written as in targets.py."""

_Loop = tuple[str, ...]

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
