"""The first screen of a report: the warnings of all runs, and each relation's median on each host."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fleet.analysis.report.read_runs import MANY_RUNS, Part, Reading
from fleet.analysis.views.warnings import ORDER
from fleet.model import Relation
from fleet.text import counted


@dataclass(frozen=True, slots=True)
class Affected:
    """A run that a warning applies to, and how much of the run."""

    reading: Reading
    extent: str = ""


@dataclass(frozen=True, slots=True)
class PageWarning:
    """A warning of one or more runs. key: as of `RunWarning`. affected: the runs; none: the whole page."""

    key: str
    text: str
    affected: tuple[Affected, ...] = ()


@dataclass(frozen=True, slots=True)
class RunMedians:
    """A row of the first table: by relation its row of `relations`, or None; its share of flagged bursts."""

    reading: Reading
    by_relation: tuple[dict[str, Any] | None, ...]
    flagged: float


@dataclass(frozen=True, slots=True)
class Table:
    """One benchmark and variant on every run that measured it."""

    kind: str
    heading: str
    of_cpus: bool
    relations: tuple[str, ...]
    runs: tuple[RunMedians, ...]


def warnings(readings: Sequence[Reading]) -> list[PageWarning]:
    """The warnings of the page, each once with the runs it applies to; those that do no harm are left out."""
    found: dict[tuple[str, str], list[Affected]] = {}
    for reading in readings:
        for one in reading.warnings:
            if not one.minor:
                affected = found.setdefault((one.key, one.text), [])
                affected.append(Affected(reading, one.extent))
    many = len(readings) > MANY_RUNS
    of_runs = [
        PageWarning(key, text, tuple(_by_host(affected, readings) if many else affected))
        for (key, text), affected in found.items()
    ]
    of_runs.sort(key=lambda one: ORDER.index(one.key))
    return [*_variants(readings), *_schemes(readings), *of_runs, *_one_run(readings)]


def _by_host(affected: Sequence[Affected], readings: Sequence[Reading]) -> Iterator[Affected]:
    """The hosts that a warning applies to, each by its last run, with how many of its runs."""
    hosts = [reading.run["host_id"] for reading in readings]
    last = {reading.run["host_id"]: reading for reading in readings}
    found = [one.reading.run["host_id"] for one in affected]
    for host in dict.fromkeys(found):
        yield Affected(last[host], f"{found.count(host)} of {counted(hosts.count(host), 'run')}")


def tables(readings: Sequence[Reading]) -> list[Table]:
    """A table per benchmark and variant, in the order of the plans; those of single CPUs last."""
    kinds = dict.fromkeys(part.name for reading in readings for part in reading.parts)
    found = [_table(kind, readings) for kind in kinds]
    return sorted(found, key=lambda table: table.of_cpus)


def _table(kind: str, readings: Sequence[Reading]) -> Table:
    measured = [(reading, part) for reading in readings for part in reading.parts if part.name == kind]
    present = {row["relation"] for _, part in measured for row in part.relations}
    relations = tuple(str(relation) for relation in Relation if str(relation) in present)
    runs = tuple(_medians(reading, part, relations) for reading, part in measured)
    return Table(kind, measured[0][1].heading, measured[0][1].of_cpus, relations, runs)


def _medians(reading: Reading, part: Part, relations: Sequence[str]) -> RunMedians:
    rows = {row["relation"]: row for row in part.relations}
    return RunMedians(reading, tuple(rows.get(relation) for relation in relations), part.flagged)


def _variants(readings: Sequence[Reading]) -> Iterator[PageWarning]:
    kinds = {part.name for reading in readings for part in reading.parts if not part.of_cpus}
    for benchmark in sorted({kind.partition("/")[0] for kind in kinds}):
        variants = sorted(kind.partition("/")[2] for kind in kinds if kind.partition("/")[0] == benchmark)
        if len(variants) > 1:
            listed = ", ".join(variants)
            yield PageWarning(
                "", f"{benchmark} used different instructions ({listed}); do not compare their latencies"
            )


def _schemes(readings: Sequence[Reading]) -> Iterator[PageWarning]:
    if len({reading.run["preset"] for reading in readings}) > 1:
        runs = (Affected(reading, reading.run["preset"]) for reading in readings if reading.run["preset"])
        yield PageWarning("", "runs used the sampling and estimator of another tool", tuple(runs))


def _one_run(readings: Sequence[Reading]) -> Iterator[PageWarning]:
    hosts = Counter(reading.run["host_id"] for reading in readings)
    once = tuple(Affected(reading) for reading in readings if hosts[reading.run["host_id"]] == 1)
    text = "the difference between runs is unknown, and ±95% does not include it"
    if len(once) == len(readings) > 1:
        yield PageWarning("", f"one run of each host: {text}")
    elif once:
        yield PageWarning("", f"one run only: {text}", once)
