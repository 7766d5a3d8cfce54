"""Reads nouns back from the JSON of `rows.to_json`, an older fleet's too; a Host comes without env. Pure."""

from typing import Any, TypeVar

from fleet.late import msgspec
from fleet.once import once
from fleet.text import decoding_words

T = TypeVar("T")
_INNER = ("host", "build_host", "plan", "requested")
_RENAMED = {"wish": "requested"}  # in the note of a session


@once
def prepared(kind: type[T]) -> type[T]:
    """The same type, known to msgspec; at its first use other threads would see it half made and crash."""
    msgspec.json.Decoder(kind)
    return kind


def decode(kind: type[T], value: object) -> T:
    """Make a `kind` of what JSON holds. Raises ValueError naming the field that does not fit."""
    try:
        return msgspec.convert(_as_now(value), prepared(kind))
    except msgspec.ValidationError as err:
        raise ValueError(decoding_words(err, kind.__name__)) from err


def _as_now(value: Any) -> Any:
    """Without the `env` of a host, which lists names only; older keys by today's names."""
    if not isinstance(value, dict):
        return value
    value = {_RENAMED.get(key, key): item for key, item in value.items() if key != "env"}
    if value.get("huge_page"):
        value["pages"] = "huge"
    return value | {key: _as_now(value[key]) for key in _INNER if key in value}
