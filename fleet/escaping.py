"""Makes what a host or a file said harmless where it is shown. Pure; floor 1.

Every place that shows such text goes through here: terminals, pages, JSON.
"""

import html
import json
import re
from collections.abc import Iterable
from typing import Any

SECRET_LENGTH = 4
_MAYBE_UNPRINTABLE = re.compile(r"[^\x20-\x7e\n]")


def printable(text: str) -> str:
    """Safe for a terminal: control characters become visible escapes; newlines stay."""
    return "".join(c if c == "\n" or c.isprintable() else ascii(c)[1:-1] for c in text)


def one_line(text: str) -> str:
    """The same where a newline could pass for a line of ours."""
    return printable(text).replace("\n", "\\n")


def for_html(text: str) -> str:
    """Safe as text of a page and inside a quoted attribute."""
    return html.escape(printable(text), quote=True)


def hidden(text: str, secrets: Iterable[str]) -> str:
    """The text without these values, wherever a host or a tool has repeated one.

    Values of fewer than SECRET_LENGTH characters stay: they hide nothing and would tear words apart.
    """
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SECRET_LENGTH:
            text = text.replace(secret, "…")
    return text


def as_json(value: Any) -> str:
    """JSON for programs that is safe on a terminal too: what cannot be printed becomes an escape."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return _MAYBE_UNPRINTABLE.sub(lambda found: _escaped(found[0]), text)


def _escaped(sign: str) -> str:
    return sign if sign.isprintable() else json.dumps(sign)[1:-1]
