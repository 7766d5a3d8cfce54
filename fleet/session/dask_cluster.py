"""Distributes a session's hosts among workers of a Dask cluster (docs/scale.md); events
come back here.
"""

import importlib
import logging
import math
import os
import pickle
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any

from fleet import errors
from fleet.model import Host, RunState
from fleet.model.version import VERSION
from fleet.remote.connect import connect
from fleet.session import events
from fleet.session.context import SessionContext
from fleet.session.events import Outcome, State
from fleet.session.host_progress import find_cause
from fleet.session.runner import measure_each, run_session
from fleet.session.shards import split_into_groups
from fleet.store import RunSummary, Store
from fleet.store.places import Folder

# few enough that a lost worker costs little, enough to keep its links busy
HOSTS_A_SHARD = 25
LOCAL_WORKERS = 2
ANSWER_S = 10
# modules of errors that say a worker was lost
_DASK_MODULES = ("distributed", "dask", "concurrent", "asyncio")
_LOCAL = re.compile(r"local(?::([0-9]{1,3}))?")
_SCHEDULER = re.compile(r"(tcp|tls|ucx|ws|wss)://\S+")
# of a host: often enough for a table, seldom enough for a scheduler
PROGRESS_EVERY_S = 0.5
# of a context, for workers
_SETTINGS = ("requested", "parallel", "lock", "reconnect_s", "require", "wait_s")


def _replace_host(event: Any, host: Any) -> Any:
    """Return the event with another host, or with None so that it carries no secrets of
    the inventory.
    """
    if isinstance(event, events.HostFinished):
        return events.HostFinished(replace(event.outcome, host=host))
    return replace(event, host=host)


class EventSender:
    """Sends a worker's events, progress at most every PROGRESS_EVERY_S for each host.
    Ignores send errors.
    """

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send_message = send
        self._guard = threading.Lock()
        self._sent_at: dict[str, float] = {}
        self._held: dict[str, events.BurstsReceived] = {}

    def __call__(self, event: events.Event) -> None:
        """Send the event; too frequent progress is sent with the next event or replaced
        by newer progress.
        """
        for pending in self._choose_to_send(event):
            message = (event.host.name, _replace_host(pending, None))
            # a worker about to end, or without its scheduler
            with suppress(OSError, RuntimeError, ValueError):
                self._send_message(pickle.dumps(message))

    def _choose_to_send(self, event: events.Event) -> list[events.Event]:
        """Return the events to send now. An event of progress is held back, and nothing
        is sent, if the host's last one was sent less than PROGRESS_EVERY_S ago. The
        host's next event replaces the held one if it is progress, too; else the held
        one is sent before it.
        """
        name = event.host.name
        with self._guard:
            held = self._held.pop(name, None)
            if not isinstance(event, events.BurstsReceived):
                return [event] if held is None else [held, event]
            # the event replaces the held one; its live medians stay in this process
            progress = replace(event, live_medians=None)
            now = time.monotonic()
            since_last_s = now - self._sent_at.get(name, -math.inf)
            if since_last_s < PROGRESS_EVERY_S:
                self._held[name] = progress
                return []
            self._sent_at[name] = now
            return [progress]


class EventReceiver:
    """Passes the workers' events on to `emit`, without repeated notes of a host.
    Thread-safe.
    """

    def __init__(self, hosts: Sequence[Host], emit: events.EventHandler) -> None:
        self._hosts = {host.name: host for host in hosts}
        self._emit = emit
        self._guard = threading.RLock()
        # by host name: the texts of its notes, in order
        self._notes: dict[str, dict[str, None]] = {}
        self._outcomes: dict[str, Outcome] = {}

    def receive(self, message: bytes) -> None:
        """Unpack an event, which a worker sent without its host; add the host, and pass
        the event on. A note that the host has already is not passed on. An outcome gets
        all notes of its host.
        """
        name, hostless_event = pickle.loads(message)  # noqa: S301  distributed itself pickles what workers send
        event = _replace_host(hostless_event, self._hosts[name])
        with self._guard:
            notes = self._notes.setdefault(name, {})
            match event:
                case events.HostFinished(outcome):
                    # this passes the event on, too
                    self._record_and_emit(replace(outcome, notes=tuple(notes)))
                    return
                case events.NoteAdded(_, text):
                    if text in notes:
                        return
                    notes[text] = None
                case events.StageEntered():
                    # if the host had ended, its worker was lost, and another worker has
                    # begun the host again
                    self._outcomes.pop(name, None)
            self._emit(event)

    def reconcile_with_sent(self, outcome: Outcome) -> Outcome:
        """Return the outcome that the worker sent, if it has the run and the state of
        `outcome`. Else record, pass on and return `outcome`.
        """
        with self._guard:
            sent = self._outcomes.get(outcome.host.name)
            if sent is not None:
                is_same_run = sent.run_id == outcome.run_id
                if is_same_run and sent.state is outcome.state:
                    # The outcome of a run that was only found stored has neither notes
                    # nor a duration; the outcome sent has both.
                    return sent
            return self._record_and_emit(outcome)

    def record_lost(self, outcome: Outcome) -> Outcome:
        """Return the outcome that a lost or withdrawn shard sent, else record and
        return `outcome`.
        """
        with self._guard:
            sent = self._outcomes.get(outcome.host.name)
            return sent or self._record_and_emit(outcome)

    def _record_and_emit(self, outcome: Outcome) -> Outcome:
        self._outcomes[outcome.host.name] = outcome
        self._emit(events.HostFinished(outcome))
        return outcome


def measure_on_cluster(
    cluster: str,
    hosts: Sequence[Host],
    context: SessionContext,
    connect_timeout_s: float,
) -> list[Outcome]:
    """Measure `hosts` on the workers of a Dask cluster; return their outcomes. Ctrl-C
    withdraws the shards, the groups of hosts that workers measure.

    cluster: the address of a scheduler, tcp://… or tls://…, or local:N.
    """
    settings = {name: getattr(context, name) for name in _SETTINGS}
    settings["labels"] = dict(context.labels)
    measure = partial(
        measure_shard,
        context.session_id,
        context.store.place.address,
        connect_timeout_s,
        settings,
    )
    with _open_client(cluster) as client:
        return run_session(hosts, context, partial(_measure_shards, client, measure))


def measure_shard(
    session_id: str,
    root: str,
    connect_timeout_s: float,
    settings: Mapping[str, Any],
    hosts: Sequence[Host],
) -> list[Outcome]:
    """On a worker, measure the `hosts` not stored yet; return all outcomes. settings:
    further fields of SessionContext.

    A host is stored already if dask gives the shard of a lost worker to this one. A run
    of this session that has a journal here has begun, and is finished from that.
    """
    store = Store(root)
    store.require_writable()
    _require_shared_folder(store, session_id)
    stored = {
        run.host_name: run
        for run in store.list_runs(withdrawn=True)
        if run.session_id == session_id
    }
    begun = {
        run.host.name: run
        for run in store.read_begun_runs()
        if run.session_id == session_id
    }
    log_event = _import_distributed().get_worker().log_event
    context = SessionContext(
        session_id=session_id,
        store=store,
        emit=EventSender(partial(log_event, f"fleet-{session_id}")),
        connect=partial(connect, timeout_s=connect_timeout_s),
        **settings,
    )
    outcomes = []
    unfinished = []
    for host in hosts:
        if host.name in stored and host.name not in begun:
            outcomes.append(_outcome_of_stored_run(host, stored[host.name]))
        else:
            unfinished.append(host)
    return outcomes + measure_each(unfinished, context, begun)


def _require_shared_folder(store: Store, session_id: str) -> None:
    """Raise StoreError if a worker's folder is another than that of the controller,
    which writes the session's intent there when the session begins.
    """
    intent_file = store.state_dir / "journal" / f"{session_id}.json"
    if isinstance(store.place, Folder) and not intent_file.exists():
        raise errors.StoreError(
            f"{store.place}: a worker does not see the folder that the controller"
            " writes to. Give a folder that all of them share, or an s3:// address."
        )


def _measure_shards(
    client: Any,
    measure: Callable[[Sequence[Host]], list[Outcome]],
    hosts: Sequence[Host],
    context: SessionContext,
) -> list[Outcome]:
    """Measure hosts in shards, a few hosts each, on the workers of `client`. Return an
    outcome for each host, also of shards that are lost with their worker or that Ctrl-C
    withdraws. measure: what a worker does with the hosts of a shard.
    """
    receiver = EventReceiver(hosts, context.emit)
    workers = _check_and_count_workers(client)
    # Until the client is closed, dask calls this with what workers send: the time and
    # the message.
    client.subscribe_topic(
        f"fleet-{context.session_id}", lambda event: receiver.receive(event[1])
    )
    fewest_shards = math.ceil(len(hosts) / HOSTS_A_SHARD)
    groups = split_into_groups(hosts, max(workers, fewest_shards))
    shards: dict[Any, Sequence[Host]] = {}  # by the future of its outcomes
    for number, shard in enumerate(groups, 1):
        key = f"{context.session_id}-shard-{number}"
        future = client.submit(measure, shard, key=key, pure=False)
        shards[future] = shard
    outcomes: dict[str, Outcome] = {}
    try:
        for future in _import_distributed().as_completed(shards):
            for outcome in _collect_outcomes(future, shards[future], receiver):
                outcomes[outcome.host.name] = outcome
    except KeyboardInterrupt:
        client.cancel(list(shards))
        for host in hosts:
            if host.name not in outcomes:
                withdrawn = _withdrawn_outcome(host)
                outcomes[host.name] = receiver.record_lost(withdrawn)
    return [outcomes[host.name] for host in hosts]


def _collect_outcomes(
    future: Any, shard: Sequence[Host], receiver: EventReceiver
) -> list[Outcome]:
    """Return the outcomes of a shard that has ended, also if its worker was lost."""
    try:
        return [receiver.reconcile_with_sent(outcome) for outcome in future.result()]
    except Exception as error:  # the worker's, or that the scheduler has gone
        errors.print_traceback_if_debugging(error)
        return [receiver.record_lost(_lost_outcome(host, error)) for host in shard]


@contextmanager
def _open_client(address: str) -> Iterator[Any]:
    """Open a client of the cluster with this address: that of a scheduler, or local:N
    for a cluster of N workers on this machine, which ends with the client. Raises
    UsageError, UnreachableError.
    """
    distributed = _import_distributed()
    # what the library reports is in the outcomes
    logging.getLogger("distributed").setLevel(logging.CRITICAL + 1)
    local_workers = _parse_local_workers(address)
    with ExitStack() as opened:
        where: Any = address
        if local_workers > 0:
            where = opened.enter_context(_make_local_cluster(local_workers))
        elif not _SCHEDULER.fullmatch(address):
            raise errors.UsageError(
                f"--dask {address}: neither a scheduler (tcp://host:8786, tls://…) nor"
                " local:N."
            )
        try:
            client = opened.enter_context(distributed.Client(where, timeout=ANSWER_S))
        except (OSError, TimeoutError) as err:
            raise errors.UnreachableError(
                f"--dask {address}: no scheduler answers there: {err}."
            ) from err
        yield client


def _parse_local_workers(address: str) -> int:
    """Return the number of workers of local:N, LOCAL_WORKERS for "local", and 0 for
    another address.
    """
    match = _LOCAL.fullmatch(address)
    if match is None:
        return 0
    return int(match[1] or LOCAL_WORKERS)


def _make_local_cluster(workers: int) -> Any:
    """Start a cluster of so many worker processes on this machine."""
    # else workers would import a module of the current folder as Python's own
    os.environ["PYTHONSAFEPATH"] = "1"
    return _import_distributed().LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address=None,
        # after Ctrl-C the cluster logs as critical that the client left
        silence_logs=logging.CRITICAL + 1,
    )


def _check_and_count_workers(client: Any) -> int:
    """Count the workers; require this version on all of them. Raises UnreachableError,
    UsageError.
    """
    try:
        client.wait_for_workers(1, timeout=ANSWER_S)
    except TimeoutError:
        raise errors.UnreachableError(
            "--dask: the scheduler has no workers. Start `dask worker` somewhere."
        ) from None
    try:
        versions = client.run(_get_fleet_version)
    except (ImportError, AttributeError, OSError, RuntimeError) as err:
        # as a worker without fleet, or lost
        raise errors.UsageError(
            f"--dask: fleet {VERSION} must be installed on every worker: {err}."
        ) from err
    others = [
        f"{worker} has {version}"
        for worker, version in sorted(versions.items())
        if version != VERSION
    ]
    if others:
        raise errors.UsageError(
            f"--dask: workers need fleet {VERSION}, the version here, but"
            f" {', '.join(others[:5])}."
        )
    return len(versions)


def _get_fleet_version() -> str:
    return VERSION


def _import_distributed() -> ModuleType:
    """Import `distributed`, which only --dask needs. Raises UsageError if it is
    missing.
    """
    try:
        return importlib.import_module("distributed")
    except ModuleNotFoundError:
        raise errors.UsageError(
            "--dask: not installed here: pip install 'corefleet[dask]'."
        ) from None


def _outcome_of_stored_run(host: Host, run: RunSummary) -> Outcome:
    """Return the outcome of a host whose run another worker stored before it was lost.
    The stored run does not say why it is partial, so there is no message.
    """
    state = State.PARTIAL
    exit_code = errors.EXIT_SOME_FAILED
    if run.state is RunState.COMPLETE:
        state = State.COMPLETE
        exit_code = 0
    return Outcome(
        host,
        state,
        run_id=run.run_id,
        exit_code=exit_code,
        bursts=run.bursts or 0,
    )


def _lost_outcome(host: Host, error: Exception) -> Outcome:
    """Return the outcome of a host whose shard ended by an error, not by outcomes."""
    cause = find_cause(error, prefix=f"{host.name}: ")
    if cause is not None:
        stage = cause.stage
        text = str(cause)
        exit_code = cause.exit_code
    elif isinstance(error, OSError) or type(error).__module__.startswith(_DASK_MODULES):
        stage = "shard"
        reason = " ".join(str(error).split()).rstrip(".")
        text = (
            f"{host.name}: its shard was given up: {type(error).__name__}: {reason}."
            " What had arrived is in the journals of the workers; `fleet resume` there"
            " continues the run."
        )
        exit_code = errors.EXIT_SOME_FAILED
    else:
        stage = "shard"
        text = f"{host.name}: {errors.describe_bug(error)}"
        exit_code = errors.EXIT_BUG
    return Outcome(host, State.FAILED, stage=stage, message=text, exit_code=exit_code)


def _withdrawn_outcome(host: Host) -> Outcome:
    """Return the outcome of a host whose shard Ctrl-C has withdrawn. The
    workers that fleet has started on this machine end then; those elsewhere go on.
    """
    text = (
        f"{host.name}: stopped. A worker elsewhere that is measuring it finishes and"
        " stores it; what one on this machine measured is in the journal, for `fleet"
        " resume`."
    )
    return Outcome(
        host,
        State.INTERRUPTED,
        stage="shard",
        message=text,
        exit_code=errors.EXIT_INTERRUPTED,
    )
