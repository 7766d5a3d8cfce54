"""What two CPUs share, guessed from latencies alone, held against machines whose facts
are known.
"""

from pathlib import Path

import pytest

from benchmarks.guess import main
from fleet.analysis.exchange import (
    Grid,
    ImportMetadata,
    find_summary,
    guess_topology,
    import_files,
    is_guessed,
    render_summaries,
)
from fleet.analysis.views import Canvas
from fleet.model import Cpu, Topology
from fleet.plan.benchmark_names import BenchmarkName
from tests import builders


def make_grid(cpus: tuple[Cpu, ...]) -> Grid:
    """A matrix by relation, each cell off by up to 5 %."""
    topology = Topology(cpus)
    cells = {
        (a.cpu, b.cpu): (
            builders.NS[topology.relation(a.cpu, b.cpu)]
            * (1 + 0.05 * ((a.cpu * 7 + b.cpu * 3) % 5 - 2) / 2)
        )
        for a in cpus
        for b in cpus
        if a.cpu > b.cpu
    }
    return Grid(tuple(cpu.cpu for cpu in cpus), cells)


@pytest.mark.long
@pytest.mark.parametrize(
    ("cpus", "sockets"),
    [
        (builders.small_desktop(), 1),
        (builders.hybrid_laptop(), 1),
        (builders.two_sockets(), 2),
    ],
)
def test_every_relation_of_a_plain_machine_is_guessed(
    cpus: tuple[Cpu, ...], sockets: int
) -> None:
    grid = make_grid(cpus)
    guess = guess_topology(grid, sockets)
    assert guess is not None
    assert {pair: guess.relation(*pair) for pair in grid.cells} == {
        pair: Topology(cpus).relation(*pair) for pair in grid.cells
    }
    assert [cpu.kind for cpu in guess.cpus] == [cpu.kind for cpu in cpus]


def test_nothing_is_guessed_from_too_little_or_against_the_sockets_stated() -> None:
    two = make_grid(builders.small_desktop()[:2])
    assert guess_topology(two) is None
    grid = make_grid(builders.small_desktop())
    assert guess_topology(Grid(grid.cpus, dict([*grid.cells.items()][1:]))) is None
    assert guess_topology(grid, 3) is None


@pytest.mark.long
def test_the_machines_of_the_lab_are_guessed_with_their_facts_hidden(
    made_lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([str(made_lab / "results")])
    assert (
        capsys.readouterr().out.splitlines()[-1]
        == "15 of 15 machines whole; 100.0% of 4466 pairs"
    )


@pytest.mark.long
def test_siblings_of_machines_that_others_measured_are_guessed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main([])
    lines = [
        line
        for line in capsys.readouterr().out.splitlines()
        if "i9-" in line or "i7-" in line
    ]
    assert lines
    assert all("smt" not in line.partition("pairs")[2] for line in lines)


def test_an_import_names_what_it_guesses_as_guessed(tmp_path: Path) -> None:
    file = tmp_path / "friend.csv"
    grid = make_grid(builders.small_desktop())
    names = ["CPU", *map(str, grid.cpus)]
    rows = [
        [str(a), *(str(grid.fill_both_halves().get((a, b), "")) for b in grid.cpus)]
        for a in grid.cpus
    ]
    file.write_text("\n".join(",".join(row) for row in [names, *rows]))
    message = import_files(
        tmp_path, [file], "friend", ImportMetadata(benchmarks=[BenchmarkName("cas")])
    )
    assert "guessed from its levels" in message
    summary = find_summary(tmp_path, "friend")
    assert is_guessed(summary).all()
    assert set(summary["relation"]) == {"smt", "package"}
    assert "by what two CPUs share, guessed" in render_summaries(
        tmp_path, ["friend"], Canvas()
    )
    assert not is_guessed(find_summary(tmp_path, "i3-2120t")).any()
