"""The warnings of a comparison: order in time, too few runs, different estimators or hosts, many flags."""

from collections.abc import Iterator
from itertools import pairwise

import pandas as pd

from fleet.analysis.base.text import format_share, to_records
from fleet.analysis.compare.sides import ComparisonSide
from fleet.analysis.reduce.flags import MEANINGS, count_flags
from fleet.analysis.reduce.interval import LEAST_RUNS
from fleet.text import format_count

MANY_FLAGGED = 0.2  # of a side's pairs
BUSIER = 0.5  # runnable threads per CPU more on one side than on the other
_OF_LEVELS = ("multimodal", "smt_pair", "drift", "outliers")  # `not_converged` shows in the intervals
_MEASURED = {"complete", "partial"}
_SAMPLING = ["preset", "estimator"]
_Pairs = tuple[pd.DataFrame, pd.DataFrame]


def list_caveats(
    a: ComparisonSide, b: ComparisonSide, pairs: _Pairs, *, unit: str, same_topology: bool
) -> list[str]:
    """List the warnings, the most serious first. pairs: both sides' rows per unit and pair, with `flags`."""
    return [
        *_warn_of_few_runs(pairs, unit),
        *_warn_of_order(a, b),
        *_warn_of_hosts(a, b, unit, same_topology=same_topology),
        *_warn_of_sampling(a, b),
        *_warn_of_variants(pairs),
        *_warn_of_load(a, b),
        *_warn_of_partial_runs(a, b),
        *_warn_of_flags(pairs),
    ]


def spell_order(a: ComparisonSide, b: ComparisonSide) -> str:
    """Spell the sides in order of time, as ABBA."""
    starts = pd.concat(
        [side.runs[["started_utc", "run_id"]].assign(side=name) for name, side in (("A", a), ("B", b))]
    )
    return "".join(starts.sort_values(["started_utc", "run_id"], kind="stable")["side"])


def _warn_of_few_runs(pairs: _Pairs, unit: str) -> Iterator[str]:
    missing = [
        f"{LEAST_RUNS - count} more of {letter}"
        for letter, count in zip("AB", (rows["unit"].nunique() for rows in pairs), strict=True)
        if count < LEAST_RUNS
    ]
    if missing:
        yield (
            f"No verdict: a verdict needs {LEAST_RUNS} {unit}s a side; measure {' and '.join(missing)}. "
            f"Any two {unit}s differ, even if nothing changed."
        )


def _warn_of_order(a: ComparisonSide, b: ComparisonSide) -> Iterator[str]:
    order, smaller_count = spell_order(a, b), min(len(a.runs), len(b.runs))
    count = sum(side != then for side, then in pairwise(order))
    periods = [period for period in (2, 4) if order[period:] == order[:-period]]
    if smaller_count >= LEAST_RUNS and periods and a.hosts == b.hosts:
        yield (
            f"The order of the sides repeats itself every {periods[0]} runs: what disturbs runs as regularly "
            "looks like a difference. --alternate draws an order that does not (docs/comparing.md)."
        )
    if smaller_count >= 2 and count < smaller_count:
        how = "in two separate blocks of time" if count == 1 else "hardly interleaved"
        yield (
            f"The sides were measured {how}: anything else that changed with time looks like a difference "
            "between them. Alternate them (docs/comparing.md)."
        )


def _warn_of_hosts(a: ComparisonSide, b: ComparisonSide, unit: str, *, same_topology: bool) -> Iterator[str]:
    if unit == "host":
        yield "The sides are different sets of hosts: each counts once; relations are matched by name."
    elif a.hosts != b.hosts:
        cells = "" if same_topology else "; relations are matched by name, pairs are not compared"
        yield f"The sides are different hosts: a change applies to these two machines only{cells}."
    elif not same_topology:
        yield "The topology of the host differs between the sides: pairs are not compared."


def _warn_of_sampling(a: ComparisonSide, b: ComparisonSide) -> Iterator[str]:
    runs = pd.concat([side.runs[[*_SAMPLING, "state", "clock"]] for side in (a, b)])
    summaries = runs[~runs["state"].isin(_MEASURED)]
    if len(summaries):
        yield f"{format_count(len(summaries), 'run')} without samples: no evidence of a change."
    schemes = {
        f"{row['preset']} ({row['estimator']})" if row["preset"] else "default (median)"
        for row in to_records(runs[_SAMPLING])
    }
    if len(schemes) > 1:
        yield (
            f"The runs used different sampling, {', '.join(sorted(schemes))}: all are compared by the "
            "median of their bursts, which may differ by the sampling alone."
        )
    if runs["clock"].nunique() > 1:
        yield f"The clocks differ: {', '.join(sorted(runs['clock'].unique()))}."


def _warn_of_variants(pairs: _Pairs) -> Iterator[str]:
    kinds = [rows.groupby("benchmark", sort=False)["variant"].unique().to_dict() for rows in pairs]
    for benchmark in dict.fromkeys([*kinds[0], *kinds[1]]):
        variants = [set(kind.get(benchmark, ())) for kind in kinds]
        if not all(variants):
            yield f"{benchmark}: only {'A' if variants[0] else 'B'} measured it."
        elif variants[0] != variants[1] and variants[0] & variants[1]:
            a, b = (" and ".join(sorted(names)) for names in variants)
            yield (f"{benchmark}: A was measured with {a}, B with {b}. Only common variants are compared.")


def _warn_of_load(a: ComparisonSide, b: ComparisonSide) -> Iterator[str]:
    loads = [(side.runs["load_1m_before"] / side.runs["cpus_measured"]).median() for side in (a, b)]
    if abs(loads[1] - loads[0]) > BUSIER:
        yield (
            f"The load differs: {loads[0]:.1f} runnable threads per CPU before the runs of A, {loads[1]:.1f} "
            "before those of B."
        )


def _warn_of_partial_runs(a: ComparisonSide, b: ComparisonSide) -> Iterator[str]:
    for letter, side in (("A", a), ("B", b)):
        partial = side.runs.loc[side.runs["state"] == "partial", "failed_bursts"]
        if len(partial):
            failed = int(partial.sum())
            lost = f"{format_count(failed, 'burst')} failed" if failed else "not all pairs were measured"
            yield f"Partial: {format_count(len(partial), 'run')} of {letter}; {lost}."


def _warn_of_flags(pairs: _Pairs) -> Iterator[str]:
    sides = dict(zip("AB", (rows["flags"] for rows in pairs), strict=True))
    counts = {letter: count_flags(flags) for letter, flags in sides.items()}
    for flag in _OF_LEVELS:
        shares = {letter: counts[letter].get(flag, 0) / max(len(sides[letter]), 1) for letter in sides}
        many = [
            f"{format_share(share)} of {letter}" for letter, share in shares.items() if share > MANY_FLAGGED
        ]
        if many:
            yield f"{flag}: {MEANINGS[flag]} ({', '.join(many)})."
