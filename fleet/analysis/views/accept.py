"""Text, JSON and CSV of `fleet accept`: a line per machine, short enough for a
scheduler's reason field.
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence

import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.compare.accept import TABLE, Acceptance, Outcome
from fleet.analysis.compare.verdicts import CLASS
from fleet.errors import UsageError
from fleet.model import Descriptions
from fleet.text import format_count, one_line

_LISTED = 3  # numbers named for each machine
# share of a run's bursts that failed or are flagged, from which on the line says so
_MANY = 0.1
_LONGEST = 240  # characters of a line, if there is a choice
NEEDS = (
    "a number needs 3 runs before the last, 3 equal machines or 3 tables, on a virtual"
    " machine at its level, or a range in expected.yaml"
)


def render_acceptances(acceptances: Sequence[Acceptance]) -> str:
    """Render a line per machine, with the outcome and its reasons."""
    return "\n".join(
        one_line(render_acceptance(acceptance)) for acceptance in acceptances
    )


def explain_acceptances(acceptances: Sequence[Acceptance]) -> str:
    """Explain the word "expected" and the units of numbers below or above it; return ""
    without any.
    """
    rows = pd.concat([acceptance.rows for acceptance in acceptances])
    named = rows[rows["outcome"].isin([Outcome.BELOW, Outcome.ABOVE])]
    predicted = (
        ""
        if named["q"].isna().all()
        else " Expected: where 19 of 20 such machines or runs are."
    )
    units = text.describe_units(
        named["benchmark"].unique(), acceptances[0].descriptions
    )
    return "" if named.empty else f"\n{units}.{predicted}"


def render_acceptance(acceptance: Acceptance) -> str:
    """Compare a machine's last run with what is expected of it, in one line."""
    rows, outcome, descriptions = (
        acceptance.rows,
        acceptance.outcome,
        acceptance.descriptions,
    )
    own = rows[rows["outcome"] == outcome]
    if acceptance.is_disturbed:
        words = ["other work disturbed the run, measure again when the host is quiet"]
    elif outcome is Outcome.AS_EXPECTED:
        count = format_count(len(own.drop_duplicates(CLASS)), "number")
        kinds = own["source"].str.partition(":")[0]
        # number of runs or machines
        largest = own["count"].groupby(kinds, sort=False).max()
        sources = [_name_source(str(kind), number) for kind, number in largest.items()]
        words = [f"{count} held against {' and '.join(sources)}"]
        words += _describe_against_expected(
            own[own["source"] == f"{TABLE}s"][: _LISTED - 1], descriptions
        )
    elif outcome is not Outcome.CANNOT_TELL:
        words = [
            *_describe_against_expected(
                own.sort_values("q", na_position="first"), descriptions
            )
        ]
    elif rows.empty:
        words = ["it has not measured this"]
    else:
        placed = rows[rows["source"] != ""]
        model = acceptance.cpu_model if placed.empty else None
        none = f"no table of {model} is here; " if model else ""
        words = [
            *_describe_against_expected(placed[: _LISTED - 1], descriptions),
            f"{none}{NEEDS}",
        ]
    hint = "; other settings?" if outcome is Outcome.ABOVE else ""
    if outcome is Outcome.AS_EXPECTED and (
        unjudged := int((rows["source"] == "").sum())
    ):
        hint += f"; no expectation for {format_count(unjudged, 'number')}"
    hint += (
        f"; {acceptance.failed:.0%} of bursts failed"
        if acceptance.failed >= _MANY
        else ""
    )
    hint += (
        f"; {acceptance.flagged:.0%} of bursts are flagged"
        if acceptance.flagged >= _MANY
        else ""
    )
    for listed in range(_LISTED, 0, -1):
        more = len(words) - listed
        rest = f"; {more} more" if more > 0 else ""
        line = f"{acceptance.host}: {outcome}: {'; '.join(words[:listed])}{rest}{hint}"
        if len(line) <= _LONGEST:
            break
    return line


def _name_source(source: str, count: float | None) -> str:
    return (
        source
        if text.is_none(count)
        else format_count(int(count or 0), source.removesuffix("s"))
    )


def _describe_against_expected(
    rows: pd.DataFrame, descriptions: Descriptions
) -> Iterator[str]:
    for row in text.to_records(rows):
        benchmark = descriptions[row["benchmark"]]
        limits = [row["low"], row["high"]]
        if text.is_rate(benchmark):
            limits.reverse()
        low, high = (
            None if limit is None else text.format_value(benchmark, limit)
            for limit in limits
        )
        span = (
            f"{low} to {high}"
            if low and high
            else f"at most {high}"
            if high
            else f"at least {low}"
        )
        words = [
            f"{text.name_benchmark(row)} {row['relation']}"
            f" {text.format_value(benchmark, row['ns'])}"
        ]
        if low or high:
            words.append(
                f"expected {span} ({_name_source(row['source'], row['count'])})"
            )
        if row["count"] and (row["outcome"] != Outcome.BELOW):
            words.append(
                f"better than {row['beaten']:.0f} of"
                f" {_name_source(row['source'], row['count'])}"
            )
        yield ", ".join(words)


def acceptances_as_json(acceptances: Sequence[Acceptance]) -> str:
    """Render machines as a JSON document, with `ns`, `low` and `high` in ns, null where
    unknown.
    """
    names = ("host", "run_id", "outcome", "failed", "flagged", "rows")
    machines = [
        {name: getattr(acceptance, name) for name in names}
        for acceptance in acceptances
    ]
    return text.format_document("accept", machines)


def acceptances_as_csv(acceptances: Sequence[Acceptance]) -> str:
    """Render CSV with a row per machine, number and expectation."""
    rows = pd.concat(
        [item.rows.assign(host=item.host, run_id=item.run_id) for item in acceptances]
    )
    names = ["host", "run_id"]
    return text.format_csv(rows[[*names, *rows.columns.drop(names)]]).rstrip("\n")


def propose_ranges(acceptances: Sequence[Acceptance]) -> str:
    """Render expected.yaml by CPU model from machines not below expectation. Raises
    UsageError if empty.
    """
    lines = [
        "# Ranges in the units of `fleet show` (docs/accepting.md). The first that"
        " applies counts."
    ]
    by_model: dict[str, list[Acceptance]] = {}
    for acceptance in acceptances:
        if acceptance.outcome is not Outcome.BELOW and acceptance.cpu_model:
            by_model.setdefault(acceptance.cpu_model, []).append(acceptance)
    for model, same_model in by_model.items():
        rows = pd.concat([acceptance.rows for acceptance in same_model]).dropna(
            subset=["low", "high"]
        )
        if rows.empty:
            continue
        lines.append(
            f"- cpu_model: {json.dumps(model.replace('[', '[[]'), ensure_ascii=False)}"
        )
        for (benchmark, variant), own in rows.groupby(
            ["benchmark", "variant"], sort=False
        ):
            lines.append(f"  {benchmark}/{variant}:")
            for relation, spans in own.groupby("relation", sort=False):
                low, high = spans["low"].min(), spans["high"].max()
                if text.is_rate(same_model[0].descriptions[str(benchmark)]):
                    low, high = 1 / high, 1 / low
                lines.append(
                    f"    {relation}: {_round(low, math.floor)} to"
                    f" {_round(high, math.ceil)}"
                )
    if len(lines) == 1:
        raise UsageError(f"no ranges to write: {NEEDS}.")
    return "\n".join(lines) + "\n"


def _round(value: float, towards: Callable[[float], int]) -> str:
    """Format a positive number with three significant digits, rounded by `towards`,
    floor or ceil.
    """
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{towards(value / step) * step:.{max(0, -math.floor(math.log10(step)))}f}"
