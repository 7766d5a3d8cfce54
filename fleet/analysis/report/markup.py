"""Render the templates of pages, maps and cards: escape hosts' text and make control characters visible."""

from datetime import UTC
from functools import cache
from typing import Any

import jinja2
from markupsafe import Markup

from fleet.analysis.base import text
from fleet.analysis.reduce import heatmap
from fleet.text import format_count, one_line


def render_template(template: str, **values: Any) -> str:
    """Render a template with these values."""
    return _load_templates().get_template(template).render(values)


@cache
def _load_templates() -> jinja2.Environment:
    """Return the environment of all templates, with their filters and the modules that they call."""
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
        "number": number,
        "spark": draw_spark,
        "px": "{:.1f}".format,
        "within": text.format_half_width,
        "percent": text.format_share,
        "signed": text.format_change,
        "moment": lambda when: f"{when.astimezone(UTC):%Y-%m-%d %H:%M}",
    }
    environment.globals |= {"text": text, "heatmap": heatmap}
    return environment


def draw_spark(blocks: str) -> Markup:
    """Draw a course of block characters, oldest first, as a named line; return other text unchanged."""
    heights = ["▁▂▃▄▅▆▇█".find(block) for block in blocks]
    if len(heights) < 2 or min(heights) < 0:
        return Markup("{}").format(blocks)
    points = " ".join(f"{4 * place + 2},{16 - 2 * height}" for place, height in enumerate(heights))
    name = f"{format_count(len(heights), 'run')}, oldest to newest, between their least and most"
    svg = '<svg class="spark" role="img" aria-label="{}" width="{}" height="18"><polyline points="{}"/></svg>'
    return Markup(svg).format(name, 4 * len(heights), points)  # noqa: S704  (escapes what it formats)


def number(value: float | None) -> str:
    """Format nanoseconds with one decimal, from a thousand on with none."""
    if text.is_none(value) or value is None:
        return "-"
    return f"{value:.1f}" if value < 1000 else f"{value:,.0f}"


def _escape_controls(value: Any) -> Any:
    return one_line(value) if isinstance(value, str) and not isinstance(value, Markup) else value
