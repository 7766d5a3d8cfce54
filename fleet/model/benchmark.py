"""What each benchmark counts and how many CPUs a visit takes: the one table of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Unit(StrEnum):
    """What one of a sample's iterations is."""

    ROUND_TRIP = "round_trip"
    READING = "reading"
    LOAD = "load"
    BYTE = "byte"


class Shape(StrEnum):
    """The CPUs of a visit: CPU is one, PAIR two, GROUP one or more that work at once."""

    CPU = "cpu"
    PAIR = "pair"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark.

    latencies: how many of them one unit contains; a round trip has two, one each way. heading: what its
    number is. in_all: whether `-b all` measures it. It has points if its visits take groups.
    """

    name: str
    unit: Unit
    shape: Shape
    heading: str
    latencies: int = 1
    in_all: bool = True

    @property
    def has_points(self) -> bool:
        """Whether it is measured at points: settings of its parameters."""
        return self.shape is Shape.GROUP


_ONE_WAY = "one-way latency in ns"
BENCHMARKS: Mapping[str, Benchmark] = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark("cas", Unit.ROUND_TRIP, Shape.PAIR, _ONE_WAY, latencies=2),
        Benchmark("readwrite", Unit.ROUND_TRIP, Shape.PAIR, _ONE_WAY, latencies=2),
        Benchmark("clock", Unit.READING, Shape.CPU, "cost of one clock reading in ns"),
        Benchmark("chase", Unit.LOAD, Shape.GROUP, "ns per load", in_all=False),
        Benchmark("bandwidth", Unit.BYTE, Shape.GROUP, "GB/s", in_all=False),
    )
}


def benchmark_named(name: str) -> Benchmark:
    """The benchmark of this name; one that a newer fleet measured counts as one of pairs."""
    return BENCHMARKS.get(name) or Benchmark(name, Unit.ROUND_TRIP, Shape.PAIR, _ONE_WAY, latencies=2)
