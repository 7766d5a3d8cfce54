"""Benchmarks with points on this machine: measured, shown, interrupted and resumed, by
the real agent.
"""

import json
import re
import signal
from typing import Any

import pandas as pd
import pytest

from tests import needs
from tests.command import Fleet, wait_for

SIZES = ("--sizes", "16K,64K", "--plan", "pages=base")
KEY = ["run_id", "benchmark", "variant", "point", "round", "ping_cpu", "pong_cpu"]


def list_starved(fleet: Fleet) -> list[dict[str, Any]]:
    """The bursts that are missing from the one run that is stored, since other work on
    this machine disturbed them to the end.
    """
    failed: list[dict[str, Any]] = json.loads(
        pd.read_parquet(fleet.results / "runs")["failed_json"][0]
    )
    assert all("other work held it" in failure["reason"] for failure in failed)
    return [failure for failure in failed if not failure.get("again")]


@pytest.mark.long
def test_a_chase_is_measured_stored_and_shown_as_a_ladder(fleet: Fleet) -> None:
    done = fleet(
        "run", "-b", "chase,clock", *SIZES, "--cpus", "0", "--rounds", "12", "-q"
    )
    failed = list_starved(fleet)
    assert done.exit_code == (1 if failed else 0), done.stderr
    frame = pd.read_parquet(fleet.results / "samples")
    chase = frame[frame["benchmark"] == "chase"]
    assert set(chase["point"]) == {
        f"{order}.{size}.base"
        for order in ("random", "window", "rising")
        for size in ("16K", "64K")
    }
    assert (
        len(chase) + sum(failure["benchmark"] == "chase" for failure in failed)
        == 12 * 6
    )
    assert set(chase["relation"]) == {"self"}
    assert set(chase["bytes"]) == {16384, 65536}
    page = fleet("show", "here", "--ladder")
    assert "chase/" in page.stdout
    ladder = page.stdout.partition("ns per load")[2].partition("\nsize")[2]
    assert ladder.split()[0] == "random"
    assert [line.split()[0] for line in ladder.splitlines()[1:3]] == ["16K", "64K"]
    steps = fleet("show", "here", "--json").json[0]["ladder"]
    assert {(step["setting"], step["bytes"]) for step in steps} >= {
        ("random", 16384),
        ("rising", 65536),
    }
    assert fleet("runs").exit_code == 0
    assert (
        fleet("report", "here", "-o", str(fleet.results.parent / "page.html")).exit_code
        == 0
    )


@pytest.mark.slow
def test_a_bandwidth_of_threads_is_the_sum_of_theirs(fleet: Fleet) -> None:
    needs.cpus(2)
    done = fleet(
        "run", "-b", "bandwidth", *SIZES, "--op", "read", "--rounds", "2", "-q"
    )
    assert done.exit_code == 0, done.stderr
    steps = fleet("show", "here", "--json").json[0]["ladder"]
    assert {step["threads"] for step in steps} == {1, 2}
    assert all(step["median_ns"] > 0 for step in steps)
    assert "GB/s" in fleet("show", "here").stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plan", "points"),
    [
        (("chase", *SIZES, "--cpus", "0"), 6),
        (("message,fetch", "--plan", "states=written", "--plan", "spread_s=2"), 3),
    ],
    ids=["chase", "message and fetch"],
)
def test_an_interrupted_run_is_resumed_point_by_point(
    fleet: Fleet, plan: tuple[str, ...], points: int
) -> None:
    needs.cpus(2)
    process = fleet.start("run", "-b", *plan, "--rounds", "12", "-q")

    def lines() -> int:
        streams = (fleet.results / ".fleet/journal").glob("*/stream*.jsonl")
        return sum(path.read_bytes().count(b'"record":"burst"') for path in streams)

    wait_for(lambda: lines() >= 8)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = fleet("resume", "-q")
    failed = list_starved(fleet)
    assert done.exit_code in (0, 1), done.stderr + done.stdout  # 1: some were starved
    frame = pd.read_parquet(fleet.results / "samples")
    assert not frame.duplicated(KEY).any()
    assert len(frame) + len(failed) == 12 * points
    assert {*frame["round"], *(failure["round"] for failure in failed)} == {*range(12)}


@pytest.mark.slow
def test_products_are_stored_checked_and_shown_with_their_share_of_the_peak(
    fleet: Fleet,
) -> None:
    # half of the second cache, or less
    shape = (
        "--shape",
        "64x64x64",
        "--sizes",
        "256K",
    )
    how = (
        "--cpus",
        "0",
        "--threads",
        "1",
        "--rounds",
        "2",
        "--op",
        "read",
        "-q",
    )
    done = fleet("run", "-b", "bandwidth,gemm/c11", *shape, *how)
    assert done.exit_code == 0, done.stderr
    frame = pd.read_parquet(fleet.results / "samples")
    frame = frame[frame["benchmark"] == "gemm"]
    assert set(frame["unit"]) == {"operation"}
    assert set(frame[frame["operation"] != "peak"]["checked"]) == {True}
    assert frame[frame["operation"] == "peak"]["checked"].isna().all()
    table = fleet("show", "here").stdout.partition("gemm/c11: Gop/s")[2].splitlines()
    assert [line.split()[0] for line in table[3:10]] == [
        *(
            "peak",
            "hot.rows",
            "hot.odd",
            "hot.blocked",
            "stream.256K",
            "stream.prefetch.256K",
            "deep.256K",
        )
    ]
    assert "100.0%" in table[3].split()
    assert {line.split()[1] for line in table[4:10]} == {"64x64x64"}
    page = fleet.results.parent / "page.html"
    assert fleet("report", "here", "-o", str(page)).exit_code == 0
    text = page.read_text()
    roofline = re.search(
        r"Roofline of here, CPU 0: Gop/s by operations per byte; ([^<]*)", text
    )
    assert roofline
    assert re.search(r"\d GB/s\. c11; peak [0-9.]+; hot\.rows [0-9.]+", roofline[1])
    assert '<tr><th scope="row">hot.rows</th><td>64x64x64</td>' in text
    assert ": here</title>" in text
    assert fleet("report", "nowhere").exit_code != 0
