"""What the compilers of this machine may do, and what is said where there is none."""

import os
import signal
import subprocess
from contextlib import nullcontext
from pathlib import Path

import pytest

from fleet.agent.build import toolchain as tc
from fleet.agent.build.on_controller import (
    Builder,
    compile_here,
    controller_target,
    find_first_toolchain,
)
from fleet.agent.build.source import read_sources
from fleet.errors import BuildError
from fleet.model import Target
from tests import needs

HERE = controller_target()
OTHER = Target("linux", "aarch64" if HERE.arch != "aarch64" else "x86_64")


@pytest.mark.parametrize(
    ("target", "advice"), [(HERE, "a C compiler"), (OTHER, "a cross compiler")]
)
def test_a_cross_compiler_is_advised_for_other_machines_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: Target, advice: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    # no zig either
    monkeypatch.setattr("fleet.agent.build.on_controller.find_spec", lambda _: None)
    files = tc.select_sources(target, read_sources())
    assert files is not None
    text = rf"Install {advice} \(.+\) or the extra: pip install 'corefleet\[cross\]'\.$"
    with pytest.raises(BuildError, match=text):
        find_first_toolchain(target, None, ())
    with pytest.raises(BuildError, match=text):
        Builder(tmp_path).build(target, files)


def test_a_compiler_for_another_architecture_is_named_as_that(tmp_path: Path) -> None:
    compiler = tmp_path / "own-gcc"
    compiler.write_text(
        "#!/bin/sh\n"
        f'[ "$1" != -dumpmachine ] || {{ echo {OTHER.arch}-linux-gnu; exit; }}\n'
        "echo 'Error: no such instruction' >&2; exit 1\n"
    )
    compiler.chmod(0o755)
    files = tc.select_sources(HERE, read_sources())
    assert files is not None
    text = f"builds for {OTHER.arch}, the host is {HERE.arch}"
    with pytest.raises(BuildError, match=text) as refused:
        Builder(tmp_path / "cache").build(HERE, files, str(compiler))
    assert "no such instruction" not in str(refused.value)


@pytest.mark.parametrize(("benchmark", "others"), [("cas", False), ("gemm", True)])
def test_an_agent_has_the_benchmarks_of_its_plan_and_only_the_small_one_lacks_some(
    tmp_path: Path, benchmark: str, others: bool
) -> None:
    needs.program("cc", "gcc")
    toolchain = tc.host_toolchain("cc", HERE, ("-Wall", "-Wextra", "-Werror"))
    sources = tc.select_small_agent_if_enough(
        tc.select_sources(HERE, read_sources()) or {}, [benchmark]
    )
    agent = tmp_path / "agent"
    agent.write_bytes(compile_here(toolchain, sources, "0" * 16, nullcontext))
    agent.chmod(0o700)

    def forecast(name: str) -> bool:
        command = [agent, "--forecast", "-b", name]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    assert forecast(benchmark)
    assert forecast("chase") is others


def test_a_compiler_that_leaves_a_process_behind_has_built(tmp_path: Path) -> None:
    """It holds both outputs open, and is still there when the binary is."""
    compiler = tmp_path / "leavecc"
    pid = tmp_path / "pid"
    compiler.write_text(
        f"#!/bin/sh\nsleep 1000 &\necho $! >{pid}\necho binary >fleet-agent\n"
    )
    compiler.chmod(0o755)
    toolchain = tc.Toolchain("leavecc", (str(compiler),), (), controller_target())
    binary = compile_here(toolchain, {"main.c": b""}, "0" * 16, nullcontext)
    os.kill(int(pid.read_text()), signal.SIGKILL)
    assert binary == b"binary\n"
