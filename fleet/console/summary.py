"""A session's plans and outcomes, as text for people and JSON for programs. Prints nothing."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from fleet.console.hosts import host_object, where
from fleet.console.live_table import NOTES_AS_THEY_ARRIVE
from fleet.hostnames import folded, group_messages, without_name
from fleet.model import BENCHMARKS, FORECAST, Host, PairChoice, Pairs, Plan, RequestedOptions
from fleet.plan.cpulist import cpus_text
from fleet.plan.estimate import expected, over_budget, plan_for, points, rounds_text
from fleet.plan.memory import needed, unknown_cpus
from fleet.plan.options import effective
from fleet.session.outcome import Outcome, State
from fleet.text import as_json, counted, printable, table

MANY = 20  # hosts; above it people want groups, not rows
MESSAGES_SHOWN = 20
MESSAGE_LIMIT = 3_000  # characters of one message; the session's log has all of it
_SIZES = (4, 16, 64, 256)  # of machines with an unknown number of CPUs
_OF_MEMORY = (
    "Points, in a round, and memory are those of caches of 48 KiB and 2 MiB a core and 32 MiB for all; "
    "`fleet check` knows the host's."
)


def plans_text(hosts: Sequence[Host], requested: RequestedOptions) -> str:
    """What `fleet run` would do on each host, as far as it is known without connecting."""
    plans = [plan_for(host, requested, 0) for host in hosts]
    rows = [
        (
            host.name,
            where(host),
            "all" if set(plan.benchmarks) == set(BENCHMARKS) else ",".join(plan.benchmarks),
            plan.variant or "auto",
            _cpus(plan),
            _visits(plan),
        )
        for host, plan in zip(hosts, plans, strict=True)
    ]
    titles = ("host", "address", "benchmarks", "variant", "cpus", "sampling")
    if len(rows) > 1 and len({row[2:] for row in rows}) == 1:
        same = "; ".join(f"{title} {cell}" for title, cell in zip(titles[2:], rows[0][2:], strict=True))
        listed = f"{table(titles[:2], [row[:2] for row in rows])}\nOn each: {same}"
    else:
        listed = table(titles, rows)
    return "\n\n".join((listed, _times(plans), "Dry run: nothing was connected to, nothing is stored."))


def _visits(plan: Plan) -> str:
    """How pairs are sampled, in a line: what was requested, and the defaults where they apply."""
    options = effective(plan)
    parts = [f"as {plan.preset} does"] if plan.preset else []
    if plan.rounds is not None or plan.preset is None:
        parts.append(counted(options.rounds, "round") + (" or more" if options.precision else ""))
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


def _times(plans: Sequence[Plan]) -> str:
    """How long measuring takes: by the CPUs a plan names, else for machines of several sizes."""
    cases = [(plan, (len(plan.cpus),) if plan.cpus is not None else _SIZES) for plan in plans]
    found = dict.fromkeys((size, _forecast(plan, size)) for plan, sizes in cases for size in sizes)
    memory = [_OF_MEMORY] if any(_memory(plan, size) for plan, sizes in cases for size in sizes) else []
    if len({took for _, took in found}) == 1:
        return "\n".join([f"Measuring takes about {next(iter(found))[1]}.", *memory])
    rows = (f"  {size:3} CPUs: {took}" for size, took in found)
    return "\n".join(["Measuring takes about", *rows, *memory])


def _forecast(plan: Plan, size: int) -> str:
    """The time, or why the time budget is too short, the points of ladders and the memory of all points."""
    if why := over_budget(plan, size):
        return f"refused: {why}"
    count, mebibytes = points(plan, size), _memory(plan, size)
    parts = [f"{expected(plan, size)}{rounds_text(plan, size)}"]
    parts += [counted(count, "point")] if count else []
    parts += [f"{mebibytes} MiB of memory"] if mebibytes else []
    return ", ".join(parts)


def _memory(plan: Plan, size: int) -> int:
    """Mebibytes that the points take on so many CPUs with the usual caches."""
    return needed(plan, unknown_cpus(plan.cpus or range(size))) >> 20


def _cpus(plan: Plan) -> str:
    return "all allowed" if plan.cpus is None else cpus_text(plan.cpus)


def plans_json(hosts: Sequence[Host], requested: RequestedOptions) -> str:
    """The same for programs: a list of {host, plan, seconds}; seconds only where the CPUs are named."""
    plans = [plan_for(host, requested, 0) for host in hosts]
    entries = [
        {"host": host_object(host), "plan": _plan_object(plan), "seconds": _seconds(plan)}
        for host, plan in zip(hosts, plans, strict=True)
    ]
    return as_json(entries)


def _seconds(plan: Plan) -> dict[str, float] | None:
    return asdict(expected(plan, len(plan.cpus))) if plan.cpus is not None else None


def _plan_object(plan: Plan) -> dict[str, Any]:
    """A plan without the deadline, which depends on the host."""
    return {key: value for key, value in asdict(plan).items() if key != "deadline_s"}


@dataclass(frozen=True, slots=True)
class Hints:
    """What to add to commands that are to be pasted: the options that this session was given.

    results, inventory: such as "-r lab/results", empty for the defaults. logs: the folder of the logs.
    """

    results: str = ""
    inventory: str = ""
    logs: str = ""

    def command(self, *words: str) -> str:
        """A command that can be pasted; empty words are left out."""
        return " ".join(word for word in ("fleet", *words) if word)


def outcomes_text(outcomes: Sequence[Outcome], hints: Hints = Hints(), medians: str = "") -> str:
    """How a session ended: the hosts that are not complete, the numbers, the failures, what to type next.

    A row per host, or of many hosts a row per state and stage. medians: as `numbers.medians_text` gives them.
    """
    many = len(outcomes) > MANY
    listed = [o for o in outcomes if o.state is not State.COMPLETE or not medians]
    parts = [_by_ending(outcomes) if many else _by_host(listed)] if listed else []
    parts = [printable(part) for part in (*parts, *failures(outcomes))]
    parts += [medians] if medians else []
    notes = _common_notes(outcomes) if len(outcomes) > NOTES_AS_THEY_ARRIVE else []
    return "\n\n".join([*parts, *map(printable, notes), printable(_ending(outcomes, hints))])


def _ending(outcomes: Sequence[Outcome], hints: Hints) -> str:
    """How many hosts are stored, and the commands to type next."""
    stored = [outcome for outcome in outcomes if outcome.stored]
    settled = all(outcome.settled for outcome in outcomes)
    longest = max((outcome.seconds for outcome in outcomes), default=0.0)
    bursts = counted(sum(outcome.bursts for outcome in stored), "burst")
    once = len({outcome.host.name for outcome in outcomes}) == len(outcomes)
    total = counted(len(outcomes), "host" if once else "run")
    lines = [
        f"{len(stored)} of {total} stored, {bursts}, {longest:.1f} s."
        if stored
        else f"{len(stored)} of {total} stored."
    ]
    if stored:
        one = stored[0].host.name if len(outcomes) > 1 else ""
        lines.append(f"Next: {hints.command('show', hints.results)}")
        lines += [f"  {hints.command('show', one, hints.results)}"] if one and settled else []
    if not settled:
        resume = hints.command("resume", hints.results, hints.inventory)
        lines.append(f"To measure what is missing: {resume}")
    if hints.logs and any(outcome.message for outcome in outcomes):
        lines.append(f"Full log: {hints.logs}")
    return "\n".join(lines)


def _by_host(outcomes: Sequence[Outcome]) -> str:
    rows = [
        (o.host.name, str(o.state), o.stage, o.run_id or "-", str(o.bursts), f"{o.seconds:.1f} s")
        for o in outcomes
    ]
    return table(("host", "state", "stage", "run", "bursts", "time"), rows)


def _by_ending(outcomes: Sequence[Outcome]) -> str:
    """A row per state and stage, those with most hosts first."""
    alike: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        alike[str(outcome.state), outcome.stage].append(outcome)
    rows = [
        (
            f"{len(same):,}",
            *ending,
            f"{sum(o.bursts for o in same):,}",
            f"{median(o.seconds for o in same):.1f} s, {max(o.seconds for o in same):.1f} s",
            folded((o.host.name for o in same), 60),
        )
        for ending, same in sorted(alike.items(), key=lambda item: -len(item[1]))
    ]
    return table(("hosts", "state", "stage", "bursts", "time: median, longest", "which"), rows)


def failures(outcomes: Sequence[Outcome]) -> list[str]:
    """Each message once, the most frequent first; hosts whose messages differ by their names share it."""
    stages = {outcome.host.name: outcome.stage for outcome in outcomes}
    groups = group_messages((o.host, f"{o.stage}: {o.message}") for o in outcomes if o.message)
    texts = []
    for text, names in groups[:MESSAGES_SHOWN]:
        stage, message = stages[names[0]], shortened(text.partition(": ")[2])
        if len(names) == 1:
            texts.append(f"{stage}: {message}")
        else:
            texts.append(f"{counted(len(names), 'host')}, {stage}: {folded(names)}\n  the first: {message}")
    if rest := groups[MESSAGES_SHOWN:]:
        hosts = sum(len(group.names) for group in rest)
        texts.append(f"{counted(len(rest), 'other failure')} on {counted(hosts, 'host')}: see --json.")
    return texts


def _common_notes(outcomes: Sequence[Outcome]) -> list[str]:
    """The notes of many hosts, the most frequent first; those of few hosts were shown as they arrived."""
    groups = group_messages(
        (
            (o.host, without_name(o.host, note))
            for o in outcomes
            for note in o.notes
            if not note.startswith(FORECAST)
        ),
        numbers_alike=True,
    )
    lines = [
        f"{counted(len(group.names), 'host')} ({folded(group.names, 60)}): {shortened(group.text)}"
        for group in groups[:MESSAGES_SHOWN]
    ]
    hidden = len(groups) - MESSAGES_SHOWN
    lines += [f"and {counted(hidden, 'other note')}: see --json."] if hidden > 0 else []
    return ["Notes\n" + "\n".join(f"  {line}" for line in lines)] if lines else []


def shortened(text: str) -> str:
    """A message of at most about MESSAGE_LIMIT characters; the middle of a longer one is left out."""
    hidden = len(text) - MESSAGE_LIMIT
    if hidden <= 0:
        return text
    half = MESSAGE_LIMIT // 2
    return f"{text[:half]} … ({hidden:,} characters) … {text[-half:]}"


def outcomes_json(outcomes: Sequence[Outcome]) -> str:
    """The same for programs: a list, one object a host."""
    return as_json(
        [
            {
                "host": o.host.name,
                "host_id": o.host.host_id,
                "state": o.state,
                "stage": o.stage,
                "run_id": o.run_id,
                "bursts": o.bursts,
                "seconds": round(o.seconds, 3),
                "exit_code": o.exit_code,
                "message": o.message,
                "notes": list(o.notes),
            }
            for o in outcomes
        ]
    )
