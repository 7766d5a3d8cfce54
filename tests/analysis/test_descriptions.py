"""Benchmarks that this version was built without, as two hosts describe them: each in
its own words.
"""

import json
from pathlib import Path

import pytest

from tests import lies
from tests.command import Fleet

CALL = {"unit": "call", "heading": "ns per system call"}
RATE = {"unit": "byte", "heading": "GB/s", "rate": "GB/s"}


def publish(root: Path, number: int, description: dict[str, str]) -> str:
    """Store the recorded run as one of host h`number`, its clock as a benchmark with
    this description.
    """
    described = json.loads(json.dumps(lies.SAID).replace('"clock"', '"getppid"'))
    lies.description(described, "getppid").update(description)
    described[0]["clock"] = "tsc"
    lines = list(map(lies.line, described))
    assert lies.publish(root, lines, number, also=("getppid",)) is None
    return f"r20260102T030405Z-{number:08x}"


@pytest.mark.long
def test_two_hosts_that_describe_a_name_differently_are_not_mixed(
    tmp_path: Path,
) -> None:
    with Fleet(tmp_path) as fleet:
        first = publish(fleet.results, 0, CALL)
        second = publish(fleet.results, 1, RATE)
        for order in (("h0", "h1"), ("h1", "h0")):
            pages = {
                host: fleet("show", host, "-b", "getppid").stdout for host in order
            }
            assert "ns per system call" in pages["h0"]
            assert "GB/s" not in pages["h0"]
            assert "GB/s" in pages["h1"]
        both = fleet("show", "h0", "h1")
        assert (
            f"run {second} of h1 describes benchmark getppid otherwise than an"
            " earlier run" in both.stderr
        )
        assert "GB/s" not in fleet("show", "h0", "h1", "-b", "getppid").stdout
        assert first not in both.stderr
        compared = fleet("compare", "h0", "h1")
        assert (
            f"run {second} of h1 describes benchmark getppid otherwise"
            in compared.stderr
        )
        assert "getppid/" not in compared.stdout
        assert "cas" in compared.stdout
        assert fleet("report", "h0", "h1", "-o", "page.html").exit_code == 0


@pytest.mark.parametrize("name", ["..", "a/b", "Getppid"])
def test_no_stored_name_is_one_that_the_command_line_cannot_take(
    tmp_path: Path, name: str
) -> None:
    described = json.dumps(lies.SAID).replace('"clock"', json.dumps(name))
    why = lies.publish(tmp_path, list(map(lies.line, json.loads(described))), 0)
    assert why is not None
    assert "benchmark" in why
