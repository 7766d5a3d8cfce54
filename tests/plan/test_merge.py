"""From what was asked to what an agent is told."""

import shlex
from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest

from fleet.agent.forecast import Forecast
from fleet.agent.measure import agent_command
from fleet.errors import UsageError
from fleet.model import (
    Agent,
    Cpu,
    Facts,
    Host,
    PairChoice,
    Pairs,
    Plan,
    Relation,
    RequestedOptions,
    Target,
    Topology,
    override_options,
)
from fleet.plan.cpulist import MAX_ARGUMENT_BYTES, format_pairs
from fleet.plan.forecast import Duration
from fleet.plan.grammars import PAIRS
from fleet.plan.merge import (
    merge_plan,
    merge_plan_with_facts,
    sample_pairs_per_relation,
)
from fleet.plan.options import BY_NAME, OPTIONS, parse_requested
from tests import builders

AGENT = Agent("/tmp/agent", "b1d5", Target("linux", "x86_64"), "on the host")
HOST = Host("board", "192.0.2.1")


def arguments(plan: Plan) -> dict[str, str]:
    """The options an agent would be given, as name and value."""
    command = (
        agent_command(AGENT, plan).removeprefix("echo; ").partition("; code=$?")[0]
    )
    words = [
        word.removeprefix("--").partition("=") for word in shlex.split(command)[1:]
    ]
    return {name: value for name, _, value in words}


def huge_server() -> tuple[Cpu, ...]:
    """4 packages of 128 cores with two siblings each: 1,024 CPUs, 24-core caches."""
    return tuple(
        Cpu(
            n,
            core=n % 512,
            llc=n % 512 // 16 * 16,
            package=n % 512 // 128 * 128,
            node=n % 512 // 128,
        )
        for n in range(1024)
    )


def test_what_nobody_asked_for_is_left_to_the_agent() -> None:
    options = arguments(Plan(seed=3, deadline_s=60))
    required = {"deadline": "60", "benchmark": "cas,readwrite", "seed": "3"}
    assert options == {"format": "jsonl", "until-eof": "", **required}
    assert arguments(Plan(rounds=7, seed=3, deadline_s=60)) == options | {"rounds": "7"}


def test_everything_asked_for_reaches_the_agent_and_a_preset_comes_first() -> None:
    words = """
        samples=5 iterations=200 warmup=0 rounds=3 precision=0.0001 time_budget_s=30.5 spread_s=0
        pairs=0-1,0-4 preset=c2clat order=sequential line=fixed owner=pong node=1 separation_bytes=128
        pages=huge governor=performance boost=off cpus=0,1,4 priority=10
    """
    texts = dict(word.split("=") for word in words.split())
    plan = override_options(
        Plan(deadline_s=60),
        parse_requested({"benchmarks": "cas/lse,readwrite", **texts}),
    )
    options = arguments(plan)
    assert list(options).index("preset") < list(options).index("samples")
    told_texts = {option.name: options.get(option.flag) for option in OPTIONS}
    assert {name: told_texts[name] for name in texts} == texts
    left = {
        "format": "jsonl",
        "until-eof": "",
        "deadline": "60",
        "seed": "0",
        "variant": "cas=lse",
    }
    rest = options.keys() - {BY_NAME[name].flag for name in texts}
    assert {name: options[name] for name in rest} == left | {
        "benchmark": "cas,readwrite"
    }
    assert arguments(Plan(precision=0.0))["precision"] == "off"
    assert arguments(Plan(pairs=PairChoice(Pairs.ORDERED)))["pairs"] == "ordered"


def test_benchmarks_of_the_command_line_replace_those_of_an_entry_with_their_variants() -> (
    None
):
    entry = RequestedOptions(benchmarks=("cas",), variant="cas=lse", rounds=3)
    host = Host("board", "192.0.2.1", plan=entry)
    assert merge_plan(host, RequestedOptions()).variant == "cas=lse"
    plan = merge_plan(host, parse_requested({"benchmarks": "readwrite/ldar"}))
    assert plan.benchmarks == ("readwrite",)
    assert plan.variant == "readwrite=ldar"
    plan = merge_plan(host, parse_requested({"benchmarks": "cas"}))
    assert plan.variant is None
    assert plan.rounds == 3


def test_some_pairs_of_each_relation_are_chosen_by_the_seed() -> None:
    facts = Facts("linux", "x86_64", cpus=builders.two_sockets())
    host = Host(
        "board", "192.0.2.1", plan=RequestedOptions(pairs=PAIRS.read("per-relation:3"))
    )
    plan = merge_plan_with_facts(host, RequestedOptions(seed=1), facts)
    assert plan.pairs is not None
    relation = Topology(facts.cpus).relation
    counts = Counter(relation(ping, pong) for ping, pong in plan.pairs.listed)
    assert counts == dict.fromkeys(
        (Relation.SMT, Relation.LLC, Relation.PACKAGE, Relation.SYSTEM), 3
    )
    assert (
        merge_plan_with_facts(host, RequestedOptions(seed=1), facts).pairs == plan.pairs
    )
    assert (
        merge_plan_with_facts(host, RequestedOptions(seed=2), facts).pairs != plan.pairs
    )
    assert arguments(plan)["pairs"] == format_pairs(plan.pairs.listed)


@pytest.mark.parametrize(
    ("named", "paired"), [(None, (0, 1, 2, 4)), ((0, 1, 3, 5), (0, 1, 3))]
)
def test_pairs_by_relation_are_of_usable_cpus_or_of_those_named(
    named: tuple[int, ...] | None, paired: tuple[int, ...]
) -> None:
    cpus = tuple(
        replace(cpu, allowed=cpu.cpu != 3, online=cpu.cpu < 5)
        for cpu in builders.small_desktop()
    )
    facts = Facts("linux", "x86_64", cpus=cpus)
    plan = merge_plan_with_facts(
        HOST, RequestedOptions(pairs=PAIRS.read("per-relation:100"), cpus=named), facts
    )
    assert plan.pairs is not None
    assert plan.pairs.listed == tuple(combinations(paired, 2))


@pytest.mark.slow
def test_a_machine_of_1024_cpus_is_sampled_in_seconds_and_evenly() -> None:
    facts = Facts("linux", "x86_64", cpus=huge_server())
    chosen = sample_pairs_per_relation(40, facts, set(range(1024)), seed=7)
    relation = Topology(facts.cpus).relation
    by_relation: dict[Relation, list[tuple[int, int]]] = {}
    for pair in chosen.listed:
        by_relation.setdefault(relation(*pair), []).append(pair)
    assert {name: len(pairs) for name, pairs in by_relation.items()} == dict.fromkeys(
        by_relation, 40
    )
    lower = [ping for ping, _ in by_relation[Relation.SYSTEM]]
    assert min(lower) < 128
    assert max(lower) > 512  # from all over the machine, not from its first CPUs


@pytest.mark.slow
def test_a_list_no_program_would_take_is_refused_in_words() -> None:
    facts = Facts("linux", "x86_64", cpus=huge_server())
    with pytest.raises(
        UsageError, match=r"per-relation:9000: \d+ pairs make a list of \d+ KiB"
    ):
        merge_plan_with_facts(
            HOST, RequestedOptions(pairs=PAIRS.read("per-relation:9000")), facts
        )
    assert len(format_pairs(combinations(range(100), 2))) < MAX_ARGUMENT_BYTES


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
def test_a_duration_is_told_in_the_unit_people_use(
    least_s: float, most_s: float, words: str
) -> None:
    assert str(Duration(least_s, most_s)) == words


@pytest.mark.parametrize(
    ("rounds", "first_ms", "told"),
    [(10, 95_000, True), (10, 9900, False), (1, 95_000, False)],
)
def test_when_a_long_first_round_ends_is_told(
    rounds: int, first_ms: int, told: bool
) -> None:
    forecast = Forecast(
        256,
        32640,
        0,
        65280,
        rounds,
        1,
        0,
        540_000,
        1_080_000,
        first_ms,
        6000,
        "much",
        1,
    )
    first = ", the first round 95 s" if told else ""
    assert (
        forecast.time_text
        == f"9 min to 18 min{first} (much, as the time budget allows)"
    )


def test_a_host_gets_a_seed_of_31_bits_of_its_own() -> None:
    seeds = {merge_plan(HOST, RequestedOptions()).seed for _ in range(200)}
    assert len(seeds) > 190
    assert 1 << 30 < max(seeds) < 1 << 31
    assert merge_plan(HOST, RequestedOptions(seed=5)).seed == 5


@pytest.mark.parametrize("count", [1, 2, 27, 28, 100])
def test_of_each_relation_so_many_pairs_are_chosen_or_all_there_are(count: int) -> None:
    facts = Facts("linux", "x86_64", cpus=builders.small_desktop())
    chosen = sample_pairs_per_relation(count, facts, set(range(8)), seed=3)
    relation = Topology(facts.cpus).relation
    counts = Counter(relation(ping, pong) for ping, pong in chosen.listed)
    assert counts == {Relation.SMT: min(count, 4), Relation.PACKAGE: min(count, 24)}
    assert list(chosen.listed) == sorted(set(chosen.listed))
    assert chosen.which == Pairs.PER_RELATION
    assert chosen.per_relation == count


@pytest.mark.long
def test_every_pair_of_a_relation_is_chosen_equally_often() -> None:
    facts = Facts("linux", "x86_64", cpus=builders.small_desktop())
    times = Counter(
        pair
        for seed in range(2400)
        for pair in sample_pairs_per_relation(2, facts, set(range(8)), seed).listed
        if pair[1] - pair[0] != 4
    )
    assert len(times) == 24
    # 200 expected, five times the deviation
    assert all(150 < count < 250 for count in times.values())
