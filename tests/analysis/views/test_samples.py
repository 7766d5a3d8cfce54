"""The bursts of one pair: `fleet show --pair`, and `Results.bursts` for notebooks."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fleet
from fleet.analysis.views import (
    find_main_level,
    load_pair_bursts,
    load_pair_samples,
    make_bins,
    render_histograms,
)
from fleet.errors import UsageError
from fleet.model import SHIPPED
from fleet.store import Listing, Store
from tests import builders
from tests.command import Fleet


def publish_two_levels(root: Path) -> Listing:
    """Publish a run of four cores with SMT in which two of ten bursts of pair 0-1 take
    twice as long.
    """
    run = builders.a_run(
        builders.small_desktop(), benchmarks=("cas", "readwrite"), rounds=10
    )
    slow = [
        (
            replace(
                burst,
                ticks=tuple(2 * tick for tick in burst.ticks),
                flags=("busy_cpu",),
            )
            if {burst.ping_cpu, burst.pong_cpu} == {0, 1} and burst.round in (3, 7)
            else burst
        )
        for burst in builders.make_bursts(run, noise=0.0)
    ]
    Store(root).publish(run, slow)
    return Listing(root)


def test_a_pair_is_drawn_with_its_levels_clock_and_flags(tmp_path: Path) -> None:
    listing = publish_two_levels(tmp_path)
    bursts = load_pair_samples(listing, listing.runs, "1-0")
    text = render_histograms(bursts, SHIPPED)
    assert text.count("medians of 10 bursts of 1 run") == 2, "cas and readwrite"
    bars = re.findall(
        r"^ *[\d.]+ +(\d+)  (█*)(░*)$", text.partition("\n\n")[0], re.MULTILINE
    )
    drawn = [
        (count, bool(main), bool(other)) for count, main, other in (bars[0], bars[-1])
    ]
    assert drawn == [("8", True, False), ("2", False, True)]
    assert re.search(
        r"^levels: 8 at ([\d.]+) in 1 run; another: 2 at ", text, re.MULTILINE
    )
    assert "flags: busy_cpu 2, multimodal in 1 run" in text
    assert "a step of the clock: " in text
    assert find_main_level(bursts).sum() == 16


def test_the_tail_of_a_pair_is_of_all_samples_and_says_when_the_slowest_were(
    made_lab: Path,
) -> None:
    own = fleet.open(made_lab / "results").samples("siena", benchmark="cas")
    own = own[own[["ping_cpu", "pong_cpu"]].max(axis=1) == 1]  # 0-1 and 1-0
    p50, p99 = np.quantile(own["latency_ns"], [0.5, 0.99])
    slowest = own.loc[own["latency_ns"].idxmax()]
    with Fleet(made_lab) as command:
        text = command("show", "siena", "-b", "cas", "--pair", "0-1").stdout
        rows = json.loads(command("show", "siena", "--pair", "0-1", "--json").stdout)
    assert f"\n{len(own)} samples, each the mean of 500 round trips\n" in text
    most = f"{slowest['latency_ns']:.1f}"
    assert re.search(rf"^ *{p50:.1f} +{p99:.1f} +- +{most}$", text, re.MULTILINE)
    assert "-: too few samples; p99 needs 100, p99.9 1,000" in text
    first = re.search(rf"^ *{most}  (\S+) .*  preempted$", text, re.MULTILINE)
    assert first
    assert first[1] == slowest["run_id"]
    assert "sample_ns" not in rows["rows"][0]


def test_a_pair_that_was_not_measured_is_refused_with_those_that_were(
    tmp_path: Path,
) -> None:
    listing = publish_two_levels(tmp_path)
    with pytest.raises(
        UsageError, match=r"it was not measured. Pairs are any two of the CPUs 0-7"
    ):
        load_pair_bursts(listing, listing.runs, "3-99")
    with pytest.raises(UsageError, match="write two CPUs as 3-17"):
        load_pair_bursts(listing, listing.runs, "3-17-20")


def test_no_bin_is_narrower_than_the_clock_or_the_noise() -> None:
    values = np.linspace(100, 110, 1000)
    assert len(make_bins(values, np.nan)) == 17
    assert len(make_bins(values, 5.0)) == 3
    assert len(make_bins(values[:1], np.nan)) == 2
    narrow = np.diff(make_bins(np.array([100.0, 100.01] * 20), np.nan))
    assert narrow.min() > 0.1, "bursts that agree are one bar"
    wide = make_bins(np.geomspace(10, 1000, 100), np.nan)
    assert np.allclose(wide[1:] / wide[:-1], wide[1] / wide[0])


@pytest.mark.parametrize("values", [[0.0, 0.0], [0.0, 40.0]])
def test_numbers_of_0_have_bins_though_no_grain_is_known(values: list[float]) -> None:
    edges = make_bins(np.array(values), np.nan)
    assert edges[0] == 0
    assert edges[-1] >= max(values)
    assert (np.diff(edges) > 0).all()


@pytest.mark.long
def test_programs_and_notebooks_get_a_row_a_burst(tmp_path: Path) -> None:
    with Fleet(tmp_path) as command:
        publish_two_levels(command.results)
        rows = command("show", "--pair", "0-1", "-b", "cas", "--json").json
        assert len(rows) == 10
        assert json.dumps(rows[0])
        csv = command("show", "--pair", "0-1", "-b", "cas", "--csv").stdout.splitlines()
        assert len(csv) == 11
        bursts = fleet.open(str(command.results)).bursts(pair="0-1", benchmark="cas")
        assert bursts["burst_ns"].tolist() == [row["burst_ns"] for row in rows]
        refused = command("show", "--pair", "0-9")
        assert refused.exit_code == UsageError.exit_code
