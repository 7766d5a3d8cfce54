"""Write a static site: an index, a page and card per machine, a page per CPU model, and the changes.

See docs/report.md, "A site". Only pages whose runs changed are rebuilt, and only files that
`.fleet-site.json` lists are ever replaced or removed. Equal runs give equal bytes.
"""

import base64
import hashlib
import json
import re
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd
from markupsafe import Markup

from fleet.analysis.base.selection import group_by_host
from fleet.analysis.base.tables import Floats
from fleet.analysis.base.text import (
    convert_to_shown,
    format_half_width,
    format_value,
    is_none,
    is_rate,
    to_records,
)
from fleet.analysis.compare.history import mark_usual
from fleet.analysis.exchange.imports import PREFIX, compute_half_widths, derive_cpus, is_guessed
from fleet.analysis.exchange.run_files import make_summary
from fleet.analysis.reduce.comparison_rows import load_overview_history
from fleet.analysis.reduce.load import merge_descriptions, read_runs
from fleet.analysis.reduce.matrices import relations
from fleet.analysis.reduce.pairs import STATS_VERSION, as_float64, load_pairs
from fleet.analysis.report import card as cards
from fleet.analysis.report.findings import COURSE_SIZE, Answer, Findings, find
from fleet.analysis.report.markup import render_template
from fleet.analysis.report.output import GENERATOR
from fleet.analysis.views import over_time
from fleet.analysis.views.history import draw_sparkline
from fleet.analysis.views.overview import compute_host_medians, since_text
from fleet.errors import UsageError
from fleet.inventory.expected import ExpectedRange
from fleet.model import Descriptions, read_descriptions
from fleet.model.version import VERSION
from fleet.store import RunSummary, schema
from fleet.store.anonymized_run import anonymize
from fleet.store.files import write_output
from fleet.store.places import Place, samples_name
from fleet.store.reading import TableFile
from fleet.store.runs import Root, open_listing
from fleet.store.writing import write_table
from fleet.text import format_count, one_line

STATE = ".fleet-site.json"
_AT_ONCE = 16  # machines whose pairs are held
_MAP = 96  # pixels
_COURSE = 6  # runs of the index
_WHOLE = ("index.html", "runs.json", "changes.html", "changes.xml")
_CELL = ["benchmark", "variant", "about", "relation"]
_OF_CHANGE = ("slug", "model", "on", "cells")
_OF_SUMMARY = "~summary"  # after its name: no host's id has a ~
_OURS = re.compile(
    r"(index\.html|runs\.json|changes\.(html|xml)|(m|card|map|model)/[A-Za-z][\w.~-]*\.(html|svg|png|parquet))\Z"
)
_FACTS = (
    *("kernel", "distribution", "governor", "microcode", "board", "firmware", "hypervisor"),
    *("number", "conditions", "source"),
)


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


def write_site(
    root: Root,
    runs: Sequence[RunSummary],
    folder: Path,
    title: str | None = None,
    summaries: Mapping[str, pd.DataFrame] = MappingProxyType({}),
    heading: str = "",
    ranges: Sequence[ExpectedRange] = (),
) -> str:
    """Write the pages about these runs and summaries; return how many, in words.

    summaries: rows by name. heading: from `render_heading`, for the index. ranges: what is expected of
    machines. Raise UsageError if a file that fleet did not write is in the way.
    """
    listing, hosts = open_listing(root), group_by_host(runs)
    tables = {f"{name}{_OF_SUMMARY}": own for name, own in summaries.items()}
    before = _read_state(folder)
    made_of = {host: _digest([[run.run_id, dict(run.labels)] for run in own]) for host, own in hosts.items()}
    made_of |= {host: _digest(own.to_csv()) for host, own in tables.items()}
    models = dict[str, list[str]]()
    for host in made_of:
        cpu_models = [hosts[host][-1].cpu_model] if host in hosts else tables[host]["cpu_model"].dropna()
        model = next(iter(cpu_models), None)
        models.setdefault(_make_slug(model), []).append(host)
    of_models = {
        slug: _digest([[made_of[host] for host in own], repr(ranges)]) for slug, own in models.items()
    }
    old = {slug: record for slug, record in before["models"].items() if record["key"] == of_models.get(slug)}
    pasts = {
        slug: find(
            listing, [",".join(run.run_id for host in own for run in hosts.get(host, ()))], ranges=ranges
        )
        for slug, own in models.items()
        if slug not in old
    }
    marks = {host: mark for record in old.values() for host, mark in record["marks"].items()}
    of_hosts = {host: past for slug, past in pasts.items() for host in models[slug]}
    marks |= {
        host: _digest(
            [
                [asdict(course) for course in past.courses.get(host, ())],
                past.marks.get(host),
                past.describe_acceptance(host),
            ]
        )
        for host, past in of_hosts.items()
    }
    keys = {host: _digest([key, marks.get(host)]) for host, key in made_of.items()}
    unchanged = {
        host: record for host, record in before["machines"].items() if record["key"] == keys.get(host)
    }
    rows_by_host = {host: Row(**record["row"]) for host, record in unchanged.items()}
    stems = unchanged.keys() | old.keys()
    files: dict[str, str] = {name: mark for name, mark in before["files"].items() if Path(name).stem in stems}
    new = {host: own for host, own in hosts.items() if host not in unchanged}
    others = {host: own for host, own in tables.items() if host not in unchanged}
    for name in (*_WHOLE, *(f"m/{host}.html" for host in [*new, *others])):
        if (folder / name).exists() and name not in before["files"]:
            raise UsageError(f"{folder / name}: not made by fleet; it was not changed. Name another folder.")
    for row, machine_files in (
        *_render_machines(listing, new, of_hosts),
        *map(_render_summary, others.items()),
    ):
        rows_by_host[row.host] = row
        for name, data in machine_files.items():
            files[name] = _write_file(folder, name, data)
    rows = sorted(rows_by_host.values(), key=lambda row: (row.model, row.name, row.host))
    changes = {slug: record["changes"] for slug, record in old.items()}
    for slug, past in pasts.items():
        of_model = [row for row in rows if row.slug == slug]
        changes[slug] = [{"slug": slug, "model": of_model[0].model, **change} for change in past.changes]
        sections = [_tabulate_machines(of_model), *_tabulate_answers(past.answers)]
        text = _render_page("tables.html", title=of_model[0].model, up="../", sections=sections)
        files[f"model/{slug}.html"] = _write_file(folder, f"model/{slug}.html", text)
    for name, text in _render_index_files(
        rows, [change for of in changes.values() for change in of], title, heading
    ):
        mark = hashlib.sha256(text.encode()).hexdigest()
        if before["files"].get(name) != mark or not (folder / name).exists():
            _write_file(folder, name, text)
        files[name] = mark
    for name in before["files"].keys() - files.keys():
        (folder / name).unlink(missing_ok=True)
    machines = {row.host: {"key": keys[row.host], "row": asdict(row)} for row in rows}
    of_models_hosts = {
        slug: {host: marks[host] for host in models[slug] if host in marks} for slug in changes
    }
    about = {
        slug: {"key": of_models[slug], "changes": own, "marks": of_models_hosts[slug]}
        for slug, own in changes.items()
    }
    state = {"machines": machines, "models": about, "files": files}
    _write_file(folder, STATE, json.dumps(state, indent=0, sort_keys=True))
    anew = f"{len(new) + len(others)} of them made anew"
    return f"{folder}: {format_count(len(rows), 'machine')}, {anew}, {len(files)} files"


def _render_index_files(
    rows: Sequence[Row], unsorted_changes: Sequence[dict[str, Any]], title: str | None, heading: str
) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each file about all machines. unsorted_changes: in any order."""
    subject = title or f"Core-to-core latency and memory of {format_count(len(rows), 'machine')}"
    changes = sorted(
        unsorted_changes, key=lambda change: (change["on"], change["slug"], change["cells"]), reverse=True
    )
    lines = [
        (_render_link(f"model/{change['slug']}.html", change["model"]), *change["cells"])
        for change in changes
    ]
    listed = Section("", "Of each CPU model at one error rate.", ("CPU model", *over_time.TITLES), lines)
    groups = [(model, list(own)) for model, own in groupby(rows, lambda row: row.model)]
    until = max((row.date for row in rows), default="")
    about = {"heading": heading, "until": until, "changes": len(changes)}
    yield "index.html", _render_page("site.html", title=subject, groups=groups, **about)
    yield "runs.json", json.dumps([asdict(row) for row in rows], indent=0, ensure_ascii=False)
    yield "changes.html", _render_page("tables.html", title="What changed when", up="", sections=[listed])
    yield "changes.xml", render_template("changes.xml", title=subject, entries=_list_feed_entries(changes))


def _tabulate_answers(answers: Sequence[Answer]) -> list[Section]:
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


def _tabulate_machines(rows: Sequence[Row]) -> Section:
    """Lay out the machines of a model as a table, in this order."""
    titles = ("machine", "CPUs", "medians, ns", "memory, ns", "memory, GB/s", "kernel", "date", "runs")
    lines = []
    for row in rows:
        numbers = ["" if value is None else f"{value:.1f}" for value in (row.memory, row.bandwidth)]
        about = (row.kernel, row.date, str(row.runs or row.course))
        lines.append(
            (_render_link(f"../m/{row.host}.html", row.name), str(row.cpus), row.shared, *numbers, *about)
        )
    return Section("Machines", "Numbers that are usual since the last change of each.", titles, lines)


def _list_feed_entries(changes: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
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


def _render_link(to: str, text: str) -> Markup:
    """Return a cell that links to `to`."""
    return Markup('<a href="{}">{}</a>').format(to, one_line(text))


def _render_page(name: str, **values: Any) -> str:
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
    return render_template(name, generator=f"{GENERATOR} {VERSION}", **parts, **digests, **values)


def _read_state(folder: Path) -> dict[str, dict[str, Any]]:
    """Read the state of the site in the folder, empty without one; raise UsageError if it cannot be read.

    If a file of it is missing, `machines` and `models` are empty.
    """
    try:
        state = json.loads((folder / STATE).read_text(encoding="utf-8"))
        files = {str(name): str(mark) for name, mark in state["files"].items() if _OURS.match(name)}
        machines = {
            host: {"key": record["key"], "row": asdict(Row(**record["row"]))}
            for host, record in state["machines"].items()
        }
        models = {
            slug: {
                "key": record["key"],
                "changes": [{name: change[name] for name in _OF_CHANGE} for change in record["changes"]],
                "marks": dict[str, str](record["marks"]),
            }
            for slug, record in state.get("models", {}).items()
        }
    except FileNotFoundError:
        return {"machines": {}, "models": {}, "files": {}}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as err:
        raise UsageError(
            f"{folder / STATE}: cannot be read as what fleet wrote: {err}. Remove the folder."
        ) from err
    complete = all((folder / name).exists() for name in files)
    return {"machines": machines if complete else {}, "models": models if complete else {}, "files": files}


def _make_slug(model: str | None) -> str:
    """Return a CPU model as a file name; unlike a host's, it ends in a dot and digest."""
    words = re.sub(r"[^A-Za-z0-9]+", "-", model or "unknown").strip("-")[:40]
    return f"cpu-{words}.{hashlib.sha256((model or '').encode()).hexdigest()[:6]}"


def _digest(runs: object) -> str:
    return hashlib.sha256(json.dumps([_digest_code(), runs], sort_keys=True).encode()).hexdigest()[:32]


@cache
def _digest_code() -> str:
    here = Path(__file__).parent
    sources = [*sorted(here.glob("*.py")), *sorted((here / "templates").iterdir())]
    texts = b"".join(path.read_bytes() for path in sources)
    return hashlib.sha256(texts + f"{VERSION} {STATS_VERSION}".encode()).hexdigest()


def _write_file(folder: Path, name: str, data: str | bytes) -> str:
    path = folder / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise UsageError(f"{path.parent}: cannot be made: {err.strerror}.") from err
    write_output(path, [data], replace=True)
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def _render_machines(
    root: Root, hosts: Mapping[str, Sequence[RunSummary]], findings: Mapping[str, Findings]
) -> Iterator[tuple[Row, dict[str, str | bytes]]]:
    """Yield the index row and the files of each machine."""
    names = list(hosts)
    for start in range(0, len(names), _AT_ONCE):
        batch = names[start : start + _AT_ONCE]
        every = [run for host in batch for run in hosts[host]]
        past = mark_usual(root, load_overview_history(root, every, descriptions=merge_descriptions(every)))
        runs, _, cpus = read_runs(root, [hosts[host][-1].run_id for host in batch])
        pairs = as_float64(load_pairs(root, run_id=[run["run_id"] for run in runs]))
        for host, run in zip(batch, runs, strict=True):
            own = pairs[pairs["run_id"] == run["run_id"]].reset_index(drop=True)
            of_run = cpus[cpus["run_id"] == run["run_id"]].reset_index(drop=True)
            of_host = past[past["host_id"] == host]
            usual = compute_host_medians(of_host).rename(columns={"half": "spread"})
            cells = of_host.loc[of_host["run_id"] == run["run_id"], [*_CELL, "pairs"]]
            about = (of_run, own, of_host, usual.merge(cells, on=_CELL))
            file = _encode_medians(open_listing(root).place, run, own)
            yield _render_machine(
                run | {"runs": len(hosts[host])}, *about, findings.get(host, Findings()), file=file
            )


def _encode_medians(place: Place, run: Mapping[str, Any], pairs: pd.DataFrame) -> bytes | None:
    """Return a run's medians as `fleet export --medians --keep hostname` writes them, or None without any."""
    record = TableFile(place, samples_name(run["host_id"], run["run_id"]), "samples").record
    with tempfile.TemporaryDirectory() as folder, suppress(UsageError):
        path, descriptions = Path(folder, "medians.parquet"), read_descriptions(run["hello"])
        write_table(
            path, make_summary(anonymize(record, ("hostname",)).row, pairs, descriptions), lasting=False
        )
        return path.read_bytes()
    return None


def _render_summary(summary: tuple[str, pd.DataFrame]) -> tuple[Row, dict[str, str | bytes]]:
    """Return the index row and the files of a summary, a machine without runs."""
    run, cpus, pairs, foot = _decode_summary(summary[1])
    cells = relations(pairs).assign(run_id=run["run_id"], about="", since=None)
    return _render_machine(
        run | {"host_id": summary[0], "runs": 0}, cpus, pairs, cells, cells, Findings(), foot
    )


def _render_machine(
    run: dict[str, Any],
    cpus: pd.DataFrame,
    pairs: pd.DataFrame,
    past: pd.DataFrame,
    usual: pd.DataFrame,
    findings: Findings,
    foot: str | None = None,
    file: bytes | None = None,
) -> tuple[Row, dict[str, str | bytes]]:
    host, descriptions = run["host_id"], read_descriptions(run["hello"])
    accepted = findings.describe_acceptance(host)
    try:
        card = cards.lay_out_card(run, cpus, pairs, foot, accepted)
    except UsageError:  # it has no pairs of CPUs
        card = None
    kind = card.kind if card else ""
    shared = usual[(usual["benchmark"] + "/" + usual["variant"]) == kind].sort_values(
        "median_ns", kind="stable"
    )
    far = shared["relation"].iloc[-1] if len(shared) else ""
    course = past[(past["benchmark"] + "/" + past["variant"] == kind) & (past["relation"] == far)]
    row = Row(
        host=host,
        name=one_line(run["host_name"]),
        run=run["run_id"],
        date=f"{run['started_utc']:%Y-%m-%d}" if run["runs"] else "",
        model=one_line(run["cpu_model"] or "unknown CPU model"),
        slug=_make_slug(run["cpu_model"]),
        cpus=run["cpus_measured"],
        kernel=one_line(run["kernel"] or ""),
        benchmark=kind,
        shared=", ".join(
            f"{cell['relation']} {format_value(descriptions[cell['benchmark']], cell['median_ns'])}"
            for cell in to_records(shared)
        ),
        far=round(float(shared["median_ns"].iloc[-1]), 3) if len(shared) else None,
        memory=_find_level_number(usual, "chase", "mem", descriptions),
        bandwidth=_find_level_number(usual, "bandwidth", "mem", descriptions),
        course=_draw_runs(course["median_ns"].to_numpy(dtype=float)[-_COURSE:])
        if run["runs"]
        else run["interval"],
        runs=run["runs"],
        has_map=card is not None,
        marks=tuple(findings.marks.get(host, ())),
    )
    facts = [(name, str(run[name])) for name in _FACTS if run.get(name)]
    about = {
        "row": row,
        "facts": facts,
        "lines": _list_numbers(usual, past, descriptions),
        "card": card,
        "since": dict.fromkeys(since_text(cell) for cell in to_records(usual) if cell["since"]),
        "findings": findings.about_host(host),
        "accepted": accepted,
        "courses": findings.courses.get(host, ()),
    }
    html = _render_page("machine.html", title=row.name, size=COURSE_SIZE, file=file, **about)
    files: dict[str, str | bytes] = {f"m/{host}.html": html}
    if file:
        files[f"m/{host}.parquet"] = file
    if card is not None:
        files |= {f"card/{host}{suffix}": write(card) for suffix, write in cards.FORMATS.items()}
        files[f"map/{host}.png"] = cards.map_png(card.cells, min(_MAP, len(card.cells)))
    return row, files


def _draw_runs(values: Floats) -> str:
    return draw_sparkline(values) if len(values) > 1 else ""


def _find_level_number(
    last: pd.DataFrame, benchmark: str, level: str, descriptions: Descriptions
) -> float | None:
    """Return the best number of a memory level as shown: ns per load, or GB/s; None if not measured."""
    rows = last[(last["benchmark"] == benchmark) & (last["relation"] == level)]
    return (
        round(float(convert_to_shown(descriptions[benchmark], rows["median_ns"].min())), 3)
        if len(rows)
        else None
    )


def _list_numbers(
    usual: pd.DataFrame, past: pd.DataFrame, descriptions: Descriptions
) -> list[tuple[str, ...]]:
    """List each usual number: name, relation, number, ±95 %, pairs, runs, lowest, highest and course."""
    courses = {key: part["median_ns"].to_numpy(dtype=float) for key, part in past.groupby(_CELL, sort=False)}
    lines = []
    for row in to_records(usual):
        values = courses[tuple(row[key] for key in _CELL)]
        benchmark = descriptions[row["benchmark"]]
        ends = [
            format_value(benchmark, ns)
            for ns in sorted((values.min(), values.max()), reverse=is_rate(benchmark))
        ]
        name = f"{row['benchmark']}/{row['variant']} {row['about']}".rstrip("/ ")
        number = format_value(benchmark, row["median_ns"])
        counts = str(row["pairs"]), str(len(values))
        lines.append(
            (
                name,
                row["relation"],
                number,
                format_half_width(row["spread"]),
                *counts,
                *ends,
                _draw_runs(values),
            )
        )
    return lines


def _decode_summary(rows: pd.DataFrame) -> tuple[dict[str, Any], pd.DataFrame, pd.DataFrame, str]:
    """Decode a summary: its row of `runs`, with what else is known; its `cpus` and `pairs`; its card's foot.

    rows: of one summary. `spread` is NaN where the summary has no interval.
    """
    first = {name: None if is_none(value) else value for name, value in rows.iloc[0].items()}
    spread = compute_half_widths(rows)
    pairs = rows.assign(variant=rows["variant"].fillna(""), median_ns=rows["latency_ns"], spread=spread)
    pairs = pairs.reindex(columns=[column.name for column in schema.TABLES["pairs"]])
    numbers = dict.fromkeys(("bursts", "flagged_bursts", "p99_ns"), float("nan"))
    pairs = pairs.assign(run_id=f"{PREFIX}{first['summary']}", flags="", **numbers)
    names = ("cpu_model", "os", "conditions", "source")
    kinds: Sequence[str] = (pairs["benchmark"] + "/" + pairs["variant"]).unique().tolist()
    interval = "no interval" if spread.isna().all() else "with intervals"
    interval += ", relations guessed" if is_guessed(rows).any() else ""
    number = f"{first['tool']}'s {first['estimator'] or 'number'} of each pair"
    run = dict.fromkeys(column.name.removesuffix("_json") for column in schema.TABLES["runs"])
    run |= {name: first[name] for name in names} | {"number": number, "interval": interval, "hello": {}}
    run |= {"run_id": f"{PREFIX}{first['summary']}", "host_name": first["summary"], "benchmarks": kinds}
    run |= {"cpus_measured": len({*rows["ping_cpu"], *rows["pong_cpu"]})}
    foot = one_line(" · ".join(filter(None, (number, interval, first["conditions"], first["source"]))))
    return run, derive_cpus(rows), pairs, foot
