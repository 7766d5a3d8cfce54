"""Keeps a host's median of each relation during a run, in bounded memory; stored runs
are reduced anew.
"""

from array import array
from collections.abc import Collection
from math import nan
from statistics import median

from fleet.model import Burst, Facts, Hello, Topology, View, relation_sort_key

MOST = 512  # burst medians of a benchmark and relation that are kept
Medians = tuple[tuple[str, tuple[tuple[str, float], ...]], ...]
"""For each benchmark: its name, and its relations, the nearest first, each with its
median in ns.
"""


class _ThinnedValues:
    """An evenly spaced selection of at most MOST added values. When full, it drops
    every second value.
    """

    def __init__(self) -> None:
        self.values: list[float] = []
        self._every = 1
        self._came = 0

    def add(self, value: float) -> None:
        if self._came % self._every == 0:
            self.values.append(value)
        if len(self.values) > MOST:
            self.values = self.values[::2]
            self._every *= 2
        self._came += 1


class LiveMedians:
    """The medians of a machine's bursts, updated as each burst comes. cpus: those that
    may be measured.

    latest: by benchmark, pairs' last bursts in ns or NaN, row by row in `cpus` order.
    Any thread may read it.
    """

    def __init__(self, facts: Facts, cpus: Collection[int]) -> None:
        self.cpus = tuple(cpu for cpu in facts.cpus if cpu.cpu in cpus)
        self._topology = Topology(facts.cpus, facts.core_kinds)
        self._values: dict[str, dict[str, _ThinnedValues]] = {}
        self._places = {cpu.cpu: place for place, cpu in enumerate(self.cpus)}
        self.latest: dict[str, array[float]] = {}
        self.labels: dict[str, str] = {}  # what the numbers of `latest` are

    def add(self, burst: Burst, hello: Hello) -> None:
        """Add a burst; ignore it unless its benchmark and point have one number for
        each CPU or pair.
        """
        benchmark = hello.get_benchmark_or_shipped(burst.benchmark)
        one_number = benchmark.view in (View.MATRIX, View.CPUS) and burst.point in (
            None,
            benchmark.point,
        )
        measured = (
            burst.average_pair_ticks(benchmark.shape)[burst.warmup :]
            if one_number
            else ()
        )
        if not measured:
            return
        ns = (
            median(measured)
            * 1e9
            / hello.ticks_per_second
            / burst.iterations
            / benchmark.latencies
        )
        relations = self._values.setdefault(burst.benchmark, {})
        relation = self._topology.name_relation(burst.ping_cpu, burst.pong_cpu)
        relations.setdefault(relation, _ThinnedValues()).add(ns)
        if benchmark.view is View.MATRIX:
            self.labels[burst.benchmark] = benchmark.label
            size = len(self._places)
            if burst.benchmark not in self.latest:
                self.latest[burst.benchmark] = array("f", [nan]) * size**2
            cells = self.latest[burst.benchmark]
            ends = [self._places.get(cpu) for cpu in (burst.ping_cpu, burst.pong_cpu)]
            for a, b in (ends, ends[::-1]):  # both sides of the diagonal
                if a is not None and b is not None:
                    cells[a * size + b] = ns

    def compute_medians(self) -> Medians:
        """Return, for each benchmark, the median of each relation's burst medians."""
        medians = []
        for benchmark, samples in sorted(self._values.items()):
            names = sorted(samples, key=relation_sort_key)
            medians.append(
                (
                    benchmark,
                    tuple((name, median(samples[name].values)) for name in names),
                )
            )
        return tuple(medians)
