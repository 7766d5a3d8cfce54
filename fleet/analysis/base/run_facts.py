"""Facts of stored runs by which they are selected and listed, as texts."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from fleet.model import RunState
from fleet.plan.conditions import FACTS, LastRuns
from fleet.store import Listing, RunSummary
from fleet.store.gate import RunRecord

_DERIVED = ("smt", "numa")
_COLUMNS = {name: name for name in FACTS if name not in _DERIVED}
_COLUMNS["model"] = "cpu_model"
_OTHERS = ("smt", "smt_control")
_TURNED_OFF = ("off", "forceoff")  # as Linux says it of the control of SMT


def read_facts(
    root: Listing, runs: Sequence[RunSummary]
) -> dict[str, Mapping[str, str]]:
    """Read the facts of `conditions.FACTS`, as texts, by run ID. Unknown ones are
    absent, and so are runs that are not finished or cannot be read.
    """
    finished_runs = [run for run in runs if run.state is not RunState.UNFINISHED]
    records = root.read_records(finished_runs, (*_COLUMNS.values(), *_OTHERS))
    return {run_id: _list_facts(record) for run_id, record in records.items()}


def find_last_runs(find_root: Callable[[], str | Path]) -> LastRuns:
    """Return what a root has of the last run of each host. find_root: called once
    something is asked.
    """
    runs = _StoredLastRuns(find_root)
    return LastRuns(runs.read_starts, runs.read_facts, runs.describe_smt)


class _StoredLastRuns:
    """The last run of each host of a root, by host ID, listed once it is asked for."""

    def __init__(self, find_root: Callable[[], str | Path]) -> None:
        self._find_root = find_root

    @cached_property
    def _listing(self) -> Listing:
        return Listing(self._find_root())

    @cached_property
    def _runs(self) -> dict[str, RunSummary]:
        # runs are listed oldest first: the last one of a host stays
        return {run.host_id: run for run in self._listing.runs}

    def read_starts(self) -> dict[str, datetime]:
        """Return by host ID when its last run began."""
        return {host_id: run.started_utc for host_id, run in self._runs.items()}

    def read_facts(self) -> dict[str, Mapping[str, str]]:
        """Return by host ID the facts of its last run, as `read_facts` of this module
        gives them; {} for a run that cannot be read.
        """
        facts = read_facts(self._listing, list(self._runs.values()))
        return {
            host_id: facts.get(run.run_id, {}) for host_id, run in self._runs.items()
        }

    def describe_smt(self) -> dict[str, str]:
        """Return by host ID whether SMT was on in its last run, as a text; leave out
        hosts whose last run cannot be read.
        """
        columns = ("smt", "smt_control", "hypervisor")
        records = self._listing.read_records(list(self._runs.values()), columns)
        texts = {}
        for host_id, run in self._runs.items():
            record = records.get(run.run_id)
            if record is not None:
                texts[host_id] = describe_smt_of_record(record)
        return texts


def _list_facts(record: RunRecord) -> dict[str, str]:
    """Return the facts of a stored run by name, as texts; unknown facts are left out.
    Besides the facts that are stored as such, "smt" is on or off, and "numa" is how
    many NUMA nodes the CPUs are of.
    """
    facts = {}
    for name, column in _COLUMNS.items():
        value = record.row[column]
        if value is not None:
            facts[name] = _format_fact(value)
    # "off, or not supported by the CPU" -> "off"
    smt, _, _ = describe_smt_of_record(record).partition(",")
    if smt in ("on", "off"):
        facts["smt"] = smt
    nodes = {cpu["node"] for cpu in record.cpus}
    known_nodes = nodes - {None}
    if known_nodes:
        facts["numa"] = str(len(known_nodes))
    return facts


def _format_fact(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def describe_smt(
    smt: bool | None, control: str | None, hypervisor: str | None, *, has_siblings: bool
) -> str:
    """Describe whether SMT is on, from facts of a run; the text before the first comma
    is a short answer.

    smt: whether the host says that SMT is on; None: it does not say. control: what
    Linux says of the control of SMT, such as "forceoff". hypervisor: its name; None: a
    real machine. has_siblings: whether a core has two CPUs, which proves that SMT is
    on.
    """
    if smt or has_siblings:
        return "on"
    if control in _TURNED_OFF:
        return "off"
    if hypervisor:
        return f"hidden, if the machine has it, by the hypervisor ({hypervisor})"
    if control == "notsupported":
        return "not supported, by the CPU or as its firmware has it"
    if smt is None:
        return "not reported by the host"
    return "off, or not supported by the CPU"


def describe_smt_of_record(record: RunRecord) -> str:
    """Return the text of `describe_smt` for a stored run."""
    # a core with two CPUs proves that SMT is on; CPUs of an unknown core do not count
    cores = [
        (cpu["package"], cpu["core"]) for cpu in record.cpus if cpu["core"] is not None
    ]
    has_two_cpus_of_a_core = len(set(cores)) < len(cores)
    row = record.row
    return describe_smt(
        row["smt"],
        row["smt_control"],
        row["hypervisor"],
        has_siblings=has_two_cpus_of_a_core,
    )
