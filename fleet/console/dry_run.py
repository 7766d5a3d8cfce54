"""Renders what `fleet run --dry-run` prints: the plans of hosts and their costs, as
text and as JSON.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict

from fleet.console.hosts import format_address, host_object
from fleet.hostnames import join_names
from fleet.model import BENCHMARKS, PairChoice, Pairs, Plan
from fleet.plan.kinds import format_cpus_or_kind
from fleet.plan.options import resolve_defaults
from fleet.session.dry_run import Cost, PlannedHost
from fleet.text import as_document, format_count, table

_TYPICAL = (
    "Machines unknown: {hosts}. Assumed: caches of 48 KiB and 2 MiB a core and 32 MiB"
    " for all; `fleet check` asks the host."
)


def render_plans(plans: Sequence[PlannedHost]) -> str:
    """Render the plan of each host, and what measuring costs."""
    rows = []
    for planned in plans:
        host, plan = planned.host, planned.plan
        benchmarks = (
            "all"
            if set(plan.benchmarks) == set(BENCHMARKS)
            else ",".join(plan.benchmarks)
        )
        cpus = "all allowed" if plan.cpus is None else format_cpus_or_kind(plan.cpus)
        settings = (benchmarks, plan.variant or "auto", cpus, _describe_sampling(plan))
        rows.append((host.name, format_address(host), *settings))
    titles = ("host", "address", "benchmarks", "variant", "cpus", "sampling")
    if len(rows) > 1 and len({row[2:] for row in rows}) == 1:
        common = "; ".join(map(" ".join, zip(titles[2:], rows[0][2:], strict=True)))
        text = f"{table(titles[:2], [row[:2] for row in rows])}\nOn each: {common}"
    else:
        text = table(titles, rows)
    return "\n\n".join(
        (text, _render_costs(plans), "Dry run: connected to no host, stored nothing.")
    )


def _describe_sampling(plan: Plan) -> str:
    """Describe rounds, precision, samples and pairs, with defaults, in a line."""
    options = resolve_defaults(plan)
    parts = [f"as {plan.preset} does"] if plan.preset else []
    if plan.rounds is not None or plan.preset is None:
        parts.append(
            format_count(options.rounds, "round") + " or more" * bool(options.precision)
        )
    parts += [f"over {options.spread_s:g} s"] if options.spread_s else []
    parts += [f"until ±{100 * options.precision:.3g}%"] if options.precision else []
    for name, value in (
        ("samples", plan.samples),
        ("round trips a sample", plan.iterations),
    ):
        parts += [f"{value} {name}"] if value is not None else []
    parts += [_describe_pairs(plan.pairs)] if plan.pairs is not None else []
    return ", ".join(part for part in parts if part)


def _describe_pairs(choice: PairChoice) -> str:
    match choice.which:
        case Pairs.HALF:
            return ""
        case Pairs.ORDERED:
            return "both directions"
        case Pairs.LISTED:
            return f"{len(choice.listed)} pairs"
        case Pairs.PER_RELATION:
            return f"{choice.per_relation} pairs of each relation"


def _render_costs(plans: Sequence[PlannedHost]) -> str:
    """Render the time and memory needed: on machines measured before, then on assumed
    typical ones.
    """
    names_by_cost: dict[tuple[bool, int, str], list[str]] = defaultdict(list)
    for planned in plans:
        for cost in planned.costs:
            names_by_cost[planned.was_measured, cost.cpus, _describe_cost(cost)].append(
                planned.host.name
            )
    if not names_by_cost:
        return (
            "`fleet check` counts the CPUs of that kind, and forecasts how long it"
            " takes."
        )
    texts = {text for _, _, text in names_by_cost}
    if (
        len(names_by_cost) > 1
        and len(texts) == 1
        and not any(key[0] for key in names_by_cost)
    ):
        duration = texts.pop().removesuffix(".")
        lines = [
            "Measuring takes"
            f" {'' if duration.startswith('under') else 'about '}{duration}."
        ]
    else:
        lines = ["Measuring takes about"]
        for was_measured, cpus, text in sorted(
            names_by_cost, key=lambda key: (not key[0], *key[1:])
        ):
            names = (
                join_names(names_by_cost[was_measured, cpus, text])
                if was_measured
                else ""
            )
            width = format_count(cpus, "CPU")
            lines.append(
                f"  {names} ({width}): {text}" if names else f"  {width}: {text}"
            )
    unknown = [planned.host.name for planned in plans if not planned.was_measured]
    return "\n".join(
        lines + ([_TYPICAL.format(hosts=join_names(unknown))] if unknown else [])
    )


def _describe_cost(cost: Cost) -> str:
    forecast = cost.forecast
    if forecast is None:
        return cost.why
    points = format_count(forecast.points, "point") if forecast.points else ""
    return ", ".join(filter(None, (forecast.time_text, points, forecast.memory_text)))


def render_plans_json(plans: Sequence[PlannedHost]) -> str:
    """Render a JSON list of {host, plan, seconds}; seconds are null if the CPUs are
    unknown.
    """
    objects = []
    for planned in plans:
        plan = asdict(planned.plan)
        del plan["deadline_s"]  # depends on the host
        forecast = planned.costs[0].forecast if len(planned.costs) == 1 else None
        seconds = None if forecast is None else asdict(forecast.duration)
        objects.append(
            {"host": host_object(planned.host), "plan": plan, "seconds": seconds}
        )
    return as_document("plan", objects)
