"""A results root as notebooks use it: `fleet.open("results")`. Everything is read when it is asked for."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pandas as pd

from fleet.analysis.base.selection import select_runs
from fleet.analysis.boundary import skip_damaged_runs
from fleet.analysis.compare.comparison import Comparison
from fleet.analysis.compare.comparison import compare as compared
from fleet.analysis.compare.history import find_changes_over_time
from fleet.analysis.compare.siblings import compare_siblings
from fleet.analysis.exchange.imports import PREFIX, find_summary, lay_out_summary, load_all_summaries
from fleet.analysis.reduce import load
from fleet.analysis.reduce.comparison_rows import Only
from fleet.analysis.reduce.heatmap import Limits
from fleet.analysis.reduce.matrices import matrix as laid_out
from fleet.analysis.reduce.pairs import as_float64, load_pairs
from fleet.analysis.reduce.topology import Layout, make_layout
from fleet.analysis.views.samples import load_pair_bursts
from fleet.errors import UsageError
from fleet.model import SHIPPED, Descriptions, View
from fleet.store.runs import Listing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Method = TypeVar("_Method", bound=Callable[..., Any])


def _skip_damaged(method: _Method) -> _Method:
    @wraps(method)
    def call(self: "Results", *arguments: Any, **named: Any) -> Any:
        return skip_damaged_runs(lambda: method(self, *arguments, **named))

    return cast("_Method", call)


class Results:
    """The runs of one results root. `selection`: as on the command line, such as "rome" or "kernel=6.12".

    Raises UsageError for a selection that matches nothing, StoreError for files that cannot be read.
    """

    def __init__(
        self,
        root: str | Path,
        run_ids: Collection[str] | None = None,
        failures: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Read a root. run_ids: only these runs; None: all. failures: why hosts are not complete, by name."""
        self._place, self._run_ids, self.failures = Listing(root).place, run_ids, failures

    def __repr__(self) -> str:
        return f"Results({str(self._place)!r})"

    @_skip_damaged
    def runs(self, *selection: str) -> pd.DataFrame:
        """Return the table `runs`: a row per run, oldest first."""
        now, ids = self._select(selection)
        return load.load_runs(now, run_id=ids)

    @_skip_damaged
    def pairs(self, *selection: str, benchmark: str | None = None) -> pd.DataFrame:
        """Return a row per run, benchmark, variant, point and pair, in ns one way.

        benchmark: `cas`, `cas/llsc`.
        """
        now, ids = self._select(selection)
        rows = as_float64(load_pairs(now, run_id=ids))
        return _note_unit(load.select_benchmark(rows, benchmark), _load_descriptions(now, ids))

    @_skip_damaged
    def samples(self, *selection: str, benchmark: str | None = None, warmups: bool = False) -> pd.DataFrame:
        """Return every sample as a row, with its burst's columns and `latency_ns`.

        warmups: keep them, marked.
        """
        now, ids = self._select(selection)
        bursts, descriptions = load.load_samples(now, run_id=ids), _load_descriptions(now, ids)
        long = load.samples_long(load.select_benchmark(bursts, benchmark), descriptions)
        return _note_unit(long if warmups else long[~long["is_warmup"]].reset_index(drop=True), descriptions)

    @_skip_damaged
    def bursts(self, *selection: str, pair: str, benchmark: str | None = None) -> pd.DataFrame:
        """Return a row per burst of a pair such as "3-17", as `fleet show --pair` shows them.

        `burst_ns` is a burst's median; `views.samples.load_pair_bursts` names the other columns.
        """
        now, ids = self._select(selection)
        runs = load.list_published(now, run_id=ids)
        return _note_unit(load_pair_bursts(now, runs, pair, Only(benchmark)), _load_descriptions(now, ids))

    @_skip_damaged
    def matrix(self, run: str | None = None, benchmark: str | None = None) -> pd.DataFrame:
        """Return the medians of a run's pairs: rows ping, columns pong, CPUs in the order of the topology.

        run: a selection, of which the last counts, or "summary:NAME"; None: all. benchmark: None: the first.
        """
        return self._load_matrix(run, benchmark)[0]

    def summaries(self, name: str | None = None, benchmark: str | None = None) -> pd.DataFrame:
        """Return the imported summaries, or the one named: a row per pair, with `latency_ns`."""
        root = Listing(self._place)
        rows = load_all_summaries(root) if name is None else find_summary(root, name)
        return _note_unit(load.select_benchmark(rows, benchmark).reset_index(drop=True), SHIPPED)

    @_skip_damaged
    def heatmap(
        self,
        run: str | None = None,
        benchmark: str | None = None,
        axes: "Axes | None" = None,
        *,
        limits: Limits | None = None,
    ) -> "Axes":
        """Draw the `matrix`, dark is fast. limits: the ends of the colour scale, to compare several."""
        from fleet.analysis.report import plots  # noqa: PLC0415  matplotlib takes a second

        table, order, title = self._load_matrix(run, benchmark)
        drawn = plots.heatmap(table, order, axes, limits=limits)
        drawn.set_title(title)
        return drawn

    @_skip_damaged
    def compare(self, a: str, *others: str, threshold: float | None = None) -> list[Comparison]:
        """Compare each further side with `a`, as `fleet compare` does; threshold: as a share."""
        return compared(Listing(self._place), [a, *others], threshold=threshold)

    @_skip_damaged
    def changes(self, *selection: str, threshold: float | None = None) -> pd.DataFrame:
        """Find changes over time, as `fleet compare SELECTION`; see `compare.history.History.changes`."""
        return find_changes_over_time(Listing(self._place), selection, threshold=threshold).changes

    @_skip_damaged
    def odd(self, *selection: str, threshold: float | None = None) -> pd.DataFrame:
        """Return how far equal machines are apart: `rows` of `compare.siblings.Siblings`.

        `odd`: a finding.
        """
        groups = compare_siblings(Listing(self._place), selection, threshold=threshold)
        return pd.concat(
            [group.rows.assign(group=number) for number, group in enumerate(groups)], ignore_index=True
        )

    def _select(self, selection: Sequence[str]) -> tuple[Listing, list[str]]:
        """Return the listing of the root as it is now, and the ids of the runs selected."""
        now = Listing(self._place)
        runs = [run for run in now.runs if self._run_ids is None or run.run_id in self._run_ids]
        return now, [run.run_id for run in select_runs(runs, selection, self._place)]

    def _load_matrix(self, run: str | None, benchmark: str | None) -> tuple[pd.DataFrame, Layout, str]:
        if run is not None and run.startswith(PREFIX):
            name = run.removeprefix(PREFIX)
            rows = _keep_first_kind(self.summaries(name, benchmark))
            return _lay_out(rows, lay_out_summary(rows), "latency_ns", name, SHIPPED)
        now, ids = self._select([run] if run is not None else [])
        if not ids:
            raise UsageError(f"{self._place}: no run is stored here.")
        descriptions = _load_descriptions(now, ids[-1:])
        rows = load.drop_points(as_float64(load_pairs(now, run_id=ids[-1])), descriptions)
        rows = rows[rows["benchmark"].map(lambda name: descriptions[name].view is View.MATRIX).astype(bool)]
        rows = load.select_benchmark(rows, benchmark)
        if rows.empty:
            raise UsageError(f"{ids[-1]}: has no pairs of CPUs.")
        rows = _keep_first_kind(rows)
        cpus = sorted({*rows["ping_cpu"], *rows["pong_cpu"]})
        order = make_layout(load.load_cpus(now, run_id=ids[-1]), cpus)
        return _lay_out(rows, order, "median_ns", rows["host_id"].iloc[0], descriptions)


def _load_descriptions(listing: Listing, run_ids: Sequence[str]) -> Descriptions:
    return load.merge_descriptions(load.list_published(listing, run_id=run_ids))


def _keep_first_kind(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[(rows[["benchmark", "variant"]] == rows[["benchmark", "variant"]].iloc[0]).all(axis=1)]


def _lay_out(
    rows: pd.DataFrame, order: Layout, number: str, name: str, descriptions: Descriptions
) -> tuple[pd.DataFrame, Layout, str]:
    unit = descriptions[rows["benchmark"].iloc[0]].label
    title = f"{name}, {'/'.join(rows[['benchmark', 'variant']].iloc[0])}: {unit}"
    return _note_unit(laid_out(rows, order.cpus, number), descriptions, unit), order, title


def _note_unit(table: pd.DataFrame, descriptions: Descriptions, unit: str | None = None) -> pd.DataFrame:
    """Note what the numbers of a table are, where that is one thing."""
    labels = {descriptions[str(name)].label for name in table.get("benchmark", pd.Series()).unique()}
    table.attrs["unit"] = unit or ", or ".join(sorted(labels))
    return table
