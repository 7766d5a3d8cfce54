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
    select_rows_of_runs,
    split_cpus,
)
from fleet.analysis.reduce.cpu_choice import select_pairs_of_cpus
from fleet.store import Listing

_ONE_KIND = re.compile(r" (\w+)-\1$")  # the end of "package E-E"


def names_cpus(texts: Sequence[str]) -> bool:
    """Report whether one of these sides is some CPUs of hosts."""
    return any(split_cpus(text)[1] for text in texts)


def read_tables_of_cpus(
    root: Listing, chosen: Mapping[str, Collection[str]]
) -> tuple[dict[str, set[str]], Tables]:
    """Read the tables of sides, each with its own CPUs only. A run may be on several
    sides, with other CPUs on each: there it has an ID of its own, RUN@cpus=E.

    chosen: the IDs of the runs of each side, as stored. Return the IDs of the runs of
    each side in the tables, and the tables.
    """
    run_ids = set[str]().union(*chosen.values())
    tables = read_tables(root, run_ids)
    ids_by_side = {}
    runs = []
    cpus = []
    pairs = []
    for side, ids_of_side in chosen.items():
        _, cpu_words = split_cpus(side)
        own = _select_cpus(tables, set(ids_of_side), cpu_words)
        ids_by_side[side] = set(own.runs["run_id"])
        runs.append(own.runs)
        cpus.append(own.cpus)
        pairs.append(own.pairs)
    joined = Tables(
        pd.concat(runs, ignore_index=True),
        pd.concat(cpus, ignore_index=True),
        pd.concat(pairs, ignore_index=True),
        tables.descriptions,
    )
    return ids_by_side, joined


def _select_cpus(tables: Tables, run_ids: set[str], cpu_words: str) -> Tables:
    """Return the rows of these runs that are of some CPUs. Their run IDs become those
    of the side: "RUN" -> "RUN@cpus=E". cpu_words: which CPUs, such as "E" or "0-7";
    empty: all, and run IDs stay.
    """
    runs = select_rows_of_runs(tables.runs, run_ids)
    cpus = select_rows_of_runs(tables.cpus, run_ids)
    pairs = select_rows_of_runs(tables.pairs, run_ids)
    if not cpu_words:
        return Tables(runs, cpus, pairs, tables.descriptions)
    pairs = select_pairs_of_cpus(pairs, cpus, cpu_words)
    measured = {*pairs["ping_cpu"], *pairs["pong_cpu"]}
    is_measured = cpus["cpu"].isin(measured)
    # so that E cores on one side and P cores on the other have equal relations
    pairs = _drop_kind_if_single(pairs)
    return Tables(
        _add_to_run_ids(runs, cpu_words),
        _add_to_run_ids(cpus[is_measured], cpu_words),
        _add_to_run_ids(pairs, cpu_words),
        tables.descriptions,
    )


def _drop_kind_if_single(pairs: pd.DataFrame) -> pd.DataFrame:
    """Drop the kind of core from the relations of pairs of two like cores if these are
    all of one kind: "package E-E" -> "package". So the pairs of E cores on one side and
    those of P cores on the other have equal relations, by which they are compared.
    """
    stored = pairs["relation"]
    relations = stored.astype(str)
    # "package E-E" ends in one kind, E; "package E-P" and "package" do not match
    matches = map(_ONE_KIND.search, relations)
    kinds = {match[1] for match in matches if match}
    if len(kinds) == 1:
        relations = relations.str.replace(_ONE_KIND, "", regex=True)
    # of the stored type again, as on sides whose relations stay
    relations = relations.astype(stored.dtype)
    return pairs.assign(relation=relations)


def _add_to_run_ids(rows: pd.DataFrame, cpu_words: str) -> pd.DataFrame:
    """Append the CPUs of a side to run IDs: "RUN" -> "RUN@cpus=E"."""
    run_ids = rows["run_id"]
    names = run_ids.astype(str) + f"@cpus={cpu_words}"
    return rows.assign(run_id=names.astype(run_ids.dtype))


def restore_run_ids(side: ComparisonSide) -> ComparisonSide:
    """Return the side with the IDs that its runs have in the store."""
    stored = [split_cpus(run_id)[0] for run_id in side.run_ids]
    return ComparisonSide(side.name, side.runs.assign(run_id=stored))
