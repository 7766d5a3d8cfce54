"""Grammars of option values: how people write them and how the agent reads them.
`read` raises InputError.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from fleet.model import BENCHMARKS as SHIPPED_BENCHMARKS
from fleet.model import (
    CORES,
    KINDS,
    Condition,
    InputError,
    PairChoice,
    Pairs,
    parse_size,
)
from fleet.plan import counters
from fleet.plan.agent_options import AGENT_OPTIONS, AgentOption
from fleet.plan.cpulist import format_cpus, format_pairs, parse_cpu_numbers, parse_pairs
from fleet.text import quote_short, suggest_similar

_UNITS_S = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_UNITS_MINUTES = {"m": 1, "h": 60, "d": 1440, "w": 10_080}
LONGEST_WAIT_S = 7 * 86_400  # for a host to meet its conditions
_Parse = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class Grammar:
    """How the values of an option are read, written and described."""

    metavar: str
    allowed: str  # which values, for help and messages
    read: _Parse  # as people write it
    write: Callable[[Any], str] = str  # as the agent reads it
    show: Callable[[Any], str] = str  # for people
    limits: tuple[float, float] | None = None  # least and greatest number
    lists: bool = False  # with commas; a YAML list in the inventory is as good


def _make_reader(parse: _Parse, allowed: str) -> _Parse:
    """Return a function that parses a text. It raises InputError with what is allowed
    where `parse` returns None.
    """

    def read(text: str) -> Any:
        value = parse(text)
        if value is None:
            raise InputError(f"must be {allowed}; not {quote_short(text)}")
        return value

    return read


def make_integer_grammar(
    low: int, high: int, *, multiple_of: int = 1, metavar: str = "N"
) -> Grammar:
    """Return the grammar of whole numbers from `low` to `high`."""
    allowed = f"{low} to {high}"
    if multiple_of > 1:
        allowed += f", a multiple of {multiple_of}"

    def parse(text: str) -> int | None:
        if not re.fullmatch(r"0|[1-9][0-9]{0,18}", text):
            return None
        number = int(text)
        if not low <= number <= high or number % multiple_of:
            return None
        return number

    read = _make_reader(parse, f"a whole number from {allowed}")
    return Grammar(metavar, allowed, read, limits=(low, high))


def make_duration_grammar(
    low_s: float, high_s: float, *, whole_seconds: bool = False
) -> Grammar:
    """Return the grammar of durations, written 90, 90s, 500ms, 5m or 1h. A value is in
    seconds: a float, or an int if whole_seconds.
    """
    allowed = f"{format_duration(low_s)} to {format_duration(high_s)}"
    which = "such as 90, 90s, 500ms"
    if whole_seconds:
        which = "of whole seconds, such as 90, 90s"

    def parse(text: str) -> float | None:
        match = re.fullmatch(
            r"([0-9]{1,12}(?:\.[0-9]{1,9})?)\s*(|ms|s|m|h)", text.strip()
        )
        if not match:
            return None
        seconds = float(match[1]) * _UNITS_S[match[2]]
        if not low_s <= seconds <= high_s:
            return None
        if not whole_seconds:
            return seconds
        if seconds % 1:
            return None
        return int(seconds)

    return Grammar(
        "DURATION",
        allowed,
        _make_reader(parse, f"a duration {which}, 5m or 1h, from {allowed}"),
        write=format_decimal,
        show=format_duration,
        limits=(low_s, high_s),
    )


def parse_age(text: str) -> timedelta | None:
    """Parse "7d" or "12h" to a time span; None for other text."""
    match = re.fullmatch(r"([0-9]{1,5})([mhdw])", text)
    if not match:
        return None
    return timedelta(minutes=int(match[1]) * _UNITS_MINUTES[match[2]])


AGE = Grammar(
    "AGE",
    "a number of m, h, d or w",
    _make_reader(parse_age, "a number of m, h, d or w, such as 7d or 12h"),
)


def parse_age_condition(text: str) -> Callable[[datetime], bool] | None:
    """Parse "age>7d" or "age<12h" to a predicate of a UTC time; None for other text.
    Raises InputError.
    """
    if not text.startswith(("age<", "age>")):
        return None
    limit = parse_age(text[len("age<") :])
    if limit is None:
        raise InputError(
            "an age is a number of m, h, d or w, such as age>7d or age<12h"
        )
    wants_older = text.startswith("age>")

    def is_of_that_age(measured: datetime) -> bool:
        is_older = datetime.now(UTC) - measured > limit
        return is_older is wants_older

    return is_of_that_age


def make_share_grammar(low: float, high: float) -> Grammar:
    """Return the grammar of shares, written 1% or 0.01; "off" is 0. A bare 1 is
    refused: it may mean 1 %.
    """
    allowed = f"{_format_percent(low)} to {_format_percent(high)}, or off"

    def parse(text: str) -> float | None:
        if text == "off":
            return 0.0
        match = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,9})?)\s*(%?)", text.strip())
        if not match:
            return None
        share = float(match[1])
        if match[2]:
            share /= 100
        elif share == 1:  # it may mean 1 %, or all
            return None
        if not low <= share <= high:
            return None
        return share

    def write(share: float) -> str:
        return format_decimal(share) if share else "off"

    return Grammar(
        "SHARE",
        allowed,
        _make_reader(parse, f"a share such as 1% or 0.01, from {allowed}"),
        write=write,
        show=_format_percent,
        limits=(low, high),
    )


def make_word_grammar(words: type[StrEnum]) -> Grammar:
    """Return the grammar that takes the words of an enum."""
    choices = tuple(map(str, words))

    def read(text: str) -> StrEnum:
        return words(require_choice(text, choices))

    return Grammar("WORD", _join_choices(choices), read)


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
    words = [word.strip() for word in text.split(",")]
    names = tuple(dict.fromkeys(filter(None, words)))
    if names == ("all",):
        return tuple(SHIPPED_BENCHMARKS)
    there_are = f"there are {', '.join(SHIPPED_BENCHMARKS)}, or all"
    if not names:
        raise InputError(f"names no benchmark; {there_are}")
    for name in names:
        if name not in SHIPPED_BENCHMARKS:
            raise InputError(f"unknown benchmark {quote_short(name)}; {there_are}")
    return names


def _parse_cpus_or_kind(text: str) -> tuple[int, ...] | str | None:
    """Parse "0-3,8", the name of a kind of core, or "cores"; None for another word."""
    if text in KINDS or text == CORES:
        return text
    if text.isalpha():
        return None
    return parse_cpu_numbers(text)


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
    if word in (Pairs.HALF, Pairs.ORDERED):
        return PairChoice(Pairs(word))
    return _parse_pair_subset(word)


def _parse_pair_subset(text: str) -> PairChoice | None:
    """Parse "per-relation:3" or a list such as "0-1,4-0"; return None for other text.
    Raises InputError.
    """
    word = text.strip()
    if match := re.fullmatch(r"per-relation:([0-9]{1,6})", word):
        count = int(match[1])
        if count == 0:
            raise InputError(
                "per-relation:0 would measure nothing; write per-relation:3, for"
                " instance"
            )
        return PairChoice(Pairs.PER_RELATION, per_relation=count)
    if not word[:1].isdigit():
        return None
    return PairChoice(Pairs.LISTED, parse_pairs(word))


def _format_pairs_argument(choice: PairChoice) -> str:
    if choice.listed:
        return format_pairs(choice.listed)
    if choice.which is Pairs.ORDERED:
        return "ordered"
    return "half"


def _format_pair_choice(choice: PairChoice) -> str:
    if choice.per_relation:
        return f"{choice.which}:{choice.per_relation}"
    return _format_pairs_argument(choice)


def make_word_list_grammar(*choices: str, empty: str = "") -> Grammar:
    """Return the grammar of lists of these words, without repeats, as tuples. empty: a
    word that means an empty list; without it, a list must have a word.
    """
    read_words = _make_list_reader(lambda word: require_choice(word, choices))
    allowed = f"a list of {', '.join(choices)}"
    if empty:
        allowed += f", or {empty}"

    def read(text: str) -> tuple[str, ...]:
        if empty and text.strip() == empty:
            return ()
        return read_words(text)

    return _make_list_grammar(allowed, read)


def _make_list_grammar(allowed: str, read: Callable[[str], tuple[str, ...]]) -> Grammar:
    return Grammar("LIST", allowed, read, ",".join, ",".join, lists=True)


def _make_list_reader(read: _Parse) -> Callable[[str], tuple[Any, ...]]:
    """Return a function that reads each item of a list and drops repeats."""

    def read_list(text: str) -> tuple[Any, ...]:
        items = [read(word.strip()) for word in text.split(",")]
        return tuple(dict.fromkeys(items))

    return read_list


def make_integer_list_grammar(low: int, high: int) -> Grammar:
    """Return the grammar of lists of whole numbers from `low` to `high`, without
    repeats.
    """
    allowed = f"a list of numbers from {low} to {high}"
    read = _make_list_reader(make_integer_grammar(low, high).read)
    return Grammar("LIST", allowed, read, _format_numbers, _format_numbers, lists=True)


def _format_numbers(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))


def make_all_or_list_grammar(item: Grammar, allowed: str) -> Grammar:
    """Return the grammar of "all" or a list of numbers. A value is a text in which no
    number is repeated: "0, 2,0" is read as "0,2". item: the grammar of a number.
    """
    read_numbers = _make_list_reader(item.read)

    def read(text: str) -> str:
        if text.strip() == "all":
            return "all"
        return _format_numbers(read_numbers(text))

    return Grammar("LIST", allowed, read, lists=True)


def _is_size_range(text: str, option: AgentOption) -> bool:
    """Report whether a text is a size such as "16K" that the option takes, or a range
    of them such as "16K..64M". Both ends have to be multiples of the option's number,
    or powers of two if it has none.
    """
    first, dots, last = text.partition("..")
    low = parse_size(first)
    high = parse_size(last) if dots else low
    if low is None or high is None:
        return False
    if not option.least <= low <= high <= option.most:
        return False
    if option.multiple is None:
        return low.bit_count() == high.bit_count() == 1
    return low % option.multiple == high % option.multiple == 0


def _is_rate(text: str, option: AgentOption) -> bool:
    """Report whether a text is a rate in GB/s that the option takes, or "full". The
    option's limits are in MB/s; 0 is allowed as well.
    """
    if text == "full":
        return True
    if not re.fullmatch(r"[0-9]{1,2}(\.[0-9]{1,3})?", text):
        return False
    mbps = 1000 * float(text)
    return mbps == 0 or option.least <= mbps <= option.most


def _is_shape(text: str, option: AgentOption) -> bool:
    """Report whether a text is three sides such as "256x256x256", or "auto"."""
    if text == "auto":
        return True
    if not re.fullmatch(r"[1-9][0-9]{0,8}(x[1-9][0-9]{0,8}){2}", text):
        return False
    return max(map(int, text.split("x"))) <= option.most


def _is_threads_word(text: str, option: AgentOption) -> bool:
    """Report whether a text is a number of threads, or names CPUs that work at once."""
    if re.fullmatch(r"[1-9][0-9]{0,5}", text):
        return True
    words = option.words or ""
    return text in words.split("|")


def _is_governor(text: str, _option: AgentOption) -> bool:
    return bool(re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,39}", text))


def _make_text_reader(
    option: AgentOption, is_allowed: Callable[[str, AgentOption], bool]
) -> Callable[[str], str]:
    """Return a function that returns a text as it is, or raises InputError with what
    the option allows.
    """

    def parse(text: str) -> str | None:
        return text if is_allowed(text, option) else None

    return _make_reader(parse, option.allowed)


def _make_verbatim_list_grammar(
    metavar: str,
    option: AgentOption,
    is_item: Callable[[str, AgentOption], bool],
    other: str | None = None,
) -> Grammar:
    """Return the grammar of a list that the agent gets as it is written, without
    blanks. is_item: whether the option takes a text as an item of the list. other: a
    word that may stand in place of the list, such as "auto".
    """
    read_item = _make_text_reader(option, is_item)

    def read(text: str) -> str:
        plain = text.replace(" ", "")
        if plain != other:
            for item in plain.split(","):
                read_item(item)  # only to see whether that raises an error
        return plain

    return Grammar(metavar, option.allowed, read, lists=True)


BENCHMARKS = _make_list_grammar(
    f"{', '.join(SHIPPED_BENCHMARKS)}, or all", _parse_benchmarks
)
VARIANT = Grammar("NAME", "a list such as cas=lse,readwrite=ldar", str)
_SOME_PAIRS = "per-relation:K, or a list such as 0-1,0-4"
_ANY_PAIRS = f"half, ordered, {_SOME_PAIRS}"
PAIRS = Grammar(
    "PAIRS",
    _ANY_PAIRS,
    _make_reader(_parse_pairs, _ANY_PAIRS),
    write=_format_pairs_argument,
    show=_format_pair_choice,
    lists=True,
)
FEW_PAIRS = replace(
    PAIRS, allowed=_SOME_PAIRS, read=_make_reader(_parse_pair_subset, _SOME_PAIRS)
)
_SOME_CPUS = (
    f"CPU numbers such as 0-3,8, or a kind of core: {', '.join(KINDS)}; or cores: one"
    " CPU of each"
)
CPUS = Grammar(
    "CPUS",
    _SOME_CPUS,
    _make_reader(_parse_cpus_or_kind, _SOME_CPUS),
    write=_format_numbers,
    show=format_cpus_or_kind,
    lists=True,
)
CPU_NUMBERS = replace(CPUS, read=parse_cpu_numbers)
COUNTERS = _make_list_grammar(
    "generic, coherence, or a list of events and codes such as r04d2",
    counters.parse_events,
)
CONDITIONS = make_word_list_grammar(*Condition, empty="none")
SIZES = _make_verbatim_list_grammar(
    "SIZES", AGENT_OPTIONS["sizes"], _is_size_range, other="auto"
)
BLOCKS = _make_verbatim_list_grammar("SIZES", AGENT_OPTIONS["blocks"], _is_size_range)
LOAD = _make_verbatim_list_grammar("LIST", AGENT_OPTIONS["load"], _is_rate)
_THREADS = AGENT_OPTIONS["threads"]
THREADS = _make_list_grammar(
    _THREADS.allowed,
    _make_list_reader(_make_text_reader(_THREADS, _is_threads_word)),
)
_SHAPE = AGENT_OPTIONS["shape"]
SHAPE = Grammar("MxNxK", _SHAPE.allowed, _make_text_reader(_SHAPE, _is_shape))
_GOVERNOR = AGENT_OPTIONS["governor"]
GOVERNOR = Grammar(
    "NAME", _GOVERNOR.allowed, _make_text_reader(_GOVERNOR, _is_governor)
)


def _read_switch(text: str) -> bool:
    return require_choice(text, ("on", "off")) == "on"


def _format_switch(on: bool) -> str:
    return "on" if on else "off"


SWITCH = Grammar("STATE", "on or off", _read_switch, _format_switch, _format_switch)


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
        unit_s = _UNITS_S[unit]
        if seconds and seconds % unit_s == 0:
            return f"{format_decimal(seconds / unit_s)}{unit}"
    return f"{format_decimal(seconds)}s"


def _format_percent(value: float) -> str:
    return f"{format_decimal(value * 100)}%" if value else "off"


def _join_choices(choices: tuple[str, ...]) -> str:
    return f"{', '.join(choices[:-1])} or {choices[-1]}"
