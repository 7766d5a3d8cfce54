"""The page of one run: its header, then each benchmark and variant with its events,
then tables by NUMA node.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.reduce import ladders, load
from fleet.analysis.reduce.group_halves import PairHalves
from fleet.analysis.reduce.matrices import lay_out_matrix
from fleet.analysis.views.benchmark_tables import PointTables, render_tables
from fleet.analysis.views.event_tables import tabulate_events
from fleet.analysis.views.heatmap import Canvas, Pairs, draw_matrix
from fleet.analysis.views.ladder_tables import render_ladder
from fleet.analysis.views.node_tables import tabulate_by_node, tabulate_line_nodes
from fleet.analysis.views.pair_tables import (
    describe_burst_levels,
    describe_precision,
    explain_relation_table,
    find_flagged_pairs,
    render_cpus,
    render_extremes,
    tabulate_relations,
)
from fleet.analysis.views.point_tables import tabulate_points
from fleet.analysis.views.product_tables import tabulate_gemm_points
from fleet.analysis.views.run_data import RunData
from fleet.analysis.views.run_header import ESTIMATORS_IN_WORDS, render_header
from fleet.model import View
from fleet.text import one_line

_MAX_EVENTS = 20  # lines of events that are printed without being asked for


@dataclass(frozen=True, slots=True)
class Detail:
    """How much of a run is shown. all_sizes: every size of ladders and every counted
    event. both_ways: the directions of messages. as_map: as in `draw_matrix`.
    """

    all_sizes: bool = False
    both_ways: bool = False
    as_map: bool = False


@dataclass(frozen=True, slots=True)
class RunPage:
    """Renders the parts of a run that fit a canvas."""

    data: RunData
    canvas: Canvas
    detail: Detail

    def render_head(self) -> str:
        """Render the header and a line on each kind of memory."""
        data = self.data
        header = render_header(data)
        memory = ladders.describe_memory(data.run, data.memory, data.cpus)
        lines_of_memory = [one_line(line) for line in memory]
        return "\n".join([header, *lines_of_memory])

    def render_sections(self) -> Iterator[str]:
        """Yield the numbers of each benchmark and variant, then its events, "" without
        any; at last the tables by NUMA node. The words of a table of relations are
        explained only below the first.
        """
        has_explained = False
        for name, variant, pairs in self._iter_choices():
            view = self.data.descriptions[name].view
            if view is View.MATRIX:
                yield from self._render_points(pairs, explains=not has_explained)
                has_explained = True
            else:
                yield self._render_numbers(pairs, view)
            yield self._render_events(name, variant)
        for tables in self._tabulate_by_node():
            yield render_tables(tables, self.canvas.width)

    def render_maps(self) -> Iterator[str]:
        """Yield each heat map below its name and host. First comes a map for each
        variant of a benchmark that is shown as a matrix. Then come pairs whose cache
        line was placed on a NUMA node: a map per point, which names the node.
        """
        host = self.data.run["host_name"]
        for name, pairs in [*self._list_matrices(), *self._list_placed_matrices()]:
            yield f"{name} on {host}\n{self._render_matrix(pairs)}"

    def _list_matrices(self) -> list[tuple[str, pd.DataFrame]]:
        """List each benchmark and variant that is shown as a matrix, with its pairs."""
        descriptions = self.data.descriptions
        pairs = load.drop_points(self.data.pairs, descriptions)
        choices = load.name_benchmarks(pairs)
        matrices = []
        for choice, pairs_of_choice in pairs.groupby(choices, sort=False):
            name = str(choice)  # "cas/c11"; the lookup ignores the variant
            if descriptions[name].view is View.MATRIX:
                matrices.append((name, pairs_of_choice))
        return matrices

    def _list_placed_matrices(self) -> list[tuple[str, pd.DataFrame]]:
        """List the pairs whose cache line was placed on a chosen NUMA node, each node
        and its pairs, named like "cas/c11 n0".
        """
        data = self.data
        pairs = ladders.select_line_placed_pairs(data.pairs, data.descriptions)
        choices = load.name_benchmarks(pairs)
        names = choices + " " + pairs["point"].astype(str)
        groups = pairs.groupby(names, sort=False)
        return [(str(name), pairs_of_point) for name, pairs_of_point in groups]

    def _iter_choices(self) -> Iterator[tuple[str, str, pd.DataFrame]]:
        """Yield each benchmark and variant with its pairs, without those by NUMA
        node.
        """
        pairs = self.data.pairs
        rows = pairs[~ladders.is_node_placed(pairs, self.data.descriptions)]
        for name, variants in rows.groupby("benchmark", sort=False):
            for variant, part in variants.groupby("variant", sort=False):
                yield str(name), str(variant), part

    def _render_numbers(self, pairs: pd.DataFrame, view: View) -> str:
        """Render one benchmark and variant whose view is not MATRIX: not shown as pairs
        of two CPUs. view: of this benchmark.
        """
        descriptions = self.data.descriptions
        if view is View.CPUS:
            return self._render_cpus(pairs)
        if view is View.LADDER:
            choice = load.name_benchmarks(pairs).iloc[0]
            return self._render_ladder(choice)
        if view is View.PRODUCTS:
            tables = tabulate_gemm_points(pairs, descriptions)
        else:
            tables = tabulate_points(pairs, descriptions)
        return render_tables(tables, self.canvas.width)

    def _render_ladder(self, choice: str) -> str:
        """Render the memory hierarchy of a benchmark and variant: "chase/mov"."""
        memory = self.data.memory
        return render_ladder(
            load.select_choice(memory.steps, choice),
            load.select_choice(memory.levels, choice),
            self.data.descriptions,
            all_sizes=self.detail.all_sizes,
            width=self.canvas.width,
        )

    def _render_cpus(self, pairs: pd.DataFrame) -> str:
        """Render a benchmark of single CPUs, such as of their clock."""
        first = pairs.iloc[0].to_dict()
        heading = self.data.descriptions[first["benchmark"]].heading
        lines = [
            f"{text.name_benchmark(first)}: {heading}, per CPU",
            *render_cpus(pairs, self.data.order),
            *describe_burst_levels(pairs),
        ]
        return "\n".join(lines)

    def _render_points(self, pairs: pd.DataFrame, *, explains: bool) -> Iterator[str]:
        """Yield each point of a benchmark and variant, the whole if it has no points.
        explains: explain the words of the first.
        """
        by_point = pairs.groupby("point", sort=False, dropna=False)
        for _, pairs_of_point in by_point:
            yield self._render_pairs(pairs_of_point, explains=explains)
            explains = False

    def _render_pairs(self, pairs: pd.DataFrame, *, explains: bool) -> str:
        """Render relations, extreme pairs and matrix. pairs: of one benchmark, variant
        and point. explains: add what the words of the table of relations mean.
        """
        number = self.data.number_column
        relations = self.data.select_relations(pairs)
        lines = [self._write_pairs_title(pairs), tabulate_relations(relations, pairs)]
        if explains:
            lines += explain_relation_table(pairs)
        lines.append(describe_precision(pairs, number))
        extremes = render_extremes(pairs, number, self.canvas.width)
        if extremes:
            lines.append(extremes)
        lines += describe_burst_levels(pairs)
        tables = "\n".join(lines)
        return f"{tables}\n\n{self._render_matrix(pairs)}"

    def _write_pairs_title(self, pairs: pd.DataFrame) -> str:
        """Return the title of a benchmark and variant: "cas/c11: one-way latency in ns
        (smallest sample of each pair), by what two CPUs share".

        Without a preset, numbers are medians, which need no words.
        """
        first = pairs.iloc[0].to_dict()
        run = self.data.run
        name = text.name_benchmark(first)
        if not text.is_none(first["point"]):
            name += f" {first['point']}"
        heading = self.data.descriptions[first["benchmark"]].heading
        if run["preset"]:
            estimator = ESTIMATORS_IN_WORDS[run["estimator"]]
            heading += f" ({estimator} of each pair)"
        return f"{name}: {heading}, by what two CPUs share"

    def _render_matrix(self, pairs: pd.DataFrame) -> str:
        """Render the matrix of one benchmark and variant, flagged pairs marked. If the
        matrix is drawn by groups of CPUs, their intervals come from those of the pairs.
        """
        data = self.data
        values = lay_out_matrix(pairs, data.order.cpus, data.number_column)
        benchmark = data.descriptions[pairs["benchmark"].iloc[0]]
        drawn = draw_matrix(
            values,
            data.order,
            self.canvas,
            label=benchmark.label,
            marked=_list_ends(find_flagged_pairs(pairs)),
            as_map=self.detail.as_map,
            halves=self._lay_out_half_widths(pairs),
        )
        canvas = self.canvas
        rendered = text.render_rich(drawn, canvas.width, colour=canvas.colour)
        return rendered.rstrip("\n")

    def _lay_out_half_widths(self, pairs: pd.DataFrame) -> PairHalves | None:
        """Lay out the half-widths of the pairs' intervals: `own` from noise in the pair
        itself, `shared` from noise in all pairs of its relation. Return None if the
        run's number of a pair is not the median, for then it has no interval.
        """
        if self.data.number_column != "median_ns":
            return None
        cpus = self.data.order.cpus
        return PairHalves(
            own=lay_out_matrix(pairs, cpus, "spread"),
            shared=lay_out_matrix(pairs, cpus, "relation_spread"),
        )

    def _render_events(self, benchmark: str, variant: str) -> str:
        """Render the events of a benchmark and variant; "" without any. If too many,
        only say how to see all.
        """
        data = self.data
        is_benchmark = data.counters["benchmark"] == benchmark
        is_variant = data.counters["variant"] == variant
        own = data.counters[is_benchmark & is_variant]
        tables = tabulate_events(own, data.run["hello"], data.descriptions)
        if tables is None:
            return ""
        count = sum(len(part.lines) for part in tables.tables)
        # --ladder asks for all events as it asks for all sizes
        if self.detail.all_sizes or count <= _MAX_EVENTS:
            return render_tables(tables, self.canvas.width)
        return f"{tables.name}: {tables.legend}; --ladder prints them: {count} lines"

    def _tabulate_by_node(self) -> list[PointTables]:
        data = self.data
        return [
            *tabulate_by_node(data.memory.nodes, data.run, data.descriptions),
            *tabulate_line_nodes(data.pairs, data.cpus, data.descriptions),
        ]


def _list_ends(pairs: pd.DataFrame) -> Pairs:
    """Return the CPUs of each pair, the lower one first."""
    ends = zip(pairs["ping_cpu"], pairs["pong_cpu"], strict=True)
    return frozenset((min(pair), max(pair)) for pair in ends)
