"""List summaries, show their relations and matrices, or set them beside other summaries
and runs.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import NUMBER_KEY, PAIR_KEY, Floats
from fleet.analysis.base.text import (
    format_document,
    format_half_width,
    render_rich,
    to_records,
)
from fleet.analysis.compare.baseline import mark_usual
from fleet.analysis.compare.sides import ComparisonSide, read_tables, resolve_sides
from fleet.analysis.exchange import imports
from fleet.analysis.exchange.imports import (
    PREFIX,
    find_summary,
    load_all_summaries,
)
from fleet.analysis.reduce.load import (
    drop_points,
    get_views,
    list_published,
    name_benchmarks,
)
from fleet.analysis.reduce.matrices import lay_out_matrix
from fleet.analysis.reduce.run_levels import add_run_levels
from fleet.analysis.views.heatmap import Canvas, draw_matrix
from fleet.analysis.views.usual import load_usual_numbers
from fleet.errors import UsageError
from fleet.hostnames import join_names
from fleet.model import SHIPPED, Descriptions, View
from fleet.store.runs import Root, open_listing
from fleet.text import format_command, format_count, one_line, table

ALL = "all pairs"


def render_summaries(root: Root, names: Sequence[str], canvas: Canvas) -> str:
    """Render summaries by name or CPU model, with or without `summary:`; without names,
    list all.
    """
    if not names:
        return list_summaries(load_all_summaries(root))
    parts = []
    for name, rows in _find_named(root, names):
        is_one_summary = set(rows["summary"]) == {name}
        if is_one_summary:
            parts.append(render_summary(rows, canvas))
        else:
            parts.append(render_cpu_model(name, rows))
    return "\n\n".join(parts)


def render_cpu_model(cpu_model: str, rows: pd.DataFrame) -> str:
    """Render how the machines of a CPU model differ. rows: from
    `find_summaries_of_model`.
    """
    medians = imports.compute_medians(rows)
    summaries = list(medians["summary"].unique())
    count = format_count(len(summaries), "table")
    heading = one_line(f"{cpu_model}: {count}, {join_names(summaries)}")
    parts = [heading]
    # "cas/" is a benchmark whose variant is not known
    choice_of_row = name_benchmarks(medians).str.rstrip("/")
    for choice, medians_of_choice in medians.groupby(choice_of_row, sort=False):
        machines_table = _tabulate_machines(str(choice), medians_of_choice)
        parts.append(machines_table)
    return "\n\n".join(parts)


def _tabulate_machines(choice: str, medians: pd.DataFrame) -> str:
    """Tabulate how each relation's medians differ between machines. choice: the name of
    the benchmark and variant, such as "cas/llsc".
    """
    groups = medians.groupby("relation")["median_ns"]
    by_relation = groups.agg(["size", "median", "min", "max"])
    fastest_first = by_relation.sort_values("median")
    lines = []
    for relation, size, median, low, high in fastest_first.itertuples():
        line = (
            str(relation),
            f"{size:.0f}",
            f"{median:.1f}",
            f"{low:.1f}",
            f"{high:.1f}",
            f"{high / low:.2f}",
        )
        lines.append(line)
    quantity = "one-way latency in ns, the median of each table's pairs"
    title = f"{one_line(choice)}: {quantity}"
    titles = ("relation", "tables", "median", "min", "max", "max/min")
    return f"{title}\n{_align_numbers(titles, lines)}"


def _align_numbers(titles: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Lay out a table whose columns after the first are numbers."""
    number_columns = set(range(1, len(titles)))
    return table(titles, lines, right=number_columns)


def format_summaries_json(root: Root, names: Sequence[str]) -> str:
    """Format summaries as JSON, a row per pair. names: of summaries or CPU models; all
    if empty.
    """
    if names:
        tables = [rows for _, rows in _find_named(root, names)]
    else:
        tables = [load_all_summaries(root)]
    rows = pd.concat(tables, ignore_index=True)
    return format_document("summaries", rows)


def _find_named(root: Root, names: Sequence[str]) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield each name, without `summary:`, and the rows of the summary of that name, or
    of all summaries of the CPU model of that name. Raises UsageError.
    """
    # of several names, one without `summary:` is taken for a run
    are_summaries = all(name.startswith(PREFIX) for name in names)
    if len(names) > 1 and not are_summaries:
        command = format_command("fleet", "compare", *names)
        raise UsageError(
            f"runs and summaries are not shown together; {command} puts them side by"
            " side."
        )
    summaries = imports.locate_summaries(root)
    for text in names:
        name = text.removeprefix(PREFIX)
        yield name, _find_of_name_or_model(root, name, summaries)


def _find_of_name_or_model(
    root: Root, name: str, summaries: Collection[str]
) -> pd.DataFrame:
    """Return the rows of the summary `name`, or of a CPU model's summaries. Raises
    UsageError if there is neither.

    summaries: the names of all.
    """
    if name not in summaries:
        of_model = imports.find_summaries_of_model(root, name)
        if len(of_model):
            return of_model
    return find_summary(root, name)


def list_summaries(rows: pd.DataFrame) -> str:
    """List each summary with its machine, and a line per benchmark and variant."""
    parts = [
        "Published or imported: one number a pair, no samples. ns: the median of the"
        " pairs.\nShow one with its matrix: fleet show summary:NAME. Beside a run:"
        " fleet compare RUN summary:NAME"
    ]
    for name, part in rows.groupby("summary", sort=False):
        (first,) = to_records(part.head(1))
        heading = one_line(f"{name}: {_describe_origin(first)}")
        parts.append("\n".join([heading, *_list_medians(part)]))
    return "\n\n".join(parts)


def _list_medians(rows: pd.DataFrame) -> Iterator[str]:
    """Yield a line per benchmark and variant of a summary."""
    latencies = rows.groupby(name_benchmarks(rows), sort=False)["latency_ns"]
    medians = latencies.agg(["size", "median"])
    for choice, size, median in medians.itertuples():
        yield f"  {one_line(choice):13}  {size:6} cells  {median:7.1f} ns"


def _describe_origin(row: Mapping[str, Any]) -> str:
    """Describe a summary's machine, its tool's number, and when it was imported. row:
    any row of the summary, as all rows agree on these.
    """
    machine = row["cpu_model"] or "unknown CPU model"
    if row["conditions"]:
        machine += f" ({row['conditions']})"
    estimator = row["estimator"] or "number"
    number = f"{row['tool']}'s {estimator}"
    day = "shipped"
    if row["imported_utc"]:
        day = f"imported {row['imported_utc']:%Y-%m-%d}"
    details = [machine, row["os"], number, day]
    return ", ".join(filter(None, details))


def render_summary(rows: pd.DataFrame, canvas: Canvas) -> str:
    """Render a summary: its source, and for each benchmark its relations and its
    matrix.
    """
    layout = imports.lay_out_summary(rows)  # the order of the CPUs in each matrix
    guessed = ""
    if imports.is_guessed(rows).any():
        guessed = ", guessed from these numbers"
    quantity = f"one-way latency in ns, by what two CPUs share{guessed}"
    parts = [_describe_source(rows)]
    for choice, pairs in rows.groupby(name_benchmarks(rows), sort=False):
        title = f"{one_line(str(choice))}: {quantity}"
        parts.append(f"{title}\n{_tabulate_relations(pairs)}")
        matrix = lay_out_matrix(pairs, layout.cpus, "latency_ns")
        drawn = draw_matrix(matrix, layout, canvas)
        text = render_rich(drawn, canvas.width, colour=canvas.colour)
        parts.append(text.rstrip("\n"))
    return "\n\n".join(parts)


def _describe_source(rows: pd.DataFrame) -> str:
    """Describe in two lines a summary's machine, and where its numbers are from."""
    (first,) = to_records(rows.head(1))
    details = [first["cpu_model"], first["os"], first["conditions"]]
    machine = ", ".join(filter(None, details))
    heading = f"{PREFIX}{first['summary']}  {machine}"
    number = first["estimator"] or "number"
    source = f"as {first['tool']} printed it; from {first['source']}"
    return (
        f"{one_line(heading.rstrip())}\n"
        f"summary, not raw: the {number} of each pair, {one_line(source)}"
    )


def _tabulate_relations(pairs: pd.DataFrame) -> str:
    """Tabulate the latencies of each relation; with their intervals, if any has one."""
    half = imports.compute_half_widths(pairs)
    groups = pairs.assign(half=half).groupby("relation")
    by_relation = groups["latency_ns"].agg(["size", "median", "min", "max"])
    by_relation["half"] = groups["half"].median()
    titles = ["relation", "cells", "median", "±95%", "min", "max"]
    has_intervals = bool(by_relation["half"].notna().any())
    if not has_intervals:
        titles.remove("±95%")
    lines = []
    fastest_first = by_relation.sort_values("median")
    for relation, row in fastest_first.iterrows():
        line = [str(relation), f"{row['size']:.0f}", f"{row['median']:.1f}"]
        if has_intervals:
            line.append(format_half_width(row["half"]))
        line += [f"{row['min']:.1f}", f"{row['max']:.1f}"]
        lines.append(line)
    return _align_numbers(titles, lines)


def tabulate_side_medians(root: Root, sides: Sequence[str]) -> pd.DataFrame:
    """Return a row per side, benchmark, variant and relation; the relation ALL is all
    pairs together.

    A side is a selection of runs, `summary:NAME`, or `summary:MODEL` for the median of
    all summaries of a CPU model.

    Columns: `side` (as in `sides`), `runs` (their number, 0 for a summary), `tables`
    (the number of summaries, 0 for runs), `of` (what a pair's number is, such as
    "median"), `benchmark`, `variant`, `relation`, `cells` (the number of pairs),
    `median_ns`, `half` (the median of the pairs' half intervals, as a share of the
    number; NaN without any) and `ratio` (to the first side's row of the same benchmark,
    variant and relation; NaN without one). Raises UsageError if a side is missing or
    has no pairs.
    """
    texts_of_runs = [text for text in sides if not text.startswith(PREFIX)]
    sides_of_runs = dict[str, ComparisonSide]()  # by text, which is the side's name
    if texts_of_runs:
        for side in resolve_sides(root, texts_of_runs):
            sides_of_runs[side.name] = side
    tables = []
    for text in sides:
        side_of_runs = sides_of_runs.get(text)  # None of a summary
        tables.append(_tabulate_side(root, text, side_of_runs))
    rows = pd.concat(tables, ignore_index=True)
    rows["ratio"] = _compute_ratios(rows, sides[0])
    return rows


def _tabulate_side(
    root: Root, text: str, side_of_runs: ComparisonSide | None
) -> pd.DataFrame:
    """Return a side's rows, in the columns of `tabulate_side_medians` without `ratio`.
    text: the side as it was named. side_of_runs: the runs, None if the side is a
    summary. Raises UsageError.
    """
    pairs = _load_pairs_of_side(root, text, side_of_runs)
    medians = _compute_relation_medians(pairs)
    if side_of_runs is not None:
        medians = _take_usual_numbers(root, side_of_runs, medians)
    run_count = pairs["runs"].iloc[0]  # the same in all rows
    summary_count = pairs["summary"].nunique()  # 0 for runs, whose pairs have none
    estimator = pairs["estimator"].iloc[0]  # of several summaries, that of the first
    medians["side"] = text
    medians["runs"] = run_count
    medians["tables"] = summary_count
    medians["of"] = estimator
    return medians


def _load_pairs_of_side(
    root: Root, text: str, side_of_runs: ComparisonSide | None
) -> pd.DataFrame:
    """Load the pairs of CPUs of a side, a row per pair, benchmark and variant. Raises
    UsageError if there are no pairs.

    text: the side as it was named. side_of_runs: the runs, None if the side is a
    summary.
    """
    if side_of_runs is None:
        pairs = _load_pairs_of_summary(root, text)
    else:
        pairs = _load_pairs_of_runs(root, side_of_runs)
    if pairs.empty:
        raise UsageError(f"{text}: has no pairs of CPUs to compare.")
    return pairs


def _load_pairs_of_runs(root: Root, side: ComparisonSide) -> pd.DataFrame:
    """Load a row per pair of CPUs, benchmark, variant and relation of a side's runs.

    Columns: `latency_ns` and `half`, the medians of the rows that
    `_select_usual_pairs` selects; `estimator`, always "median"; `summary`, always
    missing; and `runs`, the number of runs selected.
    """
    tables = read_tables(root, side.runs["run_id"])
    pairs = drop_points(tables.pairs, tables.descriptions)
    pairs = _select_usual_pairs(root, pairs, tables.runs)
    # grouping by categories would make a group of each of their combinations
    pairs = pairs.astype(dict.fromkeys(NUMBER_KEY, "object"))
    by_pair = pairs.groupby(PAIR_KEY, sort=False)
    # a pair's `spread` is half its interval, as a share of its number
    medians = by_pair.agg(
        latency_ns=("median_ns", "median"),
        half=("spread", "median"),
    )
    rows = medians.reset_index()
    rows["estimator"] = "median"
    rows["summary"] = pd.Series(pd.NA, rows.index, dtype="string")
    rows["runs"] = pairs["run_id"].nunique()
    return _keep_matrices(rows, tables.descriptions)


def _select_usual_pairs(
    root: Root, pairs: pd.DataFrame, runs: pd.DataFrame
) -> pd.DataFrame:
    """Select the rows of `pairs` that count for the usual number of their host.

    A row counts if its run is not older than the last proved change of the host, and if
    its number is at the main level of the pair of CPUs: the numbers of a pair may form
    levels, of which the main level has most runs.
    """
    host_by_run = runs.set_index("run_id")["host_id"]
    host_of_row = pairs["run_id"].map(host_by_run)
    pairs = pairs.assign(host_id=host_of_row)
    # an old run counts for a benchmark if only others have changed since
    columns = ["host_id", "run_id", "benchmark"]
    benchmarks_of_runs = pairs[columns].drop_duplicates()
    marked_runs = mark_usual(root, benchmarks_of_runs)
    usual_runs = marked_runs[marked_runs["is_usual"]]
    usual_pairs = pairs.merge(usual_runs, on=columns)
    # `add_run_levels` finds the levels of each `relation`: here, of each pair of CPUs
    ping = usual_pairs["ping_cpu"].astype(str)
    pong = usual_pairs["pong_cpu"].astype(str)
    pairs_as_relations = usual_pairs.assign(relation=ping + "-" + pong)
    # a row for each row of `usual_pairs`, in the same order
    with_levels = add_run_levels(pairs_as_relations)
    is_main = with_levels["is_main"].to_numpy()
    return usual_pairs[is_main]


def _take_usual_numbers(
    root: Root, side: ComparisonSide, medians: pd.DataFrame
) -> pd.DataFrame:
    """Return the medians of a side's relations, with the numbers of `fleet show`.

    If all runs of the side are of one host, `median_ns` becomes the number that `fleet
    show` prints for the host, so that both commands agree. Medians stay as they are if
    there are several hosts, which have no common number, and for relations that `fleet
    show` lacks, such as ALL.
    """
    run_ids = [str(run_id) for run_id in side.runs["run_id"]]
    runs = list_published(open_listing(root), run_id=run_ids)
    hosts = {run.host_id for run in runs}
    if len(hosts) != 1:
        return medians
    usual = load_usual_numbers(root, runs).table
    is_of_pairs = usual["about"] == ""  # else a setting of memory, or of a load
    usual_ns = _look_up_medians(usual[is_of_pairs], medians)
    is_missing = np.isnan(usual_ns)
    filled = np.where(is_missing, medians["median_ns"], usual_ns)
    return medians.assign(median_ns=filled)


def _look_up_medians(medians: pd.DataFrame, rows: pd.DataFrame) -> Floats:
    """Return for each of `rows` the `median_ns` of the row of `medians` that has the
    same benchmark, variant and relation; NaN if there is none.
    """
    median_by_key = medians.set_index(NUMBER_KEY)["median_ns"]
    keys = pd.MultiIndex.from_frame(rows[NUMBER_KEY])
    medians_of_rows: Floats = median_by_key.reindex(keys).to_numpy()
    return medians_of_rows


def _load_pairs_of_summary(root: Root, name: str) -> pd.DataFrame:
    """Load the pairs of CPUs of a summary, or of those of a CPU model, in the columns
    of `_load_pairs_of_runs` and others of their own. `runs` is 0.
    """
    summaries = imports.locate_summaries(root)
    rows = _find_of_name_or_model(root, name.removeprefix(PREFIX), summaries)
    rows["half"] = imports.compute_half_widths(rows)
    rows["runs"] = 0
    return _keep_matrices(rows, SHIPPED)


def _keep_matrices(rows: pd.DataFrame, descriptions: Descriptions) -> pd.DataFrame:
    """Return the rows of benchmarks that measure pairs of CPUs."""
    views = get_views(rows["benchmark"], descriptions)
    return rows[views == View.MATRIX]


def _compute_relation_medians(pairs: pd.DataFrame) -> pd.DataFrame:
    """Compute the medians of each relation, a row per benchmark, variant and relation,
    and of all pairs together under the relation ALL; sort rows by variant.

    Columns: `cells`, how many pairs there are; `median_ns`; and `half`, the median of
    the pairs' half intervals. Medians are first computed for each summary; then the
    medians of the summaries' medians are returned, so that no summary counts for more
    by having more pairs. The pairs of runs have no summary, and so are one group.
    """
    # each pair counts once for its relation, and once for ALL
    pairs_twice = pd.concat([pairs, pairs.assign(relation=ALL)])
    groups = pairs_twice.groupby([*NUMBER_KEY, "summary"], sort=False, dropna=False)
    medians_of_summaries = groups.agg(
        cells=("latency_ns", "size"),
        median_ns=("latency_ns", "median"),
        half=("half", "median"),
    ).reset_index()
    by_relation = medians_of_summaries.groupby(NUMBER_KEY, sort=False, dropna=False)
    medians = by_relation.agg(
        cells=("cells", "sum"),
        median_ns=("median_ns", "median"),
        half=("half", "median"),
    )
    return medians.reset_index().sort_values(
        "variant", kind="stable", key=lambda column: column.astype(str)
    )


def _compute_ratios(rows: pd.DataFrame, first_side: str) -> Floats:
    """Compute the ratio of each row's median to that of the first side's same row; NaN
    if that has none.
    """
    is_first = rows["side"] == first_side
    first_ns = _look_up_medians(rows[is_first], rows)
    own_ns = rows["median_ns"].to_numpy()
    return np.asarray(own_ns / first_ns)
