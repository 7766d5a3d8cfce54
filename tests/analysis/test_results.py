"""The notebook's door: `fleet.open`, typed and lazy, with the selection of the command
line.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import pandas as pd
import pytest

import fleet
from fleet import analysis
from fleet.analysis.results import Results
from fleet.errors import UsageError
from tests import simulated


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Three runs of a desktop, one of a laptop with two benchmarks."""
    root = tmp_path_factory.mktemp("results")
    for number in range(3):
        simulated.publish(root, simulated.desktop(), number, rounds=3)
    simulated.publish(
        root, simulated.laptop(), 3, rounds=3, benchmarks=("clock", "readwrite")
    )
    return fleet.open(root)


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import fleet, sys; fleet.open; print(sorted({'pandas', 'pyarrow', 'numpy'} &"
        " set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_runs_are_selected_in_the_words_of_the_command_line(results: Results) -> None:
    assert len(results.runs()) == 4
    assert set(results.runs("desk*")["host_id"]) == {"desktop"}
    assert len(results.runs("all", "!desktop")) == 1
    with pytest.raises(UsageError, match="did you mean 'laptop'"):
        results.runs("laptob")


def test_pairs_and_samples_carry_their_unit(results: Results) -> None:
    pairs = results.pairs("desktop", benchmark="cas")
    assert len(pairs) == 3 * 28
    assert pairs.attrs["unit"] == "one way, ns"
    samples = results.samples("laptop", benchmark="readwrite")
    assert not samples["is_warmup"].any()
    assert len(results.samples("laptop", benchmark="readwrite", warmups=True)) > len(
        samples
    )
    assert samples.attrs["unit"] == "one way, ns"
    median = results.pairs("laptop", benchmark="readwrite")["median_ns"].median()
    assert samples["latency_ns"].median() == pytest.approx(median, rel=0.1)


def test_a_matrix_is_in_the_order_of_the_topology(results: Results) -> None:
    table = results.matrix("desktop")
    assert list(table.index) == [0, 4, 1, 5, 2, 6, 3, 7]
    assert results.matrix().shape == (
        32,
        32,
    ), "the last run, and of it the first benchmark of pairs"
    with pytest.raises(UsageError, match="not measured"):
        results.matrix("desktop", "readwrite")


def test_a_heat_map_is_drawn_on_axes_of_your_own(results: Results) -> None:
    mpl.use("Agg")
    axes = results.heatmap("desktop")
    assert axes.get_title() == "desktop, cas/cmpxchg: one way, ns"


def test_published_tables_are_read_and_drawn_like_runs(results: Results) -> None:
    mpl.use("Agg")
    rows = results.summaries("rpi4-linux", "cas")
    assert set(rows["summary"]) == {"rpi4-linux"}
    table = results.matrix("summary:rpi4-linux", "cas")
    assert (
        table.loc[0, 1]
        == rows.set_index(["ping_cpu", "pong_cpu"]).loc[(0, 1), "latency_ns"].iloc[0]
    )
    axes = results.heatmap("summary:rpi4-linux", limits=(10.0, 20.0))
    assert axes.images[0].norm.vmax == 20.0
    with pytest.raises(UsageError, match="no summary is called 'rpi9'"):
        results.matrix("summary:rpi9")


def test_a_comparison_is_that_of_the_command(results: Results) -> None:
    ids = list(results.runs("desktop")["run_id"])
    (comparison,) = results.compare(ids[0], ",".join(ids[1:]))
    assert set(comparison.relations["relation"]) == {"smt", "package"}


def test_a_notebook_shows_results_and_a_comparison_as_tables(
    results: Results, tmp_path: Path
) -> None:
    assert "4 runs of 2 hosts" in results._repr_html_()
    assert "there is no such folder" in fleet.open(tmp_path / "typo")._repr_html_()
    ids = list(results.runs("desktop")["run_id"])
    (comparison,) = results.compare(ids[0], ",".join(ids[1:]))
    line = repr(comparison)
    assert "\n" not in line
    assert "2 relations" in line
    table = comparison._repr_html_()
    assert "<td>smt</td>" in table
    assert "&lt;Comparison of" in table


def test_an_empty_root_says_so(tmp_path: Path) -> None:
    empty = fleet.open(tmp_path)
    assert empty.runs().empty
    with pytest.raises(UsageError, match="no runs are stored"):
        empty.matrix()


@pytest.mark.parametrize("table", ["runs", "pairs", "numbers", "samples"])
def test_a_root_that_does_not_exist_is_no_empty_one(table: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="typo: there is no such folder"):
        getattr(fleet.open(tmp_path / "typo"), table)()
    assert getattr(fleet.open(tmp_path), table)().empty


LOADERS = [
    analysis.history,
    analysis.load_counters,
    analysis.load_cpus,
    analysis.load_numbers,
    analysis.load_pairs,
    analysis.load_runs,
    analysis.load_samples,
]


@pytest.mark.parametrize("load", LOADERS, ids=lambda load: load.__name__)
def test_no_function_takes_a_missing_root_for_an_empty_one(
    load: Callable[[Path], pd.DataFrame], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="typo: there is no such folder"):
        load(tmp_path / "typo")
    assert load(tmp_path).empty


MISTAKES: dict[str, Callable[[Results], object]] = {
    "pair x: write two CPUs": lambda r: r.bursts(pair="x"),
    "pair 90-91: it was not measured. Pairs are": lambda r: r.bursts(pair="90-91"),
    "benchmark gemm: not measured. There are cas": lambda r: r.pairs(benchmark="gemm"),
    "benchmark /: names no benchmark": lambda r: r.numbers(benchmark="/"),
    "rounds few: must be": lambda _: fleet.measure(rounds="few"),
    "separation_bytes 3: must be": lambda _: fleet.measure(separation_bytes=3),
    "cpus 0 and benchmarks cas exclude": lambda _: fleet.measure((), "cas", cpus="0"),
    "variant is not an option any more; name a variant with its benchmark, as in": (
        lambda _: fleet.measure(variant="c11")  # type: ignore[call-arg]
    ),
    "'roundz' is not an option of a plan": lambda _: fleet.measure(roundz=3),
}


@pytest.mark.parametrize("words", MISTAKES)
def test_an_error_speaks_of_arguments_not_of_options(
    words: str, results: Results, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)  # no inventory
    with pytest.raises(UsageError) as refused:
        MISTAKES[words](results)
    assert str(refused.value).startswith(words)
    assert "--" not in str(refused.value)


def test_the_bursts_of_a_pair_of_an_empty_root_are_a_whole_sentence(
    tmp_path: Path,
) -> None:
    with pytest.raises(UsageError, match=r"was not measured\. No pair was\.$"):
        fleet.open(tmp_path).bursts(pair="0-1")
