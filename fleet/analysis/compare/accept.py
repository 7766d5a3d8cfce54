"""Compare each machine's last run with the numbers expected of it
(docs/accepting.md).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base.selection import select_like_last_run
from fleet.analysis.base.tables import Floats, number_groups
from fleet.analysis.base.text import is_rate, to_records
from fleet.analysis.compare import judge
from fleet.analysis.compare.siblings import join_equal_facts, measure_distances
from fleet.analysis.compare.sides import (
    NOTHING,
    read_selected_runs,
    reduce_to_relations,
)
from fleet.analysis.compare.verdicts import CLASS, THRESHOLD
from fleet.analysis.reduce.numbers import ALL, Only
from fleet.analysis.reduce.run_levels import label_levels_of_hosts
from fleet.errors import UsageError
from fleet.inventory.expected import ExpectedRange
from fleet.model import Descriptions
from fleet.store.runs import Root, open_listing

MIN_VALUES = 3  # earlier runs, other machines or tables, for a range
MACHINE, TABLE = "equal machine", "table"
DISTURBED = 0.5  # of the bursts of a run: it measured other work too


class Outcome(StrEnum):
    """How a number compares with what is expected of it."""

    AS_EXPECTED = "as expected"
    BELOW = "below"  # slower, or less
    ABOVE = "above"  # faster, or more: other settings?
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True)
class Acceptance:
    """A machine's last run beside the numbers expected of it.

    failed: the share of bursts without a number. flagged: of the other bursts, the
    share with a flag. rows: a row per number and expectation, with CLASS, `ns`, the
    expected range `low` to `high` in ns (NaN: no such limit), its `source`, the `count`
    of runs, machines or tables behind it, how many of these are slower (`beaten`), `p`
    and `q` (NaN for ranges set by hand), and `outcome`.
    """

    host: str
    run_id: str
    cpu_model: str | None
    rows: pd.DataFrame
    descriptions: Descriptions
    failed: float = 0.0
    flagged: float = 0.0

    @property
    def is_disturbed(self) -> bool:
        """Report whether half of the bursts failed, or half of the others have a
        flag.
        """
        return max(self.failed, self.flagged) >= DISTURBED

    @property
    def outcome(self) -> Outcome:
        """Return the first of BELOW, ABOVE, AS_EXPECTED in `rows`; CANNOT_TELL if none,
        or if disturbed.
        """
        outcomes, order = (
            set(self.rows["outcome"]),
            (Outcome.BELOW, Outcome.ABOVE, Outcome.AS_EXPECTED),
        )
        worst = next(
            (outcome for outcome in order if outcome in outcomes), Outcome.CANNOT_TELL
        )
        return Outcome.CANNOT_TELL if self.is_disturbed else worst


def judge_last_runs(
    root: Root,
    texts: Sequence[str],
    ranges: Sequence[ExpectedRange] = (),
    *,
    load_tables: Callable[[str], pd.DataFrame] | None = None,
    threshold: float | None = None,
    only: Only = ALL,
) -> list[Acceptance]:
    """Compare the last selected run of each host with its earlier runs and with equal
    machines.

    If a range applies to a number, only the first such range is used. Equal machines
    that are odd among themselves are left out. load_tables: takes a CPU model and
    returns `median_ns` by `summary` and CLASS; called if neither earlier runs nor equal
    machines give three values. threshold: the smallest deviation that matters, as a
    share. Raises UsageError if no run is selected or none has numbers.
    """
    listing = open_listing(root)
    last_runs = {
        run.host_id: run.run_id
        for run in select_like_last_run(listing.runs, texts, listing.place)
    }
    measured = select_like_last_run(listing.runs, texts, listing.place, only.benchmark)
    listing, runs, cpus = read_selected_runs(listing, ["all"], only.benchmark)
    chosen = {run.host_id: run.run_id for run in measured}
    facts = join_equal_facts(runs, cpus)
    last = runs.groupby("host_id")["run_id"].transform("last") == runs["run_id"]
    is_equal = facts.isin(facts[runs["run_id"].isin(chosen.values())])
    runs = runs.assign(facts=facts, is_last=last)[
        is_equal & (last | runs["host_id"].isin(chosen))
    ]
    read, _, medians = reduce_to_relations(
        listing, runs, cpus[cpus["run_id"].isin(runs["run_id"])], only
    )
    table = medians.set_index(["run_id", *CLASS])["median_ns"].unstack("run_id")
    judged = to_records(runs[runs["run_id"].isin(chosen.values())])
    load = cache(load_tables) if load_tables else None
    stored = [run for run in judged if run["run_id"] in table.columns]
    tables = [
        _compute_expected(runs, table, run, ranges, read.descriptions, load)
        for run in stored
    ]
    if not tables:
        raise UsageError(f"{NOTHING}; `fleet runs` lists what each run has.")
    rows = judge_numbers(pd.concat(tables, ignore_index=True), threshold or THRESHOLD)
    by_id = {run["run_id"]: run for run in judged}
    own = {
        run_id: part.drop(columns="run_id")
        for run_id, part in rows.groupby("run_id", sort=False)
    }
    acceptances = []
    for host, run_id in last_runs.items():
        run = by_id.get(
            run_id,
            dict.fromkeys(("cpu_model", "bursts", "failed_bursts", "flagged_bursts")),
        )
        bursts, failed = run["bursts"] or 1, run["failed_bursts"] or 0
        shares = failed / (bursts + failed), (run["flagged_bursts"] or 0) / bursts
        about = (host, run_id, run["cpu_model"], own.get(run_id, rows[:0]))
        acceptances.append(Acceptance(*about, read.descriptions, *shares))
    return acceptances


def _compute_expected(
    runs: pd.DataFrame,
    table: pd.DataFrame,
    run: dict[str, Any],
    ranges: Sequence[ExpectedRange],
    descriptions: Descriptions,
    load_tables: Callable[[str], pd.DataFrame] | None,
) -> pd.DataFrame:
    """Return a row per number of `run` and expectation. table: ns, a row per number, a
    column per run.
    """
    logs = np.log(table[table[run["run_id"]].notna()])
    own = logs[run["run_id"]].to_numpy()
    is_own = runs["host_id"] == run["host_id"]
    earlier = runs[is_own & (runs["started_utc"] < run["started_utc"])]["run_id"]
    others = runs[~is_own & runs["is_last"] & (runs["facts"] == run["facts"])]["run_id"]
    numbers = logs.index.to_frame(index=False).assign(
        run_id=run["run_id"], ns=np.exp(own)
    )
    by_hand = []
    for key in logs.index:
        expected = next(
            (expected for expected in ranges if expected.matches(run, *key)), None
        )
        low, high = (np.nan, np.nan)
        if expected:
            low, high = expected.limits_ns(is_rate=is_rate(descriptions[str(key[0])]))
        by_hand.append((expected.source if expected else "", low, high))
    rows = numbers.join(pd.DataFrame(by_hand, columns=["source", "low", "high"]))
    is_told = np.array(rows["source"] != "")
    parts, is_open = [rows[is_told]], ~is_told

    def add_expected(values: Floats, minimum: int, noun: str) -> None:
        """Add a row for each open number with `minimum` values or more at its level.
        values: logarithms.
        """
        if run["hypervisor"] is not None:  # it may be at one of several levels
            kinds = number_groups(numbers, CLASS[:2])
            labels = label_levels_of_hosts(np.column_stack([own, values]), kinds)
            values = np.where(labels[:, 1:] == labels[:, :1], values, np.nan)
        if noun == MACHINE and values.shape[1]:  # as --siblings finds them
            values = np.where(
                measure_distances(values, THRESHOLD).are_odd(THRESHOLD), np.nan, values
            )
        counts = (~np.isnan(values)).sum(axis=1)
        chosen = is_open & (counts >= minimum)
        enough = chosen & (counts >= MIN_VALUES)
        predicted = np.full((3, len(own)), np.nan)
        predicted[:, enough] = predict_next(values[enough])
        beaten = (values > own[:, None]).sum(axis=1)
        columns = dict(
            zip(("mean", "error", "freedom"), predicted, strict=True),
            count=counts,
            beaten=beaten,
        )
        parts.append(numbers.assign(source=f"{noun}s", **columns)[chosen])
        is_told[chosen] = True

    for ids, noun in ((earlier, "earlier run"), (others, MACHINE)):
        add_expected(
            logs[[name for name in ids if name in logs.columns]].to_numpy(),
            MIN_VALUES,
            noun,
        )
    is_open &= ~is_told
    if is_open.any() and load_tables and run["cpu_model"]:
        medians = load_tables(run["cpu_model"]).set_index(["summary", *CLASS])[
            "median_ns"
        ]
        add_expected(
            np.log(
                medians.unstack("summary").reindex(logs.index).to_numpy(dtype=float)
            ),
            1,
            TABLE,
        )
    parts.append(rows[is_open & ~is_told])
    return pd.DataFrame(pd.concat(parts, ignore_index=True))


def predict_next(logs: Floats) -> tuple[Floats, Floats, Floats]:
    """Predict one more value of each row, ignoring NaN; return means, standard errors,
    degrees of freedom.
    """
    counts = (~np.isnan(logs)).sum(axis=1)
    centre = judge.compute_nanmean(logs, axis=1)
    squares = np.nansum((logs - centre[:, None]) ** 2, axis=1)
    variances = np.maximum(squares / (counts - 1), judge.ROUNDING)
    variances, freedom = judge.moderate_variances(variances, counts - 1.0)
    return centre, np.sqrt(variances * (1 + 1 / counts)), freedom


def judge_numbers(rows: pd.DataFrame, threshold: float) -> pd.DataFrame:
    """Add the range expected, p, q (corrected over all rows) and the outcome.

    rows: with CLASS, `run_id`, `ns`, `source`, and either `low` and `high`, or `mean`,
    `error` and `freedom` from `predict_next`; with NaN in all of them the outcome is
    CANNOT_TELL.
    """
    names = ("mean", "error", "freedom")
    centre, error, freedom = rows.reindex(columns=[*names]).to_numpy(dtype=float).T
    off = np.log(rows["ns"].to_numpy()) - centre
    _, _, p = judge.apply_student(off, error, freedom)
    half = judge.apply_student(np.zeros_like(error), error, freedom)[1]
    is_predicted = ~np.isnan(centre)
    low = np.where(is_predicted, np.exp(centre - half), rows["low"])
    high = np.where(is_predicted, np.exp(centre + half), rows["high"])
    q = judge.control_false_discovery(p)
    matters = (np.abs(off) > np.log1p(threshold)) & (q < judge.ALPHA)
    slower = np.where(is_predicted, matters & (off > 0), rows["ns"] > high)
    faster = np.where(is_predicted, matters & (off < 0), rows["ns"] < low)
    cases = [np.isnan(low) & np.isnan(high), slower.astype(bool), faster.astype(bool)]
    named = [Outcome.CANNOT_TELL, Outcome.BELOW, Outcome.ABOVE]
    outcomes = np.select(cases, named, Outcome.AS_EXPECTED)
    judged = rows.assign(low=low, high=high, p=p, q=q, outcome=outcomes)
    return judged.drop(columns=[name for name in names if name in judged])
