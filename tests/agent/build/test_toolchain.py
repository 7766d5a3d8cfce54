"""Toolchains are chosen by what they make, builds named by what went in, binaries read before they travel."""

import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.agent.build import toolchain as tc
from fleet.agent.build.source import sources
from fleet.inventory.schema import ARCHES
from fleet.model import Target
from tests import needs

X86 = Target("linux", "x86_64")
ARM = Target("linux", "aarch64")


def test_a_target_is_built_from_its_own_files_and_no_others() -> None:
    picked = tc.sources_for(ARM, sources())
    assert picked is not None
    native = {name for name in picked if name.startswith("native/") and name.endswith(".c")}
    assert native == {"native/linux.c", "native/aarch64.c", "native/generic.c"}
    assert "main.c" in picked
    assert "native/native.h" in picked


def test_an_unknown_target_has_no_sources() -> None:
    assert tc.sources_for(Target("linux", "vax"), sources()) is None


def test_the_build_id_changes_with_everything_that_goes_in() -> None:
    base = tc.on_host("cc", X86)
    files = {"main.c": b"int main;"}
    ids = {
        tc.build_id(files, base),
        tc.build_id({"main.c": b"int main ;"}, base),
        tc.build_id({"mian.c": b"int main;"}, base),
        tc.build_id(files, tc.on_host("gcc", X86)),
        tc.build_id(files, tc.on_host("cc", ARM)),
        tc.build_id(files, tc.on_host("cc", X86, ("-O3",))),
    }
    assert len(ids) == 6
    assert tc.build_id(files, base) == tc.build_id(dict(files), tc.on_host("cc", X86))


def test_flags_with_quotes_reach_the_agent_unharmed(tmp_path: Path) -> None:
    cc = needs.program("cc", "gcc")
    (tmp_path / "show.c").write_text("#include <stdio.h>\nint main(void) { puts(FLEET_CFLAGS); }\n")
    toolchain = tc.Toolchain("cc", (cc,), ("-O1", '-DWORD="a b\\\\"'), X86)
    line = toolchain.command_line(["show.c"], "id", "show")
    subprocess.run(["/bin/sh", "-c", line], cwd=tmp_path, check=True, timeout=60)
    shown = subprocess.run([tmp_path / "show"], capture_output=True, text=True, check=True, timeout=10)
    assert shown.stdout == '-O1 -DWORD="a b\\\\"\n'


def test_the_controllers_own_target_tries_native_compilers_before_cross_ones() -> None:
    own = [t.command[0] for t in tc.on_controller(X86, X86, None)]
    cross = [t.command[0] for t in tc.on_controller(ARM, X86, None)]
    assert own[:3] == ["cc", "gcc", "clang"]
    assert cross[0] == "aarch64-linux-gnu-gcc"
    assert "cc" not in cross
    assert cross[-1] == own[-2] == tc.ZIG[0]


def test_only_the_last_resort_links_dynamically() -> None:
    *static, last = tc.on_controller(X86, X86, None)
    assert all("-static" in t.cflags for t in static)
    assert "-static" not in last.cflags


def test_a_wished_compiler_is_the_only_one_tried() -> None:
    (only,) = tc.on_controller(ARM, X86, "my-cc", ("-g",))
    assert only.command == ("my-cc",)
    assert only.cflags[-1] == "-g"


@pytest.mark.parametrize("static", [False, True])
def test_a_real_binary_is_read_right(tmp_path: Path, static: bool) -> None:
    cc = needs.program("cc", "gcc")
    (tmp_path / "m.c").write_text('#include <stdio.h>\nint main(void) { puts(""); }\n')
    flags = ["-static"] if static else []
    subprocess.run([cc, *flags, "-o", "m", "m.c"], cwd=tmp_path, check=True, timeout=60)
    elf = tc.read_elf((tmp_path / "m").read_bytes())
    machine = subprocess.run(["uname", "-m"], capture_output=True, text=True, check=True).stdout.strip()
    assert elf.machine == machine
    assert (elf.interpreter is None) is static
    assert tc.misfit(elf, Target("linux", machine), None) is None


def elf(machine: int, bits: int, order: str, interpreter: bytes) -> bytes:
    """A file with nothing but its headers, laid out by hand after the System V gABI."""
    ident = b"\x7fELF" + bytes([bits // 32, "<>".index(order) + 1, 1]) + bytes(9)
    size = len(interpreter)
    if bits == 32:
        header = struct.pack(order + "HHIIIIIHHHHHH", 2, machine, 1, 0, 52, 0, 0, 52, 32, 1, 0, 0, 0)
        program = struct.pack(order + "IIIIIIII", 3, 84, 0, 0, size, size, 4, 1)
    else:
        header = struct.pack(order + "HHIQQQIHHHHHH", 2, machine, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
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
    assert tc.read_elf(elf(machine, bits, order, b"/lib/ld.so.1\0")) == tc.Elf(arch, "/lib/ld.so.1", None)


@pytest.mark.parametrize("arch", ARCHES)
def test_every_architecture_an_inventory_may_name_has_sources_and_compilers(arch: str) -> None:
    assert tc.sources_for(Target("linux", arch), sources()) is not None
    commands = [t.command for t in tc.on_controller(Target("linux", arch), Target("linux", "vax"), None)]
    assert any(command[0].endswith("-gcc") for command in commands)
    assert commands[-1][:3] == tc.ZIG


@pytest.mark.parametrize(
    ("elf", "libc", "why"),
    [
        (tc.Elf("aarch64", None, None), None, "it is for aarch64, the host is x86_64"),
        (tc.Elf("x86_64", "/usr/lib/ldqnx-64.so.2", None), None, "it is for QNX"),
        (tc.Elf("x86_64", "/lib64/ld-linux-x86-64.so.2", (2, 34)), "musl 1.2.4", "it needs glibc"),
        (tc.Elf("x86_64", "/lib/ld-musl-x86_64.so.1", None), "glibc 2.36", "it needs musl"),
        (tc.Elf("x86_64", "/lib64/ld-linux-x86-64.so.2", (2, 38)), "glibc 2.36", "it needs glibc 2.38"),
    ],
)
def test_a_binary_that_cannot_run_there_is_named_before_it_travels(
    elf: tc.Elf, libc: str | None, why: str
) -> None:
    found = tc.misfit(elf, X86, libc)
    assert found is not None
    assert found.startswith(why)


@pytest.mark.parametrize(
    ("elf", "libc"),
    [
        (tc.Elf("x86_64", None, None), "musl 1.2.4"),
        (tc.Elf("x86_64", "/lib64/ld-linux-x86-64.so.2", (2, 34)), "glibc 2.36"),
        (tc.Elf("x86_64", "/lib64/ld-linux-x86-64.so.2", (2, 34)), None),
    ],
)
def test_a_binary_that_can_run_there_is_let_through(elf: tc.Elf, libc: str | None) -> None:
    assert tc.misfit(elf, X86, libc) is None


@given(st.binary(max_size=300))
def test_any_other_file_is_refused_in_words(data: bytes) -> None:
    for candidate in (data, b"\x7fELF\x02\x01" + data):
        try:
            tc.read_elf(candidate)
        except ValueError as err:
            assert "ELF" in str(err)
