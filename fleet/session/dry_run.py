"""What `fleet run` would do, as far as that is known without connecting to anything."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from fleet.agent.build.on_controller import Builder
from fleet.agent.forecast import Forecaster
from fleet.agent.wire.forecast import usual_machine
from fleet.errors import BuildError, FleetError, RefusedError, UsageError
from fleet.model import Facts, Host, Plan, RequestedOptions
from fleet.plan.forecast import Forecast
from fleet.plan.merge import measured, plan_for, plan_on
from fleet.plan.options import agent_arguments
from fleet.store.places import Folder, place_of
from fleet.store.runs import Listing

SIZES = (4, 16, 64, 256)  # of machines that nobody has looked at


@dataclass(frozen=True, slots=True)
class Cost:
    """What a plan costs on so many CPUs: a forecast, or in words why there is none."""

    cpus: int
    forecast: Forecast | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class PlannedHost:
    """A host's plan and its cost: on the machine that its last stored run found, or on usual ones."""

    host: Host
    plan: Plan
    measured: bool
    costs: tuple[Cost, ...]


def planned(hosts: Sequence[Host], requested: RequestedOptions, results: str) -> list[PlannedHost]:
    """Forecast each host's plan. results: whose runs tell what hosts are. UsageError: what no plan can be."""
    costs = _Costs(requested)
    found = _facts(hosts, results)
    return [costs.of(host, found.get(host.host_id)) for host in hosts]


@dataclass(slots=True)
class _Costs:
    """Forecasts of plans; hosts that are alike share theirs."""

    requested: RequestedOptions
    _forecaster: Forecaster = field(default_factory=lambda: Forecaster(Builder()))
    _known: dict[tuple[object, ...], Cost] = field(default_factory=dict)

    def of(self, host: Host, facts: Facts | None) -> PlannedHost:
        plan = plan_for(host, self.requested)
        if facts is not None:
            return PlannedHost(host, plan, measured=True, costs=(self._cost(host, facts),))
        if isinstance(plan.cpus, str):  # how many the host has is not known
            return PlannedHost(host, plan, measured=False, costs=())
        numbers = [plan.cpus] if plan.cpus else [tuple(range(size)) for size in SIZES]
        costs = tuple(self._usual(host, plan, cpus) for cpus in numbers)
        return PlannedHost(host, plan, measured=False, costs=costs)

    def _usual(self, host: Host, plan: Plan, cpus: tuple[int, ...]) -> Cost:
        key = (cpus, *agent_arguments(replace(plan, seed=0)))
        if key not in self._known:
            self._known[key] = self._cost(host, usual_machine(cpus))
        return self._known[key]

    def _cost(self, host: Host, facts: Facts) -> Cost:
        plan = plan_on(host, self.requested, facts)
        count = len(measured(plan, facts))
        try:
            forecast = self._forecaster.of_facts(host, facts, plan)
        except BuildError as err:
            return Cost(count, why=f"no forecast: {err}")
        except (UsageError, RefusedError) as err:
            if plan.cpus:
                raise
            return Cost(count, why=f"refused: {err}".replace(f"{host.name}: ", "", 1))
        return Cost(count, forecast)


def _facts(hosts: Sequence[Host], results: str) -> Mapping[str, Facts]:
    """What the last stored run of each host found there, by host id; not of a bucket, which is elsewhere."""
    place = place_of(results)
    if not isinstance(place, Folder):
        return {}
    wanted = {host.host_id: host for host in hosts}
    listing = Listing(place)
    last = {run.host_id: run for run in listing.runs if run.host_id in wanted}
    records = listing.records(list(last.values()), ("probe",))
    facts_of_hosts = {}
    for host_id, run in last.items():
        with suppress(FleetError, ValueError):  # of a probe that is no longer understood
            if run.run_id in records and (answer := records[run.run_id].row["probe"]):
                from fleet.facts.gather import read  # noqa: PLC0415  many files, of hosts measured only

                facts_of_hosts[host_id] = read(answer, wanted[host_id])
    return {host_id: facts for host_id, facts in facts_of_hosts.items() if facts.cpus}
