"""The hot loops hold exactly the intended instructions, whatever compiler and flags
built them.
"""

import pytest

from tests.native import disassembly
from tests.native.build import build, build_loops
from tests.native.targets import TARGETS, X86_64, Target

LEVELS = ("-O0", "-O1", "-O2", "-O3")
OTHER_FLAGS = (
    "-Os",
    "-O3 -march=native",
    "-O2 -fPIE",
    "-O2 -fno-inline -fno-omit-frame-pointer",
)
# gcc warns of other things at other levels; test_architectures.py makes the whole agent
# at the rest of them, and clang's warnings are those of the sources.
WHOLE = {False: ("-O2", "-Os", "-O3 -march=native"), True: ("-O2",)}


def check_loops(target: Target, flags: str, *, clang: bool) -> None:
    make = build if flags in WHOLE[clang] else build_loops
    binary = make(target, flags, clang=clang)
    for symbol, intended in target.loops.items():
        loop = disassembly.loop(disassembly.instructions(target, binary, symbol))
        assert disassembly.matches(loop, intended), f"{symbol}: {loop}"


@pytest.mark.long
def test_the_loops_of_the_usual_build_are_the_intended_instructions():
    check_loops(X86_64, "-O2", clang=False)


@pytest.mark.slow
@pytest.mark.parametrize("flags", LEVELS)
@pytest.mark.parametrize("clang", [False, True], ids=["gcc", "clang"])
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_the_loops_do_not_change_with_compiler_and_level(target, clang, flags):
    check_loops(target, flags, clang=clang)


@pytest.mark.slow
@pytest.mark.parametrize("flags", OTHER_FLAGS)
@pytest.mark.parametrize("clang", [False, True], ids=["gcc", "clang"])
def test_the_loops_do_not_change_with_other_flags(clang, flags):
    check_loops(X86_64, flags, clang=clang)


def test_a_loop_with_one_instruction_more_is_noticed():
    good = [
        "mov %esi,%eax",
        "lock cmpxchg %edx,(%rdi)",
        "jne LOOP",
        "dec %ecx",
        "jne LOOP",
    ]
    assert disassembly.matches(good, X86_64.loops["x86_64_cas_cmpxchg"])
    assert not disassembly.matches(
        [*good[:3], "pause", *good[3:]], X86_64.loops["x86_64_cas_cmpxchg"]
    )


def test_a_loop_that_uses_one_register_for_two_things_is_noticed():
    bad = [
        "mov %esi,%eax",
        "lock cmpxchg %esi,(%rdi)",
        "jne LOOP",
        "dec %ecx",
        "jne LOOP",
    ]
    assert not disassembly.matches(bad, X86_64.loops["x86_64_cas_cmpxchg"])
