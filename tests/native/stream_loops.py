"""The intended loops of chase and bandwidth, by symbol; written as in targets.py."""

_X86_WIDTHS = {
    "avx512": ("v", "zmm", 64, ("vpbroadcastq <at>,%zmm0",)),
    "avx": (
        "v",
        "ymm",
        32,
        (
            "vmovq <at>,%xmm0",
            "vpunpcklqdq %xmm0,%xmm0,%xmm0",
            "vinsertf128 $0x1,%xmm0,%ymm0,%ymm0",
        ),
    ),
    "sse2": ("", "xmm", 16, ("movq <at>,%xmm0", "punpcklqdq %xmm0,%xmm0")),
}

_Loop = tuple[str, ...]


def _hex(number: int) -> str:
    return f"{number:#x}" if number else ""


def _x86_turn(step: int, *body: str, copies: bool = False) -> _Loop:
    more = (f"add ${_hex(step)},<from>",) if copies else ()
    return (*body, *more, f"add ${_hex(step)},<at>", "cmp <end>,<at>", "jb LOOP")


def _x86_modify(prefix: str, register: str, width: int) -> _Loop:
    if not prefix:
        pairs = (
            (f"movaps {_hex(i * 16)}(<at>),%xmm{i}", f"psubq %xmm8,%xmm{i}")
            for i in range(8)
        )
        return tuple(text for pair in pairs for text in pair)
    change = {"zmm": "vpsubq", "ymm": "vxorps"}[register]
    return tuple(
        f"{change} {_hex(i * width)}(<at>),%{register}8,%{register}{i}"
        for i in range(8)
    )


def _x86_width(variant: str) -> dict[str, _Loop]:
    prefix, register, width, address = _X86_WIDTHS[variant]
    move = f"{prefix}movaps"
    past = f"{prefix}movntps"

    def loads(base: str) -> _Loop:
        return tuple(
            f"{move} {_hex(i * width)}(<{base}>),%{register}{i}" for i in range(8)
        )

    def stores(instruction: str, *, same: bool) -> _Loop:
        return tuple(
            f"{instruction} %{register}{0 if same else i},{_hex(i * width)}(<at>)"
            for i in range(8)
        )

    step = 8 * width
    return {
        f"x86_64_read_{variant}": _x86_turn(step, *loads("at")),
        f"x86_64_write_{variant}": _x86_turn(step, *address, *stores(move, same=True)),
        f"x86_64_nt_{variant}": _x86_turn(step, *address, *stores(past, same=True)),
        f"x86_64_modify_{variant}": _x86_turn(
            step, *_x86_modify(prefix, register, width), *stores(move, same=False)
        ),
        f"x86_64_copy_{variant}": _x86_turn(
            step, *loads("from"), *stores(move, same=False), copies=True
        ),
        f"x86_64_ntcopy_{variant}": _x86_turn(
            step, *loads("from"), *stores(past, same=False), copies=True
        ),
    }


def _x86_prefetch(register: str, width: int) -> _Loop:
    step = 8 * width
    ahead = (f"prefetcht0 {_hex(2048 + line)}(<at>)" for line in range(0, step, 64))
    return _x86_turn(
        step,
        *ahead,
        *(f"vmovaps {_hex(i * width)}(<at>),%{register}{i}" for i in range(8)),
    )


def _x86_streams(register: str, width: int) -> _Loop:
    loads = (
        f"vmovaps {_hex(k * width)}(<{base}>),%{register}{2 * i + k}"
        for i, base in enumerate(("at", "b", "c", "d"))
        for k in range(2)
    )
    return _x86_turn(
        2 * width,
        *loads,
        *(f"add ${_hex(2 * width)},<{base}>" for base in ("b", "c", "d")),
    )


X86_64: dict[str, _Loop] = {
    "x86_64_chase_mov": ("mov (<line>),<line>", "dec <n>", "jne LOOP"),
    **_x86_width("avx512"),
    **_x86_width("avx"),
    **_x86_width("sse2"),
    "x86_64_read_prefetch512": _x86_prefetch("zmm", 64),
    "x86_64_read_prefetch256": _x86_prefetch("ymm", 32),
    "x86_64_read_streams512": _x86_streams("zmm", 64),
    "x86_64_read_streams256": _x86_streams("ymm", 32),
    "x86_64_read_tiles": (
        "tileloadd (%rsi,%rdx,1),%tmm0",
        "add $0x40,%rsi",
        "lea (%rsi,<down>,1),<below>",
        "dec <left>",
        "cmove <below>,%rsi",
        "cmove <columns>,<left>",
        "dec <count>",
        "jne LOOP",
    ),
    "x86_64_zero_clzero": ("clzero", "add $0x40,%rax", "cmp <end>,%rax", "jb LOOP"),
}

_NEON = (*range(8), *range(16, 24))


def _place(base: str, offset: int) -> str:
    return f"[<{base}>,#{offset}]" if offset else f"[<{base}>]"


def _pairs(instruction: str, base: str) -> _Loop:
    pairs = zip(_NEON[::2], _NEON[1::2], range(0, 256, 32), strict=True)
    return tuple(
        f"{instruction} q{a},q{b},{_place(base, offset)}" for a, b, offset in pairs
    )


def _same(instruction: str) -> _Loop:
    return (
        "dup v0.2d,<at>",
        *(f"{instruction} q0,q0,{_place('at', i)}" for i in range(0, 256, 32)),
    )


def _turn(
    *body: str, step: str = "add <{0}>,<{0}>,#0x100", copies: bool = False
) -> _Loop:
    steps = (step.format(base) for base in ("at", "from")[: 1 + copies])
    return (*body, *steps, "cmp <at>,<end>", "b.cc LOOP")


def _scalable(instruction: str, base: str, *, same: bool = False) -> _Loop:
    places = ("", *(f",#{i},mul vl" for i in range(1, 8)))
    return tuple(
        f"{instruction} z{0 if same else i},[<{base}>{place}]"
        for i, place in enumerate(places)
    )


_ADDVL = "addvl <{0}>,<{0}>,#8"

AARCH64: dict[str, _Loop] = {
    "aarch64_chase_ldr": (
        *("ldr <line>,[<line>]",) * 16,
        "sub <n>,<n>,#0x1",
        "cbnz <n>,LOOP",
    ),
    "aarch64_read_neon": _turn(*_pairs("ldp", "at")),
    "aarch64_write_neon": _turn(*_same("stp")),
    "aarch64_nt_neon": _turn(*_same("stnp")),
    "aarch64_modify_neon": _turn(
        *_pairs("ldp", "at"),
        *(f"sub v{i}.2d,v{i}.2d,v24.2d" for i in _NEON),
        *_pairs("stp", "at"),
    ),
    "aarch64_copy_neon": _turn(
        *_pairs("ldp", "from"), *_pairs("stp", "at"), copies=True
    ),
    "aarch64_ntcopy_neon": _turn(
        *_pairs("ldp", "from"), *_pairs("stnp", "at"), copies=True
    ),
    "aarch64_read_sve": _turn(*_scalable("ldr", "at"), step=_ADDVL),
    "aarch64_write_sve": _turn(
        "mov z0.d,<at>", *_scalable("str", "at", same=True), step=_ADDVL
    ),
    "aarch64_modify_sve": _turn(
        *_scalable("ldr", "at"),
        *(f"add z{i}.d,z{i}.d,#1" for i in range(8)),
        *_scalable("str", "at"),
        step=_ADDVL,
    ),
    "aarch64_copy_sve": _turn(
        *_scalable("ldr", "from"), *_scalable("str", "at"), step=_ADDVL, copies=True
    ),
    "aarch64_zero_zva": (
        "dc zva,<at>",
        "add <at>,<at>,<block>",
        "cmp <at>,<end>",
        "b.cc LOOP",
    ),
}
