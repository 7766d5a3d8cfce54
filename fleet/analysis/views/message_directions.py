"""Both directions of messages, with the offset of clocks, for `fleet show --ways`."""

from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.reduce import load
from fleet.store.runs import Root
from fleet.text import table

_COLUMNS = [
    *(
        "variant",
        "point",
        "ping_cpu",
        "pong_cpu",
        "iterations",
        "warmup",
        "ns_per_tick",
    ),
    *("ticks", "other_ticks"),
]
_PAIR = ["variant", "point", "low", "high"]
_ONE_COUNTER = ("aarch64", "riscv64", "s390x", "ppc64le")  # all CPUs read the same one
_STEPS = 2.0  # of the clock; directions that differ by less than twice this are alike
_NOT_DISTINGUISHABLE = (
    "offset: how far the clock of the second CPU may be ahead of the first's. A"
    " difference between the directions is not distinguishable from such an offset; the"
    " mean of both does not depend on it."
)
_SHARED = "All CPUs of this machine read one counter, so each direction is a latency."
_TESTED = (
    "No pair's directions differ by more than the clock resolves (tested on all"
    " measured pairs), so each direction can be taken as a latency."
)


def compute_message_directions(root: Root, run_id: str) -> pd.DataFrame:
    """Return a row per variant, point and pair that exchanged messages; no rows if none
    did.

    Columns: `variant`, `point`, `low` and `high` (the CPUs), `up_ns` and `down_ns` (low
    to high and back, medians of the bursts' medians), `mean_ns`, `least_ns` and
    `most_ns` (bounds of `high`'s clock offset).
    """
    parts = load.load_samples_in_parts(
        root, run_id, benchmark="message", columns=_COLUMNS
    )
    rows = (
        row
        for part in parts
        for row in text.to_records(part.dropna(subset=["other_ticks"]))
    )
    statistics = {
        "up_ns": "median",
        "down_ns": "median",
        "most_ns": "min",
        "least_ns": "max",
    }
    reduced = [
        _reduce_both_directions(row)
        for row in rows
        if len(row["ticks"]) > row["warmup"]
    ]
    bursts = pd.DataFrame(reduced, columns=[*_PAIR, *statistics])
    pairs = bursts.groupby(_PAIR, sort=True).agg(statistics).reset_index()
    return pairs.assign(mean_ns=(pairs["up_ns"] + pairs["down_ns"]) / 2)


def _reduce_both_directions(row: dict[str, Any]) -> tuple[Any, ...]:
    factor, warmup = row["ns_per_tick"] / row["iterations"], row["warmup"]
    # Ping receives what comes from pong.
    down, up = (
        np.asarray(ticks)[warmup:] * factor
        for ticks in (row["ticks"], row["other_ticks"][0])
    )
    low, high = row["ping_cpu"], row["pong_cpu"]
    if low > high:
        low, high, down, up = high, low, up, down
    numbers = (np.median(up), np.median(down), up.min(), -down.min())
    return row["variant"], row["point"], low, high, *map(float, numbers)


def render_message_directions(root: Root, run: dict[str, Any]) -> str:
    """Render the section of `fleet show --ways`; empty without messages. run: from
    `load_run`.
    """
    directions, parts = compute_message_directions(root, run["run_id"]), []
    titles = ("pair", "there", "back", "mean", "offset ± bound")
    for (variant, point), rows in directions.groupby(["variant", "point"], sort=False):
        lines = []
        for row in text.to_records(rows):
            numbers = (f"{row[name]:.1f}" for name in ("up_ns", "down_ns", "mean_ns"))
            middle = round((row["most_ns"] + row["least_ns"]) / 2, 1) + 0.0  # no -0.0
            offset = f"{middle:+.1f} ± {(row['most_ns'] - row['least_ns']) / 2:.1f}"
            lines.append((f"{row['low']}-{row['high']}", *numbers, offset))
        title = (
            f"message/{variant}, point {point}: ns by the receiver's clock, in both"
            " directions"
        )
        listed, words = table(titles, lines, right=set(range(5))), _NOT_DISTINGUISHABLE
        half_ns, quantum = (
            (rows["up_ns"] - rows["down_ns"]).abs().max() / 2,
            run["clock_quantum_ticks"],
        )
        if run["arch"] in _ONE_COUNTER and run["clock"] != "monotonic_raw":
            words = _SHARED
        elif (
            quantum is not None
            and half_ns < _STEPS * quantum * 1e9 / run["ticks_per_second"]
        ):
            words = _TESTED
        parts.append("\n".join((title, listed, words)))
    return "\n\n".join(parts)
