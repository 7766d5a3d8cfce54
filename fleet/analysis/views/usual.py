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
    """Load the numbers of hosts from these runs. A host's runs before its last proved
    change do not count, unless `earlier` is given: then all of `runs` count.

    earlier: runs that are comparable with `runs`, but give no number themselves. If a
    host has too few runs in `runs` for an interval, they help to predict it: the
    interval then comes from all runs, earlier or not, since the host's last change.
    """
    every_run = [*earlier, *runs]
    descriptions = merge_descriptions(every_run)
    numbers_of_runs = load_overview(root, every_run, only, descriptions)
    every_row = mark_usual(root, numbers_of_runs)
    if not earlier:
        return UsualNumbers(summarize_hosts(every_row), every_row, descriptions)
    run_ids = {run.run_id for run in runs}
    rows = every_row[every_row["run_id"].isin(run_ids)]
    # without these columns, `summarize_hosts` counts rows from before a change, too
    unmarked = rows.drop(columns=["since", "is_usual"])
    since_last_change = every_row[every_row["is_usual"]]
    table = summarize_hosts(unmarked, comparable=since_last_change)
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
    """List hosts and benchmarks that changed, with the night of the last proved change:
    "lucca cas, 2026-11-04". Only runs from that night on count for the host's number.

    rows: of `summarize_hosts`; `since` is that night, None without a change.
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
    """List the numbers whose runs are at several levels, with a gap of more than 8 %
    between two: "lucca, cas, core: 5 runs at 43.4, 9 runs at 45.9".

    table: from `summarize_hosts`; `levels` is a tuple of Level, the level of most runs
    first. names_host: begin with the host's name.
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
