"""Hold bursts in columns, not as one object for each burst, from decoding until
publication.
"""

from array import array
from collections.abc import Mapping, Sequence
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
_get_line = attrgetter(*schema.LINE)
_get_counts = attrgetter(*_COUNTS)
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
        # all bursts were dropped, and no further ones are taken
        self.overflowed = False
        self._max_bytes = max_bytes
        self._clear()

    def _clear(self) -> None:
        self.other_samples = 0
        self.flagged = 0
        # numbers of (benchmark, variant, flags, CPUs)
        self._words: dict[tuple[Any, ...], int] = {}
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
        self._numbers.extend(self._make_row(burst))
        if burst.point is not None:
            self._add_point(burst)
        if burst.counters is not None:
            self._add_counters(burst, burst.counters)
        if burst.flags:
            self.flagged += 1
        self._ticks.extend(burst.ticks)
        self._ends.append(len(self._ticks))
        if self._max_bytes is not None and self._count_bytes() > self._max_bytes:
            self._clear()
            self.overflowed = True

    def _add_point(self, burst: Burst) -> None:
        self._points[len(self)] = _list_point_values(burst)
        # the other threads have as many numbers as this one has ticks
        lists = len(burst.other_ticks or ()) + len(burst.other_units or ())
        self.other_samples += len(burst.ticks) * lists

    def _make_row(self, burst: Burst) -> list[int]:
        """Return the burst's row of _NUMBERS."""
        group = burst.cpus
        if group is not None and len(group) < 3:  # ping and pong say the same
            group = None
        flags = ",".join(sorted(burst.flags))
        words = (burst.benchmark, burst.variant, flags, group)
        next_number = len(self._words)
        number = self._words.setdefault(words, next_number)
        optional = [
            _UNKNOWN if value is None else value for value in _list_optional(burst)
        ]
        return [number, *_get_counts(burst), *optional]

    def _add_counters(
        self, burst: Burst, counters: tuple[tuple[Count | None, ...], ...]
    ) -> None:
        cpus = burst.cpus or tuple(dict.fromkeys((burst.ping_cpu, burst.pong_cpu)))
        units = burst.iterations * len(burst.ticks)
        for cpu, counts in zip(cpus, counters, strict=True):
            for event, counted in enumerate(counts):
                if counted is None:
                    continue
                count, enabled_ns, running_ns = counted
                if not running_ns:  # the kernel never gave it a hardware counter
                    count = _UNKNOWN
                self._counters.extend(
                    (len(self), cpu, event, units, count, enabled_ns, running_ns)
                )

    def _count_bytes(self) -> int:
        values = len(self._numbers) + len(self._ticks) + len(self._counters)
        values += self.other_samples
        return 8 * values + _POINT_BYTES * len(self._points)

    def to_table(self, run: Run) -> Any:
        """Return the bursts, sorted, as a pyarrow table in the schema of samples files.
        Raises StoreError.
        """
        shape = schema.file_schema("samples")
        types = {field.name: field.type for field in shape}
        rows = self._collect_rows()
        words = self._make_word_columns(run, rows)
        order = _sort_bursts(words, rows)
        columns = {}
        for name, texts in words.items():
            columns[name] = texts.take(order).dictionary_encode()
        for name in (*_COUNTS, *_OPTIONAL):
            columns[name] = _mask_unknown(rows[name][order], types[name])
        ns_per_tick = 1e9 / require_hello(run).ticks_per_second
        columns["ns_per_tick"] = pa.repeat(ns_per_tick, len(self))
        columns["ticks"] = self._make_ticks_column(types["ticks"]).take(order)
        columns["core_ghz"] = _make_ghz_column(rows["core_mhz"][order])
        columns |= self._make_point_columns(order, types)
        return pa.table([columns[name] for name in shape.names], schema=shape)

    def _make_ticks_column(self, type_: Any) -> Any:
        """Return the ticks of each burst as a list, in order of arrival."""
        ends = np.frombuffer(self._ends, self._ends.typecode)
        ticks = np.frombuffer(self._ticks, self._ticks.typecode)
        return pa.ListArray.from_arrays(ends, ticks, type_)

    def _make_point_columns(
        self, order: Any, types: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the columns schema.POINT of the bursts in this order."""
        columns = {}
        if not self._points:
            for name in schema.POINT:
                columns[name] = pa.nulls(len(self), types[name])
            return columns
        no_point = (None,) * len(schema.POINT)
        rows = [self._points.get(burst, no_point) for burst in order.tolist()]
        values_by_column = zip(*rows, strict=True)
        for name, values in zip(schema.POINT, values_by_column, strict=True):
            columns[name] = pa.array(values, types[name])
        return columns

    def counters_table(self, run: Run) -> Any:
        """Return the event counts as a pyarrow table in the schema of `counters`; None
        if there are none.
        """
        if not self._counters:
            return None
        counts = _name_columns(_COUNTER_NUMBERS, self._counters)
        burst = counts["burst"]
        rows = self._collect_rows()
        words = self._make_counter_words(run, counts, rows["words"][burst])
        numbers = {**counts}
        for name in ("round", "ping_cpu", "pong_cpu"):
            numbers[name] = rows[name][burst]
        shape = schema.arrow_schema("counters")
        columns = []
        for field in shape:
            if field.name == "point":
                columns.append(pa.array(self._list_points(burst), field.type))
            elif field.name in words:
                columns.append(words[field.name].dictionary_encode())
            else:
                columns.append(_mask_unknown(numbers[field.name], field.type))
        return pa.table(columns, schema=shape)

    def _make_counter_words(
        self, run: Run, counts: Mapping[str, Any], words: Any
    ) -> dict[str, Any]:
        """Return the text columns of event counts. words: of the burst of each."""
        events = pa.array(require_hello(run).counters)
        return {
            "host_id": pa.repeat(run.host.host_id, len(words)),
            "run_id": pa.repeat(run.run_id, len(words)),
            **self._take_names(words),
            "event": events.take(counts["event"]),
        }

    def _list_points(self, bursts: Any) -> list[str | None]:
        """Return the point of each of these bursts, given by number."""
        no_point = (None,)
        return [self._points.get(number, no_point)[0] for number in bursts.tolist()]

    def _collect_rows(self) -> dict[str, Any]:
        return _name_columns(_NUMBERS, self._numbers)

    def _list_words(self) -> Sequence[tuple[Any, ...]]:
        """Return the benchmarks, variants, flags and groups of CPUs, by the number of
        the words.
        """
        if not self._words:
            return [()] * 4
        return list(zip(*self._words, strict=True))

    def _make_word_columns(self, run: Run, rows: Mapping[str, Any]) -> dict[str, Any]:
        """Return the text columns of the bursts, with `relation`: how far apart each
        burst's CPUs are.
        """
        _, _, flags, groups = self._list_words()
        words = rows["words"]
        columns = self._take_names(words)
        columns["flags"] = pa.array(flags, pa.string()).take(words)
        topology = Topology(run.facts.cpus)
        columns["relation"] = _make_relation_column(topology, groups, rows)
        return columns

    def _take_names(self, words: Any) -> dict[str, Any]:
        """Return the columns `benchmark` and `variant` for these numbers of words."""
        benchmarks, variants, _, _ = self._list_words()
        return {
            "benchmark": pa.array(benchmarks, pa.string()).take(words),
            "variant": pa.array(variants, pa.string()).take(words),
        }


def _make_relation_column(
    topology: Topology,
    groups: Sequence[tuple[int, ...] | None],
    rows: Mapping[str, Any],
) -> Any:
    """Return the relation of each burst. groups: the CPUs of each group, or None, by
    the number that a burst has in rows["words"].
    """
    # a relation is found once for each pair, since a run has many bursts of a pair
    examples, pair_of_burst = _find_distinct_pairs(rows)
    relations = []
    for burst in examples.tolist():
        group = groups[rows["words"][burst]]
        ping = int(rows["ping_cpu"][burst])
        pong = int(rows["pong_cpu"][burst])
        relation = _name_farthest_relation(topology, group, ping, pong)
        relations.append(relation)
    return pa.array(relations, pa.string()).take(pair_of_burst)


def _find_distinct_pairs(rows: Mapping[str, Any]) -> tuple[Any, Any]:
    """Find the combinations of words, ping and pong: return a burst of each, and which
    of them each burst is.
    """
    ping = rows["ping_cpu"]
    pong = rows["pong_cpu"]
    # words, ping and pong as the digits of one number, which is quicker to compare
    pings = ping.max(initial=0) + 1
    pongs = pong.max(initial=0) + 1
    words_and_ping = rows["words"] * pings + ping
    combination = words_and_ping * pongs + pong
    _, examples, which = np.unique(combination, return_index=True, return_inverse=True)
    return examples, which


def _sort_bursts(words: Mapping[str, Any], rows: Mapping[str, Any]) -> Any:
    """Return the places of the bursts in _SORT_ORDER."""
    columns = {**rows, **words}
    keys = pa.table({name: columns[name] for name in _SORT_ORDER})
    directions = [(name, "ascending") for name in _SORT_ORDER]
    return pc.sort_indices(keys, directions).to_numpy()


def _mask_unknown(numbers: Any, type_: Any) -> Any:
    return pa.array(numbers, type_, mask=numbers == _UNKNOWN)


def _make_ghz_column(mhz_doubled: Any) -> Any:
    ghz = mhz_doubled / 2000
    return pa.array(ghz, pa.float32(), mask=mhz_doubled == _UNKNOWN)


def _name_columns(names: Sequence[str], rows: "array[int]") -> dict[str, Any]:
    """Return the columns, by name, of numbers that are stored row by row."""
    columns = np.frombuffer(rows, "i8").reshape(-1, len(names)).T
    return dict(zip(names, np.ascontiguousarray(columns), strict=True))


def _list_optional(burst: Burst) -> list[int | None]:
    """Return the values of _OPTIONAL, then the doubled frequency; None for what the
    host left out.
    """
    ping_steal, pong_steal = burst.steal_ppm or (None, None)
    return [
        *_get_line(burst),
        *(burst.switches or (None, None, None, None)),
        *(burst.ran_ppm or (None, None)),
        ping_steal or None,  # 0 is stored as null
        pong_steal or None,
        _double_core_mhz(burst),
    ]


def _double_core_mhz(burst: Burst) -> int | None:
    """Return twice the frequency of ping's core: right after the samples, else the mean
    of before and after.
    """
    if burst.sample_mhz is not None:
        return 2 * burst.sample_mhz
    if burst.core_mhz is None:
        return None
    return sum(burst.core_mhz)


def _list_point_values(burst: Burst) -> tuple[Any, ...]:
    """Return the values of schema.POINT."""
    return (
        burst.point,
        burst.unit,
        *_get_parameters(burst.parameters or Parameters()),
        burst.cpus,
        _pack_lists(burst.other_ticks),
        _pack_lists(burst.other_units),
        burst.checked,
    )


def _pack_lists(lists: tuple[tuple[int, ...], ...] | None) -> Any:
    if not lists:
        return lists
    return tuple(array("q", numbers) for numbers in lists)


def _name_farthest_relation(
    topology: Topology, cpus: tuple[int, ...] | None, ping: int, pong: int
) -> str:
    """Name the relation of ping's and pong's CPUs; with three or more CPUs, of ping's
    and the farthest.
    """
    if cpus is None or len(cpus) < 3:
        return topology.name_relation(ping, pong)
    relations = [topology.name_relation(ping, other) for other in cpus[1:]]
    return max(relations, key=_NEAREST_FIRST.index)
