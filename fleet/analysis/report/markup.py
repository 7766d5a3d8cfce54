"""The templates of pages, maps and cards. Text of hosts is escaped, and control characters made visible."""

from datetime import UTC
from functools import cache
from typing import Any

import jinja2
from markupsafe import Markup

from fleet.analysis.base import text
from fleet.analysis.reduce import heatmap
from fleet.text import counted, one_line


def filled(template: str, **values: Any) -> str:
    """A template with these values."""
    return _templates().get_template(template).render(values)


@cache
def _templates() -> jinja2.Environment:
    """All, with their filters and the modules that they call."""
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("fleet.analysis.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"counted": counted, "number": number, "px": "{:.1f}".format}
    found.filters |= {name: getattr(text, name) for name in ("within", "percent", "signed")}
    found.globals |= {"text": text, "heatmap": heatmap}
    found.filters["moment"] = lambda when: f"{when.astimezone(UTC):%Y-%m-%d %H:%M}"
    return found


def number(value: float | None) -> str:
    """Nanoseconds with one decimal, from a thousand on with none."""
    if text.is_none(value) or value is None:
        return "-"
    return f"{value:.1f}" if value < 1000 else f"{value:,.0f}"


def _printable(value: Any) -> Any:
    return one_line(value) if isinstance(value, str) and not isinstance(value, Markup) else value
