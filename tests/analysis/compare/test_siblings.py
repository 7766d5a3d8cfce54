"""Which of equal machines are odd: the method on arrays, and the command on the lab's
nine equal nodes.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import siblings as simulated
from fleet import open as open_results
from fleet.analysis.base import Floats, Ints
from fleet.analysis.compare import (
    THRESHOLD,
    compare_cpus,
    compare_siblings,
    compute_nanmedian,
    measure_distances,
    reduce_machines,
)
from fleet.analysis.reduce import label_levels_of_hosts
from fleet.errors import UsageError
from fleet.model import Host
from fleet.store.store import Store
from tests.builders import a_run, make_bursts
from tests.command import Fleet

NONE = np.zeros(simulated.RELATIONS)
ONE = np.eye(simulated.RELATIONS)[0]


def machines(count: int, seed: int = 1) -> Floats:
    return 0.01 * np.random.default_rng(seed).standard_normal((4, count))


def test_the_odd_machine_is_no_part_of_what_it_is_held_against() -> None:
    logs = machines(8)
    logs[2, 5] += 0.2
    moves = measure_distances(logs, THRESHOLD)
    assert np.argwhere(moves.are_odd(THRESHOLD)).tolist() == [[2, 5]]
    assert moves.moved[2, 5] == pytest.approx(logs[2, 5] - np.delete(logs[2], 5).mean())
    assert list(moves.others[2]) == [6] * 5 + [7] + [6] * 2, (
        "the others are held against those without it"
    )


def label_one_kind(runs: Floats) -> Ints:
    """Number the levels of rows that are all of one benchmark and variant."""
    return label_levels_of_hosts(runs, np.zeros(len(runs), dtype=np.int64))


def test_three_machines_get_distances_and_no_verdict() -> None:
    moves = measure_distances(machines(3), THRESHOLD)
    assert np.isnan(moves.q).all()
    assert not np.isnan(moves.moved).any()


def test_a_level_of_some_runs_or_of_several_machines_is_left_out() -> None:
    runs = np.tile(np.log([50.0, 50.2, 49.9]), 4)[None, :] + 0.001 * np.arange(12)
    whose = np.repeat(np.arange(4), 3)
    switched = runs.copy()
    switched[0, [0, 4]] += np.log(2)
    levels, elsewhere, _ = reduce_machines(switched, label_one_kind(switched), whose)
    assert np.exp(levels[0]) == pytest.approx(50, rel=0.02)
    assert elsewhere[0].tolist() == [True, True, False, False]
    slow = runs.copy()
    slow[0, :3] += np.log(2)
    levels, elsewhere, _ = reduce_machines(slow, label_one_kind(slow), whose)
    assert np.exp(levels[0, 0]) == pytest.approx(100, rel=0.02), (
        "all runs of one machine alone"
    )
    assert not elsewhere.any()


def test_where_levels_switch_two_runs_have_no_number() -> None:
    runs, whose = np.log([[50.0, 50.1, 50.2, 50.1, 50.0]]), np.array([0, 0, 0, 1, 1])
    levels = label_one_kind(runs)
    assert not np.isnan(reduce_machines(runs, levels, whose)[0]).any()
    assert np.isnan(
        reduce_machines(runs, levels, whose, switches=True)[0][0]
    ).tolist() == [
        False,
        True,
    ]


def test_a_machine_whose_runs_vary_more_than_those_of_most_must_be_further_apart() -> (
    None
):
    chance, whose = np.random.default_rng(3), np.repeat(np.arange(30), 3)
    runs = 0.002 * chance.standard_normal((8, 90))
    runs[:, :3] = [-0.06, 0.0, 0.06]
    logs, _, noise = reduce_machines(runs, label_one_kind(runs), whose)
    assert noise[0] == pytest.approx(0.06**2 * 0.44, rel=0.2)
    assert noise[1:].max() < 1e-5
    for machine, odd in ((0, False), (1, True)):
        slow = logs.copy()
        slow[2, machine] += 0.04
        assert (
            measure_distances(slow, THRESHOLD, noise=noise).are_odd(THRESHOLD)[
                2, machine
            ]
            == odd
        )


def test_a_cpu_is_held_beside_its_node_and_a_node_against_the_same_node() -> None:
    pairs = np.zeros((5, 8, 8))
    pairs[0, 3, :] += 0.1
    pairs[0, :, 3] += 0.1
    pairs[1, 4:, :] += 0.2
    pairs[1, :4, 4:] += 0.2
    pairs[:, range(8), range(8)] = np.nan
    cpus, nodes = compare_cpus(pairs, np.repeat([0, 1], 4))
    assert cpus[3, 0] == pytest.approx(0.1)
    assert np.abs(np.delete(cpus, 3, axis=0)).max() < 0.01
    assert nodes[1, 1] == pytest.approx(0.2)
    assert np.abs(nodes[:, [0, 2, 3, 4]]).max() == pytest.approx(0)


def test_a_median_is_of_the_values_there() -> None:
    values = np.array([[3.0, np.nan, 1.0, 2.0], [np.nan] * 4, [4.0, 1.0, 2.0, 3.0]])
    assert compute_nanmedian(values, axis=1) == pytest.approx(
        [2.0, np.nan, 2.5], nan_ok=True
    )


def test_simulated_machines_are_found_and_healthy_ones_are_not() -> None:
    chance = np.random.default_rng(3)
    healthy = [
        simulated.session(chance, 8, 3, "normal", NONE).are_odd(THRESHOLD).any()
        for _ in range(10)
    ]
    slow = [
        simulated.session(chance, 8, 3, "normal", 0.1 * ONE).are_odd(THRESHOLD)[0, 0]
        for _ in range(10)
    ]
    assert sum(healthy) <= 1
    assert sum(slow) >= 8


@pytest.mark.long
def test_the_slow_node_of_the_lab_is_named(made_lab: Path) -> None:
    fleet = Fleet(made_lab, {"COLUMNS": "80"})
    done = fleet("compare", "node*", "lucca", "--siblings", "--fail-on-change")
    assert done.exit_code == 20
    assert "9 equal machines, 36 runs: 1 odd: node6" in done.stdout
    assert "Without siblings: lucca" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert (
        fleet(
            "compare", "node[1-3]", "--siblings", "--fail-on-change", "--json"
        ).exit_code
        == 2
    )


def test_notebooks_get_the_same_table(made_lab: Path) -> None:
    odd = open_results(made_lab / "results").odd("node*")
    assert list(odd.loc[odd["odd"], "relation"]) == ["package", "all"]


def test_healthy_nodes_are_not_odd_and_few_have_no_verdict(made_lab: Path) -> None:
    (healthy,) = compare_siblings(made_lab / "results", ["node*", "!node6"])
    assert healthy.has_verdict
    assert healthy.odd_hosts == []
    assert 0.01 < healthy.smallest < 0.05
    (few,) = compare_siblings(made_lab / "results", ["node[1-3]"])
    assert not few.has_verdict
    assert few.caveats == (
        "node[1-3]: no verdict: 3 equal machines; it needs 4 or more.",
    )


def test_an_unknown_selection_is_refused(made_lab: Path) -> None:
    with pytest.raises(UsageError, match="did you mean"):
        compare_siblings(made_lab / "results", ["nodee"])


def test_machines_of_an_unknown_cpu_model_equal_no_other(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for number, model in enumerate((None, None, "Model T", "Model T")):
        host, run_id = (
            Host(f"host{number}", f"host{number}"),
            f"r2026010{number + 1}T030405Z-0badcafe",
        )
        run = a_run(run_id=run_id, host=host)
        run = replace(run, facts=replace(run.facts, cpu_model=model))
        store.publish(run, make_bursts(run, samples=3))
    groups = [group.hosts for group in compare_siblings(tmp_path, ["*"])]
    assert sorted(map(sorted, groups)) == [["host0"], ["host1"], ["host2", "host3"]]


def test_unequal_memory_modules_are_among_what_an_odd_machine_has_otherwise(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path)
    for number in range(5):
        host, ns = Host(f"host{number}", f"host{number}"), 75.0 if number == 0 else 50.0
        count = 1 if number == 0 else 2
        memory = {
            "memory_modules": f"{count} x 16 GiB DDR5",
            "memory_bytes": (16 * count << 30) - 1000,
        }
        for repeat in range(3):
            run = a_run(
                run_id=f"r2026010{number + 1}T03040{repeat}Z-0badcafe", host=host
            )
            run = replace(run, facts=replace(run.facts, **memory))
            store.publish(
                run, make_bursts(run, ns=lambda *_, ns=ns: ns, seed=5 * number + repeat)
            )
    (result,) = compare_siblings(tmp_path, ["*"])
    assert result.odd_hosts == ["host0"]
    (row,) = result.environment[result.environment["what"] == "memory_modules"].to_dict(
        "records"
    )
    assert (row["host"], row["value"]) == ("host0", "1 x 16 GiB DDR5")
    assert "2 x 16 GiB DDR5" in row["others"]
    assert result.about.endswith("16 or 32 GiB")
