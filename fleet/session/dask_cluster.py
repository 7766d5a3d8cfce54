"""Distributes a session's hosts among workers of a Dask cluster (docs/scale.md); events come back here."""

import importlib
import io
import logging
import math
import pickle
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType
from typing import Any

from fleet import errors
from fleet.model import Host, RunState
from fleet.model.version import VERSION
from fleet.remote.connect import connect
from fleet.session import events
from fleet.session.context import SessionContext
from fleet.session.host_progress import HostProgress
from fleet.session.link import HostLink
from fleet.session.log import prune_logs
from fleet.session.outcome import Outcome, State
from fleet.session.resume import resume_host
from fleet.session.runner import flush_tables, make_intent, run_host, run_on_each, settle_session
from fleet.session.shards import split_into_groups
from fleet.store import RunSummary, Store
from fleet.store.places import Folder

HOSTS_A_SHARD = 25  # few enough that a lost worker costs little, enough to keep its links busy
LOCAL_WORKERS = 2
ANSWER_S = 10
_OF_DASK = ("distributed", "dask", "concurrent", "asyncio")  # modules of errors that say a worker was lost
_LOCAL = re.compile(r"local(?::([0-9]{1,3}))?")
PROGRESS_EVERY_S = 0.5  # of a host: often enough for a table, seldom enough for a scheduler
_SETTINGS = ("requested", "parallel", "lock", "reconnect_s", "require", "wait_s")  # of a context, for workers


@dataclass(frozen=True, slots=True)
class Job:
    """What every worker needs beside its hosts. settings: fields of SessionContext."""

    session_id: str
    root: str
    connect_timeout_s: float
    settings: Mapping[str, Any]


class _HostNamePickler(pickle.Pickler):
    """Writes a host's name in place of the host, which may have secrets."""

    def persistent_id(self, value: object) -> str | None:
        """Return the name of a host, None for any other value."""
        return value.name if isinstance(value, Host) else None


class _HostNameUnpickler(pickle.Unpickler):
    """Reads an event of one of `hosts`, by their names. Raises KeyError if it is of another."""

    def __init__(self, message: bytes, hosts: Mapping[str, Host]) -> None:
        super().__init__(io.BytesIO(message))
        self._hosts = hosts

    def persistent_load(self, name: str) -> Host:
        """Return the host of this name."""
        return self._hosts[name]


class EventSender:
    """A worker's event handler, which sends progress only now and then. A failure to send costs no run."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send_message = send
        self._guard = threading.Lock()
        self._sent_at: dict[str, float] = {}
        self._held: dict[str, events.BurstsReceived] = {}

    def __call__(self, event: events.Event) -> None:
        """Send the event; hold progress back if some was sent just now, until another event."""
        name, now = event.host.name, time.monotonic()
        with self._guard:
            held = self._held.pop(name, None)
            if isinstance(event, events.BurstsReceived):
                held, event = None, replace(event, live_medians=None)
                if now - self._sent_at.get(name, -math.inf) < PROGRESS_EVERY_S:
                    self._held[name] = event
                    return
                self._sent_at[name] = now
        for pending in (held, event):
            if pending is not None:
                # a worker about to end, or without its scheduler
                with suppress(OSError, RuntimeError, ValueError):
                    stream = io.BytesIO()
                    _HostNamePickler(stream).dump(pending)
                    self._send_message(stream.getvalue())


class EventReceiver:
    """Passes the workers' events on to `emit`, each note and end of a host once. Thread-safe."""

    def __init__(self, hosts: Sequence[Host], emit: events.EventHandler) -> None:
        self._hosts = {host.name: host for host in hosts}
        self._emit = emit
        self._guard = threading.RLock()
        self._notes: dict[str, dict[str, None]] = {}
        self._outcomes: dict[str, Outcome] = {}

    def receive(self, message: bytes) -> None:
        """Pass a message's event on."""
        event = _HostNameUnpickler(
            message, self._hosts
        ).load()  # distributed itself pickles what workers send
        with self._guard:
            notes = self._notes.setdefault(event.host.name, {})
            match event:
                case events.HostFinished(outcome):
                    self._finish(replace(outcome, notes=tuple(notes)))
                    return
                case events.NoteAdded(_, text):
                    if text in notes:
                        return
                    notes[text] = None
                case events.StageEntered():
                    self._outcomes.pop(event.host.name, None)
            self._emit(event)

    def finish(self, outcome: Outcome) -> Outcome:
        """Take a host's outcome from a completed shard; return the one with the most detail."""
        with self._guard:
            outcome_known = self._outcomes.get(outcome.host.name)
            if outcome_known is not None and (outcome_known.state, outcome_known.run_id) == (
                outcome.state,
                outcome.run_id,
            ):
                return outcome_known  # it has notes and a duration, which one only found stored lacks
            return self._finish(outcome)

    def give_up(self, outcome: Outcome) -> Outcome:
        """Return the known outcome of a host whose shard was lost or withdrawn, else `outcome`."""
        with self._guard:
            return self._outcomes.get(outcome.host.name) or self._finish(outcome)

    def _finish(self, outcome: Outcome) -> Outcome:
        self._outcomes[outcome.host.name] = outcome
        self._emit(events.HostFinished(outcome))
        return outcome


def measure_on_cluster(
    cluster: str, hosts: Sequence[Host], context: SessionContext, connect_timeout_s: float
) -> list[Outcome]:
    """Measure `hosts` on the workers of `cluster`: tcp://…, tls://… or local:N. Ctrl-C withdraws shards."""
    settings = {name: getattr(context, name) for name in _SETTINGS}
    settings["labels"] = dict(context.labels)
    job = Job(context.session_id, context.store.place.address, connect_timeout_s, settings)
    intent = make_intent(hosts, context)
    with _open_client(cluster) as client, context.store.hold_session(intent):
        prune_logs(context.store)
        shards = split_into_groups(hosts, max(_count_workers(client), math.ceil(len(hosts) / HOSTS_A_SHARD)))
        by_name = _collect_outcomes(client, shards, job, EventReceiver(hosts, context.emit))
        outcomes = [by_name[host.name] for host in hosts]
        settle_session(context.store, intent, outcomes, intent.hosts)
    return outcomes


def measure_shard(job: Job, hosts: Sequence[Host]) -> list[Outcome]:
    """Measure, on a worker, those of `hosts` that the session has not stored yet."""
    store = Store(job.root)
    store.make_ready()
    if (
        isinstance(store.place, Folder)
        and not (store.state_dir / "journal" / f"{job.session_id}.json").exists()
    ):
        raise errors.StoreError(
            f"{store.place}: a worker does not see the folder that the controller writes to. Give a folder "
            f"that all of them share, or an s3:// address."
        )
    stored = {
        run.host_name: run for run in store.list_runs(withdrawn=True) if run.session_id == job.session_id
    }
    begun = {run.host.name: run for run in store.read_begun_runs() if run.session_id == job.session_id}
    context = SessionContext(
        session_id=job.session_id,
        store=store,
        emit=EventSender(partial(_import_distributed().get_worker().log_event, _name_topic(job))),
        connect=partial(connect, timeout_s=job.connect_timeout_s),
        **job.settings,
    )

    def measure_one(progress: HostProgress) -> Outcome:
        link, run = HostLink(context, progress), begun.get(progress.host.name)
        return progress.outcome_of_run(run_host(link) if run is None else resume_host(link, run))

    unfinished = [host for host in hosts if host.name not in stored or host.name in begun]
    finished = [_outcome_of_stored_run(host, stored[host.name]) for host in hosts if host not in unfinished]
    return finished + flush_tables(run_on_each(unfinished, measure_one, context), context)


def _name_topic(job: Job) -> str:
    return f"fleet-{job.session_id}"


def _collect_outcomes(
    client: Any, shards: Sequence[Sequence[Host]], job: Job, receiver: EventReceiver
) -> dict[str, Outcome]:
    """Wait for every shard; return outcomes by host.

    If a shard fails or is withdrawn, so are its unfinished hosts.
    """
    ended: dict[str, Outcome] = {}
    # until the client is closed
    client.subscribe_topic(_name_topic(job), lambda event: receiver.receive(event[1]))
    futures = {
        client.submit(measure_shard, job, shard, key=f"{job.session_id}-shard-{number}", pure=False): shard
        for number, shard in enumerate(shards, 1)
    }
    try:
        for future in _import_distributed().as_completed(futures):
            try:
                results = future.result()
            except Exception as error:  # the worker's, or that the scheduler has gone
                errors.print_traceback(error)
                outcomes = [receiver.give_up(_lost_outcome(host, error)) for host in futures[future]]
            else:
                outcomes = [receiver.finish(outcome) for outcome in results]
            ended |= {outcome.host.name: outcome for outcome in outcomes}
    except KeyboardInterrupt:
        client.cancel(list(futures))
        hosts = [host for shard in shards for host in shard if host.name not in ended]
        ended |= {host.name: receiver.give_up(_withdrawn_outcome(host)) for host in hosts}
    return ended


@contextmanager
def _open_client(address: str) -> Iterator[Any]:
    distributed = _import_distributed()
    logging.getLogger("distributed").setLevel(logging.CRITICAL + 1)  # what it reports is in the outcomes
    local = _LOCAL.fullmatch(address)
    if local and int(local[1] or LOCAL_WORKERS) > 0:
        with (
            distributed.LocalCluster(
                n_workers=int(local[1] or LOCAL_WORKERS),
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address=None,
                silence_logs=logging.CRITICAL + 1,  # it calls a client that has left, after Ctrl-C, critical
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client
        return
    if not re.fullmatch(r"(tcp|tls|ucx|ws|wss)://\S+", address):
        raise errors.UsageError(
            f"--dask {address}: neither a scheduler (tcp://host:8786, tls://…) nor local:N."
        )
    try:
        client = distributed.Client(address, timeout=ANSWER_S)
    except (OSError, TimeoutError) as err:
        raise errors.UnreachableError(f"--dask {address}: no scheduler answers there: {err}.") from err
    with client:
        yield client


def _count_workers(client: Any) -> int:
    """Return how many workers there are, all of this version. Raises UnreachableError, UsageError."""
    try:
        client.wait_for_workers(1, timeout=ANSWER_S)
    except TimeoutError:
        raise errors.UnreachableError(
            "--dask: the scheduler has no workers. Start `dask worker` somewhere."
        ) from None
    try:
        versions = client.run(_get_version)
    except (ImportError, AttributeError, OSError, RuntimeError) as err:  # as a worker without fleet, or lost
        raise errors.UsageError(f"--dask: fleet {VERSION} must be installed on every worker: {err}.") from err
    if others := {worker: version for worker, version in versions.items() if version != VERSION}:
        named = ", ".join(f"{worker} has {version}" for worker, version in sorted(others.items())[:5])
        raise errors.UsageError(f"--dask: workers need fleet {VERSION}, as here: {named}.")
    return len(versions)


def _get_version() -> str:
    return VERSION


def _import_distributed() -> ModuleType:
    try:
        return importlib.import_module("distributed")
    except ModuleNotFoundError:
        raise errors.UsageError("--dask: not installed here: pip install 'corefleet[dask]'.") from None


def _outcome_of_stored_run(host: Host, run: RunSummary) -> Outcome:
    complete = run.state is RunState.COMPLETE
    return Outcome(
        host,
        State.COMPLETE if complete else State.PARTIAL,
        run_id=run.run_id,
        exit_code=0 if complete else errors.EXIT_SOME_FAILED,
        bursts=run.bursts or 0,
    )


def _lost_outcome(host: Host, error: BaseException) -> Outcome:
    fleet_error = error if isinstance(error, errors.FleetError) else errors.explain(error, f"{host.name}: ")
    if fleet_error is not None:
        return Outcome(
            host,
            State.FAILED,
            stage=fleet_error.stage,
            message=str(fleet_error),
            exit_code=fleet_error.exit_code,
        )
    if not (isinstance(error, OSError) or type(error).__module__.startswith(_OF_DASK)):
        text = f"{host.name}: {errors.describe_bug(error)}"
        return Outcome(host, State.FAILED, stage="shard", message=text, exit_code=errors.EXIT_BUG)
    reason = " ".join(str(error).split()).rstrip(".")
    text = (
        f"{host.name}: its shard was given up: {type(error).__name__}: {reason}. What had arrived is in the "
        f"journals of the workers; `fleet resume` there continues the run."
    )
    return Outcome(host, State.FAILED, stage="shard", message=text, exit_code=errors.EXIT_SOME_FAILED)


def _withdrawn_outcome(host: Host) -> Outcome:
    text = (
        f"{host.name}: stopped. A worker elsewhere that is measuring it finishes and stores it; what one "
        f"on this machine measured is in the journal, for `fleet resume`."
    )
    return Outcome(host, State.INTERRUPTED, stage="shard", message=text, exit_code=errors.EXIT_INTERRUPTED)
