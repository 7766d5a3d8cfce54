"""How much of the scatter between bursts the place of the line explains, on made-up
bursts.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fleet.analysis.reduce import (
    compute_variance_share,
    explain_place_scatter,
    load_run,
)
from fleet.analysis.views import show_run
from fleet.model import Cpu
from fleet.store import Store
from tests import builders


def publish(
    root: Path, effect: float, *, physical: int | None = None
) -> dict[str, object]:
    """Publish a run of which every second offset in a page is slower by `effect`,
    bursts scatter by 2 %.
    """
    run = builders.a_run(tuple(Cpu(cpu, package=0) for cpu in range(4)), rounds=60)
    chance = np.random.default_rng(7)
    bursts = []
    for burst in builders.make_bursts(run, noise=0.02):
        slot = int(chance.integers(16))
        page = int(chance.integers(1 << 20))
        slower = 1 + effect * (slot % 2 if physical is None else page % 16 == physical)
        ticks = tuple(round(tick * slower) for tick in burst.ticks)
        place = {
            "line_offset": 64 * slot,
            "line_physical": None if physical is None else page,
        }
        bursts.append(replace(burst, ticks=ticks, line_page=page, **place))
    Store(root).publish(run, iter(bursts))
    return load_run(root, run.run_id)


def test_an_offset_that_makes_bursts_slower_is_said_with_its_share(
    tmp_path: Path,
) -> None:
    run = publish(tmp_path, 0.04)
    (sentence,) = explain_place_scatter(tmp_path, run)
    assert sentence.startswith("cas/cmpxchg: the line's offset in its page explains ")
    assert sentence.endswith(
        "of the scatter between a pair's bursts (n 360, 16 places)"
    )
    assert 40 <= int(sentence.partition("explains ")[2].partition("%")[0]) <= 60
    assert sentence in show_run(tmp_path, str(run["run_id"]))


def test_a_physical_page_that_makes_bursts_slower_is_said(tmp_path: Path) -> None:
    (sentence,) = explain_place_scatter(tmp_path, publish(tmp_path, 0.2, physical=3))
    assert "physical page, modulo 16, explains" in sentence


def test_without_an_effect_nothing_is_said(tmp_path: Path) -> None:
    assert explain_place_scatter(tmp_path, publish(tmp_path, 0.0)) == []


@pytest.mark.parametrize("between", [0.0, 0.5, 1.0])
def test_the_share_is_that_of_the_variance_between_groups(between: float) -> None:
    chance = np.random.default_rng(1)
    groups = np.repeat(np.arange(200), 20)
    means = chance.normal(size=200)
    noise = chance.normal(size=4000)
    values = np.sqrt(between) * means[groups] + np.sqrt(1 - between) * noise
    assert compute_variance_share(values, groups) == pytest.approx(between, abs=0.08)
