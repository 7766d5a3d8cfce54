"""Binaries are read before they travel."""

import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.agent.build import elf
from fleet.agent.build.on_host import read_prebuilt
from fleet.errors import BuildError
from fleet.model import Facts, Host, RequestedToolchain, Target
from tests import needs

X86 = Target("linux", "x86_64")


@pytest.mark.parametrize("static", [False, True])
def test_a_real_binary_is_read_right(tmp_path: Path, static: bool) -> None:
    cc = needs.program("cc", "gcc")
    (tmp_path / "m.c").write_text('#include <stdio.h>\nint main(void) { puts(""); }\n')
    flags = ["-static"] if static else []
    subprocess.run([cc, *flags, "-o", "m", "m.c"], cwd=tmp_path, check=True)
    header = elf.read_elf((tmp_path / "m").read_bytes())
    machine = subprocess.run(
        ["uname", "-m"], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert header.machine == machine
    assert (header.interpreter is None) is static
    assert elf.explain_mismatch(header, Target("linux", machine), None) is None


def headers(machine: int, bits: int, order: str, interpreter: bytes) -> bytes:
    """A file with nothing but its headers, laid out by hand after the System V gABI."""
    ident = b"\x7fELF" + bytes([bits // 32, "<>".index(order) + 1, 1]) + bytes(9)
    size = len(interpreter)
    if bits == 32:
        header = struct.pack(
            order + "HHIIIIIHHHHHH", 2, machine, 1, 0, 52, 0, 0, 52, 32, 1, 0, 0, 0
        )
        program = struct.pack(order + "IIIIIIII", 3, 84, 0, 0, size, size, 4, 1)
    else:
        header = struct.pack(
            order + "HHIQQQIHHHHHH", 2, machine, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0
        )
        program = struct.pack(order + "IIQQQQQQ", 3, 4, 120, 0, 0, size, size, 1)
    return ident + header + program + interpreter


@pytest.mark.parametrize(
    ("machine", "bits", "order", "arch"),
    [
        (3, 32, "<", "i386"),
        (21, 64, "<", "ppc64le"),
        (21, 64, ">", "ppc64"),
        (22, 32, ">", "s390"),
        (22, 64, ">", "s390x"),
        (40, 32, "<", "armv7"),
        (62, 32, "<", "x32"),
        (243, 32, "<", "riscv32"),
        (243, 64, "<", "riscv64"),
        (258, 64, "<", "loongarch64"),
        (8, 32, ">", "ELF machine 8"),
    ],
)
def test_word_size_and_byte_order_tell_architectures_of_one_number_apart(
    machine: int, bits: int, order: str, arch: str
) -> None:
    assert elf.read_elf(headers(machine, bits, order, b"/lib/ld.so.1\0")) == elf.Elf(
        arch, "/lib/ld.so.1", None
    )


@pytest.mark.parametrize(
    ("binary", "libc", "why"),
    [
        (elf.Elf("aarch64", None, None), None, "it is for aarch64, the host is x86_64"),
        (elf.Elf("x86_64", "/usr/lib/ldqnx-64.so.2", None), None, "it is for QNX"),
        (
            elf.Elf("x86_64", "/lib64/ld-linux-x86-64.so.2", (2, 34)),
            "musl 1.2.4",
            "it needs glibc",
        ),
        (
            elf.Elf("x86_64", "/lib/ld-musl-x86_64.so.1", None),
            "glibc 2.36",
            "it needs musl",
        ),
        (
            elf.Elf("x86_64", "/lib64/ld-linux-x86-64.so.2", (2, 38)),
            "glibc 2.36",
            "it needs glibc 2.38",
        ),
        (elf.Elf("x86_64", None, None), "musl 1.2.4", None),
        (elf.Elf("x86_64", "/lib64/ld-linux-x86-64.so.2", (2, 34)), "glibc 2.36", None),
        (elf.Elf("x86_64", "/lib64/ld-linux-x86-64.so.2", (2, 34)), None, None),
    ],
)
def test_only_a_binary_that_cannot_run_there_is_named_before_it_travels(
    binary: elf.Elf, libc: str | None, why: str | None
) -> None:
    problem = elf.explain_mismatch(binary, X86, libc)
    assert problem is None if why is None else str(problem).startswith(why)


@pytest.mark.parametrize(("bits", "fields"), [(64, (32, 72, 96)), (32, (28, 56, 68))])
def test_an_elf_file_that_points_beyond_its_end_is_refused_in_words(
    tmp_path: Path, bits: int, fields: Sequence[int]
) -> None:
    """fields: where it has the place of its program headers, and of a segment its place
    and its size.
    """
    content = headers(62, bits, "<", b"/lib/ld.so.1\0")
    for offset in fields:
        for number in (len(content), 2 ** (bits - 1), 2**bits - 1):
            binary = bytearray(content)
            binary[offset : offset + bits // 8] = number.to_bytes(bits // 8, "little")
            with pytest.raises(
                ValueError,
                match=r"damaged ELF file: it has .+ bytes; byte .+ is needed",
            ):
                elf.read_elf(bytes(binary))
    with pytest.raises(ValueError, match="damaged ELF file"):
        elf.read_elf(content[:-1])
    (tmp_path / "agent").write_bytes(binary)
    host = Host(
        "board", "h", toolchain=RequestedToolchain(binary=str(tmp_path / "agent"))
    )
    with pytest.raises(
        BuildError,
        match=f"board: the agent from {tmp_path}/agent cannot .*damaged ELF file",
    ):
        read_prebuilt(host, Facts("linux", "x86_64"))


def test_version_numbers_that_are_none_are_no_error() -> None:
    assert (
        elf.read_elf(
            headers(62, 64, "<", b"/l\0") + b"GLIBC_" + b"9" * 5000 + b".1"
        ).interpreter
        == "/l"
    )


@given(st.binary(max_size=300))
def test_any_other_file_is_refused_in_words(data: bytes) -> None:
    for candidate in (data, b"\x7fELF\x02\x01" + data):
        try:
            elf.read_elf(candidate)
        except ValueError as err:
            assert "ELF" in str(err)
