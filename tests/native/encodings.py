"""Names of the instructions that the agent encodes itself, for an objdump that does not
know them.
"""

import re

_RISCV = (
    *("zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1"),
    *(f"a{i}" for i in range(8)),
    *(f"s{i}" for i in range(2, 12)),
    *(f"t{i}" for i in range(3, 7)),
)
_LOONGARCH = (
    "$zero",
    "$ra",
    "$tp",
    "$sp",
    *(f"$a{i}" for i in range(8)),
    *(f"$t{i}" for i in range(9)),
)
_REGISTERS = {"x": _RISCV, "r": _LOONGARCH}

# Mask, value and text; in <> a number (n), or a register of RISC-V (x) or LoongArch
# (r): first bit, and width if not 5.
_FORMS = (
    (0xFE00707F, 0x2800202F, "amocas.w <x7>,<x20>,(<x15>)"),  # without aq and rl
    (0xFFF0707F, 0x0C307057, "vsetvli <x7>,<x15>,e8,m8,ta,ma"),
    (0xFFF0707F, 0x0DB07057, "vsetvli <x7>,<x15>,e64,m8,ta,ma"),
    (0xFFF0707F, 0x02000007, "vle8.v v<n7>,(<x15>)"),
    (0xFFF0707F, 0x02000027, "vse8.v v<n7>,(<x15>)"),
    (0xFE00707F, 0x02003057, "vadd.vi v<n7>,v<n20>,<n15>"),
    (0xFFF0707F, 0x5E004057, "vmv.v.x v<n7>,<x15>"),
    (0xFFF07FFF, 0x0040200F, "cbo.zero (<x15>)"),
    (0xFFFF8000, 0x38590000, "amcas.w <r0>,<r10>,<r5>"),
    (0xFFC00000, 0x2C000000, "vld $vr<n0>,<r5>,<n10:12>"),
    (0xFFC00000, 0x2C400000, "vst $vr<n0>,<r5>,<n10:12>"),
    (0xFFC00000, 0x2C800000, "xvld $xr<n0>,<r5>,<n10:12>"),
    (0xFFC00000, 0x2CC00000, "xvst $xr<n0>,<r5>,<n10:12>"),
    (0xFFFF8000, 0x728B8000, "vaddi.du $vr<n0>,$vr<n5>,<n10>"),
    (0xFFFF8000, 0x768B8000, "xvaddi.du $xr<n0>,$xr<n5>,<n10>"),
    (0xFFFFFC00, 0x729F0C00, "vreplgr2vr.d $vr<n0>,<r5>"),
    (0xFFFFFC00, 0x769F0C00, "xvreplgr2vr.d $xr<n0>,<r5>"),
)


def name_instruction(word: int) -> str:
    """Name an instruction: "vle8.v v8,(a0)"; "unknown 0x..." for one that the agent
    does not encode.
    """
    text = next(
        (text for mask, value, text in _FORMS if word & mask == value),
        f"unknown {word:#x}",
    )
    return re.sub(
        r"<([nrx])(\d+)(?::(\d+))?>",
        lambda m: _field(word, m[1], int(m[2]), int(m[3] or 5)),
        text,
    )


def _field(word: int, kind: str, first: int, width: int) -> str:
    number = word >> first & ((1 << width) - 1)
    return str(number) if kind == "n" else _REGISTERS[kind][number]
