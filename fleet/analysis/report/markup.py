"""Render the templates of pages, maps and cards, and refuse to replace files that fleet
did not make.
"""

import base64
import hashlib
import re
from contextlib import suppress
from datetime import UTC
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from fleet.analysis.base import text
from fleet.analysis.reduce import heatmap
from fleet.errors import UsageError
from fleet.model.version import VERSION
from fleet.store.files import require_regular
from fleet.text import format_count, one_line

GENERATOR, CARD = "fleet report", "fleet card"
CARDS = (".svg", ".png")
_TEMPLATES = Path(__file__).parent / "templates"
_SUFFIXES = ("", ".html", ".htm", *CARDS)
_MARKS = (f'<meta name="generator" content="{GENERATOR} '.encode(), CARD.encode())
_STRING = re.compile(r'("[^"]*"|`[^`]*`)')  # of JavaScript
_SPACED = re.compile(r" ?([-=+*/<>?:;,{}()&|!]) ?")
_HEAD = 2048  # bytes; the mark stands at the top of every report


def render_template(file_name: str, **values: Any) -> str:
    """Render a template with these values."""
    return _load_templates().get_template(file_name).render(values)


@cache
def _load_templates() -> jinja2.Environment:
    """Return the environment of all templates, with their filters and the modules that
    they call.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("fleet.analysis.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_escape_controls,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "counted": format_count,
        "number": format_ns,
        "px": "{:.1f}".format,
        "within": text.format_half_width,
        "percent": text.format_share,
        "signed": text.format_change,
        "moment": lambda when: f"{when.astimezone(UTC):%Y-%m-%d %H:%M}",
    }
    environment.globals |= {
        "text": text,
        "heatmap": heatmap,
        "generator": f"{GENERATOR} {VERSION}",
    }
    return environment


def read_template(file_name: str) -> str:
    """Return a file of the templates as it is."""
    return (_TEMPLATES / file_name).read_text("utf-8")


def read_scripts(*file_names: str) -> Markup:
    """Return scripts of ours for a page, without comments, indentation and the spaces
    around operators.
    """
    lines = list[str]()
    for file_name in file_names:
        for line in read_template(file_name).splitlines():
            code, _, _ = line.partition("//")
            lines.append(code.strip())
    script = "\n".join(filter(None, lines))
    parts = _STRING.split(script)  # code, string, code, string, …, code
    code_parts = parts[::2]
    parts[::2] = [_SPACED.sub(r"\1", code) for code in code_parts]
    return Markup("".join(parts))  # noqa: S704  (our own file)


def digest_for_policy(content: str) -> Markup:
    """Return the digest of a style or script as a content security policy has it."""
    digest = hashlib.sha256(content.encode()).digest()
    encoded = base64.b64encode(digest).decode()
    return Markup("sha256-{}").format(encoded)


def format_ns(value: float | None) -> str:
    """Format nanoseconds with one decimal, or with none from a thousand on; "-" if
    unknown.
    """
    if text.is_none(value) or value is None:
        return "-"
    if value < 1000:
        return f"{value:.1f}"
    return f"{value:,.0f}"


def _escape_controls(value: Any) -> Any:
    """Escape the control characters of a text; markup and other values stay."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return one_line(value)


def require_writable_output(path: Path, *, force: bool = False) -> None:
    """Raise UsageError if `path` cannot be a report or, without `force`, if it exists
    and is not fleet's.
    """
    if path.suffix not in _SUFFIXES:
        raise UsageError(
            f"{path}: is not a page (.html), a card (.png, .svg) or a site (a folder:"
            " end it with /)."
        )
    if path.exists():
        try:
            # to replace a device would break it for all
            require_regular(path, "a file")
        except OSError as err:
            raise UsageError(f"{path}: {err}; name a file with --output.") from err
    if not path.parent.is_dir():
        raise UsageError(
            f"{path}: there is no directory {path.parent}; create it, or name another"
            " file."
        )
    if path.exists() and not force:
        with suppress(OSError), path.open("rb") as file:
            head = file.read(_HEAD)
            if any(mark in head for mark in _MARKS):
                return
        raise UsageError(
            f"{path}: exists and is not a report of fleet; it was not changed. "
            "Name another file, or replace it with --force."
        )
