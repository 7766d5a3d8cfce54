"""Reads a noun back from the JSON that `rows.to_json` made of it. Pure.

What is missing takes its default and what is unknown is left out, so that a journal outlives an update of
fleet. Values of environment variables were never written, so a Host comes back without any.
"""

from typing import Any, TypeVar

from fleet.once import once
from fleet.text import decoding_words

T = TypeVar("T")


@once
def prepared(kind: type[T]) -> type[T]:
    """The same type, known to msgspec; at its first use other threads would see it half made and crash."""
    import msgspec  # noqa: PLC0415

    msgspec.json.Decoder(kind)
    return kind


def decode(kind: type[T], value: object) -> T:
    """Make a `kind` of what JSON holds. Raises ValueError naming the field that does not fit."""
    import msgspec  # noqa: PLC0415

    try:
        return msgspec.convert(_without_env(value), prepared(kind))
    except msgspec.ValidationError as err:
        raise ValueError(decoding_words(err, kind.__name__)) from err


def _without_env(value: Any) -> Any:
    """Without the `env` of a run's host, and of its build host, which lists names only."""
    if not isinstance(value, dict):
        return value
    inner = {key: _without_env(value[key]) for key in ("host", "build_host") if key in value}
    return {key: item for key, item in value.items() if key != "env"} | inner
