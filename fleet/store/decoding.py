"""Reads a noun back from the JSON that `rows.to_json` made of it. Pure.

What is missing takes its default and what is unknown is left out, so that a journal outlives an update of
fleet. Values of environment variables were never written, so a Host comes back without any.
"""

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import MappingProxyType, NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from fleet.model import Host

T = TypeVar("T")


def decode(kind: type[T], value: object) -> T:
    """Make a `kind` of what JSON holds. Raises ValueError naming the field that does not fit."""
    made = _decode(kind, value, kind.__name__)
    assert isinstance(made, kind)  # noqa: S101 - told to the type checker
    return made


def _decode(kind: Any, value: Any, where: str) -> Any:  # noqa: PLR0911 - a case a line
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _union(kind, value, where)
    if origin is tuple:
        return _tuple(get_args(kind), _is(list, value, where), where)
    if origin is not None and issubclass(origin, Mapping):
        _, inner = get_args(kind)
        said = _is(dict, value, where)
        return MappingProxyType({key: _decode(inner, item, f"{where}.{key}") for key, item in said.items()})
    if kind in (object, Any):
        return value
    if is_dataclass(kind):
        return _noun(kind, _is(dict, value, where), where)
    if issubclass(kind, StrEnum):
        try:
            return kind(value)
        except ValueError:
            raise ValueError(f"{where}: {value!r} is no {kind.__name__}") from None
    if kind is float and type(value) is int:
        return float(value)
    return _is(kind, value, where)


def _noun(kind: Any, said: Mapping[str, Any], where: str) -> Any:
    types = _types(kind)
    given: dict[str, Any] = {}
    for part in fields(kind):
        if not part.init or (kind is Host and part.name == "env"):
            continue
        if part.name in said:
            given[part.name] = _decode(types[part.name], said[part.name], f"{where}.{part.name}")
        elif _is_needed(part):
            raise ValueError(f"{where}.{part.name} is missing")
    return kind(**given)


def _is_needed(part: "Field[Any]") -> bool:
    return part.default is MISSING and part.default_factory is MISSING


def _union(kind: Any, value: Any, where: str) -> Any:
    """Unions here are one type or None."""
    if value is None:
        return None
    (inner,) = (option for option in get_args(kind) if option is not NoneType)
    return _decode(inner, value, where)


def _tuple(inner: tuple[Any, ...], said: list[Any], where: str) -> tuple[Any, ...]:
    if len(inner) == 2 and inner[1] is ...:
        return tuple(_decode(inner[0], item, f"{where}[{at}]") for at, item in enumerate(said))
    if len(inner) != len(said):
        raise ValueError(f"{where}: {len(inner)} values expected, {len(said)} found")
    return tuple(
        _decode(one, item, f"{where}[{at}]") for at, (one, item) in enumerate(zip(inner, said, strict=True))
    )


def _is(kind: Any, value: Any, where: str) -> Any:
    if type(value) is not kind:
        raise ValueError(f"{where}: {kind.__name__} expected, {type(value).__name__} found")
    return value


@cache
def _types(kind: Any) -> Mapping[str, Any]:
    return get_type_hints(kind)
