"""`fleet resume`: finishes what a lost link, a dead controller or Ctrl-C has left of a session. Floor 4.

What is left shows in the results root alone: journals not yet published, and hosts of which the session's
intent says that they were to be measured and which have no run at all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fleet.errors import AgentError, LockedError, RefusedError, UsageError
from fleet.model import Host, Run
from fleet.session.context import Session
from fleet.session.link import Way
from fleet.session.log import prune
from fleet.session.measurement import carry_out, check_same_machine, ended, heard, stored
from fleet.session.outcome import Outcome, Story
from fleet.session.runner import on_each, run_host
from fleet.store import Intent, Store

_SHOWN = 5  # sessions


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of one session. hosts: those that have not even a journal, by name."""

    intent: Intent
    runs: tuple[Run, ...]
    hosts: tuple[str, ...]

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.intent.session_id

    @property
    def names(self) -> list[str]:
        """Every host there is something to do for, by its inventory name."""
        return list(dict.fromkeys([*(run.host.name for run in self.runs), *self.hosts]))


def find(store: Store, session: str | None) -> Left | None:
    """What is left of the session that began last, or of the one `session` names or begins; None: nothing.

    Sessions that another controller of this machine is at are left to it: LockedError if there is nothing
    else. Raises UsageError where the name fits none or several.
    """
    left = _all_left(store)
    busy = store.busy()
    if session is None and (free := sorted(set(left) - set(busy))):
        return left[free[-1]]
    if session is None and busy:
        name, process = max(busy.items())
        raise LockedError(f"session {name} is under way: process {process} on this machine is measuring it.")
    if session is None:
        return None
    if not left:
        raise UsageError(f"{store.place}: nothing is left to finish there.")
    fitting = [name for name in left if name.startswith(session)]
    if len(fitting) != 1:
        raise UsageError(
            f"{session!r} is {'no' if not fitting else 'more than one'} session with something left to "
            f"finish. There are: {_some(sorted(left))}."
        )
    return left[fitting[0]]


def others(store: Store, left: Left) -> str:
    """Name the other sessions that have something left to finish, for the person; empty if there are none."""
    names = sorted(set(_all_left(store)) - set(store.busy()) - {left.session_id})
    return f"Unfinished as well: {_some(names)}. Name one: fleet resume {names[-1]}" if names else ""


def _some(names: Sequence[str]) -> str:
    """The last of these names, and how many there are before them."""
    before = f"{len(names) - _SHOWN} before, " if len(names) > _SHOWN else ""
    return before + ", ".join(names[-_SHOWN:])


def _all_left(store: Store) -> Mapping[str, Left]:
    intents = {intent.session_id: intent for intent in store.intents()}
    begun = store.begun()
    found = {}
    for name in {*intents, *(run.session_id for run in begun)}:
        intent = intents.get(name, Intent(name, ()))  # none: its hosts were all stored but for a last step
        runs = tuple(run for run in begun if run.session_id == name)
        has_run = {run.host.name for run in runs}
        if set(intent.hosts) - has_run:
            has_run |= {run.host_name for run in store.published() if run.session_id == name}
        hosts = tuple(host for host in intent.hosts if host not in has_run)
        if runs or hosts:
            found[name] = Left(intent, runs, hosts)
        else:
            store.ended(name)  # killed before its very last step
    return found


def resume(
    left: Left, hosts: Sequence[Host], session: Session, parallel: int, *, partial: bool = False
) -> list[Outcome]:
    """Finish what is left on these hosts of the inventory; one outcome per host, as `session.run` gives.

    partial: connect to nothing; publish what the journals hold, as partial runs, and give the rest up.
    """
    runs = {run.host.name: run for run in left.runs}

    def finished(host: Host, story: Story) -> Outcome:
        run = runs.get(host.name)
        if run is None:
            return story.ended(run_host(host, session, story))
        return story.ended(resume_host(host, run, session, story, partial=partial))

    names = set(runs) if partial else set(left.names)
    chosen = [host for host in hosts if host.name in names]
    with session.store.under_way(left.intent):
        prune(session.store)
        outcomes = on_each(chosen, finished, session.watcher, session.stopping, parallel) if chosen else []
        done = {o.host.name for o in outcomes if o.settled}
        given_up = partial and not any(run.session_id == left.session_id for run in session.store.begun())
        if given_up or names <= done:
            session.store.ended(left.session_id)
    return outcomes


def hosts_of(left: Left, inventory: Mapping[str, Host], *, partial: bool = False) -> list[Host]:
    """The hosts as the inventory now says; for publishing only, as it said then. Raises UsageError."""
    if partial:
        return [run.host for run in left.runs]
    if unknown := [name for name in left.names if name not in inventory]:
        raise UsageError(
            f"the inventory has no {', '.join(unknown)} any more, which session {left.session_id} has left "
            "unfinished: enter it again, or store what there is with --publish-partial."
        )
    return [inventory[name] for name in left.names]


def resume_host(host: Host, run: Run, session: Session, story: Story, *, partial: bool = False) -> Run:
    """Finish one run from its journal: measure what it lacks, if anything, and store it."""
    session.stopping.check()
    story.enter("journal", run)
    with session.store.reopen(run.run_id) as journal:
        said = heard(run, journal)
        story.know(said.done.bursts)
        if said.lacking is None or partial:
            if said.hello is None:
                session.store.drop(run.run_id)
                raise UsageError(f"{host.name}: nothing had arrived of {run.run_id}; its journal is removed.")
            return stored(ended(run, said, story), journal, session, story)
        story.enter("connect")
        with Way(host, session, story) as way:
            facts, agent = way.ready()
            check_same_machine(run, facts, agent)
            again = replace(run, agent=replace(run.agent, path=agent.path))
            try:
                whole = carry_out(way, again, journal, session, story)
            except RefusedError as err:  # what had been measured stays
                raise AgentError(str(err)) from err
            return stored(whole, journal, session, story)
