"""A run: what an agent sent, burst by burst, and what explains its numbers years
later.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from fleet.model.benchmark import SHIPPED, Benchmark, Shape
from fleet.model.host import Host, Target
from fleet.model.machine import Facts, Load
from fleet.model.plan import Estimator, Plan

# begins the note of an agent that says how long it will measure; no warning
FORECAST = "Expected:"
Count = tuple[int, int, int]
"""An event's raw count in one thread; for how many ns it was enabled, and for how many
counted.
"""


class RunState(StrEnum):
    """COMPLETE: has every planned burst. PARTIAL: some failed or are missing.
    UNFINISHED: only a journal.
    """

    COMPLETE = "complete"
    PARTIAL = "partial"
    UNFINISHED = "unfinished"


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent on a host: its path there, its build ID, and where it was built, as a
    phrase.
    """

    path: str
    build: str
    target: Target
    place: str


@dataclass(frozen=True, slots=True)
class Hello:
    """The agent's first record (docs/wire.md), decoded; raw: the whole JSON object,
    kept with the run.
    """

    build: str
    os: str
    arch: str
    clock: str
    ticks_per_second: int
    pairs: int
    bursts: int
    cpus: tuple[int, ...]
    raw: Mapping[str, Any]
    bursts_max: int = 0
    precision: float | None = None
    preset: str | None = None
    estimator: Estimator = Estimator.MEDIAN
    counters: tuple[str, ...] = ()
    benchmarks: Mapping[str, Benchmark] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bursts_max", max(self.bursts, self.bursts_max))

    def get_benchmark_or_shipped(self, name: str) -> Benchmark:
        """Return the agent's own description of a benchmark, else this version's."""
        return self.benchmarks.get(name) or SHIPPED[name]


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a point; None for those that its benchmark lacks
    (docs/tables.md).
    """

    bytes: int | None = None
    stride_bytes: int | None = None
    block_bytes: int | None = None
    operation: str | None = None
    state: str | None = None
    order: str | None = None
    sharing: str | None = None
    pages: str | None = None
    load_mbps: int | None = None
    load_bytes: int | None = None
    load_variant: str | None = None
    memory_node: int | None = None
    load_node: int | None = None
    threads: int | None = None


@dataclass(frozen=True, slots=True)
class Burst:
    """The few samples of one pair taken at one visit (docs/tables.md)."""

    benchmark: str
    variant: str
    round: int
    ping_cpu: int
    pong_cpu: int
    iterations: int
    warmup: int
    ticks: tuple[int, ...]
    start_offset_ns: int  # since the hello
    ping_cpus: tuple[int, int]
    pong_cpus: tuple[int, int]
    switches: tuple[int, int, int, int] | None
    line_page: int | None = None
    line_offset: int | None = None
    line_node: int | None = None
    line_physical: int | None = None
    ran_ppm: tuple[int, int] | None = None
    steal_ppm: tuple[int, int] | None = None
    point: str | None = None
    unit: str | None = None
    parameters: Parameters | None = None
    # of all threads at once, as `other_ticks` and `begin_ns`
    cpus: tuple[int, ...] | None = None
    other_ticks: tuple[tuple[int, ...], ...] | None = None
    other_units: tuple[tuple[int, ...], ...] | None = None  # of all but ping
    core_mhz: tuple[int, int] | None = None
    sample_mhz: int | None = None
    checked: bool | None = None
    begin_ns: tuple[int, ...] | None = None
    # for each of `cpus`, of each of the hello's
    counters: tuple[tuple[Count | None, ...], ...] | None = None
    attempt: int = 0  # how many bursts of this visit were disturbed before
    flags: tuple[str, ...] = ()

    def average_pair_ticks(self, shape: Shape) -> Sequence[float]:
        """Return the ticks of each sample; if both threads of a pair take times, the
        mean of their ticks.
        """
        if not self.other_ticks or shape is not Shape.PAIR:
            return self.ticks
        (pong_ticks,) = self.other_ticks
        ticks_of_both = zip(self.ticks, pong_ticks, strict=True)
        return [(ping + pong) / 2 for ping, pong in ticks_of_both]


@dataclass(frozen=True, slots=True)
class Failed:
    """A burst that gave no number, and why. disturbed: by other work, so that it may be
    taken again; it has its raw samples if it was taken to its end.
    """

    benchmark: str
    variant: str
    round: int
    ping_cpu: int
    pong_cpu: int
    reason: str
    point: str | None = None
    parameters: Parameters | None = None
    given_up: str | None = None
    """If the burst killed its agent, what is given up: `point`, `variant`, or `memory`
    (all with as much).
    """
    attempt: int = 0  # as of a Burst
    disturbed: bool = False
    iterations: int | None = None
    ticks: tuple[int, ...] | None = None
    other_ticks: tuple[tuple[int, ...], ...] | None = None
    other_units: tuple[tuple[int, ...], ...] | None = None
    again: bool = False  # it was taken again


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence from the agent for people: a refused priority, a coarse clock, ..."""

    text: str


@dataclass(frozen=True, slots=True)
class End:
    """The agent's last record (docs/wire.md). reason: why it ended. reached: the
    precision, as a share.
    """

    bursts: int
    failed: int
    reason: str
    converged: int | None = None
    unconverged: int | None = None
    reached: float | None = None
    again: int = 0  # of the bursts, also failed ones: those taken again

    @property
    def out_of_time(self) -> bool:
        """Whether the time budget cut the first round; such a run is stored in part."""
        return self.reason == "time budget"


@dataclass(frozen=True, slots=True)
class Run:
    """One plan on one host at one time. started_utc, ended_utc: ISO 8601 with Z, the
    controller's clock.
    """

    run_id: str
    session_id: str
    host: Host
    plan: Plan
    facts: Facts
    agent: Agent
    started_utc: str
    hello: Hello | None = None
    end: End | None = None
    ended_utc: str | None = None
    state: RunState = RunState.UNFINISHED
    failed: tuple[Failed, ...] = ()
    notes: tuple[str, ...] = ()
    load_after: Load = field(default_factory=Load)
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    fleet_version: str = ""

    @property
    def missing(self) -> tuple[Failed, ...]:
        """Return the failed bursts that were not taken again."""
        return tuple(failed for failed in self.failed if not failed.again)
