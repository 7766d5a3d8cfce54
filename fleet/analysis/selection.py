"""Selects stored runs by what people type: the same words for show, report, compare, runs and export.

A selection is a host, a glob, a range such as web[01-04], label=value, host@label=value (values may be
globs), a run id, the beginning of one or a glob, several of them joined by commas, or `all`; `!…` excludes.
"""

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

from fleet.errors import UsageError
from fleet.hostnames import expand_range
from fleet.model import RunState
from fleet.store import RunSummary, runs
from fleet.store.places import Place
from fleet.text import nearest, one_line

ALL = "all"
_SHOWN = 8


def select(listed: Sequence[RunSummary], texts: Sequence[str], place: Place) -> list[RunSummary]:
    """Runs that match any text and no `!text`, in their order; no text: all. Raises UsageError for no run."""
    wanted = [text for text in texts if not text.startswith("!")]
    unwanted = [text[1:] for text in texts if text.startswith("!")]
    chosen = {run_id for text in wanted or [ALL] for run_id in matching(listed, text, place)}
    chosen -= {run_id for text in unwanted for run_id in matching(listed, text, place)}
    if texts and not chosen:
        raise UsageError(f"{place}: the selection {' '.join(texts)!r} leaves no run. `fleet runs` lists all.")
    return [run for run in listed if run.run_id in chosen]


def matching(listed: Sequence[RunSummary], text: str, place: Place) -> set[str]:
    """The ids of the runs that one text means. Raises UsageError where there are none."""
    if text == ALL:
        return {run.run_id for run in listed}
    if any(run.run_id == text for run in listed):
        return {text}
    host, at, label = text.rpartition("@")
    if "=" in host:  # the @ is in the label's value
        host, at, label = "", "", text
    if "=" in label:
        return _labelled(listed, text, host if at else "*", label)
    if "," in text and "[" not in text:
        parts = {part for part in text.split(",") if part}
        ids = {run.run_id for run in listed} & parts
        return ids.union(*(matching(listed, part, place) for part in parts - ids))
    names = _host_matcher(text)
    found = {run.run_id for run in listed if names(run)}
    found = found or {run.run_id for run in listed if fnmatchcase(run.run_id, text)}
    return found or {runs.find(list(listed), text, place)}


def comparable(listed: Sequence[RunSummary]) -> list[RunSummary]:
    """Of runs of one host the published ones like the last: its benchmarks, CPU model and number of CPUs."""
    published = [run for run in listed if run.state is not RunState.UNFINISHED]
    return [run for run in published if _kind(run) == _kind(published[-1])]


def comparable_of_all(
    listed: Sequence[RunSummary], texts: Sequence[str], place: Place, benchmark: str | None = None
) -> list[RunSummary]:
    """Of each selected host the comparable runs of those with `benchmark`. Raises UsageError for none."""
    chosen = by_host(select(listed, texts, place)).values()
    every = [run for of_host in chosen for run in comparable(of_host)]
    found = [run for run in every if benchmark is None or has_measured(run, benchmark)]
    if not every:
        raise UsageError(f"{place}: no runs are stored here. `fleet run` measures; --results names a root.")
    if not found:
        there = ", ".join(sorted({kind for run in every for kind in run.benchmarks}))
        raise UsageError(f"--benchmark {benchmark}: not measured; there are {there or 'none'}.")
    return found


def has_measured(run: RunSummary, benchmark: str) -> bool:
    """Whether a run measured a benchmark, as `cas` or `cas/llsc`."""
    return any(benchmark in (kind, kind.partition("/")[0]) for kind in run.benchmarks)


def by_host(listed: Sequence[RunSummary]) -> dict[str, list[RunSummary]]:
    """The runs by host id, in their order."""
    found: dict[str, list[RunSummary]] = {}
    for run in listed:
        found.setdefault(run.host_id, []).append(run)
    return found


def _kind(run: RunSummary) -> tuple[object, ...]:
    return run.benchmarks, run.target, run.cpus, run.cpu_model


def _host_matcher(pattern: str) -> Callable[[RunSummary], bool]:
    """Whether a run is of a host that the pattern names: a name or id, a glob, or a range of them."""
    try:
        globs = expand_range(pattern)
    except ValueError as err:
        raise UsageError(f"the selection {pattern!r}: {err}") from err
    return lambda run: any(fnmatchcase(name, glob) for name in (run.host_name, run.host_id) for glob in globs)


def _labelled(listed: Sequence[RunSummary], text: str, host: str, label: str) -> set[str]:
    key, _, value = label.partition("=")
    names = _host_matcher(host)
    found = {
        run.run_id
        for run in listed
        if names(run) and any(k == key and (v == value or fnmatchcase(v, value)) for k, v in run.labels)
    }
    if not found:
        there = sorted({f"{k}={v}" for run in listed for k, v in run.labels})
        shown = ", ".join(there[:_SHOWN]) + (", …" if len(there) > _SHOWN else "")
        raise UsageError(
            one_line(f"no run has the label {text!r}{nearest(text, there)} Labels: {shown or 'none'}.")
        )
    return found
