"""The warnings of a run, for `fleet show` and the report: what to know before relying on its numbers."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.reduce import cross_checks
from fleet.analysis.reduce.flags import MEANINGS, MINOR_IF_FEW, SIBLING_NEARER, flag_counts
from fleet.analysis.reduce.topology_check import MEANS, check_topology
from fleet.analysis.views.text import pair_text, percent, records, within
from fleet.model import FORECAST
from fleet.text import counted, one_line

HEADING = "Warnings"
_WIDE = 0.05  # widest interval without a warning, where no precision was requested
_CHANCE = 0.01  # of pairs without drift, the share that the test reports by chance
_FEW_BURSTS = 0.05  # of a run's bursts; fewer do not move its medians
_LISTED = 3
_FELT = 0.01  # of a burst's time; less that a hypervisor took is no matter
_LACK = 0.1  # what of it a burst with `busy_cpu` has lacked at least
ORDER = (
    "empty",
    "partial",
    *MEANINGS,
    "steal",
    *MEANS,
    *cross_checks.MEANS,
    "",
)  # keys of warnings, the most serious first
BURST_COLUMNS = (
    "flags",
    "benchmark",
    "point",
    "round",
    "ping_cpu",
    "pong_cpu",
    "ping_steal_ppm",
    "pong_steal_ppm",
)
"""Columns of `samples` that warnings are made of."""
# By flag of a pair: the column that ranks the pairs, and what to show of one.
_MEASURES: Mapping[str, tuple[str, Callable[[dict[str, Any]], str]]] = MappingProxyType(
    {
        "multimodal": ("other_share", lambda row: f"{percent(row['other_share'])} of bursts at the other"),
        "smt_pair": ("median_ns", lambda row: f"{row['median_ns']:.1f} ns, {row['relation']}"),
        "drift": ("drift", lambda row: f"{row['drift']:+.1%}"),
        "outliers": ("outliers", lambda row: percent(row["outliers"])),
        "not_converged": ("spread", lambda row: within(row["spread"])),
    }
)


@dataclass(frozen=True, slots=True)
class RunWarning:
    """One warning about one run; `str()` is the whole line.

    key: the flag or check it is about, empty for others. text: a sentence that is the same for every run.
    extent: how much of this run it concerns. worst: the worst few cases. minor: of no effect on medians.
    """

    key: str
    text: str
    extent: str = ""
    worst: str = ""
    minor: bool = False

    def __str__(self) -> str:
        key = f"{self.key}: " if self.key else ""
        extent = f" ({self.extent})" if self.extent else ""
        return f"{key}{self.text}{extent}{f': {self.worst}' if self.worst else ''}"


def run_warnings(
    run: dict[str, Any],
    pairs: pd.DataFrame,
    bursts: pd.DataFrame,
    checked: pd.DataFrame,
    history: pd.DataFrame,
) -> list[RunWarning]:
    """The warnings of one run, the most serious first.

    run: as `load_run` returns it. pairs: its rows of the table `pairs`, widened. bursts: those of
    `samples`, with BURST_COLUMNS. checked: as `cross_checks.compared` returns it. history: as
    `host_history` returns it.
    """
    findings = check_topology(pairs, history)
    return [
        *_failed(run, pairs),
        *_flags(run, pairs, bursts),
        *_steal(bursts),
        *_topology(findings),
        *_breaches(checked),
        *_wide(run, pairs),
        *(RunWarning("", note) for note in run["notes"] if not note.startswith(FORECAST)),
    ]


def warnings_text(warnings: Sequence[object]) -> str:
    """The section of `fleet show` and `fleet compare`, a line each; empty without warnings."""
    return "\n".join([HEADING, *(f"  {one_line(str(line))}" for line in warnings)]) if warnings else ""


def _failed(run: dict[str, Any], pairs: pd.DataFrame) -> Iterator[RunWarning]:
    if pairs.empty:
        yield RunWarning("empty", "no samples are stored, so there are no latencies")
    reasons = Counter(failed["reason"] for failed in run["failed"])
    if reasons:
        listed = "; ".join(f"{reason} ({count})" for reason, count in reasons.most_common(_LISTED))
        yield RunWarning("partial", "bursts failed and have no samples", str(reasons.total()), listed)


def _flags(run: dict[str, Any], pairs: pd.DataFrame, bursts: pd.DataFrame) -> Iterator[RunWarning]:
    counts, of_pairs = flag_counts(bursts["flags"]), flag_counts(pairs["flags"])
    for flag, text in MEANINGS.items():
        if flag in _MEASURES and flag in of_pairs:
            yield from _pair_flag(flag, text, run, pairs)
        elif flag in counts:
            share = counts[flag] / len(bursts)
            minor = flag in MINOR_IF_FEW and share <= _FEW_BURSTS
            cause = _taken(bursts) if flag == "busy_cpu" else ""
            yield RunWarning(flag, text, percent(share), cause, minor=minor)


def _steal_shares(bursts: pd.DataFrame) -> "pd.Series[float]":
    """Of each burst's time, how much a hypervisor took from one of its threads; 0 where none is known."""
    shares: pd.Series[float] = bursts[["ping_steal_ppm", "pong_steal_ppm"]].max(axis=1).fillna(0) / 1e6
    return shares


def _taken(bursts: pd.DataFrame) -> str:
    """How many of the bursts with `busy_cpu` lacked time that a hypervisor took, and no other work."""
    busy = bursts["flags"].map(lambda flags: "busy_cpu" in flags.split(",")).astype(bool)
    taken = int((busy & (_steal_shares(bursts) >= _LACK)).sum())
    return f"the hypervisor took it from {taken} of {counted(int(busy.sum()), 'burst')}" if taken else ""


def _steal(bursts: pd.DataFrame) -> Iterator[RunWarning]:
    """One warning about the time that the hypervisor took, with the bursts that lost most."""
    if not bursts[["ping_steal_ppm", "pong_steal_ppm"]].count().any():
        return
    shares = _steal_shares(bursts)
    felt = shares[shares >= _FELT].sort_values(ascending=False, kind="stable")
    if len(felt):
        worst = bursts.loc[felt.index[:_LISTED]].assign(share=felt)
        listed = ", ".join(
            f"{row['benchmark']} {pair_text(row)} in round {row['round']} ({percent(row['share'])})"
            for row in records(worst)
        )
        extent = f"{percent(len(felt) / len(bursts))}, on average {percent(felt.mean())} of their time"
        minor = len(felt) <= _FEW_BURSTS * len(bursts)
        yield RunWarning("steal", "bursts lost CPU time to the hypervisor", extent, listed, minor=minor)


def _pair_flag(flag: str, text: str, run: dict[str, Any], pairs: pd.DataFrame) -> Iterator[RunWarning]:
    found = pairs[pairs["flags"].map(lambda flags: flag in flags.split(",")).astype(bool)]
    if flag == "smt_pair":  # siblings that are not the nearest are named by the check `siblings`
        found = found[found["relation"] != "smt"]
    extent, by_chance = f"{len(found)} of {len(pairs)}", 0
    if flag == "drift" and (by_chance := round(_CHANCE * len(pairs))):
        extent += f", about {by_chance} expected by chance"
    if flag == "not_converged":
        extent += f" wider than {within(run['precision'])}"
    if len(found) > by_chance:
        yield RunWarning(flag, text, extent, _worst(found, *_MEASURES[flag], fastest=flag == "smt_pair"))


def _wide(run: dict[str, Any], pairs: pd.DataFrame) -> Iterator[RunWarning]:
    """Uncertain pairs, where no precision was requested; else `not_converged` names them."""
    wide = pairs[pairs["spread"] > _WIDE]
    if run["precision"] is None and len(wide):
        worst = _worst(wide, *_MEASURES["not_converged"])
        yield RunWarning(
            "", f"pairs have an interval wider than {within(_WIDE)}", f"{len(wide)} of {len(pairs)}", worst
        )


def _worst(
    pairs: pd.DataFrame, column: str, value: Callable[[dict[str, Any]], str], *, fastest: bool = False
) -> str:
    """The pairs with the largest size of `column`, or the smallest if `fastest`."""
    ordered = pairs.sort_values(column, ascending=fastest, kind="stable", key=lambda sizes: sizes.abs())
    return ", ".join(
        f"{row['benchmark']} {pair_text(row)} ({value(row)})" for row in records(ordered.head(_LISTED))
    )


def _breaches(checked: pd.DataFrame) -> Iterator[RunWarning]:
    """One warning per check of numbers that must fit together, its worst breaches first."""
    found = cross_checks.breaches(checked)
    for check, text in cross_checks.MEANS.items() if len(found) else ():
        part = found[found["check"] == check].sort_values("value", ascending=False, kind="stable")
        if len(part):
            more = f" and {len(part) - _LISTED} more" if len(part) > _LISTED else ""
            yield RunWarning(
                check, text, counted(len(part), "case"), "; ".join(part["says"][:_LISTED]) + more
            )


def _topology(findings: pd.DataFrame) -> Iterator[RunWarning]:
    """One warning per check of the topology that found something, its most serious findings first."""
    for check, text in MEANS.items() if len(findings) else ():
        part = findings[findings["check"] == check]
        if part.empty:
            continue
        usual = SIBLING_NEARER if check == "siblings" else 1.0
        far = np.abs(np.log(part["value"].to_numpy(dtype=float) / usual))
        worst = part.iloc[np.argsort(-far, kind="stable")].head(_LISTED)
        listed = ", ".join(f"{row['benchmark']} {row['says']}" for row in records(worst))
        more = f" and {len(part) - _LISTED} more" if len(part) > _LISTED else ""
        yield RunWarning(check, text, counted(len(part), "finding"), listed + more)
