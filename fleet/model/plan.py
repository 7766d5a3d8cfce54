"""A plan: what to measure on one host."""

from dataclasses import dataclass
from enum import StrEnum


class Pairs(StrEnum):
    """Which ordered pairs one round visits.

    HALF: each unordered pair once, the timing side changing from round to round. ORDERED: both ways.
    LISTED: the unordered pairs of a list. PER_RELATION: some pairs of each relation, chosen by the seed.
    """

    HALF = "half"
    ORDERED = "ordered"
    LISTED = "listed"
    PER_RELATION = "per-relation"


@dataclass(frozen=True, slots=True)
class PairChoice:
    """The pairs that were asked for; fleet/inventory/plan.py reads it as people write it.

    listed: of LISTED the pairs, each once; of PER_RELATION those chosen, once the host's topology is
    known. per_relation: how many of each relation, of PER_RELATION only.
    """

    which: Pairs = Pairs.HALF
    listed: tuple[tuple[int, int], ...] = ()
    per_relation: int | None = None


class LinePolicy(StrEnum):
    """FRESH: another line for every burst. FIXED: the same one for all bursts of a run."""

    FRESH = "fresh"
    FIXED = "fixed"


class Order(StrEnum):
    """In which order a round visits its pairs; SHUFFLED by the seed."""

    SHUFFLED = "shuffled"
    SEQUENTIAL = "sequential"


class Side(StrEnum):
    """One of the two threads of a burst; PING holds the clock."""

    PING = "ping"
    PONG = "pong"


class Preset(StrEnum):
    """Another tool whose scheme and estimator a run follows, so that its number can be reproduced."""

    CORE_LATENCY = "core_latency"
    CORE_TO_CORE_LATENCY = "core-to-core-latency"
    C2CLAT = "c2clat"


class Estimator(StrEnum):
    """How samples become the one number of a pair; MEDIAN is the median of its bursts' medians."""

    MEDIAN = "median"
    MEAN = "mean"
    MIN = "min"


@dataclass(frozen=True, slots=True)
class PlanWish:
    """What an inventory entry or the command line asks of a plan; None leaves it to the next one asked.

    The fields mean what they mean in `Plan`.
    """

    benchmarks: tuple[str, ...] | None = None
    variant: str | None = None
    preset: Preset | None = None
    samples: int | None = None
    iterations: int | None = None
    warmup: int | None = None
    rounds: int | None = None
    precision: float | None = None
    time_budget_s: float | None = None
    spread_s: float | None = None
    pairs: PairChoice | None = None
    order: Order | None = None
    line: LinePolicy | None = None
    owner: Side | None = None
    node: int | None = None
    separation_bytes: int | None = None
    huge_page: bool | None = None
    governor: str | None = None
    boost: bool | None = None
    cpus: tuple[int, ...] | None = None
    seed: int | None = None
    priority: int | None = None
    deadline_s: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure on one host; every field is recorded with the run.

    None: not asked for, so the preset's or else the agent's default; what that was stands in the hello.
    cpus: None means every CPU the agent may use.

    variant: a name, "auto", "all", or one per benchmark ("cas=lse,readwrite=ldar"). iterations: round
    trips in one sample. rounds: the least number; alone, without a precision, it is also the greatest.
    precision: share of the mean to which the 95 % interval of every pair shall be known, 0 for "off".
    time_budget_s: how long rounds may be added for it. spread_s: the least rounds take at least so long.
    owner: the thread that touches the lines first. node: NUMA node to place them on. separation_bytes:
    between the two lines of `readwrite`. governor, boost: set for the time of the run, then restored.
    priority: realtime priority to ask for. deadline_s: the agent ends itself then.
    """

    benchmarks: tuple[str, ...] = ("cas", "readwrite")
    variant: str | None = None
    preset: Preset | None = None
    samples: int | None = None
    iterations: int | None = None
    warmup: int | None = None
    rounds: int | None = None
    precision: float | None = None
    time_budget_s: float | None = None
    spread_s: float | None = None
    pairs: PairChoice | None = None
    order: Order | None = None
    line: LinePolicy | None = None
    owner: Side | None = None
    node: int | None = None
    separation_bytes: int | None = None
    huge_page: bool | None = None
    governor: str | None = None
    boost: bool | None = None
    cpus: tuple[int, ...] | None = None
    seed: int = 0
    priority: int | None = None
    deadline_s: int = 3600
