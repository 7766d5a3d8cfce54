"""Reads nouns back from the JSON of `rows.to_json`; a Host comes without env, of which it has the names."""

from typing import Any, TypeVar

from fleet.errors import DataError
from fleet.late import msgspec, once
from fleet.text import decoding_words

T = TypeVar("T")


@once
def prepare_type(kind: type[T]) -> type[T]:
    """The same type, known to msgspec; at its first use other threads would see it half made and crash."""
    msgspec.json.Decoder(kind)
    return kind


def decode(kind: type[T], value: object) -> T:
    """Make a `kind` of what JSON holds. Raises DataError naming the field that does not fit."""
    try:
        return msgspec.convert(_drop_env(value), prepare_type(kind))
    except msgspec.ValidationError as err:
        raise DataError(decoding_words(err, kind.__name__)) from err


def _drop_env(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    inner = {key: _drop_env(value[key]) for key in ("host", "build_host") if key in value}
    return {key: item for key, item in (value | inner).items() if key != "env"}
