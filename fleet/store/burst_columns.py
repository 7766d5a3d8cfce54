"""Holds bursts column by column and unboxed, from the moment they are decoded until they are published."""

from array import array
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from fleet.late import np, pa
from fleet.model import Burst, Count, Parameters, Relation, Relations, Run, Topology
from fleet.store import schema
from fleet.store.rows import require_hello

COUNTS = ("round", "ping_cpu", "pong_cpu", "start_offset_ns", "iterations", "warmup")
_LINE, _THREADS = ("line_page", "line_physical"), ("ping_voluntary_switches", "pong_steal_ppm")
MAYBE = schema.names_between("samples", _LINE, _THREADS)
"""Columns of numbers from 0 that a host may leave out."""
AT_POINTS = tuple(column.name for column in schema.POINT_COLUMNS if column.name != "core_ghz")
_NUMBERS = ("words", *COUNTS, *MAYBE, "core_mhz")  # the last doubled
_COUNTED = ("burst", "cpu", "event", "units", "count", "enabled_ns", "running_ns")
_OF_BURST = ("round", "ping_cpu", "pong_cpu")
_OF_COUNT = ("cpu", "units", "enabled_ns", "running_ns")
_UNKNOWN = -1
_POINT_BYTES = 1000  # of the values of AT_POINTS, as Python objects
_PARAMETERS = tuple(part.name for part in fields(Parameters))
_NEAREST_FIRST = list(map(str, Relation))
_SORTED_BY = ("benchmark", "variant", "relation", "ping_cpu", "pong_cpu", "round")


class BurstColumns:
    """Bursts in the order they came, in 160 bytes each and 8 a sample."""

    def __init__(self) -> None:
        self.other_samples = 0
        self.flagged = 0
        self._words: dict[tuple[Any, ...], int] = {}  # benchmark, variant, flags and group, each kept once
        self._numbers = array("q")  # a row of _NUMBERS for each burst
        self._ticks = array("q")
        self._ends = array("i", [0])
        self._at_points: dict[int, tuple[Any, ...]] = {}  # values of AT_POINTS by burst
        self._counts = array("q")  # a row of _COUNTED for each count

    def __len__(self) -> int:
        return len(self._ends) - 1

    @property
    def samples(self) -> int:
        """Ticks of pings, warm-ups included."""
        return len(self._ticks)

    @property
    def counts(self) -> int:
        """Counts of events."""
        return len(self._counts) // len(_COUNTED)

    @property
    def nbytes(self) -> int:
        """Memory of all this, nearly."""
        values = len(self._numbers) + len(self._ticks) + self.other_samples + len(self._counts)
        return 8 * values + _POINT_BYTES * len(self._at_points)

    def add(self, burst: Burst) -> None:
        """Take one burst."""
        group = burst.cpus if burst.cpus and len(burst.cpus) > 2 else None
        words = (burst.benchmark, burst.variant, ",".join(sorted(burst.flags)), group)
        maybe = (
            burst.line_page,
            burst.line_offset,
            burst.line_node,
            burst.line_physical,
            *(burst.switches or (None, None, None, None)),
            *(burst.ran_ppm or (None, None)),
            *(share or None for share in burst.steal_ppm or (None, None)),
        )
        row = [
            self._words.setdefault(words, len(self._words)),
            burst.round,
            burst.ping_cpu,
            burst.pong_cpu,
            burst.start_offset_ns,
            burst.iterations,
            burst.warmup,
            *(_UNKNOWN if value is None else value for value in maybe),
            _doubled_mhz(burst),
        ]
        if burst.point is not None:
            self._at_points[len(self)] = _point_values(burst)
            self.other_samples += len(burst.ticks) * len(
                (burst.other_ticks or ()) + (burst.other_units or ())
            )
        if burst.counters is not None:
            self._add_counts(burst, burst.counters)
        self._numbers.extend(row)
        self._ticks.extend(burst.ticks)
        self._ends.append(len(self._ticks))
        self.flagged += bool(burst.flags)

    def to_table(self, run: Run) -> Any:
        """Return the bursts, sorted, as a pyarrow table in the schema of files of samples."""
        shape = schema.file_schema("samples")
        types = {field.name: field.type for field in shape}
        values = np.frombuffer(self._numbers, "i8").reshape(-1, len(_NUMBERS)).T
        rows = dict(zip(_NUMBERS, values, strict=True))
        words = self._encode_words(run, rows)
        order = np.lexsort([words[name][0] if name in words else rows[name] for name in reversed(_SORTED_BY)])
        columns = {
            name: _dictionary_array(types[name], codes[order], known)
            for name, (codes, known) in words.items()
        }
        columns |= {name: pa.array(rows[name][order], types[name]) for name in COUNTS}
        columns |= {
            name: pa.array(sorted_, types[name], mask=sorted_ == _UNKNOWN)
            for name, sorted_ in ((name, rows[name][order]) for name in MAYBE)
        }
        ns_per_tick = np.full(len(self), 1e9 / require_hello(run).ticks_per_second)
        columns["ns_per_tick"] = pa.array(ns_per_tick, types["ns_per_tick"])
        ends, ticks = (np.frombuffer(part, part.typecode) for part in (self._ends, self._ticks))
        columns["ticks"] = pa.ListArray.from_arrays(ends, ticks, types["ticks"]).take(pa.array(order))
        core_mhz = rows["core_mhz"][order]
        columns["core_ghz"] = pa.array(core_mhz / 2000, types["core_ghz"], mask=core_mhz == _UNKNOWN)
        columns |= self._point_columns(types, order)
        return pa.table([columns[name] for name in shape.names], schema=shape)

    def _add_counts(self, burst: Burst, counters: tuple[tuple[Count | None, ...], ...]) -> None:
        cpus = burst.cpus or tuple(dict.fromkeys((burst.ping_cpu, burst.pong_cpu)))
        units = burst.iterations * len(burst.ticks)
        for cpu, counts in zip(cpus, counters, strict=True):
            for event, found in enumerate(counts):
                if found is not None:
                    count, enabled_ns, running_ns = found
                    known = count if running_ns else _UNKNOWN
                    self._counts.extend((len(self), cpu, event, units, known, enabled_ns, running_ns))

    def counters_table(self, run: Run) -> Any:
        """What was counted, as a pyarrow table in the schema of counters; None if nothing was."""
        if not self._counts:
            return None
        shape = schema.arrow_schema("counters")
        types = {field.name: field.type for field in shape}
        counted = dict(zip(_COUNTED, _to_columns(self._counts, len(_COUNTED)), strict=True))
        rows = dict(zip(_NUMBERS, _to_columns(self._numbers, len(_NUMBERS)), strict=True))
        of_burst, (benchmarks, variants, *_) = counted["burst"], zip(*self._words, strict=True)
        words, once = rows["words"][of_burst], np.zeros(len(of_burst), "i8")
        points = [self._at_points.get(at, (None,))[0] for at in of_burst.tolist()]
        columns = {
            "host_id": _dictionary_array(types["host_id"], once, [run.host.host_id]),
            "run_id": _dictionary_array(types["run_id"], once, [run.run_id]),
            "benchmark": _dictionary_array(types["benchmark"], *_encode(benchmarks, words)),
            "variant": _dictionary_array(types["variant"], *_encode(variants, words)),
            "point": pa.array(points, types["point"]),
            "event": _dictionary_array(types["event"], counted["event"], require_hello(run).counters),
            "count": pa.array(counted["count"], types["count"], mask=counted["count"] == _UNKNOWN),
        }
        columns |= {name: pa.array(rows[name][of_burst], types[name]) for name in _OF_BURST}
        columns |= {name: pa.array(counted[name], types[name]) for name in _OF_COUNT}
        return pa.table([columns[name] for name in types], schema=shape)

    def _encode_words(self, run: Run, rows: Any) -> dict[str, tuple[Any, list[str]]]:
        """Of each column of words the place of each row's word in the list of them, which is in order."""
        benchmarks, variants, flags, cpus = zip(*self._words, strict=True) if self._words else [()] * 4
        columns = {"benchmark": benchmarks, "variant": variants, "flags": flags}
        found = {name: _encode(words, rows["words"]) for name, words in columns.items()}
        base = max(int(rows["ping_cpu"].max()), int(rows["pong_cpu"].max())) + 1 if len(self) else 1
        pairs = (rows["words"] * base + rows["ping_cpu"]) * base + rows["pong_cpu"]
        distinct, which = np.unique(pairs, return_inverse=True)
        relation = Relations(Topology(run.facts.cpus))
        relations = [
            _group_relation(relation, cpus[pair // base // base], pair // base % base, pair % base)
            for pair in distinct.tolist()
        ]
        return found | {"relation": _encode(relations, which)}

    def _point_columns(self, types: Any, order: Any) -> dict[str, Any]:
        if not self._at_points:
            return {name: pa.nulls(len(self), types[name]) for name in AT_POINTS}
        none = (None,) * len(AT_POINTS)
        rows = [self._at_points.get(at, none) for at in order.tolist()]
        return {
            name: pa.array(values, types[name])
            for name, values in zip(AT_POINTS, zip(*rows, strict=True), strict=True)
        }


def _dictionary_array(type_: Any, places: Any, words: Sequence[str]) -> Any:
    """Make an array of a dictionary type; places: of each row's word in `words`."""
    return pa.DictionaryArray.from_arrays(
        pa.array(places, type_.index_type), pa.array(words, type_.value_type)
    )


def _to_columns(rows: "array[int]", width: int) -> Any:
    return np.ascontiguousarray(np.frombuffer(rows, "i8").reshape(-1, width).T)


def _doubled_mhz(burst: Burst) -> int:
    """Twice the frequency of ping's core: right behind the samples if known, else of before and after."""
    if burst.sample_mhz is not None:
        return 2 * burst.sample_mhz
    return _UNKNOWN if burst.core_mhz is None else sum(burst.core_mhz)


def _point_values(burst: Burst) -> tuple[Any, ...]:
    found = burst.parameters or Parameters()
    return (
        burst.point,
        burst.unit,
        *(getattr(found, name) for name in _PARAMETERS),
        burst.cpus,
        *(
            None if lists is None else tuple(array("q", each) for each in lists)
            for lists in (burst.other_ticks, burst.other_units)
        ),
        burst.checked,
    )


def _encode(words: Any, which: Any) -> tuple[Any, list[str]]:
    """The words `which` counts in `words`, as places in a list of them in alphabetical order."""
    known = sorted(set(words))
    places = {word: place for place, word in enumerate(known)}
    return np.array([places[word] for word in words], "i8")[which], known


def _group_relation(relation: Relations, cpus: tuple[int, ...] | None, ping: int, pong: int) -> str:
    """The smallest group that holds all CPUs of a burst."""
    if cpus is None or len(cpus) < 3:
        return relation(ping, pong)
    return max((relation(ping, other) for other in cpus[1:]), key=_NEAREST_FIRST.index)
