"""CI installs what the tests ask for: a tool nobody installs there would fail every
later change.
"""

import ast
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from fleet.model.version import VERSION

ROOT = Path(__file__).resolve().parents[1]
ASKED = re.compile(r'needs\.(?:program|file)\(\s*"[^"]+",\s*"([^"]+)"')
EVERYWHERE = {"apt", "bash", "coreutils"}  # essential: no Debian is without them
IN_BARE_DEBIAN = {
    *("sh", "/bin/sh", "bash", "cp", "id", "uname", "dpkg-deb", "getconf"),
    "cc",  # the README names its package
    "fleet",
}


def installed_in_ci() -> set[str]:
    (block,) = re.findall(
        r"^packages=\(\n(.*?)^\)",
        (ROOT / ".ci/run").read_text(),
        re.MULTILINE | re.DOTALL,
    )
    return {
        word for line in block.splitlines() for word in line.partition("#")[0].split()
    }


def test_ci_installs_every_package_a_test_names() -> None:
    tests = (ROOT / "tests").rglob("*.py")
    packages = {
        (path.name, name) for path in tests for name in ASKED.findall(path.read_text())
    }
    assert {name for _, name in packages} >= {"openssh-server", "e2fsprogs"}
    assert {
        pair for pair in packages if pair[1] not in installed_in_ci() | EVERYWHERE
    } == set()


def list_started_programs(path: Path) -> Iterator[str]:
    """Yield the programs that a file of tests starts by a plain name."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        if ast.unparse(node.func) not in ("subprocess.run", "subprocess.Popen"):
            continue
        command = node.args[0]
        words = command.elts if isinstance(command, ast.List | ast.Tuple) else []
        if words and isinstance(words[0], ast.Constant):
            yield str(words[0].value)


def test_a_test_asks_for_every_program_that_a_bare_debian_may_lack() -> None:
    started = {
        (path.name, name)
        for path in (ROOT / "tests").rglob("*.py")
        for name in list_started_programs(path)
    }
    assert len(started) > 10
    assert {pair for pair in started if pair[1] not in IN_BARE_DEBIAN} == set()


def test_only_one_module_skips_tests() -> None:
    """What goes round it is skipped in CI too."""
    skips = re.compile(r"pytest\.(skip|importorskip|mark\.skip\w*)\b")
    modules = (ROOT / "tests").rglob("*.py")
    users = {path.name for path in modules if skips.search(path.read_text())}
    assert users == {"needs.py"}


def run_functions(script: str, names: str, call: str, folder: Path) -> str:
    """Run functions of a script of .ci, by a pattern of their names; return the last
    line that they print.
    """
    text = (ROOT / ".ci" / script).read_text()
    functions = re.findall(
        rf"^(?:{names})\(\) \{{.*?^\}}\n", text, re.MULTILINE | re.DOTALL
    )
    lines = "\n".join(["set -euo pipefail", *functions, call])
    printed = subprocess.run(
        ["bash", "-c", lines],
        cwd=folder,
        env={**os.environ, "HOME": str(folder)},
        check=True,
        capture_output=True,
        text=True,
    )
    return printed.stdout.splitlines()[-1]


def test_a_layer_that_fails_beside_others_has_failed(tmp_path: Path) -> None:
    """With a suite that fails once and a repetition that passes."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "pytest").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "bin" / "pytest").chmod(0o755)
    call = (
        'summary=(); failures=0; tests "suite" 60 . slow false; echo "$failures'
        ' ${summary[*]}"'
    )
    assert (
        run_functions("run", "failed|layer|tests", call, tmp_path)
        == "1 FAILED  suite: exit code 1; what failed beside other tests passed alone"
    )


def test_a_layer_that_cannot_run_has_failed(tmp_path: Path) -> None:
    call = (
        "summary=(); failures=0; newest_python() { :; }; tests_on_newest_versions;"
        ' echo "$failures ${summary[*]}"'
    )
    assert (
        run_functions("run", "failed|tests_on_newest_versions", call, tmp_path)
        == "1 FAILED  newest versions: no newer Python is on this machine"
    )


def test_the_workflow_of_a_forge_has_every_layer() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yaml").read_text())
    job = workflow["jobs"]["layer"]
    layers = job["strategy"]["matrix"]["layer"]
    script = (ROOT / ".ci/run").read_text()
    assert f"set -- {' '.join(layers)}\n" in script
    assert job["steps"][-1]["run"] == ".ci/run ${{ matrix.layer }}"


def test_a_citation_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == VERSION


def list_readme_sections() -> list[str]:
    """List the calls by which .ci/bare tries a section of the README."""
    text = (ROOT / ".ci/bare").read_text()
    return re.findall(r"^\ttry_section '[^']+' \w+", text, re.MULTILINE)


def try_section(call: str, readme: str, folder: Path) -> str:
    (folder / "fleet").mkdir()
    (folder / "fleet/README.md").write_text(readme)
    return run_functions(
        "bare", "try_section", f'try() {{ echo "$1"; }}; ({call}) || true', folder
    )


@pytest.mark.parametrize("call", list_readme_sections())
def test_the_bare_machine_finds_commands_in_each_section(
    call: str, tmp_path: Path
) -> None:
    command = try_section(call, (ROOT / "README.md").read_text(), tmp_path)
    assert command.split()[0] in ("fleet", "make")


def test_a_section_that_was_renamed_fails_the_bare_machine(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text().replace("\n## What it", "\n## All that it")
    said = try_section("try_section 'What it shows' fleet", text, tmp_path)
    assert said == "the README has no command 'fleet' below 'What it shows'"


def test_no_requirement_is_capped_below_a_next_major() -> None:
    """An upper bound makes the package unsatisfiable beside a current release; the
    lock pins, and CI also tests with the newest of everything.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = [*project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        requirements += extra
    bounds = [re.findall(r"<=?([\d.]+)|==|~=", text) for text in requirements]
    assert all(bound.isdecimal() for group in bounds for bound in group)
