"""Writes the ladders of a run as tables that STREAM, multichase and likwid-bench print, for their readers."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pandas as pd

from fleet.analysis.reduce.ladders import ladders, size_text
from fleet.analysis.reduce.load import of_benchmark
from fleet.analysis.reduce.pairs import load_pairs, widened
from fleet.analysis.views.text import records
from fleet.errors import UsageError

_NAMES = {"copy": "Copy", "read": "Read", "write": "Write", "nt": "WriteNT", "modify": "Update"}
_MEGA = 1e6


def points_export(root: str | Path, run_id: str, form: str, benchmark: str | None) -> Iterator[str]:
    """Yield the text. form: of POINT_FORMATS. benchmark: with its variant where the run has several.

    Raises UsageError where the run has no such benchmark, or several variants of it.
    """
    needed, write = POINT_FORMATS[form]
    if benchmark is not None and benchmark.partition("/")[0] != needed:
        raise UsageError(f"--format {form} prints {needed}, not {benchmark}.")
    rows = ladders(of_benchmark(widened(load_pairs(root, run_id=run_id)), benchmark or needed))
    if len(variants := sorted(rows["variant"].unique())) > 1:
        listed = ", ".join(f"{needed}/{variant}" for variant in variants)
        raise UsageError(f"{run_id}: --benchmark must name one of {listed}.")
    yield from write(rows)


def _stream(rows: pd.DataFrame) -> Iterator[str]:
    """The largest size by most threads, as STREAM's summary: MB/s, and seconds of a pass."""
    rows = rows[rows["threads"] == rows["threads"].max()]
    rows = rows[rows["bytes"] == rows["bytes"].max()]
    yield f"Number of Threads requested = {rows['threads'].iloc[0]}\n"
    yield (
        f"{'Function':<12}{'Best Rate MB/s':>16}  {'Avg time':<13}{'Min time':<13}{'Max time':<13}".rstrip()
        + "\n"
    )
    for row in records(rows):
        moved = row["bytes"] * row["threads"]
        seconds = [row[name] * moved / 1e9 for name in ("mean_ns", "min_ns", "max_ns")]
        times = "".join(f"{each:<13.6f}" for each in seconds).rstrip()
        name = _NAMES.get(row["setting"], row["setting"])
        yield f"{name + ':':<12}{moved / seconds[1] / _MEGA:>16.1f}  {times}\n"


def _multichase(rows: pd.DataFrame) -> Iterator[str]:
    """For each order and size multichase's option for it, and the ns that it would print."""
    for row in records(rows[rows["threads"] == 1]):
        yield f"-m {size_text(row['bytes']).lower():<8} # {row['setting']}, CPU {row['ping_cpu']}\n"
        yield f"{row['median_ns']:.3f}\n"


def _likwid(rows: pd.DataFrame) -> Iterator[str]:
    """A block per operation, size and number of threads, with likwid-bench's names."""
    for row in records(rows):
        rate = 1000 / row["median_ns"]
        yield f"Test: {row['setting'].replace(' ', '_')}_{row['variant']}\n"
        yield f"Size (Byte):\t\t{row['bytes'] * row['threads']}\nNumber of threads:\t{row['threads']}\n"
        yield f"MByte/s:\t\t{rate:.2f}\n"


Writer = Callable[[pd.DataFrame], Iterator[str]]
POINT_FORMATS: Mapping[str, tuple[str, Writer]] = MappingProxyType(
    {
        "stream": ("bandwidth", _stream),
        "multichase": ("chase", _multichase),
        "likwid": ("bandwidth", _likwid),
    }
)
