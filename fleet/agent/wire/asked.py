"""Compares what an agent says with the plan it was sent, and with what the probe found
(docs/wire.md). Pure; for `conversation`.
"""

import shlex
from collections.abc import Iterable, Mapping

from fleet.agent.wire.records import (
    PlannedPoint,
    WireError,
    list_planned_points,
    quote_start,
)
from fleet.model import Benchmark, Facts, Hello, Pairs, Plan, Run, Shape, Target
from fleet.plan.benchmark_names import ALL, AUTO, find_requested_variant
from fleet.plan.cpulist import format_cpus
from fleet.plan.merge import cpus_to_measure, named_cpus

ROUNDS_FOR_PRECISION = 1000  # the most that a precision adds (agent/plan/make.c)
_32_BIT_ARCH = {"x86_64": "i386", "aarch64": "armv7"}
"""The 32-bit architecture whose programs a 64-bit host runs too."""
# numbers in the hello's plan, which are those of our plan where that has them
_NUMBERS = ("samples", "warmup", "iterations", "rounds")


def check_hello(run: Run, hello: Hello) -> None:
    """Raise WireError unless the hello is of the run's agent, machine and plan."""
    if hello.build != run.agent.build:
        raise WireError(
            f"{run.agent.path} is build {quote_start(hello.build)}, but"
            f" {run.agent.build} was put there. Somebody replaced it; inspect it, then"
            f" remove it: rm {shlex.quote(run.agent.path)}"
        )
    check_machine(run.facts, Target(hello.os, hello.arch), hello.cpus)
    _check_benchmarks_and_seed(run.plan, hello)
    _check_counters(run.plan, hello)
    _check_variants(run.plan, hello)
    _check_cpus(run.plan, hello)
    _check_pairs(run.plan, hello)
    _check_numbers(run.plan, hello)


def check_machine(
    facts: Facts, target: Target, cpus: Iterable[int], *, narrow: bool = False
) -> None:
    """Raise WireError if an agent is for another machine than the probe's, or has CPUs
    that the probe did not find. If the probe found none at all, any CPUs will do.

    target, cpus: what the agent says. narrow: whether to accept a 32-bit agent on a
    64-bit host, as for the output of a job, whose agent fleet did not choose.
    """
    arches = {facts.arch}
    if narrow:
        arches.add(_32_BIT_ARCH.get(facts.arch, facts.arch))
    # a test's agent that imitates another OS has a name such as "qnx-standin"
    is_same_os = target.os.removesuffix("-standin") == facts.target.os
    if not is_same_os or target.arch not in arches:
        target_text = quote_start(str(target))
        raise WireError(
            f"it is an agent for {target_text}, but the host is {facts.target}"
        )
    present = {cpu.cpu for cpu in facts.cpus}
    unknown = {*cpus} - present
    if present and unknown:
        raise WireError(
            f"it has CPU {format_cpus(unknown)}, but the probe found CPUs"
            f" {format_cpus(present)}. If some were added just now, run again"
        )


def _check_benchmarks_and_seed(plan: Plan, hello: Hello) -> None:
    """Raise WireError unless the hello has the plan's seed, and only benchmarks of the
    plan. The agent may leave out some of them.
    """
    agent_benchmarks = {name for name, _, _ in list_planned_points(hello)}
    unrequested = sorted(agent_benchmarks - {*plan.benchmarks})
    if unrequested:
        raise WireError(
            f"it measures {', '.join(unrequested)}, but was asked for"
            f" {', '.join(plan.benchmarks)}"
        )
    seed = hello.raw.get("seed")
    if seed != plan.seed:
        raise WireError(f"its seed is {seed}, but was asked for {plan.seed}")


def _check_counters(plan: Plan, hello: Hello) -> None:
    """Raise WireError unless the hello has the plan's counters, in any order. Where the
    plan has `NAME=CODE` for a counter, the hello has `NAME`.
    """
    requested = [event.partition("=")[0] for event in plan.counters or ()]
    if sorted(hello.counters) != sorted(requested):
        raise WireError(
            f"it counts {', '.join(hello.counters) or 'no events'}, but was asked for"
            f" {', '.join(requested) or 'none'}"
        )


def _check_variants(plan: Plan, hello: Hello) -> None:
    """Raise WireError unless the hello has the variants that the plan names. Where the
    plan says AUTO or ALL instead of a variant, the agent has chosen, so any is right.
    """
    for benchmark, variant, _ in list_planned_points(hello):
        requested = find_requested_variant(plan, benchmark)
        if requested not in (variant, AUTO, ALL):
            raise WireError(
                f"it measures {benchmark}/{variant}, but was asked for"
                f" {benchmark}/{requested}"
            )


def _check_cpus(plan: Plan, hello: Hello) -> None:
    """Raise WireError if the hello lacks CPUs that the plan needs. A plan that lists
    pairs needs the CPUs of these pairs; any other plan needs all CPUs that it names.

    If the plan has a list of CPUs, the hello must not have other CPUs either.
    """
    cpus_of_pairs = _list_paired_cpus(plan)
    listed_cpus = named_cpus(plan)
    agent_cpus = {*hello.cpus}
    needed_cpus = cpus_of_pairs or listed_cpus
    missing = needed_cpus - agent_cpus
    unrequested = set[int]()
    if plan.cpus:
        unrequested = agent_cpus - listed_cpus
    if missing or unrequested:
        # the message shows the list that the user wrote: that of CPUs, if there is one
        shown_cpus = listed_cpus or cpus_of_pairs
        raise WireError(
            f"it measures CPU {format_cpus(hello.cpus)}, but was asked for"
            f" {format_cpus(shown_cpus)}"
        )


def _list_paired_cpus(plan: Plan) -> frozenset[int]:
    """Return the CPUs of the listed pairs; an empty set if the plan lists no pairs. An
    agent may leave out all other CPUs.
    """
    if plan.pairs is None:
        return frozenset()
    return frozenset(cpu for pair in plan.pairs.listed for cpu in pair)


def _check_pairs(plan: Plan, hello: Hello) -> None:
    """Raise WireError unless the hello has the pairs that the plan asks for, and as
    many as the plan makes.
    """
    # a hello whose plan names no pairs stands for HALF
    agent_pairs = hello.raw["plan"].get("pairs") or Pairs.HALF
    # where our plan left the choice to the agent, what it chose is expected
    expected_pairs = _find_expected_pairs(plan, agent_pairs)
    if agent_pairs != expected_pairs:
        raise WireError(
            f"its pairs are {quote_start(agent_pairs)}, but was asked for"
            f" {expected_pairs}"
        )
    count = _count_pairs(plan, hello, expected_pairs)
    if hello.pairs != count:
        raise WireError(f"it counts {hello.pairs} pairs, and the plan has {count}")


def _find_expected_pairs(plan: Plan, agent_pairs: str) -> Pairs:
    """Return the pairs that a plan asks for. If the plan names no pairs, the agent's
    preset has chosen between HALF and ORDERED. So either is right, and what the agent
    says, `agent_pairs`, is returned.
    """
    if plan.pairs is None:
        return Pairs.ORDERED if agent_pairs == Pairs.ORDERED else Pairs.HALF
    if plan.pairs.listed:
        return Pairs.LISTED
    return plan.pairs.which


def _count_pairs(plan: Plan, hello: Hello, pairs: Pairs) -> int:
    """Return how many pairs a plan makes of the hello's N CPUs: N (N - 1) if A,B and
    B,A are two pairs, half as many if they are one, or as many as are listed.
    """
    if plan.pairs is not None and plan.pairs.listed:
        return len(plan.pairs.listed)
    cpu_count = len(hello.cpus)
    ordered_pairs = cpu_count * (cpu_count - 1)
    if pairs is Pairs.HALF:
        return ordered_pairs // 2
    return ordered_pairs


def _check_numbers(plan: Plan, hello: Hello) -> None:
    """Raise WireError unless the hello has the numbers of samples, rounds and so on
    that the plan names. None in the plan leaves the number to the agent.
    """
    for name in _NUMBERS:
        requested = getattr(plan, name)
        planned = hello.raw["plan"].get(name)
        if requested is not None and planned != requested:
            raise WireError(
                f"its plan has {name} {planned}, but was asked for {requested}"
            )


def count_visits_per_round(run: Run | None, hello: Hello) -> Mapping[PlannedPoint, int]:
    """Return the least number of visits that a round makes at each planned point. The
    number is 1 where only the agent knows it. If `run` is None, the plan that we sent
    is not known, and the number is 1 at all points.
    """
    visits = dict[PlannedPoint, int]()
    for point in list_planned_points(hello):
        benchmark_name, _, _ = point
        benchmark = hello.get_benchmark_or_shipped(benchmark_name)
        if run is None:
            visits[point] = 1
        else:
            visits[point] = _count_visits(run.plan, hello, benchmark)
    return visits


def _count_visits(plan: Plan, hello: Hello, benchmark: Benchmark) -> int:
    """Return how many visits a round makes at a point of a benchmark: as many as there
    are CPUs if a visit uses one CPU, as many as there are pairs if a visit uses two.
    For other shapes, only the agent knows the number, and 1 is returned. For benchmarks
    with many points, the plan may list fewer pairs.
    """
    if benchmark.shape is Shape.CPU:
        return len(hello.cpus)
    if benchmark.shape is not Shape.PAIR:
        return 1
    if benchmark.many_points and plan.few_pairs is not None:
        return len(plan.few_pairs.listed)
    return hello.pairs


def list_left_out(run: Run) -> list[str]:
    """List what was asked for and the agent's plan lacks: names of benchmarks, then the
    CPUs as one text, "CPU 4-7". If there is only one CPU to measure, benchmarks that
    need a second CPU are not listed. Without a hello, which holds the agent's plan,
    nothing is known to be left out.
    """
    if run.hello is None:
        return []
    left_out = _list_benchmarks_left_out(run, run.hello)
    cpus = _find_cpus_left_out(run, run.hello)
    if cpus:
        left_out.append(f"CPU {format_cpus(cpus)}")
    return left_out


def _list_benchmarks_left_out(run: Run, hello: Hello) -> list[str]:
    """List the plan's benchmarks that the hello lacks. If there is only one CPU to
    measure, only benchmarks that run on one CPU are listed.
    """
    agent_benchmarks = {name for name, _, _ in list_planned_points(hello)}
    left_out = [name for name in run.plan.benchmarks if name not in agent_benchmarks]
    cpus = cpus_to_measure(run.plan, run.facts) or hello.cpus
    has_second_cpu = len(cpus) > 1
    if has_second_cpu:
        return left_out
    return [name for name in left_out if _runs_on_one_cpu(name, hello)]


def _runs_on_one_cpu(name: str, hello: Hello) -> bool:
    benchmark = hello.get_benchmark_or_shipped(name)
    return benchmark.shape is Shape.CPU


def _find_cpus_left_out(run: Run, hello: Hello) -> frozenset[int]:
    """Return the CPUs that the agent was free to measure and does not. The set is empty
    if the plan lists pairs, and for the agent of a job's step, whose plan fleet did not
    make.
    """
    is_of_step = not run.agent.path
    if is_of_step or _list_paired_cpus(run.plan):
        return frozenset()
    return cpus_to_measure(run.plan, run.facts) - {*hello.cpus}
