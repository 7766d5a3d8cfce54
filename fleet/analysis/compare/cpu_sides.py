"""Sides of a comparison that are some CPUs of a host: `pisa@cpus=E` beside
`pisa@cpus=P`. Each run stands on a side as a run of its own, with these CPUs alone.
"""

import re
from collections.abc import Collection, Mapping, Sequence

import pandas as pd

from fleet.analysis.compare.sides import (
    ComparisonSide,
    Tables,
    read_tables,
    split_cpus,
)
from fleet.analysis.reduce.cpu_choice import select_pairs_of_cpus
from fleet.store import Listing

_ONE_KIND = re.compile(r" (\w+)-\1$")


def names_cpus(texts: Sequence[str]) -> bool:
    """Report whether one of these sides is some CPUs of hosts."""
    return any(split_cpus(text)[1] for text in texts)


def read_tables_of_cpus(
    root: Listing, chosen: Mapping[str, Collection[str]]
) -> tuple[dict[str, set[str]], Tables]:
    """Read the tables of sides, each with its own CPUs. Return the IDs by which they
    know the runs of each side, and the tables. chosen: the IDs of the runs by side.
    """
    tables = read_tables(root, set[str]().union(*chosen.values()))
    ids_by_side = {}
    parts = []
    for side, run_ids in chosen.items():
        _, words = split_cpus(side)
        own = _select_cpus(tables, set(run_ids), words)
        ids_by_side[side] = set(own.runs["run_id"])
        parts.append(own)
    joined = Tables(
        pd.concat([part.runs for part in parts], ignore_index=True),
        pd.concat([part.cpus for part in parts], ignore_index=True),
        pd.concat([part.pairs for part in parts], ignore_index=True),
        tables.descriptions,
    )
    return ids_by_side, joined


def _select_cpus(tables: Tables, run_ids: set[str], words: str) -> Tables:
    """Return the rows of these runs and CPUs, the words behind each run ID. Relations
    within one kind of core lose its name: "package E-E" -> "package".
    """
    runs = tables.runs[tables.runs["run_id"].isin(run_ids)]
    cpus = tables.cpus[tables.cpus["run_id"].isin(run_ids)]
    pairs = tables.pairs[tables.pairs["run_id"].isin(run_ids)]
    if not words:
        return Tables(runs, cpus, pairs, tables.descriptions)
    pairs = select_pairs_of_cpus(pairs, cpus, words)
    relations = pairs["relation"].astype(str)
    kinds = {match[1] for match in map(_ONE_KIND.search, relations) if match}
    if len(kinds) == 1:
        relations = relations.str.replace(_ONE_KIND, "", regex=True)
    pairs = pairs.assign(relation=relations.astype(pairs["relation"].dtype))
    measured = {*pairs["ping_cpu"], *pairs["pong_cpu"]}
    cpus = cpus[cpus["cpu"].isin(measured)]
    return Tables(
        _add_to_run_ids(runs, words),
        _add_to_run_ids(cpus, words),
        _add_to_run_ids(pairs, words),
        tables.descriptions,
    )


def _add_to_run_ids(rows: pd.DataFrame, words: str) -> pd.DataFrame:
    run_ids = rows["run_id"]
    names = run_ids.astype(str) + f"@cpus={words}"
    return rows.assign(run_id=names.astype(run_ids.dtype))


def restore_run_ids(side: ComparisonSide) -> ComparisonSide:
    """Return the side with the IDs that its runs have in the store."""
    stored = [split_cpus(run_id)[0] for run_id in side.run_ids]
    return ComparisonSide(side.name, side.runs.assign(run_id=stored))
