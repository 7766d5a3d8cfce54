"""docs/porting.md names every file a port needs; no other module knows the name of an
operating system.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.agent.build import systems as build_systems
from fleet.facts import systems as facts_systems
from fleet.model import ARCHES, OSES
from fleet.plan.benchmark_names import VARIANTS
from tests.native.build import AGENT, list_shared_files

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "porting.md").read_text()
NAMES = {"<os>": OSES, "<arch>": tuple(ARCHES), "<benchmark>": tuple(VARIANTS)}
KNOW_AN_OS = {
    "fleet/model/host.py",
    "fleet/facts/systems.py",
    "fleet/facts/linux.py",
    "fleet/facts/qnx.py",
    "fleet/agent/build/systems.py",
    "fleet/agent/build/qnx.py",
    "fleet/inventory/select.py",  # `os_release` is for QNX only
}


def paths() -> Iterator[str]:
    """Every path the page names, with each name there is for what is in <>."""
    for path in sorted(
        set(re.findall(r"`((?:fleet|agent|tests|docs)/[^`\s]*|\w+\.md)`", PAGE))
    ):
        placeholder = next((name for name in NAMES if name in path), None)
        for name in NAMES.get(placeholder or "", ("",)):
            yield path.replace(placeholder, name) if placeholder else path


@pytest.mark.parametrize("path", list(paths()))
def test_every_file_the_page_names_is_there(path: str) -> None:
    assert (ROOT / path).exists()


def test_every_table_has_every_operating_system() -> None:
    assert set(facts_systems.SYSTEMS) == set(build_systems.SYSTEMS) == set(OSES)


def test_linux_agents_can_be_cross_compiled_for_every_architecture() -> None:
    assert set(build_systems.SYSTEMS["linux"].cross) == set(ARCHES)


def test_no_other_module_names_an_operating_system() -> None:
    naming = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "fleet").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in OSES
    }
    assert naming == KNOW_AN_OS


@pytest.mark.parametrize("path", list_shared_files())
def test_only_native_sources_ask_for_the_operating_system(path: str) -> None:
    assert not re.search(
        r"__(linux|QNX|QNXNTO|FreeBSD|APPLE)__", (AGENT / path).read_text()
    )


def test_what_a_host_reads_is_plain_ascii() -> None:
    """A shell such as yash reads no other bytes where the locale is C; its compiler may
    be as strict.
    """
    read = [*(ROOT / "agent").rglob("*.[ch]"), *(ROOT / "fleet").rglob("*.sh")]
    assert len(read) > 50
    assert [path.name for path in read if not path.read_bytes().isascii()] == []
