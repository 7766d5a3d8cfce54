"""Keeps a host's median of each relation during a run, in bounded memory; stored runs
are reduced anew.
"""

from array import array
from collections.abc import Collection
from math import nan
from statistics import median

from fleet.model import (
    Benchmark,
    Burst,
    Facts,
    Hello,
    Topology,
    View,
    relation_sort_key,
)

MOST = 512  # burst medians of a benchmark and relation that are kept
Medians = tuple[tuple[str, tuple[tuple[str, float], ...]], ...]
"""For each benchmark: its name, and its relations, the nearest first, each with its
median in ns.
"""


class _ThinnedValues:
    """An evenly spaced selection of at most MOST added values."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self._step = 1  # one of so many values is kept
        self._added_count = 0

    def add(self, value: float) -> None:
        """Add a value; of every `_step` values added, the first is kept. When more than
        MOST are kept, every second one of them is dropped, and `_step` doubles.
        """
        is_selected = self._added_count % self._step == 0
        self._added_count += 1
        if is_selected:
            self.values.append(value)
        if len(self.values) > MOST:
            self.values = self.values[::2]
            self._step *= 2


class LiveMedians:
    """The medians of a machine's bursts, updated as each burst comes. cpus: those that
    may be measured.

    latest: by benchmark a matrix of the pairs' last bursts, in ns or NaN. Its rows and
    columns are in the order of `cpus`, and one array holds it row by row. Any thread
    may read it.
    """

    def __init__(self, facts: Facts, cpus: Collection[int]) -> None:
        """Begin without bursts. cpus: the numbers of those that may be measured."""
        self.cpus = tuple(cpu for cpu in facts.cpus if cpu.cpu in cpus)
        # by benchmark: its matrix, row by row
        self.latest: dict[str, array[float]] = {}
        # by benchmark: what the numbers of `latest` are, "one-way latency in ns"
        self.labels: dict[str, str] = {}
        self._topology = Topology(facts.cpus, facts.core_kinds)
        # by benchmark, then by relation: the medians of the bursts in ns
        self._values: dict[str, dict[str, _ThinnedValues]] = {}
        # by CPU number: the CPU's row, and column, in a matrix
        self._places = {cpu.cpu: place for place, cpu in enumerate(self.cpus)}

    def add(self, burst: Burst, hello: Hello) -> None:
        """Add a burst. It is ignored unless its benchmark has one number for each CPU
        or pair, and the burst is at the point of the benchmark that tables show.
        """
        benchmark = hello.get_benchmark_or_shipped(burst.benchmark)
        has_one_number = benchmark.view in (View.MATRIX, View.CPUS)
        is_shown_point = burst.point in (None, benchmark.point)
        if not has_one_number or not is_shown_point:
            return
        ticks_by_sample = burst.average_pair_ticks(benchmark.shape)
        ticks = ticks_by_sample[burst.warmup :]  # the first samples only warm up
        if not ticks:
            return
        ns = _compute_latency_ns(median(ticks), burst, benchmark, hello)
        relation = self._topology.name_relation(burst.ping_cpu, burst.pong_cpu)
        values_by_relation = self._values.setdefault(burst.benchmark, {})
        values = values_by_relation.setdefault(relation, _ThinnedValues())
        values.add(ns)
        if benchmark.view is View.MATRIX:
            self.labels[burst.benchmark] = benchmark.label
            self._set_latest(burst, ns)

    def _set_latest(self, burst: Burst, ns: float) -> None:
        """Set the cells of the burst's pair, on both sides of the diagonal. One array
        holds the matrix of a benchmark, row by row.
        """
        size = len(self.cpus)
        if burst.benchmark not in self.latest:
            cell_count = size * size
            self.latest[burst.benchmark] = array("f", [nan]) * cell_count
        cells = self.latest[burst.benchmark]
        ping = self._places.get(burst.ping_cpu)
        pong = self._places.get(burst.pong_cpu)
        if ping is None or pong is None:
            return
        # row i begins at i * size
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


def _compute_latency_ns(
    ticks: float, burst: Burst, benchmark: Benchmark, hello: Hello
) -> float:
    """Convert the ticks of a sample to the ns of one latency: a sample repeats the
    benchmark `iterations` times, and one iteration takes `benchmark.latencies` of them,
    two for a round trip.
    """
    sample_ns = ticks * 1e9 / hello.ticks_per_second
    return sample_ns / burst.iterations / benchmark.latencies
