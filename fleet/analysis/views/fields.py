"""Chosen fields of results, for their JSON."""

from collections.abc import Sequence
from typing import Any


def select_fields(results: Sequence[Any], names: str) -> list[dict[str, Any]]:
    """Return these fields of each result. names: separated by spaces."""
    return [
        {name: getattr(result, name) for name in names.split()} for result in results
    ]
