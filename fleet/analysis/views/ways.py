"""Text of `fleet show --ways`: both directions of messages, and the offset of the two CPUs' clocks."""

from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base.text import to_records
from fleet.analysis.reduce.load import load_samples_in_parts
from fleet.store.runs import Root
from fleet.text import table

_COLUMNS = [
    *("variant", "point", "ping_cpu", "pong_cpu", "iterations", "warmup", "ns_per_tick"),
    *("ticks", "other_ticks"),
]
_PAIR = ["variant", "point", "low", "high"]
_ONE_COUNTER = ("aarch64", "riscv64", "s390x", "ppc64le")  # all CPUs read the same one
_STEPS = 2.0  # of the clock; half a difference below them is none
_NOT_DISTINGUISHABLE = (
    "offset: how far the clock of the second CPU may be ahead of the first's. A difference between the "
    "directions is not distinguishable from such an offset; the mean of both does not depend on it."
)
_SHARED = "All CPUs of this machine read one counter, so each direction is a latency."
_TESTED = (
    "No pair's directions differ by more than the clock resolves (tested on all measured pairs), so each "
    "direction can be taken as a latency."
)


def compute_directions(root: Root, run_id: str) -> pd.DataFrame:
    """Return a row per variant, point and pair that exchanged messages; no rows if none did.

    Columns: `variant`, `point`, `low` and `high` (the CPUs), `up_ns` and `down_ns` (low to high and back,
    medians of the bursts' medians), `mean_ns`, `least_ns` and `most_ns` (bounds of the offset of the higher
    CPU's clock, since no message arrives before it was sent).
    """
    parts = load_samples_in_parts(root, run_id, benchmark="message", columns=_COLUMNS)
    rows = (row for part in parts for row in to_records(part.dropna(subset=["other_ticks"])))
    bursts = pd.DataFrame(
        [_reduce_burst(row) for row in rows if len(row["ticks"]) > row["warmup"]],
        columns=[*_PAIR, "up_ns", "down_ns", "up_min", "down_min"],
    )
    of_pair = {"up_ns": "median", "down_ns": "median", "up_min": "min", "down_min": "min"}
    pairs = bursts.groupby(_PAIR, sort=True).agg(of_pair).reset_index()
    pairs = pairs.assign(mean_ns=(pairs["up_ns"] + pairs["down_ns"]) / 2)
    pairs = pairs.assign(least_ns=-pairs["down_min"], most_ns=pairs["up_min"])
    return pairs.drop(columns=["up_min", "down_min"])


def _reduce_burst(row: dict[str, Any]) -> tuple[Any, ...]:
    factor, warmup = row["ns_per_tick"] / row["iterations"], row["warmup"]
    received = [np.asarray(ticks)[warmup:] * factor for ticks in (row["ticks"], row["other_ticks"][0])]
    turned = row["ping_cpu"] > row["pong_cpu"]
    down, up = reversed(received) if turned else received  # ping receives what comes from pong
    low, high = sorted((row["ping_cpu"], row["pong_cpu"]))
    medians = float(np.median(up)), float(np.median(down))
    return row["variant"], row["point"], low, high, *medians, float(up.min()), float(down.min())


def render_directions(root: Root, run: dict[str, Any]) -> str:
    """Render the section of `fleet show --ways`; empty without messages. run: from `load_run`."""
    directions = compute_directions(root, run["run_id"])
    parts = []
    for (variant, point), rows in directions.groupby(["variant", "point"], sort=False):
        title = f"message/{variant}, point {point}: ns by the receiver's clock, in both directions"
        lines = []
        for row in to_records(rows):
            numbers = (f"{row[name]:.1f}" for name in ("up_ns", "down_ns", "mean_ns"))
            middle = round((row["most_ns"] + row["least_ns"]) / 2, 1) + 0.0  # no -0.0
            offset = f"{middle:+.1f} ± {(row['most_ns'] - row['least_ns']) / 2:.1f}"
            lines.append((f"{row['low']}-{row['high']}", *numbers, offset))
        titles = ("pair", "there", "back", "mean", "offset ± bound")
        parts.append(f"{title}\n{table(titles, lines, right=set(range(5)))}\n{_meaning(rows, run)}")
    return "\n\n".join(parts)


def _meaning(rows: pd.DataFrame, run: dict[str, Any]) -> str:
    if run["arch"] in _ONE_COUNTER and run["clock"] != "monotonic_raw":
        return _SHARED
    quantum = run["clock_quantum_ticks"]
    if quantum is not None:
        limit_ns = _STEPS * quantum * 1e9 / run["ticks_per_second"]
        if bool(((rows["up_ns"] - rows["down_ns"]).abs() / 2 < limit_ns).all()):
            return _TESTED
    return _NOT_DISTINGUISHABLE
