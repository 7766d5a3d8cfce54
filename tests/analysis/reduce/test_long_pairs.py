"""A run with more samples than are reduced at once has the numbers that it would have
anyway.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from fleet.analysis.exchange import export_matrix
from fleet.analysis.reduce import load_run, reduce_run
from fleet.model import PairChoice, Pairs
from fleet.store import Store
from tests import builders
from tests.planting import home


@pytest.mark.long
@pytest.mark.parametrize("ordered", [False, True])
def test_an_export_of_slices_has_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ordered: bool
) -> None:
    run = builders.a_run(
        builders.small_desktop(), benchmarks=("cas", "readwrite"), rounds=2
    )
    if ordered:
        run = replace(run, plan=replace(run.plan, pairs=PairChoice(Pairs.ORDERED)))
    Store(tmp_path).publish(run, builders.make_bursts(run, samples=60, noise=0.2))
    at_once = export_matrix(tmp_path, run.run_id, "csv", "cas", "mean")
    _read_in_small_slices(monkeypatch)
    assert export_matrix(tmp_path, run.run_id, "csv", "cas", "mean") == at_once
    kind = next(
        name
        for name in load_run(tmp_path, run.run_id)["benchmarks"]
        if name.startswith("cas/")
    )
    pairs = reduce_run(tmp_path, run.run_id, kind, ordered=ordered)
    assert len(pairs) == 28 * (1 + ordered)


def _read_in_small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home(reduce_run), "SLICE_SAMPLES", 1)
    monkeypatch.setattr("fleet.store.reading._BATCH_ROWS", 50)
