"""The environments of the runs side by side: first what differs, then what is the same."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fleet.analysis.report.read_runs import Reading
from fleet.hostnames import folded
from fleet.store import schema
from fleet.text import counted

_NAMES_WIDTH = 60  # characters of host names
UNKNOWN = "unknown"
# They always differ and explain no latency.
_IRRELEVANT = {"machine_id", "boot_id", "uptime_s", "user", "hostname"}
_OF_RUN = (
    "started_utc",
    "ended_utc",
    "state",
    "preset",
    "precision",
    "target",
    "agent_build",
    "agent_place",
    "agent_compiler",
    "agent_cflags",
    "fleet_version",
    "clock",
    "ticks_per_second",
    "clock_cost_ticks",
    "clock_quantum_ticks",
    "load_1m_before",
    "load_1m_after",
    "temperature_c_before",
    "temperature_c_after",
)
_PLAN_ONLY = {"seed", "deadline_s"}  # no effect on the measurement
_CLOCK_RATE = 3  # significant figures; two calibrations of one clock differ beyond
_ALWAYS_OTHERWISE = {"started_utc", "ended_utc"}  # never counted as a difference


@dataclass(frozen=True, slots=True)
class Property:
    """One property. odd: per run, whether most of the others agree on another value."""

    name: str
    values: tuple[str, ...]
    odd: tuple[bool, ...]
    differs: bool

    def by_value(self, hosts: Sequence[str]) -> list[tuple[str, str]]:
        """Each value with the hosts whose runs have it, the most frequent value first. hosts: of each run."""
        found: dict[str, list[str]] = {}
        for value, host in zip(self.values, hosts, strict=True):
            found.setdefault(value, []).append(host)
        ordered = sorted(found.items(), key=lambda item: -len(item[1]))
        return [(value, _counted(names)) for value, names in ordered]


def _counted(hosts: Sequence[str]) -> str:
    """Hosts, each with the number of its runs: "web[01-17]", "rome (3 runs), milan"."""
    runs = {host: hosts.count(host) for host in dict.fromkeys(hosts)}
    once = [host for host, count in runs.items() if count == 1]
    more = [f"{host} ({counted(count, 'run')})" for host, count in runs.items() if count > 1]
    return ", ".join([*more, *([folded(once, _NAMES_WIDTH)] if once else [])])


def environment(readings: Sequence[Reading]) -> list[Property]:
    """A row per property any run knows, those that differ first; values in the order of `readings`."""
    runs = [_properties(reading.run) for reading in readings]
    if len(runs) > 1:
        _shorten(runs, [set(reading.run["cpu_flags"]) for reading in readings])
    names = list(dict.fromkeys(name for properties in runs for name in properties))
    rows = [_row(name, [properties.get(name, UNKNOWN) for properties in runs]) for name in names]
    known = [row for row in rows if set(row.values) != {UNKNOWN}]
    return sorted(known, key=lambda row: not row.differs)


def _row(name: str, values: list[str]) -> Property:
    most = max(dict.fromkeys(values), key=values.count)
    differs = values.count(most) < len(values) and name not in _ALWAYS_OTHERWISE
    agreed = differs and values.count(most) > len(values) / 2
    return Property(
        name.replace("_", " "), tuple(values), tuple(agreed and v != most for v in values), differs
    )


def _shorten(runs: Sequence[dict[str, str]], flags: Sequence[set[str]]) -> None:
    """Keep only the CPU features that not every run has; there are hundreds."""
    common = set.intersection(*flags)
    for properties, own in zip(runs, flags, strict=True):
        properties["cpu_flags"] = f"{len(common)} in common; {' '.join(sorted(own - common)) or 'no others'}"


def _properties(run: Mapping[str, Any]) -> dict[str, str]:
    facts = [column.name for column in schema.FACTS if column.name not in _IRRELEVANT]
    found = {name: _text(run[name]) for name in (*_OF_RUN, *facts)}
    found |= {name: _text(run[name]) for name in ("isolated_cpus", "nohz_full_cpus", "cpu_flags")}
    found |= {f"label {name}": _text(value) for name, value in run["labels"].items()}
    found |= {f"mitigation {name}": _text(value) for name, value in run["mitigations"].items()}
    found["ticks_per_second"] = f"{float(format(run['ticks_per_second'], f'.{_CLOCK_RATE}g')):.0f}"
    plan = {name: value for name, value in run["plan"].items() if name not in _PLAN_ONLY}
    return found | {f"plan {name}": _text(value) for name, value in plan.items()}


def _text(value: Any) -> str:
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
            return " ".join(map(_text, value)) or "none"
        case _:
            return str(value)
