"""`fleet resume`: finishes the sessions that journals and intents show to be
unfinished.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fleet.errors import LockedError, UsageError
from fleet.model import Host, Run
from fleet.session.context import SessionContext
from fleet.session.events import Outcome
from fleet.session.log import prune_logs
from fleet.session.runner import end_if_settled, measure_each
from fleet.store import Intent, Listing, Store

_SHOWN = 5  # sessions


@dataclass(frozen=True, slots=True)
class Remaining:
    """The unfinished part of one session. runs: those with a journal. hosts: names of
    those without one.
    """

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
        names = [run.host.name for run in self.runs]
        names += self.hosts
        return list(dict.fromkeys(names))  # each once


def find_remaining(store: Store, session: str | None) -> Remaining | None:
    """Return what remains of the most recent session, or of the one whose ID starts
    with `session`.

    None if nothing remains. If `session` is None, skip sessions running on this
    machine; raise LockedError if there are only such sessions. Raises UsageError if
    `session` matches none or several, or if there is no such root.
    """
    store.place.require_folder()
    unfinished = _find_unfinished_and_end_done(store)
    if session is None:
        return _find_most_recent(unfinished, store.running_sessions())
    if not unfinished:
        raise UsageError(f"{store.place}: no unfinished session there.")
    matching = [name for name in unfinished if name.startswith(session)]
    if len(matching) != 1:
        number = "more than one" if matching else "no"
        raise UsageError(
            f"{session!r} is {number} unfinished session."
            f" There are: {_abbreviate_list(sorted(unfinished))}."
        )
    return unfinished[matching[0]]


def _find_most_recent(
    unfinished: Mapping[str, Remaining], running: Mapping[str, tuple[int, Intent]]
) -> Remaining | None:
    """Return the last unfinished session that is not running, None if there is none.
    Raises LockedError if there are only running ones.
    """
    idle = set(unfinished) - set(running)
    if idle:
        last_begun = max(idle)  # IDs begin with the time
        return unfinished[last_begun]
    if running:
        name = max(running)
        process, _ = running[name]
        raise LockedError(
            f"session {name} is still running: process {process} on this machine."
        )
    return None


def name_other_sessions(store: Store, remaining: Remaining) -> str:
    """Return a sentence that names the unfinished sessions that are not running,
    besides `remaining`, the one that was resumed; "" if there are none.
    """
    unfinished = _find_unfinished_and_end_done(store)
    others = set(unfinished) - set(store.running_sessions())
    others.discard(remaining.session_id)
    names = sorted(others)
    if not names:
        return ""
    return (
        f"Also unfinished: {_abbreviate_list(names)}. Name one: fleet resume"
        f" {names[-1]}"
    )


def _abbreviate_list(names: Sequence[str]) -> str:
    """Join the last names, and say how many are before them."""
    text = ", ".join(names[-_SHOWN:])
    left_out = len(names) - _SHOWN
    if left_out > 0:
        return f"{left_out} before, {text}"
    return text


def _find_unfinished_and_end_done(store: Store) -> Mapping[str, Remaining]:
    """Return what remains of each unfinished session, by its ID. End a session of which
    nothing remains: fleet was killed just before it did that.

    A session has an intent, which names its hosts, until it ends; a run that has begun
    has a journal until it is stored.
    """
    intents = {intent.session_id: intent for intent in store.read_idle_intents()}
    begun = store.read_begun_runs()
    listing = Listing(store.place)
    sessions_with_journal = {run.session_id for run in begun}
    remaining = {}
    for session_id in intents.keys() | sessions_with_journal:
        # without an intent that can be read, only the runs with a journal are known
        no_hosts = Intent(session_id, ())
        intent = intents.get(session_id, no_hosts)
        runs = tuple(run for run in begun if run.session_id == session_id)
        hosts = _list_hosts_without_run(intent, runs, listing)
        if runs or hosts:
            remaining[session_id] = Remaining(intent, runs, hosts)
        else:
            store.end_session(session_id)
    return remaining


def _list_hosts_without_run(
    intent: Intent, begun: Sequence[Run], listing: Listing
) -> tuple[str, ...]:
    """Return the session's hosts that have neither a journal nor a stored run."""
    names_with_run = {run.host.name for run in begun}
    if names_with_run.issuperset(intent.hosts):
        return ()  # without reading the list of stored runs
    for run in listing.all_runs:
        if run.session_id == intent.session_id:
            names_with_run.add(run.host_name)
    return tuple(host for host in intent.hosts if host not in names_with_run)


def resume_session(
    remaining: Remaining,
    hosts: Sequence[Host],
    context: SessionContext,
    *,
    partial: bool = False,
) -> list[Outcome]:
    """Finish what remains on these hosts; return the outcomes.

    partial: measure nothing; publish the journals as they are, and give up the hosts
    that have none. If the session is then over, nothing is left to resume: an outcome
    without a stored run says that it is given up.
    """
    store = context.store
    begun_runs = {run.host.name: run for run in remaining.runs}
    unfinished_names = set(remaining.names)
    if partial:  # without measuring, only hosts with a journal can be finished
        unfinished_names = set(begun_runs)
    hosts_to_finish = [host for host in hosts if host.name in unfinished_names]
    with store.hold_session(remaining.intent):
        prune_logs(store)
        outcomes = measure_each(hosts_to_finish, context, begun_runs, partial=partial)
        store.complete_tables(remaining.session_id)
        names_that_must_settle = unfinished_names
        if partial and not _has_begun_runs(store, remaining.session_id):
            # All journals are published, and the hosts without one are given up. So
            # the session is over, whatever became of its hosts.
            names_that_must_settle = set()
        is_over = end_if_settled(
            store, remaining.intent, outcomes, names_that_must_settle
        )
    if not is_over:
        return outcomes
    return [replace(outcome, given_up=not outcome.is_stored) for outcome in outcomes]


def _has_begun_runs(store: Store, session_id: str) -> bool:
    """Report whether a session still has a journal."""
    return any(run.session_id == session_id for run in store.read_begun_runs())


def forget_session(remaining: Remaining, store: Store) -> None:
    """Remove a session's journals, with their bursts, and its note. Raises LockedError,
    StoreError.
    """
    for run in remaining.runs:
        with store.reopen_journal(run.run_id):
            store.drop_journal(run.run_id)
    store.end_session(remaining.session_id)


def hosts_to_resume(
    remaining: Remaining, inventory: Mapping[str, Host], *, partial: bool = False
) -> list[Host]:
    """Return the remaining hosts as the inventory has them now. Raises UsageError if it
    lacks one of them.

    partial: return only the hosts with a journal, as they were when their runs began.
    """
    if partial:
        return [run.host for run in remaining.runs]
    unknown = [name for name in remaining.names if name not in inventory]
    if unknown:
        raise UsageError(
            f"the inventory no longer has {', '.join(unknown)}, unfinished in session"
            f" {remaining.session_id}: add it again, or store what was measured with"
            " --publish-partial."
        )
    return [inventory[name] for name in remaining.names]
