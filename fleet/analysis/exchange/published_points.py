"""Published numbers of points that fleet ships: ladders and states of lines, as their authors printed them.

They have no samples, so there is no interval and no verdict. Points have our names, where ours measure alike.
"""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

import pandas as pd

from fleet.text import one_line, table

FOLDER = files("fleet") / "published"
COLUMNS = ("summary", "benchmark", "point", "value", "unit", "unit_ns", "conditions", "cpu_model", "source")


@cache
def load_published_points() -> pd.DataFrame:
    """A row per number: COLUMNS. value, unit: as printed. unit_ns: of a byte or a line, by one CPU."""
    tables = []
    for name, entry in index()["points"].items():
        with (FOLDER / entry["file"]).open(encoding="utf-8") as file:
            rows = pd.read_csv(file)
        times = rows["value"] * 1000 / rows["lines"]
        tables.append(
            rows.assign(
                summary=name,
                unit_ns=times.where(rows["lines"].notna(), 1 / rows["value"]),
                cpu_model=entry["cpu_model"],
                source=entry["url"],
            )
        )
    found: pd.DataFrame = pd.concat(tables, ignore_index=True)[list(COLUMNS)]
    return found


def published_points(name: str) -> pd.DataFrame:
    """The rows of one; none if there is no such."""
    rows = load_published_points()
    return rows[rows["summary"] == name].reset_index(drop=True)


def points_text(name: str) -> str:
    """One of them for people: where it comes from, and a table per benchmark."""
    entry, rows = index()["points"][name], published_points(name)
    parts = [f"{name}: {entry['cpu_model']}, {entry['os']} ({entry['conditions']})\nfrom {entry['url']}"]
    for benchmark, part in rows.groupby("benchmark", sort=False):
        lines = [
            (
                row["point"],
                f"{row['value']:g}",
                row["unit"],
                f"{row['unit_ns']:.2f}" if row["unit"] == "us" else "",
                "" if pd.isna(row["conditions"]) else row["conditions"],
            )
            for row in part.to_dict("records")
        ]
        titles = ("point", "number", "", "ns a line" if any(line[3] for line in lines) else "", "")
        parts.append(f"{benchmark}\n{table(titles, lines, right={1, 3})}")
    return "\n\n".join("\n".join(map(one_line, part.split("\n"))) for part in parts)


def points_list() -> str:
    """A line for each of them, for the list of summaries."""
    counts = load_published_points().groupby("summary", sort=False).size()
    lines = [
        f"{name}: {index()['points'][name]['cpu_model']}, {counts[name]} points, shipped"
        for name in counts.index
    ]
    return "Published points, without pairs of CPUs:\n" + "\n".join(lines)


@cache
def index() -> dict[str, Any]:
    """What is shipped, with where it comes from (fleet/published/index.toml)."""
    return tomllib.loads((FOLDER / "index.toml").read_text(encoding="utf-8"))
