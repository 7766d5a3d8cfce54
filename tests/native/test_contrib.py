"""The agent in images for boards: what the Buildroot package and the Yocto recipe say
is run.

The tests give the few names that these files take from either build system, and a cross
compiler.
"""

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from fleet.agent.build.elf import read_elf
from fleet.agent.build.systems import SYSTEMS
from tests import needs
from tests.native.build import AGENT

pytestmark = pytest.mark.slow

CONTRIB = AGENT / "contrib"
PACKAGE = CONTRIB / "buildroot/package/fleet-agent"
RECIPE = CONTRIB / "yocto/recipes-benchmark/fleet-agent/fleet-agent_git.bb"
BUILDROOT = """
qstrip = $(strip $(subst ",,$(1)))
TARGET_MAKE_ENV = PATH="$(PATH)"
TARGET_CONFIGURE_OPTS = CC="{cc}" CFLAGS="-O1 -D_FORTIFY_SOURCE=1" LDFLAGS=""
INSTALL = install
BR2_PACKAGE_FLEET_AGENT_ARCH = "aarch64"
SOURCE = {source}
TARGET_DIR = {image}
include {folder}/fleet-agent.mk
all:
\t$(FLEET_AGENT_BUILD_CMDS)
\t$(FLEET_AGENT_INSTALL_TARGET_CMDS)
"""


def is_for_aarch64(binary: Path) -> bool:
    return read_elf(binary.read_bytes()).machine == "aarch64" and bool(
        binary.stat().st_mode & 0o111
    )


def test_the_lines_of_the_buildroot_package_build_and_install_the_agent(
    tmp_path: Path,
) -> None:
    compiler = needs.program("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu")
    source = shutil.copytree(AGENT, tmp_path / "source")
    names = {
        "cc": compiler,
        "source": source,
        "image": tmp_path / "image",
        "folder": tmp_path,
    }
    (tmp_path / "Makefile").write_text(BUILDROOT.format(**names))
    # @D is of a rule's target
    lines = (PACKAGE / "fleet-agent.mk").read_text().replace("$(@D)", "$(SOURCE)")
    (tmp_path / "fleet-agent.mk").write_text(lines)
    subprocess.run([needs.program("make", "make"), "-C", tmp_path, "all"], check=True)
    assert is_for_aarch64(tmp_path / "image/usr/bin/fleet-agent")


def test_the_tasks_of_the_yocto_recipe_build_and_install_the_agent(
    tmp_path: Path,
) -> None:
    compiler = needs.program("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu")
    tasks = "".join(
        re.findall(
            r"^do_\w+\(\) \{\n(.*?)^\}", RECIPE.read_text(), re.MULTILINE | re.DOTALL
        )
    )
    variables = {
        "S": AGENT,
        "B": tmp_path,
        "D": tmp_path / "image",
        "bindir": "/usr/bin",
    }
    variables |= {"FLEET_ARCH": "aarch64", "CC": compiler, "LDFLAGS": ""}
    variables["CFLAGS"] = (
        "-O1 -ffile-prefix-map=/build/tmp/work=/usr/src"
        " -fdebug-prefix-map=/build/tmp/sysroot="
    )
    words = [f"{name}='{value}'" for name, value in variables.items()]
    script = "\n".join(["set -e", 'oe_runmake() { make "$@"; }', *words, tasks])
    subprocess.run(["sh", "-c", script], check=True)
    assert is_for_aarch64(tmp_path / "image/usr/bin/fleet-agent")
    assert b"/build/tmp" not in (tmp_path / "fleet-agent").read_bytes(), (
        "BitBake's check `buildpaths`"
    )


def test_both_know_every_architecture_and_the_license() -> None:
    config = (PACKAGE / "Config.in").read_text()
    assert set(re.findall(r'default "(\w+)"', config)) == set(SYSTEMS["linux"].cross)
    assert re.search('"armv7".*ARMV8A', config), "a 64-bit CPU in 32-bit mode"
    recipe = RECIPE.read_text()
    assert set(re.findall(r'^FLEET_ARCH:\w+ = "(\w+)"', recipe, re.MULTILINE)) < set(
        SYSTEMS["linux"].cross
    )
    (checksum,) = re.findall(r"LICENSE;md5=(\w+)", recipe)
    assert hashlib.md5((AGENT.parent / "LICENSE").read_bytes()).hexdigest() == checksum
