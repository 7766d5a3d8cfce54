"""Reads stored runs into nights, finds changes by `over_time`, and lists which facts changed with them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any
from warnings import warn

import numpy as np
import pandas as pd

from fleet.analysis.base.selection import group_by_host
from fleet.analysis.compare.judge import compute_nanmean
from fleet.analysis.compare.over_time import (
    LEAST_NIGHTS,
    Change,
    Pooled,
    add_means,
    clean_series,
    find_changes,
)
from fleet.analysis.compare.side_runs import CLASS
from fleet.analysis.compare.sides import read_selected_runs, reduce_to_relations
from fleet.analysis.compare.verdicts import THRESHOLD
from fleet.analysis.reduce.comparison_rows import ALL, Only
from fleet.analysis.reduce.environment import describe_rows_environments
from fleet.analysis.reduce.load import list_published
from fleet.errors import StoreWarning, UsageError, explain
from fleet.hostnames import join_names
from fleet.model import Descriptions
from fleet.store.runs import Root
from fleet.text import format_count

_ROW = ["host", *CLASS]
Step = tuple[str, str, str]  # a fact, and its values before and after
_MOST = 0.75  # of the members that move by half as much as their mean, or more
_APART = 2  # nights between the dates of a change and of a wider one that it is part of


@dataclass(frozen=True, slots=True)
class History:
    """Changes in the runs of some hosts.

    nights: those with a run. changes: a row per change, the oldest first: `hosts` (a tuple), `benchmark`,
    `variant`, `relation` (empty for all relations), `before`, `after` (the nights beside it), `first`, `last`
    (the interval of `after`), `begin`, `end` (the nights compared), `ratio` with its 95 % interval `low`,
    `high`, `q`, `dated` (a step; else gradual), `changed` (beyond the threshold) and `else`: facts that
    changed in that run. odd: a row per host, relation and `night` far from the nights around it, by `ratio`.
    elsewhere: a row per host and relation that is at another level since `night`. logs: the logarithms of ns
    behind these, a row per host and relation, a column per night. facts: by host and night, the facts that
    changed since the host's night before, with their values; empty where no change was found. descriptions:
    of the benchmarks.
    """

    hosts: tuple[str, ...]
    relations: int
    runs: int
    nights: tuple[date, ...]
    has_verdict: bool
    threshold: float
    changes: pd.DataFrame
    odd: pd.DataFrame
    elsewhere: pd.DataFrame
    logs: pd.DataFrame
    facts: Mapping[str, Mapping[date, set[Step]]]
    caveats: tuple[str, ...]
    descriptions: Descriptions

    @property
    def has_changed(self) -> bool:
        """Report whether a change is beyond the threshold."""
        return bool(self.changes["changed"].any())


def find_changes_over_time(
    root: Root, texts: Sequence[str], *, threshold: float | None = None, only: Only = ALL
) -> History:
    """Find the changes over time in a selection; of each host only runs like its last one count.

    A night is the day on which a session began (UTC); several runs of a night count as their mean. threshold:
    see `compare`. Raises UsageError.
    """
    listing, runs, cpus = read_selected_runs(root, texts, only.benchmark)
    runs["night"] = runs.groupby("session_id")["started_utc"].transform("min").dt.date
    tables, _, medians = reduce_to_relations(listing, runs, cpus, only)
    own = runs.set_index("run_id").loc[medians["run_id"], ["host_id", "night"]].to_numpy().T
    medians = medians.assign(host=own[0], night=own[1], log=np.log(medians["median_ns"]))
    table = medians.groupby([*_ROW, "night"], sort=True)["log"].mean().unstack("night")
    rows, logs = table.index.to_frame(index=False), table.to_numpy()
    virtual = set(runs.loc[runs["hypervisor"].notna(), "host_id"])
    clean = clean_series(logs, rows["host"].isin(virtual).to_numpy())
    relations = rows.groupby(CLASS, sort=False).ngroup().to_numpy()
    pool = add_means(
        clean.logs, *(np.asarray(groups) for groups in (rows.groupby("host").ngroup(), relations))
    )
    changes = drop_changes_of_parts(find_changes(pool.logs), pool)
    matters, nights = threshold or THRESHOLD, tuple[Any, ...](table.columns)
    facts = _find_fact_changes(runs) if changes else {}
    counts = (~np.isnan(logs)).sum(axis=1)
    short = rows.loc[counts < LEAST_NIGHTS, "host"].unique()
    words = f"{join_names(short)}: relations with fewer than {LEAST_NIGHTS} nights have no verdict"
    words += "; --siblings finds the odd one of equal machines." if len(short) > 1 else "."
    return History(
        tuple(rows["host"].unique()),
        int(relations.max()) + 1,
        len(runs),
        nights,
        bool((counts >= LEAST_NIGHTS).any()),
        matters,
        _tabulate_changes(changes, pool, rows, nights, facts, matters),
        _tabulate_nights(clean.odd, rows, nights),
        _tabulate_nights(clean.elsewhere, rows, nights),
        table,
        facts,
        (words,) if len(short) else (),
        tables.descriptions,
    )


def mark_usual(root: Root, rows: pd.DataFrame) -> pd.DataFrame:
    """Mark the cells of runs that are usual: those since the last proved change.

    rows: with columns `host_id`, `run_id` and `benchmark`. Adds `since`, the first night after the last step
    that `history` finds in these runs of the host, in this benchmark or in all relations, or None, and
    `is_usual`, whether the run is from then on. Without scipy all runs are usual, with a StoreWarning.
    """
    nights, since = dict[str, date](), dict[tuple[str, str], date]()
    for host, runs in group_by_host(list_published(root, run_id=rows["run_id"].unique().tolist())).items():
        begun = dict[str, date]()
        for run in sorted(runs, key=lambda run: run.started_utc):
            nights[run.run_id] = begun.setdefault(run.session_id, run.started_utc.date())
        if len({*begun.values()}) < LEAST_NIGHTS:
            continue
        try:
            steps = find_changes_over_time(root, [",".join(run.run_id for run in runs)]).changes
        except UsageError:  # no numbers that are compared
            continue
        except ImportError as err:  # of scipy, which `make run` leaves out
            warn(
                StoreWarning(f"{explain(err)} Until then, runs before a change count as well."), stacklevel=2
            )
            break
        steps = steps[steps["dated"].astype(bool)].sort_values("after")
        since |= {(host, step["benchmark"]): step["after"] for _, step in steps.iterrows()}
    last = [
        max(filter(None, (since.get((host, benchmark)), since.get((host, "")))), default=None)
        for host, benchmark in zip(rows["host_id"], rows["benchmark"], strict=True)
    ]
    usual = [day is None or nights[run] >= day for run, day in zip(rows["run_id"], last, strict=True)]
    return rows.assign(since=pd.Series(last, rows.index, dtype=object), is_usual=np.array(usual, dtype=bool))


def drop_changes_of_parts(found: Sequence[Change], pool: Pooled) -> list[Change]:
    """Drop changes of means that few of their members moved with, and those that are part of a wider one."""
    remaining: list[Change] = []
    for change in sorted(found, key=lambda change: -int(pool.members[change.row].sum())):
        own = pool.members[change.row]
        if any(_is_part(change, wider, pool) for wider in remaining):
            continue
        if own.sum() > 1:
            members = pool.logs[: pool.members.shape[1]][own]
            before, after = members[:, change.begin : change.night], members[:, change.night : change.end + 1]
            moved = compute_nanmean(after, axis=1) - compute_nanmean(before, axis=1)
            if (moved * np.sign(change.moved) > abs(change.moved) / 2).mean() < _MOST:
                continue
        remaining.append(change)
    return sorted(remaining, key=lambda change: (change.night, change.row))


def _is_part(change: Change, wider: Change, pool: Pooled) -> bool:
    inside = bool((pool.members[wider.row] >= pool.members[change.row]).all())
    dates = (wider.first, wider.last) if wider.dated else (wider.begin, wider.end)
    own = (change.first, change.last) if change.dated else (change.begin, change.end)
    near = own[0] - _APART <= dates[1] and dates[0] - _APART <= own[1]
    return inside and near and (change.moved > 0) == (wider.moved > 0)


def _tabulate_changes(
    changes: Sequence[Change],
    pool: Pooled,
    rows: pd.DataFrame,
    nights: Sequence[Any],
    facts: Mapping[str, Mapping[date, set[Step]]],
    threshold: float,
) -> pd.DataFrame:
    listed = []
    for change in changes:
        own = rows[pool.members[change.row]]
        kinds = own[CLASS].drop_duplicates()
        hosts = tuple(own["host"].unique())
        before = np.flatnonzero(~np.isnan(pool.logs[change.row, : change.night]))[-1]
        kind = kinds.iloc[0] if len(kinds) == 1 else ("", "", "")
        places = (before, change.night, change.first, change.last, change.begin, change.end)
        numbers = np.exp([change.moved, change.low, change.high]).tolist()
        changed = abs(change.moved) > np.log1p(threshold)
        beside = tuple(_explain_night(hosts, nights[change.night], facts)) if change.dated else ()
        about = (hosts, *kind, *(nights[place] for place in places), *numbers)
        listed.append((*about, change.q, change.dated, changed, beside))
    columns = ("hosts", *CLASS, *("before", "after", "first", "last", "begin", "end", "ratio", "low", "high"))
    return pd.DataFrame(listed, columns=[*columns, "q", "dated", "changed", "else"])


def _find_fact_changes(runs: pd.DataFrame) -> dict[str, dict[date, set[Step]]]:
    """Return the facts that changed, by host and night, since the night before on which it was measured."""
    steps = dict[str, dict[date, set[Step]]]()
    for host, of_host in runs.groupby("host_id"):
        last = of_host.groupby("night").tail(1)
        around = describe_rows_environments(last)
        nights = list(last["night"])
        steps[str(host)] = {
            night: {
                (fact, values[index], values[index + 1])
                for fact, values in around.items()
                if values[index] != values[index + 1]
            }
            for index, night in enumerate(nights[1:])
        }
    return steps


def _explain_night(
    hosts: Sequence[str], night: date, steps: Mapping[str, Mapping[date, set[Step]]]
) -> Iterator[str]:
    """Yield each fact that changed that night; count these hosts, and others where it did in any night."""
    counts = Counter(step for host in hosts for step in steps[host].get(night, ()))
    for step, count in counts.most_common():
        others = sum(any(step in of for of in steps[host].values()) for host in steps.keys() - {*hosts})
        fact, before, after = step
        beside = f"; {others} others without this change" if others else ""
        yield f"{fact} {before} → {after} ({count} of {format_count(len(hosts), 'host')}{beside})"


def _tabulate_nights(
    distances: Sequence[tuple[int, int, float]], rows: pd.DataFrame, nights: Sequence[Any]
) -> pd.DataFrame:
    listed = [(*rows.iloc[row], nights[index], float(np.exp(apart))) for row, index, apart in distances]
    return pd.DataFrame(listed, columns=[*_ROW, "night", "ratio"])
