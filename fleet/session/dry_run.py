"""Forecasts what `fleet run` would do, as far as that is known without connecting to
anything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fleet.agent.build.on_controller import Builder
from fleet.agent.forecast import Forecast, Forecaster, make_typical_machine
from fleet.errors import BuildError, ProbeError, RefusedError, UsageError
from fleet.model import Facts, Host, Plan, RequestedOptions
from fleet.plan.merge import cpus_to_measure, merge_plan, merge_plan_with_facts
from fleet.store.places import Folder, parse_place
from fleet.store.runs import Listing

SIZES = (4, 16, 64, 256)  # of machines that nobody has looked at


@dataclass(frozen=True, slots=True)
class Cost:
    """The forecast of a plan on `cpus` CPUs, or `why` there is none."""

    cpus: int
    forecast: Forecast | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class PlannedHost:
    """A host's plan and its forecasts: for its machine as last measured, or else for
    typical machines.
    """

    host: Host
    plan: Plan
    was_measured: bool
    costs: tuple[Cost, ...]


def forecast_hosts(
    hosts: Sequence[Host], requested: RequestedOptions, results: str
) -> list[PlannedHost]:
    """Forecast each host's plan. results: where last runs are stored. Raises
    UsageError, RefusedError.
    """
    forecaster = Forecaster(Builder())
    facts_by_host = _read_last_facts(hosts, results)
    typical_costs = _TypicalCosts(requested, forecaster)
    planned = []
    for host in hosts:
        plan = merge_plan(host, requested)
        facts = facts_by_host.get(host.host_id)
        if facts is None:
            costs = typical_costs.forecast(host, plan)
        else:
            costs = (_forecast(host, requested, facts, forecaster),)
        planned.append(PlannedHost(host, plan, facts is not None, costs))
    return planned


class _TypicalCosts:
    """Forecasts for hosts that nobody has measured: the same for all of one plan."""

    def __init__(self, requested: RequestedOptions, forecaster: Forecaster) -> None:
        self._requested = requested
        self._forecaster = forecaster
        self._costs_by_plan: dict[Plan, tuple[Cost, ...]] = {}

    def forecast(self, host: Host, plan: Plan) -> tuple[Cost, ...]:
        """Forecast the host's plan on typical machines of several SIZES, or on a
        machine with the CPUs that the plan names. Hosts with equal plans have equal
        costs, since the machine is typical: they are forecast once.
        """
        seedless_plan = replace(plan, seed=0)  # costs do not depend on the seed
        if seedless_plan not in self._costs_by_plan:
            self._costs_by_plan[seedless_plan] = tuple(
                _forecast(host, self._requested, machine, self._forecaster)
                for machine in _make_typical_machines(plan)
            )
        return self._costs_by_plan[seedless_plan]


def _make_typical_machines(plan: Plan) -> list[Facts]:
    if isinstance(plan.cpus, str):
        return []  # of a kind of core nobody knows how many there are
    if plan.cpus:
        return [make_typical_machine(plan.cpus)]
    return [make_typical_machine(range(size)) for size in SIZES]


def _forecast(
    host: Host, requested: RequestedOptions, facts: Facts, forecaster: Forecaster
) -> Cost:
    """Forecast a host's plan on a machine with these facts.

    If the machine would refuse the plan, the cost says why. But if the user named the
    CPUs, that is the user's mistake: raises UsageError or RefusedError.
    """
    plan = merge_plan_with_facts(host, requested, facts)
    cpu_count = len(cpus_to_measure(plan, facts))
    try:
        return Cost(cpu_count, forecaster.from_facts(host, facts, plan))
    except BuildError as err:
        return Cost(cpu_count, why=f"no forecast: {err}")
    except (UsageError, RefusedError) as err:
        if plan.cpus:
            raise
        reason = str(err).replace(f"{host.name}: ", "", 1)
        return Cost(cpu_count, why=f"refused: {reason}")


def _read_last_facts(hosts: Sequence[Host], results: str) -> Mapping[str, Facts]:
    """Return the facts of each host's last stored run, by host ID; {} for a bucket, to
    stay offline. Leave out hosts whose facts are not known or name no CPUs.
    """
    place = parse_place(results)
    if not isinstance(place, Folder):
        return {}
    hosts_by_id = {host.host_id: host for host in hosts}
    listing = Listing(place)
    # runs are listed oldest first: the last one of a host stays
    last_runs = {run.host_id: run for run in listing.runs if run.host_id in hosts_by_id}
    records = listing.read_records(list(last_runs.values()), ("probe",))
    facts_by_host = {}
    for host_id, run in last_runs.items():
        record = records.get(run.run_id)
        if record is None or not record.row["probe"]:
            continue
        facts = _parse_probe(record.row["probe"], hosts_by_id[host_id])
        if facts is not None and facts.cpus:
            facts_by_host[host_id] = facts
    return facts_by_host


def _parse_probe(answer: str, host: Host) -> Facts | None:
    """Parse a stored probe; return None if it is no longer understood."""
    # a slow import, needed only if a host was measured before
    from fleet.facts.gather import parse_answer  # noqa: PLC0415  slow

    try:
        return parse_answer(answer, host)
    except ProbeError:
        return None
