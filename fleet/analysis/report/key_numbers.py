"""The few numbers of a benchmark of points that stand on the first screen of a report and in its history."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from fleet.analysis.reduce.ladders import size_text
from fleet.analysis.report.ladders import Ladder
from fleet.analysis.report.products import Products, gops_text
from fleet.analysis.views.by_parameters import in_order
from fleet.analysis.views.text import is_rate, measured
from fleet.model import Relation

_NEAREST_FIRST = list(map(str, Relation))


@dataclass(frozen=True, slots=True)
class KeyNumbers:
    """Those of one benchmark and variant of one run.

    about: what is counted. where: on which CPUs. unit: of the values. values, texts: by column, as a number
    and for people.
    """

    name: str
    about: str
    where: str
    unit: str
    values: dict[str, float]
    texts: dict[str, str]


@dataclass(frozen=True, slots=True)
class KeyTable:
    """The table of one benchmark and variant: a row per run that measured it; reading: any `Reading`."""

    name: str
    about: str
    unit: str
    columns: tuple[str, ...]
    runs: list[tuple[Any, KeyNumbers]]


def key_tables(readings: Sequence[Any]) -> list[KeyTable]:
    """A table per benchmark and variant, of all runs that measured it."""
    found: dict[str, list[tuple[Any, KeyNumbers]]] = {}
    for reading in readings:
        for one in reading.key_numbers:
            found.setdefault(one.name, []).append((reading, one))
    return [
        KeyTable(
            name,
            runs[0][1].about,
            runs[0][1].unit,
            tuple(dict.fromkeys(column for _, one in runs for column in one.values)),
            runs,
        )
        for name, runs in found.items()
    ]


def key_numbers(
    pairs: pd.DataFrame, ladders: Sequence[Ladder], products: Sequence[Products]
) -> list[KeyNumbers]:
    """Those of one run. pairs: its rows of `pairs`, widened."""
    there = set(pairs["benchmark"])
    fetched = _of_fetch(pairs) if "fetch" in there else ()
    written = _of_interleave(pairs) if "interleave" in there else ()
    return [*_of_ladders(ladders), *fetched, *written, *_of_products(products)]


def _of_ladders(ladders: Sequence[Ladder]) -> Iterator[KeyNumbers]:
    """Of the fewest threads, the levels of the first setting."""
    seen = set()
    for one in ladders:
        if one.lines and one.name not in seen:
            seen.add(one.name)
            known = one.medians()
            rate = is_rate(one.benchmark)
            yield KeyNumbers(
                one.name,
                f"{one.heading}, {one.setting}, by the level of the memory",
                one.cpus,
                "GB/s" if rate else "ns",
                {level: 1 / ns if rate else ns for level, ns in known.items()},
                {level: measured(one.benchmark, ns) for level, ns in known.items()},
            )


def _of_fetch(pairs: pd.DataFrame) -> Iterator[KeyNumbers]:
    """The latency of a line of another CPU by its state, of the nearest relation."""
    rows = pairs[
        (pairs["benchmark"] == "fetch") & (pairs["operation"] == "read") & (pairs["order"] == "chase")
    ]
    for variant, part in rows.groupby("variant", sort=False):
        near = min(part["relation"], key=_NEAREST_FIRST.index)
        own = part[(part["relation"] == near) & (part["stride_bytes"] == part["stride_bytes"].min())]
        medians = own.groupby("state", sort=False)["median_ns"].median()
        values = {state: float(medians[state]) for state in in_order(own, "state")}
        about = "ns per line read, each naming the next, by what was done to the line before"
        yield _in_ns(f"fetch/{variant}", about, near, values)


def _of_interleave(pairs: pd.DataFrame) -> Iterator[KeyNumbers]:
    """The cost of a line written in memory that two threads share, by the size of a block."""
    rows = pairs[(pairs["benchmark"] == "interleave") & (pairs["sharing"] == "shared")]
    for variant, part in rows.groupby("variant", sort=False):
        near = min(part["relation"], key=_NEAREST_FIRST.index)
        own = part[(part["relation"] == near) & (part["operation"] == part["operation"].max())]
        medians = own.groupby("block_bytes")["median_ns"].median()
        values = {size_text(int(float(str(size)))): float(ns) for size, ns in medians.items()}
        about = "ns per line and thread, two threads writing blocks by turns, by the size of a block"
        yield _in_ns(f"interleave/{variant}", about, near, values)


def _of_products(products: Sequence[Products]) -> Iterator[KeyNumbers]:
    """The peak of each variant of gemm on the fewest CPUs."""
    for one in products[:1]:
        peaks = one.rows[one.rows["operation"] == "peak"]
        values = {str(name): float(gops) for name, gops in zip(peaks["variant"], peaks["gops"], strict=True)}
        texts = {name: gops_text(gops) for name, gops in values.items()}
        if values:
            yield KeyNumbers("gemm", "Gop/s on registers, by variant", one.cpus, "Gop/s", values, texts)


def _in_ns(name: str, about: str, where: str, values: dict[str, float]) -> KeyNumbers:
    return KeyNumbers(name, about, where, "ns", values, {key: f"{ns:.1f}" for key, ns in values.items()})
