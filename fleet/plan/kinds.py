"""Kinds of option values: how people write and the agent reads them; `read` raises ValueError in words."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from fleet.model import BENCHMARKS as KNOWN
from fleet.model import KINDS, PairChoice, Pairs
from fleet.plan import counters
from fleet.plan.cpulist import cpu_list, cpus_text, pair_list, pairs_text
from fleet.plan.variants import VARIANTS, variant_choice
from fleet.text import nearest, quoted

_UNITS_S = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SIDE = 4096  # the most rows, columns and depth of a product (agent/bench/shapes.c)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of value. read: as people write it. write: as the agent reads it. show: for people.

    allowed: which values, for help and messages. limits: least and greatest number. lists: the value is a
    list with commas, which the inventory may also write as a YAML list.
    """

    metavar: str
    allowed: str
    read: Callable[[str], Any]
    write: Callable[[Any], str] = str
    show: Callable[[Any], str] = str
    limits: tuple[float, float] | None = None
    lists: bool = False


def whole(low: int, high: int, *, multiple_of: int = 1, metavar: str = "N") -> Kind:
    """A whole number from `low` to `high`."""
    step = f", a multiple of {multiple_of}" if multiple_of > 1 else ""

    def read(text: str) -> int:
        number = int(text) if re.fullmatch(r"0|[1-9][0-9]{0,18}", text) else -1
        if not low <= number <= high or number % multiple_of:
            raise _refused(f"a whole number from {low} to {high}{step}", text)
        return number

    return Kind(metavar, f"{low} to {high}{step}", read, limits=(low, high))


def duration(low_s: float, high_s: float, *, whole_seconds: bool = False) -> Kind:
    """A duration in seconds, read as 90, 90s, 500ms, 5m or 1h; an int where only whole seconds will do."""
    allowed = f"{duration_text(low_s)} to {duration_text(high_s)}"

    def read(text: str) -> float:
        found = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)\s*(|ms|s|m|h)", text.strip())
        seconds = float(found[1]) * _UNITS_S[found[2]] if found else -1.0
        if not low_s <= seconds <= high_s or (whole_seconds and seconds % 1):
            which = "of whole seconds, such as 90, 90s" if whole_seconds else "such as 90, 90s, 500ms"
            raise _refused(f"a duration {which}, 5m or 1h, from {allowed}", text)
        return int(seconds) if whole_seconds else seconds

    return Kind("DURATION", allowed, read, decimal, duration_text, (low_s, high_s))


def share(low: float, high: float) -> Kind:
    """A share of one, read as 1% or 0.01; "off" is 0. A bare 1 is refused: it hardly means 100%."""
    allowed = f"{_percent(low)} to {_percent(high)}, or off"

    def read(text: str) -> float:
        if text == "off":
            return 0.0
        found = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,9})?)\s*(%?)", text.strip())
        value = float(found[1]) / (100 if found[2] else 1) if found else 0.0
        if not low <= value <= high or (found and not found[2] and value == 1):
            raise _refused(f"a share such as 1% or 0.01, from {allowed}", text)
        return value

    return Kind(
        "SHARE", allowed, read, lambda value: decimal(value) if value else "off", _percent, (low, high)
    )


def one_of(words: type[StrEnum]) -> Kind:
    """One of a closed set of words."""
    known = tuple(map(str, words))

    def read(text: str) -> StrEnum:
        return words(among(text, known))

    return Kind("WORD", _either(known), read)


def among(text: str, known: tuple[str, ...]) -> str:
    """The text if it is one of `known`."""
    if text not in known:
        raise ValueError(f"must be {_either(known)}, not {quoted(text)}{nearest(text, known)}")
    return text


def _benchmarks(text: str) -> tuple[str, ...]:
    """Read "cas,readwrite" or "all"; the order is kept, repeats are dropped."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if names == ("all",):
        return tuple(KNOWN)
    if unknown := [name for name in names if name not in VARIANTS]:
        raise ValueError(f"unknown benchmark {quoted(unknown[0])}; there are {', '.join(VARIANTS)}, or all")
    if not names:
        raise ValueError(f"names none; there are {', '.join(VARIANTS)}, or all")
    return names


def _cpus(text: str) -> tuple[int, ...] | str:
    """Read "0-3,8", or the name of a kind of core."""
    if text.isalpha() and text not in KINDS:
        raise _refused(CPUS.allowed, text)
    return text if text in KINDS else cpu_list(text)


def cpus_words(cpus: tuple[int, ...] | str) -> str:
    """CPU numbers or a kind of core as people write them."""
    return cpus if isinstance(cpus, str) else cpus_text(cpus)


def _pair_choice(text: str) -> PairChoice:
    """Read "half", "ordered", "per-relation:3" or a list such as "0-1,0-4"."""
    word = text.strip()
    if word in (Pairs.HALF, Pairs.ORDERED):
        return PairChoice(Pairs(word))
    if found := re.fullmatch(r"per-relation:([0-9]{1,6})", word):
        if int(found[1]) == 0:
            raise ValueError("per-relation:0 would measure nothing; write per-relation:3, for instance")
        return PairChoice(Pairs.PER_RELATION, per_relation=int(found[1]))
    if not word[:1].isdigit():
        raise _refused(PAIRS.allowed, text)
    return PairChoice(Pairs.LISTED, pair_list(word))


def _few_pairs(text: str) -> PairChoice:
    choice = _pair_choice(text)
    if choice.which in (Pairs.HALF, Pairs.ORDERED):
        raise _refused(FEW_PAIRS.allowed, text)
    return choice


def _pairs_argument(choice: PairChoice) -> str:
    if choice.listed:
        return pairs_text(choice.listed)
    return "ordered" if choice.which is Pairs.ORDERED else "half"


def _pairs_text(choice: PairChoice) -> str:
    return str(choice.which) + f":{choice.per_relation}" if choice.per_relation else _pairs_argument(choice)


def words_of(*known: str) -> Kind:
    """A list of words of a closed set; repeats are dropped."""
    return _words(f"a list of {', '.join(known)}", _each(lambda word: among(word, known)))


def _words(allowed: str, read: Callable[[str], tuple[str, ...]]) -> Kind:
    return Kind("LIST", allowed, read, ",".join, ",".join, lists=True)


def _each(read: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    """Read a list, each item by itself; repeats are dropped."""
    return lambda text: tuple(dict.fromkeys(read(word.strip()) for word in text.split(",")))


def _threads(text: str) -> tuple[str, ...]:
    """Read "1,llc,all"; repeats are dropped."""
    words = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    if not all(re.fullmatch(r"smt|llc|cores|node|package|all|[1-9][0-9]{0,5}", word) for word in words):
        raise _refused(THREADS.allowed, text)
    return words


def whole_list(low: int, high: int) -> Kind:
    """A list of whole numbers from `low` to `high`; repeats are dropped."""
    read, allowed = _each(whole(low, high).read), f"a list of numbers from {low} to {high}"
    return Kind("LIST", allowed, read, _numbers, _numbers, lists=True)


def _numbers(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))


def _ranges(text: str, read: Callable[[str], int], allowed: str) -> str:
    """Check a list of numbers and ranges of them, as `read` understands them; it gives 0 for others."""
    plain = text.replace(" ", "")
    for item in plain.split(","):
        ends = [read(end) for end in item.split("..")]
        if not 1 <= len(ends) <= 2 or min(ends) <= 0 or ends != sorted(ends):
            raise _refused(allowed, text)
    return plain


def _sizes(text: str) -> str:
    return "auto" if text.strip() == "auto" else _ranges(text, _size, SIZES.allowed)


def _blocks(text: str) -> str:
    return _ranges(text, _block, BLOCKS.allowed)


def _load(text: str) -> str:
    plain = text.replace(" ", "")
    for rate in plain.split(","):
        known = re.fullmatch(r"full|[0-9]{1,2}(\.[0-9]{1,3})?", rate)
        if not known or (rate != "full" and float(rate) and not 0.1 <= float(rate) <= 64):
            raise _refused(LOAD.allowed, text)
    return plain


def all_or_list(one: Kind, allowed: str) -> Kind:
    """Either all, or a list of numbers of a kind; repeats are dropped."""
    read = _each(one.read)
    return Kind(
        "LIST",
        allowed,
        lambda text: text.strip() if text.strip() == "all" else _numbers(read(text)),
        lists=True,
    )


def _block(text: str) -> int:
    """Read "4K" in bytes; 0 for what is no power of two from 64 to 64K."""
    found = re.fullmatch(r"([1-9][0-9]{0,4})(K?)", text)
    size = int(found[1]) * (1024 if found[2] else 1) if found else 0
    return size if size.bit_count() == 1 and 64 <= size <= 64 << 10 else 0


def _size(text: str) -> int:
    """Read "16K" in bytes; 0 for what is no size, or no multiple of 4K."""
    found = re.fullmatch(r"([1-9][0-9]{0,12})([KMG]?)", text)
    size = int(found[1]) * 1024 ** " KMG".index(found[2] or " ") if found else 0
    return size if size % 4096 == 0 and size <= 1 << 40 else 0


def _shape(text: str) -> str:
    """Check "auto" or "256x256x256"; the agent knows what its variants multiply at once."""
    known = text == "auto" or re.fullmatch(r"[1-9]\d{0,3}(x[1-9]\d{0,3}){2}", text)
    if not known or max(map(int, re.findall(r"\d+", text)), default=0) > _SIDE:
        raise _refused(SHAPE.allowed, text)
    return text


def _governor(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,39}", text):
        raise _refused("a governor's name, such as performance", text)
    return text


def _state(on: bool) -> str:
    return "on" if on else "off"


BENCHMARKS = _words(f"{', '.join(VARIANTS)}, or all", _benchmarks)
VARIANT = Kind("NAME", "auto, all, a name, or cas=lse,readwrite=ldar", variant_choice)
_SOME_PAIRS = "per-relation:K, or a list such as 0-1,0-4"
PAIRS = Kind(
    *("PAIRS", f"half, ordered, {_SOME_PAIRS}", _pair_choice, _pairs_argument, _pairs_text), lists=True
)
FEW_PAIRS = replace(PAIRS, allowed=_SOME_PAIRS, read=_few_pairs)
_SOME_CPUS = f"CPU numbers such as 0-3,8, or a kind of core: {', '.join(KINDS)}"
CPUS = Kind("CPUS", _SOME_CPUS, _cpus, _numbers, cpus_words, lists=True)
SIZES = Kind("SIZES", "auto, or a list such as 16K,1M..64M, multiples of 4K", _sizes, lists=True)
SHAPE = Kind("MxNxK", f"auto, or such as 256x256x256, at most {_SIDE} each", _shape)
BLOCKS = Kind("SIZES", "a list such as 64,256..64K, powers of two from 64 to 64K", _blocks, lists=True)
LOAD = Kind("LIST", "a list such as 0,0.5,16,full: GB/s from 0.1 to 64, or 0", _load, lists=True)
THREADS = _words("a list of smt, llc, cores, node, package, all and numbers", _threads)
COUNTERS = _words("generic, coherence, or a list of events and codes such as r04d2", counters.read)
GOVERNOR = Kind("NAME", "a governor of the host, such as performance", _governor)
SWITCH = Kind("STATE", "on or off", lambda text: among(text, ("on", "off")) == "on", _state, _state)


def decimal(value: float) -> str:
    """A number as the agent reads it: digits and a point, never an exponent."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


def duration_text(seconds: float) -> str:
    """Write a duration in the largest unit that divides it: 0.5 -> "500ms", 90 -> "90s", 300 -> "5m"."""
    if 0 < seconds < 1:
        return f"{decimal(seconds * 1000)}ms"
    for unit in ("h", "m"):
        if seconds and seconds % _UNITS_S[unit] == 0:
            return f"{decimal(seconds / _UNITS_S[unit])}{unit}"
    return f"{decimal(seconds)}s"


def _percent(value: float) -> str:
    return f"{decimal(value * 100)}%" if value else "off"


def _either(known: tuple[str, ...]) -> str:
    return f"{', '.join(known[:-1])} or {known[-1]}"


def _refused(allowed: str, text: str) -> ValueError:
    return ValueError(f"must be {allowed}; not {quoted(text)}")
