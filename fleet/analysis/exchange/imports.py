"""Import summaries (one number per pair, no samples), and read those imported or
shipped with fleet.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
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
from fleet.analysis.base.text import to_records
from fleet.analysis.exchange.guess import guess_topology
from fleet.analysis.exchange.tools import TOOLS, Grid, read_matrices
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
from fleet.plan.benchmark_names import VARIANTS
from fleet.plan.cpulist import format_cpus
from fleet.store.files import store_errors
from fleet.store.places import Folder, Place, require_key
from fleet.store.reading import TableFile, read_files, read_undamaged
from fleet.store.runs import Listing, Root, open_listing
from fleet.store.writing import SUMMARIES, write_summary
from fleet.text import format_count, printable, suggest_similar

PREFIX = "summary:"  # how a command line tells a summary from a run or a host
RELATIONS, GUESSED = "relations", "guessed"  # key and value of a label
_NOT_OF_MODEL = re.compile(r"\((r|tm)\)|\b(cpu|processor|\w+-core|\d+th gen)\b|@.*")
_SHIPPED = Folder(Path(str(files("fleet"))) / "published")
_NEAR = (
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
    return pd.concat([frame for frame in tables if len(frame)], ignore_index=True)


def require_free_name(name: str) -> None:
    """Raise UsageError if no summary can be stored under this name."""
    try:
        require_key(name, "summary")
    except StoreError as err:
        raise UsageError(f"--name: {err}") from err
    if _SHIPPED.stamp(f"{name}.parquet"):
        raise UsageError(
            f"--name {name}: fleet ships a summary of this name; choose another."
        )


def locate_summaries(root: Root) -> dict[str, tuple[Place, str]]:
    """Return the place and the file of each summary, imported or shipped, by name."""
    place = open_listing(root).place
    with store_errors("read the summaries", place):
        files_by_place = [
            (_SHIPPED, _SHIPPED.files("*.parquet")),
            (place, place.files(SUMMARIES)),
        ]
    return {
        Path(file).stem: (where, file)
        for where, files in files_by_place
        for file in files
    }


def find_summaries(root: Root, texts: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Return the rows of each summary that these names or globs match. Raises
    UsageError for no match.
    """
    names = locate_summaries(root)
    summaries = dict[str, pd.DataFrame]()
    for text in texts:
        meant = [name for name in names if fnmatchcase(name, text.removeprefix(PREFIX))]
        summaries |= {name: find_summary(root, name) for name in meant or [text]}
    return summaries


def find_summary(root: Root, name: str) -> pd.DataFrame:
    """Return the rows of a summary, named with or without `summary:`. Raises UsageError
    if there is none.
    """
    name, names = name.removeprefix(PREFIX), locate_summaries(root)
    if name not in names:
        raise UsageError(
            f"no summary is called {name!r}{suggest_similar(name, names)} "
            "`fleet runs --summaries` lists them."
        )
    place, file = names[name]
    return _read_summaries(place, [file])


def find_summaries_of_model(root: Root, cpu_model: str) -> pd.DataFrame:
    """Return the rows of all summaries of a CPU model; skip damaged files."""
    names, simplified = locate_summaries(root), simplify_cpu_model(cpu_model)

    def read_if_of_model(name: str) -> pd.DataFrame | None:
        place, file = names[name]
        models = (
            TableFile(place, file, "summaries")
            .read(["cpu_model"])
            .column(0)
            .unique()
            .to_pylist()
        )
        is_of_model = any(
            model and simplify_cpu_model(model) == simplified for model in models
        )
        return _read_summaries(place, [file]) if is_of_model else None

    parts = [
        part
        for part in read_undamaged([*names], read_if_of_model).values()
        if part is not None
    ]
    return pd.concat(parts or [_read_summaries(_SHIPPED, [])], ignore_index=True)


def compute_medians(rows: pd.DataFrame) -> pd.DataFrame:
    """Return `median_ns` by summary, benchmark, variant ("" for unknown) and
    relation.
    """
    groups = rows.fillna({"variant": ""}).groupby(
        ["summary", "benchmark", "variant", "relation"], sort=False
    )
    return groups["latency_ns"].median().rename("median_ns").reset_index()


def compute_model_medians(root: Root, cpu_model: str) -> pd.DataFrame:
    """Return the medians of a CPU model's summaries, as `compute_medians` does; skip
    damaged files.
    """
    return compute_medians(find_summaries_of_model(root, cpu_model))


def simplify_cpu_model(text: str) -> str:
    """Simplify a CPU model for comparisons: without trademarks, number of cores, clock
    and generation.
    """
    return " ".join(_NOT_OF_MODEL.sub(" ", text.casefold()).split())


def make_summary_rows(
    name: str,
    tool: str,
    grid: Grid,
    columns: Mapping[str, Any],
    machine: Topology | None = None,
) -> list[dict[str, Any]]:
    """Turn one matrix into rows of the summaries table. columns: values that override
    the matrix's or tool's.

    machine: the topology that gives the relations, if known. Raises UsageError if no
    benchmark is named.
    """
    benchmark = columns.get("benchmark") or grid.benchmark
    if benchmark is None:
        raise UsageError(
            f"{name}: the matrix does not name its benchmark; name it with --benchmark."
        )
    either = (
        "variant",
        "samples",
        "iterations",
        "cpu_model",
        "os",
        "conditions",
        "source",
        "imported_utc",
    )
    constant = {key: columns.get(key) or getattr(grid, key, None) for key in either}
    constant |= {"summary": name, "benchmark": benchmark, "tool": tool}
    constant["estimator"] = columns.get("estimator") or TOOLS[tool].estimator
    constant["labels_json"] = json.dumps(columns.get("labels") or {})
    cpus = machine.cpus if machine else ()
    topology = Topology(
        cpus, name_core_kinds((cpu.cpu, cpu.kind, cpu.capacity) for cpu in cpus)
    )
    return [
        constant
        | {"ping_cpu": row, "pong_cpu": column}
        | {"relation": topology.name_relation(row, column), "latency_ns": value}
        for (row, column), value in grid.cells.items()
    ]


def compute_half_widths(rows: pd.DataFrame) -> "pd.Series[float]":
    """Compute half the width of each pair's interval, relative to its latency; NaN
    without an interval.
    """
    low, high = (rows[end].astype(float) for end in ("low_ns", "high_ns"))
    return (high - low) / 2 / rows["latency_ns"]


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
    names = dict(zip(grid.cpus, cpus, strict=True))
    cells = {
        (names[row], names[column]): value
        for (row, column), value in grid.cells.items()
    }
    return replace(grid, cpus=tuple(cpus), cells=cells)


def make_grid(rows: pd.DataFrame) -> Grid:
    """Make the matrix of one benchmark and variant of a summary from its rows."""
    (first,) = to_records(rows.head(1))
    both = rows[["ping_cpu", "pong_cpu"]].to_numpy(dtype=int)
    return Grid(
        cpus=tuple(np.unique(both).tolist()),
        cells=dict(
            zip(
                map(tuple, both.tolist()), rows["latency_ns"].astype(float), strict=True
            )
        ),
        samples=first["samples"] and int(first["samples"]),
        iterations=first["iterations"] and int(first["iterations"]),
        **{name: first[name] for name in ("benchmark", "cpu_model", "variant")},
    )


def derive_cpus(rows: pd.DataFrame) -> pd.DataFrame:
    """Derive a table like `cpus` from a summary's relations; it has no rows if the
    relations are unknown.
    """
    words = rows["relation"].str.split(" ")
    cpus = np.unique(rows[["ping_cpu", "pong_cpu"]])
    table = pd.DataFrame({"cpu": cpus, "kind": None}).astype({"kind": "object"})
    for kind in KINDS:
        own = rows[words.str[-1].isin((kind, f"{kind}-{kind}"))]
        table.loc[table["cpu"].isin({*own["ping_cpu"], *own["pong_cpu"]}), "kind"] = (
            kind
        )
    for count, level in enumerate(_NEAR, 1):
        near = rows[words.str[0].isin(_NEAR[:count])]
        ends = [np.searchsorted(cpus, near[name]) for name in ("ping_cpu", "pong_cpu")]
        groups, before = cpus.copy(), cpus[:0]
        while not np.array_equal(
            groups, before
        ):  # until each CPU has the lowest that near pairs lead to
            before = groups.copy()
            for end, other in (ends, ends[::-1]):
                np.minimum.at(groups, end, groups[other])
        table["core" if level == Relation.SMT else level] = groups
    return table[: 0 if (words.str[0] == Relation.UNKNOWN).all() else None]


def lay_out_summary(rows: pd.DataFrame) -> Layout:
    """Order the CPUs of a summary by topology, if its relations are known, else by
    number.
    """
    return make_layout(
        derive_cpus(rows),
        np.unique(rows[["ping_cpu", "pong_cpu"]].astype(int)).tolist(),
    )


def name_benchmarks(rows: pd.DataFrame) -> "pd.Series[str]":
    """Name each row by benchmark and variant, as `cas/llsc`, or by benchmark alone if
    it has no variant.
    """
    names = rows["benchmark"].astype(str)
    return names.where(
        rows["variant"].isna(), names + "/" + rows["variant"].astype(str)
    )


def is_guessed(rows: pd.DataFrame) -> "pd.Series[bool]":
    """Report for each row of `summaries` whether its relation was guessed from the
    latencies.
    """
    guesses = {
        text: json.loads(text).get(RELATIONS) == GUESSED
        for text in rows["labels_json"].unique()
    }
    return rows["labels_json"].map(guesses).astype(bool)


class ImportMetadata(NamedTuple):
    """Options of an import, as the user states them. topology: a selection, whose last
    run lists the CPUs.

    sockets: how many the machine has, to guess its topology if no run is selected.
    """

    tool: str | None = None
    benchmark: str | None = None
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


def import_files(
    root: str | Path, files: Sequence[Path], name: str, metadata: ImportMetadata
) -> str:
    """Store every matrix in `files` as the summary `name`; return a message for the
    user.

    Raises UsageError, and stores nothing, if a file cannot be read or a matrix cannot
    be stored.
    """
    _require_valid(name, metadata)
    matrices = list[tuple[Path, str, Grid]]()
    for file in files:
        tool, grids = read_matrices(_read_text(file), str(file), metadata.tool)
        if metadata.benchmark is not None and len(grids) > 1:
            raise UsageError(
                f"{file}: holds {len(grids)} matrices; --benchmark can name only one."
            )
        matrices += [(file, tool, renumber_cpus(grid, metadata.cpus)) for grid in grids]
    labels, machine = dict(metadata.labels), None
    if metadata.topology is not None:
        machine = _load_run_topology(open_listing(root), metadata.topology, matrices)
    elif (machine := guess_topology(matrices[0][2], metadata.sockets)) is not None:
        labels[RELATIONS] = GUESSED
    stated = metadata._asdict() | {"imported_utc": datetime.now(UTC), "labels": labels}
    rows, kinds = list[dict[str, Any]](), list[str]()
    for file, tool, grid in matrices:
        columns = stated | {"source": metadata.source or printable(str(file))}
        rows += make_summary_rows(name, tool, grid, columns, machine)
        if not grid.cells:
            raise UsageError(f"{file}: the matrix has no values.")
        if rows[-1]["benchmark"] in kinds:
            raise UsageError(
                f"{file}: a second matrix of {kinds[-1]}; import it under another"
                " --name."
            )
        kinds.append(rows[-1]["benchmark"])
    stored = "Stored" if write_summary(root, name, rows) else "Is here already:"
    cpus, cells = len(grid.cpus), len(grid.cells)
    full_count = cpus * (cpus - 1)
    part = {full_count: "", full_count // 2: " (half a matrix)"}.get(
        cells, f" of {full_count:,}"
    )
    size = f"{format_count(cpus, 'CPU')}, {format_count(cells, 'cell')}{part}"
    guess = "" if RELATIONS not in labels else " Relations are guessed from its levels."
    return (
        f"{stored} {PREFIX}{name}: {', '.join(kinds)}, {size}.{guess} See it: fleet"
        f" show {PREFIX}{name}"
    )


def _load_run_topology(
    listing: Listing, selection: str, matrices: Sequence[tuple[Path, str, Grid]]
) -> Topology:
    """Load the topology of the last run selected. Raises UsageError if it lacks a CPU
    of a matrix.
    """
    run = select_runs(listing.runs, [selection], listing.place)[-1]
    rows = to_records(load_cpus(listing, run_id=run.run_id)[["cpu", *GROUPS]])
    cpus = [
        {name: None if value is None else int(value) for name, value in row.items()}
        for row in rows
    ]
    for file, _, grid in matrices:
        if unknown := sorted(set(grid.cpus) - {row["cpu"] for row in cpus}):
            raise UsageError(
                f"--topology {selection}: that machine has no CPU"
                f" {format_cpus(unknown)}, which {file} has; name the CPUs of the"
                " matrix with --cpus, or choose a run of the machine it was"
                " measured on."
            )
    return Topology(tuple(Cpu(**row) for row in cpus))  # type: ignore[arg-type]


def _require_valid(name: str, metadata: ImportMetadata) -> None:
    require_free_name(name)
    for word, allowed in (
        ("tool", TOOLS),
        (
            "benchmark",
            tuple(name for name in VARIANTS if BENCHMARKS[name].view is View.MATRIX),
        ),
        ("estimator", ("median", "mean", "min")),
    ):
        if (value := getattr(metadata, word)) not in (None, *allowed):
            raise UsageError(
                f"--{word} {value}: unknown; there are {', '.join(allowed)}."
            )
    for word in ("variant", "cpu_model", "os", "conditions", "source"):
        if not (getattr(metadata, word) or "").isprintable():
            raise UsageError(
                f"--{word.replace('_', '-')}: must be one line of text in UTF-8."
            )


def _read_text(file: Path) -> str:
    """Read a text file in UTF-8, or in UTF-16 as PowerShell redirects output. Raises
    UsageError.
    """
    try:
        with (
            nullcontext(sys.stdin.buffer) if str(file) == "-" else file.open("rb")
        ) as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as err:
        raise UsageError(f"{file}: cannot be read: {err.strerror}.") from err
    if len(data) > MAX_BYTES:
        raise UsageError(
            f"{file}: larger than {MAX_BYTES >> 20} MiB; no matrix is so large."
        )
    utf16 = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    try:
        return data.decode("utf-16" if utf16 else "utf-8-sig")
    except UnicodeDecodeError as err:
        raise UsageError(
            f"{file}: not text in UTF-8 or UTF-16 (byte {err.start})."
        ) from err
