"""The first screen: what was measured, what to distrust, each relation's median on each host."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fleet.analysis.reduce.topology_check import MEANS
from fleet.analysis.report.read_runs import Part, Reading
from fleet.analysis.views.text import percent
from fleet.analysis.views.warnings import CHANCE, WIDE
from fleet.model import Relation

_PAIR_FLAGS = {
    "multimodal": "pairs have two levels, not one; only the commoner is in the tables",
    "smt_pair": "pairs are not as near as the operating system's topology says",
    "coarse_clock": "bursts are too short for the clock's steps",
    "drift": "pairs changed while they were measured",
    "not_converged": "pairs are not known as well as was asked",
    "outliers": "pairs have many samples above twice their median",
}
_BURST_FLAGS = {
    "preempted": "bursts lost their CPU to other work for a while",
    "busy_cpu": "bursts got less than 90% of their CPU",
    "coarse_clock": "bursts are too short for the clock's steps",
}
_MANY_BURSTS = 0.05  # of a run's bursts; fewer do no harm to medians
_NO_REASON = ("Expected:",)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a warning holds: a run, and how much of it."""

    reading: Reading
    share: str = ""


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason to distrust: its flag if it is one, a sentence, and the runs it holds for; none: for all."""

    flag: str
    text: str
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """A run's line in the first table: by relation its row of `relations`, or None; flagged pairs of all."""

    reading: Reading
    by_relation: tuple[dict[str, Any] | None, ...]
    flagged: int
    pairs: int


@dataclass(frozen=True, slots=True)
class Table:
    """One benchmark and variant on every run that measured it."""

    kind: str
    is_clock: bool
    relations: tuple[str, ...]
    lines: tuple[Line, ...]


def warnings(readings: Sequence[Reading]) -> list[Reason]:
    """The reasons to distrust what the page shows, the gravest first."""
    return [
        *_failed(readings),
        *_variants(readings),
        *_schemes(readings),
        *_pair_flags(readings),
        *_wide(readings),
        *_topology(readings),
        *_burst_flags(readings),
        *_notes(readings),
        *_one_run(readings),
    ]


def tables(readings: Sequence[Reading]) -> list[Table]:
    """A table per benchmark and variant, in the order of the plans; the clock's last."""
    kinds = dict.fromkeys(part.name for reading in readings for part in reading.parts)
    found = [_table(kind, readings) for kind in kinds]
    return sorted(found, key=lambda table: table.is_clock)


def _table(kind: str, readings: Sequence[Reading]) -> Table:
    measured = [(reading, part) for reading in readings for part in reading.parts if part.name == kind]
    present = {row["relation"] for _, part in measured for row in part.relations}
    relations = tuple(str(relation) for relation in Relation if str(relation) in present)
    lines = tuple(_line(reading, part, relations) for reading, part in measured)
    return Table(kind, measured[0][1].is_clock, relations, lines)


def _line(reading: Reading, part: Part, relations: Sequence[str]) -> Line:
    rows = {row["relation"]: row for row in part.relations}
    flagged = sum(any(flag in _PAIR_FLAGS for flag in flags.split(",")) for flags in part.pairs["flags"])
    return Line(reading, tuple(rows.get(relation) for relation in relations), flagged, len(part.pairs))


def _failed(readings: Sequence[Reading]) -> Iterator[Reason]:
    places = [
        Place(reading, f"{len(reading.run['failed'])} visits")
        for reading in readings
        if reading.run["failed"]
    ]
    if places:
        yield Reason("partial", "visits to pairs gave no number", tuple(places))
    nothing = tuple(Place(reading) for reading in readings if not reading.parts)
    if nothing:
        yield Reason("empty", "no numbers at all", nothing)


def _variants(readings: Sequence[Reading]) -> Iterator[Reason]:
    kinds = {part.name for reading in readings for part in reading.parts if not part.is_clock}
    for benchmark in sorted({kind.partition("/")[0] for kind in kinds}):
        variants = sorted(kind.partition("/")[2] for kind in kinds if kind.partition("/")[0] == benchmark)
        if len(variants) > 1:
            yield Reason(
                "", f"{benchmark} was measured with different instructions ({', '.join(variants)}): "
                "their numbers are not the same quantity"
            )  # fmt: skip


def _schemes(readings: Sequence[Reading]) -> Iterator[Reason]:
    schemes = {reading.run["preset"] for reading in readings}
    if len(schemes) > 1:
        places = (Place(reading, reading.run["preset"]) for reading in readings if reading.run["preset"])
        yield Reason("", "runs follow another tool's scheme, so their number is another one", tuple(places))


def _pair_flags(readings: Sequence[Reading]) -> Iterator[Reason]:
    for flag, text in _PAIR_FLAGS.items():
        places = []
        for reading in readings:
            pairs = sum(len(part.pairs) for part in reading.parts)
            flagged = sum(flag in flags.split(",") for part in reading.parts for flags in part.pairs["flags"])
            expected = round(CHANCE * pairs) if flag == "drift" else 0
            chance = f", {expected} of them expected by chance" if expected else ""
            if flagged > expected:
                places.append(Place(reading, f"{flagged} of {pairs}{chance}"))
        if places:
            yield Reason(flag, text, tuple(places))


def _wide(readings: Sequence[Reading]) -> Iterator[Reason]:
    """Where no precision was asked for, pairs that are hardly known; else `not_converged` tells."""
    places = []
    for reading in readings:
        pairs = sum(len(part.pairs) for part in reading.parts)
        wide = sum(int((part.pairs["spread"] > WIDE).sum()) for part in reading.parts)
        if wide and reading.run["precision"] is None:
            places.append(Place(reading, f"{wide} of {pairs}"))
    if places:
        yield Reason("", f"pairs are known no better than ±{WIDE:.0%}", tuple(places))


def _topology(readings: Sequence[Reading]) -> Iterator[Reason]:
    for check, text in MEANS.items():
        places = tuple(
            Place(reading, _times(reading.findings[check]))
            for reading in readings
            if check in reading.findings
        )
        if places:
            yield Reason(check, text, places)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _burst_flags(readings: Sequence[Reading]) -> Iterator[Reason]:
    for flag, text in _BURST_FLAGS.items():
        if flag in _PAIR_FLAGS:
            continue
        shares = [(reading, _share(reading, flag)) for reading in readings]
        places = tuple(Place(reading, percent(share)) for reading, share in shares if share > _MANY_BURSTS)
        if places:
            yield Reason(flag, text, places)


def _share(reading: Reading, flag: str) -> float:
    bursts = sum(int(part.pairs["bursts"].sum()) for part in reading.parts)
    return sum(part.burst_flags.get(flag, 0) for part in reading.parts) / max(bursts, 1)


def _notes(readings: Sequence[Reading]) -> Iterator[Reason]:
    said: dict[str, list[Place]] = {}
    for reading in readings:
        for note in reading.run["notes"]:
            if not note.startswith(_NO_REASON):
                said.setdefault(note, []).append(Place(reading))
    for note, places in said.items():
        yield Reason("", note.rstrip("."), tuple(places))


def _one_run(readings: Sequence[Reading]) -> Iterator[Reason]:
    hosts = [reading.run["host_id"] for reading in readings]
    once = tuple(Place(reading) for reading in readings if hosts.count(reading.run["host_id"]) == 1)
    text = "how far two runs of one host differ is not known, and ±95% does not say it"
    if len(once) == len(readings) > 1:
        yield Reason("", f"one run of each host: {text}")
    elif once:
        yield Reason("", f"one run only: {text}", once)
