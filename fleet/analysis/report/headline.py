"""Build the first screen of a report: the warnings of all runs, and each relation's median on each host."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import pandas as pd

from fleet.analysis.compare.comparison import Tables
from fleet.analysis.compare.history import mark_usual
from fleet.analysis.reduce.comparison_rows import OVERVIEW, select_overview_rows, sort_overview
from fleet.analysis.reduce.matrices import estimator_column, reduce_by_relation
from fleet.analysis.report.read_runs import MANY_RUNS, Reading
from fleet.analysis.views.overview import Group, group_columns
from fleet.analysis.views.warnings import ORDER
from fleet.model import SHIPPED, Descriptions
from fleet.store.runs import Root
from fleet.text import format_count


class Affected(NamedTuple):
    """A run that a warning applies to, and how much of it."""

    reading: Reading
    extent: str = ""


class PageWarning(NamedTuple):
    """A warning of one or more runs. key: as in `RunWarning`. affected: the runs; none: the whole page."""

    key: str
    text: str
    affected: tuple[Affected, ...] = ()


def warnings(readings: Sequence[Reading]) -> list[PageWarning]:
    """Return the warnings of the page, each once with the runs it applies to, without harmless ones."""
    runs_by_warning: dict[tuple[str, str], list[Affected]] = {}
    for reading in readings:
        for warning in reading.warnings:
            if not warning.minor:
                affected = runs_by_warning.setdefault((warning.key, warning.text), [])
                affected.append(Affected(reading, warning.extent))
    many = len(readings) > MANY_RUNS
    of_runs = [
        PageWarning(key, text, tuple(_group_by_host(affected, readings) if many else affected))
        for (key, text), affected in runs_by_warning.items()
    ]
    of_runs.sort(key=lambda warning: ORDER.index(warning.key))
    return [*_variants(readings), *_schemes(readings), *of_runs, *_one_run(readings)]


def _group_by_host(affected: Sequence[Affected], readings: Sequence[Reading]) -> Iterator[Affected]:
    """Yield each affected host by its last run, with how many of its runs are affected."""
    hosts = [reading.run["host_id"] for reading in readings]
    last = {reading.run["host_id"]: reading for reading in readings}
    affected_hosts = [entry.reading.run["host_id"] for entry in affected]
    for host in dict.fromkeys(affected_hosts):
        yield Affected(
            last[host], f"{affected_hosts.count(host)} of {format_count(hosts.count(host), 'run')}"
        )


def read_overview(root: Root, readings: Sequence[Reading], tables: Tables) -> pd.DataFrame:
    """Return a row per run and overview cell, in the order of the runs, marked by `mark_usual`."""
    pairs = tables.pairs
    for reading in readings:
        if (number := estimator_column(reading.run)) != "median_ns":
            own = pairs["run_id"] == reading.run["run_id"]
            pairs = pairs.assign(median_ns=pairs["median_ns"].where(~own, pairs[number]))
    rows = sort_overview(
        reduce_by_relation(
            select_overview_rows(pairs, tables.cpus, tables.descriptions), ["run_id", *OVERVIEW]
        )
    )
    by_id = {reading.run["run_id"]: reading.run for reading in readings}
    for name in ("host_id", "host_name"):
        rows[name] = [by_id[run_id][name] for run_id in rows["run_id"]]
    place = rows["run_id"].map({run_id: place for place, run_id in enumerate(by_id)})
    return mark_usual(root, rows.iloc[place.argsort(kind="stable")])


def group_tables(table: pd.DataFrame, descriptions: Descriptions = SHIPPED) -> list[list[Group]]:
    """Group columns by the table they share; those of a single host share one if their names are equal."""
    shared: dict[object, list[Group]] = {}
    for group in group_columns(sort_overview(table), descriptions):
        shared.setdefault(
            tuple(group.columns) if table["host_id"].nunique() == 1 else group.title, []
        ).append(group)
    return list(shared.values())


def _variants(readings: Sequence[Reading]) -> Iterator[PageWarning]:
    kinds = sorted({part.name for reading in readings for part in reading.parts if not part.of_cpus})
    for benchmark, of_one in groupby(kinds, lambda kind: kind.partition("/")[0]):
        variants = [kind.partition("/")[2] for kind in of_one]
        if len(variants) > 1:
            text = f"used different instructions ({', '.join(variants)}); do not compare their latencies"
            yield PageWarning("", f"{benchmark} {text}")


def _schemes(readings: Sequence[Reading]) -> Iterator[PageWarning]:
    if len({reading.run["preset"] for reading in readings}) > 1:
        runs = (Affected(reading, reading.run["preset"]) for reading in readings if reading.run["preset"])
        yield PageWarning("", "runs used the sampling and estimator of another tool", tuple(runs))


def _one_run(readings: Sequence[Reading]) -> Iterator[PageWarning]:
    hosts = Counter(reading.run["host_id"] for reading in readings)
    single_runs = tuple(Affected(reading) for reading in readings if hosts[reading.run["host_id"]] == 1)
    text = "the difference between runs is unknown, and ±95% does not include it"
    if len(single_runs) == len(readings) > 1:
        yield PageWarning("", f"one run of each host: {text}")
    elif single_runs:
        yield PageWarning("", f"one run only: {text}", single_runs)
