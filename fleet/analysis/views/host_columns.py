"""The columns of an overview: the numbers of hosts, grouped by benchmark."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pandas as pd

from fleet.analysis.base import text
from fleet.model import SHIPPED, Benchmark, Descriptions
from fleet.text import one_line, shorten_name

_RANKED_FROM = 3  # hosts; fewer need no colours


class Cell(NamedTuple):
    """The number of a host in a column, as text and in ns.

    within: the half-width of its interval: "±0.7%", "-" if unknown. rank: the place of
    the number among those of the hosts, 0 for the fastest to 1, or None where there are
    few hosts. host: the host's name.
    """

    text: str
    within: str
    rank: float | None
    host: str
    ns: float


@dataclass(frozen=True, slots=True)
class Group:
    """The columns of one benchmark, with cells by host. bursts, flagged: number and
    flagged share, by host.

    variants: each host's variant, or empty if all hosts were measured with the same.
    """

    title: str
    benchmark: Benchmark
    columns: dict[str, dict[str, Cell]]
    bursts: Mapping[Any, float]
    flagged: Mapping[Any, float]
    variants: dict[str, str] = field(default_factory=dict)

    @property
    def any_flagged(self) -> bool:
        """Report whether any burst is flagged."""
        return any(self.flagged.values())

    @property
    def hosts(self) -> list[str]:
        """Return the hosts that have a number."""
        hosts: dict[str, None] = {}
        for cells in self.columns.values():
            hosts |= dict.fromkeys(cells)
        return list(hosts)


def group_columns(
    table: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> list[Group]:
    """Group columns by benchmark, then by variant if a host has several, and by
    `about`: the settings that the number is for, such as "random" of chase. table: from
    `summarize_hosts`.
    """
    # the variant of each row, "" where no host has several
    variant_if_several = _find_variants_to_separate(table)
    keys = ["benchmark", variant_if_several, "about"]
    groups = []
    for (name, *_), rows in table.groupby(keys, sort=False):
        benchmark = descriptions[str(name)]
        groups.append(_make_group(rows, benchmark))
    return groups


def _find_variants_to_separate(table: pd.DataFrame) -> "pd.Series[Any]":
    """Return each row's variant, or "" where no host has several, so that all hosts are
    in one group.
    """
    by_host = table.groupby(["benchmark", "about", "host_id"], sort=False)
    counts = by_host["variant"].transform("nunique")
    counts_by_group = counts.groupby([table["benchmark"], table["about"]])
    max_count = counts_by_group.transform("max")
    return table["variant"].where(max_count > 1, "")


def _make_group(rows: pd.DataFrame, benchmark: Benchmark) -> Group:
    """Return the group of one benchmark.

    rows: of `summarize_hosts`, a row per host and column. Hosts may have different
    variants, such as cmpxchg and lse, but each host has only one variant in a group.
    """
    by_host = rows.groupby("host_id", sort=False)
    bursts = by_host["bursts"].sum()
    flagged_bursts = by_host["flagged_bursts"].sum()
    names = rows["variant"].unique().tolist()
    variants = {}
    if len(names) > 1:
        variants = dict(zip(rows["host_id"], rows["variant"], strict=True))
    return Group(
        title=_write_title(rows, names),
        benchmark=benchmark,
        columns=_make_columns(rows, benchmark),
        bursts=bursts.to_dict(),
        flagged=(flagged_bursts / bursts).to_dict(),
        variants=variants,
    )


def _write_title(rows: pd.DataFrame, variants: Iterable[str]) -> str:
    """Name a group: "chase/mov random", "cas/cmpxchg or lse"."""
    first = rows.iloc[0]
    choice = f"{first['benchmark']}/{' or '.join(variants)}".rstrip("/")
    return f"{choice} {first['about']}".rstrip()


def _make_columns(
    rows: pd.DataFrame, benchmark: Benchmark
) -> dict[str, dict[str, Cell]]:
    ordered = rows.sort_values("place", kind="stable")
    columns = {}
    for relation, part in ordered.groupby("relation", sort=False):
        columns[str(relation)] = _make_cells(part, benchmark)
    return columns


def _make_cells(rows: pd.DataFrame, benchmark: Benchmark) -> dict[str, Cell]:
    """Return the cell of each host in a column, by the host's ID. rows: of
    `summarize_hosts`, one for each host. The rank of a cell is the place of its number
    among those of the hosts: 0 for the fastest to 1, None where there are few hosts.
    """
    numbers = rows[["host_id", "host_name", "median_ns", "half"]]
    ranks = _rank_hosts(rows["median_ns"])
    cells = {}
    for row, rank in zip(text.to_records(numbers), ranks, strict=True):
        ns = row["median_ns"]
        cells[row["host_id"]] = Cell(
            text=text.format_value(benchmark, ns),
            within=text.format_half_width(row["half"]),
            rank=rank,
            host=shorten_name(one_line(row["host_name"])),
            ns=ns,
        )
    return cells


def _rank_hosts(ns: "pd.Series[float]") -> list[float | None]:
    """Rank the numbers of hosts, 0 for the fastest to 1; equal numbers share their mean
    rank. None where there are few hosts.
    """
    if len(ns) < _RANKED_FROM:
        return [None] * len(ns)
    places = ns.rank(method="average") - 1
    return [*(places / (len(ns) - 1))]
