"""Write a static site: an index, a page and card per machine, a page per CPU model, and
the changes.

See docs/report.md, "A site". Only pages whose content changed are rebuilt, and only
files that `.fleet-site.json` lists are ever replaced or removed. Equal runs give equal
bytes.
"""

import hashlib
import json
import re
import tempfile
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypedDict

import msgspec
import pandas as pd
from markupsafe import Markup

from fleet.analysis.base import text
from fleet.analysis.base.selection import group_by_host
from fleet.analysis.exchange.imports import (
    PREFIX,
    compute_half_widths,
    derive_cpus,
    is_guessed,
    load_imports,
)
from fleet.analysis.exchange.run_files import export_runs
from fleet.analysis.reduce.load import name_benchmarks, read_runs, select_choice
from fleet.analysis.reduce.numbers import (
    compute_numbers,
    list_relations,
    load_shown_numbers,
)
from fleet.analysis.reduce.pairs import STATS_VERSION, as_float64, load_pairs
from fleet.analysis.report import card as cards
from fleet.analysis.report.findings import Findings, HostFindings, find
from fleet.analysis.report.markup import (
    digest_for_policy,
    read_template,
    render_template,
)
from fleet.analysis.views.changes import CHANGE_TITLES
from fleet.analysis.views.sparkline import draw_sparkline
from fleet.analysis.views.usual import (
    UsualNumbers,
    list_last_changes,
    list_several_levels,
    load_usual_numbers,
)
from fleet.errors import UsageError
from fleet.inventory.expected import ExpectedRange
from fleet.model import SHIPPED, Benchmark, Descriptions, Relation, read_descriptions
from fleet.model.version import VERSION
from fleet.store import RunSummary, schema
from fleet.store.files import require_regular, write_output
from fleet.store.runs import Listing, Root, open_listing
from fleet.text import describe_msgspec_error, format_count, one_line

STATE = ".fleet-site.json"
_MAX_STATE_BYTES = 256 << 20  # a machine takes less than a kilobyte
_AT_ONCE = 16  # machines whose pairs are held
_MAP = 96  # pixels
_COURSE = 6  # runs of the index
_SHARED_FILES = ("index.html", "runs.json", "changes.html", "changes.xml")
_NUMBER_KEY = ["benchmark", "variant", "about", "relation"]  # what tells numbers apart
_SUMMARY = "~summary"  # ends the name of a summary's page: no host's ID has a ~
_OURS = re.compile(
    r"(index\.html|runs\.json|changes\.(html|xml)|(m|card|map|model)/[A-Za-z][\w.~-]*\.(html|svg|png|parquet))\Z"
)
_FACTS = (
    "kernel",
    "distribution",
    "governor",
    "microcode",
    "board",
    "firmware",
    "hypervisor",
    "number",
    "conditions",
    "source",
)
_MACHINE_TITLES = (
    "machine",
    "CPUs",
    "medians, ns",
    "memory, ns",
    "memory, GB/s",
    "kernel",
    "date",
    "runs",
)
_LINK = Markup('<a href="{}">{}</a>')
_TEMPLATES = Path(__file__).parent / "templates"

Files = dict[str, str | bytes]  # by name
Row = dict[str, Any]  # a machine as runs.json has it, from `_render_machine`
# A site as last written; `_StoredState` says what its tables hold.
State = dict[str, dict[str, Any]]


class _StoredRow(TypedDict):
    """A machine's row of the index, as `_render_machine` makes it.

    run: the ID of its last run, or the name of a summary. date: of that run, "" of a
    summary. slug: of the page of its CPU model. kernel: "" if unknown. benchmark: that
    of the card. shared: the medians of this benchmark in words, from `_list_medians`.
    far: the slowest of them, in ns. memory, bandwidth: the best numbers, in ns a load
    and GB/s. course: the last medians of the slowest relation as block characters; of
    a summary, whether it has intervals. runs: how many, 0 of a summary. marks: from
    `HostFindings`. Each number is None if it was not measured.
    """

    host: str
    name: str
    run: str | None
    date: str
    model: str
    slug: str
    cpus: int
    kernel: str
    benchmark: str | None
    shared: str
    far: float | None
    memory: float | None
    bandwidth: float | None
    course: str
    runs: int
    has_map: bool
    marks: list[str]


class _StoredState(TypedDict):
    """The file STATE. keys: digests of what the pages of machines and CPU models were
    made from, by host and by slug of the model. rows: by host. changes: as `_Change`,
    by slug of the model. files: the digest of each, by name.
    """

    keys: dict[str, str]
    rows: dict[str, _StoredRow]
    changes: dict[str, list[tuple[str, str, list[str], str]]]
    files: dict[str, str]


class _Change(NamedTuple):
    """A change of the machines of a CPU model. day: as YYYY-MM-DD. slug: of the model's
    page. cells: of a table (titles: `CHANGE_TITLES`).
    """

    day: str
    slug: str
    cells: list[str]
    model: str


_STATE_DECODER = msgspec.json.Decoder(_StoredState)


class _Section(NamedTuple):
    """A table of a page. heading: "" for none. note: a sentence above the table."""

    heading: str
    note: str
    titles: Sequence[str]
    lines: Sequence[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class _Machine:
    """A machine of the site. digest: of what is stored of it. summary: its rows, if it
    is a summary, which has no runs.
    """

    host: str
    cpu_model: str | None
    digest: str
    runs: Sequence[RunSummary] = ()
    summary: pd.DataFrame | None = None


@dataclass(frozen=True, slots=True)
class _News:
    """What the site does not have yet, or has differently.

    digests: `keys` of `_StoredState`, of all pages. changed_machines: those to be made
    anew. findings: of each CPU model to be made anew, by slug. findings_by_host: those
    about the machines of these models.
    """

    digests: dict[str, str]
    changed_machines: Sequence[_Machine]
    findings: Mapping[str, Findings]
    findings_by_host: Mapping[str, HostFindings]


def write_site(
    root: Root,
    runs: Sequence[RunSummary],
    folder: Path,
    title: str | None = None,
    summaries: Mapping[str, pd.DataFrame] = MappingProxyType({}),
    heading: str = "",
    ranges: Sequence[ExpectedRange] = (),
) -> str:
    """Write the site about these runs and summaries into `folder`; return how much was
    written, in words.

    summaries: rows by name. heading: from `render_heading`, for the index. ranges: what
    is expected of machines. Raise UsageError if a file that fleet did not write is in
    the way.
    """
    # find what the site lacks, before anything is written
    listing = open_listing(root)
    site_before = _read_state(folder)
    files_before = site_before["files"]
    machines = _list_machines(runs, summaries)
    news = _find_news(listing, machines, ranges, site_before["keys"])
    _require_own_files(folder, news.changed_machines, files_before)

    site = _keep_unchanged(site_before, news)
    _write_machines(listing, folder, site, news)
    rows = _sort_rows(site["rows"].values())
    _write_models(folder, site, news, rows)
    index_files = _render_index_files(rows, _sort_changes(site), title, heading)
    for name, content in index_files:
        digest_before = files_before.get(name)
        site["files"][name] = _write_file(folder, name, content, digest_before)

    _remove_files(folder, files_before.keys() - site["files"].keys())
    _write_state(folder, site)
    machine_count = format_count(len(rows), "machine")
    anew_count = len(news.changed_machines)
    file_count = len(site["files"])
    return (
        f"{folder}: {machine_count}, {anew_count} of them made anew, {file_count} files"
    )


def _remove_files(folder: Path, names: Iterable[str]) -> None:
    """Remove files of machines and CPU models that the site has no more."""
    for name in names:
        (folder / name).unlink(missing_ok=True)


def _write_machines(listing: Listing, folder: Path, site: State, news: _News) -> None:
    """Write the files of the machines to be made anew, and add them to `site`."""
    for row, machine_files in _render_changed(listing, news):
        site["rows"][row["host"]] = row
        for name, data in machine_files.items():
            site["files"][name] = _write_file(folder, name, data)


def _sort_rows(rows: Iterable[Row]) -> list[Row]:
    """Sort machines by CPU model, then by name."""
    return sorted(rows, key=itemgetter("model", "name", "host"))


def _sort_changes(site: State) -> list[_Change]:
    """Return the changes of all CPU models, oldest first."""
    # read from a file, a change is a list of the fields of `_Change`
    all_fields = chain.from_iterable(site["changes"].values())
    return sorted(_Change(*fields) for fields in all_fields)


def _write_models(folder: Path, site: State, news: _News, rows: Sequence[Row]) -> None:
    """Write the page of each CPU model to be made anew, and add the file and the
    changes of the model to `site`. rows: a row per machine of the whole site.
    """
    for slug, findings in news.findings.items():
        members = [row for row in rows if row["slug"] == slug]
        model = members[0]["model"]
        site["changes"][slug] = _list_changes(slug, model, findings)
        name = f"model/{slug}.html"
        page = _render_model(model, members, findings)
        site["files"][name] = _write_file(folder, name, page)


def _list_changes(slug: str, model: str, findings: Findings) -> list[_Change]:
    """List the changes of a CPU model, as `_StoredState` has them."""
    changes = []
    for day, cells in findings.changes:
        change = _Change(day=day, slug=slug, cells=list(cells), model=model)
        changes.append(change)
    return changes


def _list_machines(
    runs: Sequence[RunSummary], summaries: Mapping[str, pd.DataFrame]
) -> list[_Machine]:
    """List the machines of runs, then the summaries, each as a machine whose name ends
    in _SUMMARY. runs: of all hosts. summaries: rows by the name of a summary.
    """
    machines = []
    for host, runs_of_host in group_by_host(runs).items():
        ids_and_labels = [(run.run_id, run.labels) for run in runs_of_host]
        machine = _Machine(
            host=host,
            cpu_model=runs_of_host[-1].cpu_model,
            digest=_digest(ids_and_labels),
            runs=runs_of_host,
        )
        machines.append(machine)
    for name, rows in summaries.items():
        models = rows["cpu_model"].dropna()
        machine = _Machine(
            host=f"{name}{_SUMMARY}",
            cpu_model=next(iter(models), None),
            digest=_digest(rows.to_csv()),
            summary=rows,
        )
        machines.append(machine)
    return machines


def _find_news(
    listing: Listing,
    machines: Sequence[_Machine],
    ranges: Sequence[ExpectedRange],
    keys_before: Mapping[str, str],
) -> _News:
    """Find which pages of CPU models and machines are to be made anew. The key of a
    page is a digest of all that the page is made from. A page is made anew if its key
    differs from that in `keys_before`.

    keys_before: the keys of the site as last written, by slug of a CPU model and by
    host. A machine's page also has the findings about the machine. Findings come from
    the runs of all machines of a model, so they are sought only where the key of the
    model differs.
    """
    # all imported summaries count: runs of any model may be compared with them
    imported = load_imports(listing).to_csv()
    key_by_slug = dict[str, str]()
    findings = dict[str, Findings]()
    findings_by_host = dict[str, HostFindings]()
    for slug, members in _group_by_model(machines).items():
        digests = [machine.digest for machine in members]
        key_by_slug[slug] = _digest(digests, ranges, imported)
        if keys_before.get(slug) != key_by_slug[slug]:
            findings[slug] = _find_findings(listing, members, ranges)
            findings_by_host |= _share_out_findings(findings[slug], members)
    key_by_host = dict[str, str]()
    for machine in machines:
        host = machine.host
        # it has all machines of the models whose keys differ
        if host in findings_by_host:
            key_by_host[host] = _digest(machine.digest, findings_by_host[host])
        else:
            # the key of its model is as before; that key has the machine's digest and
            # all that findings are made from, so the machine's key is as before, too
            key_by_host[host] = keys_before[host]
    changed = [
        machine
        for machine in machines
        if keys_before.get(machine.host) != key_by_host[machine.host]
    ]
    return _News(
        digests=key_by_slug | key_by_host,
        changed_machines=changed,
        findings=findings,
        findings_by_host=findings_by_host,
    )


def _group_by_model(machines: Sequence[_Machine]) -> dict[str, list[_Machine]]:
    """Group machines by the slug of their CPU model."""
    models = defaultdict[str, list[_Machine]](list)
    for machine in machines:
        models[_make_slug(machine.cpu_model)].append(machine)
    return models


def _find_findings(
    listing: Listing, machines: Sequence[_Machine], ranges: Sequence[ExpectedRange]
) -> Findings:
    """Find what there is to say of the runs of all these machines."""
    run_ids = [run.run_id for machine in machines for run in machine.runs]
    return find(listing, [",".join(run_ids)], ranges=ranges)


def _share_out_findings(
    findings: Findings, machines: Sequence[_Machine]
) -> dict[str, HostFindings]:
    """Return the findings about each of these machines, by host; empty ones for a
    machine that nothing is said of.
    """
    findings_by_host = {}
    for machine in machines:
        own_findings = findings.hosts.get(machine.host, HostFindings())
        findings_by_host[machine.host] = own_findings
    return findings_by_host


def _require_own_files(
    folder: Path, changed: Sequence[_Machine], own: Mapping[str, str]
) -> None:
    """Raise UsageError if a file to be written is there and is not of this site.

    changed: machines whose pages are to be written. own: the files of the site as last
    written, with their digests, by name.
    """
    pages = [f"m/{machine.host}.html" for machine in changed]
    for name in (*_SHARED_FILES, *pages):
        if name not in own and (folder / name).exists():
            raise UsageError(
                f"{folder / name}: not made by fleet; it was not changed. Name another"
                " folder."
            )


def _keep_unchanged(before: State, news: _News) -> State:
    """Return the site with what stays of its machines and CPU models.

    All the tables but `files` are by page: by the host of a machine, or by the slug of
    a CPU model. A file of a page is called after it: "card/rome.svg".
    """
    changed_hosts = {machine.host for machine in news.changed_machines}
    changed_slugs = news.findings.keys()
    all_pages = news.digests.keys()
    unchanged = all_pages - changed_hosts - changed_slugs
    site = _make_empty_state()
    site["keys"] = news.digests  # of the pages that are made anew, too
    for table in ("rows", "changes"):
        for page, content in before[table].items():
            if page in unchanged:
                site[table][page] = content
    for file_name, digest in before["files"].items():
        page = Path(file_name).stem
        if page in unchanged:
            site["files"][file_name] = digest
    return site


def _make_empty_state() -> State:
    """Return the state of a site without any page."""
    return {"keys": {}, "rows": {}, "changes": {}, "files": {}}


def _render_changed(listing: Listing, news: _News) -> Iterator[tuple[Row, Files]]:
    """Yield the index row and the files of each machine to be made anew."""
    runs_by_host = {}
    summaries = {}
    for machine in news.changed_machines:
        if machine.summary is None:
            runs_by_host[machine.host] = machine.runs
        else:
            summaries[machine.host] = machine.summary
    yield from _render_machines(listing, runs_by_host, news.findings_by_host)
    for host, rows in summaries.items():
        yield _render_summary(host, rows)


def _render_model(model: str, rows: Sequence[Row], findings: Findings) -> str:
    """Render the page of a CPU model: a table of its machines, then a table of findings
    for each question. rows: those of its machines in the index.
    """
    machines = _Section(
        heading="Machines",
        note="Numbers that are usual since the last change of each.",
        titles=_MACHINE_TITLES,
        lines=list(_format_machine_cells(rows)),
    )
    sections = [machines]
    for answer in findings.answers:
        section = _Section(
            heading=answer.question,
            note=answer.headline,
            titles=("finding", "95 % interval, and what else"),
            lines=[(finding.title, finding.text) for finding in answer.findings],
        )
        sections.append(section)
    return _render_page("tables.html", title=model, up="../", sections=sections)


def _write_state(folder: Path, site: State) -> None:
    """Write STATE, its tables in the order of their names."""
    ordered = {}
    for name, table in site.items():
        ordered[name] = dict(sorted(table.items()))
    _write_file(folder, STATE, json.dumps(ordered, indent=0))


def _render_index_files(
    rows: Sequence[Row], changes: Sequence[_Change], title: str | None, heading: str
) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each file about all machines. rows: sorted by CPU
    model. changes: oldest first.
    """
    count = format_count(len(rows), "machine")
    subject = title or f"Core-to-core latency and memory of {count}"
    yield "index.html", _render_index(rows, len(changes), subject, heading)
    yield "runs.json", json.dumps(rows, indent=0, ensure_ascii=False)
    newest_first = list(reversed(changes))
    yield "changes.html", _render_changes(newest_first)
    entries = [_make_feed_entry(change) for change in newest_first]
    yield "changes.xml", render_template("changes.xml", title=subject, entries=entries)


def _render_index(
    rows: Sequence[Row], change_count: int, title: str, heading: str
) -> str:
    """Render the index: a line per machine, in groups of one CPU model, and a column
    for each relation that some machine has. rows: sorted by CPU model.

    A cell of such a column has texts, such as "P-P 37.7" and "P-E 42.7" in the column
    "package".
    """
    rows_by_model = groupby(rows, key=itemgetter("model"))
    # the texts of the cells, by host and relation; `shared` is text of all medians,
    # such as "smt 6.0, package P-P 37.7"
    medians = {row["host"]: _group_medians(row["shared"]) for row in rows}
    measured = set(chain.from_iterable(medians.values()))  # names of relations
    days = [row["date"] for row in rows]
    return _render_page(
        "site.html",
        medians=medians,
        relations=[relation for relation in Relation if relation in measured],
        title=title,
        heading=heading,
        groups=[(model, list(own_rows)) for model, own_rows in rows_by_model],
        until=max(days, default=""),
        changes=change_count,
    )


def _make_feed_entry(change: _Change) -> tuple[str, str, str, str, list[str]]:
    """Return the ID, day, page, CPU model and cells of a change, for the feed."""
    identity = _identify_change(change.slug, change.cells)
    page = f"model/{change.slug}.html"
    return identity, change.day, page, change.model, change.cells


def _render_changes(changes: Sequence[_Change]) -> str:
    """Render the page of all changes, a line each, in the order given. A line is a link
    to the CPU model, then the cells of the change.
    """
    lines = []
    for change in changes:
        link = _LINK.format(f"model/{change.slug}.html", change.model)
        lines.append((link, *change.cells))
    section = _Section(
        heading="",
        # the share of false changes is limited among those of each model, not among
        # all lines of the page
        note="Of each CPU model at one error rate.",
        titles=("CPU model", *CHANGE_TITLES),
        lines=lines,
    )
    return _render_page(
        "tables.html", title="What changed when", up="", sections=[section]
    )


def _identify_change(slug: str, cells: Sequence[str]) -> str:
    """Return the ID of a change in the feed. It lasts as long as the change's words."""
    identity = json.dumps([slug, cells], ensure_ascii=False)
    return uuid.uuid5(uuid.NAMESPACE_OID, identity).urn


def _format_machine_cells(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each machine's line in the table of a model (titles:
    _MACHINE_TITLES). In the column of runs, a summary, which has no runs, says whether
    it has intervals: those words are its `course`.
    """
    for row in rows:
        link = _LINK.format(f"../m/{row['host']}.html", row["name"])
        memory = _format_memory_number(row["memory"])
        bandwidth = _format_memory_number(row["bandwidth"])
        runs = str(row["runs"])
        is_summary = row["runs"] == 0
        if is_summary:
            runs = row["course"]  # such as "no interval"
        yield (
            link,
            str(row["cpus"]),
            row["shared"],  # the medians
            memory,
            bandwidth,
            row["kernel"],
            row["date"],
            runs,
        )


def _format_memory_number(number: float | None) -> str:
    return "" if number is None else f"{number:.1f}"


def _render_page(name: str, **values: Any) -> str:
    """Render a page of the site; its content security policy allows only its own style
    and script.
    """
    # each begins on a line of its own, and its digest is of all between the tags
    style = "\n" + read_template("base.css") + read_template("site.css")
    script = "\n" + read_template("site.js")
    return render_template(
        name,
        style=Markup(style),  # noqa: S704  (our own file)
        script=Markup(script),  # noqa: S704  (our own file)
        style_digest=digest_for_policy(style),
        script_digest=digest_for_policy(script),
        **values,
    )


def _read_state(folder: Path) -> State:
    """Read the site's state in the folder, or return an empty one. Raises UsageError if
    it cannot be read.

    If a file of the site is missing, only `files` is filled, so that all pages are
    written anew.
    """
    path = folder / STATE
    if not path.exists():
        return _make_empty_state()
    state: State = _decode_state(path)
    # `write_site` deletes listed files that it no longer has: list no other names
    names = [name for name in state["files"] if _OURS.match(name)]
    files = {name: state["files"][name] for name in names}
    is_complete = all((folder / name).exists() for name in names)
    if not is_complete:
        state = _make_empty_state()
    return state | {"files": files}


def _decode_state(path: Path) -> Any:
    """Read the file STATE. Raises UsageError if it cannot be read."""
    try:
        require_regular(str(path))
        with path.open("rb") as stream:
            # a file of more bytes is cut off, and does not decode
            data = stream.read(_MAX_STATE_BYTES)
        return _STATE_DECODER.decode(data)
    except OSError as err:
        raise _refuse_state(path, err) from err
    except msgspec.DecodeError as err:
        raise _refuse_state(path, describe_msgspec_error(err)) from err


def _refuse_state(path: Path, cause: object) -> UsageError:
    return UsageError(
        f"{path} is not what fleet wrote: {cause}. Remove the folder, or name another."
    )


def _make_slug(model: str | None) -> str:
    """Return a file name for a CPU model. Unlike a host's, it ends in a dot and a
    digest.
    """
    words = re.sub(r"[^A-Za-z0-9]+", "-", model or "unknown").strip("-")
    digest = hashlib.sha256((model or "").encode()).hexdigest()
    return f"cpu-{words[:40]}.{digest[:6]}"


def _digest(*parts: object) -> str:
    """Return a digest of some values and of the code that makes pages of them."""
    content = repr((_digest_code(), parts))
    digest = hashlib.sha256(content.encode()).hexdigest()
    return digest[:32]


@cache
def _digest_code() -> str:
    """Return a digest of the modules and templates that make pages, and of the versions
    of fleet and of its statistics. It is a part of the key of every page: if it
    differs, every page is made anew.
    """
    modules = sorted(Path(__file__).parent.glob("*.py"))
    templates = sorted(_TEMPLATES.iterdir())
    digest = hashlib.sha256()
    for path in modules + templates:
        digest.update(path.read_bytes())
    digest.update(f"{VERSION} {STATS_VERSION}".encode())
    return digest.hexdigest()


def _write_file(
    folder: Path, name: str, data: str | bytes, written: str | None = None
) -> str:
    """Write a file unless it is there and `written` is the digest of `data`; return the
    digest of `data`.
    """
    path = folder / name
    content = data.encode() if isinstance(data, str) else data
    digest = hashlib.sha256(content).hexdigest()
    if digest == written and path.exists():
        return digest
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise UsageError(f"{path.parent}: cannot be made: {err.strerror}.") from err
    write_output(path, [data], replace=True)
    return digest


def _render_machines(
    listing: Listing,
    hosts: Mapping[str, Sequence[RunSummary]],
    findings: Mapping[str, HostFindings],
) -> Iterator[tuple[Row, Files]]:
    """Yield the index row and the files of each machine. hosts: the runs of each."""
    all_items = list(hosts.items())
    for start in range(0, len(all_items), _AT_ONCE):
        batch = dict(all_items[start : start + _AT_ONCE])
        yield from _render_batch(listing, batch, findings)


def _render_batch(
    listing: Listing,
    hosts: Mapping[str, Sequence[RunSummary]],
    findings: Mapping[str, HostFindings],
) -> Iterator[tuple[Row, Files]]:
    """Yield the index row and the files of machines that are read together. hosts: the
    runs of each, oldest first.
    """
    all_runs = list(chain(*hosts.values()))
    last_ids = [runs[-1].run_id for runs in hosts.values()]
    numbers = load_usual_numbers(listing, all_runs)
    last_runs, _, cpus = read_runs(listing, last_ids)  # in the order of these IDs
    pairs = as_float64(load_pairs(listing, run_id=last_ids))
    for host, last_run in zip(hosts, last_runs, strict=True):
        run_id = last_run["run_id"]
        usual, past = _select_numbers(numbers, host, run_id)
        card = _lay_out_card(
            last_run,
            cpus=_select_run(cpus, run_id),
            pairs=_select_run(pairs, run_id),
            numbers=load_shown_numbers(listing, [last_run]),
            accepted=findings[host].accepted,
        )
        yield _render_machine(
            last_run | {"runs": len(hosts[host])},
            card,
            past=past,
            usual=usual,
            findings=findings[host],
            file=_encode_medians(listing, run_id),
        )


def _select_numbers(
    numbers: UsualNumbers, host: str, run_id: str
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a host's usual numbers, a row each, with the count of `pairs` in this run;
    then its numbers in all runs, a row per number and run, oldest first.
    """
    table, past, _ = numbers.select_host(host)
    usual = table.rename(columns={"half": "spread"})
    numbers_of_run = past[past["run_id"] == run_id]
    counts = numbers_of_run[[*_NUMBER_KEY, "pairs"]]
    return usual.merge(counts, on=_NUMBER_KEY), past


def _select_run(table: pd.DataFrame, run_id: str) -> pd.DataFrame:
    """Return the rows of a run."""
    rows: pd.DataFrame = table[table["run_id"] == run_id]
    return rows.reset_index(drop=True)


def _encode_medians(listing: Listing, run_id: str) -> bytes | None:
    """Return a run's medians as `fleet export --medians --keep hostname` writes them,
    or None without any.
    """
    with tempfile.TemporaryDirectory() as folder, suppress(UsageError):
        path = Path(folder, "medians.parquet")
        export_runs(listing, [run_id], path, ("hostname",), medians=True)
        return path.read_bytes()
    return None


def _lay_out_card(run: dict[str, Any], **about: Any) -> cards.Card | None:
    """Return the card of a run, None if it has neither pairs of CPUs nor NUMA nodes.
    about: the other arguments of `cards.lay_out_card`.
    """
    with suppress(UsageError):
        return cards.lay_out_card(run, **about)
    return None


def _render_machine(
    run: dict[str, Any],
    card: cards.Card | None,
    past: pd.DataFrame,
    usual: pd.DataFrame,
    findings: HostFindings,
    file: bytes | None = None,
) -> tuple[Row, Files]:
    """Return the index row and the files of a machine, or of a summary, which has no
    runs.

    run: the machine's last run; its key `runs` says how many runs the machine has, 0
    for a summary. card: None if the run has no matrix to show. past: the machine's
    numbers in all runs, a row per number and run. usual: its usual numbers, a row each.
    Both are from `_select_numbers`. findings: those about this machine. file: the
    Parquet file of `_encode_medians`, to be offered on the page; None without medians.
    """
    host = run["host_id"]
    descriptions = read_descriptions(run["hello"])
    row = _make_row(run, card, usual, past, descriptions)
    row["marks"] = findings.marks
    known_facts = [name for name in _FACTS if run.get(name)]
    html = _render_page(
        "machine.html",
        title=row["name"],
        row=row,
        facts=[(name, str(run[name])) for name in known_facts],
        lines=_list_usual_numbers(usual, past, descriptions),
        card=card,
        since=list_last_changes(usual),
        levels=list_several_levels(usual, descriptions, names_host=False),
        findings=findings,
        file=file,
    )
    files: Files = {f"m/{host}.html": html}
    if file:
        files[f"m/{host}.parquet"] = file
    if card is not None:
        files |= _render_pictures(host, card)
    return row, files


def _render_pictures(host: str, card: cards.Card) -> Files:
    """Return the files of a card, and its map as a small picture for the index."""
    pictures: Files = {}
    for suffix, write in cards.FORMATS.items():
        pictures[f"card/{host}{suffix}"] = write(card)
    side = min(_MAP, len(card.cells))  # a small map has a pixel per cell
    pictures[f"map/{host}.png"] = cards.to_png(card.cells, side)
    return pictures


def _make_row(
    run: dict[str, Any],
    card: cards.Card | None,
    usual: pd.DataFrame,
    past: pd.DataFrame,
    descriptions: Descriptions,
) -> Row:
    """Return a machine's row of the index, as `_StoredRow`, without its marks. run,
    usual, past: as in `_render_machine`.

    The row's medians are of the benchmark and variant that the card shows: `shared`
    lists them in words, the fastest relation first; `far` is the slowest of them. A
    machine without a card has no medians.
    """
    is_summary = run["runs"] == 0
    choice = card.choice if card else ""
    medians = select_choice(usual, choice).sort_values("median_ns", kind="stable")
    slowest_relation, slowest_ns = _find_slowest(medians)
    return {
        "host": run["host_id"],
        "name": one_line(run["host_name"]),
        "run": run["run_id"],
        "date": "" if is_summary else f"{run['started_utc']:%Y-%m-%d}",
        "model": one_line(run["cpu_model"] or "unknown CPU model"),
        "slug": _make_slug(run["cpu_model"]),
        "cpus": run["cpus_measured"],
        "kernel": one_line(run["kernel"] or ""),
        "benchmark": choice,
        "shared": _list_medians(medians, descriptions),
        "far": slowest_ns,
        "memory": _find_best_memory_number(usual, "chase", descriptions),
        "bandwidth": _find_best_memory_number(usual, "bandwidth", descriptions),
        "course": _describe_course(run, past, choice, slowest_relation),
        "runs": run["runs"],
        "has_map": card is not None,
    }


def _find_slowest(medians: pd.DataFrame) -> tuple[str, float | None]:
    """Return the slowest relation and its median in ns; ("", None) without medians.
    medians: a row per relation, the fastest first.
    """
    if medians.empty:
        return "", None
    last = medians.iloc[-1]
    return last["relation"], round(float(last["median_ns"]), 3)


def _describe_course(
    run: Mapping[str, Any], past: pd.DataFrame, choice: str, relation: str
) -> str:
    """Draw a relation's last medians as blocks; of a summary, which has no runs, say
    whether it has intervals.
    """
    if not run["runs"]:
        return str(run["interval"])
    numbers = select_choice(past, choice)
    medians = numbers.loc[numbers["relation"] == relation, "median_ns"]
    return _draw_sparkline(medians.iloc[-_COURSE:])


def _list_medians(usual: pd.DataFrame, descriptions: Descriptions) -> str:
    """List relations with their usual numbers: "smt 6.0, package 43.4"."""
    words = []
    for row in text.to_records(usual):
        benchmark = descriptions[row["benchmark"]]
        median = text.format_value(benchmark, row["median_ns"])
        words.append(f"{row['relation']} {median}")
    return ", ".join(words)


def _group_medians(medians_in_words: str) -> defaultdict[str, list[str]]:
    """Group what `_list_medians` lists by the relation without kinds of cores:
    "package" has "P-P 37.7" and "P-E 42.7".
    """
    medians = defaultdict[str, list[str]](list)
    for words in filter(None, medians_in_words.split(", ")):
        relation, _, rest = words.partition(" ")
        medians[relation].append(rest)
    return medians


def _draw_sparkline(medians: "pd.Series[float]") -> str:
    """Draw medians as blocks; "" for a single one."""
    if len(medians) < 2:
        return ""
    return draw_sparkline(medians.to_numpy(dtype=float))


def _find_best_memory_number(
    usual: pd.DataFrame, benchmark: str, descriptions: Descriptions
) -> float | None:
    """Return a machine's best memory number, in ns per load or GB/s; None if memory was
    not measured. The best number is that of the shortest time, which is also the
    highest rate.

    usual: the machine's usual numbers; their relation "mem" is memory beyond all
    caches. benchmark: "chase" or "bandwidth".
    """
    is_of_benchmark = usual["benchmark"] == benchmark
    is_memory = usual["relation"] == "mem"
    medians = usual.loc[is_of_benchmark & is_memory, "median_ns"]
    if medians.empty:
        return None
    shortest = medians.min()
    number = text.convert_to_shown(descriptions[benchmark], shortest)
    return round(float(number), 3)


def _list_usual_numbers(
    usual: pd.DataFrame, past: pd.DataFrame, descriptions: Descriptions
) -> list[tuple[str, ...]]:
    """Return the lines of the table of usual numbers: name, relation, usual number, ±95
    %, pairs, runs, lowest, highest, and the medians of all runs as block characters.

    past: a row per number and run, from which the last four cells are made.
    """
    by_number = past.groupby(_NUMBER_KEY, sort=False)
    medians_by_number = dict(iter(by_number["median_ns"]))
    lines = list[tuple[str, ...]]()
    for row in text.to_records(usual):
        key = tuple(row[name] for name in _NUMBER_KEY)
        medians = medians_by_number[key]
        benchmark = descriptions[row["benchmark"]]
        lines.append(_format_usual_number(row, medians, benchmark))
    return lines


def _format_usual_number(
    row: Mapping[str, Any], medians: "pd.Series[float]", benchmark: Benchmark
) -> tuple[str, ...]:
    """Format the line of a usual number, with the cells that `_list_usual_numbers`
    lists. row: the usual number. medians: the same number in each run, oldest first.
    """
    name = f"{row['benchmark']}/{row['variant']} {row['about']}".rstrip("/ ")
    shortest = text.format_value(benchmark, medians.min())
    longest = text.format_value(benchmark, medians.max())
    lowest_and_highest = (shortest, longest)
    if text.is_rate(benchmark):  # the longest time is the lowest rate
        lowest_and_highest = (longest, shortest)
    return (
        name,
        row["relation"],
        text.format_value(benchmark, row["median_ns"]),
        text.format_half_width(row["spread"]),
        str(row["pairs"]),
        str(len(medians)),
        *lowest_and_highest,
        _draw_sparkline(medians),
    )


def _render_summary(host: str, rows: pd.DataFrame) -> tuple[Row, Files]:
    """Return the index row and the files of a summary. The `spread` of a pair without
    interval is NaN.
    """
    run = _make_run(host, rows)
    pairs = _make_pairs(rows, run["run_id"])
    run["benchmarks"] = name_benchmarks(pairs).unique().tolist()
    run["interval"] = _describe_intervals(rows, pairs)
    # what the number of each pair is, whether it has an interval, and so on
    notes = [run[name] for name in ("number", "interval", "conditions", "source")]
    cpus = derive_cpus(rows)
    numbers = compute_numbers(pairs, cpus, SHIPPED)
    card = _lay_out_card(
        run,
        cpus=cpus,
        pairs=pairs,
        numbers=numbers,
        foot=one_line(" · ".join(filter(None, notes))),
    )
    # a summary is like a single run: its numbers are also the usual ones
    usual = _make_usual_numbers(numbers)
    no_findings = HostFindings()
    return _render_machine(run, card, past=usual, usual=usual, findings=no_findings)


def _make_usual_numbers(numbers: pd.DataFrame) -> pd.DataFrame:
    """Return a summary's numbers with the columns of usual numbers that only runs
    have: no change is known, and no second level.
    """
    usual = list_relations(numbers, SHIPPED).assign(about="", since=None)
    usual["levels"] = [()] * len(usual)
    return usual


def _describe_intervals(rows: pd.DataFrame, pairs: pd.DataFrame) -> str:
    """Say whether a summary has intervals, and whether its relations are guessed.
    pairs: from `_make_pairs`.
    """
    words = "with intervals"
    if pairs["spread"].isna().all():
        words = "no interval"
    if is_guessed(rows).any():
        words += ", relations guessed"
    return words


def _make_pairs(rows: pd.DataFrame, run_id: str) -> pd.DataFrame:
    """Return a summary's rows as rows of the table `pairs`.

    A summary is an imported table of pairs, mostly measured by another tool. Columns of
    `pairs` that a summary does not have are NaN, and no pair has a flag. rows: a row
    per pair.
    """
    pairs = rows.assign(
        variant=rows["variant"].fillna(""),
        median_ns=rows["latency_ns"],
        spread=compute_half_widths(rows),
    )
    all_columns = [column.name for column in schema.TABLES["pairs"]]
    pairs = pairs.reindex(columns=all_columns)
    pairs["run_id"] = run_id
    pairs["flags"] = ""
    return pairs


def _make_run(host: str, rows: pd.DataFrame) -> dict[str, Any]:
    """Return a summary as a row of the table `runs`, with None for what the summary
    does not tell.

    The result has two keys that a run's row lacks. `runs` is 0, for a summary has no
    runs. `number` says what the number of each pair is: "core-latency's median of each
    pair". host: the name of the summary's page, which stands in for the ID of a host.
    rows: those of the summary, a row per pair.
    """
    # what is known of the whole summary is the same in all its rows
    first = {
        name: None if text.is_none(value) else value
        for name, value in rows.iloc[0].items()
    }
    columns = [column.name.removesuffix("_json") for column in schema.TABLES["runs"]]
    run: dict[str, Any] = dict.fromkeys(columns)
    for name in ("cpu_model", "os", "conditions", "source"):
        run[name] = first[name]
    run["run_id"] = f"{PREFIX}{first['summary']}"
    run["host_id"] = host
    run["host_name"] = first["summary"]
    run["runs"] = 0
    run["hello"] = {}
    cpus = {*rows["ping_cpu"], *rows["pong_cpu"]}
    run["cpus_measured"] = len(cpus)
    estimator = first["estimator"] or "number"
    run["number"] = f"{first['tool']}'s {estimator} of each pair"
    return run
