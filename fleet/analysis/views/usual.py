"""Load what number each host has. All that shows or exports numbers of hosts asks here.

A host's number is of its runs since the last proved change, at the level of most.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.compare.baseline import mark_usual
from fleet.analysis.reduce.host_numbers import Level, load_overview, summarize_hosts
from fleet.analysis.reduce.interval import MIN_RUNS
from fleet.analysis.reduce.load import merge_descriptions
from fleet.analysis.reduce.numbers import ALL, Only
from fleet.model import Benchmark, Descriptions
from fleet.store import RunSummary
from fleet.store.runs import Root
from fleet.text import format_count, one_line


class UsualNumbers(NamedTuple):
    """What number each host has. table: a row per host and column of the overview, from
    `summarize_hosts`. rows: a row per run and column, from `mark_usual`.
    """

    table: pd.DataFrame
    rows: pd.DataFrame
    descriptions: Descriptions

    def select_host(self, host_id: str) -> "UsualNumbers":
        """Return the numbers of one host, with intervals as if it were alone."""
        own = self.rows[self.rows["host_id"] == host_id]
        return UsualNumbers(summarize_hosts(own), own, self.descriptions)


def load_usual_numbers(
    root: Root,
    runs: Sequence[RunSummary],
    only: Only = ALL,
    earlier: Sequence[RunSummary] = (),
) -> UsualNumbers:
    """Load the numbers of hosts from these runs. Without `earlier`, only runs since a
    host's last proved change count, which `is_usual` marks.

    earlier: runs that are comparable with `runs` and give no number themselves. With
    them, all of `runs` count, even before a change. Where a host has too few of `runs`
    for an interval, it is predicted from the usual rows of both.
    """
    every_run = [*earlier, *runs]
    descriptions = merge_descriptions(every_run)
    every_row = mark_usual(root, load_overview(root, every_run, only, descriptions))
    if not earlier:
        return UsualNumbers(summarize_hosts(every_row), every_row, descriptions)
    run_ids = {run.run_id for run in runs}
    rows = every_row[every_row["run_id"].isin(run_ids)]
    # without these columns, all rows count
    unmarked = rows.drop(columns=["since", "is_usual"])
    comparable = every_row[every_row["is_usual"]]
    table = summarize_hosts(unmarked, comparable)
    return UsualNumbers(table, rows, descriptions)


def describe_interval(table: pd.DataFrame) -> str:
    """Say what ±95% means in a table of `summarize_hosts`, the same in all
    rows.
    """
    if table["runs_of_half"].max() < MIN_RUNS:
        return "of the number, within the run"
    if table["runs"].max() >= MIN_RUNS:
        return f"between the runs of a host, {MIN_RUNS} or more"
    return f"of one run, by how {MIN_RUNS} or more like it of the host scatter"


def list_last_changes(rows: pd.DataFrame) -> list[str]:
    """List hosts and benchmarks with the night since which their runs count: "lucca
    cas, 2026-11-04".
    """
    changed = rows[rows["since"].notna()]
    lines = [
        f"{row['host_name']} {row['benchmark']}, {row['since']}"
        for row in text.to_records(changed)
    ]
    return list(dict.fromkeys(lines))


def list_several_levels(
    table: pd.DataFrame, descriptions: Descriptions, *, names_host: bool = True
) -> list[str]:
    """List the numbers whose runs are at several levels: "lucca, cas, core: 5 runs at
    43.4, 9 runs at 45.9".
    """
    has_several = table["levels"].map(len) > 1
    sentences = []
    for row in text.to_records(table[has_several]):
        benchmark = row["benchmark"]
        name = f"{benchmark}, {row['relation']}"
        if names_host:
            name = f"{row['host_name']}, {name}"
        levels = _describe_levels(descriptions[benchmark], row["levels"])
        sentences.append(one_line(f"{name}: {levels}"))
    return sentences


def _describe_levels(benchmark: Benchmark, levels: Iterable[Level]) -> str:
    """Describe levels between runs, each with its count."""
    parts = []
    for level in levels:
        value = text.format_value(benchmark, level.ns)
        parts.append(f"{format_count(level.runs, 'run')} at {value}")
    return ", ".join(parts)
