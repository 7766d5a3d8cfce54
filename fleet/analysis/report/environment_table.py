"""The environments of the runs side by side: first what differs, then what is the same."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fleet.analysis.reduce.environment import DEFAULT, UNKNOWN, environments
from fleet.analysis.report.read_runs import Reading
from fleet.hostnames import folded
from fleet.text import counted

_NAMES_WIDTH = 60  # characters of host names
_ALSO = (
    *("started_utc", "ended_utc", "state", "precision", "agent_place", "fleet_version", "clock_cost_ticks"),
    *("clock_quantum_ticks", "load_1m_before", "load_1m_after", "temperature_c_before"),
    *("temperature_c_after", "os", "arch", "cpu_vendor", "firmware_date", "memory_bytes", "core_throttles"),
    *("package_throttles", "cpu_flags"),
)
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
    found = environments([reading.run for reading in readings], _ALSO)
    if len(readings) > 1:
        found["cpu_flags"] = _shortened([set(reading.run["cpu_flags"]) for reading in readings])
    rows = [_row(name, values) for name, values in found.items()]
    known = [row for row in rows if not set(row.values) <= {UNKNOWN, DEFAULT}]
    return sorted(known, key=lambda row: not row.differs)


def _row(name: str, values: list[str]) -> Property:
    ((most, count),) = Counter(values).most_common(1)
    differs = count < len(values) and name not in _ALWAYS_OTHERWISE
    agreed = differs and count > len(values) / 2
    return Property(
        name.replace("_", " ").replace(".", " ", 1),
        tuple(values),
        tuple(agreed and v != most for v in values),
        differs,
    )


def _shortened(flags: Sequence[set[str]]) -> list[str]:
    """Of each run only the CPU features that not every run has; there are hundreds."""
    common = set.intersection(*flags)
    return [f"{len(common)} in common; {' '.join(sorted(own - common)) or 'no others'}" for own in flags]
