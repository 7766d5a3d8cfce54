"""Takes rows and records as their tables have them, whoever wrote them, or raises DataError. Pure."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any, NotRequired, TypedDict

from fleet.errors import DataError
from fleet.late import msgspec, np, once, pa, pc
from fleet.model import (
    Benchmark,
    Cache,
    Estimator,
    Facts,
    Load,
    Node,
    RunState,
    check_descriptions,
    check_names,
    is_relation,
)
from fleet.store import schema
from fleet.store.decoding import prepare_type
from fleet.store.footer import Footer
from fleet.store.ids import KEY
from fleet.text import decoding_words

EXACT_MAX = 2**53  # of whole numbers that float64 takes as they are
INT64_MAX = 2**63 - 1
RECORD_BYTES = 64 << 20  # of a run's record, unpacked
_TEXT = 2 << 20  # characters of a column
_LONG = {"probe": 16 << 20, "failed_json": 19 << 20}
_VALUES = {"failed_json": 1_500_000}  # of JSON: 100,000 failed visits
_FEW_VALUES = 200_000
_DEPTH = 10
_SHORT = 4096  # characters
WORD_BYTES = 500  # of a text that is repeated often

UNPACKED, _PACKED = 32 << 20, 64  # bytes of a file's rows in memory: so many, and times those of the file
_CELL = 512  # bytes of a value, on average: a few of a row are long
_TICKS = 1 << 26  # of a file, beside 8 for each of its bytes; samples of a coarse clock take next to none
_GROUP_VALUES = 6 << 20  # samples of a row group: a chunk, and a burst more
_SAMPLE_COLUMNS = ("ticks", "other_ticks", "other_units")
FEW_BYTES = 4 << 20  # in memory: of a column, or of a file that needs no other look
_BURST_TICKS = 1 << 19  # as many as a line of the wire has room for
_REASON = 1000  # characters
_CPUS = 1 << 16  # and numbers in a list
_TEXTS, _LISTED_TEXT = 1 << 10, 1 << 13  # in a list, and characters of each: benchmarks, notes
_YEARS, _MOMENTS = (1970, 9998), ("started_utc", "ended_utc")
_COUNTED = {"samples": "", "counters": "", "summaries": "", "pairs": "float"}
"""Tables without a negative number, but for one type: of `pairs` the shares by which something changed."""
_NUMBERS = {"int32": "i4", "int64": "i8", "float": "f4", "double": "f8"}
_MOST = dict.fromkeys(("iterations", *_SAMPLE_COLUMNS), EXACT_MAX)
_MOST |= dict.fromkeys(("ping_cpu", "pong_cpu"), _CPUS - 1)
_LEAST = {"iterations": 1, "ns_per_tick": 1e-7}
_KEYS = frozenset(("run_id", "session_id", "host_id"))


class _Event(TypedDict):
    event: str


class _Kind(TypedDict):
    benchmark: str
    variant: str
    points: NotRequired[list[str] | None]


class _Plan(TypedDict):
    benchmarks: NotRequired[list[_Kind]]


class _Hello(TypedDict):
    """Of a stored hello what is read again."""

    plan: NotRequired[_Plan]
    counters: NotRequired[list[_Event]]
    benchmarks: NotRequired[list[Benchmark]]


class _Pairs(TypedDict):
    which: str
    per_relation: NotRequired[int | None]
    listed: NotRequired[list[tuple[int, int]] | None]


class _StoredPlan(TypedDict):
    """Of a stored plan what is read by its name."""

    pairs: NotRequired[_Pairs | None]


class _Failed(TypedDict):
    reason: str
    benchmark: str
    variant: str


_JSON: Mapping[str, Any] = {
    "labels_json": dict[str, str],
    "mitigations_json": dict[str, str],
    "plan_json": _StoredPlan,
    "hello_json": _Hello,
    "host_json": dict[str, Any],
    "failed_json": list[_Failed],
    "caches_json": list[Cache],
    "nodes_json": list[Node],
}
"""What the columns of JSON hold."""


@contextmanager
def _decoding(what: str) -> Iterator[None]:
    try:
        yield
    except msgspec.ValidationError as err:
        raise DataError(decoding_words(err, what)) from err
    except (msgspec.DecodeError, UnicodeError, RecursionError) as err:
        raise DataError(f"{what} is not JSON: {err}") from err


@contextmanager
def _raising_data_error() -> Iterator[None]:
    """Make what the model says of benchmarks an error of the gate."""
    try:
        yield
    except ValueError as err:
        raise DataError(str(err)) from err


def convert_row(table: str, values: Mapping[str, Any], names: Iterable[str] | None = None) -> dict[str, Any]:
    """A row of a table, or these columns of it, with what may be missing as None. ValueError."""
    with _decoding(table):
        found = msgspec.convert(values, _row_struct(table, None if names is None else tuple(names)))
    return _check_row(table, found)


def decode_record(text: bytes, names: tuple[str, ...] | None) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The row of `runs` in a run's record, and its rows of `cpus`. Raises DataError.

    names: only these columns of `runs`, and no row of `cpus`.
    """
    with _decoding("record"):
        found = msgspec.json.decode(text, type=_record_struct(names))
    row = _check_row("runs", found.run)
    if names:
        return row, []
    shared = {"run_id": row["run_id"], "host_id": row["host_id"]}
    return row, [_check_row("cpus", cpu) | shared for cpu in found.cpus]


def decode_listed_row(text: bytes, names: tuple[str, ...]) -> dict[str, Any]:
    """Decode the values of these columns of a row of `runs`, a list in JSON. Raises DataError."""
    with _decoding("row"):
        row = _listed_row_decoder(names).decode(text)
    return _check_row("runs", row)


def _check_row(table: str, found: Any) -> dict[str, Any]:
    row = msgspec.structs.asdict(found)
    for name in row.keys() & _JSON:
        text = row[name]
        if text is not None:
            (_parse_short_json if len(text) < _SHORT else parse_json_column)(name, text)
    with _raising_data_error():
        check_names(kind.partition("/")[0] for kind in row.get("benchmarks") or ())
    for moment in map(row.get, _MOMENTS):
        if moment and not _YEARS[0] <= moment.year <= _YEARS[1]:
            raise DataError(f"{table}: {moment} is no moment of a run")
    return row


def parse_json_column(name: str, text: str) -> Any:
    """What a column of JSON holds. Raises DataError."""
    most = _VALUES.get(name, _FEW_VALUES)
    if sum(map(text.count, ",[{")) > most:
        raise DataError(f"{name}: more than {most} values")
    with _decoding(name):
        value = msgspec.json.decode(text)
        known = msgspec.convert(value, prepare_type(_JSON[name]))
    if name == "hello_json":
        with _raising_data_error():
            check_names(kind["benchmark"] for kind in known.get("plan", {}).get("benchmarks", ()))
            check_descriptions(known.get("benchmarks", ()))
    if name == "failed_json" and any(len(one["reason"]) > _REASON for one in known):
        raise DataError(f"{name}: a reason has more than {_REASON} characters")
    if nesting_depth(value, _DEPTH) > _DEPTH:
        raise DataError(f"{name}: more than {_DEPTH} levels of objects and lists")
    return value


_parse_short_json = lru_cache(parse_json_column)  # many rows have the same


def nesting_depth(value: object, limit: int) -> int:
    """How deep lists and objects are nested, without recursion and looking no deeper than `limit`."""
    found, level = 0, [value]
    while level and found <= limit:
        inner: list[object] = []
        for item in level:
            inner.extend(item.values() if isinstance(item, dict) else item if isinstance(item, list) else ())
        found, level = found + 1, inner
    return found


def check_machine(found: Facts | Load) -> None:
    """Raise DataError where a fact of a host, or its load, is not of its column."""
    load = found.load if isinstance(found, Facts) else found
    values = {f"{name}_before": getattr(load, name) for name in load.__slots__}
    convert_row("runs", values, values)
    if isinstance(found, Facts):
        if len(json.dumps(found.probe)) > _LONG["probe"]:
            raise DataError(f"its answer is of more than {_LONG['probe']} bytes")
        lists = ("cpu_flags", "isolated_cpus", "nohz_full_cpus")
        values = {name: getattr(found, name) for name in (*lists, *(column.name for column in schema.FACTS))}
        convert_row("runs", {**values, **{name: list(values[name]) for name in lists}}, values)
        for cpu in found.cpus:
            values = {c.name: getattr(cpu, c.name) for c in schema.TABLES["cpus"] if c.name in cpu.__slots__}
            convert_row("cpus", values, values)


def check_footer(name: str, footer: Footer, size: int) -> None:
    """Raise DataError where a file of `size` bytes unpacks to more than any has, as its footer tells."""
    columns = [column for group in footer.groups for column in group.columns]
    words = {(word,) for word in schema.word_columns(name)}
    for column in columns:
        if column.path in words and column.unpacked > FEW_BYTES + WORD_BYTES * column.values:
            raise DataError(f"{column.path[0]} unpacks to {column.unpacked} bytes")
    lists = [
        sum(column.values for column in group.columns if column.path[0] in _SAMPLE_COLUMNS)
        for group in footer.groups
    ]
    rows, ticks = 8 * footer.rows * len(footer.paths), sum(lists)
    if name == "samples" and (
        rows > UNPACKED + _PACKED * size
        or ticks > _TICKS + _PACKED // 8 * size
        or max(lists, default=0) > _GROUP_VALUES
    ):
        raise DataError(f"its {size} bytes unpack to {rows + 8 * ticks}, more than bursts can")


def check_memory(parts: Sequence[Any]) -> None:
    """Raise DataError where tables that are to be held at once take more than rows of this one ever do."""
    rows, held = sum(map(len, parts)), sum(part.nbytes for part in parts)
    if held > UNPACKED + _CELL * parts[0].num_columns * rows:
        raise DataError(f"{rows} rows unpack to more than {held} bytes")


def check_table(name: str, table: Any) -> None:
    """Raise DataError where columns of a table, as pyarrow has them, hold what they never do."""
    _validate(table)
    found = {field.name: table.column(field.name).combine_chunks() for field in table.schema}
    for column in (one for one in schema.TABLES[name] if one.name in found):
        values = found[column.name]
        if values.null_count and not column.nullable:
            raise DataError(f"{column.name} is null")
        while pa.types.is_list(values.type):
            values = values.flatten()
            if values.null_count:
                raise DataError(f"{column.name} has a null in a list")
        if pa.types.is_dictionary(values.type):
            longest = pc.max(pc.binary_length(values.dictionary)).as_py() or 0
            if longest > WORD_BYTES:
                raise DataError(f"{column.name} is {longest} bytes long, and the limit is {WORD_BYTES}")
        if column.name in ("relation", "benchmark"):
            _check_words(name, column.name, {*values.unique().to_pylist()})
        type_ = str(values.type)
        if type_ in _NUMBERS and type_ != _COUNTED.get(name, type_):
            _check_numbers(column.name, values)
    if {"ticks", "warmup"} <= found.keys():
        _check_lengths(found)


def _validate(table: Any) -> None:
    """Raise DataError for texts that are not UTF-8, and lists or words of dictionaries out of bounds."""
    try:
        table.validate(full=True)
    except pa.ArrowInvalid as err:
        raise DataError(" ".join(str(err).split())) from err


def _check_words(table: str, column: str, texts: set[str]) -> None:
    """Raise DataError where a text is not a relation, or a benchmark; only pairs have kinds of cores."""
    if column == "benchmark":
        with _raising_data_error():
            check_names(() if table == "summaries" else texts)
        return
    for text in sorted(texts):
        if not is_relation(text) or (" " in text and table != "pairs"):
            raise DataError(f"relation is {text!r}")


def _check_numbers(name: str, values: Any) -> None:
    least = _LEAST.get(name, 0)
    numbers = values.fill_null(least).to_numpy()
    most = _MOST.get(name, INT64_MAX)
    if len(numbers) and not least <= numbers.min() <= numbers.max() <= most:
        raise DataError(f"{name} is {numbers.min()} to {numbers.max()}")


def _check_lengths(found: Mapping[str, Any]) -> None:
    ends, warmup = found["ticks"].offsets.to_numpy(), found["warmup"].to_numpy()
    lengths = np.diff(ends)
    if lengths.max(initial=0) > _BURST_TICKS:
        raise DataError(f"a burst has {lengths.max()} ticks")
    if (warmup > lengths).any():
        raise DataError("warmup is more than the ticks")
    zeros = np.flatnonzero(found["ticks"].values.to_numpy() == 0)
    in_burst = np.searchsorted(zeros, ends[1:]) - np.searchsorted(zeros, ends[:-1] + warmup)
    if (2 * in_burst > lengths - warmup).any():
        raise DataError("most samples of a burst took no time")
    for name in found.keys() & {*_SAMPLE_COLUMNS[1:]}:
        for at in np.flatnonzero(found[name].is_valid()).tolist():
            if any(len(each) != lengths[at] for each in found[name][at]):
                raise DataError(f"{name} are not as many as ticks")


@once
def _record_struct(names: tuple[str, ...] | None) -> Any:
    """The struct of a record: its CPUs do not repeat of which run and host they are."""
    record = [("run", _row_struct("runs", names))]
    if names is None:
        of_cpus = tuple(column.name for column in schema.TABLES["cpus"] if column.name not in _KEYS)
        cpus: Any = list.__class_getitem__(_row_struct("cpus", of_cpus))
        record.append(("cpus", Annotated[cpus, msgspec.Meta(max_length=_CPUS)]))
    return prepare_type(msgspec.defstruct("record", record))


@once
def _listed_row_decoder(names: tuple[str, ...]) -> Any:
    """A decoder, which costs more to make than to use."""
    return msgspec.json.Decoder(_row_struct("runs", names, True))


@once
def _row_struct(table: str, names: tuple[str, ...] | None, as_list: bool = False) -> Any:
    there = {column.name: column for column in schema.TABLES[table]}
    columns = [there[name] for name in names or there]
    fields = [
        (one.name, _value_type(table, one) | None, None)
        if one.nullable
        else (one.name, _value_type(table, one))
        for one in columns
    ]
    return prepare_type(msgspec.defstruct(table, fields, kw_only=True, array_like=as_list))


def _value_type(table: str, column: schema.Column) -> Any:
    if table == "runs" and column.name in ("state", "estimator"):
        return RunState if column.name == "state" else Estimator
    kind = column.type.removeprefix("list<").rstrip(">")
    if kind.startswith("int"):
        most = schema.largest_int(table, column.name)
        element: Any = Annotated[int, msgspec.Meta(ge=-most - 1, le=most)]
    elif column.name in _KEYS:
        element = Annotated[str, msgspec.Meta(pattern=KEY)]
    elif kind == "string":
        longest = _LISTED_TEXT if column.type.startswith("list<") else _LONG.get(column.name, _TEXT)
        element = Annotated[str, msgspec.Meta(max_length=longest)]
    elif kind.startswith("timestamp"):
        element = Annotated[datetime, msgspec.Meta(tz=True)]
    else:
        element = {"bool": bool, "float32": float, "float64": float}[kind]
    most = _TEXTS if kind == "string" else _CPUS
    return (
        Annotated[list[element], msgspec.Meta(max_length=most)]
        if column.type.startswith("list<")
        else element
    )
