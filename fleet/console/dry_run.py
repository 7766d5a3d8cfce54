"""What `fleet run --dry-run` prints: the plans of hosts and their costs, as text and as JSON."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict

from fleet.console.hosts import host_object, where
from fleet.hostnames import join_names
from fleet.model import BENCHMARKS, PairChoice, Pairs, Plan
from fleet.plan.kinds import format_cpus_or_kind
from fleet.plan.options import resolve_defaults
from fleet.session.dry_run import Cost, PlannedHost
from fleet.text import as_json, counted, table

_USUAL = (
    "Machines unknown: {hosts}. Taken for machines with caches of 48 KiB and 2 MiB a core and 32 MiB "
    "for all; `fleet check` knows the host's."
)


def plans_text(plans: Sequence[PlannedHost]) -> str:
    """What `fleet run` would do on each host, as far as it is known without connecting."""
    rows = []
    for host, plan in ((one.host, one.plan) for one in plans):
        kinds = "all" if set(plan.benchmarks) == set(BENCHMARKS) else ",".join(plan.benchmarks)
        cpus = "all allowed" if plan.cpus is None else format_cpus_or_kind(plan.cpus)
        rows.append((host.name, where(host), kinds, plan.variant or "auto", cpus, _visits(plan)))
    titles = ("host", "address", "benchmarks", "variant", "cpus", "sampling")
    if len(rows) > 1 and len({row[2:] for row in rows}) == 1:
        same = "; ".join(f"{title} {cell}" for title, cell in zip(titles[2:], rows[0][2:], strict=True))
        listed = f"{table(titles[:2], [row[:2] for row in rows])}\nOn each: {same}"
    else:
        listed = table(titles, rows)
    return "\n\n".join((listed, _costs(plans), "Dry run: nothing was connected to, nothing is stored."))


def _visits(plan: Plan) -> str:
    """How pairs are sampled, in a line: what was requested, and the defaults where they apply."""
    options = resolve_defaults(plan)
    parts = [f"as {plan.preset} does"] if plan.preset else []
    if plan.rounds is not None or plan.preset is None:
        more = " or more" if plan.rounds else " or more, 3 where these take long"
        parts.append(counted(options.rounds, "round") + (more if options.precision else ""))
    parts += [f"over {options.spread_s:g} s"] if options.spread_s else []
    parts += [f"until ±{100 * options.precision:.3g}%"] if options.precision else []
    for name, value in (("samples", plan.samples), ("round trips a sample", plan.iterations)):
        parts += [f"{value} {name}"] if value is not None else []
    parts += [_pairs(plan.pairs)] if plan.pairs is not None else []
    return ", ".join(part for part in parts if part)


def _pairs(choice: PairChoice) -> str:
    match choice.which:
        case Pairs.HALF:
            return ""
        case Pairs.ORDERED:
            return "both directions"
        case Pairs.LISTED:
            return f"{len(choice.listed)} pairs"
        case Pairs.PER_RELATION:
            return f"{choice.per_relation} pairs of each relation"


def _costs(plans: Sequence[PlannedHost]) -> str:
    """How long measuring takes and what it needs: of hosts measured before, then of usual machines."""
    alike: dict[tuple[bool, int, str], list[str]] = defaultdict(list)
    for one in plans:
        for cost in one.costs:
            alike[one.was_measured, cost.cpus, _cost(cost)].append(one.host.name)
    usual = {words for measured, _, words in alike if not measured}
    if len(alike) > 1 and len(usual) == 1 and len(alike) == sum(not key[0] for key in alike):
        lines = [f"Measuring takes about {usual.pop().removesuffix('.')}."]
    elif not alike:
        return "How many CPUs of that kind there are, and so how long it takes, `fleet check` tells."
    else:
        lines = ["Measuring takes about"]
        lines += [
            f"  {join_names(names)} ({_width(key)}): {key[2]}" for key, names in alike.items() if key[0]
        ]
        lines += [f"  {_width(key)}: {key[2]}" for key in sorted(alike) if not key[0]]
    unknown = [one.host.name for one in plans if not one.was_measured]
    return "\n".join(lines + ([_USUAL.format(hosts=join_names(unknown))] if unknown else []))


def _width(key: tuple[bool, int, str]) -> str:
    return counted(key[1], "CPU")


def _cost(cost: Cost) -> str:
    found = cost.forecast
    if found is None:
        return cost.why
    parts = [found.time_text, counted(found.points, "point") if found.points else "", found.memory_text]
    return ", ".join(filter(None, parts))


def plans_json(plans: Sequence[PlannedHost]) -> str:
    """The same for programs: a list of {host, plan, seconds}; seconds only where the CPUs are known."""
    found = []
    for one in plans:
        plan = asdict(one.plan)
        del plan["deadline_s"]  # depends on the host
        forecast = one.costs[0].forecast if len(one.costs) == 1 else None
        seconds = None if forecast is None else asdict(forecast.duration)
        found.append({"host": host_object(one.host), "plan": plan, "seconds": seconds})
    return as_json(found)
