"""A host's median of each relation so far, in bounded memory: to look at; what is stored is reduced anew."""

from array import array
from collections.abc import Collection
from math import nan
from statistics import median

from fleet.model import Burst, Facts, Hello, Relations, Topology, View, nearness

MOST = 512  # burst medians of a benchmark and relation that are kept
Medians = tuple[tuple[str, tuple[tuple[str, float], ...]], ...]
"""Of each benchmark its relations, the nearest first, with their medians in ns."""


class _Kept:
    """Values spread evenly over all that came: of too many every second goes, as of those that follow."""

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


class SoFar:
    """The medians of a machine's bursts, each one's added as it comes.

    cpus: those that are measured. latest: of each benchmark of pairs the last burst of each, in ns (NaN:
    none yet), row by row as `cpus`; it may be read while another thread adds. labels: what those numbers are.
    """

    def __init__(self, facts: Facts, cpus: Collection[int]) -> None:
        self.cpus = tuple(cpu for cpu in facts.cpus if cpu.cpu in cpus)
        self._relation = Relations(Topology(facts.cpus), facts.core_kinds)
        self._kept: dict[str, dict[str, _Kept]] = {}
        self._places = {cpu.cpu: place for place, cpu in enumerate(self.cpus)}
        self.latest: dict[str, array[float]] = {}
        self.labels: dict[str, str] = {}

    def add(self, burst: Burst, hello: Hello) -> None:
        """Take a burst of a benchmark with one number for each CPU or pair; others are left out."""
        known = hello.describe(burst.benchmark)
        one_number = known.view in (View.MATRIX, View.CPUS) and burst.point in (None, known.point)
        measured = burst.sample_ticks(known.shape)[burst.warmup :] if one_number else ()
        if not measured:
            return
        ns = median(measured) * 1e9 / hello.ticks_per_second / burst.iterations / known.latencies
        relations = self._kept.setdefault(burst.benchmark, {})
        relations.setdefault(self._relation(burst.ping_cpu, burst.pong_cpu), _Kept()).add(ns)
        if known.view is View.MATRIX:
            self.labels[burst.benchmark] = known.label
            self._place(burst, ns)

    def _place(self, burst: Burst, ns: float) -> None:
        """Put a burst's median where its pair stands, on both sides of the diagonal."""
        ends = [self._places.get(cpu) for cpu in (burst.ping_cpu, burst.pong_cpu)]
        size = len(self._places)
        if burst.benchmark not in self.latest:
            self.latest[burst.benchmark] = array("f", [nan]) * size**2
        cells = self.latest[burst.benchmark]
        for a, b in (ends, ends[::-1]):
            if a is not None and b is not None:
                cells[a * size + b] = ns

    def medians(self) -> Medians:
        """The medians of the burst medians that are kept; benchmarks by name."""
        return tuple(
            (benchmark, tuple((name, median(kept[name].values)) for name in sorted(kept, key=nearness)))
            for benchmark, kept in sorted(self._kept.items())
        )
