"""A plan: what to measure on one host."""

from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import TypeVar


class Pairs(StrEnum):
    """Which pairs a round visits. HALF: each once; rounds alternate which CPU is ping.
    ORDERED: both ways.
    """

    HALF = "half"
    ORDERED = "ordered"
    LISTED = "listed"
    PER_RELATION = "per-relation"


@dataclass(frozen=True, slots=True)
class PairChoice:
    """The requested pairs. listed: chosen by the user or fleet. per_relation: how many
    of each relation.
    """

    which: Pairs = Pairs.HALF
    listed: tuple[tuple[int, int], ...] = ()
    per_relation: int | None = None


class LinePolicy(StrEnum):
    """Which cache line a burst uses. FRESH: a new line for every burst. FIXED: one line
    for the whole run.
    """

    FRESH = "fresh"
    FIXED = "fixed"


class Order(StrEnum):
    """The order in which a round visits its pairs. The seed decides SHUFFLED."""

    SHUFFLED = "shuffled"
    SEQUENTIAL = "sequential"


class Side(StrEnum):
    """One of the two threads of a burst; PING holds the clock."""

    PING = "ping"
    PONG = "pong"


class Pages(StrEnum):
    """The pages that hold a benchmark's memory. HUGE is refused where there are
    none.
    """

    HUGE = "huge"
    BASE = "base"


class Preset(StrEnum):
    """Another tool whose scheme and estimator a run follows, so that its number can be
    reproduced.
    """

    CORE_LATENCY = "core_latency"
    CORE_TO_CORE_LATENCY = "core-to-core-latency"
    C2CLAT = "c2clat"


class Estimator(StrEnum):
    """How the samples of a pair become one number. MEDIAN: the middle of the medians of
    its bursts.
    """

    MEDIAN = "median"
    MEAN = "mean"
    MIN = "min"


@dataclass(frozen=True, slots=True)
class RequestedOptions:
    """Plan options (docs/options.md) that an inventory entry or a command line sets.
    None: not set.
    """

    benchmarks: tuple[str, ...] | None = None
    variant: str | None = None
    preset: Preset | None = None
    samples: int | None = None
    iterations: int | None = None
    warmup: int | None = None
    rounds: int | None = None
    precision: float | None = None  # 0: off
    time_budget_s: float | None = None
    spread_s: float | None = None
    pairs: PairChoice | None = None
    few_pairs: PairChoice | None = None
    order: Order | None = None
    line: LinePolicy | None = None
    owner: Side | None = None
    node: int | None = None
    nodes: str | None = None
    separation_bytes: int | None = None
    sizes: str | None = None
    stride_bytes: int | None = None
    pages: Pages | None = None
    operations: tuple[str, ...] | None = None
    threads: tuple[str, ...] | None = None
    load: str | None = None
    reads: tuple[int, ...] | None = None
    share: tuple[str, ...] | None = None
    states: tuple[str, ...] | None = None
    blocks: str | None = None
    message_lines: tuple[int, ...] | None = None
    shape: str | None = None
    # by name; in the plan of a host as the agent reads them
    counters: tuple[str, ...] | None = None
    governor: str | None = None
    boost: bool | None = None
    # a kind of core until the machine is known
    cpus: tuple[int, ...] | str | None = None
    seed: int | None = None
    priority: int | None = None
    deadline_s: int | None = None


@dataclass(frozen=True, slots=True)
class Plan(RequestedOptions):
    """What to measure on one host; recorded with the run. None: the preset's, else the
    agent's default.
    """

    benchmarks: tuple[str, ...] = ("cas", "readwrite")
    seed: int = 0
    deadline_s: int = 3600


Options = TypeVar("Options", bound=RequestedOptions)
_OPTIONS = tuple(part.name for part in fields(RequestedOptions))


def override_options(options: Options, over: RequestedOptions) -> Options:
    """Return a copy of `options` with the values that `over` sets."""
    requested = {}
    for name in _OPTIONS:
        value = getattr(over, name)
        if value is not None:
            requested[name] = value
    if not requested:
        return options
    return replace(options, **requested)
