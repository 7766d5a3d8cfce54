"""Reads what the command line asks of a plan, with plain words for what it must not ask. Floor 4."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

from fleet.errors import UsageError
from fleet.model import LinePolicy, Order, Preset, Side
from fleet.plan import words
from fleet.plan.cpulist import cpu_list
from fleet.plan.variants import VARIANTS, variant_choice
from fleet.text import LABEL_KEY, nearest

BENCHMARKS = tuple(VARIANTS)
T = TypeVar("T")


def benchmarks(text: str) -> tuple[str, ...]:
    """Read "cas,readwrite" or "all"; order kept, repeats dropped. Raises UsageError."""
    names = (
        BENCHMARKS if text == "all" else tuple(dict.fromkeys(n.strip() for n in text.split(",") if n.strip()))
    )
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown or not names:
        raise UsageError(
            f"--benchmark {text}: {f'unknown benchmark {unknown[0]!r}' if unknown else 'names none'}. "
            f"There are: {', '.join(BENCHMARKS)}, or all."
        )
    return names


def cpus(text: str) -> tuple[int, ...]:
    """Read "0-3,8"; ascending, repeats dropped. Raises UsageError."""
    return read("cpus", text, cpu_list)


def plan(**said: str | None) -> dict[str, Any]:
    """Read those options of a plan whose value is a word or has a unit; what was not given is left out.

    Keys are fields of RequestedOptions. Raises UsageError that says what there is.
    """
    readers: dict[str, Callable[[str], Any]] = {
        "variant": variant_choice,
        "preset": _one_of(Preset),
        "precision": words.precision,
        "time_budget_s": words.seconds,
        "spread_s": words.seconds,
        "pairs": words.pair_choice,
        "order": _one_of(Order),
        "line": _one_of(LinePolicy),
        "owner": _one_of(Side),
        "governor": _governor,
        "boost": words.switch,
    }
    given = {name: text for name, text in said.items() if text is not None}
    return {name: read(_option(name), text, readers[name]) for name, text in given.items()}


def read(option: str, text: str, reader: Callable[[str], T]) -> T:
    """Read an option's value, its ValueError become a UsageError that names the option."""
    try:
        return reader(text)
    except ValueError as err:
        shown = text if len(text) <= 60 else f"{text[:57]}..."
        raise UsageError(f"--{option} {shown}: {err}") from err


def choice(option: str, text: str, known: Iterable[str]) -> str:
    """Read one of `known`. Raises UsageError that names them."""
    return read(option, text, partial(_among, known=tuple(known)))


def _option(name: str) -> str:
    return name.removesuffix("_s").replace("_", "-")


def _one_of(kind: type[StrEnum]) -> Callable[[str], StrEnum]:
    return lambda text: kind(_among(text, tuple(map(str, kind))))


def _among(text: str, known: Sequence[str]) -> str:
    if text not in known:
        raise ValueError(f"there are {', '.join(known)}{nearest(text, known)}")
    return text


def _governor(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9_-]{1,40}", text):
        raise ValueError("must be a governor's name, such as performance")
    return text


def labels(pairs: Iterable[str]) -> Mapping[str, str]:
    """Read key=value words. Raises UsageError for what is no such text, and for two values."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not pair.isprintable():  # neither are bytes that are no UTF-8
            raise UsageError(f"--label {pair}: must be one line of text in UTF-8.")
        if not re.fullmatch(LABEL_KEY, key) or not equals:
            raise UsageError(
                f"--label {pair}: write key=value, for instance --label kernel=6.12; a key is letters, "
                "digits, dot, dash and _."
            )
        if found.setdefault(key, value) != value:
            raise UsageError(f"--label {pair}: {key}={found[key]} was said before; keep one of them.")
    return MappingProxyType(found)
