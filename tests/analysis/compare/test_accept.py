"""Is a machine as it should be: the prediction on arrays, ranges by hand, and the
command on the lab.
"""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks.acceptance import judge_machine, simulate
from fleet.analysis.compare import (
    Outcome,
    find_first_slower,
    judge_last_runs,
    predict_next,
)
from fleet.analysis.reduce import Only
from fleet.analysis.views import render_acceptance
from fleet.errors import EXIT_SOME_FAILED, EXIT_WORSE, UsageError
from fleet.inventory.expected import read_expected
from fleet.model import Host, Relation, Run, Topology
from fleet.store import Listing, Store, new_run_id
from tests import builders, simulated
from tests.command import Done, Fleet


def test_a_prediction_is_of_one_more_value() -> None:
    centre, error, freedom = predict_next(np.array([[1.0, 1.2, 1.4]]))
    assert centre == pytest.approx([1.2])
    assert error == pytest.approx([0.2 * (1 + 1 / 3) ** 0.5])
    assert freedom.tolist() == [2]


@pytest.fixture
def accept(made_lab: Path, fleet_here: Callable[..., Done]) -> Callable[..., Done]:
    """Runs `fleet accept` on the lab."""

    def run(*words: str) -> Done:
        return fleet_here("accept", *words, "-r", str(made_lab / "results"))

    return run


def write_ranges(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "expected.yaml"
    file.write_text(text)
    return file


def judge_last_run(place: object, host: str, **options: Any) -> Any:
    (machine,) = judge_last_runs(place, [host], **options)
    return machine


def read_slower_rows(text: str) -> list[dict[str, str]]:
    """Return the rows of a CSV that are slower."""
    rows = csv.DictReader(io.StringIO(text))
    return [row for row in rows if row["outcome"] == Outcome.SLOWER]


def make_tables(rows: pd.DataFrame, factors: Sequence[float]) -> pd.DataFrame:
    """Make tables of a CPU model: the numbers of a machine times each factor."""
    return pd.concat(
        rows.assign(summary=f"t{number}", median_ns=rows["ns"] * factor)
        for number, factor in enumerate(factors)
    )


def test_good_machines_pass_and_a_slow_one_does_not() -> None:
    false, detected, inside = simulate(
        8, 1, between=0.01, within=0.005, sessions=60, seed=3
    )
    assert false <= 0.1
    assert detected >= 0.9
    assert inside == pytest.approx(0.95, abs=0.04)


def test_an_odd_one_among_the_equal_machines_is_left_out() -> None:
    chance = np.random.default_rng(2)
    others = 0.005 * chance.standard_normal((8, 9))
    others[0, 4] += 0.5
    own = np.zeros(8)
    own[0] = 0.1
    no_history = np.empty((8, 0))
    rows = judge_machine(own, others, no_history)
    slower = rows[rows["outcome"] == Outcome.SLOWER]
    assert slower["relation"].tolist() == ["r0"]


def test_faster_is_named_and_never_slower() -> None:
    chance = np.random.default_rng(2)
    others = 0.005 * chance.standard_normal((8, 9))
    own = np.full(8, -0.2)
    no_history = np.empty((8, 0))
    rows = judge_machine(own, others, no_history)
    assert set(rows["outcome"]) == {Outcome.FASTER}


def test_the_odd_node_is_slower_and_its_neighbours_are_not(
    accept: Callable[..., Done],
) -> None:
    done = accept("node*")
    assert done.exit_code == EXIT_WORSE
    lines = done.stdout.splitlines()
    slower = [line for line in lines if ": slower: " in line]
    assert [line.partition(":")[0] for line in slower] == ["node6"]
    assert sum(": as expected: 2 numbers held against " in line for line in lines) == 8
    (below,) = read_slower_rows(accept("node6", "--csv").stdout)
    assert below["relation"] == "package"
    assert below["source"] == "equal machines"
    assert below["count"] == "8.0"
    assert float(below["ns"]) > float(below["high"])
    (machine,) = accept("node6", "--json").json
    assert machine["host"] == "node6"
    assert machine["outcome"] == Outcome.SLOWER


def test_a_rate_is_less_or_more_and_in_its_own_unit(
    accept: Callable[..., Done], tmp_path: Path
) -> None:
    ranges = "    L1 read: 9000 to 9999\n    L1 copy: 0.1 to 0.2\n"
    file = write_ranges(tmp_path, f"- host: pisa\n  bandwidth/avx2:\n{ranges}")
    done = accept("pisa", "--expected", str(file))
    assert done.exit_code == EXIT_WORSE
    assert done.stdout.startswith("pisa: less: bandwidth/avx2 L1 read ")
    (machine,) = accept("pisa", "--json", "--expected", str(file)).json
    rows = {row["relation"]: row for row in machine["rows"]}
    read = rows["L1 read"]
    copy = rows["L1 copy"]
    assert read["outcome"] == "less"
    assert copy["outcome"] == "more"
    assert read["value_low"] == pytest.approx(9000)
    assert read["value_high"] == pytest.approx(9999)
    assert read["value"] == pytest.approx(1 / read["ns"])
    assert read["value_unit"] == "GB/s"
    units = {row["benchmark"]: row["value_unit"] for row in machine["rows"]}
    assert units["cas"] == "ns"


def test_a_host_without_any_expectation_has_its_own_exit_code(
    accept: Callable[..., Done], tmp_path: Path
) -> None:
    done = accept("verona")
    assert done.exit_code == UsageError.exit_code
    assert done.stdout.startswith(
        "verona: cannot tell: no table of Made-up workstation of two sockets is here;"
    )
    ranges = "- host: verona\n  cas:\n    smt: at most 100\n"
    file = write_ranges(tmp_path, ranges)
    done = accept("verona", "--expected", str(file))
    assert done.exit_code == 0
    assert (
        "1 number held against expected.yaml; no expectation for 213 numbers"
        in done.stdout
    )


@pytest.mark.parametrize(
    ("factors", "outcome", "words"),
    [
        ((0.97, 1.0, 1.02, 1.04), Outcome.AS_EXPECTED, "better than 2 of 4 tables"),
        ((0.5, 0.51, 0.5, 0.49), Outcome.SLOWER, "(4 tables)"),
        ((2.0, 2.1, 2.0, 2.1), Outcome.FASTER, "better than 4 of 4 tables"),
        ((0.9, 1.1), Outcome.CANNOT_TELL, "better than 1 of 2 tables; "),
    ],
)
def test_tables_of_the_model_count_where_nothing_else_does(
    made_lab: Path, factors: tuple[float, ...], outcome: Outcome, words: str
) -> None:
    root = str(made_lab / "results")
    only = Only("cas")
    alone = judge_last_run(root, "verona", only=only)
    tables = make_tables(alone.rows, factors)
    machine = judge_last_run(root, "verona", only=only, load_tables=lambda _: tables)
    line = render_acceptance(machine)
    assert machine.outcome == outcome, line
    assert words in line, line
    other = judge_last_run(root, "node7", only=only, load_tables=lambda _: tables)
    assert {*other.rows["source"]} == {"earlier runs", "equal machines"}


@pytest.mark.parametrize(
    ("ranges", "outcome", "exit_code"),
    [
        ("- host: verona\n  cas:\n    smt: at most 99999\n", "as expected", 0),
        ("- host: verona\n  cas:\n    smt: at most 0.01\n", "slower", EXIT_WORSE),
        ("- host: verona\n  cas:\n    smt: at least 99999\n", "faster", 0),
        (
            "- host: another\n  cas:\n    smt: at most 1\n",
            "cannot tell",
            UsageError.exit_code,
        ),
    ],
)
def test_each_outcome_has_its_exit_code_and_a_line_that_a_scheduler_takes(
    accept: Callable[..., Done],
    tmp_path: Path,
    ranges: str,
    outcome: str,
    exit_code: int,
) -> None:
    file = write_ranges(tmp_path, ranges)
    done = accept("verona", "-b", "cas", "--expected", str(file))
    (line,) = done.stdout.splitlines()
    assert ("no entry of" in done.stderr) == (outcome == "cannot tell")
    assert done.exit_code == exit_code, line
    assert line.startswith(f"verona: {outcome}: "), line
    assert len(line) <= 240
    assert line.isascii()
    assert not set(line) & set("\"'`$\\=|\n")


@pytest.mark.long
def test_measuring_first_is_a_run_whose_numbers_are_then_judged(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        here = "here: {via: local, plan: {rounds: 1}}"
        fleet.inventory(f"hosts:\n  {here}\n  gone: {{address: 127.0.0.1, port: 1}}\n")
        for text, outcome, exit_code in (
            ("at most 0.01", Outcome.SLOWER, EXIT_WORSE),
            ("at least 99999", Outcome.FASTER, EXIT_SOME_FAILED),
        ):
            ranges = "".join(f"    {relation}: {text}\n" for relation in Relation)
            write_ranges(tmp_path, f"- host: here\n  cas:\n{ranges}")
            done = fleet("accept", "--run", "-b", "cas", "--json")
            (machine,) = done.json
            assert machine["host"] == "here"
            assert {row["outcome"] for row in machine["rows"]} == {outcome}
            expected = (outcome, exit_code)
            # by other work here
            if max(machine["failed"], machine["flagged"]) >= 0.5:
                expected = (Outcome.CANNOT_TELL, EXIT_SOME_FAILED)
            assert (machine["outcome"], done.exit_code) == expected, done.stderr
            assert "gone" in done.stderr


@pytest.mark.long
def test_measuring_first_measures_the_cpus_that_are_judged_and_can_be_quiet(
    tmp_path: Path,
) -> None:
    with Fleet(tmp_path) as fleet:
        fleet.inventory("hosts:\n  here: {via: local, plan: {rounds: 1}}\n")
        done = fleet("accept", "--run", "-q", "-b", "cas", "-c", "0,1")
        assert done.stdout.startswith("here: ")
        assert "rounds" not in done.stderr
        (shown,) = fleet("show", "--json").json
    assert shown["run"]["plan"]["cpus"] == [0, 1]


def test_a_virtual_machine_is_held_against_numbers_at_its_own_level(
    tmp_path: Path,
) -> None:
    run = builders.a_run(builders.small_desktop())
    for host, hypervisor, count in (("bare", None, 6), ("virtual", "kvm", 3)):
        own = replace(
            run,
            run_id=f"{run.run_id[:-8]}{count:08x}",
            host=Host(host, "192.0.2.7"),
            facts=replace(run.facts, hypervisor=hypervisor),
        )
        Store(tmp_path).publish(own, builders.make_bursts(own))
        alone = judge_last_run(tmp_path, host)
        tables = make_tables(alone.rows, (0.99, 1.0, 1.01, 3.99, 4.0, 4.01))
        machine = judge_last_run(
            tmp_path, host, load_tables=lambda _, tables=tables: tables
        )
        assert set(machine.rows["count"]) == {count}


@pytest.mark.parametrize("hypervisor", [None, "kvm"])
def test_an_odd_machine_is_no_expectation_also_beside_a_virtual_one(
    tmp_path: Path, hypervisor: str | None
) -> None:
    cpus = builders.small_desktop()
    topology = Topology(cpus)
    for name, factor in (("a", 1), ("b", 1), ("c", 1), ("d", 1), ("odd", 3), ("e", 1)):
        run = builders.a_run(cpus, host=Host(name, "192.0.2.7"))
        kind = hypervisor if name == "e" else None
        run = replace(
            run, run_id=new_run_id(), facts=replace(run.facts, hypervisor=kind)
        )

        def slow_down(a: int, b: int, factor: int = factor) -> float:
            return factor * builders.NS[topology.relation(a, b)]

        Store(tmp_path).publish(run, builders.make_bursts(run, ns=slow_down))
    machine = judge_last_run(tmp_path, "a")
    assert set(machine.rows["count"]) == {4}


def test_a_line_ends_with_the_share_of_bursts_that_failed_or_are_flagged(
    made_lab: Path,
) -> None:
    machine = judge_last_run(made_lab / "results", "node7")
    few = replace(machine, failed=0.09, flagged=0.09)
    assert "bursts" not in render_acceptance(few)
    many = replace(machine, failed=0.17, flagged=0.4)
    assert render_acceptance(many).endswith(
        "8 equal machines; 17% of bursts failed; 40% of bursts are flagged"
    )


@pytest.mark.parametrize("share", ["failed", "flagged"])
def test_nothing_is_told_of_a_host_that_was_disturbed_half_of_the_time(
    made_lab: Path, share: str
) -> None:
    machine = judge_last_run(made_lab / "results", "node6")
    less_than_half = replace(machine, **{share: 0.49})
    assert less_than_half.outcome is Outcome.SLOWER
    half = replace(machine, **{share: 0.5})
    assert half.outcome is Outcome.CANNOT_TELL
    assert render_acceptance(half).startswith(
        "node6: cannot tell: other work disturbed the run"
    )


def test_runs_without_numbers_are_refused(tmp_path: Path) -> None:
    Store(tmp_path).publish(builders.a_run(), [])
    with pytest.raises(
        UsageError, match="these runs have no latencies between CPUs and no levels"
    ):
        judge_last_runs(str(tmp_path), ["all"])


@pytest.mark.long
def test_written_ranges_are_read_again_and_replace_other_expectations(
    accept: Callable[..., Done], tmp_path: Path
) -> None:
    options = ("--expected", str(tmp_path / "expected.yaml"))
    assert accept("node*", "pisa", "--write", *options).exit_code == 0
    again = accept("node*", "--write", *options)
    assert again.exit_code == UsageError.exit_code
    assert "exists" in again.stderr
    done = accept("node*", "pisa", *options)
    assert done.exit_code == EXIT_WORSE
    assert "node6: slower: cas/cmpxchg package 63.6, expected " in done.stdout
    assert done.stdout.count("held against expected.yaml") == 9


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [("20 to 28", 20, 28), ("at most 28", None, 28), ("at least 0.5", 0.5, None)],
)
def test_a_range_is_read_as_it_is_written(
    tmp_path: Path, text: str, low: float | None, high: float | None
) -> None:
    file = write_ranges(tmp_path, f"- host: web*\n  cas/llsc:\n    package: {text}\n")
    (expected,) = read_expected(file)
    assert expected.low == low
    assert expected.high == high
    assert expected.source == "expected.yaml:3"
    run = {
        "cpu_model": None,
        "host_name": "web3",
        "host_id": "web3",
        "labels_json": "{}",
    }
    assert expected.matches(run, "cas", "llsc", "package")
    assert not expected.matches(run, "cas", "c11", "package")
    assert not expected.matches(run, "cas", "llsc", "llc")


def test_limits_of_a_rate_turn_round_in_ns(tmp_path: Path) -> None:
    ranges = "- label: rack=b*\n  bandwidth:\n    mem read: 10 to 20\n"
    (expected,) = read_expected(write_ranges(tmp_path, ranges))
    assert expected.limits_ns(is_rate=True) == (0.05, 0.1)
    run = {
        "cpu_model": "x",
        "host_name": "a",
        "host_id": "a",
        "labels_json": '{"rack": "b2"}',
    }
    assert expected.matches(run, "bandwidth", "avx2", "mem read")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- host: a\n  cas:\n    llc: 20-30\n", r":3: .*'20-30' is not a range"),
        ("- host: a\n  cas:\n    llc: 30 to 20\n", r":3: .*is not a range"),
        ("- hosts: a\n", r":1: .*exactly one of cpu_model, host, label"),
        ("- host: a\n  label: b=c\n", r":1: .*exactly one of"),
        ("- host: a\n  cas: 20 to 30\n", r":2: .*a relation and its range"),
        ("- host: a\n  cas:\n    llc: at least zero\n", r":3: .*is not a range"),
        (f"- host: a\n  cas:\n    llc: 1 to {'9' * 400}\n", r":3: .*is not a range"),
        (
            "- host: a\n  bandwidth:\n    mem raed: 1 to 2\n",
            r":3: .*needs a setting, such as mem read",
        ),
        (
            "- host: a\n  chase:\n    L2: 1 to 2\n",
            r":3: .*needs a setting, such as L2 random",
        ),
        ("- host: a\n  cas:\n    llc:\n", r":3: .*has no range; write"),
        (
            "- host: a\n  cas:\n    pakage: 20 to 30\n",
            r":3: .*not a relation or level; did you mean 'package'",
        ),
        (
            "- host: a\n  cass:\n    llc: 20 to 30\n",
            r":2: .*is not a benchmark; did you mean 'cas'",
        ),
        (
            "- hots: a\n  host: b\n  cas:\n    llc: 2 to 3\n",
            r":1: .*hots: is not a benchmark; did you mean 'host'",
        ),
        (
            "- host: a\n  cas:\n    llc: 2 to 3\n    llc: 2 to 4\n",
            r":4: .*duplicate key",
        ),
        ("- host: a\n", r":1: .*names no benchmark"),
        ("- host: ''\n  cas:\n    llc: 2 to 3\n", r":1: .*with a name or a glob"),
        (
            "- host: a\n  cas/cmpxhg:\n    llc: 2 to 3\n",
            r":2: .*is not a variant; did you mean 'cmpxchg'",
        ),
        (
            "- host: a\n  CAS:\n    llc: 2 to 3\n",
            r":2: .*is not a benchmark; did you mean 'cas'.* There are cas,",
        ),
        ("- label: b2\n  cas:\n    llc: 2 to 3\n", r":1: .*needs key=value"),
        ("host: a\n", r":1: a list of entries"),
        ("", r":1: a list of entries"),
        ("- host: a\n\tcas:\n", r":2: .*this line contains a tab"),
        ("- host: [\n", r":1: broken YAML|:2: broken YAML"),
    ],
)
def test_a_mistake_is_refused_with_file_and_line(
    tmp_path: Path, text: str, message: str
) -> None:
    file = write_ranges(tmp_path, text)
    with pytest.raises(UsageError, match="expected.yaml" + message):
        read_expected(file)


def judge_nights(root: Path, host: str) -> list[str]:
    """Return the line of each run of a host, each judged as the last one."""
    listing = Listing(root)
    runs = [run.run_id for run in listing.runs if run.host_id == host]
    return [render_acceptance(*judge_last_runs(listing, [run])) for run in runs]


def test_a_change_that_nobody_accepted_stays_on_each_night(made_lab: Path) -> None:
    lines = judge_nights(made_lab / "results", "lucca")
    outcomes = [line.split(": ")[1] for line in lines]
    assert outcomes == ["cannot tell"] * 3 + ["as expected"] * 6 + ["slower"] * 5
    assert all("expected 40.6 to 41.5 (9 earlier runs)" in line for line in lines[9:])
    assert "since" not in lines[9]
    how = "; fleet accept lucca --write if that is to be"
    assert lines[10].endswith(f", slower since 2026-11-04{how}")
    proved = f", slower since 2026-11-04, +5.8%{how}"
    assert all(line.endswith(proved) for line in lines[11:])


def test_a_host_that_only_scatters_is_never_slower(made_lab: Path) -> None:
    lines = judge_nights(made_lab / "results", "siena")
    outcomes = [line.split(": ")[1] for line in lines]
    assert outcomes.count("cannot tell") == 3
    assert outcomes.count("as expected") == 16
    assert outcomes.count("faster") == 1


def test_text_json_csv_and_page_name_the_same_change(
    accept: Callable[..., Done],
    made_lab: Path,
    fleet_here: Callable[..., Done],
    tmp_path: Path,
) -> None:
    words = "slower since 2026-11-04, +5.8%"
    done = accept("lucca")
    assert done.exit_code == EXIT_WORSE
    assert words in done.stdout

    (machine,) = accept("lucca", "--json").json
    (row,) = [row for row in machine["rows"] if row["outcome"] == Outcome.SLOWER]
    assert row["since"] == "2026-11-04"
    assert f"{row['ratio'] - 1:+.1%}" == "+5.8%"

    (line,) = read_slower_rows(accept("lucca", "--csv").stdout)
    assert line["since"] == "2026-11-04"
    assert float(line["ratio"]) == row["ratio"]

    root = ("-r", str(made_lab / "results"))
    page = tmp_path / "page.html"
    fleet_here("report", "lucca", "-o", str(page), *root)
    assert words in page.read_text()
    (compared, *_) = fleet_here("compare", "lucca", "--json", *root).json
    assert compared["changes"][0]["ratio"] == pytest.approx(row["ratio"])


def test_writing_a_file_accepts_what_a_number_is_since_it_changed(
    accept: Callable[..., Done], tmp_path: Path
) -> None:
    file = tmp_path / "expected.yaml"
    written = accept("lucca", "--write", "--expected", str(file))
    assert written.exit_code == 0
    (package, _) = read_expected(file)
    assert package.low is not None
    assert package.high is not None
    assert 41.5 < package.low < 43.47 < package.high
    done = accept("lucca", "--expected", str(file))
    assert done.exit_code == 0
    assert "as expected" in done.stdout


def test_a_range_by_hand_ends_a_change(made_lab: Path, tmp_path: Path) -> None:
    ranges = "- host: lucca\n  cas:\n    package: at most 45\n"
    expected = read_expected(write_ranges(tmp_path, ranges))
    (machine,) = judge_last_runs(made_lab / "results", ["lucca"], expected)
    assert machine.outcome is Outcome.AS_EXPECTED


def publish_nights(root: Path, factors: Sequence[float]) -> list[str]:
    """Publish a run of host h0 for each night; return their IDs."""
    ids = []
    for number, factor in enumerate(factors):
        ns = {name: ns * factor for name, ns in builders.NS.items()}
        desktop = simulated.desktop("h0", ns=ns, run_sd=0.003)
        session = f"s202601{number + 1:02}T000000Z-00000000"
        run = simulated.publish(root, desktop, number, rounds=4, session=session)
        ids.append(run.run_id)
    return ids


def test_a_label_begins_a_new_baseline(
    tmp_path: Path, fleet_here: Callable[..., Done]
) -> None:
    ids = publish_nights(tmp_path, [1.0] * 8 + [1.06] * 4)
    assert judge_last_run(tmp_path, "h0").outcome is Outcome.SLOWER
    fleet_here("label", ids[8], "accepted=yes", "-r", str(tmp_path))
    machine = judge_last_run(tmp_path, "h0")
    assert machine.outcome is Outcome.AS_EXPECTED
    assert set(machine.rows["count"]) == {3}


def test_nights_too_few_to_prove_a_change_do_not_heal_it(tmp_path: Path) -> None:
    ids = publish_nights(tmp_path, [1.0] * 4 + [1.1] * 3)
    machines = [judge_last_run(tmp_path, run_id) for run_id in ids[4:]]
    assert [machine.outcome for machine in machines] == [Outcome.SLOWER] * 3
    assert set(machines[-1].rows["count"]) == {4}


def later_run_of_h0(benchmarks: tuple[str, ...] = ("cas",)) -> Run:
    """Make a run of host h0 after all its nights."""
    run_id = "r20260301T000000Z-0badcafe"
    cpus = simulated.desktop("h0").cpus
    run = builders.a_run(cpus, run_id, Host("h0", ""), benchmarks)
    return replace(run, started_utc="2026-03-01T00:00:00Z")


def test_a_run_whose_bursts_all_failed_is_named_and_never_the_last(
    tmp_path: Path,
) -> None:
    publish_nights(tmp_path, [1.0] * 5)
    empty = later_run_of_h0()
    Store(tmp_path).publish(empty, [])
    machine = judge_last_run(tmp_path, "h0")
    assert machine.outcome is Outcome.AS_EXPECTED
    line = render_acceptance(machine)
    assert line.endswith(f"; no burst of {empty.run_id} gave a number")


def test_the_last_run_is_the_last_that_has_the_benchmark(tmp_path: Path) -> None:
    publish_nights(tmp_path, [1.0] * 5)
    other = later_run_of_h0(benchmarks=("clock",))
    Store(tmp_path).publish(other, builders.make_bursts(other))
    machine = judge_last_run(tmp_path, "h0", only=Only("cas"))
    assert machine.outcome == Outcome.AS_EXPECTED
    assert machine.older == ()
    machine = judge_last_run(tmp_path, "h0")
    assert machine.older == ("cas",)
    assert "only in older runs: cas" in render_acceptance(machine)


def test_a_host_without_the_benchmark_is_not_said_to_have_no_burst(
    tmp_path: Path,
) -> None:
    publish_nights(tmp_path, [1.0] * 5)
    cpus = simulated.desktop("h1").cpus
    run_id = "r20260301T000000Z-0badcaf1"
    other = builders.a_run(cpus, run_id, Host("h1", ""), ("clock",))
    Store(tmp_path).publish(other, builders.make_bursts(other))
    _, machine = judge_last_runs(tmp_path, ["h0", "h1"], only=Only("cas"))
    assert machine.outcome is Outcome.CANNOT_TELL
    assert render_acceptance(machine) == "h1: cannot tell: it has not measured this"


def test_rows_that_are_slower_at_the_end_begin_where_they_leave_what_was_before() -> (
    None
):
    log_ns = 0.002 * np.random.default_rng(4).standard_normal((6, 9))
    log_ns[2, 6:] += 0.1
    log_ns[4, 8:] += 0.1
    log_ns[5, 5:7] += 0.1
    assert find_first_slower(log_ns, 0.03).tolist() == [9, 9, 6, 9, 9, 9]
