"""The intended loops of gemm, by symbol; written as in targets.py. Those on tiles:
test_amx.py.
"""

from collections.abc import Iterable

_Loop = tuple[str, ...]

_TURNS = 4
_ROWS = (
    *(
        f"(<{base}>{rest})"
        for base in ("a", "a4")
        for rest in ("", ",<row>,1", ",<row>,2", ",<row3>,1")
    ),
    "(<a4>,<row>,4)",
)
_STEPPED = ("add <step>,<a>", "add <step>,<a4>", "dec <steps>", "jne INNER")
_AHEAD = ("prefetcht2 (<ahead>)", "add <ahead_step>,<ahead>")


def _at(offset: int, place: str) -> str:
    return f"{offset:#x}{place}" if offset else place


def _turn(
    turn: int, instruction: str, register: str, width: int, rows: int, columns: int
) -> _Loop:
    """Loads vectors of B behind the sums, broadcasts a value of each row, and
    multiplies it with all.
    """
    first = rows * columns
    value = f"%{register}{30 if register == 'zmm' else 14}"
    loads = (
        f"vmovups {_at(width * (turn * columns + i), '(<b>)')},%{register}{first + i}"
        for i in range(columns)
    )
    multiplied = (
        text
        for i, place in enumerate(_ROWS[:rows])
        for text in (
            f"vbroadcastss {_at(4 * turn, place)},{value}",
            *(
                f"{instruction}"
                f" %{register}{first + j},{value},%{register}{columns * i + j}"
                for j in range(columns)
            ),
        )
    )
    return (*loads, *multiplied)


def _columns(move: str, register: str, width: int, rows: int, columns: int) -> _Loop:
    """Loads or stores each sum, a column of vectors of C after the other, each row by
    row.
    """
    return tuple(
        text
        for column in range(columns)
        for text in (
            "mov 0x28(<left>),<c>",
            *(
                text.format(
                    place=_at(width * column, "(<c>)"),
                    sum=f"%{register}{columns * row + column}",
                )
                for row in range(rows)
                for text in (move, "add <c_row>,<c>")
            ),
        )
    )


def _strips(steps: _Loop, zeroed: Iterable[str], register: str, *sizes: int) -> _Loop:
    """Return the loop over strips: zero or load the sums, do the steps, store the sums
    to C.
    """
    return (
        *(
            "mov (<left>),<a>",
            "lea (<a>,<row>,4),<a4>",
            "mov 0x20(<left>),<b>",
            "mov 0x40(<left>),<steps>",
        ),
        *(*zeroed, "cmpq $0x0,0x48(<left>)", "je INNER"),
        *_columns("vmovups {place},{sum}", register, *sizes),
        *steps,
        *_columns("vmovups {sum},{place}", register, *sizes),
        *(
            "mov <c>,0x28(<left>)",
            "mov 0x18(<left>),<a>",
            "add <a>,(<left>)",
            "decq 0x38(<left>)",
            "jne LOOP",
        ),
    )


_SUMS_512 = (*range(0, 27, 3), *range(1, 27, 3), *range(2, 27, 3))


def _512(instruction: str, *ahead: str) -> _Loop:
    turns = (
        text
        for turn in range(_TURNS)
        for text in _turn(turn, instruction, "zmm", 64, 9, 3)
    )
    zeroed = (f"vpxord %zmm{i},%zmm{i},%zmm{i}" for i in _SUMS_512)
    return _strips(
        (*turns, *ahead, "add $0x300,<b>", *_STEPPED), zeroed, "zmm", 64, 9, 3
    )


def _peak_512(instruction: str) -> _Loop:
    return (
        *(f"{instruction} %zmm27,%zmm30,%zmm{i}" for i in _SUMS_512),
        "dec <turns>",
        "jne LOOP",
    )


def _256(*ahead: str) -> _Loop:
    turns = (
        text
        for turn in range(_TURNS)
        for text in _turn(turn, "vfmadd231ps", "ymm", 32, 6, 2)
    )
    zeroed = (f"vxorps %xmm{i},%xmm{i},%xmm{i}" for i in range(12))
    return _strips(
        (*turns, *ahead, "add $0x100,<b>", *_STEPPED), zeroed, "ymm", 32, 6, 2
    )


_INSTRUCTIONS = {"avx512": "vfmadd231ps", "bf16": "vdpbf16ps", "vnni": "vpdpbusd"}

X86_64: dict[str, _Loop] = {
    **{
        f"x86_64_gemm_{name}": _512(instruction)
        for name, instruction in _INSTRUCTIONS.items()
    },
    **{
        f"x86_64_gemm_ahead_{name}": _512(instruction, *_AHEAD)
        for name, instruction in _INSTRUCTIONS.items()
    },
    **{
        f"x86_64_peak_{name}": _peak_512(instruction)
        for name, instruction in _INSTRUCTIONS.items()
    },
    "x86_64_gemm_avx2": _256(),
    "x86_64_gemm_ahead_avx2": _256(*_AHEAD),
    "x86_64_peak_avx2": (
        *(f"vfmadd231ps %ymm12,%ymm14,%ymm{i}" for i in range(12)),
        "dec <turns>",
        "jne LOOP",
    ),
}

_FOUR = tuple(
    place
    for base in ("a0", "a2", "a4", "a6")
    for place in (f"[<{base}>]", f"[<{base}>,<row>]")
)
_STEPS = tuple(f"add <{base}>,<{base}>,<step>" for base in ("a0", "a2", "a4", "a6"))
_AARCH64_ENDING = (*_STEPS, "sub <steps>,<steps>,#0x1", "cbnz <steps>,LOOP")
_AARCH64_AHEAD = ("prfm pldl2keep,[<ahead>]", "add <ahead>,<ahead>,<ahead_step>")
_BLOCKS = {"bfmmla": ("bfmmla", "8h"), "i8mm": ("smmla", "16b")}


def _neon(*ahead: str) -> _Loop:
    rows = (
        text
        for i, place in enumerate(_FOUR)
        for text in (
            f"ldr s3,{place}",
            *(f"fmla v{8 + 3 * i + j}.4s,v{j}.4s,v3.s[0]" for j in range(3)),
        )
    )
    return (
        "ldp q0,q1,[<b>]",
        "ldr q2,[<b>,#32]",
        "add <b>,<b>,#0x30",
        *rows,
        *ahead,
        *_AARCH64_ENDING,
    )


def _half(instruction: str, lanes: str, half: str) -> _Loop:
    loads = (
        "ldp q0,q1,[<b>]",
        "ldp q2,q3,[<b>,#32]",
        "ldp q4,q5,[<b>,#64]",
        "add <b>,<b>,#0x60",
    )
    rows = (
        text
        for i in range(4)
        for text in (
            f"ldr q6,{_FOUR[2 * i]}",
            f"ldr q7,{_FOUR[2 * i + 1]}",
            f"{half} v6.2d,v6.2d,v7.2d",
            *(
                f"{instruction} v{8 + 6 * i + j}.4s,v6.{lanes},v{j}.{lanes}"
                for j in range(6)
            ),
        )
    )
    return (*loads, *rows)


def _blocks(name: str, *ahead: str) -> _Loop:
    halves = (text for half in ("zip1", "zip2") for text in _half(*_BLOCKS[name], half))
    return (*halves, *ahead, *_AARCH64_ENDING)


AARCH64: dict[str, _Loop] = {
    "aarch64_gemm_neon": _neon(),
    "aarch64_gemm_ahead_neon": _neon(*_AARCH64_AHEAD),
    "aarch64_peak_neon": (
        *(f"fmla v{i}.4s,v0.4s,v6.s[0]" for i in range(8, 32)),
        "sub <turns>,<turns>,#0x1",
        "cbnz <turns>,LOOP",
    ),
    **{f"aarch64_gemm_{name}": _blocks(name) for name in _BLOCKS},
    **{
        f"aarch64_gemm_ahead_{name}": _blocks(name, *_AARCH64_AHEAD) for name in _BLOCKS
    },
    **{
        f"aarch64_peak_{name}": (
            *(f"{instruction} v{i}.4s,v6.{lanes},v0.{lanes}" for i in range(8, 32)),
            "sub <turns>,<turns>,#0x1",
            "cbnz <turns>,LOOP",
        )
        for name, (instruction, lanes) in _BLOCKS.items()
    },
}
