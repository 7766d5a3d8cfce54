"""What a comparison claims, on runs whose truth is known: stored, loaded and judged as
any other.
"""

import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from fleet.analysis.compare import Comparison, compare
from fleet.analysis.reduce import Only
from fleet.analysis.views import (
    comparisons_as_csv,
    comparisons_as_json,
    render_comparisons,
)
from fleet.errors import UsageError
from fleet.model import Cpu, Host, Relation, Run, Topology
from fleet.store import Store
from tests import builders
from tests.command import Done, Fleet

SIDES = ("kernel=a", "kernel=b")


DESKTOP = builders.small_desktop()


def keep(
    root: Path,
    place: int,
    side: str,
    *,
    host: str = "rpi5",
    cpus: tuple[Cpu, ...] = DESKTOP,
    slower: dict[Relation, float] | None = None,
    pair: tuple[int, int, float] | None = None,
    variant: str | None = None,
    **facts: object,
) -> Run:
    """Store the run number `place` of a series: `side` as label, 0.5 % of noise of its
    own per relation. slower: factors of relations; pair: two CPUs and their factor.
    """
    run_id = f"r20260102T03{place:02}00Z-{place:08x}"
    run = builders.a_run(cpus, run_id=run_id, host=Host(host, "192.0.2.7"))
    run = replace(
        run,
        started_utc=f"2026-01-02T03:{place:02}:00Z",
        labels=MappingProxyType({"kernel": side}),
        facts=replace(run.facts, **{"kernel": "6.12", **facts}),  # type: ignore[arg-type]
    )
    topology = Topology(cpus)
    chance = random.Random(place)
    ns_of_relation = {}
    for relation in Relation:
        shift = chance.gauss(1, 0.005)
        factor = (slower or {}).get(relation, 1.0)
        ns_of_relation[relation] = builders.NS[relation] * shift * factor

    def ns(one: int, other: int) -> float:
        own = pair[2] if pair and (one, other) == pair[:2] else 1.0
        return ns_of_relation[topology.relation(one, other)] * own

    bursts = builders.make_bursts(run, noise=0.005, ns=ns, seed=place)
    if variant is not None:
        bursts = (replace(burst, variant=variant) for burst in bursts)
    Store(root).publish(run, bursts)
    return run


def series(root: Path, order: str, **of_b: object) -> list[Run]:
    """Runs of sides a and b in the order given, as "abba"; what `of_b` says holds for b
    only.
    """
    runs = []
    for place, side in enumerate(order):
        own = of_b if side == "b" else {}
        runs.append(keep(root, place, side, **own))  # type: ignore[arg-type]
    return runs


def compare_a_with_b(root: Path, **options: Any) -> Comparison:
    """Compare the two sides of a series; they have one comparison."""
    (comparison,) = compare(root, SIDES, **options)
    return comparison


def read_json(comparisons: list[Comparison]) -> list[dict[str, Any]]:
    return json.loads(comparisons_as_json(comparisons))["rows"]


@pytest.mark.long
def test_what_changed_is_told_from_what_is_equivalent(tmp_path: Path) -> None:
    series(tmp_path, "abbabaabab", slower={Relation.PACKAGE: 1.08})
    comparison = compare_a_with_b(tmp_path)
    smt, package = comparison.relations.to_dict("records")
    assert smt["relation"] == "smt"
    assert smt["verdict"] == "equivalent"
    assert package["verdict"] == "changed"
    assert package["why"] == "slower, by more than 3%"
    assert package["ratio"] == pytest.approx(1.08, abs=0.01)
    assert 1.05 < package["low"] < package["ratio"] < package["high"] < 1.11
    assert package["pairs"] == 24
    assert package["a_units"] == 5
    assert package["b_units"] == 5
    assert (comparison.pairs["verdict"] == "changed").sum() == 24
    assert comparison.caveats == ()
    text = render_comparisons([comparison])
    expected = (
        r"kernel=b against kernel=a: 2 relations, 1 changed \(at most \+[789]\.\d%,"
        r" package\), 1 equiv"
    )
    assert re.match(expected, text)
    assert "Pairs: 24 of 28 changed by more than 3%" in text
    assert "none of them unlike their relation" in text


@pytest.mark.long
def test_a_single_pair_that_moved_is_found_though_its_relation_did_not(
    tmp_path: Path,
) -> None:
    series(tmp_path, "abbabaabab", pair=(1, 2, 1.10))
    comparison = compare_a_with_b(tmp_path)
    assert set(comparison.relations["verdict"]) == {"equivalent"}
    pairs = comparison.pairs
    changed = pairs[pairs["verdict"] == "changed"]
    assert changed[["ping_cpu", "pong_cpu"]].to_numpy().tolist() == [[1, 2]]
    assert "1-2" in render_comparisons([comparison])


def test_one_run_against_one_run_never_gets_a_verdict(tmp_path: Path) -> None:
    """However far apart they are, and however sure either is of itself."""
    a, b = series(tmp_path, "ab", slower={Relation.PACKAGE: 2.0})
    (comparison,) = compare(tmp_path, [a.run_id, b.run_id])
    relations = comparison.relations
    assert set(relations["verdict"]) == {"no verdict"}
    unknown = relations[["low", "high", "p", "q", "smallest"]]
    assert unknown.isna().all(axis=None)
    assert relations["ratio"][1] == pytest.approx(2, rel=0.05)
    assert comparison.pairs.empty
    assert not comparison.has_changed
    assert not comparison.has_verdict
    text = render_comparisons([comparison])
    assert (
        "2 relations, 2 no verdict (too few runs at a common level), 1 of them at"
        " several" in text
    )
    assert "measure 2 more of A and 2 more of B" in text
    assert "within A" in text


@pytest.mark.long
def test_what_else_differs_is_listed_exactly(tmp_path: Path) -> None:
    series(
        tmp_path,
        "abbaba",
        kernel="6.13",
        microcode="0x2b",
        governor="powersave",
        boost=False,
        mitigations=MappingProxyType({"mds": "Vulnerable"}),
    )
    comparison = compare_a_with_b(tmp_path)
    entries = {
        row["what"]: (row["a"], row["b"])
        for row in comparison.environment.to_dict("records")
    }
    assert entries == {
        "kernel": ("6.12", "6.13"),
        "microcode": ("unknown", "0x2b"),
        "governor": ("unknown", "powersave"),
        "boost": ("unknown", "no"),
        "label.kernel": ("a", "b"),
        "mitigation.mds": ("unknown", "Vulnerable"),
    }
    assert "microcode" in render_comparisons([comparison])


@pytest.mark.long
def test_a_fact_with_several_values_on_a_side_has_the_runs_of_each(
    tmp_path: Path,
) -> None:
    for place, (side, kernel) in enumerate(
        [("a", "6.12"), ("b", "6.13"), ("b", "6.13"), ("a", "6.12"), ("b", "6.14")]
    ):
        keep(tmp_path, place, side, kernel=kernel)
    (comparison,) = compare(tmp_path, SIDES)
    differing = comparison.environment.set_index("what").loc["kernel"]
    assert differing["a"] == "6.12"
    assert differing["b"] == "6.13 (2 runs), 6.14 (1 run)"


@pytest.mark.long
def test_what_matters_is_three_percent_under_a_hypervisor_too(tmp_path: Path) -> None:
    series(tmp_path, "abbabaabab", slower={Relation.PACKAGE: 1.05}, hypervisor="kvm")
    comparison = compare_a_with_b(tmp_path)
    assert comparison.threshold == 0.03
    assert list(comparison.relations["verdict"]) == ["equivalent", "changed"]
    tolerant = compare_a_with_b(tmp_path, threshold=0.1)
    assert not tolerant.has_changed


@pytest.mark.long
def test_sides_at_different_levels_of_a_machine_that_switches_are_at_another_level(
    tmp_path: Path,
) -> None:
    """Four of twelve runs are at 1.4 times their number; three of them are all of the
    runs of B but one.
    """
    for place, side in enumerate("abbabaab"):
        level = 1.4 if place in (0, 1, 2, 4) else 1.0
        keep(tmp_path, place, side, slower={Relation.PACKAGE: level})
    comparison = compare_a_with_b(tmp_path)
    smt, package = comparison.relations.to_dict("records")
    assert smt["levels"] == 1
    assert package["verdict"] == "at another level"
    assert package["levels"] == 2
    assert not comparison.has_changed
    assert comparison.is_at_another_level
    headline = render_comparisons([comparison]).splitlines()[0]
    assert re.search(
        r"1 at another level \(package: most of A at 4\d\.\d, most of B at 6\d\.\d;"
        r" about \d+ runs",
        headline,
    )


def test_different_variants_are_never_one_number(tmp_path: Path) -> None:
    series(tmp_path, "abbaba", variant="c11")
    comparison = compare_a_with_b(tmp_path)
    assert comparison.relations.empty
    text = render_comparisons([comparison])
    assert "no verdict: measured with different instructions: cas\n" in text
    assert re.search(
        r"^cas +package +4\d\.\d cmpxchg +4\d\.\d c11$", text, re.MULTILINE
    )
    assert re.search(r"^To compare them: fleet run \S+ -b cas/c11$", text, re.MULTILINE)


@pytest.mark.long
def test_hosts_of_other_topology_are_matched_by_relation_only(tmp_path: Path) -> None:
    laptop = builders.hybrid_laptop()
    for place in range(0, 6, 2):
        keep(tmp_path, place, "a", host="one")
        keep(tmp_path, place + 1, "a", host="two", cpus=laptop)
    (result,) = compare(tmp_path, ["one", "two"])
    # the laptop has clusters, and two kinds of cores
    assert list(result.relations["relation"]) == ["smt"]
    assert result.pairs.empty
    assert any("these two machines only" in line for line in result.caveats)


@pytest.mark.long
def test_two_hosts_of_one_model_are_compared_cell_by_cell(tmp_path: Path) -> None:
    for place in range(6):
        keep(tmp_path, place, "a", host=("one", "two")[place % 2])
    (result,) = compare(tmp_path, ["one", "two"])
    assert len(result.pairs) == 28


def sides_of_hosts(hosts: Sequence[str], order: str) -> list[tuple[int, str, str]]:
    """Return place, host and side of runs that measure all hosts for each side in
    turn.
    """
    turns = [(host, side) for side in order for host in hosts]
    return [(place, host, side) for place, (host, side) in enumerate(turns)]


@pytest.mark.long
def test_a_label_on_several_hosts_is_compared_host_by_host(tmp_path: Path) -> None:
    for place, host, side in sides_of_hosts(("one", "two"), "abbaab"):
        is_changed = host == "two" and side == "b"
        slower = {Relation.SMT: 1.3} if is_changed else None
        keep(tmp_path, place, side, host=host, slower=slower)
    results = compare(tmp_path, SIDES)
    assert [(result.a.name, result.b.name) for result in results] == [
        ("one@kernel=a", "one@kernel=b"),
        ("two@kernel=a", "two@kernel=b"),
    ]
    assert all(result.unit == "run" and result.has_verdict for result in results)
    # what changed, before any details
    lines = render_comparisons(results).splitlines()
    counts = "4 relations, 1 changed (two), 3 equivalent (within ±3%)"
    assert lines[0] == f"kernel=b against kernel=a, 2 hosts: {counts}"
    assert re.match(r"two +cas/cmpxchg +smt .* changed: slower", lines[3])
    headline = "two@kernel=b against two@kernel=a: 2 relations, 1 changed"
    assert any(line.startswith(headline) for line in lines[4:])
    assert len(compare(tmp_path, ["one@kernel=a", "two@kernel=b"])) == 1


@pytest.mark.long
def test_all_hosts_and_pairs_of_a_command_share_one_error_rate(tmp_path: Path) -> None:
    for place, host, side in sides_of_hosts(("one", "two", "three"), "abbaba"):
        keep(tmp_path, place, side, host=host)
    parts = compare(tmp_path, SIDES)
    columns = ["p", "q"]
    of_all = parts[0].fleet.query("relation != 'all'")
    relations = pd.concat(
        [*(part.relations[columns] for part in parts), of_all[columns]]
    )
    pairs = pd.concat([part.pairs[columns] for part in parts])
    for table in (relations, pairs):
        q = table["q"].to_numpy()
        alone_q = stats.false_discovery_control(table["p"])
        # that of what all have in common is asked of pairs, too
        questions = q[q < 1] / alone_q[q < 1]
        np.testing.assert_allclose(questions, round(questions[0]))
        assert round(questions[0]) in (2, 3)
    (alone,) = compare(tmp_path, ["one@kernel=a", "one@kernel=b"])
    assert alone.fleet.empty


@pytest.mark.long
def test_groups_of_different_hosts_count_each_host_once_at_its_main_level(
    tmp_path: Path,
) -> None:
    for place in range(8):
        side = "ab"[place % 2]
        slower = {Relation.SMT: 1 + place // 4}
        keep(tmp_path, place, side, host=f"h{place % 4}", slower=slower)
    comparison = compare_a_with_b(tmp_path)
    relations = comparison.relations.set_index("relation")
    assert comparison.unit == "host"
    assert set(relations["a_units"]) == {2}
    assert set(relations["verdict"]) == {"no verdict"}
    assert relations["a_ns"]["smt"] < 1.1 * builders.NS[Relation.SMT]


@pytest.mark.long
def test_the_baseline_is_compared_with_each_further_side(tmp_path: Path) -> None:
    for place, side in enumerate("abcabcabc"):
        slower = {Relation.SMT: 1.2} if side == "c" else None
        keep(tmp_path, place, side, slower=slower)
    to_b, to_c = compare(tmp_path, [*SIDES, "kernel=c"])
    assert (to_b.a.name, to_b.b.name) == ("kernel=a", "kernel=b")
    assert (to_c.a.name, to_c.b.name) == ("kernel=a", "kernel=c")
    assert to_b.has_changed is False
    assert to_c.has_changed is True


def test_an_empty_root_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no runs are stored here"):
        compare(tmp_path, ["a", "b"])


@pytest.mark.long
def test_json_and_csv_hold_what_the_text_says(tmp_path: Path) -> None:
    runs = series(tmp_path, "abbaba", slower={Relation.SMT: 1.1})
    comparisons = compare(tmp_path, SIDES)
    (entries,) = read_json(comparisons)
    assert entries["a"]["runs"] == [runs[place].run_id for place in (0, 3, 5)]
    assert [row["verdict"] for row in entries["relations"]] == ["changed", "equivalent"]
    assert len(entries["pairs"]) == 28
    csv = comparisons_as_csv(comparisons)
    assert csv.startswith("benchmark,variant,relation,pairs")
    (few,) = read_json(compare(tmp_path, [runs[0].run_id, runs[1].run_id]))
    assert few["relations"][0]["p"] is None


@pytest.mark.long
def test_a_change_has_an_exit_code_of_its_own_for_who_asks(tmp_path: Path) -> None:
    series(tmp_path / "results", "abbaba", slower={Relation.SMT: 1.1})
    with Fleet(tmp_path) as fleet:
        changed = fleet("compare", *SIDES, "--fail-on-change")
        keep(tmp_path / "results", 6, "a", host="few")
        keep(tmp_path / "results", 7, "b", host="few")
        beside_few = fleet("compare", *SIDES, "--fail-on-change")
    assert changed.exit_code == 20
    assert changed.stdout[:8] == "kernel=b"
    assert beside_few.exit_code == 20
    assert "2 no verdict (few)" in beside_few.stdout


@pytest.mark.slow
def test_a_gate_that_cannot_judge_does_not_pass(tmp_path: Path) -> None:
    series(tmp_path / "results", "ab")
    with Fleet(tmp_path) as fleet:
        few = fleet("compare", *SIDES, "--fail-on-change")
        assert fleet("compare", *SIDES).exit_code == 0
        wrong = fleet("compare", *SIDES, "--threshold", "much")
    assert (few.exit_code, wrong.exit_code) == (2, 2)
    assert "no verdict is possible" in few.stderr
    assert "--threshold much: not a share" in wrong.stderr


@pytest.mark.long
def test_hosts_without_the_benchmark_are_left_out_by_name(tmp_path: Path) -> None:
    for place, host, side in sides_of_hosts(("one", "two"), "abbaab"):
        variant = "llsc" if host == "one" else None
        keep(tmp_path, place, side, host=host, variant=variant)
    only = Only("cas/cmpxchg")
    comparison = compare_a_with_b(tmp_path, only=only)
    assert comparison.b.hosts == ["two"]
    words = "not compared: no latencies of cas/cmpxchg on both sides"
    assert f"one: {words}." in render_comparisons([comparison])
    with pytest.raises(UsageError, match=f"one, two: {words}"):
        compare(tmp_path, ["one", "two"], only=only)


@pytest.mark.long
def test_the_change_over_all_hosts_comes_first(tmp_path: Path) -> None:
    for place, host, side in sides_of_hosts(("h0", "h1", "h2", "h3"), "abbaba"):
        slower = {Relation.SMT: 1.1} if side == "b" else None
        keep(tmp_path, place, side, host=host, slower=slower)
    results = compare(tmp_path, SIDES)
    smt, package = results[0].fleet.to_dict("records")
    assert smt["relation"] == "smt"
    assert smt["hosts"] == 4
    assert package["hosts"] == 4
    assert 1.07 < smt["low"] < smt["ratio"] < smt["high"] < 1.13
    assert smt["verdict"] == "changed"
    assert smt["why"] == "slower, by more than 3%"
    assert package["verdict"] == "equivalent"
    assert package["low"] < 1 < package["high"] or abs(package["ratio"] - 1) < 0.01
    lines = render_comparisons(results).splitlines()
    headline = (
        "kernel=b against kernel=a, 4 hosts: 8 relations, 4 changed (h[0-3]), 4 equiv"
    )
    assert lines[0].startswith(headline)
    changed = r"all 4 +cas/cmpxchg +smt .* changed: slower, by more than 3%"
    assert re.match(changed, lines[3])
    row = lines.index("All hosts, kernel=b against kernel=a") + 2
    assert re.match(r"cas/cmpxchg +smt +4 +\+\d+\.\d% ", lines[row])
    first, *_ = read_json(results)
    assert [row["hosts"] for row in first["fleet"]] == [4, 4]


@pytest.mark.long
def test_a_drift_is_no_part_of_the_difference_of_sides_in_turn(tmp_path: Path) -> None:
    """The machine drifts by 5 % from one pair of runs to the next; B is 4 % slower."""
    for place, side in enumerate("abbabaab"):
        drift = 1.05 ** (place // 2)
        factor = 1.04 * drift if side == "b" else drift
        keep(tmp_path, place, side, slower=dict.fromkeys(Relation, factor))
    for blocks in (None, "time"):
        relations = compare_a_with_b(tmp_path, blocks=blocks).relations
        assert set(relations["verdict"]) == {"changed"}
        assert relations["ratio"].to_list() == pytest.approx([1.04, 1.04], abs=0.015)
    with pytest.raises(UsageError, match="has no label 'boot'; label it, or use time"):
        compare(tmp_path, SIDES, blocks="boot")
    with pytest.raises(UsageError, match="no block has runs of both sides"):
        compare(tmp_path, SIDES, blocks="kernel")


@pytest.mark.long
def test_several_hosts_are_compared_within_blocks(tmp_path: Path) -> None:
    for place, host, side in sides_of_hosts(("h0", "h1", "h2"), "abbaabba"):
        slower = dict.fromkeys(Relation, 1.1) if side == "b" else None
        keep(tmp_path, place, side, host=host, slower=slower)
    comparisons = compare(tmp_path, SIDES, blocks="time")
    assert len(comparisons) == 3
    for comparison in comparisons:
        assert set(comparison.relations["verdict"]) == {"changed"}
        assert comparison.pairs.empty


@pytest.mark.long
def test_levels_are_matched_within_blocks_too(tmp_path: Path) -> None:
    """Two runs of twelve are at another level; B is 4 % slower."""
    for place, side in enumerate("abbabaababba"):
        level = 0.2 if place in (1, 7) else 1.0
        factor = 1.04 * level if side == "b" else level
        keep(tmp_path, place, side, slower=dict.fromkeys(Relation, factor))
    relations = compare_a_with_b(tmp_path, blocks="time").relations
    assert relations["ratio"].to_list() == pytest.approx([1.04, 1.04], abs=0.02)
    assert (relations["high"] < 1.1).all()
    assert (relations["levels"] == 2).all()


@pytest.mark.long
def test_what_varies_within_a_side_is_no_difference_between_the_sides(
    tmp_path: Path,
) -> None:
    for place, side in enumerate("abbaba"):
        keep(tmp_path, place, side, microcode="0x2c" if place == 0 else "0x2b")
    comparison = compare_a_with_b(tmp_path)
    environment = comparison.environment
    entries = dict(zip(environment["what"], environment["between"], strict=True))
    assert entries == {"microcode": False, "label.kernel": True}
    text = render_comparisons([comparison])
    between, within = text.split("What varies within a side")
    assert "microcode" in within
    assert "microcode" not in between


@pytest.mark.long
def test_several_sides_are_compared_host_by_host_also_where_a_host_lacks_the_benchmark(
    tmp_path: Path,
) -> None:
    for place, host, side in sides_of_hosts(("one", "two"), "abccbaabc"):
        is_other = host == "one" and side == "b"
        variant = "llsc" if is_other else None
        keep(tmp_path, place, side, host=host, variant=variant)
    results = compare(tmp_path, [*SIDES, "kernel=c"], only=Only("cas/cmpxchg"))
    assert [result.b.name for result in results] == [
        "two@kernel=b",
        "one@kernel=c",
        "two@kernel=c",
    ]
    words = "one: not compared: no latencies of cas/cmpxchg on both sides."
    assert words in render_comparisons(results)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (
            "Xeon 8370C",
            "another machine under the same name (Xeon 8370C, not EPYC 7763)",
        ),
        ("EPYC 7763", ""),
        (None, ""),
    ],
)
def test_another_machine_under_the_same_name_is_said_in_the_first_line(
    tmp_path: Path, model: str | None, words: str
) -> None:
    for place, side in enumerate("abba"):
        keep(tmp_path, place, side, cpu_model=model if side == "b" else "EPYC 7763")
    comparisons = compare(tmp_path, SIDES)
    first_line, *_ = "".join(render_comparisons(comparisons)).splitlines()
    assert words in first_line
    assert ("another machine" in first_line) is bool(words)


@pytest.mark.long
def test_other_machines_of_several_hosts_are_named_in_the_first_line(
    tmp_path: Path,
) -> None:
    for place, host, side in sides_of_hosts("xy", "abba"):
        is_other = host == "x" and side == "b"
        model = "Xeon" if is_other else "EPYC"
        keep(tmp_path, place, side, host=host, cpu_model=model)
    comparisons = compare(tmp_path, SIDES)
    first_line, *_ = "".join(render_comparisons(comparisons)).splitlines()
    assert "another machine under the same name: x," in first_line


def test_of_unlike_machines_three_facts_are_listed_and_the_others_counted(
    made_lab: Path, fleet_here: Callable[..., Done]
) -> None:
    root = ("-r", str(made_lab / "results"))
    text = fleet_here("compare", "pisa", "rome", *root).stdout
    listed = text.partition("What else differs\n")[2].partition("\n\n")[0]
    assert "cpu_model" in listed
    (result,) = fleet_here("compare", "pisa", "rome", "--json", *root).json
    between = [fact for fact in result["environment"] if fact["between"]]
    assert f"{len(between) - 3} more facts of unlike machines: --json" in listed
    assert sum(fact["what"] in listed for fact in between) == 3
