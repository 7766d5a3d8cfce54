"""Render OpenMetrics of hosts for Prometheus: numbers, verdicts, labels and facts."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.base.run_facts import read_facts
from fleet.analysis.compare.accept import Acceptance, Outcome, judge_last_runs
from fleet.analysis.compare.history import find_changes_over_time
from fleet.analysis.reduce import load
from fleet.analysis.reduce.numbers import Only
from fleet.inventory.expected import ExpectedRange
from fleet.model import SHIPPED, Benchmark, Descriptions, View
from fleet.store import RunSummary
from fleet.store.runs import Listing, Root, open_listing
from fleet.text import printable

_NS_PER_S = 1e9
_Labels = Mapping[str, object]
_ENDS = {-1: "lower", 1: "upper"}  # of an interval, by sign


@dataclass(frozen=True, slots=True)
class HostVerdicts:
    """What is known of hosts, by name. info: facts and labels. is_as_expected: as
    `accept` says. has_changed: as `compare` says, unless somebody accepted it. A host
    without a verdict is absent.
    """

    info: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    is_as_expected: Mapping[str, bool] = field(default_factory=dict)
    has_changed: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Family:
    """A metric and its samples, each labels and a value. unit: "" for a state. words:
    what the metric is.
    """

    name: str
    unit: str
    words: str
    samples: Iterable[tuple[_Labels, str]]
    kind: str = "gauge"

    def render(self) -> Iterator[str]:
        """Yield the lines of the family: type, unit and help, then a line per sample.
        Yield no line if the family has no samples.
        """
        lines = []
        for labels, value in self.samples:
            labels_in_braces = f"{{{_format_labels(labels)}}}"
            lines.append(f"{self.name}{labels_in_braces} {value}")
        if not lines:
            return
        name = self.name
        if self.kind == "info":
            # OpenMetrics names such a family without the suffix of its samples
            name = name.removesuffix("_info")
        yield f"# TYPE {name} {self.kind}"
        if self.unit:
            yield f"# UNIT {name} {self.unit}"
        yield f"# HELP {name} {self.words}"
        yield from lines


def read_verdicts(
    root: Root,
    runs: Sequence[RunSummary],
    only: Only,
    ranges: Sequence[ExpectedRange] = (),
) -> HostVerdicts:
    """Read the facts and labels of each host's last run, and judge the hosts. Without
    scipy there are no verdicts; `load_usual_numbers` warns that scipy is missing.
    """
    listing = open_listing(root)
    info = _read_facts_and_labels(listing, runs)
    ids = [run.run_id for run in runs]
    names = {run.run_id: run.host_name for run in runs}
    try:
        acceptances = judge_last_runs(listing, ids, ranges, only=only)
    except ImportError:
        return HostVerdicts(info)
    return HostVerdicts(
        info=info,
        is_as_expected=_list_outcomes(acceptances, names),
        has_changed=_list_changed(listing, ids, only),
    )


def _read_facts_and_labels(
    listing: Listing, runs: Sequence[RunSummary]
) -> dict[str, dict[str, str]]:
    """Read the facts and labels of each host's last run, by the host's name."""
    # `runs` are in order of time: a host's last run replaces those before it
    last_by_host = {run.host_name: run for run in runs}
    last_runs = list(last_by_host.values())
    facts_by_run = read_facts(listing, last_runs)
    info = {}
    for run in last_runs:
        facts_and_labels = dict(facts_by_run.get(run.run_id, {}))
        for key, value in run.labels:
            facts_and_labels[f"label_{key}"] = value
        info[run.host_name] = facts_and_labels
    return info


def _list_outcomes(
    acceptances: Iterable[Acceptance], names: Mapping[str, str]
) -> dict[str, bool]:
    """Return whether each host is as expected, by name; without those that cannot be
    judged.
    """
    outcomes = {}
    for acceptance in acceptances:
        if acceptance.outcome != Outcome.CANNOT_TELL:
            host = names[acceptance.run_id]
            outcomes[host] = not acceptance.outcome.is_worse
    return outcomes


def _list_changed(root: Root, run_ids: Sequence[str], only: Only) -> dict[str, bool]:
    """Return whether each host has a change that nobody accepted, by name."""
    history = find_changes_over_time(root, run_ids, only=only)
    if not history.has_verdict:
        return {}
    changed_hosts = set[str]()
    for change in text.to_records(history.changes):
        if change["changed"] and not change["accepted"]:
            changed_hosts.update(change["hosts"])
    return {host: host in changed_hosts for host in history.hosts}


def render_openmetrics(
    table: pd.DataFrame,
    descriptions: Descriptions = SHIPPED,
    verdicts: HostVerdicts | None = None,
) -> str:
    """Render OpenMetrics in seconds and bytes, for the textfile collector of
    node_exporter.

    table: from `summarize_hosts`, with a column `measured_utc`, the start of the host's
    last run.
    """
    views = load.get_views(table["benchmark"], descriptions)
    is_latency = views.isin((View.MATRIX, View.CPUS))
    families = [
        *_list_latencies(table[is_latency]),
        *_list_others(table[~is_latency], descriptions),
        *_list_verdicts(verdicts or HostVerdicts()),
    ]
    lines = list[str]()
    for family in families:
        lines += family.render()
    return "\n".join([*lines, "# EOF", ""])


def _list_latencies(table: pd.DataFrame) -> Iterator[_Family]:
    """Yield the families of latencies between CPUs, and when they were measured."""
    latencies = []
    moments = []
    for row in _list_rows(table):
        latencies.append(_make_sample(row, ("relation",), row["median_ns"]))
        moment = _format_moment(row["measured_utc"])
        moments.append((_label(row, ("relation",)), moment))
    yield from _list_intervals(
        "fleet_median_latency",
        "seconds",
        "Median one-way latency between CPUs of a relation, at the level of most runs.",
        latencies,
    )
    yield _Family(
        "fleet_measured_timestamp_seconds",
        "seconds",
        "When the last run began.",
        moments,
    )


def _list_others(table: pd.DataFrame, descriptions: Descriptions) -> Iterator[_Family]:
    """Yield the families of all that is not measured between CPUs, such as memory: a
    family of times, and one of rates for each unit; each with its intervals.
    """
    samples_by_unit = defaultdict[str, list[_Sample]](list)
    for row in _list_rows(table):
        benchmark = descriptions[row["benchmark"]]
        number = text.convert_to_shown(benchmark, row["median_ns"])
        sample = _make_sample(row, ("setting", "relation"), float(number))
        unit = _name_unit(benchmark)
        samples_by_unit[unit].append(sample)
    words = "Median of a level of memory or another point, by setting."
    for unit, samples in samples_by_unit.items():
        name = "fleet_median_rate"
        if unit == "seconds":
            name = "fleet_median_time"
        yield from _list_intervals(name, unit, words, samples)


def _name_unit(benchmark: Benchmark) -> str:
    if text.is_rate(benchmark):
        return f"{benchmark.unit}s_per_second"
    return "seconds"


@dataclass(frozen=True, slots=True)
class _Sample:
    """A number in ns, or in units per ns, and half its interval as a share."""

    labels: _Labels
    value: float
    half: float | None

    def render(self, scale: float) -> tuple[_Labels, str]:
        """Render the number, times `scale`."""
        return self.render_end(0, scale)

    def render_end(self, sign: int, scale: float) -> tuple[_Labels, str]:
        """Render the lower (sign -1) or upper end (1) of the interval, times `scale`;
        sign 0 is the number itself.
        """
        from_number = sign * (self.half or 0)  # as a share of it
        value = self.value * scale * (1 + from_number)
        return self.labels, f"{value:.6g}"


def _list_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows as dicts; `about` is also there as `setting`, as its label is
    called.
    """
    return text.to_records(table.assign(setting=table["about"]))


def _make_sample(row: Mapping[str, Any], names: Sequence[str], value: float) -> _Sample:
    return _Sample(_label(row, names), value, row["half"])


def _label(row: Mapping[str, Any], names: Sequence[str]) -> dict[str, object]:
    """Return the labels of a row: host, benchmark, variant and the columns `names`."""
    labels = {
        "host": row["host_name"],
        "benchmark": row["benchmark"],
        "variant": row["variant"],
    }
    for name in names:
        labels[name] = row[name]
    return labels


def _list_intervals(
    name: str, unit: str, words: str, samples: Sequence[_Sample]
) -> Iterator[_Family]:
    """Yield three families: the numbers, the lower ends of their intervals and the
    upper ends. Numbers without an interval are only in the first family.

    unit: "seconds" for times, or the unit of rates, such as "bytes_per_second".
    samples: times in ns, or rates in units per ns. words: the help on the numbers.
    """
    scale = _NS_PER_S  # rates per ns become rates per second
    if unit == "seconds":
        scale = 1 / _NS_PER_S
    numbers = [sample.render(scale) for sample in samples]
    yield _Family(f"{name}_{unit}", unit, words, numbers)
    with_interval = [sample for sample in samples if sample.half]
    for sign, end in _ENDS.items():
        values = [sample.render_end(sign, scale) for sample in with_interval]
        title = f"{end.capitalize()} end of its 95 % interval."
        yield _Family(f"{name}_{end}_{unit}", unit, title, values)


def _list_verdicts(verdicts: HostVerdicts) -> Iterator[_Family]:
    """Yield the families of verdicts, and of facts and labels. Verdicts and facts have
    no unit.
    """
    yield _Family(
        "fleet_as_expected",
        unit="",
        words="1 if the last run is as `fleet accept` expects, 0 if it is slower.",
        samples=_list_states(verdicts.is_as_expected),
    )
    yield _Family(
        "fleet_changed",
        unit="",
        words="1 if `fleet compare` finds a change that nobody accepted.",
        samples=_list_states(verdicts.has_changed),
    )
    info = list[tuple[_Labels, str]]()
    for host, facts in verdicts.info.items():
        # the facts are labels of a sample whose value is always 1
        info.append(({"host": host, **facts}, "1"))
    yield _Family(
        "fleet_host_info",
        unit="",
        words="Facts and labels of the last run.",
        samples=info,
        kind="info",
    )


def _list_states(states: Mapping[str, bool]) -> list[tuple[_Labels, str]]:
    """Return a sample for each host, labels and value: "1" for True, "0" for False."""
    samples = list[tuple[_Labels, str]]()
    for host, state in states.items():
        value = "1" if state else "0"
        samples.append(({"host": host}, value))
    return samples


def _format_moment(moment: datetime) -> str:
    """Format a time in seconds since 1970."""
    return f"{moment.timestamp():.0f}"


def _format_labels(labels: _Labels) -> str:
    """Format labels, with the characters that OpenMetrics allows in their names."""
    # two names may become one, and a name may stand once
    allowed = dict[str, str]()
    for name, value in labels.items():
        allowed_name = re.sub(r"[^a-zA-Z0-9_]", "_", name)
        allowed[allowed_name] = _escape_label(str(value))
    return ",".join(f'{name}="{value}"' for name, value in allowed.items())


def _escape_label(words: str) -> str:
    """Escape a label's value for OpenMetrics; control characters become visible."""
    escaped = printable(words).replace("\\", "\\\\")
    escaped = escaped.replace('"', '\\"')
    return escaped.replace("\n", "\\n")
