"""`fleet resume`: finishes what the journals and intents of a results root show was left of a session."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fleet.errors import LockedError, UsageError
from fleet.model import Host, Run
from fleet.session.context import SessionContext
from fleet.session.host_progress import HostProgress
from fleet.session.link import HostLink
from fleet.session.log import prune
from fleet.session.measurement import check_same_machine, ended, measured, publish, read_journal
from fleet.session.outcome import Outcome
from fleet.session.runner import on_each, run_host, with_tables
from fleet.store import Intent, Listing, Store

_SHOWN = 5  # sessions


@dataclass(frozen=True, slots=True)
class Remaining:
    """What remains of one session. hosts: the names of those without even a journal."""

    intent: Intent
    runs: tuple[Run, ...]
    hosts: tuple[str, ...]

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.intent.session_id

    @property
    def names(self) -> list[str]:
        """Every host with work remaining, by its inventory name."""
        return list(dict.fromkeys([*(run.host.name for run in self.runs), *self.hosts]))


def find(store: Store, session: str | None) -> Remaining | None:
    """What remains of the most recent session, or of the one `session` names or begins; None: nothing.

    Sessions that another controller of this machine is running are left to it: LockedError if there are no
    others. Raises UsageError where the name fits none or several.
    """
    found = _unfinished(store)
    busy = store.busy()
    if session is None and (free := sorted(set(found) - set(busy))):
        return found[free[-1]]
    if session is None and busy:
        name, process = max(busy.items())
        raise LockedError(f"session {name} is still running: process {process} on this machine.")
    if session is None:
        return None
    if not found:
        raise UsageError(f"{store.place}: no unfinished session there.")
    fitting = [name for name in found if name.startswith(session)]
    if len(fitting) != 1:
        raise UsageError(
            f"{session!r} is {'no' if not fitting else 'more than one'} unfinished session. "
            f"There are: {_some(sorted(found))}."
        )
    return found[fitting[0]]


def others(store: Store, remaining: Remaining) -> str:
    """Name the other unfinished sessions for the user; empty if there are none."""
    names = sorted(set(_unfinished(store)) - set(store.busy()) - {remaining.session_id})
    return f"Also unfinished: {_some(names)}. Name one: fleet resume {names[-1]}" if names else ""


def _some(names: Sequence[str]) -> str:
    before = f"{len(names) - _SHOWN} before, " if len(names) > _SHOWN else ""
    return before + ", ".join(names[-_SHOWN:])


def _unfinished(store: Store) -> Mapping[str, Remaining]:
    intents = {intent.session_id: intent for intent in store.intents()}
    begun = store.begun()
    found, listing = {}, Listing(store.place)
    for name in {*intents, *(run.session_id for run in begun)}:
        intent = intents.get(name, Intent(name, ()))  # none: all of its hosts were stored but for a last step
        runs = tuple(run for run in begun if run.session_id == name)
        has_run = {run.host.name for run in runs}
        if set(intent.hosts) - has_run:
            has_run |= {run.host_name for run in listing.every if run.session_id == name}
        hosts = tuple(host for host in intent.hosts if host not in has_run)
        if runs or hosts:
            found[name] = Remaining(intent, runs, hosts)
        else:
            store.ended(name)  # killed before its very last step
    return found


def resume(
    remaining: Remaining, hosts: Sequence[Host], context: SessionContext, *, partial: bool = False
) -> list[Outcome]:
    """Finish what remains on these hosts; an outcome each. partial: publish what journals hold instead."""
    runs = {run.host.name: run for run in remaining.runs}

    def finished(progress: HostProgress) -> Outcome:
        run = runs.get(progress.host.name)
        link = HostLink(context, progress)
        return progress.stored(run_host(link) if run is None else resume_host(link, run, partial=partial))

    names = set(runs) if partial else set(remaining.names)
    with context.store.under_way(remaining.intent):
        prune(context.store)
        outcomes = on_each([host for host in hosts if host.name in names], finished, context)
        outcomes = with_tables(outcomes, context)
        context.store.complete_tables(remaining.session_id)
        settled = {outcome.host.name for outcome in outcomes if outcome.settled}
        dropped = partial and not any(run.session_id == remaining.session_id for run in context.store.begun())
        if dropped or names <= settled:
            context.store.ended(remaining.session_id)
            outcomes = [replace(outcome, given_up=not outcome.stored) for outcome in outcomes]
    return outcomes


def forget(remaining: Remaining, store: Store) -> None:
    """Give the session up: remove its journals, with what was measured in them, and its note."""
    for run in remaining.runs:
        with store.reopen(run.run_id):
            store.drop(run.run_id)
    store.ended(remaining.session_id)


def hosts_of(remaining: Remaining, inventory: Mapping[str, Host], *, partial: bool = False) -> list[Host]:
    """The hosts as the inventory has them now; partial: as it had them then. Raises UsageError."""
    if partial:
        return [run.host for run in remaining.runs]
    if unknown := [name for name in remaining.names if name not in inventory]:
        raise UsageError(
            f"the inventory no longer has {', '.join(unknown)}, unfinished in session "
            f"{remaining.session_id}: add it again, or store what was measured with --publish-partial."
        )
    return [inventory[name] for name in remaining.names]


def resume_host(link: HostLink, run: Run, *, partial: bool = False) -> Run:
    """Finish one run from its journal: measure what it lacks, if anything, and store it."""
    link.enter("journal", run)
    store = link.context.store
    with store.reopen(run.run_id) as journal:
        so_far = read_journal(link, run, journal)
        link.progress.count(so_far.done.bursts)
        if so_far.lacking is None or partial:
            if so_far.hello is None:
                store.drop(run.run_id)
                raise UsageError(
                    f"{link.host.name}: nothing had arrived of {run.run_id}; its journal is removed."
                )
            return publish(link, ended(run, so_far, link.progress), journal)
        with link:
            facts, agent = link.ready()
            check_same_machine(run, facts, agent)
            same = replace(run, agent=replace(run.agent, path=agent.path))
            return measured(link, same, journal, so_far)
