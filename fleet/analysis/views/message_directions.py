"""Both directions of messages, with the offset of clocks, for `fleet show --ways`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.base.tables import Floats
from fleet.analysis.reduce import load
from fleet.store.runs import Root
from fleet.text import table

_COLUMNS = [
    "variant",
    "point",
    "ping_cpu",
    "pong_cpu",
    "iterations",
    "warmup",
    "ns_per_tick",
    "ticks",
    "other_ticks",
]
_KEYS_OF_PAIR = ["variant", "point", "low", "high"]
# How each column of the bursts of a pair is reduced. The offset is within the bounds of
# each burst, so the narrowest bounds hold.
_REDUCER_BY_COLUMN = {
    "up_ns": "median",
    "down_ns": "median",
    "least_ns": "max",
    "most_ns": "min",
}

_ONE_COUNTER = ("aarch64", "riscv64", "s390x", "ppc64le")  # all CPUs read the same one
_STEPS = 2.0  # of the clock; directions that differ by less than twice this are alike
_NOT_DISTINGUISHABLE = (
    "offset: how far the clock of the second CPU may be ahead of the first's. A"
    " difference between the directions is not distinguishable from such an offset; the"
    " mean of both does not depend on it."
)
_ONE_FOR_ALL = (
    "All CPUs of this machine read one counter, so each direction is a latency."
)
_ALIKE = (
    "No pair's directions differ by more than the clock resolves (tested on all"
    " measured pairs), so each direction can be taken as a latency."
)


def compute_message_directions(root: Root, run_id: str) -> pd.DataFrame:
    """Return a row per variant, point and pair that exchanged messages; no rows if
    there were no messages.

    Columns: `variant`, `point`, `low` and `high` (the CPUs), `up_ns` and `down_ns`
    (from low to high and back, medians of the bursts' medians), `mean_ns`, `least_ns`
    and `most_ns`: by how much the clock of `high` may be ahead of that of `low`.
    """
    reduced = [_reduce_burst(row) for row in _iter_bursts(root, run_id)]
    bursts = pd.DataFrame(reduced, columns=[*_KEYS_OF_PAIR, *_REDUCER_BY_COLUMN])
    by_pair = bursts.groupby(_KEYS_OF_PAIR, sort=True)
    pairs = by_pair.agg(_REDUCER_BY_COLUMN).reset_index()
    pairs["mean_ns"] = (pairs["up_ns"] + pairs["down_ns"]) / 2
    return pairs


def _iter_bursts(root: Root, run_id: str) -> Iterator[dict[str, Any]]:
    """Yield the bursts of messages that have samples of both directions."""
    parts = load.load_samples_in_parts(
        root, run_id, benchmark="message", columns=_COLUMNS
    )
    for part in parts:
        # bursts without the times of the other thread show one direction only
        both_ways = part.dropna(subset=["other_ticks"])
        for row in text.to_records(both_ways):
            has_more_than_warmups = len(row["ticks"]) > row["warmup"]
            if has_more_than_warmups:
                yield row


def _reduce_burst(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a burst's median latency up, from the lower CPU to the higher, and down,
    from the higher to the lower. Return also the bounds between which the clock of the
    higher CPU is ahead of that of the lower: `least_ns` to `most_ns`; a negative number
    is behind.
    """
    # Ping receives what comes from pong and times it in `ticks`. `other_ticks` has a
    # list for each other thread, here only pong, which receives what comes from ping.
    from_pong = _convert_to_ns(row["ticks"], row)
    from_ping = _convert_to_ns(row["other_ticks"][0], row)
    low, high = sorted((row["ping_cpu"], row["pong_cpu"]))
    if low == row["ping_cpu"]:
        up = from_ping
        down = from_pong
    else:
        up = from_pong
        down = from_ping
    return {
        "variant": row["variant"],
        "point": row["point"],
        "low": low,
        "high": high,
        "up_ns": float(np.median(up)),
        "down_ns": float(np.median(down)),
        # A message is timed from the sender's clock to the receiver's. The clock of the
        # higher CPU is ahead by `offset`, so up = time + offset, down = time - offset.
        # A time is above 0, so in each sample offset < up and offset > -down. The
        # smallest samples give the closest bounds.
        "least_ns": float(-down.min()),
        "most_ns": float(up.min()),
    }


def _convert_to_ns(ticks: Sequence[int], row: Mapping[str, Any]) -> Floats:
    """Return the ns that a message of each sample took, without warm-ups. A sample is
    the ticks of several messages, `iterations` of the row.
    """
    ns_per_tick_of_message = row["ns_per_tick"] / row["iterations"]
    measured_ticks = np.asarray(ticks)[row["warmup"] :]
    samples: Floats = measured_ticks * ns_per_tick_of_message
    return samples


def render_message_directions(root: Root, run: dict[str, Any]) -> str:
    """Render the section of `fleet show --ways`; empty without messages. run: from
    `load_run`.
    """
    directions = compute_message_directions(root, run["run_id"])
    sections = []
    by_point = directions.groupby(["variant", "point"], sort=False)
    for (variant, point), rows in by_point:
        lines = [
            f"message/{variant}, point {point}: ns by the receiver's clock, in both"
            " directions",
            _tabulate_pairs(rows),
            _explain_offset(rows, run),
        ]
        sections.append("\n".join(lines))
    return "\n\n".join(sections)


def _tabulate_pairs(rows: pd.DataFrame) -> str:
    """Tabulate each pair's directions, their mean and the offset of its clocks, which
    may be anything from `least_ns` to `most_ns`: the middle ± half of the distance.
    """
    titles = ("pair", "there", "back", "mean", "offset ± bound")
    lines = []
    for row in text.to_records(rows):
        middle_ns = (row["most_ns"] + row["least_ns"]) / 2
        bound_ns = (row["most_ns"] - row["least_ns"]) / 2
        offset_ns = round(middle_ns, 1) + 0.0  # no -0.0
        cells = (
            f"{row['low']}-{row['high']}",
            f"{row['up_ns']:.1f}",
            f"{row['down_ns']:.1f}",
            f"{row['mean_ns']:.1f}",
            f"{offset_ns:+.1f} ± {bound_ns:.1f}",
        )
        lines.append(cells)
    return table(titles, lines, right=set(range(5)))


def _explain_offset(rows: pd.DataFrame, run: Mapping[str, Any]) -> str:
    """Say whether each direction is a latency, or cannot be told from an offset of the
    clocks.

    rows: from `compute_message_directions`. `clock_quantum_ticks` of the run is the
    smallest step of its clock, None if unknown.
    """
    # `monotonic_raw` is the clock where no counter can be read, or where those of two
    # CPUs are apart
    uses_counter = run["clock"] != "monotonic_raw"
    all_read_one_counter = run["arch"] in _ONE_COUNTER and uses_counter
    if all_read_one_counter:  # so there is no offset
        return _ONE_FOR_ALL
    quantum_ticks = run["clock_quantum_ticks"]
    if quantum_ticks is None:
        return _NOT_DISTINGUISHABLE
    quantum_ns = quantum_ticks * 1e9 / run["ticks_per_second"]
    # An offset makes one direction longer and the other shorter by as much, so the
    # directions differ by twice the offset.
    differences = (rows["up_ns"] - rows["down_ns"]).abs()
    largest_offset_ns = differences.max() / 2
    # an offset of fewer than _STEPS steps of the clock cannot be told from none
    are_alike = largest_offset_ns < _STEPS * quantum_ns
    return _ALIKE if are_alike else _NOT_DISTINGUISHABLE
