"""Read a samples file in slices of whole pairs, so that memory is bounded by the pairs
of one CPU, not by the run.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from fleet.analysis.base.tables import to_pandas
from fleet.analysis.reduce import matrices
from fleet.analysis.reduce.bursts import SAMPLE_COLUMNS
from fleet.late import pc
from fleet.model import Descriptions
from fleet.store.reading import TableFile, Where, concat_tables

_PLACED_BY = ["benchmark", "relation", "ping_cpu", "pong_cpu"]


class _PairClass(NamedTuple):
    """The pairs of one relation, of a benchmark or of benchmarks visited together."""

    benchmarks: frozenset[str]
    relation: str


class _Slice(NamedTuple):
    """The pairs of a class whose lower CPU is in a range."""

    pair_class: _PairClass
    first_lower_cpu: int
    last_lower_cpu: int


def iter_slices(
    file: TableFile, where: Where, descriptions: Descriptions, slice_samples: int
) -> Iterator[Any]:
    """Yield the samples of a file in tables of about `slice_samples` samples each.

    Some benchmarks are measured together at one visit to a pair. No table divides a
    pair: a table has all samples of each of its pairs, of all benchmarks of its visits.
    """
    samples = file.count_samples()
    if samples <= slice_samples:
        yield file.read(SAMPLE_COLUMNS, where)
        return
    bursts_by_class = _count_bursts_by_class(file, where, descriptions)
    samples_per_burst = samples / file.rows
    slice_bursts = slice_samples / samples_per_burst
    for part in _plan_slices(bursts_by_class, slice_bursts):
        yield _read_slice(file, where, part)


def _count_bursts_by_class(
    file: TableFile, where: Where, descriptions: Descriptions
) -> dict[_PairClass, Counter[int]]:
    """Count the bursts of each class of pairs, by the lower CPU of the pair. A class is
    the pairs of one relation, of one benchmark or of benchmarks visited together.
    """
    bursts = _count_bursts(file, where)
    benchmarks = {benchmark for benchmark, _, _ in bursts}
    visited_together = _group_benchmarks(benchmarks, descriptions)
    bursts_by_class: dict[_PairClass, Counter[int]] = defaultdict(Counter)
    for (benchmark, relation, lower_cpu), count in bursts.items():
        pair_class = _PairClass(visited_together[benchmark], relation)
        bursts_by_class[pair_class][lower_cpu] += count
    return bursts_by_class


def _count_bursts(file: TableFile, where: Where) -> Counter[tuple[str, str, int]]:
    """Count bursts by benchmark, relation and the lower CPU of their pair. Read only
    the columns that tell these, not the samples.
    """
    bursts = Counter[tuple[str, str, int]]()
    for table in file.iter_tables(_PLACED_BY, where):
        rows = to_pandas(table)
        lower_cpus = rows[["ping_cpu", "pong_cpu"]].min(axis=1)
        keys = zip(rows["benchmark"], rows["relation"], lower_cpus, strict=True)
        bursts.update(keys)
    return bursts


def _group_benchmarks(
    names: Collection[str], descriptions: Descriptions
) -> dict[str, frozenset[str]]:
    """Return for each benchmark the benchmarks that a visit to a pair measures together
    with it, itself included.
    """
    visited_with_others = frozenset(
        name for name in names if matrices.is_visited_with_others(descriptions[name])
    )
    groups = {name: frozenset({name}) for name in names}
    for name in visited_with_others:
        groups[name] = visited_with_others
    return groups


def _plan_slices(
    counts: dict[_PairClass, Counter[int]], limit: float
) -> Iterator[_Slice]:
    """Plan slices of at most `limit` bursts; a CPU with more bursts is a slice of its
    own. counts: for each class of pairs, how many bursts each lower CPU has.
    """

    def get_order(pair_class: _PairClass) -> tuple[list[str], str]:
        return sorted(pair_class.benchmarks), pair_class.relation

    for pair_class in sorted(counts, key=get_order):
        for cpus in _split_cpus(counts[pair_class], limit):
            yield _Slice(pair_class, cpus[0], cpus[-1])


def _split_cpus(counts: Counter[int], limit: float) -> list[list[int]]:
    """Split CPUs, ascending, into groups of at most `limit` bursts; a CPU with more
    bursts is a group of its own. counts: how many bursts each CPU has. {0: 5, 1: 3,
    2: 9} with the limit 8 -> [[0, 1], [2]].
    """
    groups: list[list[int]] = []
    bursts_of_group = 0
    for cpu, count in sorted(counts.items()):
        bursts_of_group += count
        if groups and bursts_of_group <= limit:
            groups[-1].append(cpu)
        else:
            groups.append([cpu])
            bursts_of_group = count
    return groups


def _read_slice(file: TableFile, where: Where, part: _Slice) -> Any:
    """Read the samples of a slice as one table: of the pairs of its class whose lower
    CPU is in its range.
    """
    of_class = {
        **where,
        "benchmark": part.pair_class.benchmarks,
        "relation": {part.pair_class.relation},
    }
    tables = []
    for table in file.iter_tables(SAMPLE_COLUMNS, of_class):
        lower_cpu = pc.min_element_wise(
            table.column("ping_cpu"), table.column("pong_cpu")
        )
        is_from_first = pc.greater_equal(lower_cpu, part.first_lower_cpu)
        is_to_last = pc.less_equal(lower_cpu, part.last_lower_cpu)
        tables.append(table.filter(pc.and_(is_from_first, is_to_last)))
    return concat_tables(tables, "samples", SAMPLE_COLUMNS)
