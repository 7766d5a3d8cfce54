"""Reads the words of a plan as people write them, in the inventory and on the command line.

Every function raises ValueError in words for people.
"""

import re

from fleet.model import PairChoice, Pairs
from fleet.plan.cpulist import pair_list

MOST_SECONDS = 7 * 86_400
_NUMBER = r"[0-9]{1,9}(?:\.[0-9]{1,9})?"


def pair_choice(text: str) -> PairChoice:
    """Read "half", "ordered", "per-relation:3" or a list such as "0-1,0-4"."""
    word = text.strip()
    if word in (Pairs.HALF, Pairs.ORDERED):
        return PairChoice(Pairs(word))
    if found := re.fullmatch(r"per-relation:([0-9]{1,6})", word):
        if int(found[1]) == 0:
            raise ValueError("per-relation:0 would measure nothing; write per-relation:3, for instance")
        return PairChoice(Pairs.PER_RELATION, per_relation=int(found[1]))
    if not word[:1].isdigit():
        raise ValueError(
            f"must be half, ordered, per-relation:K, or a list such as 0-1,0-4; not {text[:60]!r}"
        )
    return PairChoice(Pairs.LISTED, pair_list(word))


def precision(text: str) -> float:
    """Read "1%", "0.01" or "off" as a share; off is 0."""
    if text == "off":
        return 0.0
    found = re.fullmatch(rf"({_NUMBER})\s*(%?)", text.strip())
    share = float(found[1]) / (100 if found[2] else 1) if found else 0.0
    if not 0.0001 <= share <= 0.5:
        raise ValueError(f"must be a share such as 1% or 0.01, from 0.01% to 50%, or off; not {text[:60]!r}")
    return share


def seconds(text: str) -> float:
    """Read "20" or "0.5", at most a week."""
    if not re.fullmatch(_NUMBER, text.strip()) or float(text) > MOST_SECONDS:
        raise ValueError(f"must be a number of seconds, at most {MOST_SECONDS}; not {text[:60]!r}")
    return float(text)


def switch(text: str) -> bool:
    """Read "on" or "off"."""
    if text not in ("on", "off"):
        raise ValueError(f"must be on or off, not {text[:60]!r}")
    return text == "on"
