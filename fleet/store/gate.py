"""Convert rows and records, as JSON has them, to the types of their columns; raise
DataError. Pure.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any, NotRequired, TypedDict

import msgspec

from fleet import model
from fleet.errors import DataError
from fleet.late import once
from fleet.store import schema
from fleet.store.places import KEY
from fleet.text import describe_msgspec_error, raise_own_bug

EXACT_MAX = 2**53  # the largest integer up to which float64 is exact
INT64_MAX = 2**63 - 1
RECORD_BYTES = 64 << 20  # of a run's record, unpacked
_MAX_TEXT = 2 << 20  # characters of a column
_MAX_LONG_TEXT = {"probe": 16 << 20, "failed_json": 19 << 20}
_MAX_VALUES = 200_000  # in a column of JSON
_MAX_FAILED_VALUES = 1_500_000  # 100,000 failed visits
_MAX_DEPTH = 10
_SHORT_TEXT = 4096  # characters; results of checks are kept for texts below that
_MAX_REASON = 1000  # characters
MAX_CPUS = 1 << 16  # also of numbers in a list
_MAX_TEXTS = 1 << 10  # in a list: benchmarks, notes
_MAX_LISTED_TEXT = 1 << 13  # characters of each
_FIRST_YEAR = 1970
_LAST_YEAR = 9998
_MOMENTS = ("started_utc", "ended_utc")
_KEYS = frozenset(("run_id", "session_id", "host_id"))
_ENUMS = {"state": model.RunState, "estimator": model.Estimator}
_CPU_COLUMNS = tuple(column.name for column in schema.TABLES["cpus"])


class _Event(TypedDict):
    event: str


class _Choice(TypedDict):
    benchmark: str
    variant: str
    points: NotRequired[list[str] | None]


class _HelloPlan(TypedDict):
    benchmarks: NotRequired[list[_Choice]]


class _Hello(TypedDict):
    """The keys of a stored hello that readers use."""

    plan: NotRequired[_HelloPlan]
    counters: NotRequired[list[_Event]]
    benchmarks: NotRequired[list[model.Benchmark]]


_Decoder = msgspec.json.Decoder[Any]
_ANY: _Decoder = msgspec.json.Decoder()
# made here: threads that use a type while another inspects it would crash
_JSON: Mapping[str, _Decoder] = {
    "labels_json": msgspec.json.Decoder(dict[str, str]),
    "mitigations_json": msgspec.json.Decoder(dict[str, str]),
    "plan_json": msgspec.json.Decoder(model.Plan),
    "hello_json": msgspec.json.Decoder(_Hello),
    "host_json": msgspec.json.Decoder(dict[str, Any]),
    "failed_json": msgspec.json.Decoder(list[model.Failed]),
    "caches_json": msgspec.json.Decoder(list[model.Cache]),
    "nodes_json": msgspec.json.Decoder(list[model.Node]),
    "memory_json": msgspec.json.Decoder(model.Memory),
}
"""Decoders of the columns of JSON."""


@contextmanager
def _decoding(name: str) -> Iterator[None]:
    """Turn the errors of msgspec into DataErrors. name: of what is decoded."""
    try:
        yield
    except msgspec.ValidationError as err:
        raise DataError(describe_msgspec_error(err, name)) from err
    except (msgspec.DecodeError, UnicodeError) as err:
        raise DataError(f"{name} is not JSON: {err}") from err


def _decode_json(name: str, text: str | bytes, decoder: _Decoder = _ANY) -> Any:
    """Return the decoded JSON of a value. name: of the value, for messages. Raises
    DataError.
    """
    with _decoding(name):
        try:
            return decoder.decode(text)
        except RecursionError as err:
            # code of ours that recurses is a bug, and no fault of the text
            raise_own_bug(err)
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
    """Check a row's values by column; return them, with None for absent ones. names:
    only these columns, else all of the table. Raises DataError.
    """
    columns = None if names is None else tuple(names)
    decoder = _make_row_decoder(table, columns)
    with _decoding(table):
        struct = msgspec.convert(values, decoder.type)
    return _check_row(table, struct)


def parse_record(text: bytes, names: tuple[str, ...] | None = None) -> RunRecord:
    """Parse a record's JSON. names: parse only these columns of `runs`, and no `cpus`;
    None: parse all. Raises DataError.
    """
    decoder = _make_record_decoder(names)
    record = _decode_json("record", text, decoder)
    row = _check_row("runs", record.run)
    if names is not None:
        return RunRecord(row, [])
    # in a record, only the row of `runs` has the IDs; the rows of `cpus` get them here
    ids = {"run_id": row["run_id"], "host_id": row["host_id"]}
    cpus = []
    for cpu in record.cpus:
        cpu_row = _check_row("cpus", cpu)
        cpus.append(cpu_row | ids)
    return RunRecord(row, cpus)


def decode_listed_row(text: bytes, names: tuple[str, ...]) -> dict[str, Any]:
    """Decode a JSON list, the values of these columns of `runs`. Return them by name.
    Raises DataError.
    """
    decoder = _make_row_decoder("runs", names, as_list=True)
    struct = _decode_json("row", text, decoder)
    return _check_row("runs", struct)


def _check_row(table: str, struct: msgspec.Struct) -> dict[str, Any]:
    """Return the row that a row decoder made. Check first what the decoder does not:
    the content of columns of JSON, names of benchmarks, and times. Raises DataError.
    """
    row = msgspec.structs.asdict(struct)
    for name in _JSON:
        text = row.get(name)
        if text is not None:
            _check_json_column(name, text)
    choices = row.get("benchmarks") or ()  # each "benchmark/variant"
    names = [choice.partition("/")[0] for choice in choices]
    _raise_if_any(model.find_name_problem(names))
    for name in _MOMENTS:
        moment = row.get(name)
        if moment and not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
            raise DataError(f"{table}: {moment} is not a possible time of a run")
    return row


def _check_json_column(name: str, text: str) -> None:
    """Raise DataError unless `parse_json_column` takes the text."""
    if len(text) < _SHORT_TEXT:
        _parse_short_json(name, text)
    else:
        parse_json_column(name, text)


def parse_json_column(name: str, text: str) -> Any:
    """Parse and check a value of the JSON column `name`. Raises DataError."""
    limit = _MAX_FAILED_VALUES if name == "failed_json" else _MAX_VALUES
    # each value but one follows one of these
    separators = sum(text.count(character) for character in ",[{")
    if separators > limit:
        raise DataError(f"{name}: more than {limit} values")
    value = _decode_json(name, text)
    # Decode once more, now to types, to check the types of keys and values. This may
    # drop unknown keys; `value` has all, so it is measured below, and returned.
    typed = _decode_json(name, text, _JSON[name])
    if name == "hello_json":
        _check_benchmarks(typed)
    if name == "failed_json":
        lengths = [len(failed.reason) for failed in typed]
        if max(lengths, default=0) > _MAX_REASON:
            raise DataError(f"{name}: a reason has more than {_MAX_REASON} characters")
    if measure_depth(value, _MAX_DEPTH) > _MAX_DEPTH:
        raise DataError(f"{name}: more than {_MAX_DEPTH} levels of objects and lists")
    return value


def _check_benchmarks(hello: Mapping[str, Any]) -> None:
    """Raise DataError for a bad name or description of a benchmark."""
    plan = hello.get("plan", {})
    names = [choice["benchmark"] for choice in plan.get("benchmarks", ())]
    descriptions = hello.get("benchmarks", ())
    _raise_if_any(model.find_name_problem(names))
    _raise_if_any(model.find_description_problem(descriptions))


_parse_short_json = lru_cache(parse_json_column)  # many rows have equal texts


def measure_depth(value: object, limit: int) -> int:
    """Return how deep the values in lists and dicts are nested, `value` included: 1 for
    5 and for [], 2 for [5], 3 for {"a": [5]}. Counting stops one above `limit`.
    """
    depth = 0
    values_at_depth = [value]
    while values_at_depth and depth <= limit:
        inner_values: list[object] = []
        for item in values_at_depth:
            if isinstance(item, dict):
                inner_values += item.values()
            elif isinstance(item, list):
                inner_values += item
        values_at_depth = inner_values
        depth += 1
    return depth


def check_machine(machine: model.Facts | model.Load) -> None:
    """Raise DataError if a fact of a host, or its load, does not fit its column.
    machine: the facts, which have a load in them, or a load alone.
    """
    if isinstance(machine, model.Load):
        _check_load(machine)
        return
    # the probe is the host's answer as received
    if len(json.dumps(machine.probe)) > _MAX_LONG_TEXT["probe"]:
        raise DataError(f"its answer has more than {_MAX_LONG_TEXT['probe']} bytes")
    for cpu in machine.cpus:
        _check_cpu(cpu)
    _check_load(machine.load)
    values = {name: getattr(machine, name) for name in schema.FACTS}
    # columns have lists, and facts tuples
    values |= {name: list(getattr(machine, name)) for name in schema.FACT_LISTS}
    _check_values("runs", values)


def _check_cpu(cpu: model.Cpu) -> None:
    names = [name for name in _CPU_COLUMNS if name in cpu.__slots__]
    values = {name: getattr(cpu, name) for name in names}
    _check_values("cpus", values)


def _check_load(load: model.Load) -> None:
    values = {f"{name}_before": getattr(load, name) for name in load.__slots__}
    _check_values("runs", values)


def _check_values(table: str, values: Mapping[str, Any]) -> None:
    """Raise DataError unless these values, by column, fit a part of a row."""
    convert_row(table, values, names=values)


@once
def _make_record_decoder(names: tuple[str, ...] | None) -> _Decoder:
    """Make the decoder of a record: an object with `run`, a row of `runs`, and `cpus`,
    rows without the run ID and host ID. names: decode only these columns of `runs`, and
    no `cpus`; None: all.
    """
    run_type = _make_row_decoder("runs", names).type
    fields: list[tuple[str, Any]] = [("run", run_type)]
    if names is None:
        own_names = tuple(name for name in _CPU_COLUMNS if name not in _KEYS)
        cpu_type = _make_row_decoder("cpus", own_names).type
        cpus_type = _limit_list(cpu_type, MAX_CPUS)
        fields.append(("cpus", cpus_type))
    record_type = msgspec.defstruct("record", fields)
    return msgspec.json.Decoder(record_type)


@once
def _make_row_decoder(
    table: str, names: tuple[str, ...] | None, *, as_list: bool = False
) -> _Decoder:
    """Make the decoder of a row of a table. names: only of these columns. as_list: the
    JSON is a list of the values, else an object with the columns as keys.
    """
    columns = {column.name: column for column in schema.TABLES[table]}
    # a name and a type; then the default, if the column may be absent
    fields: list[tuple[Any, ...]] = []
    for name in names or columns:
        column = columns[name]
        type_ = _value_type(table, column)
        if column.nullable:
            fields.append((name, type_ | None, None))
        else:
            fields.append((name, type_))
    row_type = msgspec.defstruct(table, fields, kw_only=True, array_like=as_list)
    return msgspec.json.Decoder(row_type)


def _value_type(table: str, column: schema.Column) -> Any:
    """Return the type that msgspec checks a column's values against."""
    if table == "runs" and column.name in _ENUMS:
        return _ENUMS[column.name]
    if column.type == "list<string>":
        return _limit_list(_limit_text(_MAX_LISTED_TEXT), _MAX_TEXTS)
    if column.type.startswith("list<"):
        return _limit_list(_int_type(table, column.name), MAX_CPUS)
    return _scalar_type(table, column)


_PLAIN_TYPES = {"bool": bool, "float32": float, "float64": float}


def _scalar_type(table: str, column: schema.Column) -> Any:
    """Return the type that msgspec checks a single value of a column against."""
    if column.name in _KEYS:
        return Annotated[str, msgspec.Meta(pattern=KEY)]
    if column.type == "string":
        most_bytes = _MAX_LONG_TEXT.get(column.name, _MAX_TEXT)
        return _limit_text(most_bytes)
    if column.type.startswith("timestamp"):
        return Annotated[datetime, msgspec.Meta(tz=True)]
    if column.type.startswith("int"):
        return _int_type(table, column.name)
    return _PLAIN_TYPES[column.type]


def _int_type(table: str, name: str) -> Any:
    largest = schema.largest_int(table, name)
    return Annotated[int, msgspec.Meta(ge=-largest - 1, le=largest)]


def _limit_text(characters: int) -> Any:
    return Annotated[str, msgspec.Meta(max_length=characters)]


def _limit_list(element: Any, values: int) -> Any:
    return Annotated[list[element], msgspec.Meta(max_length=values)]
