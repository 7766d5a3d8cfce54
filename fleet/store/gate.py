"""Check rows, records and tables against their schema, whoever wrote them; raise
DataError. Pure.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from types import SimpleNamespace
from typing import Annotated, Any, NotRequired, TypedDict, TypeVar

from fleet import model
from fleet.errors import DataError
from fleet.late import msgspec, np, once, pa, pc
from fleet.store import schema
from fleet.store.footer import RowGroup
from fleet.store.places import KEY
from fleet.text import describe_msgspec_error

EXACT_MAX = 2**53  # the largest integer up to which float64 is exact
INT64_MAX = 2**63 - 1
RECORD_BYTES = 64 << 20  # of a run's record, unpacked
_MAX_TEXT = 2 << 20  # characters of a column
_MAX_LONG_TEXT = {"probe": 16 << 20, "failed_json": 19 << 20}
_MAX_VALUES = 200_000  # in a column of JSON
_MAX_FAILED_VALUES = 1_500_000  # 100,000 failed visits
_MAX_DEPTH = 10
_SHORT = 4096  # characters
WORD_BYTES = 500  # of a text that is repeated often

# a file's rows may take this many bytes, plus this many a byte of the file
UNPACKED, _PACKED = (
    32 << 20,
    64,
)
_CELL = 512  # bytes of a value, on average: a few of a row are long
# of a file, beside 8 for each of its bytes; samples of a coarse clock take next to none
_TICKS = 1 << 26
_GROUP_VALUES = 6 << 20  # samples of a row group: a chunk, and a burst more
_SAMPLE_LISTS = ("ticks", "other_ticks", "other_units")
FEW_BYTES = 4 << 20  # in memory: of a column, or of a file that needs no further check
_BURST_TICKS = 1 << 19  # as many as a line of the wire has room for
_MAX_REASON = 1000  # characters
_MAX_CPUS = 1 << 16  # also of numbers in a list
# in a list, and characters of each: benchmarks, notes
_MAX_TEXTS, _MAX_LISTED_TEXT = (
    1 << 10,
    1 << 13,
)
_YEARS, _MOMENTS = (1970, 9998), ("started_utc", "ended_utc")
_SIGNED = {"samples": "", "counters": "", "summaries": "", "pairs": "float"}
"""Tables whose numbers are never negative, except those of one type: relative changes
in `pairs`.
"""
_NUMBER_TYPES = ("int32", "int64", "float", "double")
_LARGEST = dict.fromkeys(("iterations", *_SAMPLE_LISTS), EXACT_MAX)
_LARGEST |= dict.fromkeys(("ping_cpu", "pong_cpu"), _MAX_CPUS - 1)
_SMALLEST = {"iterations": 1, "ns_per_tick": 1e-7}
_KEYS = frozenset(("run_id", "session_id", "host_id"))
_WITH_KINDS = ("pairs", "summaries")  # tables whose relations may name kinds of cores

_POINT_LISTS = ("cpus", "other_ticks", "other_units")
_POINT_NAMES = ("run_id", "benchmark", "variant", "point", "unit", *schema.PARAMETERS)
# parameters of a point that are known only after a burst
_SET_BY_BURST = (
    "pages",
    "state",
)
BURST_COLUMNS = (
    "ping_cpu",
    "pong_cpu",
    "warmup",
    "ticks",
    *_POINT_NAMES,
    *_POINT_LISTS,
)
"""The columns of `samples` that `check_bursts` needs."""

_Type = TypeVar("_Type")


class _Event(TypedDict):
    event: str


class _Kind(TypedDict):
    benchmark: str
    variant: str
    points: NotRequired[list[str] | None]


class _HelloPlan(TypedDict):
    benchmarks: NotRequired[list[_Kind]]


class _Hello(TypedDict):
    """The keys of a stored hello that readers use."""

    plan: NotRequired[_HelloPlan]
    counters: NotRequired[list[_Event]]
    benchmarks: NotRequired[list[model.Benchmark]]


_JSON: Mapping[str, Any] = {
    "labels_json": dict[str, str],
    "mitigations_json": dict[str, str],
    "plan_json": model.Plan,
    "hello_json": _Hello,
    "host_json": dict[str, Any],
    "failed_json": list[model.Failed],
    "caches_json": list[model.Cache],
    "nodes_json": list[model.Node],
    "memory_json": model.Memory,
}
"""The types in columns of JSON."""


@once
def prepare_type_for_threads(kind: type[_Type]) -> type[_Type]:
    """Let msgspec inspect a type, then return it: threads that use it during the
    inspection would crash.
    """
    msgspec.json.Decoder(kind)
    return kind


@contextmanager
def _decoding(name: str) -> Iterator[None]:
    """Turn the errors of msgspec into DataErrors."""
    try:
        yield
    except msgspec.ValidationError as err:
        raise DataError(describe_msgspec_error(err, name)) from err
    except (msgspec.DecodeError, UnicodeError) as err:
        raise DataError(f"{name} is not JSON: {err}") from err


def _decode_json(name: str, text: str | bytes, kind: Any = Any) -> Any:
    with _decoding(name):
        try:
            return msgspec.json.decode(text, type=kind)
        except RecursionError as err:
            raise DataError(f"{name} is nested too deeply") from err


def _raise_if_any(problem: str | None) -> None:
    if problem:
        raise DataError(problem)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A samples file's record of its run: its rows of `runs` and of `cpus`."""

    row: Mapping[str, Any]
    cpus: Sequence[Mapping[str, Any]]


def convert_row(
    table: str, values: Mapping[str, Any], names: Iterable[str] | None = None
) -> dict[str, Any]:
    """Check and return a row's values, None if absent. names: only these columns.
    Raises DataError.
    """
    kind = _make_row_struct(table, None if names is None else tuple(names))
    with _decoding(table):
        row = msgspec.convert(values, kind)
    return _check_row(table, row)


def parse_record(text: bytes, names: tuple[str, ...] | None = None) -> RunRecord:
    """Parse a record's JSON. names: parse only these columns of `runs`, no `cpus`.
    Raises DataError.
    """
    record = _decode_json("record", text, _make_record_struct(names))
    row = _check_row("runs", record.run)
    shared = (
        {"run_id": row["run_id"], "host_id": row["host_id"]} if names is None else {}
    )
    cpus = record.cpus if names is None else ()
    return RunRecord(row, [_check_row("cpus", cpu) | shared for cpu in cpus])


def decode_listed_row(text: bytes, names: tuple[str, ...]) -> dict[str, Any]:
    """Decode a JSON list, the values of these columns of `runs`. Return them by name.
    Raises DataError.
    """
    return _check_row(
        "runs", _decode_json("row", text, _make_row_struct("runs", names, True))
    )


def _check_row(table: str, struct: Any) -> dict[str, Any]:
    row = msgspec.structs.asdict(struct)
    for name in _JSON:
        if (text := row.get(name)) is not None:
            (_parse_short_json if len(text) < _SHORT else parse_json_column)(name, text)
    _raise_if_any(
        model.find_name_problem(
            kind.partition("/")[0] for kind in row.get("benchmarks") or ()
        )
    )
    for moment in map(row.get, _MOMENTS):
        if moment and not _YEARS[0] <= moment.year <= _YEARS[1]:
            raise DataError(f"{table}: {moment} is not a possible time of a run")
    return row


def parse_json_column(name: str, text: str) -> Any:
    """Parse and check a value of the JSON column `name`. Raises DataError."""
    limit = _MAX_FAILED_VALUES if name == "failed_json" else _MAX_VALUES
    if sum(map(text.count, ",[{")) > limit:
        raise DataError(f"{name}: more than {limit} values")
    kind = prepare_type_for_threads(_JSON[name])
    value = _decode_json(name, text)
    with _decoding(name):
        typed = msgspec.convert(value, kind)
    if name == "hello_json":
        listed = typed.get("plan", {}).get("benchmarks", ())
        _raise_if_any(model.find_name_problem(item["benchmark"] for item in listed))
        _raise_if_any(model.find_description_problem(typed.get("benchmarks", ())))
    if name == "failed_json" and any(
        len(failed.reason) > _MAX_REASON for failed in typed
    ):
        raise DataError(f"{name}: a reason has more than {_MAX_REASON} characters")
    if nesting_depth(value, _MAX_DEPTH) > _MAX_DEPTH:
        raise DataError(f"{name}: more than {_MAX_DEPTH} levels of objects and lists")
    return value


_parse_short_json = lru_cache(parse_json_column)  # many rows have equal texts


def nesting_depth(value: object, limit: int) -> int:
    """Return how deep lists and dicts are nested. Counting stops one above `limit`."""
    depth, level = 0, [value]
    while level and depth <= limit:
        inner: list[object] = []
        for item in level:
            inner.extend(
                item.values()
                if isinstance(item, dict)
                else item
                if isinstance(item, list)
                else ()
            )
        depth, level = depth + 1, inner
    return depth


def check_machine(machine: model.Facts | model.Load) -> None:
    """Raise DataError if a fact of a host, or its load, does not fit its column."""
    load = machine.load if isinstance(machine, model.Facts) else machine
    values = {f"{name}_before": getattr(load, name) for name in load.__slots__}
    if isinstance(machine, model.Facts):
        if len(json.dumps(machine.probe)) > _MAX_LONG_TEXT["probe"]:
            raise DataError(f"its answer has more than {_MAX_LONG_TEXT['probe']} bytes")
        values |= {name: getattr(machine, name) for name in schema.FACTS}
        values |= {name: list(getattr(machine, name)) for name in schema.FACT_LISTS}
        for cpu in machine.cpus:
            columns = {
                c.name: getattr(cpu, c.name)
                for c in schema.TABLES["cpus"]
                if c.name in cpu.__slots__
            }
            convert_row("cpus", columns, columns)
    convert_row("runs", values, values)


def check_footer(name: str, groups: Sequence[RowGroup], size: int) -> None:
    """Raise DataError if a footer shows that its file of `size` bytes unpacks to more
    than fleet writes.
    """
    words, lists = {(word,) for word in schema.dictionary_columns(name)}, list[int]()
    for group in groups:
        lists.append(
            sum(
                column.values
                for column in group.columns
                if column.path[0] in _SAMPLE_LISTS
            )
        )
        for column in group.columns:
            if (
                column.path in words
                and column.unpacked > FEW_BYTES + WORD_BYTES * column.values
            ):
                raise DataError(f"{column.path[0]} unpacks to {column.unpacked} bytes")
    rows, ticks = (
        8 * sum(group.rows * len(group.columns) for group in groups),
        sum(lists),
    )
    if name == "samples" and (
        rows > UNPACKED + _PACKED * size
        or ticks > _TICKS + _PACKED // 8 * size
        or max(lists, default=0) > _GROUP_VALUES
    ):
        raise DataError(
            f"its {size} bytes unpack to {rows + 8 * ticks}, more than bursts can"
        )


def require_plausible_memory(tables: Sequence[Any]) -> None:
    """Raise DataError if pyarrow tables take more memory than the same number of valid
    rows can.
    """
    rows, size = sum(map(len, tables)), sum(table.nbytes for table in tables)
    if size > UNPACKED + _CELL * tables[0].num_columns * rows:
        raise DataError(f"{rows} rows unpack to more than {size} bytes")


def check_table(name: str, table: Any) -> None:
    """Raise DataError if columns of a pyarrow table hold values that fleet never
    writes.
    """
    for column in table.column_names:
        # texts that are not UTF-8; lists, and words of dictionaries, out of bounds
        try:
            table.column(column).validate(full=True)
        except pa.ArrowInvalid as err:
            raise DataError(f"{column}: {' '.join(str(err).split())}") from err
    nullable = {column.name: column.nullable for column in schema.TABLES[name]}
    columns = {
        column: table.column(column).combine_chunks() for column in table.column_names
    }
    for column, values in columns.items():
        if values.null_count and not nullable[column]:
            raise DataError(f"{column} is null")
        if values.null_count < len(values):
            _check_column(name, column, values)
    if {"ticks", "warmup"} <= columns.keys():
        _check_lengths(columns)


def _check_column(table: str, name: str, values: Any) -> None:
    while pa.types.is_list(values.type):
        values = values.flatten()
        if values.null_count:
            raise DataError(f"{name} has a null in a list")
    if pa.types.is_dictionary(values.type):
        longest = pc.max(pc.binary_length(values.dictionary)).as_py() or 0
        if longest > WORD_BYTES:
            raise DataError(
                f"{name} is {longest} bytes long, and the limit is {WORD_BYTES}"
            )
    if name == "benchmark" and table != "summaries":
        _raise_if_any(model.find_name_problem({*values.unique().to_pylist()}))
    if name == "relation":
        for relation in sorted(values.unique().to_pylist()):
            if not model.is_relation(relation) or (
                " " in relation and table not in _WITH_KINDS
            ):
                raise DataError(f"relation is {relation!r}")
    type_ = str(values.type)
    if type_ in _NUMBER_TYPES and type_ != _SIGNED.get(table, type_):
        _check_numbers(name, values)


def _check_numbers(name: str, values: Any) -> None:
    smallest, largest = _SMALLEST.get(name, 0), _LARGEST.get(name, INT64_MAX)
    numbers = (values.fill_null(smallest) if values.null_count else values).to_numpy()
    if len(numbers) and not smallest <= numbers.min() <= numbers.max() <= largest:
        raise DataError(f"{name} is {numbers.min()} to {numbers.max()}")


def _check_lengths(columns: Mapping[str, Any]) -> None:
    ends, warmup = columns["ticks"].offsets.to_numpy(), columns["warmup"].to_numpy()
    lengths = np.diff(ends)
    if lengths.max(initial=0) > _BURST_TICKS:
        raise DataError(f"a burst has {lengths.max()} ticks")
    if (warmup > lengths).any():
        raise DataError("a burst has more warm-up samples than ticks")
    if (2 * _count_zeros(columns["ticks"], warmup) > lengths - warmup).any():
        raise DataError("most samples of a burst took no time")
    for name in columns.keys() & {*_SAMPLE_LISTS[1:]}:
        for row in np.flatnonzero(columns[name].is_valid()).tolist():
            if any(len(samples) != lengths[row] for samples in columns[name][row]):
                raise DataError(f"{name} does not have as many values as ticks")


def _count_zeros(ticks: Any, warmup: Any) -> Any:
    """Return, for each burst, the number of samples after its warm-ups that are 0."""
    zeros, ends = (
        np.flatnonzero(np.asarray(ticks.values) == 0),
        np.asarray(ticks.offsets),
    )
    return np.searchsorted(zeros, ends[1:]) - np.searchsorted(zeros, ends[:-1] + warmup)


@once
def _make_record_struct(names: tuple[str, ...] | None) -> Any:
    """Make the msgspec type of a record, in which the rows of `cpus` have no run ID and
    host ID.
    """
    record = [("run", _make_row_struct("runs", names))]
    if names is None:
        cpu_names = tuple(
            column.name for column in schema.TABLES["cpus"] if column.name not in _KEYS
        )
        cpus: Any = list.__class_getitem__(_make_row_struct("cpus", cpu_names))
        record.append(("cpus", Annotated[cpus, msgspec.Meta(max_length=_MAX_CPUS)]))
    return prepare_type_for_threads(msgspec.defstruct("record", record))


@once
def _make_row_struct(
    table: str, names: tuple[str, ...] | None, as_list: bool = False
) -> Any:
    columns = {column.name: column for column in schema.TABLES[table]}
    fields: list[tuple[Any, ...]] = []
    for name in names or columns:
        type_ = _value_type(table, columns[name])
        fields.append(
            (name, type_ | None, None) if columns[name].nullable else (name, type_)
        )
    return prepare_type_for_threads(
        msgspec.defstruct(table, fields, kw_only=True, array_like=as_list)
    )


def _value_type(table: str, column: schema.Column) -> Any:
    if table == "runs" and column.name in ("state", "estimator"):
        return model.RunState if column.name == "state" else model.Estimator
    is_list = column.type.startswith("list<")
    kind = column.type.removeprefix("list<").rstrip(">")
    if kind.startswith("int"):
        largest = schema.largest_int(table, column.name)
        element: Any = Annotated[int, msgspec.Meta(ge=-largest - 1, le=largest)]
    elif column.name in _KEYS:
        element = Annotated[str, msgspec.Meta(pattern=KEY)]
    elif kind == "string":
        longest = (
            _MAX_LISTED_TEXT if is_list else _MAX_LONG_TEXT.get(column.name, _MAX_TEXT)
        )
        element = Annotated[str, msgspec.Meta(max_length=longest)]
    elif kind.startswith("timestamp"):
        element = Annotated[datetime, msgspec.Meta(tz=True)]
    else:
        element = {"bool": bool, "float32": float, "float64": float}[kind]
    if not is_list:
        return element
    return Annotated[
        list[element],
        msgspec.Meta(max_length=_MAX_TEXTS if kind == "string" else _MAX_CPUS),
    ]


def check_bursts(table: Any, estimator: str, descriptions: model.Descriptions) -> None:
    """Raise DataError unless rows of `samples` fit each other, the estimator and their
    benchmarks.
    """
    if estimator == "min":  # whose number is the smallest sample
        ticks, warmup = (
            table.column(name).combine_chunks() for name in ("ticks", "warmup")
        )
        if _count_zeros(ticks, np.asarray(warmup)).any():
            raise DataError("the least sample of a burst took no time")
    _check_burst_cpus(table)
    points: dict[tuple[str, ...], Sequence[Any]] = {}
    for row in _select_distinct_rows(table):
        parameters = None
        if row["point"] is not None:
            parameters = model.Parameters(*(row[name] for name in schema.PARAMETERS))
        elif any(
            row[name] is not None
            for name in ("unit", *schema.PARAMETERS, *_POINT_LISTS)
        ):
            raise DataError(
                f"{row['benchmark']}: a row without a point has values of a point"
            )
        burst = SimpleNamespace(**row, parameters=parameters)
        if why := descriptions[row["benchmark"]].find_mismatch(burst):
            raise DataError(why)
        if parameters is not None:
            values = [
                row[name] for name in schema.PARAMETERS if name not in _SET_BY_BURST
            ]
            key = (row["run_id"], row["benchmark"], row["variant"], row["point"])
            if points.setdefault(key, values) != values:
                raise DataError(
                    f"point {row['point']} of {row['benchmark']} has different"
                    " parameters"
                )


def _check_burst_cpus(table: Any) -> None:
    """Raise DataError unless `cpus` go from ping's to pong's; lists must cover all but
    ping's, or none.
    """
    ping, pong = (table.column(name).to_numpy() for name in ("ping_cpu", "pong_cpu"))
    cpus = table.column("cpus").combine_chunks()
    count = np.where(ping == pong, 1, 2)
    for row in np.flatnonzero(cpus.is_valid()).tolist():
        numbers, ends = cpus[row].as_py(), [ping[row], pong[row]]
        if [*numbers[:1], *numbers[-1:]] != ends or len({*numbers}) < len(numbers):
            raise DataError(
                f"cpus of a burst from {ping[row]} to {pong[row]} are {numbers!s:.100}"
            )
        count[row] = len(numbers)
    for name in ("other_ticks", "other_units"):
        lists = table.column(name).combine_chunks()
        lengths = np.diff(lists.offsets)
        if (
            np.asarray(lists.is_valid()) & (lengths != 0) & (lengths != count - 1)
        ).any():
            raise DataError(f"{name} does not have a list for each further CPU")


def _select_distinct_rows(table: Any) -> list[dict[str, Any]]:
    """Return the first row of each combination of run, names, parameters and number of
    threads.
    """
    columns = table.select([*_POINT_NAMES, "ping_cpu", "pong_cpu", *_POINT_LISTS])
    keys = columns.select(_POINT_NAMES).unify_dictionaries()
    keys = keys.append_column(
        "self", pc.equal(table.column("ping_cpu"), table.column("pong_cpu"))
    )
    for name in _POINT_LISTS:
        keys = keys.append_column(name, pc.list_value_length(table.column(name)))
    names = keys.column_names
    keys = keys.append_column("row", pa.array(np.arange(len(table))))
    first = (
        keys.group_by(names, use_threads=False)
        .aggregate([("row", "min")])
        .column("row_min")
    )
    distinct: list[dict[str, Any]] = columns.take(np.sort(first)).to_pylist()
    return distinct
