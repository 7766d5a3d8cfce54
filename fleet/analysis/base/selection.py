"""Select stored runs by what users type; show, report, compare, runs and export share
this syntax.

A selection is a host, a glob, a range such as web[01-04], label=value, host@label=value
(values may be globs), age>7d, a run ID, the beginning of one, a list of these with
commas, or `all`. `!…` excludes.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase, translate
from itertools import chain
from operator import attrgetter

from fleet.analysis.base.run_facts import read_facts
from fleet.errors import DamagedFileError, UsageError
from fleet.hostnames import expand_range
from fleet.model import InputError, RunState
from fleet.plan.benchmark_names import (
    BenchmarkName,
    describe_unmeasured_benchmark,
    parse_benchmark_names,
)
from fleet.plan.conditions import Condition, parse_condition
from fleet.plan.grammars import parse_age_condition
from fleet.store import Failure, Listing, RunSummary, Store
from fleet.store.files import store_errors
from fleet.store.places import Place
from fleet.store.runs import list_unfinished
from fleet.store.writing import SUMMARIES
from fleet.text import one_line, suggest_similar

ALL = "all"
_NEWEST_SHOWN = 5
_END_OF_CLAUSE = re.compile(r" \(|[.?!:;,]\s|[.?!]$")


def select_runs(
    all_runs: Sequence[RunSummary], texts: Sequence[str], root: Listing
) -> list[RunSummary]:
    """Return, in order, runs that match any of the texts, or all runs without a text,
    and that match no text of the form `!text`. Raises UsageError if the texts select no
    run.
    """
    included = [text for text in texts if not text.startswith("!")]
    excluded = [text[1:] for text in texts if text.startswith("!")]
    run_ids = _match_any(all_runs, included or [ALL], root)
    # a text that excludes damaged runs is no error while other runs are selected
    if excluded:
        run_ids -= _match_any(all_runs, excluded, root, selected_ids=run_ids)
    if texts and not run_ids:
        if not all_runs:
            raise UsageError(_describe_empty_root(root.place))
        raise UsageError(
            f"{root}: the selection {' '.join(texts)!r} leaves no run. `fleet runs`"
            " lists all."
        )
    return [run for run in all_runs if run.run_id in run_ids]


def match_runs(all_runs: Sequence[RunSummary], text: str, root: Listing) -> set[str]:
    """Return the IDs of the runs that a text selects. Raises UsageError if none match,
    except for `all` and ages.

    These forms are tried in order: `all`; a run ID; an age ("age>7d"); a condition
    ("label=value", "smt=on"); a list with commas; a host, glob or range of hosts
    ("web[01-04]"); a glob of run IDs; and the beginning of one run ID.
    """
    ids = {run.run_id for run in all_runs}
    if text == ALL:
        return ids
    if text in ids:
        return {text}
    is_of_age = _parse_age(text)
    if is_of_age is not None:
        return {run.run_id for run in all_runs if is_of_age(run.started_utc)}
    condition = parse_condition(text)
    if condition is not None:
        return _match_condition(all_runs, condition, text, root)
    is_list = "," in text and "[" not in text  # a range may have commas, too
    if is_list:
        return _match_list(all_runs, text, root)
    return _match_name(all_runs, text, root)


def _parse_age(text: str) -> Callable[[datetime], bool] | None:
    """Parse a selection by age, as `parse_age_condition` does. Raises UsageError for an
    age that is not valid.
    """
    try:
        return parse_age_condition(text)
    except InputError as err:
        raise UsageError(f"the selection {text!r}: {err}") from err


def _match_list(all_runs: Sequence[RunSummary], text: str, root: Listing) -> set[str]:
    """Return the IDs of the runs that any text of a list with commas selects."""
    texts = [part for part in text.split(",") if part]
    ids = {run.run_id for run in all_runs}
    named_ids = ids.intersection(texts)
    other_texts = [part for part in texts if part not in named_ids]
    other_ids = _match_any(all_runs, other_texts, root, selected_ids=named_ids)
    return named_ids | other_ids


def _match_name(all_runs: Sequence[RunSummary], text: str, root: Listing) -> set[str]:
    """Return the IDs of the runs of the hosts that a text names; else of the runs whose
    IDs match the text as a glob; else of the run whose ID begins with the text. Raises
    UsageError if there is no such run.
    """
    ids_of_hosts = {run.run_id for run in _select_hosts(all_runs, text)}
    if ids_of_hosts:
        return ids_of_hosts
    ids_of_glob = {run.run_id for run in all_runs if fnmatchcase(run.run_id, text)}
    if ids_of_glob:
        return ids_of_glob
    return {find_run(all_runs, text, root.place)}


def _match_any(
    all_runs: Sequence[RunSummary],
    texts: Iterable[str],
    root: Listing,
    *,
    selected_ids: Collection[str] = (),
) -> set[str]:
    """Return the IDs of the runs that any of the texts selects; skip a text whose run
    cannot be read.

    selected_ids: of runs that other texts have selected already. Raises
    DamagedFileError if a text is skipped, and neither these texts nor others select a
    run.
    """
    ids = set[str]()
    errors = list[DamagedFileError]()
    for text in texts:
        try:
            ids |= match_runs(all_runs, text, root)
        except DamagedFileError as err:
            errors.append(err)
    if errors and not (ids or selected_ids):
        raise errors[0]
    return ids


def find_last_session_runs(root: Listing, benchmark: str | None = None) -> list[str]:
    """Return the run IDs of the latest session that has samples of `benchmark`, in
    order; of the latest session if none has. Raises UsageError if no runs are stored.
    """
    runs = root.runs
    if not runs:
        raise UsageError(_describe_empty_root(root.place))
    runs_of_benchmark = _keep_measured(root, runs, benchmark)
    with_samples = [run for run in runs_of_benchmark if run.samples]
    candidates = with_samples or runs
    last = max(candidates, key=lambda run: (run.started_utc, run.run_id))
    return [run.run_id for run in runs if run.session_id == last.session_id]


@dataclass(frozen=True, slots=True)
class MissingHost:
    """A host of which a session stored no run. failure: why; its message is empty if
    the session was interrupted. has_runs: whether other sessions have runs of the host.
    """

    name: str
    session_id: str
    has_runs: bool
    failure: Failure

    def is_selected_by(self, texts: Sequence[str]) -> bool:
        """Report whether one of these texts is `all`, or a name, glob or range that
        matches this host.
        """
        if ALL in texts:
            return True
        globs = chain.from_iterable(map(expand_range, texts))
        return any(fnmatchcase(self.name, glob) for glob in globs)

    def __str__(self) -> str:
        """Name the host, and why and when it failed: "web01 (no route to host, 12:30)".
        The reason is a few words of its own, or the first clause of the message.
        """
        failure = self.failure
        if not failure.message:
            return self.name
        reason = failure.reason
        if not reason:
            reason = _END_OF_CLAUSE.split(failure.message)[0]
        hour_and_minute = failure.time_utc[11:16]  # of "2026-05-01T12:30:00Z": "12:30"
        return f"{self.name} ({reason}, {hour_and_minute})"


def list_missing_hosts(
    all_runs: Sequence[RunSummary], place: Place, since: str = ""
) -> list[MissingHost]:
    """List hosts that their last unfinished session missed, by name. since: the first
    session to consider. A session is unfinished if it has left its intent, the hosts
    that it was to measure, and does not run now.
    """
    stored_runs = {(run.session_id, run.host_name) for run in all_runs}
    names_with_runs = {run.host_name for run in all_runs}
    missing_hosts: dict[str, MissingHost] = {}
    # oldest session first: a later one with a run of the host takes it off the list
    for intent in Store(place.address).read_idle_intents():
        session = intent.session_id
        if session < since:
            continue
        for name in intent.hosts:
            if (session, name) in stored_runs:
                missing_hosts.pop(name, None)
                continue
            missing_hosts[name] = MissingHost(
                name,
                session,
                has_runs=name in names_with_runs,
                failure=intent.failures.get(name, Failure("", "")),
            )
    return [missing_hosts[name] for name in sorted(missing_hosts)]


def find_run(all_runs: Sequence[RunSummary], text: str, place: Place) -> str:
    """Return the ID of the run that `text` means: by its ID; by its host, of which it
    is the last run; or by a beginning that no other ID has. Raises UsageError if there
    is no such run, and says what `text` might mean.
    """
    ids = [run.run_id for run in all_runs]
    if text in ids:
        return text
    of_host = [run for run in all_runs if text in (run.host_name, run.host_id)]
    if of_host:
        return of_host[-1].run_id
    if text in {run.run_id for run in list_unfinished(place)}:
        raise UsageError(
            f"run {text} is not finished: `fleet resume` measures what it lacks and"
            " stores it."
        )
    begun = [run_id for run_id in ids if run_id.startswith(text)]
    if len(begun) == 1:
        return begun[0]
    if begun:
        runs_text = f"{len(begun)} runs: {_list_newest(begun)}"
        raise UsageError(
            f"{text!r} is the beginning of {runs_text}. Type more of it, or '{text}*'."
        )
    raise UsageError(_explain_no_run(all_runs, text, place))


def _explain_no_run(all_runs: Sequence[RunSummary], text: str, place: Place) -> str:
    """Say why no run is meant by `text`: a session has missed the host of this name,
    nothing is stored, or there is no such name. Raises DamagedFileError if `text` means
    a stored run that cannot be read.
    """
    for host in list_missing_hosts(all_runs, place):
        if host.name == text:
            return _describe_missing_host(host)
    if not all_runs:
        return _describe_empty_root(place)
    _require_readable(all_runs, text, place)
    hosts = sorted({run.host_name for run in all_runs})
    suggestion = suggest_similar(text, hosts)  # "; did you mean 'node7'?", or "."
    choices = f"{suggestion} Hosts: {_list_newest(hosts)}"
    return f"no run and no host {text!r} in {place}{choices}. `fleet runs` lists all."


def _describe_missing_host(host: MissingHost) -> str:
    """Say when and why a session stored no run of a host, and what to do."""
    when = host.failure.time_utc or host.session_id
    why = host.failure.message or "interrupted."
    return f"{host.name}: not measured. At {when}: {why} `fleet resume` tries again."


def _require_readable(all_runs: Sequence[RunSummary], text: str, place: Place) -> None:
    """Raise DamagedFileError if `text` means a stored run that is not listed, since it
    cannot be read.
    """
    listing = Listing(place)
    readable_keys = {run.key for run in all_runs}
    for host_id, run_id in listing.stamps.keys() - readable_keys:
        if text == host_id or run_id.startswith(text):
            # says why it cannot be read, if it is not withdrawn
            listing.find_runs([run_id])


def _describe_empty_root(place: Place) -> str:
    """Say why no run is listed in a results root: all are withdrawn, the root has only
    summaries, or nothing is stored there.
    """
    if Listing(place).all_runs:
        return (
            f"{place}: all runs are withdrawn; `fleet withdraw` lists them, and with"
            " --undo has them read again."
        )
    with store_errors("read the summaries", place):
        summaries = place.files(SUMMARIES)
    if summaries:
        how = (
            "`fleet runs --summaries` lists them; `fleet show summary:NAME` shows one."
        )
        return f"{place}: holds summaries, but no runs. {how}"
    return (
        f"{place}: no runs are stored here yet. `fleet run` measures; or name another"
        " results root."
    )


def keep_comparable_with_last(
    root: Listing, runs_of_host: Sequence[RunSummary], benchmark: str | None = None
) -> list[RunSummary]:
    """Keep a host's published runs with the benchmarks, target, CPU model and CPU count
    of its last run.

    The last run is the last one with samples that measured `benchmark` (see
    `parse_benchmark_names`; None: any). If no run has any samples, it is the last one
    of all that measured `benchmark`. If none measured it, return [].
    """
    published = [run for run in runs_of_host if run.state is not RunState.UNFINISHED]
    with_samples = [run for run in published if run.samples]
    candidates = _keep_measured(root, with_samples or published, benchmark)
    if not candidates:
        return []
    get_compared = attrgetter("benchmarks", "target", "cpus", "cpu_model")
    facts_of_last = get_compared(candidates[-1])
    return [run for run in candidates if get_compared(run) == facts_of_last]


def select_like_last_run(
    root: Listing, texts: Sequence[str], benchmark: str | None = None
) -> list[RunSummary]:
    """Select each host's runs that are comparable with its last one with `benchmark`.
    Raises UsageError if there are none.
    """
    selected_runs = select_runs(root.runs, texts, root)
    if not selected_runs:
        raise UsageError(
            f"{root}: no runs are stored here. `fleet run` measures; or name another"
            " results root."
        )
    comparable_runs = list[RunSummary]()
    for runs in group_by_host(selected_runs).values():
        comparable_runs += keep_comparable_with_last(root, runs, benchmark)
    if not comparable_runs:
        # Raises the error that says so if no run measured the benchmark. Else returns
        # those that did: they are unfinished, or lack samples that other runs of their
        # host have.
        return filter_runs(root, selected_runs, benchmark)
    return comparable_runs


def filter_runs(
    root: Listing, runs: Sequence[RunSummary], benchmark: str | None
) -> list[RunSummary]:
    """Keep runs that measured `benchmark` (see `parse_benchmark_names`; None: all).
    UsageError if none.
    """
    runs_of_benchmark = _keep_measured(root, runs, benchmark)
    if benchmark is not None and not runs_of_benchmark:
        choices = set(chain.from_iterable(run.benchmarks for run in runs))
        raise UsageError(describe_unmeasured_benchmark(benchmark, sorted(choices)))
    return runs_of_benchmark


def find_last_with_samples(runs: Sequence[RunSummary]) -> RunSummary:
    """Find the last of these runs, oldest first, that has samples; the last if none has
    any.
    """
    with_samples = [run for run in runs if run.samples]
    candidates = with_samples or runs
    return candidates[-1]


def _keep_measured(
    root: Listing, runs: Sequence[RunSummary], benchmark: str | None
) -> list[RunSummary]:
    """Keep the runs that measured one of the benchmarks that a text names. benchmark:
    this text; None: keep all runs.
    """
    if benchmark is None:
        return list(runs)
    names = parse_benchmark_names(benchmark)
    return [
        run for run in runs if any(_has_measured(root, run, name) for name in names)
    ]


def _has_measured(root: Listing, run: RunSummary, name: BenchmarkName) -> bool:
    """Report whether a run has the benchmark and variant and, if `name` has a setting,
    a point of it.
    """
    choices = [choice for choice in run.benchmarks if name.matches_choice(choice)]
    if not choices or not name.setting:
        return bool(choices)
    points_by_choice = root.list_points(run)
    points = chain.from_iterable(points_by_choice[choice] for choice in choices)
    return any(map(name.matches_point, points))


def group_by_host(all_runs: Sequence[RunSummary]) -> dict[str, list[RunSummary]]:
    """Group runs by host id, in their order."""
    groups: dict[str, list[RunSummary]] = {}
    for run in all_runs:
        groups.setdefault(run.host_id, []).append(run)
    return groups


def _select_hosts(all_runs: Sequence[RunSummary], pattern: str) -> list[RunSummary]:
    """Select the runs of hosts whose name or ID matches a glob or a range, such as
    "web[01-04]". Raises UsageError for a bad range.
    """
    try:
        globs = expand_range(pattern)
    except InputError as err:
        raise UsageError(f"the selection {pattern!r}: {err}") from err
    any_glob = re.compile("|".join(map(translate, globs)))
    return [
        run
        for run in all_runs
        if any_glob.match(run.host_name) or any_glob.match(run.host_id)
    ]


def _match_condition(
    all_runs: Sequence[RunSummary], condition: Condition, text: str, root: Listing
) -> set[str]:
    """Return the IDs of runs that a condition selects, by their labels or else by their
    facts. Raises UsageError if there are no such runs. text: the condition as typed,
    such as "smt=on".
    """
    runs = _select_hosts(all_runs, condition.hosts)
    ids = {run.run_id for run in runs if condition.matches(dict(run.labels), {})}
    facts_by_run: Mapping[str, Mapping[str, str]] = {}
    if condition.is_of_fact:
        # reading takes time: only of runs whose labels do not match
        other_runs = [run for run in runs if run.run_id not in ids]
        facts_by_run = read_facts(root, other_runs)
    for run_id, facts in facts_by_run.items():
        if condition.matches({}, facts):
            ids.add(run_id)
    if not ids:
        labels = [dict(run.labels) for run in runs]
        there_are = condition.describe_values(labels, facts_by_run.values())
        raise UsageError(one_line(f"no run has {text!r}{there_are}"))
    return ids


def _list_newest(names: list[str]) -> str:
    """List the last five of these names: "..., c, d, e, f, g" if there are more."""
    newest = ", ".join(names[-_NEWEST_SHOWN:])
    if len(names) > _NEWEST_SHOWN:
        newest = f"..., {newest}"
    return newest
