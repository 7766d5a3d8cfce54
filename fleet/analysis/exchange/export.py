"""Writes runs and summaries as other tools print them, and samples as CSV."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from fleet.analysis.exchange import tools
from fleet.analysis.exchange.export_points import POINT_FORMATS, points_export
from fleet.analysis.exchange.grid import Grid
from fleet.analysis.exchange.imports import PREFIX, find_summary, grid_of
from fleet.analysis.reduce.bursts import of_frame
from fleet.analysis.reduce.load import load_run, load_samples, samples_long, view_of
from fleet.analysis.reduce.matrices import pair_medians
from fleet.errors import UsageError
from fleet.model import Pairs, View

SAMPLES_CSV = "csv"
FORMATS = (*tools.FORMATS, *POINT_FORMATS, SAMPLES_CSV)
VALUES = ("median", "mean", "min", "p10", "p99", "max")
_BURSTS_AT_ONCE = 20_000
_LEFT_OUT = ["line_page", "line_offset", "line_node", "line_physical"]


def export(
    root: str | Path, what: str, tool: str, benchmark: str | None, value: str | None = None
) -> Iterator[str]:
    """Yield the text, in pieces.

    what: a published run id, or summary:NAME. tool: one of FORMATS. benchmark: `cas` or `cas/llsc`, needed
    where there are several. value: of VALUES, the number of each pair of a run, by default the tool's; a
    summary has no choice. Raises UsageError where the choice is not clear or not there.
    """
    if what.startswith(PREFIX) and value is not None:
        raise UsageError(f"{what} is a summary: it has one number a pair, so leave out --value.")
    if tool in POINT_FORMATS:
        if what.startswith(PREFIX) or value is not None:
            raise UsageError(f"--format {tool} prints the ladders of a run, and takes no --value.")
        yield from points_export(root, what, tool, benchmark)
    elif tool == SAMPLES_CSV:
        if what.startswith(PREFIX):
            raise UsageError(f"{what} is a summary: it has no samples; choose another --format.")
        yield from _samples(root, what, benchmark)
    else:
        write, estimator = tools.FORMATS[tool]
        yield write(
            _of_summary(root, what, benchmark)
            if what.startswith(PREFIX)
            else _of_run(root, what, benchmark, value or estimator)
        )


def write_new(path: Path, pieces: Iterator[str]) -> None:
    """Write a file that must not exist yet. Raises UsageError if it does or cannot be made."""
    text = "".join(itertools.islice(pieces, 1))  # usage errors come before the file is created
    try:
        with path.open("x", encoding="utf-8", newline="") as file:
            file.write(text)
            file.writelines(pieces)
    except FileExistsError as err:
        raise UsageError(f"{path}: exists; it was not changed. Choose another --output.") from err
    except OSError as err:
        raise UsageError(f"{path}: cannot be written: {err.strerror}.") from err


def _of_summary(root: str | Path, what: str, benchmark: str | None) -> Grid:
    return grid_of(_chosen(find_summary(root, what), benchmark, what))


def _of_run(root: str | Path, run_id: str, benchmark: str | None, value: str) -> Grid:
    run = load_run(root, run_id)
    ordered = (run["plan"].get("pairs") or {}).get("which") == Pairs.ORDERED
    samples = _chosen(load_samples(root, run_id=run_id), benchmark, run_id)
    pairs = pair_medians(samples, ordered=ordered)
    kind = samples.iloc[0]
    ends = [
        (int(a), int(b)) if ordered else (int(max(a, b)), int(min(a, b)))
        for a, b in zip(pairs["ping_cpu"], pairs["pong_cpu"], strict=True)
    ]
    return Grid(
        cpus=tuple(sorted({int(cpu) for side in ("ping_cpu", "pong_cpu") for cpu in pairs[side]})),
        cells=dict(zip(ends, pairs[f"{value}_ns"].astype(float), strict=True)),
        benchmark=str(kind["benchmark"]),
        samples=int(pairs["samples"].median()),
        iterations=int(samples["iterations"].median()),
        cpu_model=run["cpu_model"],
        variant=str(kind["variant"]),
        arch=run["arch"],
        errors=_standard_errors(samples, ordered=ordered) if value == "mean" else {},
    )


def _standard_errors(samples: pd.DataFrame, *, ordered: bool) -> dict[tuple[int, int], float]:
    """Of the mean of all samples of each pair, as if they were independent; none of a single sample."""
    bursts = of_frame(samples)
    ping, pong = (
        np.repeat(bursts.about[name].to_numpy(), bursts.counts) for name in ("ping_cpu", "pong_cpu")
    )
    rows, columns = (ping, pong) if ordered else (np.maximum(ping, pong), np.minimum(ping, pong))
    errors = pd.Series(bursts.latencies).groupby([rows, columns]).sem().dropna()
    ends = (errors.index.get_level_values(level).astype(int) for level in (0, 1))
    return dict(zip(zip(*ends, strict=True), errors.astype(float), strict=True))


def _chosen(rows: pd.DataFrame, benchmark: str | None, what: str) -> pd.DataFrame:
    """The rows of the one benchmark and variant chosen."""
    known = rows["variant"].notna()
    kinds = (
        rows["benchmark"]
        .astype(str)
        .where(~known, rows["benchmark"].astype(str) + "/" + rows["variant"].astype(str))
    )
    there = [kind for kind in kinds.unique() if view_of(kind) is View.MATRIX]
    wanted = [kind for kind in there if benchmark is None or benchmark in (kind, kind.partition("/")[0])]
    if not there:
        raise UsageError(f"{what}: has no pairs of CPUs to export. `fleet show` lists what it has.")
    if len(wanted) != 1:
        raise UsageError(
            f"{what}: --benchmark must name one of {', '.join(there)}"
            f"{f'; not {benchmark!r}' if benchmark else ''}."
        )
    chosen: pd.DataFrame = rows[kinds == wanted[0]]
    return chosen


def _samples(root: str | Path, run_id: str, benchmark: str | None) -> Iterator[str]:
    """A row per sample, warm-ups marked, ticks exact."""
    bursts = load_samples(root, run_id=run_id)
    if bursts.empty:
        raise UsageError(f"{run_id}: has no samples to export.")
    if benchmark is not None:
        bursts = _chosen(bursts, benchmark, run_id)
    for begin in range(0, len(bursts), _BURSTS_AT_ONCE):
        part = samples_long(bursts.iloc[begin : begin + _BURSTS_AT_ONCE]).drop(columns=_LEFT_OUT)
        yield part.to_csv(index=False, header=begin == 0, lineterminator="\n")
