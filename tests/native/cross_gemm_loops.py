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
