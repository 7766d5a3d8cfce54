"""The `cross` extra: a controller without any compiler builds agents with zig, for
targets of both kinds.
"""

import platform
import subprocess
from pathlib import Path

import pytest

from fleet.agent.build import elf
from fleet.agent.build import toolchain as tc
from fleet.agent.build.on_controller import Builder
from fleet.agent.build.source import read_sources
from fleet.agent.build.systems import ZIG
from fleet.model import Target
from tests import needs

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_zig_builds_a_static_agent_and_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arch: str
) -> None:
    needs.python_module("ziglang", "ziglang")
    emulator = (
        []
        if arch == platform.machine()
        else [needs.program(f"qemu-{arch}-static", "qemu-user-static")]
    )
    # no cc, gcc, clang or cross compiler to be found
    monkeypatch.setenv("PATH", str(tmp_path))
    target = Target("linux", arch)
    files = tc.select_sources(target, read_sources())
    assert files is not None
    notes: list[str] = []
    built = Builder(tmp_path / "cache").build(target, files, notify=notes.append)
    assert built.toolchain.command[:3] == ZIG
    assert notes == [
        f"compiling the agent for {target} with zig; the first time takes about a"
        " minute"
    ]
    assert elf.read_elf(built.binary) == elf.Elf(arch, None, None)
    agent = tmp_path / "agent"
    agent.write_bytes(built.binary)
    agent.chmod(0o755)
    printed = subprocess.run(
        [*emulator, agent, "--build-id"], capture_output=True, text=True, check=True
    )
    assert printed.stdout.strip() == built.build
