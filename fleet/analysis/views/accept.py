"""Text, JSON and CSV of `fleet accept`: a line per machine, short enough for a
scheduler's reason field.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.base.tables import NUMBER_KEY
from fleet.analysis.compare.accept import TABLE, Acceptance, Outcome
from fleet.analysis.views.fields import select_fields
from fleet.analysis.views.units import add_limits
from fleet.errors import UsageError
from fleet.model import Benchmark, Descriptions
from fleet.text import format_command, format_count, one_line

# A row of an Acceptance: a number held against one of its expectations. Its `source` is
# "earlier runs", "equal machines", "tables", or the line of a file: "expected.yaml:3".
Row = Mapping[str, Any]
_LISTED = 3  # numbers named for each machine
# share of a run's bursts that failed or are flagged, from which on the line says so
_MANY = 0.1
_LONGEST = 240  # characters of a line, if there is a choice
WHAT_A_NUMBER_NEEDS = (
    "a number needs 3 runs before the last, 3 equal machines or 3 tables, on a virtual"
    " machine at its level, or a range in expected.yaml"
)


def render_acceptances(acceptances: Sequence[Acceptance]) -> str:
    """Render a line per machine, with the outcome and its reasons."""
    return "\n".join(
        one_line(render_acceptance(acceptance)) for acceptance in acceptances
    )


def explain_acceptances(acceptances: Sequence[Acceptance]) -> str:
    """Explain the units of the numbers that are not as expected, and the word
    "expected", below an empty line; return "" if all are as expected.

    The word is explained if a range was computed from machines or runs, so that the row
    has a `q`; a range set by hand has none.
    """
    rows = pd.concat([acceptance.rows for acceptance in acceptances])
    is_off = rows["outcome"].map(_is_off)
    off = rows[is_off]
    if off.empty:
        return ""
    descriptions = acceptances[0].descriptions
    legend = f"\n{text.describe_units(off['benchmark'].unique(), descriptions)}."
    is_predicted = off["q"].notna()
    if is_predicted.any():
        legend += " Expected: where 19 of 20 such machines or runs are."
    return legend


def render_acceptance(acceptance: Acceptance) -> str:
    """Compare a machine's last run with what is expected of it, in one line. It gives
    up to _LISTED reasons: as many as keep it within _LONGEST characters, but at least
    one.
    """
    rows = text.to_records(acceptance.rows)
    reasons = _list_reasons(acceptance, rows)
    ending = "".join(f"; {words}" for words in _list_remarks(acceptance, rows))
    beginning = f"{acceptance.host}: {acceptance.outcome}"
    line = ""
    for count in range(_LISTED, 0, -1):
        line = f"{beginning}: {_list_first(reasons, count)}{ending}"
        if len(line) <= _LONGEST:
            break
    return line


def _list_first(reasons: Sequence[str], count: int) -> str:
    """List the first reasons, and say how many more there are."""
    words = list(reasons[:count])
    more = len(reasons) - len(words)
    if more:
        words.append(f"{more} more")
    return "; ".join(words)


def _list_reasons(acceptance: Acceptance, rows: Sequence[Row]) -> list[str]:
    """Return the reasons of an outcome, the clearest first. If all is as expected, the
    first reason counts the numbers and what they were held against. After it come some
    of the numbers that were held against tables, for _LISTED reasons at most.
    """
    if acceptance.is_disturbed:
        return ["other work disturbed the run, measure again when the host is quiet"]
    outcome = acceptance.outcome
    if outcome is Outcome.CANNOT_TELL:
        return _explain_no_outcome(acceptance, rows)
    deciding = [row for row in rows if _supports_outcome(row, outcome)]
    if outcome is Outcome.AS_EXPECTED:
        against_tables = [row for row in deciding if _is_against_tables(row)]
        first_rows = against_tables[: _LISTED - 1]
        return [_count_numbers(deciding), *_describe_numbers(first_rows, acceptance)]
    surest_first = sorted(deciding, key=_get_false_alarm_chance)
    return _describe_numbers(surest_first, acceptance)


def _is_against_tables(row: Row) -> bool:
    return bool(row["source"] == f"{TABLE}s")


def _get_false_alarm_chance(row: Row) -> float:
    """Return the chance that a deviation is none; 0 for a range set by hand, which
    leaves nothing to chance.
    """
    return row["q"] or 0.0


def _explain_no_outcome(acceptance: Acceptance, rows: Sequence[Row]) -> list[str]:
    """Return the reasons why a machine cannot be judged, at most _LISTED: the numbers
    whose expectation is too uncertain to judge them, then what a number needs to be
    judged.

    rows: a row per number and expectation; `source` is "" without an expectation.
    """
    if not rows:
        return ["it has not measured this"]
    with_expectation = [row for row in rows if row["source"]]
    reasons = _describe_numbers(with_expectation[: _LISTED - 1], acceptance)
    model = acceptance.cpu_model
    # An expectation may come from a table of the CPU model. Only if no number has one,
    # such a table is surely missing.
    if with_expectation or model is None:
        reasons.append(WHAT_A_NUMBER_NEEDS)
    else:
        reasons.append(f"no table of {model} is here; {WHAT_A_NUMBER_NEEDS}")
    return reasons


def _count_numbers(rows: Sequence[Row]) -> str:
    """Say how many numbers were held against what: "8 numbers held against 5 runs and 3
    equal machines".

    Numbers of one source may have different counts; the largest stands for all. A
    source without a count is only named.
    """
    numbers = set()
    largest_counts: dict[str, float] = {}
    for row in rows:
        numbers.add(tuple(row[name] for name in NUMBER_KEY))
        # all lines of a file count as one source: "expected.yaml"
        source, _, _ = row["source"].partition(":")
        count = row["count"] or 0.0
        largest_counts[source] = max(largest_counts.get(source, 0.0), count)
    sources = []
    for source, largest_count in largest_counts.items():
        sources.append(_name_source(source, largest_count or None))
    counted = format_count(len(numbers), "number")
    return f"{counted} held against {' and '.join(sources)}"


def _list_remarks(acceptance: Acceptance, rows: Sequence[Row]) -> Iterator[str]:
    """Yield the words that a machine's line ends with: what to do, what was not judged,
    and what the run lacks.

    rows: a row per number and expectation; `source` is "" if the number has no
    expectation. acceptance.failed, flagged: shares of the run's bursts.
    acceptance.older: benchmarks that only earlier runs have. acceptance.empty: the ID
    of a later run without numbers, or None.
    """
    outcome = acceptance.outcome
    # a machine better than expected may have other settings than before
    if outcome.is_better:
        yield "other settings?"
    # a change that nobody has accepted: the command accepts it
    has_open_change = any(map(_has_open_change, rows))
    if has_open_change and not acceptance.is_disturbed:
        command = format_command("fleet", "accept", acceptance.host, "--write")
        yield f"{command} if that is to be"
    unjudged = sum(not row["source"] for row in rows)
    if outcome is Outcome.AS_EXPECTED and unjudged:
        yield f"no expectation for {format_count(unjudged, 'number')}"
    if acceptance.failed >= _MANY:
        yield f"{acceptance.failed:.0%} of bursts failed"
    if acceptance.flagged >= _MANY:
        yield f"{acceptance.flagged:.0%} of bursts are flagged"
    if acceptance.older:
        yield f"only in older runs: {', '.join(acceptance.older)}"
    empty_run_id = acceptance.empty
    if empty_run_id:
        yield f"no burst of {empty_run_id} gave a number"


def _has_open_change(row: Row) -> bool:
    """Report whether a number is off since a change that nobody accepted."""
    return _is_off(row["outcome"]) and row["since"] is not None


def _is_off(outcome: str) -> bool:
    """Report whether a number is worse or better than expected."""
    parsed = Outcome(outcome)
    return parsed.is_worse or parsed.is_better


def _supports_outcome(row: Row, outcome: Outcome) -> bool:
    """Report whether the outcome of a row is this outcome, or both are worse, or both
    are better.
    """
    own_outcome = Outcome(row["outcome"])
    if own_outcome.is_worse:
        return outcome.is_worse
    if own_outcome.is_better:
        return outcome.is_better
    return own_outcome is outcome


def _name_source(source: str, count: float | None) -> str:
    """Name a source with its count: "5 runs"; without a count, None or NaN, by its name
    alone.
    """
    if text.is_none(count):
        return source
    return format_count(int(count or 0), source.removesuffix("s"))


def _describe_numbers(rows: Sequence[Row], acceptance: Acceptance) -> list[str]:
    descriptions = acceptance.descriptions
    return [_describe_against_expected(row, descriptions) for row in rows]


def _describe_against_expected(row: Row, descriptions: Descriptions) -> str:
    """Name a number, its expected range, how many it is better than, and since when it
    has changed: "cas/c11 llc 45.9, expected 44.0 to 45.5 (8 runs), slower since
    2026-11-04".

    row: `count` is how many runs, machines or tables the range is from, None for a
    range set by hand. `beaten` is how many of these are slower. `source` is where the
    range is from.
    """
    benchmark = descriptions[row["benchmark"]]
    name = f"{text.name_benchmark(row)} {row['relation']}"
    words = [f"{name} {text.format_value(benchmark, row['ns'])}"]
    source = _name_source(row["source"], row["count"])
    span = _format_span(row, benchmark)
    if span:
        words.append(f"expected {span} ({source})")
    if row["count"] and not Outcome(row["outcome"]).is_worse:
        words.append(f"better than {row['beaten']:.0f} of {source}")
    if _has_open_change(row):
        words.append(_describe_change(row, benchmark))
    return ", ".join(words)


def _format_span(row: Row, benchmark: Benchmark) -> str:
    """Format an expected range in the unit of its benchmark; "" without a limit."""
    low = _format_limit(row["low"], benchmark)
    high = _format_limit(row["high"], benchmark)
    if text.is_rate(benchmark):
        low, high = high, low  # the longest time is the lowest rate
    if low and high:
        return f"{low} to {high}"
    if high:
        return f"at most {high}"
    return f"at least {low}" if low else ""


def _format_limit(ns: float | None, benchmark: Benchmark) -> str:
    return "" if ns is None else text.format_value(benchmark, ns)


def _describe_change(row: Row, benchmark: Benchmark) -> str:
    """Say since when a number is slower or faster, less or more: "slower since
    2026-11-04, +5.1%". The change itself is named only if it is proved: `ratio`, the
    time after it divided by that before, is else None.
    """
    words = f"{row['outcome']} since {row['since']}"
    ratio = row["ratio"]
    if ratio is None:
        return words
    if text.is_rate(benchmark):
        # twice the time is half the rate
        ratio = 1 / ratio
    return f"{words}, {text.format_change(ratio - 1)}"


def acceptances_as_json(acceptances: Sequence[Acceptance]) -> str:
    """Render machines as a JSON document: `value`, `value_low` and `value_high` as
    shown; `ns`, `low` and `high` in ns; null where unknown.
    """
    names = "host run_id outcome failed flagged older empty"
    machines = select_fields(acceptances, names)
    for machine, acceptance in zip(machines, acceptances, strict=True):
        machine["rows"] = _get_rows_as_shown(acceptance)
    return text.format_document("accept", machines)


def acceptances_as_csv(acceptances: Sequence[Acceptance]) -> str:
    """Render CSV with a row per machine, number and expectation."""
    tables = []
    for acceptance in acceptances:
        table = _get_rows_as_shown(acceptance)
        table.insert(0, "host", acceptance.host)
        table.insert(1, "run_id", acceptance.run_id)
        tables.append(table)
    return text.format_csv(pd.concat(tables)).rstrip("\n")


def _get_rows_as_shown(acceptance: Acceptance) -> pd.DataFrame:
    """Return a machine's rows, with numbers, ranges and changes as they are shown."""
    descriptions = acceptance.descriptions
    rows = add_limits(acceptance.rows, descriptions)
    is_rate = rows["benchmark"].isin(descriptions.rates)
    ratios = rows["ratio"].astype(float)  # of times; twice the time is half the rate
    ratios_shown = ratios.mask(is_rate, 1 / ratios)
    return rows.assign(change=ratios_shown - 1)


def propose_ranges(acceptances: Sequence[Acceptance]) -> str:
    """Render expected.yaml by CPU model from machines that are not worse than
    expected. Raises UsageError if empty.
    """
    by_model: dict[str, list[Acceptance]] = {}
    for acceptance in acceptances:
        if not acceptance.outcome.is_worse and acceptance.cpu_model:
            by_model.setdefault(acceptance.cpu_model, []).append(acceptance)
    lines = list[str]()
    for model, same_model in by_model.items():
        lines += _propose_ranges_of_model(model, same_model)
    if not lines:
        raise UsageError(f"no ranges to write: {WHAT_A_NUMBER_NEEDS}.")
    heading = (
        "# Ranges in the units of `fleet show` (docs/comparing.md). The first that"
        " applies counts."
    )
    return "\n".join([heading, *lines]) + "\n"


def _propose_ranges_of_model(
    model: str, acceptances: Sequence[Acceptance]
) -> Iterator[str]:
    """Yield the entry of a CPU model, line by line; nothing if no number has a range.
    acceptances: of its machines.
    """
    every = pd.concat([acceptance.rows for acceptance in acceptances])
    rows = every.dropna(subset=["low", "high"])
    if rows.empty:
        return
    pattern = model.replace("[", "[[]")  # else it would begin a set of characters
    yield f"- cpu_model: {json.dumps(pattern, ensure_ascii=False)}"
    choices = rows.groupby(["benchmark", "variant"], sort=False)
    for (benchmark, variant), own in choices:
        yield f"  {benchmark}/{variant}:"
        described = acceptances[0].descriptions[str(benchmark)]
        for relation, spans in own.groupby("relation", sort=False):
            yield f"    {relation}: {_format_range(spans, described)}"


def _format_range(spans: pd.DataFrame, benchmark: Benchmark) -> str:
    """Format a range that holds all of these, rounded outwards, in the unit shown."""
    shortest_ns = spans["low"].min()
    longest_ns = spans["high"].max()
    low = shortest_ns
    high = longest_ns
    if text.is_rate(benchmark):
        low = 1 / longest_ns
        high = 1 / shortest_ns
    return f"{_round(low, math.floor)} to {_round(high, math.ceil)}"


def _round(value: float, towards: Callable[[float], int]) -> str:
    """Format a positive number with three significant digits, rounded by `towards`,
    floor or ceil.
    """
    first_digit = math.floor(math.log10(value))  # its power of ten
    last_digit = first_digit - 2
    step = 10.0**last_digit
    rounded = towards(value / step) * step
    decimals = max(0, -last_digit)
    return f"{rounded:.{decimals}f}"
