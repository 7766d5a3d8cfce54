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
        is_selected = self._came % self._every == 0
        if is_selected:
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
        self.latest: dict[str, array[float]] = {}
        self.labels: dict[str, str] = {}  # what the numbers of `latest` are
        self._topology = Topology(facts.cpus, facts.core_kinds)
        # by benchmark and relation
        self._values: dict[str, dict[str, _ThinnedValues]] = {}
        self._places = {cpu.cpu: place for place, cpu in enumerate(self.cpus)}

    def add(self, burst: Burst, hello: Hello) -> None:
        """Add a burst; ignore it unless its benchmark and point have one number for
        each CPU or pair.
        """
        benchmark = hello.get_benchmark_or_shipped(burst.benchmark)
        has_number = benchmark.view in (View.MATRIX, View.CPUS)
        is_shown_point = burst.point in (None, benchmark.point)
        if not has_number or not is_shown_point:
            return
        ticks = burst.average_pair_ticks(benchmark.shape)[burst.warmup :]
        if not ticks:
            return
        sample_ns = median(ticks) * 1e9 / hello.ticks_per_second
        ns = sample_ns / burst.iterations / benchmark.latencies
        relation = self._topology.name_relation(burst.ping_cpu, burst.pong_cpu)
        values_by_relation = self._values.setdefault(burst.benchmark, {})
        values_by_relation.setdefault(relation, _ThinnedValues()).add(ns)
        if benchmark.view is View.MATRIX:
            self.labels[burst.benchmark] = benchmark.label
            self._set_latest(burst, ns)

    def _set_latest(self, burst: Burst, ns: float) -> None:
        """Set the cells of the burst's pair, on both sides of the diagonal."""
        size = len(self.cpus)
        if burst.benchmark not in self.latest:
            self.latest[burst.benchmark] = array("f", [nan]) * size**2
        cells = self.latest[burst.benchmark]
        ping = self._places.get(burst.ping_cpu)
        pong = self._places.get(burst.pong_cpu)
        if ping is not None and pong is not None:
            cells[ping * size + pong] = ns
            cells[pong * size + ping] = ns

    def compute_medians(self) -> Medians:
        """Return, for each benchmark, the median of each relation's burst medians."""
        medians = []
        for benchmark, values_by_relation in sorted(self._values.items()):
            relations = []
            for name in sorted(values_by_relation, key=relation_sort_key):
                values = values_by_relation[name].values
                relations.append((name, median(values)))
            medians.append((benchmark, tuple(relations)))
        return tuple(medians)
