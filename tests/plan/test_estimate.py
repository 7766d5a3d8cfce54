"""From what was asked to what an agent is told, and how long that takes."""

import shlex
from collections import Counter
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

from fleet.agent.measure import agent_command
from fleet.console.summary import plans_text
from fleet.errors import UsageError
from fleet.model import (
    Agent,
    Cpu,
    Facts,
    Host,
    LinePolicy,
    Order,
    PairChoice,
    Pairs,
    Plan,
    Preset,
    Relation,
    RequestedOptions,
    Side,
    Target,
    Topology,
)
from fleet.plan import estimate
from fleet.plan.cpulist import MAX_ARGUMENT_BYTES, pairs_text
from fleet.plan.estimate import expected, per_relation, plan_for, plan_on
from fleet.plan.kinds import PAIRS
from tests import builders

AGENT = Agent("/tmp/agent", "b1d5", Target("linux", "x86_64"), "on the host")
HOST = Host("board", "192.0.2.1")


def arguments(plan: Plan) -> dict[str, str]:
    """The options an agent would be given, as name and value."""
    command = agent_command(AGENT, plan).removeprefix("echo; ").removesuffix("; code=$?\nexit $code")
    words = [word.removeprefix("--").partition("=") for word in shlex.split(command)[1:]]
    return {name: value for name, _, value in words}


def huge_server() -> tuple[Cpu, ...]:
    """4 packages of 128 cores with two siblings each: 1,024 CPUs, 24-core caches."""
    return tuple(
        Cpu(n, core=n % 512, llc=n % 512 // 16 * 16, package=n % 512 // 128 * 128, node=n % 512 // 128)
        for n in range(1024)
    )


def test_what_nobody_asked_for_is_left_to_the_agent() -> None:
    told = arguments(Plan(seed=3, deadline_s=60))
    assert told == {
        "format": "jsonl",
        "until-eof": "",
        "deadline": "60",
        "benchmark": "cas,readwrite",
        "seed": "3",
    }


def test_rounds_alone_are_passed_on_alone() -> None:
    assert arguments(Plan(rounds=7))["rounds"] == "7"
    assert "precision" not in arguments(Plan(rounds=7))


def test_everything_asked_for_reaches_the_agent_and_a_preset_comes_first() -> None:
    plan = Plan(
        variant="lse",
        preset=Preset.C2CLAT,
        samples=5,
        iterations=200,
        warmup=0,
        rounds=3,
        precision=0.0001,
        time_budget_s=30.5,
        spread_s=0,
        pairs=PairChoice(Pairs.LISTED, ((0, 1), (0, 4))),
        order=Order.SEQUENTIAL,
        line=LinePolicy.FIXED,
        owner=Side.PONG,
        node=1,
        separation_bytes=128,
        huge_page=True,
        governor="performance",
        boost=False,
        cpus=(0, 1, 4),
        priority=10,
    )
    told = arguments(plan)
    names = list(told)
    assert names.index("preset") < names.index("samples")
    assert told | {"seed": "", "deadline": ""} == {
        "format": "jsonl",
        "until-eof": "",
        "deadline": "",
        "seed": "",
        "preset": "c2clat",
        "benchmark": "cas,readwrite",
        "variant": "cas=lse",
        "samples": "5",
        "iterations": "200",
        "warmup": "0",
        "rounds": "3",
        "precision": "0.0001",
        "time-budget": "30.5",
        "spread": "0",
        "pairs": "0-1,0-4",
        "order": "sequential",
        "line": "fixed",
        "owner": "pong",
        "node": "1",
        "sep": "128",
        "huge-page": "",
        "governor": "performance",
        "boost": "off",
        "cpus": "0,1,4",
        "priority": "10",
    }
    assert arguments(Plan(precision=0.0))["precision"] == "off"
    assert arguments(Plan(pairs=PairChoice(Pairs.ORDERED)))["pairs"] == "ordered"


def test_some_pairs_of_each_relation_are_chosen_by_the_seed() -> None:
    facts = Facts("linux", "x86_64", cpus=builders.two_sockets())
    host = Host("board", "192.0.2.1", plan=RequestedOptions(pairs=PAIRS.read("per-relation:3")))
    plan = plan_on(host, RequestedOptions(seed=1), facts)
    assert plan.pairs is not None
    relation = Topology(facts.cpus).relation
    counts = Counter(relation(one, other) for one, other in plan.pairs.listed)
    assert counts == dict.fromkeys((Relation.SMT, Relation.LLC, Relation.PACKAGE, Relation.SYSTEM), 3)
    assert plan_on(host, RequestedOptions(seed=1), facts).pairs == plan.pairs
    assert plan_on(host, RequestedOptions(seed=2), facts).pairs != plan.pairs
    assert arguments(plan)["pairs"] == pairs_text(plan.pairs.listed)


def test_pairs_by_relation_are_of_usable_cpus_only() -> None:
    cpus = tuple(replace(cpu, allowed=cpu.cpu != 3, online=cpu.cpu != 5) for cpu in builders.small_desktop())
    facts = Facts("linux", "x86_64", cpus=cpus)
    requested = RequestedOptions(pairs=PAIRS.read("per-relation:100"), cpus=(0, 1, 2, 3, 4, 5))
    plan = plan_on(HOST, requested, facts)
    assert plan.pairs is not None
    assert plan.pairs.listed == tuple(combinations((0, 1, 2, 4), 2))


def test_a_machine_of_1024_cpus_is_sampled_in_seconds_and_evenly() -> None:
    facts = Facts("linux", "x86_64", cpus=huge_server())
    chosen = per_relation(40, facts, set(range(1024)), seed=7)
    relation = Topology(facts.cpus).relation
    by_relation: dict[Relation, list[tuple[int, int]]] = {}
    for pair in chosen.listed:
        by_relation.setdefault(relation(*pair), []).append(pair)
    assert {name: len(pairs) for name, pairs in by_relation.items()} == dict.fromkeys(by_relation, 40)
    lower = [one for one, _ in by_relation[Relation.SYSTEM]]
    assert min(lower) < 128
    assert max(lower) > 512  # from all over the machine, not from its first CPUs


@pytest.mark.slow
def test_a_list_no_program_would_take_is_refused_in_words() -> None:
    facts = Facts("linux", "x86_64", cpus=huge_server())
    with pytest.raises(UsageError, match=r"per-relation:9000: \d+ pairs make a list of \d+ KiB"):
        plan_on(HOST, RequestedOptions(pairs=PAIRS.read("per-relation:9000")), facts)
    assert len(pairs_text(combinations(range(100), 2))) < MAX_ARGUMENT_BYTES


@pytest.mark.parametrize(
    ("requested", "cpus", "least_s", "most_s"),
    [
        (RequestedOptions(), 2, 5, 20),
        (RequestedOptions(rounds=10), 2, 0, 1),
        (RequestedOptions(rounds=10, precision=0.01), 2, 0, 20),
        (RequestedOptions(precision=0.0), 2, 5, 5),
        (RequestedOptions(spread_s=30.0), 2, 30, 60),
        (RequestedOptions(time_budget_s=100.0), 2, 5, 100),
        (RequestedOptions(), 128, 200, 700),
        (RequestedOptions(preset=Preset.CORE_LATENCY), 128, 3600, 48 * 3600),
        (RequestedOptions(pairs=PAIRS.read("per-relation:5")), 1024, 5, 60),
    ],
)
def test_how_long_it_takes_is_known_before(
    requested: RequestedOptions, cpus: int, least_s: float, most_s: float
) -> None:
    duration = expected(plan_on(HOST, requested, Facts("linux", "x86_64", cpus=())), cpus)
    assert least_s <= duration.least_s <= duration.most_s <= most_s


def test_a_dry_run_says_how_long_it_would_take() -> None:
    text = plans_text([HOST], RequestedOptions(cpus=(0, 1)))
    assert "10 rounds or more, over 5 s, until ±1%" in text
    assert "Measuring takes about 5 s to 20 s." in text
    assert "64 CPUs" in plans_text([HOST], RequestedOptions())
    assert "as c2clat does" in plans_text([HOST], RequestedOptions(preset=Preset.C2CLAT))


def one(**options: Any) -> Plan:
    """A plan of one benchmark."""
    return Plan(**{"benchmarks": ("cas",), **options})


@pytest.mark.parametrize(
    ("plan", "cpus", "least_s", "most_s"),
    [
        # 6 pairs and 10 rounds of bursts of 0.5 ms and 11 samples of 0.1 ms, spread over 5 s
        (one(), 4, 5.0, 20.0),
        (one(spread_s=0.0), 4, 60 * 0.0016, 20.0),
        (one(rounds=10), 4, 60 * 0.0016, None),
        (one(rounds=3), 4, 18 * 0.0016, None),
        (one(benchmarks=("clock",), rounds=10), 4, 40 * 0.0016, None),
        (one(benchmarks=("cas", "clock"), rounds=1), 4, 10 * 0.0016, None),
        (one(pairs=PairChoice(Pairs.ORDERED), rounds=1), 4, 12 * 0.0016, None),
        (one(pairs=PairChoice(Pairs.LISTED, ((0, 1), (0, 4))), rounds=1), 64, 2 * 0.0016, None),
        (
            one(pairs=PairChoice(Pairs.PER_RELATION, per_relation=1), rounds=1),
            64,
            len(Relation) * 0.0016,
            None,
        ),
        (one(pairs=PairChoice(Pairs.PER_RELATION, per_relation=50), rounds=1), 4, 6 * 0.0016, None),
        (one(samples=99, rounds=1), 2, 0.0105, None),
        (one(samples=100, warmup=0, rounds=1), 2, 0.0105, None),
        (one(iterations=1000, rounds=1), 2, 0.0005 + 11 * 0.0002, None),
        # Another tool's scheme: one round of its own number of samples, and no precision to reach
        (one(preset=Preset.CORE_LATENCY), 4, 12 * (0.0005 + 500 * 0.0008), None),
        (one(preset=Preset.CORE_TO_CORE_LATENCY), 4, 6 * (0.0005 + 301 * 0.0002), None),
        (one(preset=Preset.C2CLAT), 4, 6 * (0.0005 + 1000 * 0.00002), None),
        (one(preset=Preset.C2CLAT, rounds=2, samples=10, warmup=5), 4, 12 * (0.0005 + 15 * 0.00002), None),
        # Until a precision, which takes the time budget at most: 20 s, or twice what the rounds take
        (one(spread_s=15.0), 4, 15.0, 30.0),
        (one(spread_s=9.0), 4, 9.0, 20.0),
        (one(time_budget_s=8.0), 4, 4.0, 8.0),
        (one(time_budget_s=3.0), 4, 1.5, 3.0),
        (one(rounds=10, precision=0.01), 4, 60 * 0.0016, 20.0),
        (one(precision=0.0), 4, 5.0, None),
        (one(spread_s=0.0), 64, 2016 * 10 * 0.0016, 2 * 2016 * 10 * 0.0016),
    ],
)
def test_the_estimate_is_rounds_times_visits_times_a_burst(
    plan: Plan, cpus: int, least_s: float, most_s: float | None
) -> None:
    duration = expected(plan, cpus)
    assert duration.least_s == pytest.approx(least_s)
    assert duration.most_s == pytest.approx(most_s or least_s)


@pytest.mark.parametrize(
    ("plan", "cpus", "found", "least_s"),
    [
        # 2,016 pairs of 1.6 ms are 3.2 s a round
        (one(time_budget_s=10.0), 64, 3, 3 * 2016 * 0.0016),
        (one(time_budget_s=3.3), 64, 1, 2016 * 0.0016),
        (one(time_budget_s=1.0), 64, 1, 2016 * 0.0016),
        (one(time_budget_s=60.0), 64, 10, 10 * 2016 * 0.0016),
        (one(time_budget_s=10.0, rounds=5, precision=0.01), 64, 5, 5 * 2016 * 0.0016),
    ],
)
def test_a_time_budget_leaves_room_for_so_many_rounds(
    plan: Plan, cpus: int, found: int, least_s: float
) -> None:
    assert estimate.rounds(plan, cpus) == found
    assert expected(plan, cpus).least_s == pytest.approx(least_s)
    assert estimate.bursts(plan, cpus) == found * 2016
    said = estimate.rounds_text(plan, cpus)
    assert said == (f" ({found} of 10 rounds, as the time budget allows)" if found in (1, 3) else "")


@pytest.mark.parametrize(
    ("budget_s", "options", "points", "text"),
    [
        # 14 sizes in three orders; 6 of them are the ends of levels, and one is memory
        (60.0, {}, 42, ""),
        (8.0, {}, 21, " (8 of 10 rounds, plateaus only, as the time budget allows)"),
        (3.0, {}, 18, " (8 of 10 rounds, plateaus of the caches only, as the time budget allows)"),
        (3.0, {"rounds": 10, "precision": 0.01}, 42, ""),
        (3.0, {"sizes": "16K..64K"}, 15, ""),
    ],
)
def test_a_short_time_budget_leaves_out_sizes_that_are_no_plateau(
    budget_s: float, options: dict[str, Any], points: int, text: str
) -> None:
    plan = one(benchmarks=("chase",), time_budget_s=budget_s, **options)
    assert estimate.points(plan, 2) == points
    assert estimate.rounds_text(plan, 2) == text


def test_a_time_budget_below_one_round_is_refused_before_deploying() -> None:
    facts = Facts("linux", "x86_64", cpus=huge_server())
    requested = RequestedOptions(benchmarks=("cas",), time_budget_s=60.0)
    words = (
        r"board: one round of 523,776 bursts takes about 14 min, more than --time-budget 1m allows\. Set a"
    )
    for refuse in (estimate.check_host, plan_on):
        with pytest.raises(UsageError, match=words):
            refuse(HOST, requested, facts)
    plan_on(HOST, replace(requested, pairs=PAIRS.read("per-relation:8")), facts)
    plan_on(HOST, replace(requested, rounds=1, precision=0.01), facts)
    estimate.check_host(HOST, requested, replace(facts, cpus=()))


def test_a_dry_run_answers_as_a_run_does() -> None:
    requested = RequestedOptions(benchmarks=("cas",), time_budget_s=10.0)
    text = plans_text([HOST], requested)
    assert "64 CPUs: 10 s (3 of 10 rounds, as the time budget allows)" in text
    assert (
        "256 CPUs: refused: one round of 32,640 bursts takes about 52 s, more than --time-budget 10s" in text
    )
    named = replace(requested, cpus=tuple(range(256)))
    for refuse in (plans_text, estimate.check_named_cpus):
        with pytest.raises(UsageError, match="board: one round of 32,640 bursts"):
            refuse([HOST], named)


@pytest.mark.parametrize(
    ("plan", "pairs", "bursts"),
    [
        (one(), 6, 60),
        (one(benchmarks=("cas", "clock"), rounds=3), 6, 30),
        (one(preset=Preset.CORE_LATENCY), 12, 12),
        (one(preset=Preset.C2CLAT, rounds=5), 6, 30),
        (one(preset=Preset.CORE_LATENCY, pairs=PairChoice(Pairs.HALF)), 6, 6),
    ],
)
def test_pairs_and_bursts_of_a_plan_are_counted(plan: Plan, pairs: int, bursts: int) -> None:
    assert (estimate.pairs(plan, 4), estimate.bursts(plan, 4)) == (pairs, bursts)


@pytest.mark.parametrize(
    ("least_s", "most_s", "words"),
    [
        (0.0, 0.94, "under 1 s"),
        (0.0, 0.96, "under 1 s to 1 s"),
        (0.95, 20.0, "1 s to 20 s"),
        (119.4, 119.6, "119 s to 120 s"),
        (119.4, 120.0, "119 s to 2 min"),
        (150.0, 7199.0, "2 min to 120 min"),
        (7200.0, 9000.0, "2.0 h to 2.5 h"),
        (30.0, 30.4, "30 s"),
    ],
)
def test_a_duration_is_told_in_the_unit_people_use(least_s: float, most_s: float, words: str) -> None:
    assert str(estimate.Duration(least_s, most_s)) == words


def test_a_deadline_nobody_asked_for_is_ten_minutes_and_five_times_the_estimate() -> None:
    assert plan_for(HOST, RequestedOptions(rounds=1), 4).deadline_s == 600
    assert plan_for(HOST, RequestedOptions(), 4).deadline_s == 600 + 5 * 20
    assert plan_for(HOST, RequestedOptions(spread_s=50.0), 4).deadline_s == 600 + 5 * 100
    assert plan_for(HOST, RequestedOptions(cpus=(0, 1), spread_s=0.0), 1024).deadline_s == 600 + 5 * 20
    assert plan_for(HOST, RequestedOptions(deadline_s=7), 4).deadline_s == 7


def test_a_host_gets_a_seed_of_31_bits_of_its_own() -> None:
    seeds = {plan_for(HOST, RequestedOptions(), 4).seed for _ in range(200)}
    assert len(seeds) > 190
    assert 1 << 30 < max(seeds) < 1 << 31
    assert plan_for(HOST, RequestedOptions(seed=5), 4).seed == 5


@pytest.mark.parametrize("count", [1, 2, 27, 28, 100])
def test_of_each_relation_so_many_pairs_are_chosen_or_all_there_are(count: int) -> None:
    facts = Facts("linux", "x86_64", cpus=builders.small_desktop())
    chosen = per_relation(count, facts, set(range(8)), seed=3)
    relation = Topology(facts.cpus).relation
    counts = Counter(relation(one, other) for one, other in chosen.listed)
    assert counts == {Relation.SMT: min(count, 4), Relation.PACKAGE: min(count, 24)}
    assert list(chosen.listed) == sorted(set(chosen.listed))
    assert (chosen.which, chosen.per_relation) == (Pairs.PER_RELATION, count)


def test_every_pair_of_a_relation_is_chosen_equally_often() -> None:
    facts = Facts("linux", "x86_64", cpus=builders.small_desktop())
    times = Counter(
        pair
        for seed in range(2400)
        for pair in per_relation(2, facts, set(range(8)), seed).listed
        if pair[1] - pair[0] != 4
    )
    assert len(times) == 24
    assert all(150 < count < 250 for count in times.values())  # 200 expected, five times the deviation
