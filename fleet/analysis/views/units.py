"""Columns of CSV and JSON in the units that are shown, beside those of times in ns."""

from collections.abc import Mapping

import pandas as pd

from fleet.analysis.base import text
from fleet.model import Descriptions


def add_values(
    rows: pd.DataFrame, names: Mapping[str, str], descriptions: Descriptions
) -> pd.DataFrame:
    """Add columns of numbers as they are shown, and `value_unit`: ns, GB/s or Gop/s.

    names: the columns to add, each with the column in ns that it comes from. Those are
    ns per unit of work. A rate is units per ns, their reciprocal: a byte per ns is
    1 GB/s.
    """
    shown = rows.copy()
    is_rate = rows["benchmark"].isin(descriptions.rates)
    for shown_name, ns_name in names.items():
        ns = rows[ns_name].astype(float)
        units_per_ns = 1 / ns
        shown[shown_name] = ns.mask(is_rate, units_per_ns)
    benchmarks = [descriptions[name] for name in rows["benchmark"]]
    shown["value_unit"] = [benchmark.rate or "ns" for benchmark in benchmarks]
    return shown


def add_limits(rows: pd.DataFrame, descriptions: Descriptions) -> pd.DataFrame:
    """Add `value`, `value_low`, `value_high` and `value_unit` to rows with `ns` and its
    limits `low` and `high`, all in ns. The added columns are as shown. The limits of a
    rate are swapped: the longest time, `high`, gives the lowest rate, `value_low`.
    """
    is_rate = rows["benchmark"].isin(descriptions.rates)
    low_ns = rows["low"]
    high_ns = rows["high"]
    ends = rows.assign(
        ns_of_low=low_ns.mask(is_rate, high_ns),
        ns_of_high=high_ns.mask(is_rate, low_ns),
    )
    names = {"value": "ns", "value_low": "ns_of_low", "value_high": "ns_of_high"}
    values = add_values(ends, names, descriptions)
    return values.drop(columns=["ns_of_low", "ns_of_high"])


def add_changes(rows: pd.DataFrame, descriptions: Descriptions) -> pd.DataFrame:
    """Add `change`, `change_low` and `change_high` to rows, as shares: the change of
    the time or, for a benchmark that is shown as a rate, of the rate.

    rows: `ratio`, `low` and `high` are the ratio of times and the ends of its interval.
    """
    changes = []
    for row in text.to_records(rows):
        change_and_limits = text.convert_change(row, descriptions)
        changes.append(change_and_limits)
    names = ["change", "change_low", "change_high"]
    table = pd.DataFrame(changes, columns=names, index=rows.index, dtype=float)
    return rows.join(table)
