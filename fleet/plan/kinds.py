"""Kinds of option values: how people write them and how the agent reads them. `read`
raises InputError.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from fleet.model import BENCHMARKS as KNOWN
from fleet.model import CORES, KINDS, Condition, InputError, PairChoice, Pairs
from fleet.plan import counters
from fleet.plan.benchmark_names import VARIANTS, check_variants
from fleet.plan.cpulist import format_cpus, format_pairs, parse_cpu_numbers, parse_pairs
from fleet.text import quote_short, suggest_similar

_UNITS_S = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_UNITS_MINUTES = {"m": 1, "h": 60, "d": 1440, "w": 10_080}
LONGEST_WAIT_S = 7 * 86_400  # for a host to meet its conditions
_Parse = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """How option values of one kind are read, written and described."""

    metavar: str
    allowed: str  # which values, for help and messages
    read: _Parse  # as people write it
    write: Callable[[Any], str] = str  # as the agent reads it
    show: Callable[[Any], str] = str  # for people
    limits: tuple[float, float] | None = None  # least and greatest number
    lists: bool = False  # with commas; a YAML list in the inventory is as good


def _make_kind(
    metavar: str, allowed: str, parse: _Parse, message: str = "", **more: Any
) -> Kind:
    """Return a kind of value. parse: returns None for wrong text. message: replaces
    `allowed` in errors.
    """

    def read(text: str) -> Any:
        value = parse(text)
        if value is None:
            raise InputError(f"must be {message or allowed}; not {quote_short(text)}")
        return value

    return Kind(metavar, allowed, read, **more)


def make_integer_kind(
    low: int, high: int, *, multiple_of: int = 1, metavar: str = "N"
) -> Kind:
    """Return the kind of whole numbers from `low` to `high`."""
    allowed = f"{low} to {high}" + (
        f", a multiple of {multiple_of}" if multiple_of > 1 else ""
    )

    def parse(text: str) -> int | None:
        number = int(text) if re.fullmatch(r"0|[1-9][0-9]{0,18}", text) else -1
        return number if low <= number <= high and not number % multiple_of else None

    return _make_kind(
        metavar, allowed, parse, f"a whole number from {allowed}", limits=(low, high)
    )


def make_duration_kind(
    low_s: float, high_s: float, *, whole_seconds: bool = False
) -> Kind:
    """Return the kind of durations in seconds, written 90, 90s, 500ms, 5m or 1h; ints
    if whole_seconds.
    """
    allowed = f"{format_duration(low_s)} to {format_duration(high_s)}"
    which = (
        "of whole seconds, such as 90, 90s"
        if whole_seconds
        else "such as 90, 90s, 500ms"
    )

    def parse(text: str) -> float | None:
        match = re.fullmatch(
            r"([0-9]{1,12}(?:\.[0-9]{1,9})?)\s*(|ms|s|m|h)", text.strip()
        )
        seconds = float(match[1]) * _UNITS_S[match[2]] if match else -1.0
        if not low_s <= seconds <= high_s or (whole_seconds and seconds % 1):
            return None
        return int(seconds) if whole_seconds else seconds

    ways: dict[str, Any] = {
        "write": format_decimal,
        "show": format_duration,
        "limits": (low_s, high_s),
    }
    return _make_kind(
        "DURATION",
        allowed,
        parse,
        f"a duration {which}, 5m or 1h, from {allowed}",
        **ways,
    )


def parse_age_condition(text: str) -> Callable[[datetime], bool] | None:
    """Parse "age>7d" or "age<12h" to a predicate of a UTC time; None for other text.
    Raises InputError.
    """
    if not text.startswith(("age<", "age>")):
        return None
    match = re.fullmatch(r"age[<>]([0-9]{1,5})([mhdw])", text)
    if not match:
        raise InputError(
            "an age is a number of m, h, d or w, such as age>7d or age<12h"
        )
    limit = timedelta(minutes=int(match[1]) * _UNITS_MINUTES[match[2]])
    is_older = text[3] == ">"
    return lambda measured: (datetime.now(UTC) - measured > limit) is is_older


def make_share_kind(low: float, high: float) -> Kind:
    """Return the kind of shares, written 1% or 0.01; "off" is 0. A bare 1 is refused:
    it may mean 1 %.
    """
    allowed = f"{_format_percent(low)} to {_format_percent(high)}, or off"

    def parse(text: str) -> float | None:
        if text == "off":
            return 0.0
        match = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,9})?)\s*(%?)", text.strip())
        value = float(match[1]) / (100 if match[2] else 1) if match else 0.0
        is_unclear = match and not match[2] and value == 1
        return value if low <= value <= high and not is_unclear else None

    message, limits = f"a share such as 1% or 0.01, from {allowed}", (low, high)
    ways: dict[str, Any] = {
        "write": lambda value: format_decimal(value) if value else "off"
    }
    return _make_kind(
        "SHARE", allowed, parse, message, **ways, show=_format_percent, limits=limits
    )


def make_word_kind(words: type[StrEnum]) -> Kind:
    """Return the kind that takes the words of an enum."""
    choices = tuple(map(str, words))
    return Kind(
        "WORD",
        _join_choices(choices),
        lambda text: words(require_choice(text, choices)),
    )


def require_choice(text: str, choices: tuple[str, ...]) -> str:
    """Return the text if it is one of `choices`. Raises InputError."""
    if text not in choices:
        similar = suggest_similar(text, choices)
        raise InputError(
            f"must be {_join_choices(choices)}, not {quote_short(text)}{similar}"
        )
    return text


def _parse_benchmarks(text: str) -> tuple[str, ...]:
    """Parse "cas,readwrite" or "all", in order, without repeats. Raises InputError."""
    names = tuple(
        dict.fromkeys(name.strip() for name in text.split(",") if name.strip())
    )
    if names == ("all",):
        return tuple(KNOWN)
    if unknown := next((name for name in names if name not in VARIANTS), None):
        raise InputError(
            f"unknown benchmark {quote_short(unknown)}; there are"
            f" {', '.join(VARIANTS)}, or all"
        )
    if not names:
        raise InputError(f"names no benchmark; there are {', '.join(VARIANTS)}, or all")
    return names


def _parse_cpus_or_kind(text: str) -> tuple[int, ...] | str | None:
    """Parse "0-3,8", the name of a kind of core, or "cores"; None for another word."""
    if text in KINDS or text == CORES:
        return text
    return None if text.isalpha() else parse_cpu_numbers(text)


def format_cpus_or_kind(cpus: tuple[int, ...] | str) -> str:
    """Format CPU numbers as people write them: "0-3,8". Return a word, such as a kind
    of core, unchanged.
    """
    return cpus if isinstance(cpus, str) else format_cpus(cpus)


def _parse_pairs(text: str) -> PairChoice | None:
    """Parse "half", "ordered", "per-relation:3" or a list such as "0-1,0-4"; None for
    another word.
    """
    word = text.strip()
    return (
        PairChoice(Pairs(word))
        if word in (Pairs.HALF, Pairs.ORDERED)
        else _parse_pair_subset(word)
    )


def _parse_pair_subset(text: str) -> PairChoice | None:
    word = text.strip()
    if match := re.fullmatch(r"per-relation:([0-9]{1,6})", word):
        if int(match[1]) == 0:
            raise InputError(
                "per-relation:0 would measure nothing; write per-relation:3, for"
                " instance"
            )
        return PairChoice(Pairs.PER_RELATION, per_relation=int(match[1]))
    return PairChoice(Pairs.LISTED, parse_pairs(word)) if word[:1].isdigit() else None


def _format_pairs_argument(choice: PairChoice) -> str:
    return format_pairs(choice.listed) or (
        "ordered" if choice.which is Pairs.ORDERED else "half"
    )


def _format_pair_choice(choice: PairChoice) -> str:
    return (
        f"{choice.which}:{choice.per_relation}"
        if choice.per_relation
        else _format_pairs_argument(choice)
    )


def make_word_list_kind(*choices: str, empty: str = "") -> Kind:
    """Return the kind of lists of these words, without repeats. empty: a word that
    means an empty list.
    """
    read = _list_reader(lambda word: require_choice(word, choices))
    allowed = f"a list of {', '.join(choices)}{', or ' * bool(empty)}{empty}"
    return _make_list_kind(
        allowed, lambda text: () if empty and text.strip() == empty else read(text)
    )


def _make_list_kind(allowed: str, read: Callable[[str], tuple[str, ...]]) -> Kind:
    return Kind("LIST", allowed, read, ",".join, ",".join, lists=True)


def _list_reader(read: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    """Return a function that reads each item of a list and drops repeats."""
    return lambda text: tuple(
        dict.fromkeys(read(word.strip()) for word in text.split(","))
    )


def make_integer_list_kind(low: int, high: int) -> Kind:
    """Return the kind of lists of whole numbers from `low` to `high`, without
    repeats.
    """
    read, allowed = (
        _list_reader(make_integer_kind(low, high).read),
        f"a list of numbers from {low} to {high}",
    )
    return Kind("LIST", allowed, read, _format_numbers, _format_numbers, lists=True)


def _format_numbers(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))


def _make_verbatim_list_kind(
    metavar: str, allowed: str, is_allowed: Callable[[str], object]
) -> Kind:
    """Return the kind of a list that is passed to the agent as written, without
    blanks.
    """

    def parse(text: str) -> str | None:
        plain = text.replace(" ", "")
        return plain if is_allowed(plain) else None

    return _make_kind(metavar, allowed, parse, lists=True)


def _make_pattern_kind(metavar: str, allowed: str, pattern: str) -> Kind:
    return _make_kind(
        metavar, allowed, lambda text: text if re.fullmatch(pattern, text) else None
    )


def make_all_or_list_kind(item_kind: Kind, allowed: str) -> Kind:
    """Return the kind of either "all" or a list of numbers, without repeats."""
    read = _list_reader(item_kind.read)

    def read_either(text: str) -> str:
        return "all" if text.strip() == "all" else _format_numbers(read(text))

    return Kind("LIST", allowed, read_either, lists=True)


def _are_sizes(text: str, is_allowed: Callable[[int], bool]) -> bool:
    """Report whether a text is a list of sizes, and of ranges of sizes such as
    "16K..64M".
    """
    for item in text.split(","):
        matches = [
            re.fullmatch(r"([1-9][0-9]{0,12})([KMG]?)", end) for end in item.split("..")
        ]
        sizes = [
            int(match[1]) << 10 * " KMG".index(match[2] or " ")
            for match in matches
            if match
        ]
        is_range = len(sizes) == len(matches) <= 2 and sizes == sorted(sizes)
        if not is_range or not all(map(is_allowed, sizes)):
            return False
    return True


def _are_rates(text: str) -> bool:
    """Report whether a text is a list of GB/s such as "0,0.5,full"."""
    rates = [rate for rate in text.split(",") if rate != "full"]
    return all(
        re.fullmatch(r"[0-9]{1,2}(\.[0-9]{1,3})?", rate) for rate in rates
    ) and all(not rate or 0.1 <= rate <= 64 for rate in map(float, rates))


BENCHMARKS = _make_list_kind(f"{', '.join(VARIANTS)}, or all", _parse_benchmarks)
VARIANT = Kind("NAME", "auto, all, a name, or cas=lse,readwrite=ldar", check_variants)
_SOME_PAIRS = "per-relation:K, or a list such as 0-1,0-4"
_WAYS: dict[str, Any] = {
    "write": _format_pairs_argument,
    "show": _format_pair_choice,
    "lists": True,
}
PAIRS = _make_kind("PAIRS", f"half, ordered, {_SOME_PAIRS}", _parse_pairs, **_WAYS)
FEW_PAIRS = _make_kind("PAIRS", _SOME_PAIRS, _parse_pair_subset, **_WAYS)
_SOME_CPUS = (
    f"CPU numbers such as 0-3,8, or a kind of core: {', '.join(KINDS)}; or cores: one"
    " CPU of each"
)
_CPU_WAYS: dict[str, Any] = {
    "write": _format_numbers,
    "show": format_cpus_or_kind,
    "lists": True,
}
CPUS = _make_kind("CPUS", _SOME_CPUS, _parse_cpus_or_kind, **_CPU_WAYS)
CPU_NUMBERS = replace(CPUS, read=parse_cpu_numbers)
SIZES = _make_verbatim_list_kind(
    "SIZES",
    "auto, or a list such as 16K,1M..64M, multiples of 4K",
    lambda text: (
        text == "auto"
        or _are_sizes(text, lambda size: size % 4096 == 0 and size <= 1 << 40)
    ),
)
_SIDE = (  # of a product: agent/bench/shapes.c
    r"([1-9]\d{0,2}|[1-3]\d{3}|40[0-8]\d|409[0-6])"
)
_SIZE = "auto, or such as 256x256x256, at most 4096 each"
SHAPE = _make_pattern_kind("MxNxK", _SIZE, f"auto|{_SIDE}x{_SIDE}x{_SIDE}")
BLOCKS = _make_verbatim_list_kind(
    "SIZES",
    "a list such as 64,256..64K, powers of two from 64 to 64K",
    lambda text: _are_sizes(
        text, lambda size: size.bit_count() == 1 and 64 <= size <= 64 << 10
    ),
)
LOAD = _make_verbatim_list_kind(
    "LIST", "a list such as 0,0.5,16,full: GB/s from 0.1 to 64, or 0", _are_rates
)
_SOME_THREADS = "a list of smt, llc, cores, node, package, all and numbers"
_THREADS = _make_pattern_kind(
    "", _SOME_THREADS, r"smt|llc|cores|node|package|all|[1-9][0-9]{0,5}"
)
THREADS = _make_list_kind(_SOME_THREADS, _list_reader(_THREADS.read))
_EVENTS = "generic, coherence, or a list of events and codes such as r04d2"
COUNTERS = _make_list_kind(_EVENTS, counters.parse_events)
_GOVERNORS = "a governor's name, such as performance"
GOVERNOR = _make_pattern_kind("NAME", _GOVERNORS, r"[a-z0-9][a-z0-9_-]{0,39}")
CONDITIONS = make_word_list_kind(*Condition, empty="none")
_SWITCH: dict[str, Any] = dict.fromkeys(
    ("write", "show"), lambda on: "on" if on else "off"
)
SWITCH = Kind(
    "STATE",
    "on or off",
    lambda text: require_choice(text, ("on", "off")) == "on",
    **_SWITCH,
)


def format_decimal(value: float) -> str:
    """Format a number as the agent reads it: digits and a point, never an exponent."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


def format_duration(seconds: float) -> str:
    """Format a duration in the largest unit that divides it: 0.5 -> "500ms", 90 ->
    "90s", 300 -> "5m".
    """
    if 0 < seconds < 1:
        return f"{format_decimal(seconds * 1000)}ms"
    for unit in ("h", "m"):
        if seconds and seconds % _UNITS_S[unit] == 0:
            return f"{format_decimal(seconds / _UNITS_S[unit])}{unit}"
    return f"{format_decimal(seconds)}s"


def _format_percent(value: float) -> str:
    return f"{format_decimal(value * 100)}%" if value else "off"


def _join_choices(choices: tuple[str, ...]) -> str:
    return f"{', '.join(choices[:-1])} or {choices[-1]}"
