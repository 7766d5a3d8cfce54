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
    are_rates = rows["benchmark"].isin(descriptions.rates)
    columns = {}
    for shown_name, ns_name in names.items():
        ns = rows[ns_name].astype(float)
        columns[shown_name] = ns.mask(are_rates, 1 / ns)
    units = [descriptions[benchmark].rate or "ns" for benchmark in rows["benchmark"]]
    return rows.assign(**columns, value_unit=units)


def add_limits(rows: pd.DataFrame, descriptions: Descriptions) -> pd.DataFrame:
    """Add `value`, `value_low`, `value_high` and `value_unit` to rows with `ns` and its
    limits `low` and `high`, all in ns. The added columns are as shown, and `value_low`
    is the lower limit also of a rate.
    """
    are_rates = rows["benchmark"].isin(descriptions.rates)
    ends = rows.assign(
        # the longest time is the lowest rate
        shortest=rows["low"].mask(are_rates, rows["high"]),
        longest=rows["high"].mask(are_rates, rows["low"]),
    )
    names = {"value": "ns", "value_low": "shortest", "value_high": "longest"}
    values = add_values(ends, names, descriptions)
    return values.drop(columns=["shortest", "longest"])


def add_changes(rows: pd.DataFrame, descriptions: Descriptions) -> pd.DataFrame:
    """Add `change`, `change_low` and `change_high`, shares of the numbers shown, to
    rows with `ratio`, `low` and `high` of times.
    """
    changes = [text.convert_change(row, descriptions) for row in text.to_records(rows)]
    names = ["change", "change_low", "change_high"]
    table = pd.DataFrame(changes, columns=names, index=rows.index, dtype=float)
    return rows.join(table)
