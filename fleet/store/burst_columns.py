"""Hold bursts in columns, not as one object for each burst, from decoding until
publication.
"""

from array import array
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from fleet.late import np, pa, pc
from fleet.model import Burst, Count, Parameters, Relation, Run, Topology
from fleet.store import schema
from fleet.store.rows import require_hello

_COUNTS = ("round", "ping_cpu", "pong_cpu", "start_offset_ns", "iterations", "warmup")
_OPTIONAL = (*schema.LINE, *schema.THREADS)  # numbers from 0 that a host may leave out
# What is stored of a burst as numbers; _UNKNOWN where the host left it out.
# words_number: which of the distinct _Words it has. mhz_doubled: of ping's core
_NUMBERS = ("words_number", *_COUNTS, *_OPTIONAL, "mhz_doubled")
# What is stored of each event count. burst: the number of the burst, in order of
# arrival. event: which of the hello's `counters`
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


class _Words(NamedTuple):
    """What many bursts have in common: it is stored once, under a number."""

    benchmark: str
    variant: str
    flags: str  # sorted, with commas between them
    cpus: tuple[int, ...] | None  # of all threads if they are three or more, else None


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
        """Hold no bursts, as at first. The arrays are flat, to take little memory: the
        values of the first burst or count, then those of the second, and so on.
        """
        self.flagged = 0  # bursts with flags
        self.other_samples = 0  # of the threads other than ping
        # what bursts have in common, such as the benchmark, and its number, from 0
        self._number_by_words: dict[_Words, int] = {}
        self._numbers = array("q")  # for each burst, the values of _NUMBERS
        self._counters = array("q")  # for each event count, those of _COUNTER_NUMBERS
        self._ticks = array("q")  # for each burst, the ticks of its samples
        # where each burst begins in _ticks, then where the last one ends
        self._tick_offsets = array("i", [0])
        # by the number of the burst, its values of schema.POINT
        self._points: dict[int, tuple[Any, ...]] = {}

    def __len__(self) -> int:
        return len(self._tick_offsets) - 1

    @property
    def sample_count(self) -> int:
        """Return the number of ping's samples, warm-ups included."""
        return len(self._ticks)

    @property
    def counter_row_count(self) -> int:
        """Return the number of event counts, one for each burst, CPU and event."""
        return len(self._counters) // len(_COUNTER_NUMBERS)

    def add(self, burst: Burst) -> None:
        """Add one burst. Once the bursts take more than max_bytes, drop all of them,
        and ignore further ones.
        """
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
        self._tick_offsets.append(len(self._ticks))
        if self._max_bytes is not None and self._count_bytes() > self._max_bytes:
            self._clear()
            self.overflowed = True

    def _add_point(self, burst: Burst) -> None:
        """Keep a burst's values of schema.POINT under the burst's number."""
        burst_number = len(self)
        self._points[burst_number] = _list_point_values(burst)
        # the other threads have as many numbers as this one has ticks
        lists = len(burst.other_ticks or ()) + len(burst.other_units or ())
        self.other_samples += len(burst.ticks) * lists

    def _make_row(self, burst: Burst) -> list[int]:
        """Return the values of _NUMBERS for a burst. Give its words the next number if
        no burst before it had them.
        """
        cpus = burst.cpus
        if cpus is not None and len(cpus) < 3:
            cpus = None  # ping_cpu and pong_cpu say the same
        flags = ",".join(sorted(burst.flags))
        words = _Words(burst.benchmark, burst.variant, flags, cpus)
        next_number = len(self._number_by_words)
        words_number = self._number_by_words.setdefault(words, next_number)
        optional = [
            _UNKNOWN if value is None else value for value in _list_optional(burst)
        ]
        return [words_number, *_get_counts(burst), *optional]

    def _add_counters(
        self, burst: Burst, counters: tuple[tuple[Count | None, ...], ...]
    ) -> None:
        """Add the values of _COUNTER_NUMBERS for each event count of a burst. counters:
        for each CPU the count of each event, None for an event that the CPU lacks.
        """
        # `len` counts the bursts whose ticks were added; those of this one come last
        burst_number = len(self)
        cpus = burst.cpus
        if not cpus:  # it has two threads, which may share a CPU
            cpus = tuple(dict.fromkeys((burst.ping_cpu, burst.pong_cpu)))
        # the events of all samples were counted, warm-ups included
        units = burst.iterations * len(burst.ticks)
        for cpu, counts in zip(cpus, counters, strict=True):
            for event, counted in enumerate(counts):
                if counted is None:
                    continue
                count, enabled_ns, running_ns = counted
                if not running_ns:  # the kernel never gave it a hardware counter
                    count = _UNKNOWN
                row = (burst_number, cpu, event, units, count, enabled_ns, running_ns)
                self._counters.extend(row)

    def _count_bytes(self) -> int:
        values = len(self._numbers) + len(self._ticks) + len(self._counters)
        values += self.other_samples
        return 8 * values + _POINT_BYTES * len(self._points)

    def to_table(self, run: Run) -> Any:
        """Return the bursts, in _SORT_ORDER, as a pyarrow table in the schema of
        samples files. Raises StoreError.
        """
        file_schema = schema.file_schema("samples")
        types = {field.name: field.type for field in file_schema}
        numbers = self._collect_numbers()
        texts_by_name = self._make_text_columns(run, numbers)
        # for each row of the table, the number of its burst
        order = _sort_bursts(texts_by_name, numbers)
        columns = {}
        for name, texts in texts_by_name.items():
            sorted_texts = texts.take(order)
            columns[name] = sorted_texts.dictionary_encode()
        for name in (*_COUNTS, *_OPTIONAL):
            sorted_numbers = numbers[name][order]
            columns[name] = _mask_unknown(sorted_numbers, types[name])
        ns_per_tick = 1e9 / require_hello(run).ticks_per_second
        columns["ns_per_tick"] = pa.repeat(ns_per_tick, len(self))
        ticks = self._make_ticks_column(types["ticks"])
        columns["ticks"] = ticks.take(order)
        # kept doubled, as whole numbers, since a mean of two MHz may end in .5
        mhz_doubled = numbers["mhz_doubled"][order]
        columns["core_ghz"] = _make_ghz_column(mhz_doubled)
        # these are null for bursts without a point (a setting of a benchmark's
        # parameters)
        columns |= self._make_point_columns(order, types)
        return pa.table([columns[name] for name in types], schema=file_schema)

    def _make_ticks_column(self, type_: Any) -> Any:
        """Return the ticks of each burst as a list, in order of arrival."""
        offsets = np.frombuffer(self._tick_offsets, self._tick_offsets.typecode)
        ticks = np.frombuffer(self._ticks, self._ticks.typecode)
        return pa.ListArray.from_arrays(offsets, ticks, type_)

    def _make_point_columns(
        self, order: Any, types: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the columns schema.POINT, by name; a burst without a point has nulls.
        order: for each row, the number of its burst. types: the pyarrow types of all
        columns, by name.
        """
        point_types = {name: types[name] for name in schema.POINT}
        if not self._points:
            return {
                name: pa.nulls(len(self), point_types[name]) for name in point_types
            }
        no_point = (None,) * len(schema.POINT)
        rows = [self._points.get(number, no_point) for number in order.tolist()]
        values_by_column = zip(*rows, strict=True)
        columns = {}
        for name, values in zip(schema.POINT, values_by_column, strict=True):
            columns[name] = pa.array(values, point_types[name])
        return columns

    def counters_table(self, run: Run) -> Any:
        """Return the event counts as a pyarrow table in the schema of `counters`; None
        if there are none.
        """
        if not self._counters:
            return None
        # Numbers and texts by column, with a value for each count. A column that the
        # counts lack, such as the round, has the value of each count's burst. The
        # words_number of a burst says which _Words it has.
        numbers = _name_columns(_COUNTER_NUMBERS, self._counters)
        burst_of_count = numbers["burst"]
        numbers_of_bursts = self._collect_numbers()
        for name in ("words_number", "round", "ping_cpu", "pong_cpu"):
            numbers[name] = numbers_of_bursts[name][burst_of_count]
        texts = self._make_counter_texts(run, numbers)
        counters_schema = schema.arrow_schema("counters")
        columns = []
        for field in counters_schema:
            if field.name == "point":
                column = pa.array(self._list_points(burst_of_count), field.type)
            elif field.name in texts:
                column = texts[field.name].dictionary_encode()
            else:
                column = _mask_unknown(numbers[field.name], field.type)
            columns.append(column)
        return pa.table(columns, schema=counters_schema)

    def _make_counter_texts(
        self, run: Run, numbers: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the text columns of event counts, by name. numbers: columns with a
        value for each count. `event` is the index of its event in the hello's
        `counters`; `words_number` is the number of the _Words that have its benchmark
        and variant.
        """
        event_names = pa.array(require_hello(run).counters)
        event_numbers = numbers["event"]
        return {
            "host_id": pa.repeat(run.host.host_id, len(event_numbers)),
            "run_id": pa.repeat(run.run_id, len(event_numbers)),
            "benchmark": self._take_words("benchmark", numbers["words_number"]),
            "variant": self._take_words("variant", numbers["words_number"]),
            "event": event_names.take(event_numbers),
        }

    def _list_points(self, burst_numbers: Any) -> list[str | None]:
        """Return the point of each of these bursts, None for one without a point."""
        no_point = (None,)
        values = [self._points.get(burst, no_point) for burst in burst_numbers.tolist()]
        return [point for point, *_ in values]

    def _collect_numbers(self) -> dict[str, Any]:
        """Return the columns _NUMBERS, by name, with a value for each burst."""
        return _name_columns(_NUMBERS, self._numbers)

    def _make_text_columns(
        self, run: Run, numbers: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the text columns of the bursts, by name, with `relation`: how far
        apart each burst's CPUs are. numbers: the columns _NUMBERS, by name.
        """
        columns = {}
        for name in ("benchmark", "variant", "flags"):
            columns[name] = self._take_words(name, numbers["words_number"])
        topology = Topology(run.facts.cpus)
        # the dict has its keys in the order of their numbers, from 0
        words_by_number = list(self._number_by_words)
        columns["relation"] = _make_relation_column(topology, words_by_number, numbers)
        return columns

    def _take_words(self, name: str, words_numbers: Any) -> Any:
        """Return a column with this field of _Words for each number of words."""
        texts = [getattr(words, name) for words in self._number_by_words]
        return pa.array(texts, pa.string()).take(words_numbers)


def _make_relation_column(
    topology: Topology, words_by_number: Sequence[_Words], numbers: Mapping[str, Any]
) -> Any:
    """Return a column with the relation of each burst, such as "LLC". words_by_number:
    the distinct _Words, which are the benchmark, variant, flags and CPUs of bursts;
    `words_number` is the index. numbers: the columns _NUMBERS of the bursts, by name.
    """
    # Many bursts have equal _Words, ping and pong, and so the same relation. Name it
    # for the first burst of each such combination, then repeat it for the others.
    first_bursts, combination_of_burst = _number_combinations(numbers)
    relations = []
    for burst in first_bursts.tolist():
        words = words_by_number[numbers["words_number"][burst]]
        ping = int(numbers["ping_cpu"][burst])
        pong = int(numbers["pong_cpu"][burst])
        # a burst of three or more CPUs has them in words.cpus; it counts as far apart
        # as ping and the CPU that is farthest from it
        relation = _name_farthest_relation(topology, words.cpus, ping, pong)
        relations.append(relation)
    return pa.array(relations, pa.string()).take(combination_of_burst)


def _number_combinations(numbers: Mapping[str, Any]) -> tuple[Any, Any]:
    """Number the combinations of `words_number`, ping and pong. Return two arrays: for
    each combination the first burst that has it, and for each burst its combination.

    numbers: the columns _NUMBERS of the bursts. `words_number` says which of the
    distinct _Words a burst has.
    """
    ping = numbers["ping_cpu"]
    pong = numbers["pong_cpu"]
    # the three as the digits of one number, which is quicker to compare
    possible_pings = ping.max(initial=0) + 1
    possible_pongs = pong.max(initial=0) + 1
    words_and_ping = numbers["words_number"] * possible_pings + ping
    combination = words_and_ping * possible_pongs + pong
    _, first_burst_of_combination, combination_of_burst = np.unique(
        combination, return_index=True, return_inverse=True
    )
    return first_burst_of_combination, combination_of_burst


def _sort_bursts(texts: Mapping[str, Any], numbers: Mapping[str, Any]) -> Any:
    """Return the numbers of the bursts in _SORT_ORDER. texts, numbers: columns with a
    value for each burst.
    """
    columns = {**numbers, **texts}
    keys = pa.table({name: columns[name] for name in _SORT_ORDER})
    directions = [(name, "ascending") for name in _SORT_ORDER]
    return pc.sort_indices(keys, directions).to_numpy()


def _mask_unknown(numbers: Any, type_: Any) -> Any:
    """Return the numbers as a pyarrow array with null for _UNKNOWN."""
    return pa.array(numbers, type_, mask=numbers == _UNKNOWN)


def _make_ghz_column(mhz_doubled: Any) -> Any:
    """Return GHz from twice the MHz, with null for _UNKNOWN."""
    ghz = mhz_doubled / 2000
    return pa.array(ghz, pa.float32(), mask=mhz_doubled == _UNKNOWN)


def _name_columns(names: Sequence[str], flat_rows: "array[int]") -> dict[str, Any]:
    """Return the columns, by name, of rows of numbers that stand one after the other.
    names: of the columns, in the order of a row.
    """
    rows = np.frombuffer(flat_rows, "i8").reshape(-1, len(names))
    columns = np.ascontiguousarray(rows.T)
    return dict(zip(names, columns, strict=True))


def _list_optional(burst: Burst) -> list[int | None]:
    """Return a burst's values of _OPTIONAL, in their order, then twice the frequency of
    ping's core in MHz; None for what the host left out.
    """
    ping_steal, pong_steal = burst.steal_ppm or (None, None)
    return [
        # schema.LINE: where the measured cache line is: its page, its offset in that
        # page, the NUMA node and the physical page
        *_get_line(burst),
        # schema.THREADS: switches, time that each thread ran, time that was stolen
        *(burst.switches or (None, None, None, None)),
        *(burst.ran_ppm or (None, None)),
        ping_steal or None,  # 0 is stored as null
        pong_steal or None,
        _double_core_mhz(burst),
    ]


def _double_core_mhz(burst: Burst) -> int | None:
    """Return twice the frequency of ping's core in MHz; None if unknown. The frequency
    is that of right after the samples, else the mean of before and after. Twice the
    mean of two whole numbers is a whole number.
    """
    if burst.sample_mhz is not None:
        return 2 * burst.sample_mhz
    if burst.core_mhz is None:
        return None
    before, after = burst.core_mhz
    return before + after  # twice their mean


def _list_point_values(burst: Burst) -> tuple[Any, ...]:
    """Return the values of the columns schema.POINT, in their order. Without
    parameters, their columns are None, as in `Parameters()`.
    """
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
    """Return lists of numbers as arrays, which take less memory; None for None."""
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
