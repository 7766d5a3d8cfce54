"""The A/A test on stored runs: of an unchanged machine, and of too few runs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fleet.analysis.compare import count_false_alarms, iter_orders
from fleet.analysis.views import render_false_alarms
from fleet.errors import UsageError
from fleet.model import Cpu
from fleet.store import Store
from tests import builders
from tests.command import Fleet
from tests.planting import home


def keep(root: Path, count: int) -> None:
    """Store runs of two CPUs, each with a level of its own, 2 % apart."""
    for place, ns in enumerate(np.random.default_rng(8).normal(50, 1, count)):
        cpus = (Cpu(0, package=0), Cpu(1, package=0))
        run = builders.a_run(cpus, run_id=f"r2026T03{place:02}Z-{place:08x}")
        run = replace(run, started_utc=f"2026-01-02T03:{place:02}:00Z")
        Store(root).publish(
            run,
            builders.make_bursts(run, noise=0.004, ns=lambda *_, ns=ns: ns, seed=place),
        )  # type: ignore[misc]


@pytest.mark.slow
def test_an_unchanged_machine_is_seldom_called_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(home(count_false_alarms), "SPLITS", 12)
    keep(tmp_path, 8)
    counts = count_false_alarms(tmp_path).set_index("order")
    assert list(counts.index) == ["random", "interleaved", "blocks"]
    assert (counts["runs"] == 3).all()
    assert counts.loc["random", "interval_share"] <= 0.35
    assert "False alarms: " in render_false_alarms(counts.reset_index())


def test_sides_never_share_a_run() -> None:
    for order, a, b in iter_orders(11, 3, np.random.default_rng(1)):
        assert len(set(a)) == len(set(b)) == 3, order
        assert not set(a) & set(b), order
        if order == "blocks":
            assert max(a) < min(b)


def test_five_runs_are_too_few_and_it_says_what_to_do(tmp_path: Path) -> None:
    keep(tmp_path, 5)
    with pytest.raises(UsageError, match="needs 6 runs of one host with the same plan"):
        count_false_alarms(tmp_path)


@pytest.mark.slow
def test_the_command_tests_what_is_stored(tmp_path: Path) -> None:
    keep(tmp_path / "results", 6)
    with Fleet(tmp_path) as fleet:
        done = fleet("compare", "--selftest", "rpi5", "--json")
    assert [row["order"] for row in done.json] == ["random", "interleaved", "blocks"]
