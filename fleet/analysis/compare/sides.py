"""Find the runs of the sides of a comparison, or of one selection; `selection` explains
the syntax.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import pandas as pd

from fleet.analysis.base.selection import match_runs, select_like_last_run
from fleet.analysis.compare.judge import assign_passes
from fleet.analysis.reduce import load
from fleet.analysis.reduce.matrices import (
    ESTIMATOR_COLUMNS,
    choose_number_column,
)
from fleet.analysis.reduce.numbers import (
    NUMBER_COLUMNS,
    Only,
    load_pair_numbers,
    select_numbers,
)
from fleet.errors import StoreError, UsageError
from fleet.model import Descriptions
from fleet.store import Listing
from fleet.store.runs import Root, open_listing

NOTHING = "these runs have no latencies between CPUs and no levels of memory to compare"
BY_TIME = "time"
# of pairs, that are compared
_NUMBERS = (
    *ESTIMATOR_COLUMNS.values(),
    "other_ns",
    "other_share",
)
# of runs, that a comparison uses; the last two are added by it
_RUN_COLUMNS = (
    *("run_id", "session_id", "host_id", "started_utc", "state"),
    *("preset", "estimator", "clock", "benchmarks", "labels_json"),
    *("cpu_model", "cpus_measured", "load_1m_before", "failed_bursts"),
    *("topology", "turn"),
)


_CPUS = "@cpus="


def split_cpus(text: str) -> tuple[str, str]:
    """Split the text of a side into the selection of runs and the CPUs: "pisa@cpus=E"
    -> ("pisa", "E"), "pisa" -> ("pisa", ""). Raises UsageError if one of them is
    missing.
    """
    selection, mark, cpu_words = text.partition(_CPUS)
    if mark and not (selection and cpu_words):
        raise UsageError(
            f"side {text!r}: write a host and its CPUs, as pisa@cpus=E or"
            " pisa@cpus=0-7."
        )
    return selection, cpu_words


@dataclass(frozen=True)
class ComparisonSide:
    """One side: its name on the command line, and its rows of the `runs` table, oldest
    first, with the columns that comparisons use.
    """

    name: str
    runs: pd.DataFrame

    @cached_property
    def hosts(self) -> list[str]:
        """Return the IDs of the hosts of its runs."""
        return sorted(set(self.runs["host_id"]))

    @cached_property
    def run_ids(self) -> list[str]:
        """Return the IDs of its runs."""
        return list(self.runs["run_id"])

    @property
    def stored_run_ids(self) -> set[str]:
        """Return the IDs that its runs have in the store: without @cpus=…."""
        return {split_cpus(run_id)[0] for run_id in self.run_ids}

    def list_texts(self, name: str) -> list[str]:
        """List a column of text of its runs, empty where unknown."""
        texts = []
        for value in self.runs[name].tolist():
            text = value if isinstance(value, str) else ""
            texts.append(text)
        return texts

    def list_cpu_models(self) -> list[str]:
        """List the CPU models of its runs that are known, each once."""
        models = dict.fromkeys(self.list_texts("cpu_model"))
        return [model for model in models if model]

    def list_estimators(self) -> list[dict[str, str]]:
        """List the preset and the estimator of each run, empty where unknown."""
        presets = self.list_texts("preset")
        estimators = self.list_texts("estimator")
        rows = []
        for preset, estimator in zip(presets, estimators, strict=True):
            rows.append({"preset": preset, "estimator": estimator})
        return rows

    @property
    def turns(self) -> dict[str, tuple[str, int]]:
        """Return the turn of each run by its ID: the session, and the run's index among
        those of its host there.
        """
        return dict(zip(self.run_ids, self.runs["turn"], strict=True))

    @property
    def name_without_host(self) -> str:
        """Return the name without a leading `HOST@`, which `split_by_host` adds."""
        return self.name.removeprefix(f"{self.hosts[0]}@")

    def split_by_host(self) -> dict[str, "ComparisonSide"]:
        """Return a side of the runs on each host, named host@side, by host."""
        sides = dict[str, ComparisonSide]()
        for host, runs in self.runs.groupby("host_id"):
            name = self.name
            if not name.startswith(f"{host}@"):
                name = f"{host}@{name}"
            own_runs = runs.reset_index(drop=True)
            sides[str(host)] = ComparisonSide(name, own_runs)
        return sides


@dataclass(frozen=True, slots=True)
class Tables:
    """Rows of the tables `runs`, `cpus` and `pairs` (as float64), and descriptions of
    their benchmarks.
    """

    runs: pd.DataFrame
    cpus: pd.DataFrame
    pairs: pd.DataFrame
    descriptions: Descriptions


def select_rows_of_runs(rows: pd.DataFrame, run_ids: Collection[str]) -> pd.DataFrame:
    """Return the rows of a table that are of these runs."""
    is_of_run = rows["run_id"].isin(run_ids)
    return rows[is_of_run]


def read_tables(root: Root, run_ids: Collection[str]) -> Tables:
    """Read the tables of these runs."""
    listing = open_listing(root)
    summaries = load.list_published(listing, run_id=run_ids)
    descriptions = load.merge_descriptions(summaries)
    pairs = load_pair_numbers(listing, summaries, descriptions, *_NUMBERS)
    runs, cpus = load.load_runs_and_cpus(listing, run_id=run_ids)
    return Tables(runs, cpus, pairs, descriptions)


def resolve_sides(root: Root, texts: Sequence[str]) -> list[ComparisonSide]:
    """Return the sides that `texts` name. Raises UsageError if a side has no run, or
    two share one.
    """
    listing = open_listing(root)
    chosen = match_sides(listing, texts)
    run_ids = set[str]().union(*chosen.values())
    runs = load.load_runs(listing, run_id=run_ids)
    return select_sides(chosen, runs)


def match_sides(root: Root, texts: Sequence[str]) -> dict[str, set[str]]:
    """Return the IDs of the runs of each side, by the text of the side. Raises
    UsageError if a side has no run, or if two sides share a run with the same CPUs.
    """
    listing = open_listing(root)
    for text in sorted(texts):
        if texts.count(text) > 1:
            raise UsageError(
                f"the side {text!r} is named twice; a side cannot be compared with"
                f" itself. Kinds of cores are sides as {text}@cpus=E {text}@cpus=P."
            )
    chosen = dict[str, set[str]]()
    for text in texts:
        selection, _ = split_cpus(text)
        chosen[text] = match_runs(listing.runs, selection, listing)
    for name, run_ids in chosen.items():
        if not run_ids:
            raise UsageError(
                f"side {name!r}: no stored run is of it. `fleet runs` lists all."
            )
    _require_disjoint(chosen)
    return chosen


def _require_disjoint(chosen: Mapping[str, set[str]]) -> None:
    """Raise UsageError if two sides share a run with the same CPUs, or with all CPUs.
    Sides of unlike CPUs may share runs: then CPUs of one run are compared.
    """
    for name, other in combinations(chosen, 2):
        shared = sorted(chosen[name] & chosen[other])
        _, cpus = split_cpus(name)
        _, other_cpus = split_cpus(other)
        if shared and cpus == other_cpus:
            raise UsageError(
                f"run {shared[0]} is on both sides, {name!r} and {other!r}; a run"
                " cannot be compared with itself. Make one of them narrower."
            )


def select_sides(
    chosen: Mapping[str, Collection[str]], runs: pd.DataFrame
) -> list[ComparisonSide]:
    """Make the sides that `match_sides` chose from rows of `runs`. Raises StoreError if
    a side has no row.
    """
    runs = runs.filter([*_RUN_COLUMNS])
    texts: pd.DataFrame = runs.select_dtypes("string")
    # as plain texts, since Arrow's texts are slow to split by host
    runs = runs.astype(dict.fromkeys(texts.columns, object))
    sides = []
    for name, run_ids in chosen.items():
        own = select_rows_of_runs(runs, run_ids)
        if own.empty:
            raise StoreError(
                f"side {name!r}: none of its runs can be read; `fleet verify` says why."
            )
        side = ComparisonSide(name, own.reset_index(drop=True))
        sides.append(side)
    return sides


def assign_blocks(a: ComparisonSide, b: ComparisonSide, by: str) -> dict[str, object]:
    """Return the block of each run, by run ID. If `by` is "time", a block is a pass,
    runs of both sides one after another in time, numbered from 0; else it is the value
    of the label `by`. Runs of blocks that have one side only are left out. Raises
    UsageError if no run is left.
    """
    runs_of_a = a.runs.assign(is_b=False)
    runs_of_b = b.runs.assign(is_b=True)
    runs = pd.concat([runs_of_a, runs_of_b])
    runs = runs.sort_values(["started_utc", "run_id"], kind="stable")
    if by == BY_TIME:
        runs["block"] = assign_passes(runs["is_b"].to_numpy())
    else:
        runs["block"] = list(_read_label_values(runs, by))
    sides_of_block = runs.groupby("block")["is_b"].transform("nunique")
    in_blocks = runs[sides_of_block == 2]
    if in_blocks.empty:
        raise UsageError(
            f"--blocks {by}: no block has runs of both sides, {a.name!r} and"
            f" {b.name!r}."
        )
    return dict(zip(in_blocks["run_id"], in_blocks["block"], strict=True))


def _read_label_values(runs: pd.DataFrame, name: str) -> Iterator[str]:
    """Yield the value of a label of each run. Raises UsageError if a run lacks it."""
    for run_id, labels in zip(runs["run_id"], runs["labels_json"], strict=True):
        value = json.loads(labels).get(name)
        if value is None:
            raise UsageError(
                f"--blocks {name}: run {run_id} has no label {name!r}; label it, or use"
                " time."
            )
        yield str(value)


def read_selected_runs(
    root: Root, texts: Sequence[str], benchmark: str | None
) -> tuple[Listing, pd.DataFrame, pd.DataFrame]:
    """Return the listing, and the rows of the tables `runs` and `cpus` of each host's
    selected runs that are comparable with its last one. Raises UsageError if there are
    none.
    """
    listing = open_listing(root)
    summaries = select_like_last_run(listing, texts, benchmark)
    run_ids = [run.run_id for run in summaries]
    runs, cpus = load.load_runs_and_cpus(listing, run_id=run_ids)
    return listing, runs, cpus


@dataclass(frozen=True, slots=True)
class RunNumbers:
    """Rows of the table `numbers` of some runs. Their `median_ns` is the number to
    compare: the median over the pairs of `column`, the column of the table `pairs` that
    holds the estimator that all of the runs share, such as "min_ns".
    """

    listing: Listing
    only: Only
    rows: pd.DataFrame
    column: str
    descriptions: Descriptions

    @classmethod
    def read(cls, listing: Listing, runs: pd.DataFrame, only: Only) -> "RunNumbers":
        """Read the numbers of the runs that these rows of the table `runs` stand for.
        Raises UsageError if the runs have no numbers.
        """
        pair_column = choose_number_column(runs)
        summaries = load.list_published(listing, run_id=runs["run_id"])
        descriptions = load.merge_descriptions(summaries)
        rows = select_numbers(listing, summaries, only, descriptions)
        if rows.empty:
            raise UsageError(f"{NOTHING}; `fleet runs` lists what each run has.")
        # the column of the table `numbers`: the median of `pair_column` over pairs
        number_column = NUMBER_COLUMNS[pair_column]
        # from here on, `median_ns` holds the number to compare, by whichever estimator
        rows["median_ns"] = rows[number_column]
        return cls(listing, only, rows, pair_column, descriptions)

    def load_pairs(self, runs: pd.DataFrame, cpus: pd.DataFrame) -> pd.DataFrame:
        """Load the pairs behind the numbers of some of the runs."""
        summaries = load.list_published(self.listing, run_id=runs["run_id"])
        pairs = load_pair_numbers(
            self.listing, summaries, self.descriptions, self.column
        )
        return self.only.select(pairs, cpus)
