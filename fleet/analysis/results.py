"""A results root as notebooks use it: `fleet.open("results")`. Everything is read when it is asked for."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from fleet.analysis.compare.comparison import Comparison
from fleet.analysis.compare.comparison import compare as compared
from fleet.analysis.exchange.imports import PREFIX, load_imports, load_published, published_layout
from fleet.analysis.reduce.heatmap import Limits
from fleet.analysis.reduce.load import (
    load_cpus,
    load_runs,
    load_samples,
    of_benchmark,
    samples_long,
    view_of,
    without_points,
)
from fleet.analysis.reduce.matrices import matrix as laid_out
from fleet.analysis.reduce.pairs import load_pairs, widened
from fleet.analysis.reduce.topology import Layout, layout
from fleet.analysis.selection import select
from fleet.errors import UsageError
from fleet.model import View
from fleet.store.places import Place, place_of
from fleet.store.runs import published

if TYPE_CHECKING:
    from matplotlib.axes import Axes

UNIT = "ns, one way"


class Results:
    """The runs of one results root. `selection`: as on the command line, such as "rome" or "kernel=6.12".

    Raises UsageError for a selection that matches nothing, StoreError for files that cannot be read.
    """

    def __init__(self, root: str | Path) -> None:
        self._root = root
        self._place: Place = place_of(root)

    def __repr__(self) -> str:
        return f"Results({str(self._place)!r})"

    def runs(self, *selection: str) -> pd.DataFrame:
        """The table `runs`: a row per run, oldest first."""
        return load_runs(self._root, run_id=self._ids(selection))

    def pairs(self, *selection: str, benchmark: str | None = None) -> pd.DataFrame:
        """The table `pairs`: a row per run, benchmark, variant, point and pair; pairs in ns, one way.

        benchmark: as `cas` or `cas/llsc`; None for all.
        """
        rows = widened(load_pairs(self._root, run_id=self._ids(selection)))
        return _with_unit(of_benchmark(rows, benchmark))

    def samples(self, *selection: str, benchmark: str | None = None, warmups: bool = False) -> pd.DataFrame:
        """Every sample as a row, with its burst's columns and `latency_ns`. warmups: with them, marked."""
        bursts = load_samples(self._root, run_id=self._ids(selection))
        long = samples_long(of_benchmark(bursts, benchmark))
        return _with_unit(long if warmups else long[~long["is_warmup"]].reset_index(drop=True))

    def matrix(self, run: str | None = None, benchmark: str | None = None) -> pd.DataFrame:
        """The medians of a run's pairs, rows ping, columns pong, CPUs in the order of the topology.

        run: a selection, of which the last run counts, or a summary as "summary:NAME"; None for all.
        benchmark: None for the first.
        """
        return self._matrix(run, benchmark)[0]

    def summaries(self, name: str | None = None, benchmark: str | None = None) -> pd.DataFrame:
        """The tables that others published and that were imported: a row per pair, `latency_ns`.

        name: only this summary, as `fleet summaries` lists it.
        """
        rows = pd.concat([load_published(), load_imports(self._root)], ignore_index=True)
        if name is not None and name not in set(rows["summary"]):
            raise UsageError(
                f"no summary is named {name!r}; there are {', '.join(rows['summary'].unique())}."
            )
        rows = rows if name is None else rows[rows["summary"] == name]
        return _with_unit(of_benchmark(rows, benchmark).reset_index(drop=True))

    def heatmap(
        self,
        run: str | None = None,
        benchmark: str | None = None,
        axes: "Axes | None" = None,
        *,
        limits: Limits | None = None,
    ) -> "Axes":
        """Draw the `matrix`: dark is fast, lines part the groups of CPUs.

        limits: the ends of the colour scale; give several maps the same to compare them.
        """
        from fleet.analysis import plots  # noqa: PLC0415  matplotlib takes a second

        table, order, title = self._matrix(run, benchmark)
        drawn = plots.heatmap(table, order, axes, limits=limits)
        drawn.set_title(title)
        return drawn

    def compare(self, a: str, *others: str, threshold: float | None = None) -> list[Comparison]:
        """Compare each further side with `a`, as `fleet compare` does; of several hosts host by host.

        threshold: the smallest change that matters, as a share. Each has `relations`, `pairs`, `environment`.
        """
        return compared(self._root, [a, *others], threshold=threshold)

    def _ids(self, selection: Sequence[str]) -> list[str]:
        return [run.run_id for run in select(published(self._place), selection, self._place)]

    def _matrix(self, run: str | None, benchmark: str | None) -> tuple[pd.DataFrame, Layout, str]:
        if run is not None and run.startswith(PREFIX):
            name = run.removeprefix(PREFIX)
            rows = self.summaries(name, benchmark)
            rows = rows[rows["benchmark"] == rows["benchmark"].iloc[0]]
            rows = rows[rows["variant"] == rows["variant"].iloc[0]]
            order, kind = published_layout(rows), rows.iloc[0]
            title = f"{name}, {kind['benchmark']}/{kind['variant']}: {UNIT}"
            return _with_unit(laid_out(rows, order.cpus, "latency_ns")), order, title
        ids = self._ids([run] if run is not None else [])
        if not ids:
            raise UsageError(f"{self._place}: no run is stored here.")
        rows = without_points(widened(load_pairs(self._root, run_id=ids[-1])))
        rows = rows[rows["benchmark"].map(lambda name: view_of(name) is View.MATRIX).astype(bool)]
        rows = of_benchmark(rows, benchmark)
        if rows.empty:
            raise UsageError(f"{ids[-1]}: has no pairs of CPUs.")
        first = rows.iloc[0]
        rows = rows[(rows["benchmark"] == first["benchmark"]) & (rows["variant"] == first["variant"])]
        cpus = sorted({*rows["ping_cpu"], *rows["pong_cpu"]})
        order = layout(load_cpus(self._root, run_id=ids[-1]), cpus)
        title = f"{first['host_id']}, {first['benchmark']}/{first['variant']}: {UNIT}"
        return _with_unit(laid_out(rows, order.cpus)), order, title


def _with_unit(table: pd.DataFrame) -> pd.DataFrame:
    table.attrs["unit"] = UNIT
    return table
