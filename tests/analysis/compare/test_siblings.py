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
from fleet.model import Host, Run
from fleet.store.store import Store
from tests.builders import a_run, make_bursts
from tests.command import Fleet

NONE = np.zeros(simulated.RELATIONS)
ONE = np.eye(simulated.RELATIONS)[0]


def machines(count: int, seed: int = 1) -> Floats:
    chance = np.random.default_rng(seed)
    return 0.01 * chance.standard_normal((4, count))


def test_the_odd_machine_is_no_part_of_what_it_is_held_against() -> None:
    log_ns = machines(8)
    log_ns[2, 5] += 0.2
    moves = measure_distances(log_ns, THRESHOLD)
    assert np.argwhere(moves.are_odd(THRESHOLD)).tolist() == [[2, 5]]
    others = np.delete(log_ns[2], 5)
    assert moves.moved[2, 5] == pytest.approx(log_ns[2, 5] - others.mean())
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
    three_runs = np.log([50.0, 50.2, 49.9])
    drift = 0.001 * np.arange(12)
    runs = np.tile(three_runs, 4)[None, :] + drift
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
    runs = np.log([[50.0, 50.1, 50.2, 50.1, 50.0]])
    whose = np.array([0, 0, 0, 1, 1])
    levels = label_one_kind(runs)
    steady, _, _ = reduce_machines(runs, levels, whose)
    assert not np.isnan(steady).any()
    switching, _, _ = reduce_machines(runs, levels, whose, switches=True)
    assert np.isnan(switching[0]).tolist() == [False, True]


def test_a_machine_whose_runs_vary_more_than_those_of_most_must_be_further_apart() -> (
    None
):
    chance = np.random.default_rng(3)
    whose = np.repeat(np.arange(30), 3)
    runs = 0.002 * chance.standard_normal((8, 90))
    runs[:, :3] = [-0.06, 0.0, 0.06]
    log_ns, _, noise = reduce_machines(runs, label_one_kind(runs), whose)
    assert noise[0] == pytest.approx(0.06**2 * 0.44, rel=0.2)
    assert noise[1:].max() < 1e-5
    for machine, is_odd in ((0, False), (1, True)):
        slow = log_ns.copy()
        slow[2, machine] += 0.04
        moves = measure_distances(slow, THRESHOLD, noise=noise)
        assert moves.are_odd(THRESHOLD)[2, machine] == is_odd


def test_a_cpu_is_held_beside_its_node_and_a_node_against_the_same_node() -> None:
    # of five machines of eight CPUs: a slow CPU of the first, a slow node of the second
    pairs = np.zeros((5, 8, 8))
    pairs[0, 3, :] += 0.1
    pairs[0, :, 3] += 0.1
    pairs[1, 4:, :] += 0.2
    pairs[1, :4, 4:] += 0.2
    pairs[:, range(8), range(8)] = np.nan
    node_of_cpu = np.repeat([0, 1], 4)
    cpus, nodes = compare_cpus(pairs, node_of_cpu)
    assert cpus[3, 0] == pytest.approx(0.1)
    other_cpus = np.delete(cpus, 3, axis=0)
    assert np.abs(other_cpus).max() < 0.01
    assert nodes[1, 1] == pytest.approx(0.2)
    other_nodes = nodes[:, [0, 2, 3, 4]]
    assert np.abs(other_nodes).max() == pytest.approx(0)


def test_a_median_is_of_the_values_there() -> None:
    values = [
        [3.0, np.nan, 1.0, 2.0],
        [np.nan, np.nan, np.nan, np.nan],
        [4.0, 1.0, 2.0, 3.0],
    ]
    medians = compute_nanmedian(np.array(values), axis=1)
    assert medians == pytest.approx([2.0, np.nan, 2.5], nan_ok=True)


def test_simulated_machines_are_found_and_healthy_ones_are_not() -> None:
    chance = np.random.default_rng(3)
    healthy_found = 0
    for _ in range(10):
        healthy = simulated.session(chance, 8, 3, "normal", NONE)
        healthy_found += healthy.are_odd(THRESHOLD).any()
    slow_found = 0
    for _ in range(10):
        slow = simulated.session(chance, 8, 3, "normal", 0.1 * ONE)
        slow_found += slow.are_odd(THRESHOLD)[0, 0]
    assert healthy_found <= 1
    assert slow_found >= 8


@pytest.mark.long
def test_the_slow_node_of_the_lab_is_named(made_lab: Path) -> None:
    fleet = Fleet(made_lab, {"COLUMNS": "80"})
    done = fleet("compare", "node*", "lucca", "--siblings", "--fail-on-change")
    assert done.exit_code == 20
    assert "9 equal machines, 36 runs: 1 odd: node6" in done.stdout
    assert "Without siblings: lucca" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    refused = fleet("compare", "node[1-3]", "--siblings", "--fail-on-change", "--json")
    assert refused.exit_code == 2


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
        run = run_of_host(number)
        run = replace(run, facts=replace(run.facts, cpu_model=model))
        store.publish(run, make_bursts(run, samples=3))
    groups = [sorted(group.hosts) for group in compare_siblings(tmp_path, ["*"])]
    assert sorted(groups) == [["host0"], ["host1"], ["host2", "host3"]]


def run_of_host(number: int, repeat: int = 5) -> Run:
    """Make a run of host0, host1, ...; repeat: the second it began in."""
    name = f"host{number}"
    run_id = f"r2026010{number + 1}T03040{repeat}Z-0badcafe"
    return a_run(run_id=run_id, host=Host(name, name))


def test_unequal_memory_modules_are_among_what_an_odd_machine_has_otherwise(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path)
    for number in range(5):
        modules = 1 if number == 0 else 2
        ns = 75.0 if number == 0 else 50.0
        for repeat in range(3):
            run = run_of_host(number, repeat)
            run = with_modules(run, modules)
            bursts = make_bursts(run, ns=lambda *_, ns=ns: ns, seed=5 * number + repeat)
            store.publish(run, bursts)
    (result,) = compare_siblings(tmp_path, ["*"])
    assert result.odd_hosts == ["host0"]
    environment = result.environment
    (row,) = environment[environment["what"] == "memory_modules"].to_dict("records")
    assert row["host"] == "host0"
    assert row["value"] == "1 x 16 GiB DDR5"
    assert "2 x 16 GiB DDR5" in row["others"]
    assert result.about.endswith("16 or 32 GiB")


def with_modules(run: Run, modules: int) -> Run:
    facts = replace(
        run.facts,
        memory_modules=f"{modules} x 16 GiB DDR5",
        memory_bytes=(16 * modules << 30) - 1000,
    )
    return replace(run, facts=facts)
