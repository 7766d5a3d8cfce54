"""Writes a static site: an index, a page and a card of each machine, a page of each CPU model, what changed.

docs/report.md, "A site". Only pages whose runs changed are made anew, and only files that `.fleet-site.json`
lists are ever replaced or removed. The same runs give the same bytes.
"""

import base64
import contextlib
import hashlib
import io
import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup
from PIL import Image

from fleet.analysis.compare.history import history
from fleet.analysis.compare.siblings import siblings
from fleet.analysis.reduce.cells import overview_history
from fleet.analysis.reduce.heatmap import SHADES
from fleet.analysis.reduce.load import read_runs
from fleet.analysis.reduce.pairs import STATS_VERSION, load_pairs, widened
from fleet.analysis.report import card as cards
from fleet.analysis.report.markup import pages
from fleet.analysis.report.output import GENERATOR, write
from fleet.analysis.selection import by_host
from fleet.analysis.views import over_time
from fleet.analysis.views import siblings as views
from fleet.analysis.views.history import sparkline
from fleet.analysis.views.text import measured, records, shown_value, within
from fleet.errors import UsageError
from fleet.model import as_described_by
from fleet.model.version import VERSION
from fleet.store import RunSummary
from fleet.store.runs import Root, listing_of
from fleet.text import counted, one_line

STATE = ".fleet-site.json"
_AT_ONCE = 16  # machines whose pairs are held
_MAP = 96  # pixels
_COURSE = 8  # runs of the index
_WHOLE = ("index.html", "runs.json", "changes.html", "changes.xml")
_OF_CHANGE = ("slug", "model", "on", "cells")
_OURS = re.compile(
    r"(index\.html|runs\.json|changes\.(html|xml)|(m|card|map|model)/[A-Za-z][\w.-]*\.(html|svg|png))\Z"
)
_FACTS = ("kernel", "distribution", "governor", "microcode", "board", "firmware", "hypervisor")


@dataclass(frozen=True, slots=True)
class Section:
    """A table of a page; cells are text or a link."""

    title: str
    note: str
    titles: tuple[str, ...]
    lines: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Row:
    """A machine in the index. slug: of its CPU model. shared: medians in words; far: the last, in ns."""

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


def write_site(root: Root, runs: Sequence[RunSummary], folder: Path, title: str | None = None) -> str:
    """Write the pages about these runs; how many, in words. UsageError where a file of another is there."""
    listing, hosts = listing_of(root), by_host(runs)
    before = _state(folder)
    keys = {host: _key([[run.run_id, dict(run.labels)] for run in own]) for host, own in hosts.items()}
    kept = {host: one for host, one in before["machines"].items() if one["key"] == keys.get(host)}
    found = {host: Row(**one["row"]) for host, one in kept.items()}
    models = dict[str, list[str]]()
    for host, own in hosts.items():
        models.setdefault(_slug(own[-1].cpu_model), []).append(host)
    keys |= {slug: _key([keys[host] for host in own]) for slug, own in models.items()}
    kept |= {slug: one for slug, one in before["models"].items() if one["key"] == keys.get(slug)}
    files: dict[str, str] = {name: mark for name, mark in before["files"].items() if Path(name).stem in kept}
    new = {host: own for host, own in hosts.items() if host not in kept}
    for name in (*_WHOLE, *(f"m/{host}.html" for host in new)):
        if (folder / name).exists() and name not in before["files"]:
            raise UsageError(f"{folder / name}: not made by fleet; it was not changed. Name another folder.")
    for row, made in _machines(listing, new):
        found[row.host] = row
        for name, data in made.items():
            files[name] = _put(folder, name, data)
    rows = sorted(found.values(), key=lambda row: (row.model, row.name, row.host))
    changes = {slug: one["changes"] for slug, one in before["models"].items() if slug in models}
    for slug in models.keys() - kept.keys():
        texts = [",".join(run.run_id for host in models[slug] for run in hosts[host])]
        page, changes[slug] = _model(listing, texts, [row for row in rows if row.slug == slug])
        files[f"model/{slug}.html"] = _put(folder, f"model/{slug}.html", page)
    subject = title or f"Core-to-core latency and memory of {counted(len(rows), 'machine')}"
    every = [one for of in changes.values() for one in of]
    every.sort(key=lambda one: (one["on"], one["slug"], one["cells"]), reverse=True)
    lines = [(_a(f"model/{one['slug']}.html", one["model"]), *one["cells"]) for one in every]
    listed = Section("", "Of each CPU model at one error rate.", ("CPU model", *over_time.TITLES), lines)
    for name, text in (
        ("index.html", _page("site.html", title=subject, rows=rows, changes=len(every))),
        ("runs.json", json.dumps([asdict(row) for row in rows], indent=0, ensure_ascii=False)),
        ("changes.html", _page("tables.html", title="What changed when", up="", sections=[listed])),
        ("changes.xml", pages().get_template("changes.xml").render(title=subject, entries=_entries(every))),
    ):
        mark = hashlib.sha256(text.encode()).hexdigest()
        if before["files"].get(name) != mark or not (folder / name).exists():
            _put(folder, name, text)
        files[name] = mark
    for name in before["files"].keys() - files.keys():
        (folder / name).unlink(missing_ok=True)
    state = {
        "machines": {row.host: {"key": keys[row.host], "row": asdict(row)} for row in rows},
        "models": {slug: {"key": keys[slug], "changes": own} for slug, own in changes.items()},
        "files": files,
    }
    _put(folder, STATE, json.dumps(state, indent=0, sort_keys=True))
    return f"{folder}: {counted(len(rows), 'machine')}, {len(new)} of them made anew, {len(files)} files"


def _state(folder: Path) -> dict[str, dict[str, Any]]:
    """What an earlier site in the folder is of; nothing where there is none, or another version's."""
    try:
        found = json.loads((folder / STATE).read_text(encoding="utf-8"))
        files = {str(name): str(mark) for name, mark in found["files"].items() if _OURS.match(name)}
        machines = {
            host: {"key": one["key"], "row": asdict(Row(**one["row"]))}
            for host, one in found["machines"].items()
        }
        models = {
            slug: {
                "key": one["key"],
                "changes": [{name: each[name] for name in _OF_CHANGE} for each in one["changes"]],
            }
            for slug, one in found.get("models", {}).items()
        }
    except FileNotFoundError:
        return {"machines": {}, "models": {}, "files": {}}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as err:
        raise UsageError(
            f"{folder / STATE}: cannot be read as what fleet wrote: {err}. Remove the folder."
        ) from err
    whole = all((folder / name).exists() for name in files)
    return {"machines": machines if whole else {}, "models": models if whole else {}, "files": files}


def _slug(model: str | None) -> str:
    """A CPU model as the name of a file: no host's, since these have no dot and digest at the end."""
    words = re.sub(r"[^A-Za-z0-9]+", "-", model or "unknown").strip("-")[:40]
    return f"cpu-{words}.{hashlib.sha256((model or '').encode()).hexdigest()[:6]}"


def _a(link: str, text: str) -> Markup:
    return Markup('<a href="{}">{}</a>').format(link, one_line(text))


def _model(root: Root, texts: Sequence[str], rows: Sequence[Row]) -> tuple[str, list[dict[str, Any]]]:
    """The page of a CPU model, and what changed on its machines. rows: of these, in their order."""
    model, slug, found, sections = rows[0].model, rows[0].slug, list[dict[str, Any]](), list[Section]()
    titles = ("machine", "CPUs", "medians, ns", "memory, ns", "memory, GB/s", "kernel", "date", "runs")
    numbers = [["" if one is None else f"{one:.1f}" for one in (row.memory, row.bandwidth)] for row in rows]
    lines = [
        (
            _a(f"../m/{row.host}.html", row.name),
            str(row.cpus),
            row.shared,
            *own,
            row.kernel,
            row.date,
            str(row.runs),
        )
        for row, own in zip(rows, numbers, strict=True)
    ]
    sections.append(Section("Machines", "The last run of each.", titles, lines))
    with contextlib.suppress(UsageError):  # they have no numbers that are compared
        past = history(root, texts)
        cells = over_time.lines(past)
        for row, own in zip(records(past.changes), cells, strict=True):
            on = row["after"] if row["dated"] else row["end"]
            found.append({"slug": slug, "model": model, "on": f"{on}", "cells": list(own)})
        sections.append(Section("What changed when", over_time.headline(past), over_time.TITLES, cells))
        for one in siblings(root, texts):
            if len(one.hosts) > 1:
                odd = views.lines(one) if one.odd else []
                sections.append(Section("Equal machines", views.headline(one), views.TITLES, odd))
    return _page("tables.html", title=model, up="../", sections=sections), found


def _entries(changes: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The entries of the feed: a change is the same for as long as its words are."""
    found = []
    for one in changes:
        when, where, change, interval, beside = one["cells"]
        known = json.dumps([one["slug"], one["cells"]], ensure_ascii=False)
        about = {
            "id": uuid.uuid5(uuid.NAMESPACE_OID, known).urn,
            "on": one["on"],
            "link": f"model/{one['slug']}.html",
        }
        text = f"{one['model']}: {when}, {change} ({interval}). {beside}"
        found.append({**about, "title": f"{where}: {change}", "text": text})
    return found


def _key(runs: object) -> str:
    return hashlib.sha256(json.dumps([_code(), runs], sort_keys=True).encode()).hexdigest()[:32]


@cache
def _code() -> str:
    here = Path(__file__).parent
    sources = [here / "card.py", here / "site.py", *sorted((here / "templates").iterdir())]
    texts = b"".join(path.read_bytes() for path in sources)
    return hashlib.sha256(texts + f"{VERSION} {STATS_VERSION}".encode()).hexdigest()


def _put(folder: Path, name: str, data: str | bytes) -> str:
    path = folder / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise UsageError(f"{path.parent}: cannot be made: {err.strerror}.") from err
    write(path, data)
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def _machines(
    root: Root, hosts: Mapping[str, Sequence[RunSummary]]
) -> Iterator[tuple[Row, dict[str, str | bytes]]]:
    """The row of each machine in the index, and its files."""
    names = list(hosts)
    for at in range(0, len(names), _AT_ONCE):
        batch = names[at : at + _AT_ONCE]
        past = overview_history(root, [run for host in batch for run in hosts[host]])
        runs, _, cpus = read_runs(root, [hosts[host][-1].run_id for host in batch])
        pairs = widened(load_pairs(root, run_id=[run["run_id"] for run in runs]))
        for host, run in zip(batch, runs, strict=True):
            own = pairs[pairs["run_id"] == run["run_id"]].reset_index(drop=True)
            of_run = cpus[cpus["run_id"] == run["run_id"]].reset_index(drop=True)
            with as_described_by(run["hello"]):
                yield _machine(run, of_run, own, past[past["host_id"] == host], len(hosts[host]))


def _machine(
    run: dict[str, Any], cpus: pd.DataFrame, pairs: pd.DataFrame, past: pd.DataFrame, runs: int
) -> tuple[Row, dict[str, str | bytes]]:
    host = run["host_id"]
    last = past[past["run_id"] == run["run_id"]]
    try:
        card = cards.card(run, cpus, pairs)
    except UsageError:  # it has no pairs of CPUs
        card = None
    kind = card.kind if card else ""
    shared = last[(last["benchmark"] + "/" + last["variant"]) == kind].sort_values("median_ns", kind="stable")
    far = shared["relation"].iloc[-1] if len(shared) else ""
    course = past[(past["benchmark"] + "/" + past["variant"] == kind) & (past["relation"] == far)]
    row = Row(
        host=host,
        name=one_line(run["host_name"]),
        run=run["run_id"],
        date=f"{run['started_utc']:%Y-%m-%d}",
        model=one_line(run["cpu_model"] or "unknown CPU model"),
        slug=_slug(run["cpu_model"]),
        cpus=run["cpus_measured"],
        kernel=one_line(run["kernel"] or ""),
        benchmark=kind,
        shared=", ".join(
            f"{one['relation']} {measured(one['benchmark'], one['median_ns'])}" for one in records(shared)
        ),
        far=round(float(shared["median_ns"].iloc[-1]), 3) if len(shared) else None,
        memory=_number(last, "chase", "mem"),
        bandwidth=_number(last, "bandwidth", "mem"),
        course=sparkline(course["median_ns"].to_numpy(dtype=float)[-_COURSE:]) if len(course) > 1 else "",
        runs=runs,
        has_map=card is not None,
    )
    facts = [(name, str(run[name])) for name in _FACTS if run.get(name)]
    made: dict[str, str | bytes] = {
        f"m/{host}.html": _page(
            "machine.html", title=row.name, row=row, facts=facts, lines=_lines(last, past), card=card
        )
    }
    if card is not None:
        side, buffer = min(_MAP, len(card.cells)), io.BytesIO()
        small = cards.picture(card.cells).resize((side, side), Image.Resampling.NEAREST)
        small.save(buffer, "png", transparency=SHADES)
        made |= {
            f"card/{host}.svg": cards.svg(card),
            f"card/{host}.png": cards.png(card),
            f"map/{host}.png": buffer.getvalue(),
        }
    return row, made


def _number(last: pd.DataFrame, benchmark: str, level: str) -> float | None:
    """The best number of a level of memory, as it is shown: ns of a load, GB/s."""
    found = last[(last["benchmark"] == benchmark) & (last["relation"] == level)]
    return round(float(shown_value(benchmark, found["median_ns"].min())), 3) if len(found) else None


def _lines(last: pd.DataFrame, past: pd.DataFrame) -> list[tuple[str, ...]]:
    """Of each number of the last run a row: what it is, the number, ±95 %, pairs, and all runs."""
    keys = ["benchmark", "variant", "about", "relation"]
    courses = {key: part["median_ns"].to_numpy(dtype=float) for key, part in past.groupby(keys, sort=False)}
    found = []
    for row in records(last):
        values = courses[tuple(row[key] for key in keys)]
        ends = [measured(row["benchmark"], ns) for ns in (values.min(), values.max())]
        what = f"{row['benchmark']}/{row['variant']} {row['about']}".rstrip("/ ")
        number = measured(row["benchmark"], row["median_ns"])
        course = sparkline(values) if len(values) > 1 else ""
        counts = str(row["pairs"]), str(len(values))
        found.append((what, row["relation"], number, within(row["spread"]), *counts, *ends, course))
    return found


def _page(name: str, **values: Any) -> str:
    """A page of the site, whose policy has the digests of its own style and script."""
    style = pages().get_template("style.css").render(viridis=[], diverging=[], readings=[], thumbnails={})
    style += (Path(__file__).parent / "templates" / "site.css").read_text(encoding="utf-8")
    script = (Path(__file__).parent / "templates" / "site.js").read_text(encoding="utf-8")
    parts = {"style": Markup(f"\n{style}"), "script": Markup(f"\n{script}")}  # noqa: S704  (our own files)
    digests = {
        f"{part}_digest": "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for part, text in parts.items()
    }
    return pages().get_template(name).render(generator=f"{GENERATOR} {VERSION}", **parts, **digests, **values)
