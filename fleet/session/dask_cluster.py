"""Hands the hosts of one session out to the workers of a Dask cluster (extra `dask`). Floor 4.

Each worker is a controller: it connects to its shard's hosts, keeps journals and publishes into the results
root that all share. A lost worker's shard goes to another, which leaves out what is published by then and
goes on with the journals it can see. What is said on the way comes here as events (`relaying`).
"""

import importlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

from fleet import __version__
from fleet.errors import (
    EXIT_INTERRUPTED,
    EXIT_SOME_FAILED,
    FleetError,
    StoreError,
    UnreachableError,
    UsageError,
)
from fleet.model import Host, LockPolicy, RequestedOptions, RunState
from fleet.remote.connect import connect
from fleet.session.context import Session
from fleet.session.dask_events import Message, Relay, Relayed
from fleet.session.log import prune
from fleet.session.outcome import Outcome, State, Story
from fleet.session.resume import resume_host
from fleet.session.runner import on_each, run_host
from fleet.session.shards import deal
from fleet.store import Intent, RunSummary, Store
from fleet.store.places import Folder

HOSTS_A_SHARD = 25  # few enough that a lost worker costs little, enough to keep its links busy
WORKERS_HERE = 2
ANSWER_S = 10
_LOCAL = re.compile(r"local(?::([0-9]{1,3}))?")


@dataclass(frozen=True, slots=True)
class Job:
    """What every worker is told besides its hosts."""

    session_id: str
    root: str
    requested: RequestedOptions
    labels: Mapping[str, str]
    parallel: int
    lock: LockPolicy | None
    reconnect_s: float
    connect_timeout_s: float


def run(
    where: str, hosts: Sequence[Host], session: Session, parallel: int, connect_timeout_s: float
) -> list[Outcome]:
    """Measure `hosts` by the workers of `where`, each `parallel` at once; one outcome per host, in order.

    where: a scheduler's address (tcp://…, tls://…), or local:N for N workers on this machine. Raises
    UsageError or UnreachableError where nothing could begin. Ctrl-C withdraws the shards not begun.
    """
    job = Job(
        session_id=session.session_id,
        root=session.store.place.address,
        requested=session.requested,
        labels=dict(session.labels),
        parallel=parallel,
        lock=session.lock,
        reconnect_s=session.reconnect_s,
        connect_timeout_s=connect_timeout_s,
    )
    intent = Intent(job.session_id, tuple(host.name for host in hosts), job.requested, job.labels)
    with _client(where) as client, session.store.under_way(intent):
        prune(session.store)
        shards = deal(hosts, max(_workers(client), math.ceil(len(hosts) / HOSTS_A_SHARD)))
        by_name = _collect(client, shards, job, Relayed(hosts, session.watcher))
        outcomes = [by_name[host.name] for host in hosts]
        if all(outcome.settled for outcome in outcomes):
            session.store.ended(job.session_id)
    return outcomes


def measure_shard(job: Job, hosts: Sequence[Host]) -> list[Outcome]:
    """What a worker does: measure those of `hosts` that the session has not stored yet."""
    store = Store(job.root)
    store.make_ready()
    if (
        isinstance(store.place, Folder)
        and not (store.state_dir / "_journal" / f"{job.session_id}.json").exists()
    ):
        raise StoreError(
            f"{store.place}: a worker does not see the folder that the controller writes to. Give a folder "
            f"that all of them share, or an s3:// address."
        )
    stored = {summary.host_name: summary for summary in store.published() if _of(summary, job)}
    begun = {one.host.name: one for one in store.begun() if one.session_id == job.session_id}
    session = Session(
        session_id=job.session_id,
        store=store,
        watcher=Relay(_teller(job)),
        requested=job.requested,
        labels=job.labels,
        lock=job.lock,
        reconnect_s=job.reconnect_s,
        connect=partial(connect, timeout_s=job.connect_timeout_s),
    )

    def measured(host: Host, story: Story) -> Outcome:
        if host.name in begun:
            return story.ended(resume_host(host, begun[host.name], session, story))
        return story.ended(run_host(host, session, story))

    left = [host for host in hosts if host.name not in stored or host.name in begun]
    done = [_stored(host, stored[host.name]) for host in hosts if host not in left]
    new = on_each(left, measured, session.watcher, session.stopping, job.parallel) if left else []
    return done + new


def _teller(job: Job) -> Callable[[Message], None]:
    """What sends a message from this worker to the controller; the scheduler hands it on."""
    worker = _distributed().get_worker()
    return partial(worker.log_event, _topic(job))


def _topic(job: Job) -> str:
    return f"fleet-{job.session_id}"


def _collect(client: Any, shards: Sequence[Sequence[Host]], job: Job, relayed: Relayed) -> dict[str, Outcome]:
    """Wait for every shard; the outcome of each host by its name.

    Of a shard that failed as a whole, or is withdrawn by Ctrl-C, those hosts fail that had not ended.
    """
    ended: dict[str, Outcome] = {}
    client.subscribe_topic(_topic(job), lambda event: relayed.hear(event[1]))  # until the client is closed
    futures = {
        client.submit(measure_shard, job, shard, key=f"{job.session_id}-shard-{number}", pure=False): shard
        for number, shard in enumerate(shards, 1)
    }
    try:
        for future in _distributed().as_completed(futures):
            if error := future.exception():
                outcomes = [relayed.given_up(_lost(host, error)) for host in futures[future]]
            else:
                outcomes = [relayed.ended(outcome) for outcome in future.result()]
            ended |= {outcome.host.name: outcome for outcome in outcomes}
    except KeyboardInterrupt:
        client.cancel(list(futures))
        hosts = [host for shard in shards for host in shard if host.name not in ended]
        ended |= {host.name: relayed.given_up(_withdrawn(host)) for host in hosts}
    return ended


@contextmanager
def _client(where: str) -> Iterator[Any]:
    distributed = _distributed()
    here = _LOCAL.fullmatch(where)
    if here and int(here[1] or WORKERS_HERE) > 0:
        with (
            distributed.LocalCluster(
                n_workers=int(here[1] or WORKERS_HERE),
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address=None,
                silence_logs="CRITICAL",
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client
        return
    if not re.fullmatch(r"(tcp|tls|ucx|ws|wss)://\S+", where):
        raise UsageError(f"--dask {where}: neither a scheduler (tcp://host:8786, tls://…) nor local:N.")
    try:
        client = distributed.Client(where, timeout=ANSWER_S)
    except (OSError, TimeoutError) as err:
        raise UnreachableError(f"--dask {where}: no scheduler answers there: {err}.") from err
    with client:
        yield client


def _workers(client: Any) -> int:
    """How many there are, all of this version. Raises UnreachableError, UsageError."""
    try:
        client.wait_for_workers(1, timeout=ANSWER_S)
    except TimeoutError:
        raise UnreachableError(
            "--dask: the scheduler has no workers. Start `dask worker` somewhere."
        ) from None
    try:
        versions = client.run(_version)
    except Exception as err:
        raise UsageError(f"--dask: fleet {__version__} must be installed on every worker: {err}.") from err
    if others := {worker: version for worker, version in versions.items() if version != __version__}:
        named = ", ".join(f"{worker} has {version}" for worker, version in sorted(others.items())[:5])
        raise UsageError(f"--dask: workers need fleet {__version__}, as here: {named}.")
    return len(versions)


def _version() -> str:
    return __version__


def _distributed() -> ModuleType:
    try:
        return importlib.import_module("distributed")
    except ModuleNotFoundError:
        raise UsageError("--dask: not installed here: pip install 'corefleet[dask]'.") from None


def _of(summary: RunSummary, job: Job) -> bool:
    return summary.session_id == job.session_id


def _stored(host: Host, summary: RunSummary) -> Outcome:
    """The outcome of a host that a lost worker had stored."""
    whole = summary.state is RunState.COMPLETE
    return Outcome(
        host,
        State.COMPLETE if whole else State.PARTIAL,
        run_id=summary.run_id,
        exit_code=0 if whole else EXIT_SOME_FAILED,
        bursts=summary.bursts or 0,
    )


def _lost(host: Host, error: BaseException) -> Outcome:
    if isinstance(error, FleetError):
        return Outcome(host, State.FAILED, stage=error.stage, message=str(error), exit_code=error.exit_code)
    text = (
        f"{host.name}: its shard was given up: {type(error).__name__}: {error}. What had arrived is in the "
        f"journals of the workers; `fleet resume` there goes on with it."
    )
    return Outcome(host, State.FAILED, stage="shard", message=text, exit_code=EXIT_SOME_FAILED)


def _withdrawn(host: Host) -> Outcome:
    text = (
        f"{host.name}: stopped. A worker elsewhere that was at it goes on and stores it; what one on this "
        f"machine had is in the journal, for `fleet resume`."
    )
    return Outcome(host, State.INTERRUPTED, stage="shard", message=text, exit_code=EXIT_INTERRUPTED)
