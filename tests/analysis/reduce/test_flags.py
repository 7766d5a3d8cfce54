"""Every flag, shown by data into which its cause was planted, and absent from the same
data without it.
"""

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from fleet.agent.wire.records import BUSY_PPM, derive_burst_flags
from fleet.analysis.reduce import (
    MEANINGS,
    PAIR_FLAGS,
    add_pair_flags,
    load_samples,
    pair_medians,
)
from fleet.analysis.views import show_run
from fleet.model import Burst, End, Estimator, Parameters
from fleet.store import Store, new_run_id
from fleet.store.rows import require_hello
from tests import builders

PAGE = Path(__file__).parents[3] / "docs" / "flags.md"
Level = Callable[[int], float]  # ns one way in a round


def take(
    level: Level, rounds: int = 20, pair: tuple[int, int] = (0, 1), seed: int = 1
) -> Iterator[Burst]:
    """Bursts of a pair at `level`, with 1 % of noise, half a second apart."""
    chance = random.Random(seed)
    for visit in range(rounds):
        ns = level(visit) * chance.gauss(1, 0.01)
        ticks = tuple(round(ns * 5000 * chance.gauss(1, 0.01)) for _ in range(11))
        yield builders.a_burst(
            round=visit,
            ping_cpu=pair[0],
            pong_cpu=pair[1],
            ticks=ticks,
            start_offset_ns=visit * 500_000_000,
        )


def render_run(root: Path, bursts: list[Burst], **changes: object) -> str:
    run = replace(builders.a_run(run_id=new_run_id()), **changes)  # type: ignore[arg-type]
    Store(root).publish(run, bursts)
    return show_run(root, run.run_id)


def reduce_run(
    root: Path, bursts: list[Burst], precision: float | None = None
) -> dict[str, object]:
    Store(root).publish(builders.a_run(), bursts)
    (row,) = add_pair_flags(pair_medians(load_samples(root)), precision).to_dict(
        "records"
    )
    return dict(row)


def test_a_calm_pair_has_no_flag(tmp_path: Path) -> None:
    row = reduce_run(tmp_path, list(take(lambda _: 50.0)), precision=0.01)
    assert row["flags"] == ""
    assert "Warnings" not in show_run(tmp_path, builders.a_run().run_id)


def test_two_modes_are_shown_both_and_never_averaged(tmp_path: Path) -> None:
    """What a virtual machine does whose two CPUs now and then share a core: 3 of 20
    bursts at 8 ns.
    """
    bursts = list(take(lambda visit: 8.0 if visit in (4, 5, 17) else 51.0))
    row = reduce_run(tmp_path, bursts)
    assert row["flags"] == "multimodal"
    assert row["median_ns"] == pytest.approx(51, rel=0.02)
    assert row["low_ns"] < 51 < row["high_ns"]  # type: ignore[operator]
    assert row["spread"] < 0.02  # type: ignore[operator]
    assert row["other_ns"] == pytest.approx(8, rel=0.05)
    assert row["other_share"] == pytest.approx(0.15)
    text = show_run(tmp_path, builders.a_run().run_id)
    assert re.search(
        r"0-1 has two levels: 5[01]\.\d ±0\.\d%, and [78]\.\d in 15% of bursts",
        text,
    )
    assert (
        "multimodal: pairs have over a tenth of their bursts at another level" in text
    )


def test_of_equal_modes_the_faster_is_the_headline_and_not_the_middle(
    tmp_path: Path,
) -> None:
    row = reduce_run(tmp_path, list(take(lambda visit: 30.0 if visit % 2 else 60.0)))
    assert row["median_ns"] == pytest.approx(30, rel=0.02)
    assert row["other_ns"] == pytest.approx(60, rel=0.02)


def test_a_single_odd_burst_among_twenty_is_no_mode(tmp_path: Path) -> None:
    row = reduce_run(tmp_path, list(take(lambda visit: 90.0 if visit == 3 else 50.0)))
    assert row["flags"] == ""
    assert pd.isna(row["other_ns"])


@pytest.mark.parametrize(
    ("rise", "flags"), [(0.10, "drift"), (-0.10, "drift"), (0.01, "")]
)
def test_a_level_that_moves_is_a_drift_and_its_size_is_told(
    tmp_path: Path, rise: float, flags: str
) -> None:
    row = reduce_run(tmp_path, list(take(lambda visit: 50.0 * (1 + rise * visit / 19))))
    assert row["flags"] == flags
    if flags:
        assert row["drift"] == pytest.approx(rise, rel=0.25)
        assert f"(1 of 1): cas 0-1 ({'+' if rise > 0 else '-'}" in show_run(
            tmp_path, builders.a_run().run_id
        )


def test_drift_is_judged_by_the_clock_not_by_the_order_of_the_rows(
    tmp_path: Path,
) -> None:
    bursts = list(take(lambda visit: 50.0 * (1 + 0.1 * visit / 19)))
    mixed = [replace(burst, round=19 - burst.round) for burst in reversed(bursts)]
    assert reduce_run(tmp_path, mixed)["drift"] == pytest.approx(0.1, rel=0.25)


def test_a_pair_known_worse_than_asked_has_not_converged(tmp_path: Path) -> None:
    bursts = list(take(lambda visit: 50.0 + visit % 3, rounds=6))
    assert (
        reduce_run(tmp_path / "a", bursts, precision=0.001)["flags"] == "not_converged"
    )
    assert reduce_run(tmp_path / "b", bursts, precision=0.2)["flags"] == ""
    hello = replace(builders.a_run().hello, precision=0.001)  # type: ignore[type-var]
    text = render_run(tmp_path, bursts, hello=hello, end=End(6, 0, "done", 0, 1))
    assert (
        "did not reach the requested precision (1 of 1 wider than ±0.1%): cas 0-1 (±"
        in text
    )


def test_siblings_that_are_not_nearest_are_named(tmp_path: Path) -> None:
    """The OS calls 0-4, 1-5, ... siblings, but 0-1 shares a core: a topology some
    hypervisor made up.
    """
    cpus = builders.small_desktop()
    run = builders.a_run(cpus)
    ns = {
        (0, 1): 6.0,
        (4, 5): 6.0,
        (0, 4): 45.0,
        (1, 5): 45.0,
        (2, 6): 6.0,
        (3, 7): 6.0,
    }
    bursts = list(
        builders.make_bursts(run, noise=0.005, ns=lambda a, b: ns.get((a, b), 45.0))
    )
    Store(tmp_path).publish(run, bursts)
    table = add_pair_flags(pair_medians(load_samples(tmp_path)))
    named = table[table["flags"].str.contains("smt_pair")]
    assert set(zip(named["ping_cpu"], named["pong_cpu"], strict=True)) == {
        (0, 1),
        (4, 5),
        (0, 4),
        (1, 5),
    }
    text = show_run(tmp_path, run.run_id)
    assert (
        "contradict the SMT siblings the OS reports (2 of 28): cas 0-1 (6.0 ns,"
        " package), cas 4-5" in text
    )
    assert (
        "siblings: SMT siblings are not each other's nearest CPUs by a factor of 1.3 (2"
        " findings): cas 0-4" in text
    )


def test_many_far_samples_are_outliers(tmp_path: Path) -> None:
    bursts = [
        replace(b, ticks=(*b.ticks[:-1], 10 * b.ticks[-1]))
        for b in take(lambda _: 50.0)
    ]
    row = reduce_run(tmp_path, bursts)
    assert row["flags"] == "outliers"
    assert row["outliers"] == pytest.approx(0.1)


def make_load(asked: int | None, *per_cent: int) -> dict[str, object]:
    """Another CPU moves so much of 2 bytes a tick in each sample."""
    ticks = (1000,) * (1 + len(per_cent))
    return {
        "ticks": ticks,
        "warmup": 1,
        "other_units": ((1, *(20 * percent for percent in per_cent)),),
        "parameters": Parameters(load_mbps=asked, load_bytes=1 << 20),
    }


@pytest.mark.parametrize(
    ("changes", "flags"),
    [
        ({}, ()),
        ({"switches": (5, 0, 5, 0)}, ()),
        ({"switches": (0, 1, 0, 0)}, ()),
        ({"switches": (0, 1, 0, 0), "ticks": (900_000, 1000, 1249, 1000)}, ()),
        ({"switches": (0, 1, 0, 0), "ticks": (900, 1000, 1250, 1000)}, ("preempted",)),
        ({"switches": (0, 0, 0, 1), "ticks": (900, 1000, 9000, 1000)}, ("preempted",)),
        ({"switches": (0, 0, 0, 0), "ticks": (900, 1000, 9000, 1000)}, ()),
        ({"switches": None}, ()),
        ({"ran_ppm": (1_000_000, BUSY_PPM)}, ()),
        ({"ran_ppm": (1_000_000, BUSY_PPM - 1)}, ("busy_cpu",)),
        ({"ran_ppm": (400_000, 999_000)}, ("busy_cpu",)),
        ({"ticks": (150, 199, 199)}, ("coarse_clock",)),
        ({"core_mhz": (3000, 3090)}, ()),
        ({"core_mhz": (3000, 3091)}, ("frequency_moved",)),
        ({"core_mhz": (3091, 3000)}, ("frequency_moved",)),
        ({"begin_ns": (0, 1002)}, ()),  # a sample lasts 501.5 ticks of 20 ns
        ({"begin_ns": (0, 1004)}, ("skewed",)),
        (make_load(None, 100, 109), ()),
        (make_load(None, 100, 111), ("uneven",)),
        (make_load(0, 0, 0), ()),
    ],
)
def test_what_a_burst_tells_of_itself_becomes_its_flags(
    changes: dict[str, object], flags: tuple[str, ...]
) -> None:
    hello = replace(
        require_hello(builders.a_run()),
        ticks_per_second=50_000_000,
        raw={"clock_quantum_ticks": 2},
    )
    assert derive_burst_flags(builders.a_burst(**changes), hello) == flags


def test_the_flagged_column_is_the_share_of_bursts(tmp_path: Path) -> None:
    bursts = list(take(lambda _: 50.0))
    bursts[3] = replace(bursts[3], flags=("busy_cpu", "preempted"))
    text = render_run(tmp_path, bursts)
    assert re.search(r"^unknown .* 5\.0%$", text, re.MULTILINE)
    assert (
        "minor: few bursts have a flag: preempted 5.0%, busy_cpu 5.0%\n      Nothing"
        " to do" in text
    )


def test_every_flag_is_explained() -> None:
    page = PAGE.read_text()
    assert set(PAIR_FLAGS) < set(MEANINGS)
    for flag in MEANINGS:
        assert f"| `{flag}` |" in page


@pytest.mark.parametrize(
    ("estimator", "words"),
    [("min", "smallest sample"), ("mean", "mean sample"), ("median", "median")],
)
def test_a_presets_number_is_made_as_its_tool_makes_it(
    tmp_path: Path, estimator: str, words: str
) -> None:
    burst = builders.a_burst(ticks=(999_999, 400_000, 500_000, 1_000_000, 2_000_000))
    hello = replace(
        builders.a_run().hello, preset="c2clat", estimator=Estimator(estimator)
    )  # type: ignore[type-var]
    text = render_run(tmp_path, [burst, replace(burst, round=1)], hello=hello)
    kticks = {"min": 400, "mean": 975, "median": 750}[estimator]
    assert f"preset c2clat: the number of a pair is its {words}" in text
    assert f"latency in ns ({words} of each pair)" in text
    line = re.search(
        rf"^unknown +1 +{kticks * 0.4 / 2:.1f} .* (\S+) +0% +1$", text, re.MULTILINE
    )
    assert line
    assert line[1] == ("±0.0%" if estimator == "median" else "-"), (
        "the interval is that of the median"
    )


def test_benchmarks_come_in_the_order_of_the_plan(tmp_path: Path) -> None:
    run = builders.a_run(benchmarks=("readwrite", "cas", "clock"))
    Store(tmp_path).publish(run, builders.make_bursts(run))
    text = show_run(tmp_path, run.run_id)
    assert text.index("readwrite/") < text.index("cas/") < text.index("clock/")
