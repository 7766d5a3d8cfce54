"""Says in words what a careful reader should know before believing a run: the end of `fleet show`."""

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.reduce.flags import SIBLING_NEARER
from fleet.analysis.reduce.topology_check import MEANS
from fleet.analysis.views.text import pair_text, percent, records, safe, within

WIDE = 0.05  # without a precision asked for, a pair known no better than this is pointed out
CHANCE = 0.01  # of pairs without any drift, so many seem to have one
_LISTED = 3
_NO_REASON = ("Expected:",)  # what the agent says that gives no reason to distrust
_OF_BURSTS = {
    "preempted": "a thread was put off its CPU",
    "busy_cpu": "a thread got less than 90% of its CPU",
    "coarse_clock": "the clock's steps are too large for the samples",
}


def distrust(
    run: dict[str, Any], pairs: pd.DataFrame, bursts: "pd.Series[str]", findings: pd.DataFrame
) -> str:
    """Each reason in a line with the worst few pairs; empty if nothing is known.

    pairs: with their flags. bursts: the flags of every burst. findings: those of `check_topology`.
    """
    lines = [*_bursts(bursts), *_levels(pairs), *_drift(pairs), *_intervals(run, pairs)]
    lines += [
        *_strangely_near(pairs),
        *_topology(findings),
        *_outliers(pairs),
    ]
    reasons = Counter(failed["reason"] for failed in run["failed"])
    lines += [f"{count} visits gave no number: {reason}" for reason, count in reasons.most_common()]
    lines += [note for note in run["notes"] if not note.startswith(_NO_REASON)]
    return "\n".join(["What to distrust", *(f"  {safe(line)}" for line in lines)]) if lines else ""


def counted(bursts: "pd.Series[str]") -> dict[str, int]:
    """How many bursts have each flag, the most frequent first. bursts: the flags of each, comma-separated."""
    counts: Counter[str] = Counter()
    for joined, count in bursts.value_counts().items():
        counts.update(dict.fromkeys((flag for flag in str(joined).split(",") if flag), int(count)))
    return dict(counts.most_common())


def _bursts(bursts: "pd.Series[str]") -> list[str]:
    return [
        f"{flag}: {percent(count / len(bursts))} of the bursts; {_OF_BURSTS.get(flag, 'see docs/flags.md')}"
        for flag, count in counted(bursts).items()
        if count
    ]


def _levels(pairs: pd.DataFrame) -> list[str]:
    found = pairs[pairs["other_ns"].notna()].sort_values("other_share", ascending=False, kind="stable")
    if found.empty:
        return []
    named = ", ".join(
        f"{_name(row)} ({percent(row['other_share'])} of bursts at the other)"
        for row in records(found.head(_LISTED))
    )
    return [f"multimodal: {len(found)} of {len(pairs)} pairs have two levels: {named}"]


def _drift(pairs: pd.DataFrame) -> list[str]:
    found = pairs[pairs["drift"].notna()]
    by_chance = round(CHANCE * len(pairs))
    if len(found) <= by_chance:
        return []
    found = found.reindex(found["drift"].abs().sort_values(ascending=False, kind="stable").index)
    worst = ", ".join(f"{_name(row)} {row['drift']:+.1%}" for row in records(found.head(_LISTED)))
    chance = f", by chance alone about {by_chance} would" if by_chance else ""
    return [
        f"drift: {len(found)} of {len(pairs)} pairs changed while they were measured{chance}; worst: {worst}"
    ]


def _intervals(run: dict[str, Any], pairs: pd.DataFrame) -> list[str]:
    asked = run["precision"]
    wide = pairs[pairs["spread"] > (WIDE if asked is None else asked)]
    if wide.empty:
        return []
    wide = wide.sort_values("spread", ascending=False, kind="stable")
    worst = ", ".join(f"{_name(row)} {within(row['spread'])}" for row in records(wide.head(_LISTED)))
    if asked is None:
        return [f"{len(wide)} of {len(pairs)} pairs are known no better than ±{WIDE:.0%}; worst: {worst}"]
    return [f"not_converged: {len(wide)} of {len(pairs)} pairs did not reach {within(asked)}; worst: {worst}"]


def _topology(findings: pd.DataFrame) -> list[str]:
    """A line per check of the topology that found something, the gravest findings first."""
    lines = []
    for check, part in findings.groupby("check", sort=False):
        usual = SIBLING_NEARER if check == "siblings" else 1.0
        far = np.abs(np.log(part["value"].to_numpy(dtype=float) / usual))
        worst = part.iloc[np.argsort(-far, kind="stable")].head(_LISTED)
        named = ", ".join(f"{row['benchmark']} {row['says']}" for row in records(worst))
        more = f" and {len(part) - _LISTED} more" if len(part) > _LISTED else ""
        lines.append(f"{check}: {MEANS[str(check)]}: {named}{more}")
    return lines


def _strangely_near(pairs: pd.DataFrame) -> list[str]:
    found = pairs[_flagged(pairs, "smt_pair") & (pairs["relation"] != "smt")]
    named = ", ".join(
        f"{_name(row)} {row['median_ns']:.1f} ns ({row['relation']})" for row in records(found.head(_LISTED))
    )
    return [f"smt_pair: {len(found)} of {len(pairs)} pairs are far nearer than their relation: {named}"] * (
        len(found) > 0
    )


def _outliers(pairs: pd.DataFrame) -> list[str]:
    found = pairs[_flagged(pairs, "outliers")].sort_values("outliers", ascending=False, kind="stable")
    named = ", ".join(f"{_name(row)} {percent(row['outliers'])}" for row in records(found.head(_LISTED)))
    return [
        f"outliers: {len(found)} of {len(pairs)} pairs have many samples above twice their median: {named}"
    ] * (len(found) > 0)


def _flagged(pairs: pd.DataFrame, flag: str) -> "pd.Series[bool]":
    return pairs["flags"].map(lambda flags: flag in flags.split(",")).astype(bool)


def _name(row: dict[str, Any]) -> str:
    return f"{row['benchmark']} {pair_text(row)}"
