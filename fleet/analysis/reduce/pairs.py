"""The derived table `_pairs`: a row per run and pair, computed on first use and stored beside the samples.

A file made from other samples, or by another version of these statistics, is replaced. A run is reduced in
slices, so memory is bounded by a slice, not by the run.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from warnings import warn

import numpy as np
import pandas as pd
import pyarrow as pa

from fleet.analysis.reduce.bursts import COLUMNS, of_arrow
from fleet.analysis.reduce.flags import with_pair_flags
from fleet.analysis.reduce.load import Chosen, published, rows_wanted, without_points
from fleet.analysis.reduce.matrices import OF_LEVELS, by_relation, reduced
from fleet.errors import StoreError, StoreWarning
from fleet.store import schema
from fleet.store.pairs_cache import keep_pairs, kept_pairs
from fleet.store.places import Place, place_of
from fleet.store.publish import samples_name
from fleet.store.reading import TableFile, chosen, each, joined
from fleet.store.runs import RunSummary
from fleet.store.samples import record_of

STATS_VERSION = 7  # raise it whenever a number or a flag of `pairs` changes
SLICE_SAMPLES = 4 << 20
_CLASS = ["benchmark", "variant", "relation"]
_SORTED_BY = [*_CLASS, "point", "ping_cpu", "pong_cpu"]
_OF_HISTORY = (
    "run_id",
    *_CLASS,
    "point",
    "ping_cpu",
    "pong_cpu",
    "bursts",
    "median_ns",
    "p99_ns",
    "spread",
    "flagged_bursts",
    "flags",
)


def load_pairs(
    root: str | Path,
    *,
    run_id: Chosen = None,
    host_id: Chosen = None,
    benchmark: Chosen = None,
    relation: Chosen = None,
    labels: Mapping[str, str] | None = None,
    columns: Sequence[str] | None = None,
    note: Callable[[str], None] | None = None,
) -> pd.DataFrame:
    """Read the table `pairs` (docs/tables.md): a row per run, benchmark, variant, point and pair, in ns.

    Filters as of `load_samples`. Runs come oldest first, their rows by benchmark, variant, relation and CPUs;
    numbers are float32. What is missing is computed now and stored; `note` is called before, since it may
    take a while.
    """
    place = place_of(root)
    runs = published(root, run_id=run_id, host_id=host_id, labels=labels)
    where = rows_wanted(benchmark=benchmark, relation=relation)
    parts = each(lambda run: kept_pairs(place, run, STATS_VERSION, columns, where), runs)
    missing = [at for at, part in enumerate(parts) if part is None]
    if missing and note:
        note(f"reducing the samples of {len(missing)} of {len(runs)} runs to pairs; this is done once")
    for at in missing:
        try:
            table = derive(place, runs[at])
        except StoreError as err:
            if len(runs) == 1:
                raise
            warn(f"{err} It is left out.", StoreWarning, stacklevel=2)
            continue
        keep_pairs(place, runs[at], STATS_VERSION, table)
        parts[at] = chosen(table, "pairs", columns, where)
    found = [part for part in parts if part is not None]
    frame: pd.DataFrame = joined(found, "pairs", columns).to_pandas()
    return frame


def history(
    root: str | Path,
    *,
    run_id: Chosen = None,
    host_id: Chosen = None,
    relation: Chosen = None,
    benchmark: Chosen = None,
    labels: Mapping[str, str] | None = None,
    note: Callable[[str], None] | None = None,
) -> pd.DataFrame:
    """A row per run, benchmark, variant and relation, oldest first; benchmarks with points are left out.

    Columns: `started_utc`, `host_id`, `host_name`, `run_id`, `labels` (a dict), and those of
    `fleet.analysis.matrices.relations`.
    """
    runs = published(root, run_id=run_id, host_id=host_id, labels=labels)
    pairs = load_pairs(
        root,
        run_id=[run.run_id for run in runs],
        benchmark=benchmark,
        relation=relation,
        columns=_OF_HISTORY,
        note=note,
    )
    return by_run(runs, without_points(pairs))


def by_run(runs: Sequence[RunSummary], pairs: pd.DataFrame) -> pd.DataFrame:
    """The rows of `history` for these pairs, or other cells (`reduce.cells`) in the same columns."""
    listed = pd.DataFrame(
        [(run.started_utc, run.host_id, run.host_name, run.run_id, dict(run.labels)) for run in runs],
        columns=["started_utc", "host_id", "host_name", "run_id", "labels"],
    )
    found = listed.merge(by_relation(pairs, ["run_id", *_CLASS]), on="run_id")
    order = ["started_utc", "run_id", "benchmark", "variant", "median_ns"]
    return found.sort_values(order, kind="stable").reset_index(drop=True)


def widened(pairs: pd.DataFrame) -> pd.DataFrame:
    """The same rows with float64 that print as short as the float32 they were, and plain strings."""
    columns: dict[Any, pd.Series[Any]] = {}
    for name, column in pairs.items():
        if isinstance(column.dtype, pd.CategoricalDtype):
            known = column.notna()
            plain = column.astype(object)
            columns[name] = column.astype(str) if known.all() else plain.where(known, None)
        elif column.dtype == np.float32:
            columns[name] = pd.Series(column.to_numpy().astype(str).astype(np.float64), index=pairs.index)
        elif name in OF_LEVELS:
            columns[name] = column.map(
                lambda values: None if values is None else np.asarray(values).astype(str).astype(np.float64)
            )
        else:
            columns[name] = column
    return pd.DataFrame(columns)


def derive(place: Place, run: RunSummary) -> Any:
    """Reduce a run's samples to the table `pairs`, as pyarrow holds it."""
    file = TableFile(place, samples_name(run.host_id, run.run_id), "samples", threads=True)
    parts = [reduced(of_arrow(part)) for part in slices(file, SLICE_SAMPLES)]
    asked = record_of(file).row["precision"]
    pairs = with_pair_flags(pd.concat(parts, ignore_index=True), asked)
    pairs = pairs.sort_values(_SORTED_BY, kind="stable").assign(
        host_id=run.host_id, stats_version=STATS_VERSION
    )
    shape = schema.arrow_schema("pairs")
    return pa.table([_column(pairs[field.name], field) for field in shape], schema=shape)


def _column(values: "pd.Series[Any]", field: Any) -> Any:
    if pa.types.is_list(field.type):  # a NaN inside a list is a number, not a null
        return pa.array([None if isinstance(one, float) else one for one in values], field.type)
    column = pa.array(values, from_pandas=True)
    if pa.types.is_dictionary(field.type):
        return column.cast(pa.string()).dictionary_encode()
    return column.cast(field.type, safe=False)  # float64 is rounded to float32


class _Slice(NamedTuple):
    """The pairs of one benchmark, variant and relation whose lower CPU is from `first` to `last`."""

    benchmark: str
    variant: str
    relation: str
    first: int
    last: int


def slices(file: TableFile, most: int) -> Iterator[Any]:
    """A samples file in tables of about `most` samples or fewer; all bursts of a pair are in one of them."""
    if (samples := file.values("ticks")) <= most:
        yield file.read(COLUMNS)
        return
    for part in _planned(file, most * file.rows / samples):
        where = {name: {value} for name, value in zip(_CLASS, part[:3], strict=True)}
        tables = [_of_cpus(table, part) for table in file.stretches(COLUMNS, where)]
        yield joined([table for table in tables if len(table)], "samples", COLUMNS)


def _planned(file: TableFile, most: float) -> list[_Slice]:
    """Slices of at most `most` bursts, or of one CPU; only the small columns are read."""
    keys = [*_CLASS, "low"]
    counts = pd.Series(dtype=np.int64)
    for table in file.stretches([*_CLASS, "ping_cpu", "pong_cpu"]):
        rows = table.to_pandas()
        rows["low"] = np.minimum(rows["ping_cpu"].to_numpy(), rows["pong_cpu"].to_numpy())
        found = rows.groupby([rows[key].astype(str) if key != "low" else rows[key] for key in keys]).size()
        counts = found if counts.empty else counts.add(found, fill_value=0)
    planned: list[_Slice] = []
    filled = 0.0
    ordered: list[tuple[Any, float]] = list(counts.sort_index().items())
    for key, count in ordered:
        benchmark, variant, relation, low = key
        part = _Slice(benchmark, variant, relation, low, low)
        if planned and planned[-1][:3] == part[:3] and filled + count <= most:
            planned[-1] = planned[-1]._replace(last=part.last)
        else:
            planned.append(part)
            filled = 0.0
        filled += count
    return planned


def _of_cpus(table: Any, part: _Slice) -> Any:
    low = np.minimum(table.column("ping_cpu").to_numpy(), table.column("pong_cpu").to_numpy())
    inside = (low >= part.first) & (low <= part.last)
    return table if inside.all() else table.filter(pa.array(inside))
