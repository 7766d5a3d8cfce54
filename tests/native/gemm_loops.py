"""The intended loops of gemm, by symbol; written as in targets.py. Those on tiles: test_amx.py."""

_Loop = tuple[str, ...]

_ROWS = (
    "(<a>)",
    "(<a>,<row>,1)",
    "(<a>,<row>,2)",
    "(<a3>)",
    "(<a3>,<row>,1)",
    "(<a3>,<row>,2)",
    "(<a6>)",
    "(<a6>,<row>,1)",
)
_ENDING = ("dec <steps>", "jne LOOP")
_AHEAD = ("prefetcht2 (<ahead>)", "add <ahead_step>,<ahead>")


def _512(instruction: str, *ahead: str) -> _Loop:
    loads = (f"vmovups {at},%zmm{24 + i}" for i, at in enumerate(("(<b>)", "0x40(<b>)", "0x80(<b>)")))
    rows = (
        text
        for i, place in enumerate(_ROWS)
        for text in (
            f"vbroadcastss {place},%zmm27",
            *(f"{instruction} %zmm{24 + j},%zmm27,%zmm{3 * i + j}" for j in range(3)),
        )
    )
    steps = (*(f"add <step>,<{name}>" for name in ("a", "a3", "a6")), "add $0xc0,<b>")
    return (*loads, *rows, *ahead, *steps, *_ENDING)


def _peak_512(instruction: str) -> _Loop:
    return (*(f"{instruction} %zmm24,%zmm27,%zmm{i}" for i in range(24)), "dec <turns>", "jne LOOP")


def _256(*ahead: str) -> _Loop:
    rows = (
        text
        for i, place in enumerate(_ROWS[:6])
        for text in (
            f"vbroadcastss {place},%ymm14",
            *(f"vfmadd231ps %ymm{12 + j},%ymm14,%ymm{2 * i + j}" for j in range(2)),
        )
    )
    loads = ("vmovups (<b>),%ymm12", "vmovups 0x20(<b>),%ymm13")
    return (*loads, *rows, *ahead, "add <step>,<a>", "add <step>,<a3>", "add $0x40,<b>", *_ENDING)


_INSTRUCTIONS = {"avx512": "vfmadd231ps", "bf16": "vdpbf16ps", "vnni": "vpdpbusd"}

X86_64: dict[str, _Loop] = {
    **{f"x86_64_gemm_{name}": _512(instruction) for name, instruction in _INSTRUCTIONS.items()},
    **{
        f"x86_64_gemm_ahead_{name}": _512(instruction, *_AHEAD) for name, instruction in _INSTRUCTIONS.items()
    },
    **{f"x86_64_peak_{name}": _peak_512(instruction) for name, instruction in _INSTRUCTIONS.items()},
    "x86_64_gemm_avx2": _256(),
    "x86_64_gemm_ahead_avx2": _256(*_AHEAD),
    "x86_64_peak_avx2": (
        *(f"vfmadd231ps %ymm12,%ymm14,%ymm{i}" for i in range(12)),
        "dec <turns>",
        "jne LOOP",
    ),
}
