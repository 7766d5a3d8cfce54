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


class _Class(NamedTuple):
    """Pairs of one relation, of a benchmark or of benchmarks visited together."""

    benchmarks: frozenset[str]
    relation: str


class _Slice(NamedTuple):
    """The pairs of a class whose lower CPU is from `first` to `last`."""

    pairs: _Class
    first: int
    last: int


def iter_slices(
    file: TableFile, where: Where, descriptions: Descriptions, slice_samples: int
) -> Iterator[Any]:
    """Yield a samples file in tables of about `slice_samples`; never divide a pair."""
    samples = file.count_samples()
    if samples <= slice_samples:
        yield file.read(SAMPLE_COLUMNS, where)
        return
    bursts_by_class = _count_bursts_by_class(file, where, descriptions)
    samples_a_burst = samples / file.rows
    for part in _plan_slices(bursts_by_class, slice_samples / samples_a_burst):
        yield _read_slice(file, where, part)


def _count_bursts_by_class(
    file: TableFile, where: Where, descriptions: Descriptions
) -> dict[_Class, Counter[int]]:
    """Count the bursts by class and the lower CPU of their pair; read only the small
    columns.
    """
    bursts: Counter[tuple[str, str, int]] = Counter()
    for table in file.iter_tables(_PLACED_BY, where):
        rows = to_pandas(table)
        lower_cpus = rows[["ping_cpu", "pong_cpu"]].min(axis=1)
        keys = zip(rows["benchmark"], rows["relation"], lower_cpus, strict=True)
        bursts.update(keys)

    sets_by_benchmark = _group_benchmarks({name for name, _, _ in bursts}, descriptions)
    bursts_by_class: dict[_Class, Counter[int]] = defaultdict(Counter)
    for (benchmark, relation, lower_cpu), count in bursts.items():
        pairs = _Class(sets_by_benchmark[benchmark], relation)
        bursts_by_class[pairs][lower_cpu] += count
    return bursts_by_class


def _group_benchmarks(
    names: Collection[str], descriptions: Descriptions
) -> dict[str, frozenset[str]]:
    """Return for each benchmark those visited together with it, and itself."""
    together = frozenset(
        name for name in names if matrices.is_visited_with_others(descriptions[name])
    )
    sets_by_benchmark = {name: frozenset({name}) for name in names}
    return sets_by_benchmark | dict.fromkeys(together, together)


def _plan_slices(counts: dict[_Class, Counter[int]], limit: float) -> Iterator[_Slice]:
    """Plan slices of at most `limit` bursts, or of one CPU with more."""
    classes = sorted(
        counts, key=lambda pairs: (sorted(pairs.benchmarks), pairs.relation)
    )
    for pairs in classes:
        for cpus in _split_cpus(counts[pairs], limit):
            yield _Slice(pairs, first=cpus[0], last=cpus[-1])


def _split_cpus(counts: Counter[int], limit: float) -> list[list[int]]:
    """Split CPUs, ascending, into groups of at most `limit` bursts, or of one CPU with
    more. counts: each CPU's bursts.
    """
    groups: list[list[int]] = []
    bursts = 0
    for cpu, count in sorted(counts.items()):
        bursts += count
        if groups and bursts <= limit:
            groups[-1].append(cpu)
        else:
            groups.append([cpu])
            bursts = count
    return groups


def _read_slice(file: TableFile, where: Where, part: _Slice) -> Any:
    inside = {
        **where,
        "benchmark": part.pairs.benchmarks,
        "relation": {part.pairs.relation},
    }
    tables = []
    for table in file.iter_tables(SAMPLE_COLUMNS, inside):
        lower = pc.min_element_wise(table.column("ping_cpu"), table.column("pong_cpu"))
        is_from_first = pc.greater_equal(lower, part.first)
        is_to_last = pc.less_equal(lower, part.last)
        tables.append(table.filter(pc.and_(is_from_first, is_to_last)))
    return concat_tables(tables, "samples", SAMPLE_COLUMNS)
