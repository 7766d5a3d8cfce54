"""`loaded`: loads while other threads use the memory; points, rates, and what each
sample counts.
"""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from fleet.agent.forecast import read_forecast
from tests import needs
from tests.native.agent import (
    Record,
    bursts,
    failures,
    measure,
    points,
    run,
    two_cpus,
    wrong,
)
from tests.native.build import AGENT
from tests.native.emulated import measure_emulated
from tests.native.targets import AARCH64, S390X, Target
from tests.shared import run_folder

SMALL = (
    "-b",
    "loaded",
    "--sizes",
    "1M",
    "--rounds",
    "2",
    "--samples",
    "2",
    "--seed",
    "7",
)
RATES = {"at1G": 1000, "at500M": 500, "full": None}


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return measure(
        *SMALL, "--op", "read,mix,write", "--load", "0,0.5,1,full", *two_cpus()
    )


def plain(burst: dict[str, Any]) -> str:
    return burst["point"].rpartition(".x2.")[0]


def test_each_operation_is_done_at_each_rate_and_no_load_is_one_point(
    records: list[Record],
) -> None:
    names = {name.rpartition(".x2.")[0] for name in points(records)}
    assert names == {"idle"} | {
        f"{kind}.{rate}" for kind in ("read", "mix", "write") for rate in RATES
    }
    assert len(points(records)) == len(names)


def test_every_burst_counts_the_bytes_of_the_others_in_each_sample_of_ping(
    records: list[Record],
) -> None:
    assert [visit["reason"] for visit in wrong(records)] == []
    assert len(bursts(records)) + len(failures(records)) == records[0]["bursts"]
    for burst in bursts(records):
        operation, _, rate = plain(burst).partition(".")
        parameters = burst["parameters"]
        assert parameters["operation"] == operation
        assert parameters["threads"] == 2
        assert parameters.get("load_mbps") == (RATES[rate] if rate else 0)
        assert ("load_variant" in parameters) == (operation != "idle")
        (others,) = burst["other_units"]
        assert len(others) == len(burst["ticks"]) == 3
        assert all(count % 4096 == 0 for count in others)
        assert operation != "idle" or not any(others)
        took_us = max(burst["ticks"]) / records[0]["ticks_per_second"] * 1e6
        assert operation == "idle" or any(others) or took_us < 200
    loads = [burst for burst in bursts(records) if plain(burst) != "idle"]
    idle = [burst for burst in loads if not any(burst["other_units"][0])]
    # a hypervisor that takes a CPU for a short sample shows nowhere else
    assert len(idle) <= len(loads) / 4


def test_a_thread_never_moves_more_than_it_was_asked_for(records: list[Record]) -> None:
    """By more than what it may be late: less is a machine that others use."""
    of_a_second = records[0]["ticks_per_second"]
    for burst in bursts(records):
        mbps = burst["parameters"].get("load_mbps")
        late = 65 * 65536
        for ticks, count in zip(burst["ticks"], burst["other_units"][0], strict=True):
            assert mbps is None or count <= mbps * 1e6 * ticks / of_a_second + late


@pytest.mark.long
def test_each_share_of_reads_is_a_curve_of_its_own() -> None:
    plan = ("--reads", "100,75,50", "--op", "mix,nt", "--load", "0,full")
    records = measure(*SMALL, *plan, *two_cpus())
    assert not wrong(records)
    loads = {f"{kind}-{share}" for kind in ("mix", "nt") for share in (100, 75, 50)}
    assert {name.partition(".")[0] for name in points(records)} == loads | {"idle"}
    for burst in bursts(records):
        assert burst["parameters"]["operation"] == burst["point"].partition(".")[0]
    usual = points(measure(*SMALL, "--reads", "67", *two_cpus()))
    assert {name.partition(".")[0] for name in usual} == {"mix-67", "idle"}


@pytest.fixture(scope="module")
def shares() -> Path:
    """The loop of a load alone, on memory that only counts."""
    program = run_folder() / "shares"
    options = ["-static", "-std=gnu11", "-O1", "-Wall", "-Werror", f"-I{AGENT}"]
    source = Path(__file__).with_name("shares.c")
    command = [needs.program("gcc", "gcc"), *options, "-o", program, source]
    subprocess.run([*command, "-Wl,--unresolved-symbols=ignore-all"], check=True)
    return program


@pytest.mark.parametrize(
    ("operation", "percent", "reads"),
    [
        ("mix", 0, 2 / 3),
        ("nt", 0, 0.0),
        *((kind, n, n / 100) for kind in ("mix", "nt") for n in (1, 67, 100)),
    ],
)
def test_a_load_reads_the_share_that_was_asked_for(
    shares: Path, operation: str, percent: int, reads: float
) -> None:
    done = subprocess.run(
        [shares, operation, str(percent)], capture_output=True, check=True
    )
    read, written, past_caches = map(int, done.stdout.split())
    assert read / (read + written + past_caches) == pytest.approx(reads, abs=1e-9)
    assert (past_caches if operation == "mix" else written) == 0


@pytest.mark.long
def test_without_a_load_the_operation_may_still_be_named() -> None:
    records = measure(*SMALL, "--op", "read,nt", "--load", "0", *two_cpus())
    assert [name.partition(".")[0] for name in points(records)] == ["idle"]
    done = run("-b", "loaded", "--op", "faa", "--load", "0")
    assert done.returncode == 5
    assert "loaded has no point of the operations and threads asked for" in done.stderr


def test_without_a_load_may_be_asked_for_by_its_name() -> None:
    names = points(measure(*SMALL, "--op", "idle", *two_cpus()))
    assert [name.partition(".")[0] for name in names] == ["idle"]


@pytest.mark.parametrize(
    ("plan", "load"),
    [
        (("loaded",), " up to all of its bandwidth"),
        (("loaded", "--load", "0,2,0.5"), " up to 2 GB/s of its bandwidth"),
        (("loaded", "--load", "0"), ""),
        (("chase,bandwidth",), ""),
    ],
)
def test_a_forecast_says_how_much_of_the_bandwidth_it_takes(
    plan: tuple[str, ...], load: str
) -> None:
    cost = read_forecast(
        run("-b", *plan, "--forecast", *two_cpus()).stdout.encode(), plan[0].split(",")
    )
    memory, _, text = cost.memory_text.partition(" of memory and for ")
    assert (
        text == f"{cost.load_duration}{load}" if load else memory.endswith(" of memory")
    )
    assert (cost.load_duration.most_s > 0) == (plan[0] == "loaded")


def test_the_memory_grows_with_the_last_level_cache(tmp_path: Path) -> None:
    """Most loads would hit a large one."""
    costs = []
    for mib in (32, 480):
        cpus = [
            f"cpu {cpu} {cpu} - - 0 0 -\ncache 3 Unified {mib << 20} 64 0"
            for cpu in (0, 1)
        ]
        facts = tmp_path / f"{mib}"
        facts.write_text(
            "\n".join(
                ["arch x86_64", "features avx512", "page_bytes 4096", *cpus, "end\n"]
            )
        )
        done = run("-b", "loaded", "--forecast", "--facts", str(facts))
        costs.append(read_forecast(done.stdout.encode(), ["loaded"]).bytes)
    assert costs[1] == 15 * costs[0]


def test_a_cycle_is_taken_over_only_where_nothing_else_was_written() -> None:
    """Each point of a round finds the memory as the one before left it, in any order;
    loads are counted.
    """
    plan = (
        "-b",
        "chase,bandwidth,loaded",
        "--sizes",
        "1M",
        "--stride",
        "256",
        "--op",
        "write,read",
    )
    records = measure(
        *plan,
        "--load",
        "0,full",
        "--rounds",
        "3",
        "--samples",
        "2",
        "--pages",
        "base",
        *two_cpus(),
    )
    assert not wrong(records)
    seen = {burst["benchmark"] for burst in bursts(records) + failures(records)}
    assert seen == {"chase", "bandwidth", "loaded"}


@pytest.mark.slow
@pytest.mark.parametrize("target", [AARCH64, S390X], ids=lambda target: target.name)
def test_other_architectures_measure_it(target: Target) -> None:
    """Their loops are those of chase and bandwidth, which are tried everywhere."""
    records = measure_emulated(
        target, *SMALL, "--load", "0,full", "--rounds", "1", *two_cpus()
    )
    assert not wrong(records)
    assert {name.partition(".")[0] for name in points(records)} == {
        "idle",
        "read",
        "mix",
    }
