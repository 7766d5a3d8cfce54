"""The hint for a word nobody knows. Floor 1: imports nothing of ours."""

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """End a sentence about an unknown word: "; did you mean 'port'?", or "." if nothing comes close."""
    import difflib  # noqa: PLC0415  only a mistake needs it

    close = difflib.get_close_matches(word, list(known), n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(repr(name) for name in close)}?" if close else "."
