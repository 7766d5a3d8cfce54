"""Writes the medians of hosts for other programs: Bencher, Prometheus and pull requests.

Each number is that of `views.overview.medians`: of a host's comparable runs, one way in ns.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from fleet.analysis.views.overview import how_wide
from fleet.analysis.views.text import is_none, json_text, kind_of, records, within
from fleet.text import one_line, printable

_NS = 1e-9
_KIND = ("benchmark", "variant", "relation")
_METRIC = "fleet_median_latency_seconds"


def bmf(table: pd.DataFrame) -> str:
    """Bencher's Metric Format: a JSON object, in ns, with the 95 % interval as its bounds."""
    found = {}
    for row in records(table):
        value: dict[str, float] = {"value": row["median_ns"]}
        if not is_none(row["half"]):
            low, high = (row["median_ns"] * (1 + sign * row["half"]) for sign in (-1, 1))
            value |= {"lower_value": low, "upper_value": high}
        found["/".join(row[name] for name in ("host_name", *_KIND))] = {"latency": value}
    return json_text(found) + "\n"


def openmetrics(table: pd.DataFrame) -> str:
    """OpenMetrics text, in seconds as its rules ask; for the textfile collector of node_exporter."""
    lines = [
        f"# TYPE {_METRIC} gauge",
        f"# UNIT {_METRIC} seconds",
        f"# HELP {_METRIC} Median one-way latency between CPUs of a relation.",
    ]
    for row in records(table):
        labels = {"host": row["host_name"], **{name: row[name] for name in _KIND}}
        listed = ",".join(f'{name}="{_quoted(str(value))}"' for name, value in labels.items())
        lines.append(f"{_METRIC}{{{listed}}} {row['median_ns'] * _NS:.6g}")
    return "\n".join([*lines, "# EOF", ""])


def markdown(table: pd.DataFrame) -> str:
    """A table for a pull request: a row per host, benchmark and relation."""
    lines = [
        f"| host | benchmark | relation | runs | ns, one way | ±95% {how_wide(table)} |",
        "| --- | --- | --- | ---: | ---: | ---: |",
    ]
    for row in records(table):
        names = (row["host_name"], kind_of(row), row["relation"])
        cells = (*map(_cell, names), row["runs"], f"{row['median_ns']:.1f}", within(row["half"]))
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join([*lines, ""])


DASHBOARDS: Mapping[str, Callable[[pd.DataFrame], Any]] = {
    "bmf": bmf,
    "openmetrics": openmetrics,
    "markdown": markdown,
}


def _cell(text: str) -> str:
    """Text in a table of Markdown: no character of it is markup or HTML."""
    return re.sub(r"([\\`*_\[\]<>|&~])", r"\\\1", one_line(text))


def _quoted(text: str) -> str:
    """A label's value in OpenMetrics, which escapes these three; other control characters are shown."""
    return printable(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
