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
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_ALONE = re.compile(r"(?<![\w.\0-])\0(?![\w\0-])")  # \0 stands for a word
_OF_ONE_RUN = re.compile(rf"\b\d+ bursts\b|\b{_RUN_ID}\b")


def expand_range(name: str) -> list[str]:
    """Expand "b[08-10,12]" -> ["b08", "b09", "b10", "b12"]. Raises InputError if
    backward or too long.
    """
    match = _RANGE.search(name)
    if not match:
        return [name]
    rest = expand_range(name[match.end() :])
    numbers = [
        number for part in match[1].split(",") for number in _expand_numbers(part)
    ]
    if len(numbers) * len(rest) > HOST_LIMIT:
        raise InputError(f"{name} is more than {HOST_LIMIT} names")
    return [
        f"{name[: match.start()]}{number}{tail}" for number in numbers for tail in rest
    ]


def _expand_numbers(part: str) -> list[str]:
    low, _, high = part.partition("-")
    high = high or low
    if len(low) > 9 or len(high) > 9:
        raise InputError(f"the numbers in [{part}] are too long")
    if int(low) > int(high):
        raise InputError(f"the range [{part}] runs backwards")
    if int(high) - int(low) >= HOST_LIMIT:
        raise InputError(f"[{part}] is more than {HOST_LIMIT} names")
    return [f"{number:0{len(low)}d}" for number in range(int(low), int(high) + 1)]


def fold_names(names: Iterable[str]) -> list[str]:
    """Fold numbered names, in their order: ["web01", "web02", "db"] -> ["web[01-02]",
    "db"].
    """
    items = [tuple(re.split(r"([0-9]+)", name)) for name in dict.fromkeys(names)]
    for position in range(max(map(len, items), default=0) - 2, 0, -2):
        groups: dict[tuple[str, ...], list[str]] = {}
        for item in items:
            numbered = position < len(item)
            key = (*item[:position], "", *item[position + 1 :]) if numbered else item
            groups.setdefault(key, []).extend(item[position : position + 1])
        items = [
            (
                (*key[:position], _fold_numbers(numbers), *key[position + 1 :])
                if numbers
                else key
            )
            for key, numbers in groups.items()
        ]
    return ["".join(item) for item in items]


def join_names(names: Iterable[str], limit: int = 1_000) -> str:
    """Fold names into one text of about `limit` characters; "…" stands for the names
    left out.
    """
    text = ", ".join(fold_names(names))
    if len(text) <= limit:
        return text
    cut = text.rfind(",", 0, limit)
    text = text[: cut if cut > 0 else limit]
    return f"{text},…]" if text.rfind("[") > text.rfind("]") else f"{text}, …"


def group_messages(
    messages: Iterable[tuple[Host, str]], *, numbers_alike: bool = False
) -> list[tuple[str, tuple[str, ...]]]:
    """Group messages that differ only in the host's name, address and port; the most
    frequent first.

    Return each group's first message and the names of its hosts. numbers_alike: numbers
    may differ, too.
    """
    hosts_by_message: dict[str, tuple[str, list[str]]] = {}
    for host, text in messages:
        key, words = text, {host.name, host.address, str(host.port or 22)}
        for word in sorted(filter(None, words), key=len, reverse=True):
            key = _ALONE.sub("…", key.replace(word, "\0")).replace("\0", word)
        key = _OF_ONE_RUN.sub("…", key)
        if numbers_alike:
            key = _NUMBER.sub("…", key)
        hosts_by_message.setdefault(key, (text, []))[1].append(host.name)
    groups = [
        (text, tuple(dict.fromkeys(names))) for text, names in hosts_by_message.values()
    ]
    return sorted(groups, key=lambda group: -len(group[1]))


def strip_host_name(host: Host, text: str) -> str:
    """Remove the host's name from the start of a sentence."""
    return text.removeprefix(f"{host.name}: ")


def _fold_numbers(numbers: Sequence[str]) -> str:
    """Fold ["08", "09", "10"] -> "[08-10]"; a single number -> itself."""
    runs: list[list[str]] = []
    for number in sorted(set(numbers), key=lambda digits: (int(digits), len(digits))):
        if runs and number == f"{int(runs[-1][-1]) + 1:0{len(runs[-1][0])}d}":
            runs[-1].append(number)
        else:
            runs.append([number])
    texts = [run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return texts[0] if len(runs) == 1 and len(runs[0]) == 1 else f"[{','.join(texts)}]"
