"""What each benchmark counts and how many CPUs a visit takes: the one table of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Unit(StrEnum):
    """What one of a sample's iterations is."""

    ROUND_TRIP = "round_trip"
    READING = "reading"
    MESSAGE = "message"
    LINE = "line"
    LOAD = "load"
    BYTE = "byte"
    OPERATION = "operation"


class Shape(StrEnum):
    """The CPUs of a visit: CPU is one, PAIR two, GROUP one or more that work at once."""

    CPU = "cpu"
    PAIR = "pair"
    GROUP = "group"


class View(StrEnum):
    """How its numbers are shown.

    MATRIX: a number for each pair; CPUS: one for each CPU; LADDER: by size; STATES: by the state of lines;
    BLOCKS: by the size of blocks; PRODUCTS: by what is multiplied.
    """

    MATRIX = "matrix"
    CPUS = "cpus"
    LADDER = "ladder"
    PRODUCTS = "products"
    STATES = "states"
    BLOCKS = "blocks"


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark.

    latencies: how many of them one unit contains; a round trip has two, one each way. heading: what its
    number is. samples: in a burst, if no number is requested. point: of several points the one whose number
    stands for the pair in matrices and comparisons; None: it has no points, or none stands for the others.
    many_points: so many for each pair that, if no pairs are requested, only few are visited.
    """

    name: str
    unit: Unit
    shape: Shape
    view: View
    heading: str
    latencies: int = 1
    samples: int = 10
    point: str | None = None
    many_points: bool = False


_ONE_WAY = "one-way latency in ns"
BENCHMARKS: Mapping[str, Benchmark] = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark("cas", Unit.ROUND_TRIP, Shape.PAIR, View.MATRIX, _ONE_WAY, latencies=2),
        Benchmark("readwrite", Unit.ROUND_TRIP, Shape.PAIR, View.MATRIX, _ONE_WAY, latencies=2),
        Benchmark("clock", Unit.READING, Shape.CPU, View.CPUS, "cost of one clock reading in ns"),
        Benchmark(
            *("message", Unit.MESSAGE, Shape.PAIR, View.MATRIX),
            heading="latency of a message in ns, mean of both directions",
            samples=5,
            point="x1",
        ),
        Benchmark(*("fetch", Unit.LINE, Shape.PAIR, View.STATES, "ns per line"), samples=5, many_points=True),
        Benchmark("chase", Unit.LOAD, Shape.GROUP, View.LADDER, "ns per load", samples=5),
        Benchmark("bandwidth", Unit.BYTE, Shape.GROUP, View.LADDER, "GB/s", samples=5),
        Benchmark("gemm", Unit.OPERATION, Shape.GROUP, View.PRODUCTS, "Gop/s", samples=5),
        Benchmark(
            *("interleave", Unit.LINE, Shape.PAIR, View.BLOCKS, "ns per line"), samples=5, many_points=True
        ),
    )
}


def benchmark_named(name: str) -> Benchmark:
    """The benchmark of this name; one that a newer fleet measured counts as one of pairs."""
    known = BENCHMARKS.get(name)
    return known or Benchmark(name, Unit.ROUND_TRIP, Shape.PAIR, View.MATRIX, _ONE_WAY, latencies=2)
