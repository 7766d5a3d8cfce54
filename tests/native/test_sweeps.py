"""Every loop through memory, of every architecture, leaves there what its operation
should, and no more.
"""

import subprocess
from pathlib import Path

import pytest

from fleet.model import BENCHMARKS
from tests.native.build import build
from tests.native.emulated import emulator
from tests.native.preload import TROUBLE
from tests.native.targets import AARCH64, CROSS, RISCV64, X86_64, Target, make_troubled

PROGRAM = str(TROUBLE / "sweeps.c")
CPUS = (
    *((target, name) for target in (AARCH64, *CROSS) for name in target.emulators),
    *((RISCV64, f"rvv,vlen={bits}") for bits in (256, 512, 1024)),
    *((AARCH64, f"max,sve{bits}=on") for bits in (128, 512)),
)


def sweeps(binary: Path, *prefix: str) -> dict[tuple[str, str], str]:
    """Return what each loop did, by variant and operation."""
    done = subprocess.run(
        [*prefix, str(binary)],
        capture_output=True,
        text=True,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    lines = (line.split(" ", 2) for line in done.stdout.splitlines())
    return {(variant, operation): words for variant, operation, words in lines}


def test_every_loop_of_this_machine_does_what_its_operation_says() -> None:
    results = sweeps(build(X86_64, "-O2", program=PROGRAM))
    assert set(results.values()) == {"ok"}
    assert {
        ("sse2", "ntcopy"),
        ("stosb", "zero"),
        ("c11", "modify"),
        ("libc", "copy"),
    } <= set(results)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "cpu"), CPUS, ids=lambda it: it if isinstance(it, str) else it.name
)
def test_every_loop_of_other_machines_does_what_its_operation_says(
    target: Target, cpu: str
) -> None:
    results = sweeps(
        build(target, "-O2 -static", program=PROGRAM), *emulator(target, cpu)
    )
    assert set(results.values()) == {"ok"}
    if cpu == next(iter(target.emulators)):
        loops = BENCHMARKS["bandwidth"].variants[target.name.partition("-")[2]]
        assert {variant for variant, _ in results} == {*loops, "c11", "libc"} - set(
            target.lacks
        )


@pytest.mark.long
def test_loops_that_do_something_else_are_noticed() -> None:
    untidy = make_troubled("untidy")
    results = sweeps(build(untidy, "-O1", program=PROGRAM))
    assert {
        operation: words
        for (variant, operation), words in results.items()
        if variant == "untidy"
    } == {
        "read": "did not read all",
        "write": "stored the same in two blocks",
        "nt": "died",
        "zero": "left bytes out",
        "modify": "did not change each word once",
        "copy": "changed what it was not given",
        "ntcopy": "did not end where it should",
    }
