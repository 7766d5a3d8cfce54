"""Agents that lie in counts and facts: compared with what was asked of them and what
the probe found, refused at the line, and never a complete run.
"""

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fleet.agent.wire import asked
from fleet.agent.wire.conversation import OTHER_LIMIT_BYTES
from fleet.agent.wire.parts import RunSoFar, read_run
from fleet.errors import AgentError
from fleet.model import Cpu, Facts, PairChoice, Pairs, Plan, Run, RunState, Target
from fleet.session.events import State, ignore
from fleet.session.host_progress import HostProgress
from fleet.session.measurement import complete_run
from tests import builders, lies
from tests.agent.liar import RUN, SAID, Liar
from tests.agent.wire.test_conversation import line

Said = list[dict[str, Any]]


def say(records: Said) -> list[bytes]:
    return [line(record) for record in records]


def change_hello(**changes: Any) -> Callable[[Said], None]:
    return lambda records: records[0].update(changes)


def change_plan(**changes: Any) -> Callable[[Said], None]:
    return lambda records: records[0]["plan"].update(changes)


def change_bursts(**changes: Any) -> Callable[[Said], None]:
    def change(records: Said) -> None:
        for burst in records[1:-1]:
            burst.update(changes)

    return change


def keep_rounds(count: int) -> Callable[[Said], None]:
    """Say less, and count as much as is said."""

    def change(records: Said) -> None:
        del records[1 + count : -1]
        records[0]["bursts"] = records[-1]["bursts"] = count

    return change


def plan_more_points(records: Said) -> None:
    kinds = records[0]["plan"]["benchmarks"]
    kinds.append({"benchmark": "cas", "variant": "xchg"})


def plan_nothing(records: Said) -> None:
    records[0]["plan"]["benchmarks"] = []
    keep_rounds(0)(records)


def go_on_for_ever(records: Said) -> None:
    del records[-1]
    visit = records[-1]
    records += [visit | {"round": number} for number in range(3, 1002)]
    records[0]["bursts_max"] = 2**62


LIES: dict[str, tuple[Callable[[Said], None], str]] = {
    "another build": (change_hello(build="f" * 16), "Somebody replaced it"),
    "another architecture": (
        change_hello(arch="aarch64"),
        "an agent for 'linux-aarch64', but the host is linux-x86_64",
    ),
    "a narrow one": (change_hello(arch="i386"), "an agent for 'linux-i386'"),
    "another OS": (change_hello(os="qnx"), "an agent for 'qnx-x86_64'"),
    "CPUs that nobody has": (
        change_hello(cpus=[65534, 65535]),
        "has CPU 65534-65535, but the probe found CPUs 0-1",
    ),
    "thousands of CPUs": (
        change_hello(cpus=[*range(4096)]),
        "has CPU 2-4095, but the probe found CPUs 0-1",
    ),
    "another seed": (change_hello(seed=9), "its seed is 9, but was asked for 0"),
    "another benchmark": (
        change_plan(benchmarks=[{"benchmark": "clock", "variant": "tsc"}]),
        "it measures clock, but was asked for cas",
    ),
    "pairs that no plan has": (
        change_hello(pairs=2**63 - 1),
        "counts 9223372036854775807 pairs, and the plan has 1",
    ),
    "pairs of a list": (
        change_plan(pairs="listed"),
        "its pairs are 'listed', but was asked for half",
    ),
    "fewer rounds": (change_plan(rounds=1), "has rounds 1, but was asked for 3"),
    "no number of rounds": (change_plan(rounds=None), "has rounds None"),
    "more warm-ups": (change_plan(warmup=2), "has warmup 2, but was asked for 1"),
    "events": (
        change_hello(counters=[{"event": "cycles"}]),
        "counts cycles, but was asked for none",
    ),
    "warm-ups in a burst": (
        change_bursts(warmup=0),
        "0 warm-ups, and the plan has 1",
    ),
    "samples in a burst": (
        change_bursts(ticks=[300_000] * 9),
        "8 samples, and the plan has 2",
    ),
    "one sample": (change_bursts(ticks=[300_000] * 2), "1 samples, not 2"),
    "iterations": (change_bursts(iterations=2), "2 iterations, not 1000"),
    "a slow clock": (
        change_hello(ticks_per_second=1),
        r"it ended 800003 s after hello, but the agent was started \d s ago",
    ),
    "a late start": (
        change_bursts(start_ns=3600 * 10**9),
        r"it ended 3600 s after hello, but the agent was started \d s ago",
    ),
    "rounds without end": (go_on_for_ever, "round 1000, but a plan has at most 1000"),
    "a round less": (keep_rounds(2), "2 visits came, and 3 or more are planned"),
    "no burst": (keep_rounds(0), "0 of 1 planned visits of cas/cmpxchg came"),
    "no plan": (plan_nothing, "0 visits came, and 1 or more are planned"),
    "a variant that never comes": (
        plan_more_points,
        "0 of 1 planned visits of cas/xchg came in round 0",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_named_and_the_run_is_not_complete(lie: str, tmp_path: Path) -> None:
    change, words = LIES[lie]
    records = copy.deepcopy(SAID)
    change(records)
    liar = Liar(tmp_path)
    with pytest.raises(AgentError, match=words):
        liar.measure(RUN, say(records))
    progress = HostProgress(RUN.host, ignore)
    stored = complete_run(RUN, liar.read_journal(RUN), progress)
    assert stored.state is not RunState.COMPLETE


def test_an_honest_agent_is_believed(tmp_path: Path) -> None:
    liar = Liar(tmp_path)
    run = liar.measure(RUN, say(SAID))
    assert run.missing is None
    assert run.bursts == 3
    assert liar.read_journal(RUN).missing is None


@pytest.mark.parametrize(
    ("changes", "hello"),
    [
        ({"os": "linux", "arch": "armv7"}, {"arch": "armv7"}),
        ({"os": "qnx-standin", "arch": "x86_64"}, {"os": "qnx-standin"}),
        ({"cpus": ()}, {}),
        ({"cpus": (Cpu(0), Cpu(1), Cpu(2, online=False))}, {}),
        ({"cpus": (Cpu(0), Cpu(1), Cpu(2, online=False))}, {"cpus": [0, 2]}),
    ],
    ids=["32 bits", "an imitation", "no facts", "a part", "a CPU that came back"],
)
def test_honest_machines_of_each_kind_are_believed(
    changes: dict[str, Any], hello: dict[str, Any], tmp_path: Path
) -> None:
    """An agent of 32 bits is built for hosts whose programs have 32 bits."""
    facts = replace(RUN.facts, **changes)
    agent = replace(RUN.agent, target=facts.target)
    run = replace(RUN, facts=facts, agent=agent)
    records = copy.deepcopy(SAID)
    records[0].update(hello)
    last = records[0]["cpus"][-1]
    change_bursts(pong=last, pong_cpus=[last, last])(records)
    assert Liar(tmp_path).measure(run, say(records)).missing is None


def test_signs_of_life_without_end_are_refused_before_they_fill_the_disk(
    tmp_path: Path,
) -> None:
    alive = line({"record": "alive", "more": "x" * 100_000}).decode()
    (tmp_path / "hello").write_bytes(line(SAID[0]) + b"\n")
    liar = Liar(tmp_path)
    with pytest.raises(
        AgentError, match="more than 16 MiB of lines that are no visits"
    ):
        liar.measure_with(RUN, f"cat {tmp_path}/hello; yes '{alive}'")
    journal = [*tmp_path.rglob("stream.jsonl")]
    assert sum(path.stat().st_size for path in journal) < 2 * OTHER_LIMIT_BYTES


def drop_cas(records: Said) -> None:
    left = [record for record in records if record.get("benchmark") != "cas"]
    bursts = len(left) - 2
    left[0].update(bursts=bursts, bursts_max=bursts)
    left[-1].update(bursts=bursts)
    records[:] = left


def outcome_of(run: Run, run_state: RunSoFar) -> tuple[State, str]:
    progress = HostProgress(run.host, ignore)
    completed = complete_run(run, run_state, progress)
    outcome = progress.outcome_of_run(completed)
    return outcome.state, outcome.message


def test_a_benchmark_that_is_planned_and_never_comes_leaves_the_run_unfinished(
    tmp_path: Path,
) -> None:
    run = lies.make_asked_run("r20260102T030405Z-0badcafe", "rpi5")
    records = copy.deepcopy(lies.SAID)
    liar = Liar(tmp_path)
    assert liar.measure(run, say(records)).missing is None
    drop_cas(records)
    run = replace(run, run_id="r20260102T030405Z-1badcafe")
    with pytest.raises(AgentError, match="0 of 1 planned visits of cas/cmpxchg came"):
        liar.measure(run, say(records))
    state, _ = outcome_of(run, liar.read_journal(run))
    assert state is State.PARTIAL


def test_a_benchmark_that_the_agent_does_not_plan_is_named_and_the_run_partial() -> (
    None
):
    run = lies.make_asked_run("r20260102T030405Z-0badcafe", "rpi5")
    records = copy.deepcopy(lies.SAID)
    run_state = read_run([say(records)], requested=run)
    assert outcome_of(run, run_state) == (State.COMPLETE, "")
    drop_cas(records)
    plan = records[0]["plan"]
    plan["benchmarks"] = [
        kind for kind in plan["benchmarks"] if kind["benchmark"] != "cas"
    ]
    run_state = read_run([say(records)], requested=run)
    words = "rpi5: the agent left out cas; the others are stored."
    assert outcome_of(run, run_state) == (State.PARTIAL, words)


def test_what_needs_two_cpus_is_not_missed_where_there_is_one() -> None:
    one_cpu = Facts("linux", "x86_64", cpus=(Cpu(0),))
    two_cpus = replace(one_cpu, cpus=(Cpu(0), Cpu(1)))
    planned = {"plan": {"benchmarks": [{"benchmark": "chase", "variant": "mov"}]}}
    hello = replace(builders.a_run().hello, cpus=(0,), raw=planned)
    run = replace(RUN, plan=Plan(("cas", "chase")), facts=one_cpu, hello=hello)
    assert asked.list_left_out(run) == []
    with_clock = replace(run, plan=Plan(("cas", "clock")))
    assert asked.list_left_out(with_clock) == ["clock"]
    with_two_cpus = replace(run, facts=two_cpus)
    assert asked.list_left_out(with_two_cpus) == ["cas", "CPU 1"]


@pytest.mark.parametrize(
    ("requested", "measured", "words"),
    [
        (None, "xchg", None),
        ("all", "xchg", None),
        ("xchg", "xchg", None),
        ("cas=xchg", "xchg", None),
        ("cmpxchg", "xchg", "measures cas/xchg, but was asked for cas/cmpxchg"),
        ("cas=ttas", "xchg", "measures cas/xchg, but was asked for cas/ttas"),
    ],
)
def test_an_agent_measures_the_variant_that_was_asked_for(
    requested: str | None, measured: str, words: str | None, tmp_path: Path
) -> None:
    run = replace(RUN, plan=replace(RUN.plan, variant=requested))
    records = copy.deepcopy(SAID)
    change_plan(benchmarks=[{"benchmark": "cas", "variant": measured}])(records)
    change_bursts(variant=measured)(records)
    liar = Liar(tmp_path)
    if words is None:
        assert liar.measure(run, say(records)).missing is None
    else:
        with pytest.raises(AgentError, match=words):
            liar.measure(run, say(records))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cpus": (0, 1, 2)}, "measures CPU 0-1, but was asked for 0-2"),
        ({"cpus": (0,)}, "measures CPU 0-1, but was asked for 0"),
        (
            {"pairs": PairChoice(Pairs.LISTED, ((0, 2),))},
            "measures CPU 0-1, but was asked for 0,2",
        ),
        (
            {"pairs": PairChoice(Pairs.PER_RELATION, ((0, 2),), 1)},
            "measures CPU 0-1, but was asked for 0,2",
        ),
    ],
)
def test_an_agent_measures_the_cpus_that_were_asked_for(
    changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    facts = replace(RUN.facts, cpus=(Cpu(0), Cpu(1), Cpu(2)))
    plan = replace(RUN.plan, **changes)
    run = replace(RUN, plan=plan, facts=facts)
    with pytest.raises(AgentError, match=words):
        Liar(tmp_path).measure(run, say(SAID))


@pytest.mark.parametrize(
    ("plan", "cpu", "state"),
    [
        ({}, Cpu(2), State.PARTIAL),
        ({}, Cpu(2, allowed=False), State.COMPLETE),
        ({}, Cpu(2, online=False), State.COMPLETE),
        ({"cpus": (0, 1)}, Cpu(2), State.COMPLETE),
        (
            {"pairs": PairChoice(Pairs.LISTED, ((0, 1),))},
            Cpu(2),
            State.COMPLETE,
        ),
    ],
    ids=["free", "not allowed", "offline", "not asked for", "in no pair"],
)
def test_a_cpu_that_the_agent_was_free_to_measure_is_named(
    plan: dict[str, Any], cpu: Cpu, state: State
) -> None:
    facts = replace(RUN.facts, cpus=(Cpu(0), Cpu(1), cpu))
    run = replace(RUN, plan=replace(RUN.plan, **plan), facts=facts)
    records = copy.deepcopy(SAID)
    if "pairs" in plan:
        change_plan(pairs="listed")(records)
    run_state = read_run([say(records)], requested=run)
    words = f"{run.host.name}: the agent left out CPU 2; the others are stored."
    expected = words if state is State.PARTIAL else ""
    assert outcome_of(run, run_state) == (state, expected)


def test_a_steps_agent_may_be_narrow_but_not_of_another_machine() -> None:
    """Nobody but the user knows which agent a scheduler started."""
    facts = Facts("linux", "aarch64", cpus=(Cpu(0), Cpu(1)))
    cpus = (0, 1)
    asked.check_machine(facts, Target("linux", "armv7"), cpus, narrow=True)
    for arch, narrow in (("x86_64", True), ("i386", True), ("armv7", False)):
        target = Target("linux", arch)
        with pytest.raises(asked.WireError, match=f"an agent for 'linux-{arch}'"):
            asked.check_machine(facts, target, cpus, narrow=narrow)


def test_a_journal_of_a_lie_is_not_believed_later(tmp_path: Path) -> None:
    """A controller that died at the line has not refused it."""
    records = copy.deepcopy(SAID)
    change_hello(arch="aarch64")(records)
    lines = say(records)
    assert json.loads(lines[0])["arch"] == "aarch64"
    run_state = read_run([lines], requested=RUN)
    assert run_state.hello is None
    assert run_state.bursts == 0
    assert "an agent for" in (run_state.damage or "")
