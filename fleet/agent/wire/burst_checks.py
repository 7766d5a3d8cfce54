"""Refuses a burst that contradicts the hello, the plan or what a CPU can do. Pure."""

from collections.abc import Sequence
from statistics import median

from fleet.agent.wire.records import WireError
from fleet.model import Burst, Hello, Plan
from fleet.text import format_count

# No CPU reads a clock or hands a line over in less; it would be shown as 0.0.
_MIN_NS = 0.1


def check_sampling_of_hello(burst: Burst, hello: Hello) -> None:
    """Raise WireError if the burst has other warm-ups, or more samples, than the plan
    in its hello. A benchmark may take fewer samples than the plan has.
    """
    planned = hello.raw["plan"]
    samples = len(burst.ticks) - burst.warmup
    planned_samples = planned.get("samples") or samples
    if planned.get("warmup") not in (None, burst.warmup):
        raise WireError(
            f"burst: {burst.warmup} warm-ups, and the plan has {planned['warmup']}"
        )
    if samples > planned_samples:
        raise WireError(f"burst: {samples} samples, and the plan has {planned_samples}")


def check_sampling_of_plan(burst: Burst, plan: Plan) -> None:
    """Raise WireError if the burst has other samples or iterations than we asked for. A
    burst with a point has as many iterations as its point needs.
    """
    samples = len(burst.ticks) - burst.warmup
    if plan.samples not in (None, samples):
        raise WireError(f"burst: {samples} samples, not {plan.samples}")
    if burst.point is None and plan.iterations not in (None, burst.iterations):
        raise WireError(f"burst: {burst.iterations} iterations, not {plan.iterations}")


def check_latency(burst: Burst, hello: Hello, unit: str) -> None:
    """Raise WireError if an iteration took less time than a CPU can take. unit: the
    benchmark's word for an iteration.
    """
    ticks = median(burst.ticks[burst.warmup :])
    ns = ticks * 1e9 / hello.ticks_per_second / burst.iterations
    if ns < _MIN_NS:
        raise WireError(f"burst: {ns:.2g} ns a {unit}, less than a CPU can take")


def check_counters(
    burst: Burst, counters: Sequence[Sequence[object]], events: int
) -> None:
    """Raise WireError unless each of the burst's threads has a count of each event."""
    cpus = burst.cpus or {burst.ping_cpu, burst.pong_cpu}
    threads = len(cpus)
    lengths = [len(counts) for counts in counters]
    if lengths != [events] * threads:
        lists = format_count(threads, "list")
        counts = format_count(events, "count")
        raise WireError(f"burst: counters must be {lists} of {counts}")
