"""Hold bursts in columns, not as one object for each burst, from decoding until
publication.
"""

from array import array
from operator import attrgetter
from typing import Any

from fleet.late import np, pa, pc
from fleet.model import Burst, Count, Parameters, Relation, Run, Topology
from fleet.store import schema
from fleet.store.rows import require_hello

_COUNTS = ("round", "ping_cpu", "pong_cpu", "start_offset_ns", "iterations", "warmup")
_OPTIONAL = (*schema.LINE, *schema.THREADS)  # numbers from 0 that a host may leave out
_NUMBERS = ("words", *_COUNTS, *_OPTIONAL, "core_mhz")  # core_mhz is doubled
_COUNTER_NUMBERS = (
    "burst",
    "cpu",
    "event",
    "units",
    "count",
    "enabled_ns",
    "running_ns",
)
_get_line, _get_counts = attrgetter(*schema.LINE), attrgetter(*_COUNTS)
_get_parameters = attrgetter(*schema.PARAMETERS)
_UNKNOWN = -1
_POINT_BYTES = 1000  # memory of the values of schema.POINT
_NEAREST_FIRST = list(map(str, Relation))
_SORT_ORDER = ("benchmark", "variant", "relation", "ping_cpu", "pong_cpu", "round")


class BurstColumns:
    """Bursts in order of arrival: 160 bytes for each, 8 for each sample. Beyond
    max_bytes all are dropped.
    """

    def __init__(self, max_bytes: int | None = None) -> None:
        self.overflowed = (
            False  # all bursts were dropped, and no further ones are taken
        )
        self._max_bytes = max_bytes
        self._clear()

    def _clear(self) -> None:
        self.other_samples = 0
        self.flagged = 0
        self._words: dict[
            tuple[Any, ...], int
        ] = {}  # numbers of (benchmark, variant, flags, CPUs)
        self._numbers = array("q")  # a row of _NUMBERS for each burst
        self._ticks = array("q")
        self._ends = array("i", [0])
        self._points: dict[int, tuple[Any, ...]] = {}  # values of schema.POINT by burst
        self._counters = array("q")  # a row of _COUNTER_NUMBERS for each count

    def __len__(self) -> int:
        return len(self._ends) - 1

    @property
    def sample_count(self) -> int:
        """Return the number of ping's samples, warm-ups included."""
        return len(self._ticks)

    @property
    def counter_row_count(self) -> int:
        """Return the number of event counts, one for each burst, CPU and event."""
        return len(self._counters) // len(_COUNTER_NUMBERS)

    def add(self, burst: Burst) -> None:
        """Add one burst; ignore it if the columns have overflowed."""
        if self.overflowed:
            return
        group = burst.cpus if burst.cpus and len(burst.cpus) > 2 else None
        words = (burst.benchmark, burst.variant, ",".join(sorted(burst.flags)), group)
        optional = (
            *_get_line(burst),
            *(burst.switches or (None, None, None, None)),
            *(burst.ran_ppm or (None, None)),
            *(share or None for share in burst.steal_ppm or (None, None)),
        )
        # Twice the frequency of ping's core: right after the samples, else the mean of
        # before and after.
        mhz = (
            2 * burst.sample_mhz
            if burst.sample_mhz is not None
            else burst.core_mhz and sum(burst.core_mhz)
        )
        row = [
            self._words.setdefault(words, len(self._words)),
            *_get_counts(burst),
            *(_UNKNOWN if value is None else value for value in (*optional, mhz)),
        ]
        if burst.point is not None:
            self._points[len(self)] = _list_point_values(burst)
            others = len(burst.other_ticks or ()) + len(burst.other_units or ())
            self.other_samples += len(burst.ticks) * others
        if burst.counters is not None:
            self._add_counters(burst, burst.counters)
        self._numbers.extend(row)
        self._ticks.extend(burst.ticks)
        self._ends.append(len(self._ticks))
        self.flagged += bool(burst.flags)
        values = (
            len(self._numbers)
            + len(self._ticks)
            + self.other_samples
            + len(self._counters)
        )
        if (
            self._max_bytes is not None
            and 8 * values + _POINT_BYTES * len(self._points) > self._max_bytes
        ):
            self._clear()
            self.overflowed = True

    def to_table(self, run: Run) -> Any:
        """Return the bursts, sorted, as a pyarrow table in the schema of samples files.
        Raises StoreError.
        """
        shape = schema.file_schema("samples")
        types = {field.name: field.type for field in shape}
        rows = self._collect_rows()
        words = self._make_word_columns(run, rows)
        keys = pa.table({name: words.get(name, rows.get(name)) for name in _SORT_ORDER})
        order = pc.sort_indices(
            keys, [(name, "ascending") for name in _SORT_ORDER]
        ).to_numpy()
        columns = {
            name: texts.take(order).dictionary_encode() for name, texts in words.items()
        }
        columns |= {
            name: _mask_unknown(rows[name][order], types[name])
            for name in (*_COUNTS, *_OPTIONAL)
        }
        columns["ns_per_tick"] = pa.repeat(
            1e9 / require_hello(run).ticks_per_second, len(self)
        )
        ends, ticks = (
            np.frombuffer(part, part.typecode) for part in (self._ends, self._ticks)
        )
        columns["ticks"] = pa.ListArray.from_arrays(ends, ticks, types["ticks"]).take(
            order
        )
        core_mhz = rows["core_mhz"][order]
        columns["core_ghz"] = pa.array(
            core_mhz / 2000, types["core_ghz"], mask=core_mhz == _UNKNOWN
        )
        columns |= {name: pa.nulls(len(self), types[name]) for name in schema.POINT}
        if self._points:
            null_row = (None,) * len(schema.POINT)
            points = zip(
                *(self._points.get(burst, null_row) for burst in order.tolist()),
                strict=True,
            )
            named = zip(schema.POINT, points, strict=True)
            columns |= {name: pa.array(values, types[name]) for name, values in named}
        return pa.table([columns[name] for name in shape.names], schema=shape)

    def counters_table(self, run: Run) -> Any:
        """Return the event counts as a pyarrow table in the schema of `counters`; None
        if there are none.
        """
        if not self._counters:
            return None
        shape = schema.arrow_schema("counters")
        types = {field.name: field.type for field in shape}
        counts = dict(
            zip(
                _COUNTER_NUMBERS,
                _to_columns(self._counters, len(_COUNTER_NUMBERS)),
                strict=True,
            )
        )
        rows, burst = self._collect_rows(), counts["burst"]
        counts |= {
            name: rows[name][burst] for name in ("round", "ping_cpu", "pong_cpu")
        }
        benchmarks, variants, *_ = zip(*self._words, strict=True)
        words = {
            "host_id": pa.repeat(run.host.host_id, len(burst)),
            "run_id": pa.repeat(run.run_id, len(burst)),
            "benchmark": pa.array(benchmarks).take(rows["words"][burst]),
            "variant": pa.array(variants).take(rows["words"][burst]),
            "event": pa.array(require_hello(run).counters).take(counts["event"]),
        }
        points = [self._points.get(number, (None,))[0] for number in burst.tolist()]
        columns = {name: texts.dictionary_encode() for name, texts in words.items()}
        columns["point"] = pa.array(points, types["point"])
        columns |= {
            name: _mask_unknown(counts[name], types[name])
            for name in types.keys() - columns.keys()
        }
        return pa.table([columns[name] for name in types], schema=shape)

    def _add_counters(
        self, burst: Burst, counters: tuple[tuple[Count | None, ...], ...]
    ) -> None:
        cpus = burst.cpus or tuple(dict.fromkeys((burst.ping_cpu, burst.pong_cpu)))
        units = burst.iterations * len(burst.ticks)
        for cpu, counts in zip(cpus, counters, strict=True):
            for event, counted in enumerate(counts):
                if counted is not None:
                    count, enabled_ns, running_ns = counted
                    count = count if running_ns else _UNKNOWN
                    self._counters.extend(
                        (len(self), cpu, event, units, count, enabled_ns, running_ns)
                    )

    def _collect_rows(self) -> dict[str, Any]:
        return dict(
            zip(_NUMBERS, _to_columns(self._numbers, len(_NUMBERS)), strict=True)
        )

    def _make_word_columns(self, run: Run, rows: Any) -> dict[str, Any]:
        """Return the text columns of the bursts, with `relation`: how far apart each
        burst's CPUs are.
        """
        benchmarks, variants, flags, cpus = (
            zip(*self._words, strict=True) if self._words else [()] * 4
        )
        words = {"benchmark": benchmarks, "variant": variants, "flags": flags}
        columns = {
            name: pa.array(texts, pa.string()).take(rows["words"])
            for name, texts in words.items()
        }
        base = (
            max(int(rows["ping_cpu"].max()), int(rows["pong_cpu"].max())) + 1
            if len(self)
            else 1
        )
        pairs = (rows["words"] * base + rows["ping_cpu"]) * base + rows["pong_cpu"]
        distinct, which = np.unique(pairs, return_inverse=True)
        topology, relations = Topology(run.facts.cpus), []
        for pair in distinct.tolist():
            word, ping, pong = pair // base // base, pair // base % base, pair % base
            relations.append(_name_farthest_relation(topology, cpus[word], ping, pong))
        return columns | {"relation": pa.array(relations, pa.string()).take(which)}


def _mask_unknown(numbers: Any, type_: Any) -> Any:
    return pa.array(numbers, type_, mask=numbers == _UNKNOWN)


def _to_columns(rows: "array[int]", width: int) -> Any:
    return np.ascontiguousarray(np.frombuffer(rows, "i8").reshape(-1, width).T)


def _list_point_values(burst: Burst) -> tuple[Any, ...]:
    both = (burst.other_ticks, burst.other_units)
    lists: Any = (
        numbers and tuple(array("q", part) for part in numbers) for numbers in both
    )
    parameters = _get_parameters(burst.parameters or Parameters())
    return burst.point, burst.unit, *parameters, burst.cpus, *lists, burst.checked


def _name_farthest_relation(
    topology: Topology, cpus: tuple[int, ...] | None, ping: int, pong: int
) -> str:
    """Name the relation of ping's and pong's CPUs; with three or more CPUs, of ping's
    and the farthest.
    """
    if cpus is None or len(cpus) < 3:
        return topology.name_relation(ping, pong)
    return max(
        (topology.name_relation(ping, other) for other in cpus[1:]),
        key=_NEAREST_FIRST.index,
    )
