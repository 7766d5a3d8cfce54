"""Import summaries (one number per pair, no samples), and read those imported or
shipped with fleet.
"""

import codecs
import itertools
import json
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fleet.analysis.base.selection import select_runs
from fleet.analysis.base.tables import NUMBER_KEY, Ints
from fleet.analysis.base.text import to_records
from fleet.analysis.exchange.guess import guess_topology
from fleet.analysis.exchange.tools import (
    TOOLS,
    Cells,
    Grid,
    NewCells,
    read_matrices,
)
from fleet.analysis.reduce.load import load_cpus
from fleet.analysis.reduce.topology import GROUPS, Layout, make_layout
from fleet.errors import StoreError, UsageError
from fleet.model import (
    BENCHMARKS,
    KINDS,
    Cpu,
    Relation,
    Topology,
    View,
    name_core_kinds,
)
from fleet.plan.benchmark_names import VARIANTS, BenchmarkName
from fleet.plan.cpulist import format_cpus
from fleet.store.files import store_errors
from fleet.store.places import Folder, Place, require_key
from fleet.store.reading import TableFile, read_files, read_undamaged
from fleet.store.runs import Listing, Root, open_listing
from fleet.store.writing import SUMMARIES, write_summary
from fleet.text import format_count, printable, suggest_similar

PREFIX = "summary:"  # how a command line tells a summary from a run or a host
RELATIONS, GUESSED = "relations", "guessed"  # key and value of a label
_SUGGESTED = 4  # names of summaries
_NOT_OF_MODEL = re.compile(r"\((r|tm)\)|\b(cpu|processor|\w+-core|\d+th gen)\b|@.*")
_SHIPPED = Folder(Path(str(files("fleet"))) / "published")
_LEVELS_FROM_NEAREST = (
    Relation.SMT,
    Relation.CLUSTER,
    Relation.LLC,
    Relation.DIE,
    Relation.NODE,
    Relation.PACKAGE,
)
MAX_BYTES = 64 << 20  # 2,500 CPUs as CSV


def load_imports(root: Root) -> pd.DataFrame:
    """Load imported summaries, a row per pair (docs/tables.md). Skip damaged files with
    a StoreWarning.
    """
    place = open_listing(root).place
    with store_errors("read the summaries", place):
        names = place.files(SUMMARIES)
    return _read_summaries(place, names, skip_damaged=True)


@cache
def load_published() -> pd.DataFrame:
    """Load the summaries that fleet ships (fleet/published), in the columns of
    `load_imports`.
    """
    return _read_summaries(_SHIPPED, _SHIPPED.files("*.parquet"))


def _read_summaries(
    place: Place, names: Sequence[str], *, skip_damaged: bool = False
) -> pd.DataFrame:
    """Read summary files into one frame; its keys are plain strings, so that it can be
    joined with others.
    """
    frame: pd.DataFrame = read_files(
        place, names, "summaries", skip_damaged=skip_damaged
    ).to_pandas()
    keys = frame.select_dtypes("category").columns
    return frame.astype(dict.fromkeys(keys, "object")).reset_index(drop=True)


def load_all_summaries(root: Root) -> pd.DataFrame:
    """Load imported summaries, then the published ones."""
    tables = (load_imports(root), load_published())
    filled = [frame for frame in tables if len(frame)]
    return pd.concat(filled, ignore_index=True)


def require_free_name(name: str) -> None:
    """Raise UsageError if no summary can be stored under this name."""
    try:
        require_key(name, "summary")
    except StoreError as err:
        raise UsageError(f"--name: {err}") from err
    # only a file that is there has a stamp
    is_shipped = bool(_SHIPPED.stamp(f"{name}.parquet"))
    if is_shipped:
        raise UsageError(
            f"--name {name}: fleet ships a summary of this name; choose another."
        )


def locate_summaries(root: Root) -> dict[str, tuple[Place, str]]:
    """Return the place and the file of each summary, imported or shipped, by name."""
    place = open_listing(root).place
    with store_errors("read the summaries", place):
        shipped = _SHIPPED.files("*.parquet")
        imported = place.files(SUMMARIES)
    place_and_file = dict[str, tuple[Place, str]]()
    for file in shipped:
        name = Path(file).stem
        place_and_file[name] = (_SHIPPED, file)
    # no imported summary has the name of a shipped one: see `require_free_name`
    for file in imported:
        name = Path(file).stem
        place_and_file[name] = (place, file)
    return place_and_file


def find_summaries(root: Root, texts: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Return the rows of each summary that these names or globs match. Raises
    UsageError for no match.
    """
    all_names = locate_summaries(root)
    summaries = dict[str, pd.DataFrame]()
    for text in texts:
        pattern = text.removeprefix(PREFIX)
        names = [name for name in all_names if fnmatchcase(name, pattern)]
        if not names:
            names = [pattern]  # a plain name; `find_summary` raises if none has it
        for name in names:
            summaries[name] = find_summary(root, name)
    return summaries


def find_summary(root: Root, name: str) -> pd.DataFrame:
    """Return the rows of a summary, named with or without `summary:`. Raises UsageError
    if there is none.
    """
    name = name.removeprefix(PREFIX)
    names = locate_summaries(root)
    if name not in names:
        raise UsageError(
            f"no summary is called {name!r}{_suggest_summaries(name, names)} "
            "`fleet runs --summaries` lists them."
        )
    place, file = names[name]
    return _read_summaries(place, [file])


def _suggest_summaries(name: str, names: Collection[str]) -> str:
    """Return the end of a sentence on an unknown name: the names that contain all words
    of the unknown name, else the names that are similar.
    """
    words = name.casefold().split()
    containing = [other for other in names if _contains_all(other, words)]
    if not containing:
        return suggest_similar(name, names)
    quoted = [repr(other) for other in containing[:_SUGGESTED]]
    return f"; did you mean {' or '.join(quoted)}?"


def _contains_all(name: str, words: Iterable[str]) -> bool:
    """Report whether a name contains all words. words: in lower case."""
    lower = name.casefold()
    return all(word in lower for word in words)


def find_summaries_of_model(root: Root, cpu_model: str) -> pd.DataFrame:
    """Return the rows of all summaries of a CPU model; skip damaged files."""
    simplified = simplify_cpu_model(cpu_model)
    summaries = locate_summaries(root)

    def read_if_of_model(name: str) -> pd.DataFrame | None:
        place, file = summaries[name]
        models = _read_simplified_models(place, file)
        if simplified not in models:
            return None
        return _read_summaries(place, [file])

    frames = read_undamaged([*summaries], read_if_of_model)
    parts = [rows for rows in frames.values() if rows is not None]
    if not parts:
        return _read_summaries(_SHIPPED, [])  # the columns without rows
    return pd.concat(parts, ignore_index=True)


def _read_simplified_models(place: Place, file: str) -> set[str]:
    """Read the CPU models that a file of summaries states, as `simplify_cpu_model`
    returns them.
    """
    table = TableFile(place, file, "summaries").read(["cpu_model"])
    models = table.column("cpu_model").unique().to_pylist()
    return {simplify_cpu_model(model) for model in models if model}


def compute_medians(rows: pd.DataFrame) -> pd.DataFrame:
    """Return `median_ns` by summary, benchmark, variant ("" for unknown) and
    relation.
    """
    keys = ["summary", *NUMBER_KEY]
    groups = rows.fillna({"variant": ""}).groupby(keys, sort=False)
    medians = groups["latency_ns"].median()
    return medians.rename("median_ns").reset_index()


def compute_model_medians(root: Root, cpu_model: str) -> pd.DataFrame:
    """Return the medians of a CPU model's summaries, as `compute_medians` does; skip
    damaged files.
    """
    return compute_medians(find_summaries_of_model(root, cpu_model))


def simplify_cpu_model(text: str) -> str:
    """Simplify a CPU model for comparisons: without trademarks, number of cores, clock
    and generation.
    """
    words = _NOT_OF_MODEL.sub(" ", text.casefold()).split()
    return " ".join(words)


def make_summary_rows(
    name: str,
    tool: str,
    grid: Grid,
    columns: Mapping[str, Any],
    machine: Topology | None = None,
) -> list[dict[str, Any]]:
    """Turn one matrix into rows of the summaries table, a row per pair.

    name: the name of the summary. tool: the name of the tool that printed the matrix.
    columns: values by column; a column without a value there gets that of the matrix
    or the tool. machine: the topology that gives the relations, if known.
    """
    constant = _choose_values(grid, columns)
    constant |= {"summary": name, "tool": tool}
    constant["estimator"] = columns.get("estimator") or TOOLS[tool].estimator
    constant["labels_json"] = json.dumps(columns.get("labels") or {})
    topology = _make_topology(machine)
    rows = list[dict[str, Any]]()
    for (ping, pong), latency_ns in grid.cells.items():
        pair = {
            "ping_cpu": ping,
            "pong_cpu": pong,
            "relation": topology.name_relation(ping, pong),
            "latency_ns": latency_ns,
        }
        rows.append(constant | pair)
    return rows


def _choose_values(grid: Grid, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that all rows of a matrix have, by column: those in `columns`,
    else those that the matrix states; None if neither has one.
    """
    names = (
        "benchmark",
        "variant",
        "samples",
        "iterations",
        "cpu_model",
        "os",
        "conditions",
        "source",
        "imported_utc",
    )
    values = {}
    for name in names:
        values[name] = columns.get(name) or getattr(grid, name, None)
    return values


def _make_topology(machine: Topology | None) -> Topology:
    """Return the topology of a machine with names for its kinds of core, which its
    relations then have. If it is None, return one without CPUs, in which every relation
    is unknown.
    """
    if machine is None:
        return Topology(())
    cpus = machine.cpus
    kinds = name_core_kinds((cpu.cpu, cpu.kind, cpu.capacity) for cpu in cpus)
    return Topology(cpus, kinds)


def compute_half_widths(rows: pd.DataFrame) -> "pd.Series[float]":
    """Compute half the width of each pair's interval, relative to its latency; NaN
    without an interval.
    """
    low = rows["low_ns"].astype(float)
    high = rows["high_ns"].astype(float)
    half_ns = (high - low) / 2
    return half_ns / rows["latency_ns"]


def renumber_cpus(grid: Grid, cpus: Sequence[int] | None) -> Grid:
    """Give a matrix the CPU numbers that its format lost. Raises UsageError if their
    count is wrong.
    """
    if cpus is None:
        return grid
    if len(cpus) != len(grid.cpus):
        raise UsageError(
            f"--cpus names {len(cpus)} CPUs, the matrix has {len(grid.cpus)}."
        )
    new_number = dict(zip(grid.cpus, cpus, strict=True))
    cells = NewCells()
    for (row, column), value in grid.cells.items():
        cells[new_number[row], new_number[column]] = value
    return replace(grid, cpus=tuple(cpus), cells=cells)


def make_grid(rows: pd.DataFrame) -> Grid:
    """Make the matrix of one benchmark and variant of a summary from its rows."""
    cells = collect_cells(rows, "latency_ns")
    (first,) = to_records(rows.head(1))
    return Grid(
        cpus=list_cpus(cells),
        cells=cells,
        benchmark=first["benchmark"],
        samples=_to_int(first["samples"]),
        iterations=_to_int(first["iterations"]),
        cpu_model=first["cpu_model"],
        variant=first["variant"],
    )


def collect_cells(pairs: pd.DataFrame, column: str) -> NewCells:
    """Return the numbers in `column` by the two CPUs of each pair."""
    cells = NewCells()
    numbers = pairs[["ping_cpu", "pong_cpu", column]]
    for ping, pong, number in numbers.itertuples(index=False):
        cells[int(ping), int(pong)] = float(number)
    return cells


def list_cpus(cells: Cells) -> tuple[int, ...]:
    """List the CPUs of which there are numbers, ascending."""
    cpus = {cpu for ends in cells for cpu in ends}
    return tuple(sorted(cpus))


def _to_int(value: float | None) -> int | None:
    if value is None:
        return None
    return int(value)


def derive_cpus(rows: pd.DataFrame) -> pd.DataFrame:
    """Derive a table like `cpus` from a summary's relations; the table has no rows if
    the relations are unknown.

    A relation is what two CPUs share and, if the machine has several kinds of core, the
    kinds of both: "llc", "core P" or "package P-E". The table has a row per CPU, with
    the columns `cpu`, `kind`, and one for each level at which CPUs form groups, such as
    the last-level cache. A group has the number of its lowest CPU.
    """
    words = rows["relation"].str.split(" ")
    level_of_row = words.str[0]
    kinds_of_row = words.str[-1]  # the level again if there are no kinds
    cpus = np.unique(rows[["ping_cpu", "pong_cpu"]])
    kinds = _find_kinds(cpus, rows, kinds_of_row)
    table = pd.DataFrame({"cpu": cpus, "kind": kinds})
    levels_so_far = list[str]()
    for level in _LEVELS_FROM_NEAREST:
        levels_so_far.append(level)
        # CPUs that share a nearer level share this one as well
        pairs_within = rows[level_of_row.isin(levels_so_far)]
        column = _name_group_column(level)
        table[column] = _find_lowest_of_group(cpus, pairs_within)
    if (level_of_row == Relation.UNKNOWN).all():
        return table[:0]  # the columns without rows
    return table


def _find_kinds(
    cpus: Ints, rows: pd.DataFrame, kinds_of_row: "pd.Series[str]"
) -> "pd.Series[Any]":
    """Return the kind of core of each of `cpus`, None if no pair shows it.

    kinds_of_row: the last word of each row's relation. Only "P" and "P-P" show that
    both CPUs are of kind P; "P-E" does not say which is which.
    """
    kinds = pd.Series(None, range(len(cpus)), dtype=object)
    for kind in KINDS:
        words_of_kind = (kind, f"{kind}-{kind}")
        pairs = rows[kinds_of_row.isin(words_of_kind)]
        members = [*pairs["ping_cpu"], *pairs["pong_cpu"]]
        is_member = np.isin(cpus, members)
        kinds[is_member] = kind
    return kinds


def _name_group_column(level: Relation) -> str:
    """Return the column of `cpus` whose groups are of this relation."""
    if level == Relation.SMT:
        return "core"
    return level


def _find_lowest_of_group(cpus: Ints, near: pd.DataFrame) -> Ints:
    """Return for each CPU the lowest one of its group. CPUs that a chain of `near`
    pairs joins are a group: with the pairs 4-2 and 2-0, all three have CPU 0.

    cpus: ascending. near: rows with `ping_cpu` and `pong_cpu`.
    """
    # the places in `cpus` of the two CPUs of each pair
    ping = np.searchsorted(cpus, near["ping_cpu"])
    pong = np.searchsorted(cpus, near["pong_cpu"])
    lowest = cpus.copy()  # by the same places: the lowest CPU reached so far
    # Both CPUs of a pair take the lower of their numbers, until no number changes.
    # `minimum.at` also takes several pairs of the same CPU into account.
    while True:
        before = lowest.copy()
        np.minimum.at(lowest, ping, lowest[pong])
        np.minimum.at(lowest, pong, lowest[ping])
        if np.array_equal(lowest, before):
            return lowest


def lay_out_summary(rows: pd.DataFrame) -> Layout:
    """Order the CPUs of a summary by topology, if its relations are known, else by
    number.
    """
    both_cpus = rows[["ping_cpu", "pong_cpu"]].astype(int)
    cpus = np.unique(both_cpus).tolist()
    return make_layout(derive_cpus(rows), cpus)


def is_guessed(rows: pd.DataFrame) -> "pd.Series[bool]":
    """Report for each row of `summaries` whether its relation was guessed from the
    latencies.
    """
    guesses = {}  # by the text of the labels
    for text in rows["labels_json"].unique():
        labels = json.loads(text)
        guesses[text] = labels.get(RELATIONS) == GUESSED
    return rows["labels_json"].map(guesses).astype(bool)


class ImportMetadata(NamedTuple):
    """Options of an import, as the user states them. benchmarks: one for each matrix,
    in order; none if the files name them. topology: a selection, whose last run lists
    the CPUs.

    sockets: how many the machine has, to guess its topology if no run is selected.
    """

    tool: str | None = None
    benchmarks: Sequence[BenchmarkName] = ()
    variant: str | None = None
    estimator: str | None = None
    cpus: tuple[int, ...] | None = None
    cpu_model: str | None = None
    os: str | None = None
    conditions: str | None = None
    source: str | None = None
    topology: str | None = None
    sockets: int = 1
    labels: Mapping[str, str] = MappingProxyType({})


class _Matrix(NamedTuple):
    """A matrix to import. tool: the one that printed it in `file`."""

    file: Path
    tool: str
    grid: Grid


def import_files(
    root: str | Path, files: Sequence[Path], name: str, metadata: ImportMetadata
) -> str:
    """Store every matrix in `files` in the summary `name`; return a message for the
    user.

    Raises UsageError, and stores nothing, if a file cannot be read or a matrix cannot
    be stored.
    """
    _require_valid(name, metadata)
    matrices = list[_Matrix]()
    for file in files:
        matrices += _read_file(file, metadata)
    matrices = _name_benchmarks(matrices, metadata.benchmarks)
    machine = _choose_topology(root, matrices, metadata)
    is_machine_guessed = machine is not None and metadata.topology is None
    labels = dict(metadata.labels)
    if is_machine_guessed:
        labels[RELATIONS] = GUESSED
    columns = metadata._asdict()
    columns["imported_utc"] = datetime.now(UTC)
    columns["labels"] = labels
    rows_by_benchmark = _make_rows_by_benchmark(name, matrices, columns, machine)
    all_rows = list(itertools.chain(*rows_by_benchmark.values()))
    is_new = write_summary(root, name, all_rows)
    return _tell_of_import(
        name,
        list(rows_by_benchmark),
        matrices[-1].grid,  # its size stands for all: they are of one machine
        is_new=is_new,
        # not only if guessed now: the user's own labels may have it, too
        has_guesses=RELATIONS in labels,
    )


def _read_file(file: Path, metadata: ImportMetadata) -> list[_Matrix]:
    """Read the matrices of a file, with the CPU numbers that the user states. Raises
    UsageError.
    """
    tool, grids = read_matrices(_read_text(file), str(file), metadata.tool)
    renumbered = [renumber_cpus(grid, metadata.cpus) for grid in grids]
    return [_Matrix(file, tool, grid) for grid in renumbered]


def _name_benchmarks(
    matrices: Sequence[_Matrix], names: Sequence[BenchmarkName]
) -> list[_Matrix]:
    """Give the matrices the benchmarks that the user names, one for each in order.
    Raises UsageError if there are more or fewer names than matrices; and without names,
    for a matrix whose benchmark the file does not tell.
    """
    if not names:
        _require_names(matrices)
        return [*matrices]
    if len(names) != len(matrices):
        raise UsageError(
            f"--benchmark names {format_count(len(names), 'benchmark')}, but there"
            f" {_count_matrices(matrices)}; name one for each, in their order."
        )
    return list(map(_name_benchmark, matrices, names))


def _require_names(matrices: Sequence[_Matrix]) -> None:
    """Raise UsageError if a matrix does not say which benchmark it is of."""
    for file, _, grid in matrices:
        if grid.benchmark is None:
            example = ",".join(("cas", "message", "readwrite")[: len(matrices)])
            raise UsageError(
                f"{file}: does not say which benchmark it is of. There"
                f" {_count_matrices(matrices)}: name one for each, in their order, such"
                f" as --benchmark {example}."
            )


def _name_benchmark(matrix: _Matrix, name: BenchmarkName) -> _Matrix:
    grid = replace(matrix.grid, benchmark=name.benchmark)
    if name.variant:
        grid = replace(grid, variant=name.variant)
    return matrix._replace(grid=grid)


def _count_matrices(matrices: Sequence[_Matrix]) -> str:
    if len(matrices) == 1:
        return "is 1 matrix"
    return f"are {len(matrices)} matrices"


def _make_rows_by_benchmark(
    name: str,
    matrices: Sequence[_Matrix],
    columns: Mapping[str, Any],
    machine: Topology | None,
) -> dict[str, list[dict[str, Any]]]:
    """Make the rows of the summary `name` from each matrix; return them by benchmark.
    Raises UsageError for a matrix without values or a second matrix of a benchmark.

    columns: see `make_summary_rows`; if these name no source, the file is the source.
    """
    rows_by_benchmark = dict[str, list[dict[str, Any]]]()
    for file, tool, grid in matrices:
        source = columns["source"] or printable(str(file))
        sourced = {**columns, "source": source}
        rows = make_summary_rows(name, tool, grid, sourced, machine)
        if not rows:
            raise UsageError(f"{file}: the matrix has no values.")
        benchmark = rows[0]["benchmark"]
        if benchmark in rows_by_benchmark:
            raise UsageError(
                f"{file}: a second matrix of {benchmark}; import it under another"
                " --name."
            )
        rows_by_benchmark[benchmark] = rows
    return rows_by_benchmark


def _tell_of_import(
    name: str,
    benchmarks: Sequence[str],
    grid: Grid,
    *,
    is_new: bool,
    has_guesses: bool,
) -> str:
    """Tell the user what was imported. grid: the matrix whose size is told."""
    outcome = "Is here already:"
    if is_new:
        outcome = "Stored"
    guess = ""
    if has_guesses:
        guess = " Relations are guessed from its levels."
    return (
        f"{outcome} {PREFIX}{name}: {', '.join(benchmarks)}, {_format_size(grid)}."
        f"{guess} See it: fleet show {PREFIX}{name}"
    )


def _format_size(grid: Grid) -> str:
    """Format the numbers of CPUs and cells of a matrix: "4 CPUs, 12 cells", "4 CPUs, 6
    cells (half a matrix)" or, if other cells are missing, "4 CPUs, 11 cells of 12".
    """
    cpus = len(grid.cpus)
    cells = len(grid.cells)
    full = cpus * (cpus - 1)
    part = f" of {full:,}"
    if cells == full:
        part = ""
    elif cells == full // 2:
        part = " (half a matrix)"
    return f"{format_count(cpus, 'CPU')}, {format_count(cells, 'cell')}{part}"


def _choose_topology(
    root: Root, matrices: Sequence[_Matrix], metadata: ImportMetadata
) -> Topology | None:
    """Load the topology of the run that the user selects, or guess it from the first
    matrix.
    """
    if metadata.topology is None:
        return guess_topology(matrices[0].grid, metadata.sockets)
    return _load_run_topology(open_listing(root), metadata.topology, matrices)


def _load_run_topology(
    listing: Listing, selection: str, matrices: Sequence[_Matrix]
) -> Topology:
    """Load the topology of the last run selected. Raises UsageError if it lacks a CPU
    of a matrix.
    """
    *_, run = select_runs(listing.runs, [selection], listing)
    table = load_cpus(listing, run_id=run.run_id)
    cpus = [_make_cpu(row) for row in to_records(table[["cpu", *GROUPS]])]
    present = {cpu.cpu for cpu in cpus}
    for matrix in matrices:
        unknown = sorted(set(matrix.grid.cpus) - present)
        if unknown:
            raise UsageError(
                f"--topology {selection}: that machine has no CPU"
                f" {format_cpus(unknown)}, which {matrix.file} has; name the CPUs of"
                " the matrix with --cpus, or choose a run of the machine it was"
                " measured on."
            )
    return Topology(cpus)


def _make_cpu(row: Mapping[str, float | None]) -> Cpu:
    """Make a CPU of the numbers of its row in `cpus`."""
    numbers = {name: _to_int(value) for name, value in row.items()}
    return Cpu(**numbers)  # type: ignore[arg-type]


def _require_valid(name: str, metadata: ImportMetadata) -> None:
    """Raise UsageError for a name or an option that no summary can have: an unknown
    tool, benchmark or estimator, or a text that is not one printable line.
    """
    require_free_name(name)
    _require_known("tool", metadata.tool, TOOLS)
    for benchmark_name in metadata.benchmarks:
        _require_importable(benchmark_name, metadata.variant)
    _require_known("estimator", metadata.estimator, ("median", "mean", "min"))
    for word in ("variant", "cpu_model", "os", "conditions", "source"):
        text = getattr(metadata, word) or ""
        if not text.isprintable():
            option = word.replace("_", "-")
            raise UsageError(f"--{option}: must be one line of text in UTF-8.")


def _require_importable(name: BenchmarkName, variant: str | None) -> None:
    """Raise UsageError unless a matrix can be of this benchmark.

    name: what --benchmark says: a benchmark, perhaps with a variant ("" without one) or
    with a setting, as in "chase random". variant: what --variant says, or None; the two
    must not name different variants.
    """
    views = {benchmark: BENCHMARKS[benchmark].view for benchmark in VARIANTS}
    matrices = [benchmark for benchmark in VARIANTS if views[benchmark] is View.MATRIX]
    _require_known("benchmark", name.benchmark, matrices)
    if name.setting:
        raise UsageError(
            f"--benchmark '{name}': a summary has no settings; name"
            f" {name.benchmark} alone."
        )
    if variant and name.variant not in ("", variant):
        raise UsageError(
            f"--variant {variant}: --benchmark names {name.variant}; keep one of them."
        )


def _require_known(option: str, value: str | None, choices: Collection[str]) -> None:
    if value is not None and value not in choices:
        raise UsageError(
            f"--{option} {value}: unknown; there are {', '.join(choices)}."
        )


def _read_text(file: Path) -> str:
    """Read a text file in UTF-8, or in UTF-16 as PowerShell redirects output. Raises
    UsageError.
    """
    try:
        data = _read_bytes(file, MAX_BYTES + 1)
    except OSError as err:
        raise UsageError(f"{file}: cannot be read: {err.strerror}.") from err
    if len(data) > MAX_BYTES:
        raise UsageError(
            f"{file}: larger than {MAX_BYTES >> 20} MiB; no matrix is so large."
        )
    encoding = "utf-8-sig"
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as err:
        raise UsageError(
            f"{file}: not text in UTF-8 or UTF-16 (byte {err.start})."
        ) from err


def _read_bytes(file: Path, most: int) -> bytes:
    """Read up to `most` bytes of a file, or of standard input if it is `-`."""
    if str(file) == "-":
        return sys.stdin.buffer.read(most)
    with file.open("rb") as stream:
        return stream.read(most)
