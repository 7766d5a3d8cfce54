"""Folds and expands host names such as "web[01-17]", and groups hosts that have the
same message. Pure.
"""

import re
from collections.abc import Iterable, Sequence

from fleet.model import Host, InputError

HOST_LIMIT = 20_000
ALL = "all"  # the pattern of every host
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")  # of a host
_RANGE = re.compile(r"\[(?=[0-9]+[-,])([0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*)\]")
_RUN_ID = r"r\d{8}T\d{6}Z-[0-9a-f]+"
_DIGITS = re.compile(r"([0-9]+)")
_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
_WORD = "\0"  # stands for a word
_ALONE = re.compile(rf"(?<![\w.{_WORD}-]){_WORD}(?![\w{_WORD}-])")
_OF_ONE_RUN = re.compile(rf"\b\d+ bursts\b|\b{_RUN_ID}\b")

SplitName = tuple[str, ...]
"""A name as texts and numbers in turn, with a text first and last: "r1n02x" -> ("r",
"1", "n", "02", "x"), "n1" -> ("n", "1", "").
"""


def expand_range(name: str) -> list[str]:
    """Expand "b[08-10,12]" -> ["b08", "b09", "b10", "b12"]. Raises InputError if
    backward or too long.
    """
    match = _RANGE.search(name)
    if not match:
        return [name]
    before = name[: match.start()]
    # the rest of the name may have further ranges
    tails = expand_range(name[match.end() :])
    parts = match[1].split(",")
    numbers = [number for part in parts for number in _expand_numbers(part)]
    if len(numbers) * len(tails) > HOST_LIMIT:
        raise InputError(f"{name} is more than {HOST_LIMIT} names")
    return [f"{before}{number}{tail}" for number in numbers for tail in tails]


def _expand_numbers(part: str) -> list[str]:
    """Expand "08-10" -> ["08", "09", "10"]. Each number has at least as many digits as
    the first, by zeros in front. Raises InputError.
    """
    low_digits, _, high_digits = part.partition("-")
    high_digits = high_digits or low_digits
    digits = len(low_digits)
    if digits > 9 or len(high_digits) > 9:
        raise InputError(f"the numbers in [{part}] are too long")
    low = int(low_digits)
    high = int(high_digits)
    if low > high:
        raise InputError(f"the range [{part}] runs backwards")
    if high - low >= HOST_LIMIT:
        raise InputError(f"[{part}] is more than {HOST_LIMIT} names")
    return [f"{number:0{digits}d}" for number in range(low, high + 1)]


def fold_names(names: Iterable[str]) -> list[str]:
    """Fold numbered names, in their order: ["web01", "web02", "db"] -> ["web[01-02]",
    "db"].
    """
    distinct = dict.fromkeys(names)
    split_names = [tuple(_DIGITS.split(name)) for name in distinct]
    part_count = max(map(len, split_names), default=0)
    # "r1n02" is split into ("r", "1", "n", "02", ""): its numbers are at the odd
    # positions, and the last one is before the last text. If it is the longest name,
    # names are folded at position 3, then at 1.
    position_of_last_number = part_count - 2
    for position in range(position_of_last_number, 0, -2):
        split_names = _fold_at(position, split_names)
    return ["".join(parts) for parts in split_names]


def _fold_at(position: int, split_names: Iterable[SplitName]) -> list[SplitName]:
    """Fold names that differ only in the number at a position: ("n", "1", ""), ("n",
    "2", "") -> ("n", "[1-2]", "").

    A split name is texts and numbers in turn, so the position is odd. A folded name
    stands where the first of its names stood. A name that has no number at the position
    is kept.
    """
    # names that differ only in this number are equal once it is replaced by ""
    numbers_by_rest: dict[SplitName, list[str]] = {}
    for parts in split_names:
        if position >= len(parts):
            numbers_by_rest[parts] = []
            continue
        rest = _replace_part(parts, position, "")
        numbers = numbers_by_rest.setdefault(rest, [])
        numbers.append(parts[position])
    folded = []
    for rest, numbers in numbers_by_rest.items():
        if numbers:
            folded.append(_replace_part(rest, position, _fold_numbers(numbers)))
        else:
            folded.append(rest)
    return folded


def _replace_part(parts: SplitName, position: int, part: str) -> SplitName:
    """Return a split name with another part at a position."""
    return (*parts[:position], part, *parts[position + 1 :])


def join_names(names: Iterable[str], limit: int = 1_000) -> str:
    """Fold names into one text of about `limit` characters. If the text is longer, cut
    it at a comma; "…" stands for the names left out.
    """
    text = ", ".join(fold_names(names))
    if len(text) <= limit:
        return text
    end = text.rfind(",", 0, limit)
    if end <= 0:  # there is no comma before the limit
        end = limit
    text = text[:end]
    # the comma may be in a range: "n[1,3" then becomes "n[1,3,…]"
    is_range_open = text.rfind("[") > text.rfind("]")
    return f"{text},…]" if is_range_open else f"{text}, …"


def group_messages(
    messages: Iterable[tuple[Host, str]], *, numbers_alike: bool = False
) -> list[tuple[str, tuple[str, ...]]]:
    """Group messages that differ only in the host's name, address and port; the most
    frequent first.

    Return each group's first message and the names of its hosts. numbers_alike: numbers
    may differ, too; where they do, the message has their range, "1.3 to 2.4".
    """
    groups: dict[str, list[tuple[Host, str]]] = {}
    for host, text in messages:
        key = _hide_own_words(host, text)
        if numbers_alike:
            key = _NUMBER.sub("…", key)
        groups.setdefault(key, []).append((host, text))
    described = []
    for group in groups.values():
        names = dict.fromkeys(host.name for host, _ in group)
        text = _merge_numbers(group) if numbers_alike else group[0][1]
        described.append((text, tuple(names)))
    return sorted(described, key=lambda group: -len(group[1]))


def _merge_numbers(group: Sequence[tuple[Host, str]]) -> str:
    """Return one text for a group of hosts and their texts, which are equal but for
    numbers and for what is of one host: "took 1.3 s", "took 2.4 s" -> "took 1.3 to
    2.4 s". What is of one host is hidden by "…". But if no number differs, the first
    text is returned as it is.
    """
    hidden_texts = [_hide_own_words(host, text) for host, text in group]
    if len(set(hidden_texts)) == 1:
        _, first_text = group[0]
        return first_text
    # the words around the numbers are the same in all texts
    first_words, *words_after = _NUMBER.split(hidden_texts[0])
    numbers_by_text = [_NUMBER.findall(text) for text in hidden_texts]
    numbers_by_place = zip(*numbers_by_text, strict=True)
    merged = first_words
    for numbers, words in zip(numbers_by_place, words_after, strict=True):
        merged += _join_least_and_greatest(numbers) + words
    return merged


def _join_least_and_greatest(numbers: Iterable[str]) -> str:
    """Format numbers as "1.3 to 2.4"; equal ones as they are."""
    ordered = sorted(set(numbers), key=lambda number: float(number.replace(",", "")))
    if len(ordered) == 1:
        return ordered[0]
    return f"{ordered[0]} to {ordered[-1]}"


def _hide_own_words(host: Host, text: str) -> str:
    """Replace the host's name, address and port, and what is of one run, by "…"."""
    words = {host.name, host.address, str(host.port or 22)} - {""}
    # the longest first: one may be part of another
    for word in sorted(words, key=len, reverse=True):
        marked = text.replace(word, _WORD)
        text = _ALONE.sub("…", marked).replace(_WORD, word)
    return _OF_ONE_RUN.sub("…", text)


def strip_host_name(host: Host, text: str) -> str:
    """Remove the host's name from the start of a sentence."""
    return text.removeprefix(f"{host.name}: ")


def _fold_numbers(numbers: Sequence[str]) -> str:
    """Fold ["08", "09", "10"] -> "[08-10]"; a single number -> itself. A range holds
    numbers that follow one another and are written alike: "9", "010" are two ranges.
    """
    distinct = sorted(set(numbers), key=lambda digits: (int(digits), len(digits)))
    if len(distinct) == 1:
        return distinct[0]
    ranges: list[list[str]] = []
    expected = None  # the text that would go on the last range
    for number in distinct:
        if number == expected:
            ranges[-1].append(number)
        else:
            ranges.append([number])
        # zeros fill up a number to the width of the range's first: "08", "09", "10"; it
        # may be wider: "9", "10"
        width = len(ranges[-1][0])
        expected = f"{int(number) + 1:0{width}d}"
    return f"[{','.join(map(_format_range, ranges))}]"


def _format_range(numbers: Sequence[str]) -> str:
    return numbers[0] if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
