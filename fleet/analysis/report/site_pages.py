"""Build the pages of a site, and their tables about a CPU model; `site` writes them."""

import base64
import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from fleet.analysis.report.findings import Answer
from fleet.analysis.report.markup import filled
from fleet.analysis.report.output import GENERATOR
from fleet.model.version import VERSION
from fleet.text import one_line


@dataclass(frozen=True, slots=True)
class Section:
    """A table of a page; cells are text or a link."""

    title: str
    note: str
    titles: tuple[str, ...]
    lines: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Row:
    """A machine in the index, or a summary, which has no runs: its `course` says whether it has intervals.

    slug: of its CPU model. shared: medians in words; far: the last, in ns. marks: findings in few words.
    """

    host: str
    name: str
    run: str
    date: str
    model: str
    slug: str
    cpus: int
    kernel: str
    benchmark: str
    shared: str
    far: float | None
    memory: float | None
    bandwidth: float | None
    course: str
    runs: int
    has_map: bool
    marks: Sequence[str] = ()


def answer_sections(answers: Sequence[Answer]) -> list[Section]:
    """Lay out answers as tables: the title and text of each finding."""
    return [
        Section(
            answer.question,
            answer.headline,
            ("finding", "95 % interval, and what else"),
            [finding[:2] for finding in answer.findings],
        )
        for answer in answers
    ]


def machines_of(rows: Sequence[Row]) -> Section:
    """Lay out the machines of a model as a table, in this order."""
    titles = ("machine", "CPUs", "medians, ns", "memory, ns", "memory, GB/s", "kernel", "date", "runs")
    lines = []
    for row in rows:
        numbers = ["" if value is None else f"{value:.1f}" for value in (row.memory, row.bandwidth)]
        about = (row.kernel, row.date, str(row.runs or row.course))
        lines.append((link(f"../m/{row.host}.html", row.name), str(row.cpus), row.shared, *numbers, *about))
    return Section("Machines", "Numbers that are usual since the last change of each.", titles, lines)


def entries(changes: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the entries of the feed; a change keeps its ID as long as its words."""
    feed_entries = []
    for record in changes:
        when, where, change, interval, beside = record["cells"]
        identity = json.dumps([record["slug"], record["cells"]], ensure_ascii=False)
        urn, address = uuid.uuid5(uuid.NAMESPACE_OID, identity).urn, f"model/{record['slug']}.html"
        text = f"{record['model']}: {when}, {change} ({interval}). {beside}"
        about = {"id": urn, "on": record["on"], "link": address}
        feed_entries.append({**about, "title": f"{where}: {change}", "text": text})
    return feed_entries


def link(to: str, text: str) -> Markup:
    """Return a cell that links to `to`."""
    return Markup('<a href="{}">{}</a>').format(to, one_line(text))


def page(name: str, **values: Any) -> str:
    """Render a page of the site, whose policy has the digests of its own style and script."""
    templates = Path(__file__).parent / "templates"
    base, own, script = (
        (templates / part).read_text("utf-8") for part in ("base.css", "site.css", "site.js")
    )
    parts = {"style": Markup(f"\n{base}{own}"), "script": Markup(f"\n{script}")}  # noqa: S704  (our own files)
    digests = {
        f"{part}_digest": "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for part, text in parts.items()
    }
    return filled(name, generator=f"{GENERATOR} {VERSION}", **parts, **digests, **values)
