"""Sort the hosts of an overview, and say by what."""

import numpy as np
import pandas as pd

from fleet.analysis.reduce.cells import list_names
from fleet.errors import UsageError
from fleet.text import quote_short

_FEW_HOSTS = 2  # up to so many, the order needs no words
_HOST = "host"
_RUNS = "runs"


def sort_hosts(
    table: pd.DataFrame, column: str | None = None
) -> tuple[pd.DataFrame, str]:
    """Sort hosts; return their names and runs by ID, and the order in words, "" where
    two hosts need none.

    table: from `summarize_hosts`. column: "host", "runs", or a column of numbers such
    as "smt" or "chase mem", the fastest first; hosts without that number come last.
    None: the fastest first by all columns, which is by the geometric mean of each of
    its numbers divided by the median of the column. Raises UsageError for another
    column.
    """
    hosts = _list_hosts(table)
    if column is None:
        by_all_columns = _sort_by(hosts, _rate_hosts(table))
        if len(hosts) <= _FEW_HOSTS:
            return by_all_columns, ""
        return by_all_columns, "the fastest first, by the mean over all columns"
    if column == _HOST:
        return hosts.sort_values("host_name", kind="stable"), "by name"
    if column == _RUNS:
        by_runs = hosts.sort_values("runs", ascending=False, kind="stable")
        return by_runs, "the most runs first"
    whole_name, numbers = _find_numbers(table, column)
    return _sort_by(hosts, numbers), f"the fastest first, by {whole_name}"


def _list_hosts(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row per host, by its ID: its name, and of how many runs it has a
    number.
    """
    by_host = table.groupby("host_id", sort=False)
    names = by_host["host_name"].first()
    runs = by_host["runs"].max()
    return pd.DataFrame({"host_name": names, "runs": runs})


def _sort_by(hosts: pd.DataFrame, numbers: "pd.Series[float]") -> pd.DataFrame:
    """Sort hosts by a number of each; those without it come last."""
    order = numbers.reindex(hosts.index).sort_values(kind="stable")
    return hosts.loc[order.index]


def _rate_hosts(table: pd.DataFrame) -> "pd.Series[float]":
    """Return the mean logarithm of each host's numbers relative to the median of their
    column.
    """
    columns = table.groupby(["benchmark", "about", "relation"])
    middle_ns = columns["median_ns"].transform("median")
    rated = table.assign(log=np.log(table["median_ns"] / middle_ns))
    by_host = rated.groupby("host_id", sort=False)
    return by_host["log"].mean()


def _find_numbers(table: pd.DataFrame, column: str) -> tuple[str, "pd.Series[float]"]:
    """Find a column by one of its names: its relation "mem", its short name "chase mem"
    or its whole name "chase random mem". If several columns have that name, take the
    first. Return the whole name of the column, and by host the fastest of its numbers:
    a host that measured several variants has one of each.
    """
    title = " ".join(column.split())
    # three names of each row's column: `relation`, `short` and `whole`
    names_of_rows = _name_columns(table)
    is_named = (names_of_rows == title).any(axis="columns")
    if not is_named.any():
        choices = [_HOST, _RUNS, *names_of_rows["short"].unique()]
        raise UsageError(
            f"--sort {quote_short(column)}: there is no such column. There are"
            f" {list_names(choices)}."
        )
    whole_name = str(names_of_rows.loc[is_named, "whole"].iloc[0])
    rows_of_column = table[names_of_rows["whole"] == whole_name]
    fastest_ns = rows_of_column.groupby("host_id")["median_ns"].min()
    return whole_name, fastest_ns


def _name_columns(table: pd.DataFrame) -> pd.DataFrame:
    """Return the three names of each row's column: `relation` "mem", `short` "chase
    mem" and `whole` "chase random mem".
    """
    relation = table["relation"]
    benchmark = table["benchmark"]
    setting = benchmark.str.cat(table["about"], sep=" ").str.rstrip()
    return pd.DataFrame(
        {
            "relation": relation,
            "short": benchmark.str.cat(relation, sep=" "),
            "whole": setting.str.cat(relation, sep=" "),
        }
    )
