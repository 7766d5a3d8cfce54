"""Select pairs of CPUs by words: numbers, kinds of cores, and what two CPUs share."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import Bools
from fleet.analysis.base.text import to_records
from fleet.analysis.reduce.topology import find_core_kinds
from fleet.errors import UsageError
from fleet.model import (
    CORES,
    KINDS,
    Relation,
    is_relation,
    relation_sort_key,
    take_one_of_each_core,
)
from fleet.plan.cpulist import format_cpus
from fleet.plan.grammars import CPU_NUMBERS
from fleet.plan.options import parse_option
from fleet.text import quote_short


class CpuChoice(NamedTuple):
    """What the option -c chooses. numbers: of CPUs. groups: kinds of cores ("P"), and
    CORES for one CPU of each core. relations: what a pair shares, "llc" or "package
    P-E".
    """

    numbers: frozenset[int]
    groups: frozenset[str]
    relations: frozenset[str]

    @property
    def names_cpus(self) -> bool:
        """Report whether the choice names CPUs, not only what they share."""
        return bool(self.numbers or self.groups)

    def find_cpus(self, cpus: pd.DataFrame) -> set[int]:
        """Return the CPUs of one run that the choice names. cpus: the run's rows of
        `cpus`. Numbers are returned even if the run has no such CPU.
        """
        named_cpus = set(self.numbers)
        if CORES in self.groups:
            rows = to_records(cpus[["cpu", "package", "core"]])
            cores = [(row["cpu"], row["package"], row["core"]) for row in rows]
            named_cpus.update(take_one_of_each_core(cores))
        for cpu, kind in find_core_kinds(cpus).items():
            if kind in self.groups:
                named_cpus.add(cpu)
        return named_cpus

    def has_relation(self, relation: str) -> bool:
        """Report whether pairs of this relation are chosen: "package P-E" is, if
        "package" or "package P-E" is named, or no relation.
        """
        if not self.relations:
            return True
        place, _, _ = relation.partition(" ")
        return relation in self.relations or place in self.relations


def select_pairs_of_cpus(
    pairs: pd.DataFrame, cpus: pd.DataFrame, text: str
) -> pd.DataFrame:
    """Select the pairs of which both CPUs are named by a list, and that share what the
    list names.

    text: the list. "0-7" selects the pairs of CPUs 0 to 7, "E,P" those of cores of
    these kinds, "llc" the pairs that share a last-level cache, "P,cluster" the pairs of
    P cores that share a cluster. cpus: of the same runs. Raises UsageError if no pair
    matches; its message lists what was measured.
    """
    choice = _parse_choice(text, pairs, cpus)
    is_selected = pairs["relation"].map(choice.has_relation).astype(bool)
    if choice.names_cpus:
        is_selected &= _are_both_named(pairs, cpus, choice)
    selected_pairs = pairs[is_selected]
    if selected_pairs.empty:
        raise UsageError(
            f"CPUs {text}: nothing was measured on such CPUs alone; there are"
            f" {_list_choices(pairs, cpus)}."
        )
    return selected_pairs


def _parse_choice(text: str, pairs: pd.DataFrame, cpus: pd.DataFrame) -> CpuChoice:
    """Parse the words of -c: "0-7,P,llc" names CPUs 0 to 7, the kind of core P, and the
    relation llc; "cores" names one CPU of each core. Raises UsageError for a word that
    is none of these; its message lists what `pairs` and `cpus` have.
    """
    numbers = set[int]()
    groups = set[str]()
    relations = set[str]()
    for item in text.split(","):
        word = item.strip()
        if word[:1].isdigit():
            numbers.update(parse_option("CPUs", word, CPU_NUMBERS))
        elif word in KINDS or word == CORES:
            groups.add(word)
        elif is_relation(word):
            relations.add(word)
        else:
            raise UsageError(
                f"CPUs {text}: {quote_short(word)} is neither CPU numbers, a kind of"
                f" core, `{CORES}` nor what two CPUs share; there are"
                f" {_list_choices(pairs, cpus)}."
            )
    return CpuChoice(frozenset(numbers), frozenset(groups), frozenset(relations))


def _are_both_named(
    pairs: pd.DataFrame, cpus: pd.DataFrame, choice: CpuChoice
) -> Bools:
    """Report for each pair whether the choice names both of its CPUs. A word such as
    "P" may name other CPUs in another run, so that they are found run by run.
    """
    cpus_by_run = dict[object, set[int]]()
    for run_id, rows in cpus.groupby("run_id", sort=False):
        cpus_by_run[run_id] = choice.find_cpus(rows)
    no_cpus = set[int]()
    are_both_named = []
    pairs_of_runs = zip(
        pairs["run_id"], pairs["ping_cpu"], pairs["pong_cpu"], strict=True
    )
    for run_id, ping, pong in pairs_of_runs:
        named_cpus = cpus_by_run.get(run_id, no_cpus)
        are_both_named.append(ping in named_cpus and pong in named_cpus)
    return np.array(are_both_named, dtype=bool)


def _list_choices(pairs: pd.DataFrame, cpus: pd.DataFrame) -> str:
    """List what was measured: "CPUs 0-15; kinds of cores P, E; smt, llc, package"."""
    measured_cpus = {*pairs["ping_cpu"], *pairs["pong_cpu"]}
    kinds = set[str]()
    for _, rows in cpus.groupby("run_id", sort=False):
        kinds.update(find_core_kinds(rows).values())
    fastest_first = [kind for kind in KINDS if kind in kinds]
    places = _list_places(pairs["relation"].unique())
    parts = [f"CPUs {format_cpus(measured_cpus)}"]
    if fastest_first:
        parts.append(f"kinds of cores {', '.join(fastest_first)}")
    if places:
        parts.append(", ".join(places))
    return "; ".join(parts)


def _list_places(relations: Iterable[str]) -> list[str]:
    """List what two CPUs share, the nearest relation first, without kinds of cores: of
    "package", "llc P-E" and "self" -> ["llc", "package"].
    """
    places = set[str]()
    for relation in relations:
        place, _, _ = relation.partition(" ")
        places.add(place)
    places.discard(Relation.SELF)
    return sorted(places, key=relation_sort_key)
