"""How things are said: so many of them, a word nobody knows. Floor 1: imports nothing of ours."""

from collections.abc import Iterable

LABEL_KEY = r"[A-Za-z0-9][A-Za-z0-9._-]*"


def counted(count: int, what: str) -> str:
    """Write "1 host", "2 hosts", "1,200 hosts"."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def nearest(word: str, known: Iterable[str]) -> str:
    """End a sentence about an unknown word: "; did you mean 'port'?", or "." if nothing comes close."""
    import difflib  # noqa: PLC0415  only a mistake needs it

    close = difflib.get_close_matches(word, list(known), n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(repr(name) for name in close)}?" if close else "."
