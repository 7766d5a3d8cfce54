"""Text, JSON and CSV of `fleet accept`: a line per machine, short enough for a
scheduler's reason field.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.compare.accept import TABLE, Acceptance, Outcome
from fleet.analysis.compare.verdicts import CLASS
from fleet.errors import UsageError
from fleet.model import Benchmark, Descriptions
from fleet.text import format_command, format_count, one_line

Row = Mapping[str, Any]  # of the rows of an Acceptance
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
    outcome = acceptance.outcome
    rows = text.to_records(acceptance.rows)
    words = _describe_outcome(acceptance, outcome, rows)
    hint = _describe_rest(acceptance, outcome, rows)
    line = ""
    for listed in range(_LISTED, 0, -1):
        more = len(words) - listed
        rest = f"; {more} more" if more > 0 else ""
        line = f"{acceptance.host}: {outcome}: {'; '.join(words[:listed])}{rest}{hint}"
        if len(line) <= _LONGEST:
            break
    return line


def _describe_outcome(
    acceptance: Acceptance, outcome: Outcome, rows: Sequence[Row]
) -> list[str]:
    """Return the reasons of an outcome, the clearest first."""
    if acceptance.is_disturbed:
        return ["other work disturbed the run, measure again when the host is quiet"]
    descriptions = acceptance.descriptions
    own = [row for row in rows if row["outcome"] == outcome]
    if outcome is Outcome.AS_EXPECTED:
        named = [row for row in own if row["source"] == f"{TABLE}s"][: _LISTED - 1]
        words = [_count_numbers(own)]
    elif outcome is not Outcome.CANNOT_TELL:
        named = sorted(own, key=lambda row: row["q"] or 0.0)
        words = []
    elif rows:
        named = [row for row in rows if row["source"]][: _LISTED - 1]
        words = []
    else:
        return ["it has not measured this"]
    words += [_describe_against_expected(row, descriptions) for row in named]
    if outcome is Outcome.CANNOT_TELL:
        model = acceptance.cpu_model
        is_unknown = not words and model is not None
        none = f"no table of {model} is here; " if is_unknown else ""
        words.append(f"{none}{NEEDS}")
    return words


def _count_numbers(rows: Sequence[Row]) -> str:
    """Say how many numbers were held against how many runs, machines or tables."""
    numbers = {tuple(row[name] for name in CLASS) for row in rows}
    largest = dict[str, float | None]()
    for row in rows:
        source = row["source"].partition(":")[0]
        largest[source] = max(largest.get(source) or 0.0, row["count"] or 0.0) or None
    sources = [_name_source(source, count) for source, count in largest.items()]
    counted = format_count(len(numbers), "number")
    return f"{counted} held against {' and '.join(sources)}"


def _describe_rest(
    acceptance: Acceptance, outcome: Outcome, rows: Sequence[Row]
) -> str:
    """Return what a line ends with: what to do, and what was not judged."""
    parts = list[str]()
    if outcome is Outcome.ABOVE:
        parts.append("other settings?")
    if any(_has_open_change(row) for row in rows) and not acceptance.is_disturbed:
        command = format_command("fleet", "accept", acceptance.host, "--write")
        parts.append(f"{command} if that is to be")
    unjudged = sum(not row["source"] for row in rows)
    if outcome is Outcome.AS_EXPECTED and unjudged:
        parts.append(f"no expectation for {format_count(unjudged, 'number')}")
    if acceptance.failed >= _MANY:
        parts.append(f"{acceptance.failed:.0%} of bursts failed")
    if acceptance.flagged >= _MANY:
        parts.append(f"{acceptance.flagged:.0%} of bursts are flagged")
    if acceptance.older:
        parts.append(f"only in older runs: {', '.join(acceptance.older)}")
    if acceptance.empty:
        parts.append(f"no burst of {acceptance.empty} gave a number")
    return "".join(f"; {part}" for part in parts)


def _has_open_change(row: Row) -> bool:
    """Report whether a number is off since a change that nobody accepted."""
    is_off = row["outcome"] in (Outcome.BELOW, Outcome.ABOVE)
    return is_off and row["since"] is not None


def _name_source(source: str, count: float | None) -> str:
    if text.is_none(count):
        return source
    return format_count(int(count or 0), source.removesuffix("s"))


def _describe_against_expected(row: Row, descriptions: Descriptions) -> str:
    benchmark = descriptions[row["benchmark"]]
    name = f"{text.name_benchmark(row)} {row['relation']}"
    words = [f"{name} {text.format_value(benchmark, row['ns'])}"]
    source = _name_source(row["source"], row["count"])
    if span := _format_span(row, benchmark):
        words.append(f"expected {span} ({source})")
    if row["count"] and row["outcome"] != Outcome.BELOW:
        words.append(f"better than {row['beaten']:.0f} of {source}")
    if _has_open_change(row):
        words.append(_describe_change(row, benchmark))
    return ", ".join(words)


def _format_span(row: Row, benchmark: Benchmark) -> str:
    """Format an expected range in the unit of its benchmark; "" without a limit."""
    limits = [row["low"], row["high"]]
    if text.is_rate(benchmark):
        limits.reverse()
    low, high = (
        None if limit is None else text.format_value(benchmark, limit)
        for limit in limits
    )
    if low and high:
        return f"{low} to {high}"
    if high:
        return f"at most {high}"
    return f"at least {low}" if low else ""


def _describe_change(row: Row, benchmark: Benchmark) -> str:
    """Say since when a number is slower or faster, and by how much if that is
    proved.
    """
    word = "faster" if row["outcome"] == Outcome.ABOVE else "slower"
    words = f"{word} since {row['since']}"
    ratio = row["ratio"]
    if ratio is None:
        return words
    if text.is_rate(benchmark):
        ratio = 1 / ratio
    return f"{words}, {text.format_change(ratio - 1)}"


def acceptances_as_json(acceptances: Sequence[Acceptance]) -> str:
    """Render machines as a JSON document, with `ns`, `low` and `high` in ns, null where
    unknown.
    """
    names = ("host", "run_id", "outcome", "failed", "flagged", "older", "empty", "rows")
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
