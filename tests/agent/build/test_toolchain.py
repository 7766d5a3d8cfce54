"""Toolchains are chosen by what they make, builds named by what went in."""

import shlex
import subprocess
from pathlib import Path

import pytest

from fleet.agent.build import toolchain as tc
from fleet.agent.build.source import read_sources
from fleet.agent.build.systems import VARIANTS, ZIG
from fleet.model import ARCHES, Target
from tests import needs

X86 = Target("linux", "x86_64")
ARM = Target("linux", "aarch64")


@pytest.mark.parametrize(
    ("os", "arch"), [("linux", "aarch64"), *(("qnx", arch) for arch in VARIANTS)]
)
def test_a_target_is_built_from_its_own_files_and_no_others(os: str, arch: str) -> None:
    picked = tc.select_sources(Target(os, arch), read_sources())
    assert picked is not None
    native = {
        name for name in picked if name.startswith("native/") and name.endswith(".c")
    }
    assert {f"native/{os}.c", f"native/{arch}.c", "native/generic.c"} <= native
    assert all(
        name.startswith((f"native/{os}", f"native/{arch}", "native/generic"))
        for name in native
    )
    assert {"main.c", "native/native.h"} <= picked.keys()


def test_only_files_without_timed_loops_are_compiled_together_and_each_once() -> None:
    sources = tc.select_sources(ARM, read_sources()) or {}
    toolchain = tc.host_toolchain("cc", ARM)
    loops = toolchain.list_timed_files(sources)
    rooms = toolchain.merge_untimed_files(sources)
    included = [
        line.split('"')[1]
        for text in rooms.values()
        for line in text.decode().splitlines()
    ]
    assert sorted([*loops, *included]) == sorted(
        name for name in sources if name.endswith(".c")
    )
    assert {
        "bench/chase.c",
        "burst/samples.c",
        "native/aarch64.c",
        "native/generic.c",
    } <= {*loops}
    assert not any(
        name.startswith(("plan/", "emit/", "native/linux")) for name in loops
    )


def test_the_build_id_changes_with_everything_that_goes_in() -> None:
    base = tc.host_toolchain("cc", X86)
    files = {"main.c": b"int main;"}
    ids = {
        tc.build_id(files, base),
        tc.build_id({"main.c": b"int main ;"}, base),
        tc.build_id({"mian.c": b"int main;"}, base),
        tc.build_id(files, tc.host_toolchain("gcc", X86)),
        tc.build_id(files, tc.host_toolchain("cc", ARM)),
        tc.build_id(files, tc.host_toolchain("cc", X86, ("-O3",))),
    }
    assert len(ids) == 6
    assert tc.build_id(files, base) == tc.build_id(
        dict(files), tc.host_toolchain("cc", X86)
    )


def test_flags_with_quotes_reach_the_agent_unharmed(tmp_path: Path) -> None:
    cc = needs.program("cc", "gcc")
    show = (
        b'#include <stdio.h>\n#include "base/build_facts.h"\nint main(void) {'
        b" puts(FLEET_CFLAGS); }\n"
    )
    toolchain = tc.Toolchain("cc", (cc,), ("-O1", '-DWORD="a b\\\\"'), X86)
    for name, text in toolchain.files_to_compile({"bench/show.c": show}, "id").items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(text)
    line = shlex.join(toolchain.command_line({"bench/show.c": show}, "show"))
    assert "FLEET_" not in line
    subprocess.run(["/bin/sh", "-c", line], cwd=tmp_path, check=True)
    printed = subprocess.run(
        [tmp_path / "show"], capture_output=True, text=True, check=True
    )
    assert printed.stdout == '-O1 -DWORD="a b\\\\"\n'


def test_the_controllers_own_target_tries_native_compilers_before_cross_ones() -> None:
    own = [t.command[0] for t in tc.controller_toolchains(X86, X86, None)]
    cross = [t.command[0] for t in tc.controller_toolchains(ARM, X86, None)]
    assert own[:3] == ["cc", "gcc", "clang"]
    assert cross[0] == "aarch64-linux-gnu-gcc"
    assert "cc" not in cross
    assert cross[-1] == own[-2] == ZIG[0]


def test_only_the_last_resort_links_dynamically() -> None:
    *static, last = tc.controller_toolchains(X86, X86, None)
    assert all("-static" in t.cflags for t in static)
    assert "-static" not in last.cflags


def test_a_wished_compiler_is_the_only_one_tried() -> None:
    (only,) = tc.controller_toolchains(ARM, X86, "my-cc", ("-g",))
    assert only.command == ("my-cc",)
    assert only.cflags[-1] == "-g"


@pytest.mark.parametrize("arch", ARCHES)
def test_every_architecture_an_inventory_may_name_has_sources_and_compilers(
    arch: str,
) -> None:
    assert tc.select_sources(Target("linux", arch), read_sources()) is not None
    commands = [
        t.command
        for t in tc.controller_toolchains(
            Target("linux", arch), Target("linux", "vax"), None
        )
    ]
    assert any(command[0].endswith("-gcc") for command in commands)
    assert commands[-1][:3] == ZIG
