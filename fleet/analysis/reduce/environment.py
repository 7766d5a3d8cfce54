"""Describe the environment of runs as text by name, and its differences between two
sides or several runs.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import pandas as pd

from fleet.analysis.base.text import to_records
from fleet.analysis.reduce.load import decode_run_rows
from fleet.hostnames import join_names
from fleet.store.schema import ENVIRONMENT
from fleet.text import format_count

UNKNOWN = "unknown"
DEFAULT = "default"
_SAY_NOTHING = {UNKNOWN, DEFAULT}
_OTHER_OBJECTS = {"labels": "label", "mitigations": "mitigation"}
_OBJECTS = (*_OTHER_OBJECTS, "plan")
_DESCRIBED = (*ENVIRONMENT, *(f"{name}_json" for name in _OBJECTS))
_NO_EFFECT = {"seed", "deadline_s"}  # of a plan, on the measurement
_CLOCK_RATE_DIGITS = 3  # two calibrations of one clock differ beyond these
_NAMES_WIDTH = 60  # characters of host names
_BESIDE_ENVIRONMENT = (  # columns of `runs` that are properties, too
    "started_utc",
    "ended_utc",
    "state",
    "precision",
    "agent_place",
    "fleet_version",
    "clock_cost_ticks",
    "clock_quantum_ticks",
    "load_1m_before",
    "load_1m_after",
    "temperature_c_before",
    "temperature_c_after",
    "os",
    "arch",
    "cpu_vendor",
    "firmware_date",
    "memory_bytes",
    "core_throttles",
    "package_throttles",
    "cpu_flags",
)
_ALWAYS_DIFFERENT = {"started_utc", "ended_utc"}  # never counted as a difference


def describe_facts_by_name(
    runs: Sequence[dict[str, Any]], extra: Sequence[str] = ()
) -> dict[str, list[str]]:
    """Return by the name of a fact its texts, one per run, in the order of `runs`;
    UNKNOWN for a run without the fact. Facts are the columns of ENVIRONMENT and
    `extra`, and the labels, mitigations and options of the plan, each by a name such as
    "label.kernel".
    """
    names = (*extra, *ENVIRONMENT)
    texts_by_run = _format_facts_of_runs(runs, names)
    all_names = dict.fromkeys(names)  # in order, each once
    for texts in texts_by_run:
        all_names |= dict.fromkeys(texts)
    return {
        name: [texts.get(name, UNKNOWN) for texts in texts_by_run] for name in all_names
    }


def _format_facts_of_runs(
    runs: Sequence[dict[str, Any]], names: Sequence[str]
) -> list[dict[str, str]]:
    """Return for each run the texts of its facts, by name. Equal facts are formatted
    only once, since most runs of a host have the same facts.
    """
    texts_by_facts: dict[str, dict[str, str]] = {}
    texts_by_run = []
    for run in runs:
        facts = _select_facts(run, names)
        key = repr(facts)
        if key not in texts_by_facts:
            texts_by_facts[key] = _format_facts(facts, names)
        texts_by_run.append(texts_by_facts[key])
    return texts_by_run


def _select_facts(run: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Select the facts with these names from a run, and the columns that hold an object
    (_OBJECTS). Leave out what has no effect on a measurement: the last digits of the
    clock's rate, and options of the plan such as `seed`.
    """
    facts = {name: run[name] for name in (*names, *_OBJECTS)}
    # the clock is calibrated anew before each run, and only the first digits of its
    # rate come out the same
    rounded = format(run["ticks_per_second"], f".{_CLOCK_RATE_DIGITS}g")
    facts["ticks_per_second"] = f"{float(rounded):.0f}"
    plan = dict(run["plan"])
    for option in _NO_EFFECT:
        plan.pop(option, None)
    facts["plan"] = plan
    return facts


def _format_facts(facts: Mapping[str, Any], names: Sequence[str]) -> dict[str, str]:
    """Return a text for each fact with one of these names, and for each key of the
    columns that hold an object: "label.kernel", "plan.precision".
    """
    texts = {name: _format_value(facts[name]) for name in names}
    for column, title in _OTHER_OBJECTS.items():
        for key, value in facts[column].items():
            texts[f"{title}.{key}"] = _format_value(value)
    for key, value in facts["plan"].items():
        texts[f"plan.{key}"] = _format_plan_value(value)
    return texts


def describe_table_facts_by_name(runs: pd.DataFrame) -> dict[str, list[str]]:
    """Describe rows of the `runs` table as `describe_facts_by_name` does."""
    rows = to_records(runs[[*_DESCRIBED]])
    return describe_facts_by_name(decode_run_rows(rows))


# a row of `find_differences`: what, a, b, between
_Difference = tuple[str, str, str, bool]


class DescribedRuns(NamedTuple):
    """What `find_differences` compares of runs.

    texts: the facts that differ, as text by name, a value per run. hosts, boots: of
    each run; the boot is None if unknown. places: by run ID.
    """

    texts: Mapping[str, Sequence[str]]
    hosts: Sequence[str]
    boots: Sequence[str | None]
    places: Mapping[str, int]

    def select_side(self, run_ids: Sequence[str]) -> "_Side":
        """Select some runs as a side of a comparison."""
        places = [self.places[run_id] for run_id in run_ids]
        values = {}
        for name, texts in self.texts.items():
            values[name] = Counter(texts[place] for place in places)
        hosts = {self.hosts[place] for place in places}
        boots = {self.boots[place] for place in places}
        return _Side(values, hosts, boots)


class _Side(NamedTuple):
    """A side of a comparison. values: by the name of a fact, how many runs have which
    value. hosts, boots: of its runs; None is an unknown boot.
    """

    values: Mapping[str, Counter[str]]
    hosts: set[str]
    boots: set[str | None]


def describe_runs(runs: pd.DataFrame) -> DescribedRuns:
    """Describe rows of the `runs` table, for `find_differences`. Of their facts, keep
    those whose text is not the same in all runs.
    """
    places = {run_id: place for place, run_id in enumerate(runs["run_id"])}
    texts_by_name = describe_table_facts_by_name(runs)
    differing = {
        name: texts for name, texts in texts_by_name.items() if len(set(texts)) > 1
    }
    boots = runs["boot_id"].astype(object)
    boots_or_none = boots.where(boots.notna(), None)
    return DescribedRuns(
        texts=differing,
        hosts=runs["host_id"].tolist(),
        boots=boots_or_none.tolist(),
        places=places,
    )


def find_differences(
    a: Sequence[str], b: Sequence[str], described: DescribedRuns
) -> pd.DataFrame:
    """List the facts that differ between two sides of a comparison, a row each. `what`:
    the name of the fact. `a`, `b`: the values of each side in a text, the most frequent
    first. `between`: whether the sides have no value in common.

    Two sides of the same hosts also differ by their boots, if all boots are known and
    the sides have none in common.

    a, b: the IDs of each side's runs. described: these runs, and perhaps others.
    """
    side_a = described.select_side(a)
    side_b = described.select_side(b)
    rows = list[_Difference]()
    for name, values_of_a in side_a.values.items():
        values_of_b = side_b.values[name]
        if values_of_a.keys() != values_of_b.keys():
            rows.append(_compare_values(name, values_of_a, values_of_b))
    if side_a.hosts == side_b.hosts:
        rows += _compare_boots(side_a.boots, side_b.boots)
    return pd.DataFrame(rows, columns=["what", "a", "b", "between"])


def _compare_values(name: str, a: Counter[str], b: Counter[str]) -> _Difference:
    """Return the row of `find_differences` on a fact. a, b: how many runs of each side
    have which value.
    """
    text_of_a = _list_values(a)
    text_of_b = _list_values(b)
    have_none_in_common = a.keys().isdisjoint(b)
    return name, text_of_a, text_of_b, have_none_in_common


def _compare_boots(a: set[str | None], b: set[str | None]) -> list[_Difference]:
    """Return the row of `find_differences` on the boots of a host; none if the sides
    may have one in common.
    """
    if not _have_other_boots(a, b):
        return []
    count_of_a = format_count(len(a), "boot")
    count_of_b = format_count(len(b), "other boot")
    return [("boot", count_of_a, count_of_b, True)]


def _have_other_boots(a: set[str | None], b: set[str | None]) -> bool:
    """Report whether the boots of two sides are all known and none is in common. None
    is an unknown boot.
    """
    are_known = None not in a and None not in b
    return are_known and a.isdisjoint(b)


def _list_values(values: Counter[str]) -> str:
    """List values, the most frequent first: "old (3 runs), new (1 run)". A single value
    has no count. values: how many runs have each value.
    """
    if len(values) == 1:
        return next(iter(values))
    return ", ".join(
        f"{value} ({format_count(count, 'run')})"
        for value, count in values.most_common()
    )


def _format_plan_value(value: Any) -> str:
    """Format an option of a plan: None -> "default", [1, 2] -> "1, 2".

    The choice of pairs is a mapping with the key "which": {"which": "one", "listed":
    [[0, 1], [2, 3]]} -> "0-1 2-3", {"which": "some", "per_relation": 4} -> "some:4". A
    mapping without that key is an option of a later version.
    """
    if value is None:
        return DEFAULT
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, Mapping) and "which" in value:
        return _format_choice_of_pairs(value)
    return _format_value(value)


def _format_choice_of_pairs(choice: Mapping[str, Any]) -> str:
    """Format which pairs a plan measures, as `_format_plan_value` says."""
    if choice.get("listed"):
        return " ".join(f"{a}-{b}" for a, b in choice["listed"])
    if choice.get("per_relation"):
        return f"{choice['which']}:{choice['per_relation']}"
    return str(choice["which"])


def _format_value(value: Any) -> str:
    """Format a fact: None -> "unknown", True -> "yes", 1.5 -> "1.5", [] -> "none"."""
    match value:
        case None:
            return UNKNOWN
        case bool():
            return "yes" if value else "no"
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S} UTC"
        case float():
            return f"{value:.6g}"
        case list() | tuple():
            return " ".join(map(_format_value, value)) or "none"
        case _:
            return str(value)


@dataclass(frozen=True, slots=True)
class Property:
    """A property of several runs. odd: for each run, whether most runs agree on another
    value.
    """

    name: str
    values: tuple[str, ...]
    odd: tuple[bool, ...]
    differs: bool

    def group_hosts(self, hosts: Sequence[str]) -> list[tuple[str, str]]:
        """Group hosts by the values of their runs. Return for each value the value and
        a text that names the hosts of its runs, "web[01-17]"; the value of most runs
        first. hosts: the host of each run, in the order of `values`.
        """
        hosts_by_value = defaultdict[str, list[str]](list)
        for value, host in zip(self.values, hosts, strict=True):
            hosts_by_value[value].append(host)
        groups = []
        # `most_common` keeps the order of values of equally many runs
        for value, _ in Counter(self.values).most_common():
            names = _count_runs_by_host(hosts_by_value[value])
            groups.append((value, names))
        return groups


def _count_runs_by_host(hosts: Sequence[str]) -> str:
    """Name hosts, those of several runs with their number first: "rome (3 runs),
    web[01-17]". hosts: the host of each run.
    """
    single = []
    parts = []
    for host, count in Counter(hosts).items():
        if count == 1:
            single.append(host)
        else:
            parts.append(f"{host} ({format_count(count, 'run')})")
    if single:
        parts.append(join_names(single, _NAMES_WIDTH))
    return ", ".join(parts)


def list_properties(runs: Sequence[dict[str, Any]]) -> list[Property]:
    """List the properties that are known of one run or more, those that differ between
    runs first. Their values are in the order of `runs`.
    """
    texts_by_name = describe_facts_by_name(runs, _BESIDE_ENVIRONMENT)
    if len(runs) > 1:
        texts_by_name["cpu_flags"] = _describe_cpu_flags(runs)
    properties = []
    for name, texts in texts_by_name.items():
        is_known = not _SAY_NOTHING.issuperset(texts)
        if is_known:
            properties.append(_make_property(name, texts))
    return sorted(properties, key=lambda item: not item.differs)


def _describe_cpu_flags(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Describe the CPU features of each run: how many features all runs have in common,
    and the names of the run's other features, "131 in common; amx_bf16 amx_int8".
    """
    flags_by_run = [set(run["cpu_flags"]) for run in runs]
    common = set.intersection(*flags_by_run)
    texts = []
    for flags in flags_by_run:
        other_flags = sorted(flags - common)
        others = " ".join(other_flags) or "no others"
        texts.append(f"{len(common)} in common; {others}")
    return texts


def _make_property(name: str, values: list[str]) -> Property:
    """Make a property of a fact; its name "label.kernel" becomes "label kernel".
    values: the text of the fact in each run. If more than half of the runs have the
    same value, the values of the other runs are odd.
    """
    title = name.replace("_", " ").replace(".", " ", 1)
    counts = Counter(values)
    ((commonest, count),) = counts.most_common(1)
    differs = len(counts) > 1 and name not in _ALWAYS_DIFFERENT
    has_majority = count > len(values) / 2
    are_odd = [False] * len(values)
    if differs and has_majority:
        are_odd = [value != commonest for value in values]
    return Property(title, tuple(values), tuple(are_odd), differs)
