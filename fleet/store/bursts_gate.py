"""Refuses bursts in files that contradict themselves or their benchmark; `agent.wire` does those of hosts."""

import json
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from fleet.errors import DataError
from fleet.late import np, pa
from fleet.model import Descriptions, Parameters, benchmark_from_description
from fleet.store.schema import PARAMETER_COLUMNS, names_between

_PARAMETERS = tuple(column.name for column in PARAMETER_COLUMNS)
_OF_POINTS = ("unit", *_PARAMETERS, "cpus", "other_ticks", "other_units")
_NAMES = ("benchmark", "variant", "point", "unit", *_PARAMETERS)
_FOUND_LATER = ("pages", "state")  # parameters of a point that are known only after a burst
BURST_COLUMNS = names_between(
    "samples",
    ("benchmark", "variant"),
    ("ping_cpu", "pong_cpu"),
    ("warmup", "ticks"),
    ("point", "other_units"),
)
"""The columns that are checked together."""


def check_bursts(table: Any, run: Mapping[str, Any]) -> None:
    """Raise DataError unless these rows of `samples`, with COLUMNS, fit together. run: its row of `runs`."""
    if run["estimator"] == "min":
        _refuse_zeros(table)
    told = json.loads(run["hello_json"]).get("benchmarks", ())
    descriptions = Descriptions(
        {benchmark["name"]: benchmark_from_description(benchmark) for benchmark in told}
    )
    _check_threads(table)
    points: dict[tuple[str, str, str | None], Sequence[Any]] = {}
    for row in _distinct_rows(table):
        if row["point"] is None and any(row[name] is not None for name in _OF_POINTS):
            raise DataError(f"{row['benchmark']}: without a point it has no {', '.join(_OF_POINTS)}")
        parameters = Parameters(*(row[name] for name in _PARAMETERS)) if row["point"] is not None else None
        if why := descriptions[row["benchmark"]].why_unfit(SimpleNamespace(**row, parameters=parameters)):
            raise DataError(why)
        if parameters is not None:
            _check_point(row, points)


def _refuse_zeros(table: Any) -> None:
    """Raise DataError where the least sample of a burst, which is its number, took no time."""
    ticks, warmup = (table.column(name).combine_chunks() for name in ("ticks", "warmup"))
    zeros, ends = np.flatnonzero(np.asarray(ticks.values) == 0), np.asarray(ticks.offsets)
    if (np.searchsorted(zeros, ends[1:]) > np.searchsorted(zeros, ends[:-1] + np.asarray(warmup))).any():
        raise DataError("the least sample of a burst took no time")


def _check_threads(table: Any) -> None:
    """Raise DataError unless the CPUs of a burst begin with ping's, end with pong's, and have a list each."""
    ping, pong = (table.column(name).to_numpy() for name in ("ping_cpu", "pong_cpu"))
    cpus = table.column("cpus").combine_chunks()
    count = np.where(ping == pong, 1, 2)
    for at in np.flatnonzero(cpus.is_valid()).tolist():
        numbers = cpus[at].as_py()
        if not numbers or (numbers[0], numbers[-1]) != (ping[at], pong[at]) or len({*numbers}) < len(numbers):
            raise DataError(f"cpus of a burst from {ping[at]} to {pong[at]} are {numbers!s:.100}")
        count[at] = len(numbers)
    for name in ("other_ticks", "other_units"):
        lists = table.column(name).combine_chunks()
        lengths = np.diff(lists.offsets)
        if (np.asarray(lists.is_valid()) & (lengths != 0) & (lengths != count - 1)).any():
            raise DataError(f"{name} has not a list for each further CPU")


def _distinct_rows(table: Any) -> list[dict[str, Any]]:
    """Return a row of each kind: those that differ in names, parameters and numbers of threads."""
    ping, pong = (table.column(name).to_numpy() for name in ("ping_cpu", "pong_cpu"))
    keys = [ping == pong]
    for name in _NAMES:
        column = table.column(name).combine_chunks()
        if column.null_count < len(column):
            codes = column.indices if pa.types.is_dictionary(column.type) else column
            keys += [np.asarray(column.is_valid()), np.asarray(codes.fill_null(0))]
    for name in ("cpus", "other_ticks", "other_units"):
        column = table.column(name).combine_chunks()
        if column.null_count < len(column):
            keys += [np.asarray(column.is_valid()), np.diff(column.offsets)]
    rows = np.zeros(len(table), "i8")
    for key in keys:
        if len(key) and (key != key[0]).any():
            _, places = np.unique(key, return_inverse=True)
            _, rows = np.unique(rows * (int(places.max()) + 1) + places, return_inverse=True)
    _, first = np.unique(rows, return_index=True)
    names = [*_NAMES, "ping_cpu", "pong_cpu", "cpus", "other_ticks", "other_units"]
    about = table.select(names)
    return [row for at in sorted(first.tolist()) for row in about.slice(at, 1).to_pylist()]


def _check_point(row: Mapping[str, Any], points: dict[tuple[str, str, str | None], Sequence[Any]]) -> None:
    """Raise DataError where the parameters of a point are others than in a row before."""
    values = [row[name] for name in _PARAMETERS if name not in _FOUND_LATER]
    key = (row["benchmark"], row["variant"], row["point"])
    if points.setdefault(key, values) != values:
        raise DataError(f"point {row['point']} of {row['benchmark']} has other parameters than before")
