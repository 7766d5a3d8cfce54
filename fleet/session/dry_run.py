"""Forecasts what `fleet run` would do, as far as that is known without connecting to
anything.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
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
    forecaster, facts_of_hosts = Forecaster(Builder()), _last_facts(hosts, results)
    planned, typical_costs = list[PlannedHost](), dict[Plan, tuple[Cost, ...]]()
    for host in hosts:
        plan = merge_plan(host, requested)
        if (facts := facts_of_hosts.get(host.host_id)) is not None:
            costs: tuple[Cost, ...] = (_forecast(host, requested, facts, forecaster),)
        else:
            seedless_plan = replace(plan, seed=0)  # costs do not depend on the seed
            if seedless_plan not in typical_costs:
                numbers = (
                    [plan.cpus] if plan.cpus else [tuple(range(size)) for size in SIZES]
                )
                # of a kind of core nobody knows how many there are
                machines = [
                    make_typical_machine(cpus)
                    for cpus in numbers
                    if not isinstance(cpus, str)
                ]
                typical_costs[seedless_plan] = tuple(
                    _forecast(host, requested, machine, forecaster)
                    for machine in machines
                )
            costs = typical_costs[seedless_plan]
        planned.append(PlannedHost(host, plan, facts is not None, costs))
    return planned


def _forecast(
    host: Host, requested: RequestedOptions, facts: Facts, forecaster: Forecaster
) -> Cost:
    plan = merge_plan_with_facts(host, requested, facts)
    count = len(cpus_to_measure(plan, facts))
    try:
        return Cost(count, forecaster.from_facts(host, facts, plan))
    except BuildError as err:
        return Cost(count, why=f"no forecast: {err}")
    except (UsageError, RefusedError) as err:
        if plan.cpus:
            raise
        return Cost(count, why=f"refused: {err}".replace(f"{host.name}: ", "", 1))


def _last_facts(hosts: Sequence[Host], results: str) -> Mapping[str, Facts]:
    """Return the facts of each host's last stored run, by host ID; {} for a bucket, to
    stay offline.
    """
    place = parse_place(results)
    if not isinstance(place, Folder):
        return {}
    hosts_by_id = {host.host_id: host for host in hosts}
    listing = Listing(place)
    last = {run.host_id: run for run in listing.runs if run.host_id in hosts_by_id}
    records = listing.read_records(list(last.values()), ("probe",))
    facts_of_hosts = {}
    for host_id, run in last.items():
        with suppress(ProbeError):  # of a probe that is no longer understood
            if run.run_id in records and (answer := records[run.run_id].row["probe"]):
                from fleet.facts.gather import (  # noqa: PLC0415  many files, of hosts measured only
                    parse_answer,
                )

                facts_of_hosts[host_id] = parse_answer(answer, hosts_by_id[host_id])
    return {host_id: facts for host_id, facts in facts_of_hosts.items() if facts.cpus}
