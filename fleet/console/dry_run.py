"""Renders what `fleet run --dry-run` prints: the plans of hosts and their costs, as
text and as JSON.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from fleet.console.hosts import format_address, host_object
from fleet.hostnames import join_names
from fleet.model import BENCHMARKS, PairChoice, Pairs, Plan
from fleet.plan.grammars import format_cpus_or_kind
from fleet.plan.options import BY_NAME, resolve_defaults
from fleet.session.dry_run import Cost, PlannedHost
from fleet.text import as_document, format_count, table

_NAMES = ("host", "address")
_SETTINGS = ("benchmarks", "variant", "cpus", "sampling")
_TYPICAL = (
    "Machines unknown: {hosts}. Assumed: caches of 48 KiB and 2 MiB a core and 32 MiB"
    " for all; `fleet check` asks the host."
)


def render_plans(plans: Sequence[PlannedHost]) -> str:
    """Render the plan of each host, and what measuring costs."""
    parts = [
        _tabulate_plans(plans),
        _render_costs(plans),
        "Dry run: connected to no host, stored nothing.",
    ]
    return "\n\n".join(parts)


def _tabulate_plans(plans: Sequence[PlannedHost]) -> str:
    """Render a row per host. If all hosts have the same settings, name the settings
    once below the rows.
    """
    names_of_hosts = []
    settings_of_hosts = []
    for planned in plans:
        address = format_address(planned.host)
        names_of_hosts.append((planned.host.name, address))
        settings_of_hosts.append(_describe_settings(planned.plan))
    first_settings = settings_of_hosts[0]
    are_equal = all(settings == first_settings for settings in settings_of_hosts)
    if len(plans) > 1 and are_equal:
        hosts = table(_NAMES, names_of_hosts)
        return f"{hosts}\nOn each: {_join_settings(first_settings)}"
    titles = (*_NAMES, *_SETTINGS)
    rows = []
    for names, settings in zip(names_of_hosts, settings_of_hosts, strict=True):
        rows.append((*names, *settings))
    return table(titles, rows)


def _join_settings(settings: Sequence[str]) -> str:
    titled = zip(_SETTINGS, settings, strict=True)
    return "; ".join(f"{title} {text}" for title, text in titled)


def _describe_settings(plan: Plan) -> tuple[str, ...]:
    """Return the texts of a plan that stand below the titles in _SETTINGS, such as
    ("all", "auto", "0-7", "20 rounds").
    """
    benchmarks = ",".join(plan.benchmarks)
    if set(plan.benchmarks) == set(BENCHMARKS):
        benchmarks = "all"
    variant = plan.variant or "auto"
    cpus = "all allowed"
    if plan.cpus is not None:
        cpus = format_cpus_or_kind(plan.cpus)
    sampling = _describe_sampling(plan)
    return (benchmarks, variant, cpus, sampling)


def _describe_sampling(plan: Plan) -> str:
    """Describe rounds, precision, samples and pairs in a line: "20 rounds, 50 samples,
    both directions", or "as quick does, 60 s, less once nine in ten are ±1%". Rounds
    and precision are described even if they are defaults; the others only if the plan
    sets them.
    """
    resolved = resolve_defaults(plan)
    parts = []
    if plan.preset:
        parts.append(f"as {plan.preset} does")
    parts.append(_describe_rounds(plan))
    if plan.spread_s:
        parts.append(f"over {plan.spread_s:g} s")
    if resolved.precision:
        parts.append(_describe_precision(plan, resolved.precision))
    if plan.samples is not None:
        parts.append(f"{plan.samples} samples")
    if plan.iterations is not None:
        parts.append(f"{plan.iterations} round trips a sample")
    if plan.pairs is not None:
        parts.append(_describe_pairs(plan.pairs))
    return ", ".join(part for part in parts if part)


def _describe_precision(plan: Plan, precision: float) -> str:
    """Say when a host has measured enough. Rounds that were asked for are all measured,
    and more follow until then; else a time is set, and less of it may do.
    """
    condition = f"nine in ten are ±{100 * precision:.3g}%"
    if plan.rounds is None:
        return f"less once {condition}"
    return f"until {condition}"


def _describe_rounds(plan: Plan) -> str:
    """Describe the rounds of a plan: "20 rounds", or "20 rounds or more" until a
    precision is reached. If the plan asks for a precision and no rounds, describe the
    time that the rounds may take: "60 s". Return "" if a preset sets the rounds, for
    its name says how many.
    """
    resolved = resolve_defaults(plan)
    if plan.rounds is None:
        if plan.preset is not None:
            return ""
        if resolved.precision:
            return _describe_time_budget(plan)
    rounds = format_count(resolved.rounds, "round")
    if resolved.precision:
        rounds += " or more"
    return rounds


def _describe_time_budget(plan: Plan) -> str:
    """Describe the time that the plan allows or, if it says nothing, the agent's
    default.
    """
    if plan.time_budget_s is None:
        option = BY_NAME["time_budget_s"]
        return option.usual_words
    return f"{plan.time_budget_s:g} s"


def _describe_pairs(choice: PairChoice) -> str:
    """Describe which pairs were asked for; "" for the default, each two CPUs once."""
    match choice.which:
        case Pairs.HALF:
            return ""  # as by default
        case Pairs.ORDERED:
            return "both directions"
        case Pairs.LISTED:
            return f"{len(choice.listed)} pairs"
        case Pairs.PER_RELATION:
            return f"{choice.per_relation} pairs of each relation"


def _render_costs(plans: Sequence[PlannedHost]) -> str:
    """Render the time and memory that measuring needs: on machines measured before,
    then on assumed typical machines. Hosts with equal costs share a line.
    """
    names_by_cost: dict[_CostText, list[str]] = defaultdict(list)
    for planned in plans:
        for cost in planned.costs:
            key = _CostText(planned.was_measured, cost.cpus, _describe_cost(cost))
            names_by_cost[key].append(planned.host.name)
    # No host has a cost if each plan is for a kind of CPUs, such as P cores, and no
    # host was measured before: nobody knows how many CPUs of that kind there are.
    if not names_by_cost:
        return (
            "`fleet check` counts the CPUs of that kind, and forecasts how long it"
            " takes."
        )
    lines = _list_costs(names_by_cost)
    lines += _list_advice(plans)
    unknown = [planned.host.name for planned in plans if not planned.was_measured]
    if unknown:
        lines.append(_TYPICAL.format(hosts=join_names(unknown)))
    return "\n".join(lines)


class _CostText(NamedTuple):
    """What measuring costs on a machine of this size. was_measured: the machine is
    known; else it is assumed.
    """

    was_measured: bool
    cpus: int
    text: str


def _list_costs(names_by_cost: Mapping[_CostText, Sequence[str]]) -> list[str]:
    """Render a line per cost, known machines first: "lucca (8 CPUs): 12 s". If all
    machines are assumed, and all sizes take as long, render one line for all.

    names_by_cost: the names of the hosts with each cost.
    """
    in_order = sorted(names_by_cost)  # those of measured machines by number of CPUs
    measured = [cost for cost in in_order if cost.was_measured]
    assumed = [cost for cost in in_order if not cost.was_measured]
    costs = [*measured, *assumed]
    if _are_equal_guesses(costs):
        # such as "12 s, 300 points", "under 1 s", or a reason with a full stop
        duration = costs[0].text.removesuffix(".")
        if not duration.startswith("under"):
            duration = f"about {duration}"
        return [f"Measuring takes {duration}."]
    lines = ["Measuring takes about"]
    for cost in costs:
        machine = format_count(cost.cpus, "CPU")
        if cost.was_measured:
            names = join_names(names_by_cost[cost])
            machine = f"{names} ({machine})"
        lines.append(f"  {machine}: {cost.text}")
    return lines


def _are_equal_guesses(costs: Sequence[_CostText]) -> bool:
    """Report whether several costs, all of assumed machines, say the same."""
    texts = {cost.text for cost in costs}
    was_any_measured = any(cost.was_measured for cost in costs)
    return len(costs) > 1 and len(texts) == 1 and not was_any_measured


def _list_advice(plans: Sequence[PlannedHost]) -> list[str]:
    """List what would be quicker where measuring takes long. Advice that several hosts
    have in common is listed once.
    """
    # a dict without values keeps each text once, in order
    advice = dict[str, None]()
    for planned in plans:
        for cost in planned.costs:
            if cost.forecast is not None and cost.forecast.advice:
                advice[cost.forecast.advice] = None
    return list(advice)


def _describe_cost(cost: Cost) -> str:
    """Describe a cost: its time, points and memory, or why there is no forecast."""
    forecast = cost.forecast
    if forecast is None:
        return cost.why
    parts = [forecast.time_text]
    if forecast.points:
        parts.append(format_count(forecast.points, "point"))
    if forecast.memory_text:
        parts.append(forecast.memory_text)
    return ", ".join(parts)


def render_plans_json(plans: Sequence[PlannedHost]) -> str:
    """Render a JSON list of {host, plan, seconds}; seconds are null if the CPUs are
    unknown.
    """
    objects = []
    for planned in plans:
        plan = asdict(planned.plan)
        del plan["deadline_s"]  # depends on the host
        host = host_object(planned.host)
        seconds = _make_seconds_object(planned)
        objects.append({"host": host, "plan": plan, "seconds": seconds})
    return as_document("plan", objects)


def _make_seconds_object(planned: PlannedHost) -> dict[str, Any] | None:
    if len(planned.costs) != 1:  # of typical machines of several sizes, or of none
        return None
    forecast = planned.costs[0].forecast
    return None if forecast is None else asdict(forecast.duration)
