"""The class `Results`, which `fleet.open("results")` returns. Its methods read files
when they are called.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pandas as pd

from fleet.analysis.base.dtypes import set_dtypes
from fleet.analysis.base.selection import select_runs
from fleet.analysis.base.text import is_none
from fleet.analysis.compare import comparison
from fleet.analysis.compare.history import find_changes_over_time
from fleet.analysis.compare.siblings import compare_siblings
from fleet.analysis.exchange.imports import (
    PREFIX,
    derive_cpus,
    find_summary,
    load_all_summaries,
)
from fleet.analysis.reduce import load
from fleet.analysis.reduce.heatmap import Limits
from fleet.analysis.reduce.matrices import matrix as laid_out
from fleet.analysis.reduce.numbers import Only, select_numbers
from fleet.analysis.reduce.pairs import as_float64, load_pairs
from fleet.analysis.reduce.topology import Layout, make_layout
from fleet.analysis.views.pair_bursts import load_pair_bursts
from fleet.errors import FleetError, UsageError
from fleet.model import SHIPPED, Descriptions, View
from fleet.store.runs import Listing, RunSummary, skip_damaged_runs
from fleet.text import format_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_RUNS_SHOWN = 10
_SHOWN_IN_NOTEBOOKS = [
    *("run_id", "host_name", "started_utc", "state", "benchmarks", "labels_json"),
]


class Results:
    """The runs of one results root. `selection`: as on the command line, such as "rome"
    or "kernel=6.12".

    Raises UsageError for a root that does not exist and for a selection that matches
    nothing, StoreError for files that cannot be read.
    """

    def __init__(
        self,
        root: str | Path,
        run_ids: Collection[str] | None = None,
        failures: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Open a root. run_ids: the runs to use, None for all. failures: by host, why
        it is incomplete.
        """
        self._place = Listing(root).place
        self._run_ids = run_ids
        self.failures = failures

    def __repr__(self) -> str:
        return f"Results({str(self._place)!r})"

    def _repr_html_(self) -> str:
        """Return the number of runs and a table of the last ones, for notebooks."""
        try:
            runs = self.runs()
        except FleetError as err:
            return f"<p>{escape(str(err))}</p>"
        count = format_count(len(runs), "run")
        hosts = format_count(runs["host_id"].nunique(), "host")
        last_runs = runs[_SHOWN_IN_NOTEBOOKS].tail(_RUNS_SHOWN)
        table = last_runs.to_html(index=False)
        return f"<p>{escape(repr(self))}: {count} of {hosts}</p>{table}"

    @skip_damaged_runs
    def runs(self, *selection: str) -> pd.DataFrame:
        """Return the table `runs`: a row per run, oldest first."""
        listing, _, ids = self._select(selection)
        return set_dtypes(load.load_runs(listing, run_id=ids))

    @skip_damaged_runs
    def numbers(self, *selection: str, benchmark: str | None = None) -> pd.DataFrame:
        """Return the table `numbers`: a row per run, benchmark, variant and relation,
        level of memory or point, in ns one way. benchmark: "cas/llsc".
        """
        listing, runs, _ = self._select(selection)
        descriptions = load.merge_descriptions(runs)
        numbers = select_numbers(listing, runs, Only(benchmark), descriptions)
        return _note_unit(numbers, descriptions)

    @skip_damaged_runs
    def pairs(self, *selection: str, benchmark: str | None = None) -> pd.DataFrame:
        """Return a row per run, benchmark, variant, point and pair, in ns one way.
        benchmark: "cas/llsc".
        """
        listing, runs, ids = self._select(selection)
        pairs = as_float64(load_pairs(listing, run_id=ids))
        rows = load.select_benchmark(pairs, benchmark)
        return _note_unit(rows, load.merge_descriptions(runs))

    @skip_damaged_runs
    def samples(
        self, *selection: str, benchmark: str | None = None, warmups: bool = False
    ) -> pd.DataFrame:
        """Return every sample as a row, with its burst's columns and `latency_ns`.
        warmups: keep the samples with which a burst warms up.
        """
        listing, runs, ids = self._select(selection)
        descriptions = load.merge_descriptions(runs)
        bursts = load.load_samples(listing, run_id=ids)
        bursts = load.select_benchmark(bursts, benchmark)
        samples = load.samples_long(bursts, descriptions)
        if not warmups:
            samples = samples[~samples["is_warmup"]].reset_index(drop=True)
        return _note_unit(samples, descriptions)

    @skip_damaged_runs
    def bursts(
        self, *selection: str, pair: str, benchmark: str | None = None
    ) -> pd.DataFrame:
        """Return a row per burst of a pair such as "3-17", with the columns of
        `load_pair_bursts`.
        """
        listing, runs, _ = self._select(selection)
        bursts = load_pair_bursts(listing, runs, pair, Only(benchmark))
        return _note_unit(bursts, load.merge_descriptions(runs))

    @skip_damaged_runs
    def matrix(
        self, run: str | None = None, benchmark: str | None = None
    ) -> pd.DataFrame:
        """Return the medians of a run's pairs: rows ping, columns pong, CPUs in the
        order of the topology.

        run: a selection, whose last run is taken, or "summary:NAME". benchmark: a name
        as in `-b`, such as "cas", "readwrite/ldar" or, where lines lie on a node,
        "cas n1". Default: last run, first benchmark.
        """
        return self._load_matrix(run, benchmark)[0]

    def summaries(
        self, name: str | None = None, benchmark: str | None = None
    ) -> pd.DataFrame:
        """Return the imported summaries, or the one named: a row per pair, with
        `latency_ns`.
        """
        return _note_unit(self._read_summaries(name, benchmark), SHIPPED)

    def _read_summaries(self, name: str | None, benchmark: str | None) -> pd.DataFrame:
        root = self._list()
        rows = load_all_summaries(root) if name is None else find_summary(root, name)
        return load.select_benchmark(rows, benchmark).reset_index(drop=True)

    @skip_damaged_runs
    def heatmap(
        self,
        run: str | None = None,
        benchmark: str | None = None,
        axes: "Axes | None" = None,
        *,
        limits: Limits | None = None,
    ) -> "Axes":
        """Draw the `matrix`; dark is fast. limits: ends of the colour scale; pass equal
        ones to compare.
        """
        from fleet.analysis.report import (  # noqa: PLC0415  matplotlib takes a second
            plots,
        )

        table, order = self._load_matrix(run, benchmark)
        drawn = plots.heatmap(table, order, axes, limits=limits)
        drawn.set_title(table.attrs["title"])
        return drawn

    @skip_damaged_runs
    def compare(
        self, a: str, *others: str, threshold: float | None = None
    ) -> list[comparison.Comparison]:
        """Compare each of `others` with the side `a`, as `fleet compare` does.
        threshold: 0.05 for 5 %.
        """
        comparisons = comparison.compare(
            self._list(), [a, *others], threshold=threshold
        )
        return [_set_dtypes_of_tables(compared) for compared in comparisons]

    @skip_damaged_runs
    def changes(self, *selection: str, threshold: float | None = None) -> pd.DataFrame:
        """Find changes, as `fleet compare SELECTION` does; return
        `compare.history.History.changes`.
        """
        history = find_changes_over_time(self._list(), selection, threshold=threshold)
        return set_dtypes(history.changes)

    @skip_damaged_runs
    def odd(self, *selection: str, threshold: float | None = None) -> pd.DataFrame:
        """Compare equal machines. Return the `rows` of each `Siblings`, with its number
        as `group`.
        """
        groups = compare_siblings(self._list(), selection, threshold=threshold)
        numbered = [
            group.rows.assign(group=number) for number, group in enumerate(groups)
        ]
        return set_dtypes(pd.concat(numbered, ignore_index=True))

    def _list(self) -> Listing:
        """Return the listing of the root as it is now."""
        return Listing(self._place, must_exist=True)

    def _select(
        self, selection: Sequence[str]
    ) -> tuple[Listing, list[RunSummary], list[str]]:
        """Return the listing of the root as it is now, and the runs selected, with
        their IDs.
        """
        listing = self._list()
        runs = listing.runs
        if self._run_ids is not None:
            runs = [run for run in runs if run.run_id in self._run_ids]
        runs = select_runs(runs, selection, listing)
        return listing, runs, [run.run_id for run in runs]

    def _load_matrix(
        self, run: str | None, benchmark: str | None
    ) -> tuple[pd.DataFrame, Layout]:
        """Load the matrix of a summary, "summary:NAME", or of the last run that a
        selection has; None selects all runs. Return it with the layout of its CPUs.
        """
        if run is None:
            return self._load_matrix_of_last_run([], benchmark)
        if run.startswith(PREFIX):
            return self._load_summary_matrix(run, benchmark)
        return self._load_matrix_of_last_run([run], benchmark)

    def _load_summary_matrix(
        self, name: str, benchmark: str | None
    ) -> tuple[pd.DataFrame, Layout]:
        """Load the matrix of a summary and the layout of its CPUs."""
        rows = _keep_first_choice(self._read_summaries(name, benchmark))
        rows = rows.rename(columns={"summary": "host_id", "latency_ns": "median_ns"})
        return _make_matrix(rows, derive_cpus(rows), SHIPPED)

    def _load_matrix_of_last_run(
        self, selection: Sequence[str], benchmark: str | None
    ) -> tuple[pd.DataFrame, Layout]:
        """Load the matrix of the last run selected and the layout of its CPUs."""
        listing, runs, _ = self._select(selection)
        if not runs:
            raise UsageError(
                f"{self._place}: no runs are stored here; `fleet run` measures."
            )
        last_run = runs[-1]
        run_id = last_run.run_id
        descriptions = load.merge_descriptions([last_run])
        pairs = as_float64(load_pairs(listing, run_id=run_id))
        # of the benchmarks that are shown as matrices, the one asked for or all
        is_matrix = load.get_views(pairs["benchmark"], descriptions) == View.MATRIX
        chosen = load.select_benchmark(pairs[is_matrix], benchmark)
        # a matrix shows one point, a setting of the benchmark's parameters
        rows = _keep_one_point(chosen, descriptions)
        if rows.empty:
            raise UsageError(f"{run_id}: has no pairs of CPUs.")
        cpus = load.load_cpus(listing, run_id=run_id)
        return _make_matrix(_keep_first_choice(rows), cpus, descriptions)


def _keep_first_choice(rows: pd.DataFrame) -> pd.DataFrame:
    """Keep the rows of the benchmark and variant that the first row has."""
    (first,) = load.name_benchmarks(rows.head(1))
    return load.select_choice(rows, first)


def _keep_one_point(pairs: pd.DataFrame, descriptions: Descriptions) -> pd.DataFrame:
    """Keep the usual point, as `drop_points`; if no row has it, as where lines lie on a
    node of their own, the first point there is.
    """
    usual = load.drop_points(pairs, descriptions)
    if usual.empty and not pairs.empty:
        return load.select_point(pairs, pairs["point"].iloc[0])
    return usual


def _make_matrix(
    rows: pd.DataFrame, cpus: pd.DataFrame, descriptions: Descriptions
) -> tuple[pd.DataFrame, Layout]:
    """Make a matrix of `median_ns`, with its unit and title in `attrs`, and the layout
    of its CPUs.

    rows: a row per pair of one host, benchmark, variant and point. cpus: of the same
    run or summary.
    """
    measured = {*rows["ping_cpu"], *rows["pong_cpu"]}
    order = make_layout(cpus, sorted(measured))
    table = laid_out(rows, order.cpus, "median_ns")
    host, benchmark, variant = rows[["host_id", "benchmark", "variant"]].iloc[0]
    unit = descriptions[benchmark].label
    name = f"{benchmark}/{variant}"
    point = rows["point"].iloc[0] if "point" in rows else None
    if not is_none(point):
        name += f" {point}"
    table.attrs["unit"] = unit
    table.attrs["title"] = f"{host}, {name}: {unit}"
    return table, order


def _note_unit(table: pd.DataFrame, descriptions: Descriptions) -> pd.DataFrame:
    """Return a table with the dtypes that others get, and the units of its benchmarks
    as `attrs["unit"]`.
    """
    labels = {descriptions[str(name)].label for name in table["benchmark"].unique()}
    typed = set_dtypes(table)
    typed.attrs["unit"] = ", or ".join(sorted(labels))
    return typed


def _set_dtypes_of_tables(compared: comparison.Comparison) -> comparison.Comparison:
    """Return a comparison whose tables have the types of columns that `Results` returns
    everywhere.
    """
    return replace(
        compared,
        relations=set_dtypes(compared.relations),
        pairs=set_dtypes(compared.pairs),
        fleet=set_dtypes(compared.fleet),
        levels=set_dtypes(compared.levels),
        environment=set_dtypes(compared.environment),
        unlike=set_dtypes(compared.unlike),
    )
