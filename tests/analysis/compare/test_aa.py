"""The A/A study on stored runs: of an unchanged machine, and of too few runs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import aa
from fleet.model import Cpu
from fleet.store import Store
from tests import builders


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
def test_stored_runs_of_an_unchanged_machine_are_seldom_called_changed(
    tmp_path: Path,
) -> None:
    keep(tmp_path, 8)
    alarms = aa.count_stored_alarms(tmp_path, seed=1).set_index("order")
    assert list(alarms.index) == ["random", "interleaved", "blocks"]
    assert (alarms["runs"] == 3).all()
    assert alarms.loc["random", "class"] <= 0.35


def test_sides_never_share_a_run() -> None:
    for order, a, b in aa.iter_orders(11, 3, np.random.default_rng(1)):
        assert len(set(a)) == len(set(b)) == 3, order
        assert not set(a) & set(b), order
        if order == "blocks":
            assert max(a) < min(b)


def test_five_stored_runs_are_too_few_and_it_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(tmp_path, 5)
    with pytest.raises(SystemExit):
        aa.main(["--results", str(tmp_path)])
    assert "six runs of one host" in capsys.readouterr().err
