"""Print the sets of CPUs that are closest to each other, for `fleet show --closest`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.base.tables import Floats
from fleet.analysis.reduce import load
from fleet.analysis.reduce.closest import CpuSet, describe_set, find_closest_sets
from fleet.analysis.reduce.matrices import lay_out_matrix
from fleet.analysis.reduce.numbers import ALL, Only, load_pairs_and_cpus
from fleet.errors import UsageError
from fleet.model import Benchmark, Descriptions, View
from fleet.plan.cpulist import format_cpus
from fleet.store import RunSummary
from fleet.store.runs import Root
from fleet.text import as_document, format_count, one_line, table

_MAX_SETS = 8
_TITLES_OF_TEXT = ("CPUs", "best")


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The pairs of a run, as matrices of ns and of half intervals as shares."""

    ns: Floats
    half: Floats

    def format_half(self, item: CpuSet) -> str:
        """Format the interval of the slowest pair of a set."""
        return text.format_half_width(self.half[item.ping, item.pong])

    def find_limits(self, item: CpuSet) -> tuple[float, float]:
        """Return the interval of the slowest pair of a set. An interval that is unknown
        has no width.
        """
        half = np.nan_to_num(self.half[item.ping, item.pong])
        low_ns = item.slowest_ns * (1 - half)
        high_ns = item.slowest_ns * (1 + half)
        return low_ns, high_ns


@dataclass(frozen=True, slots=True)
class ClosestSets:
    """The closest sets of a host's last run, and how good they were in earlier ones."""

    run: RunSummary  # the last one
    choice: str  # benchmark and variant
    benchmark: Benchmark
    cpus: Sequence[int]  # by their places in the matrices of `numbers`
    numbers: _Numbers
    sets: Sequence[CpuSet]
    best: Sequence[bool]  # for each set, whether it cannot be told from the first
    earlier_runs: int
    runs_as_good: Sequence[int]  # for each set, of the earlier ones

    def list_cpus(self, item: CpuSet) -> list[int]:
        """Return the CPUs of a set."""
        return [self.cpus[place] for place in item.places]

    def find_slowest_pair(self, item: CpuSet) -> tuple[int, int]:
        """Return the CPUs of a set's slowest pair."""
        return self.cpus[item.ping], self.cpus[item.pong]


def load_closest_sets(
    root: Root, runs: Sequence[RunSummary], count: int, only: Only = ALL
) -> ClosestSets:
    """Find the closest sets of `count` CPUs in a host's last run. Count for each set
    the earlier runs in which it was as good as the best of these sets: the intervals of
    their slowest pairs met.

    runs: of one host, oldest first. Raises UsageError for several hosts, or if there
    are too few CPUs.
    """
    if len({run.host_id for run in runs}) > 1:
        raise UsageError("--closest: takes one host.")
    descriptions = load.merge_descriptions(runs)
    pairs = _load_matrices(root, runs, only, descriptions)
    of_last = pairs[pairs["run_id"] == runs[-1].run_id]
    cpus = _list_cpus(of_last, count)
    # if there are pairs of several benchmarks, the sets are of the first
    choice = load.name_benchmarks(of_last).iloc[0]
    pairs_of_choice = load.select_choice(pairs, choice)
    *earlier, last = _lay_out_runs(pairs_of_choice, runs, cpus)
    sets = find_closest_sets(last.ns, count)[:_MAX_SETS]
    if not sets:
        raise UsageError(f"--closest {count}: no {count} CPUs have all pairs measured.")
    return ClosestSets(
        run=runs[-1],
        choice=choice,
        benchmark=descriptions[choice.partition("/")[0]],
        cpus=cpus,
        numbers=last,
        sets=sets,
        best=_find_as_good(last, sets),
        earlier_runs=len(earlier),
        runs_as_good=_count_runs_as_good(earlier, sets),
    )


def render_closest_sets(closest: ClosestSets) -> str:
    """Render the closest sets, a row each, and explain the columns. If there are
    earlier runs, the column "before" says in how many of these each set was as good as
    the best.
    """
    count = len(closest.sets[0].places)
    host = closest.run.host_name
    title = f"{host}, {closest.choice}: the closest {count} CPUs, by their slowest pair"
    columns = _list_columns(closest)
    if closest.earlier_runs:
        columns["before"] = [
            f"{runs} of {closest.earlier_runs}" for runs in closest.runs_as_good
        ]
    titles = list(columns)
    rows = [*zip(*columns.values(), strict=True)]
    body = table(titles, rows, right=_find_number_columns(titles))
    explanations = _explain(closest.earlier_runs)
    return "\n".join([one_line(title), body, *explanations])


def _find_number_columns(titles: Sequence[str]) -> set[int]:
    """Return the places of the columns that have numbers, not text."""
    return {place for place, title in enumerate(titles) if title not in _TITLES_OF_TEXT}


def format_closest_sets(closest: ClosestSets) -> str:
    """Format the closest sets as the document of --json, a row each. `slowest_pair` has
    the two CPUs of the set's slowest pair, `slowest_ns` its number, and `spread` half
    the interval of that number, as a share; null if unknown.
    """
    benchmark, _, variant = closest.choice.partition("/")
    rows = []
    for place, cpu_set in enumerate(closest.sets):
        # `ping` and `pong` are places in the matrix, not CPUs
        half = float(closest.numbers.half[cpu_set.ping, cpu_set.pong])
        rows.append(
            {
                "host": closest.run.host_name,
                "run_id": closest.run.run_id,
                "benchmark": benchmark,
                "variant": variant,
                "cpus": closest.list_cpus(cpu_set),
                "slowest_pair": closest.find_slowest_pair(cpu_set),
                "slowest_ns": cpu_set.slowest_ns,
                "spread": None if np.isnan(half) else half,
                "best": closest.best[place],
                "runs_as_good": closest.runs_as_good[place],
                "earlier_runs": closest.earlier_runs,
            }
        )
    return as_document("closest", rows)


def _list_cpus(pairs: pd.DataFrame, count: int) -> list[int]:
    """List the CPUs of these pairs. Raises UsageError for fewer than `count`."""
    cpus = sorted({*pairs["ping_cpu"], *pairs["pong_cpu"]})
    if count > len(cpus):
        raise UsageError(
            f"--closest {count}: the last run has pairs of {len(cpus)} CPUs."
        )
    return cpus


def _load_matrices(
    root: Root, runs: Sequence[RunSummary], only: Only, descriptions: Descriptions
) -> pd.DataFrame:
    """Load the pairs of the benchmarks that have a matrix, without pairs whose cache
    line was placed on a NUMA node (`memory_node`).
    """
    every_pair, cpus = load_pairs_and_cpus(root, runs, descriptions)
    selected = only.select(every_pair, cpus)
    pairs = load.drop_points(selected, descriptions)
    views = load.get_views(pairs["benchmark"], descriptions)
    is_matrix = views == View.MATRIX
    is_not_placed = pairs["memory_node"].isna()
    return pairs[is_matrix & is_not_placed]


def _lay_out_runs(
    pairs: pd.DataFrame, runs: Sequence[RunSummary], cpus: Sequence[int]
) -> list[_Numbers]:
    """Return the numbers of each run as matrices, rows ping and columns pong, in the
    order of `cpus`: medians in ns, and half their intervals as shares; NaN where
    nothing was measured.
    """
    numbers = []
    for run in runs:
        own = pairs[pairs["run_id"] == run.run_id]
        ns = lay_out_matrix(own, cpus, "median_ns")
        half = lay_out_matrix(own, cpus, "spread")
        numbers.append(_Numbers(ns, half))
    return numbers


def _list_columns(closest: ClosestSets) -> dict[str, list[str]]:
    """List the cells of each column about the last run's sets."""
    slowest = [closest.find_slowest_pair(cpu_set) for cpu_set in closest.sets]
    return {
        "CPUs": [format_cpus(closest.list_cpus(cpu_set)) for cpu_set in closest.sets],
        "ns": [
            text.format_value(closest.benchmark, cpu_set.slowest_ns)
            for cpu_set in closest.sets
        ],
        "±95%": [closest.numbers.format_half(cpu_set) for cpu_set in closest.sets],
        "slowest pair": [f"{ping}-{pong}" for ping, pong in slowest],
        "best": ["yes" if best else "no" for best in closest.best],
    }


def _find_as_good(run: _Numbers, sets: Sequence[CpuSet]) -> list[bool]:
    """Report for each set whether it cannot be told from the best of them in a run: its
    interval begins below the end of that of the best.
    """
    sets_in_run = [describe_set(run.ns, cpu_set.places) for cpu_set in sets]
    best = min(sets_in_run, key=lambda cpu_set: cpu_set.slowest_ns)
    _, highest_ns_of_best = run.find_limits(best)
    are_as_good = []
    for cpu_set in sets_in_run:
        lowest_ns, _ = run.find_limits(cpu_set)
        are_as_good.append(bool(lowest_ns <= highest_ns_of_best))
    return are_as_good


def _count_runs_as_good(runs: Sequence[_Numbers], sets: Sequence[CpuSet]) -> list[int]:
    """Count for each set the runs in which it cannot be told from the best."""
    counts = [0] * len(sets)
    for run in runs:
        for place, is_good in enumerate(_find_as_good(run, sets)):
            counts[place] += is_good
    return counts


def _explain(earlier: int) -> Iterator[str]:
    yield "best: its interval reaches that of the first, so they cannot be told apart"
    if earlier:
        runs = format_count(earlier, "earlier run")
        yield f"before: in how many of {runs} it was best"
    yield "sets share no CPU; -c cores takes one CPU of each core"
