"""Distributes a session's hosts among workers of a Dask cluster (docs/scale.md); events come back here."""

import importlib
import logging
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

from fleet import errors
from fleet.model import Host, RunState
from fleet.model.version import VERSION
from fleet.remote.connect import connect
from fleet.session.context import SessionContext
from fleet.session.dask_events import EventReceiver, EventSender
from fleet.session.host_progress import HostProgress
from fleet.session.link import HostLink
from fleet.session.log import prune_logs
from fleet.session.outcome import Outcome, State
from fleet.session.resume import resume_host
from fleet.session.runner import flush_tables, make_intent, run_host, run_on_each
from fleet.session.shards import split_into_groups
from fleet.store import RunSummary, Store
from fleet.store.places import Folder

HOSTS_A_SHARD = 25  # few enough that a lost worker costs little, enough to keep its links busy
LOCAL_WORKERS = 2
ANSWER_S = 10
_OF_DASK = ("distributed", "dask", "concurrent", "asyncio")  # modules of errors that say a worker was lost
_LOCAL = re.compile(r"local(?::([0-9]{1,3}))?")


@dataclass(frozen=True, slots=True)
class Job:
    """What every worker needs beside its hosts. settings: fields of SessionContext."""

    session_id: str
    root: str
    connect_timeout_s: float
    settings: Mapping[str, Any]


def measure_on_cluster(
    cluster: str, hosts: Sequence[Host], context: SessionContext, connect_timeout_s: float
) -> list[Outcome]:
    """Measure `hosts` on the workers of `cluster`: tcp://…, tls://… or local:N. Ctrl-C withdraws shards."""
    settings = {name: getattr(context, name) for name in ("requested", "parallel", "lock", "reconnect_s")}
    settings["labels"] = dict(context.labels)
    job = Job(context.session_id, context.store.place.address, connect_timeout_s, settings)
    with _open_client(cluster) as client, context.store.under_way(make_intent(hosts, context)):
        prune_logs(context.store)
        shards = split_into_groups(hosts, max(_count_workers(client), math.ceil(len(hosts) / HOSTS_A_SHARD)))
        by_name = _collect_outcomes(client, shards, job, EventReceiver(hosts, context.emit))
        outcomes = [by_name[host.name] for host in hosts]
        if all(outcome.is_settled for outcome in outcomes):
            context.store.ended(job.session_id)
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
        run.host_name: run for run in store.published(withdrawn=True) if run.session_id == job.session_id
    }
    begun = {run.host.name: run for run in store.begun() if run.session_id == job.session_id}
    context = SessionContext(
        session_id=job.session_id,
        store=store,
        emit=EventSender(partial(_import_distributed().get_worker().log_event, _topic(job))),
        connect=partial(connect, timeout_s=job.connect_timeout_s),
        **job.settings,
    )

    def measure_one(progress: HostProgress) -> Outcome:
        link, run = HostLink(context, progress), begun.get(progress.host.name)
        return progress.outcome_of_run(run_host(link) if run is None else resume_host(link, run))

    unfinished = [host for host in hosts if host.name not in stored or host.name in begun]
    finished = [_outcome_of_stored_run(host, stored[host.name]) for host in hosts if host not in unfinished]
    return finished + flush_tables(run_on_each(unfinished, measure_one, context), context)


def _topic(job: Job) -> str:
    return f"fleet-{job.session_id}"


def _collect_outcomes(
    client: Any, shards: Sequence[Sequence[Host]], job: Job, receiver: EventReceiver
) -> dict[str, Outcome]:
    """Wait for every shard; return outcomes by host.

    If a shard fails or is withdrawn, so are its unfinished hosts.
    """
    ended: dict[str, Outcome] = {}
    # until the client is closed
    client.subscribe_topic(_topic(job), lambda event: receiver.receive(event[1]))
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
        versions = client.run(_version)
    except (ImportError, AttributeError, OSError, RuntimeError) as err:  # as a worker without fleet, or lost
        raise errors.UsageError(f"--dask: fleet {VERSION} must be installed on every worker: {err}.") from err
    if others := {worker: version for worker, version in versions.items() if version != VERSION}:
        named = ", ".join(f"{worker} has {version}" for worker, version in sorted(others.items())[:5])
        raise errors.UsageError(f"--dask: workers need fleet {VERSION}, as here: {named}.")
    return len(versions)


def _version() -> str:
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
