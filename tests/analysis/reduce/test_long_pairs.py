"""A pair with more samples than are held at once has the numbers that it would have
anyway.
"""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fleet.analysis import load_pairs
from fleet.analysis.exchange import export_matrix
from fleet.analysis.reduce import load_run, reduce_run
from fleet.model import PairChoice, Pairs, Parameters
from fleet.store import Listing, Store
from tests import builders
from tests.planting import home

ROOT = Path(__file__).parents[3]


@pytest.mark.long
@pytest.mark.parametrize("rounds", [1, 5])
def test_a_pair_reduced_in_parts_has_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rounds: int
) -> None:
    run = builders.a_run(
        builders.small_desktop(), benchmarks=("cas", "readwrite"), rounds=rounds
    )
    Store(tmp_path).publish(run, builders.make_bursts(run, samples=60, noise=0.2))
    at_once = load_pairs(tmp_path)
    Listing(tmp_path).index.path.unlink()
    _read_in_small_parts(monkeypatch)
    in_parts = load_pairs(tmp_path)
    exact = [name for name in at_once if name != "mean_ns"]
    pd.testing.assert_frame_equal(in_parts[exact], at_once[exact], check_exact=True)
    np.testing.assert_allclose(in_parts["mean_ns"], at_once["mean_ns"], rtol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("ordered", [False, True])
def test_an_export_in_parts_has_the_same_numbers_and_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ordered: bool
) -> None:
    run = builders.a_run(
        builders.small_desktop(), benchmarks=("cas", "readwrite"), rounds=2
    )
    if ordered:
        run = replace(run, plan=replace(run.plan, pairs=PairChoice(Pairs.ORDERED)))
    Store(tmp_path).publish(run, builders.make_bursts(run, samples=60, noise=0.2))
    at_once = export_matrix(tmp_path, run.run_id, "csv", "cas", "mean")
    _read_in_small_parts(monkeypatch)
    assert export_matrix(tmp_path, run.run_id, "csv", "cas", "mean") == at_once
    kind = next(
        name
        for name in load_run(tmp_path, run.run_id)["benchmarks"]
        if name.startswith("cas/")
    )
    pairs = reduce_run(tmp_path, run.run_id, kind, ordered=ordered).sort_values(
        ["ping_cpu", "pong_cpu"]
    )
    assert len(pairs) == 28 * (1 + ordered)


def _read_in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home(reduce_run), "_HELD", 0)
    monkeypatch.setattr(home(reduce_run), "SLICE_SAMPLES", 1)
    monkeypatch.setattr("fleet.store.reading._BATCH_ROWS", 50)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "benchmark"),
    [
        (["report", "-o", "{root}/page.html"], "cas"),
        (["show", "--ways"], "message"),
        (["export", "--value", "mean"], "cas"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else value,
)
def test_memory_does_not_grow_with_the_samples_of_a_pair(
    tmp_path: Path, words: list[str], benchmark: str
) -> None:
    """Three times the samples of one pair, which take few bytes, take a command little
    more memory.
    """
    point = {"point": "one", "unit": "message", "parameters": Parameters(pages="base")}
    others = (
        {**point, "other_ticks": ((1000,) * 400,)} if benchmark == "message" else {}
    )
    peaks = []
    for rounds in (20_000, 60_000):
        root = tmp_path / str(rounds)
        bursts = (
            builders.a_burst(
                benchmark=benchmark,
                round=i,
                start_offset_ns=i * 2_000_003,
                ticks=(1000,) * 400,
                **others,
            )
            for i in range(rounds)
        )
        Store(root).publish(
            builders.a_run(benchmarks=(benchmark,), rounds=rounds), bursts
        )
        code = (
            "import re, sys; from pathlib import Path; from fleet.__main__ import"
            " main\ntry: main()\nfinally: print(re.search(r'VmHWM:\\s*(\\d+)',"
            " Path('/proc/self/status').read_text())[1])\n"
        )
        arguments = [*(word.format(root=root) for word in words), "-r", str(root)]
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        peaks.append(int(done.stdout.split()[-1]))
    # KiB: what the ticks of one CPU alone take
    assert peaks[1] - peaks[0] < 40_000 * 400 * 8 / 1024
