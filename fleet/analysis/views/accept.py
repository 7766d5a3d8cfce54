"""Text, JSON and CSV of `fleet accept`: a line per machine, fit for a log or a scheduler's reason."""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.compare.accept import TABLE, Acceptance, Outcome
from fleet.analysis.compare.side_runs import CLASS
from fleet.errors import UsageError
from fleet.model import Descriptions
from fleet.text import format_count, one_line

_LISTED = 3  # numbers of a machine
_MANY = 0.1  # of the bursts of a run: was the host busy?
_LONGEST = 240  # characters of a line, if there is a choice
NEEDS = "a number needs 3 earlier runs, 3 other equal machines or tables, or a range in expected.yaml"


def acceptances_text(found: Sequence[Acceptance]) -> str:
    """Render a line per machine, its outcome and why, then the units."""
    lines = [one_line(acceptance_line(acceptance)) for acceptance in found]
    rows = pd.concat([acceptance.rows for acceptance in found])
    named = rows[rows["outcome"].isin([Outcome.BELOW, Outcome.ABOVE])]["benchmark"].unique()
    if len(named):
        units = text.describe_units(named, found[0].descriptions)
        lines += ["", f"{units}. Expected: where 19 of 20 such machines or runs are."]
    return "\n".join(lines)


def acceptance_line(acceptance: Acceptance) -> str:
    """Compare a machine's last run with what is expected of it, in one line."""
    rows, outcome = acceptance.rows, acceptance.outcome
    named = rows[rows["outcome"] == outcome] if outcome in (Outcome.BELOW, Outcome.ABOVE) else rows[:0]
    words = list(_describe_rows(named.sort_values("q", na_position="first"), acceptance.descriptions))
    if outcome is Outcome.AS_EXPECTED:
        judged = rows[rows["outcome"] == outcome]
        count = format_count(len(judged.drop_duplicates(CLASS)), "number")
        placed = judged[judged["source"] == f"{TABLE}s"]
        words = [f"{count} held against {' and '.join(_name_sources(judged))}"]
        words += _describe_rows(placed[: _LISTED - 1], acceptance.descriptions)
    elif outcome is Outcome.CANNOT_TELL and rows.empty:
        words = ["it has not measured this"]
    elif outcome is Outcome.CANNOT_TELL:
        placed = rows[rows["source"] != ""]
        none = (
            f"no table of {acceptance.cpu_model} is here; " if placed.empty and acceptance.cpu_model else ""
        )
        words = [*_describe_rows(placed[: _LISTED - 1], acceptance.descriptions), f"{none}{NEEDS}"]
    hint = "; other settings?" if outcome is Outcome.ABOVE else ""
    hint += f"; {acceptance.failed:.0%} of bursts failed" if acceptance.failed >= _MANY else ""
    hint += f"; {acceptance.flagged:.0%} of bursts are flagged" if acceptance.flagged >= _MANY else ""
    for listed in range(_LISTED, 0, -1):
        more = len(words) - listed
        rest = f"; {more} more" if more > 0 else ""
        line = f"{acceptance.host}: {outcome}: {'; '.join(words[:listed])}{rest}{hint}"
        if len(line) <= _LONGEST:
            break
    return line


def _name_sources(rows: pd.DataFrame) -> list[str]:
    """Return each kind of expectation once, with its largest number of runs or machines."""
    kinds = rows["source"].str.partition(":")[0]
    largest = rows["count"].groupby(kinds, sort=False).max()
    return [_name_source(str(kind), count) for kind, count in largest.items()]


def _name_source(source: str, count: float | None) -> str:
    return source if text.is_none(count) else format_count(int(count or 0), source.removesuffix("s"))


def _describe_rows(rows: pd.DataFrame, descriptions: Descriptions) -> Iterator[str]:
    for row in text.to_records(rows):
        benchmark = descriptions[row["benchmark"]]
        limits = [row["low"], row["high"]]
        if text.is_rate(benchmark):
            limits.reverse()
        low, high = (None if limit is None else text.format_value(benchmark, limit) for limit in limits)
        span = f"{low} to {high}" if low and high else f"at most {high}" if high else f"at least {low}"
        words = [f"{text.name_kind(row)} {row['relation']} {text.format_value(benchmark, row['ns'])}"]
        if low or high:
            words.append(f"expected {span} ({_name_source(row['source'], row['count'])})")
        if row["count"] and (row["outcome"] != Outcome.BELOW):
            words.append(f"better than {row['beaten']:.0f} of {_name_source(row['source'], row['count'])}")
        yield ", ".join(words)


def acceptances_json(found: Sequence[Acceptance]) -> str:
    """Render a list of machines; `ns`, `low` and `high` in ns, null where unknown."""
    machines: list[dict[str, Any]] = [
        {
            "host": acceptance.host,
            "run_id": acceptance.run_id,
            "outcome": acceptance.outcome,
            "failed": acceptance.failed,
            "flagged": acceptance.flagged,
            "rows": acceptance.rows,
        }
        for acceptance in found
    ]
    return text.format_document("accept", machines)


def acceptances_csv(found: Sequence[Acceptance]) -> str:
    """Render a row per machine, number and expectation."""
    parts = []
    for acceptance in found:
        rows = acceptance.rows.copy()
        rows.insert(0, "host", acceptance.host)
        rows.insert(1, "run_id", acceptance.run_id)
        parts.append(rows)
    return text.format_csv(pd.concat(parts)).rstrip("\n")


def propose_ranges(found: Sequence[Acceptance]) -> str:
    """Render expected.yaml: by CPU model, the ranges that these machines were held against.

    Machines below them are left out. Raises UsageError without ranges.
    """
    lines = ["# Ranges in the units of `fleet show` (docs/accepting.md). The first that applies counts."]
    good = [acceptance for acceptance in found if acceptance.outcome is not Outcome.BELOW]
    for model in dict.fromkeys(acceptance.cpu_model for acceptance in good if acceptance.cpu_model):
        same_model = [acceptance for acceptance in good if acceptance.cpu_model == model]
        rows = pd.concat([acceptance.rows for acceptance in same_model]).dropna(subset=["low", "high"])
        if rows.empty:
            continue
        lines.append(f"- cpu_model: {json.dumps(model.replace('[', '[[]'), ensure_ascii=False)}")
        for (benchmark, variant), own in rows.groupby(["benchmark", "variant"], sort=False):
            lines.append(f"  {benchmark}/{variant}:")
            for relation, spans in own.groupby("relation", sort=False):
                limits = [spans["low"].min(), spans["high"].max()]
                if text.is_rate(same_model[0].descriptions[str(benchmark)]):
                    limits = [1 / limit for limit in reversed(limits)]
                lines.append(
                    f"    {relation}: {_round(limits[0], math.floor)} to {_round(limits[1], math.ceil)}"
                )
    if len(lines) == 1:
        raise UsageError(f"no ranges to write: {NEEDS}.")
    return "\n".join(lines) + "\n"


def _round(value: float, towards: Callable[[float], int]) -> str:
    """Format a positive number with three digits, rounded down or up."""
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{towards(value / step) * step:.{max(0, -math.floor(math.log10(step)))}f}"
