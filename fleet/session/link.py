"""Connects and reconnects to a host. A refused key is not tried again, since sshd penalises that."""

import logging
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Self

from fleet.agent.deploy import deploy
from fleet.agent.wire.machine import ask_topology
from fleet.errors import LinkError, ProbeError, UnreachableError
from fleet.facts.gather import gather
from fleet.model import Agent, Facts, Host, LockPolicy, Plan, Run, override_options
from fleet.plan.options import options_from_entry
from fleet.remote.connection import Connection
from fleet.session.context import SessionContext
from fleet.session.host_progress import HostProgress
from fleet.store.gate import check_machine

_log = logging.getLogger(__name__)
FIRST_TRIES = 4
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 15.0


def retry_pauses_s() -> Iterator[float]:
    """Yield seconds to wait before each new try: doubled each time, at random so that hosts spread out."""
    pause = FIRST_PAUSE_S
    while True:
        yield pause * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        pause = min(2 * pause, LONGEST_PAUSE_S)


class HostLink:
    """A host, its session, its progress and, inside `with`, an open connection to it."""

    def __init__(self, context: SessionContext, progress: HostProgress) -> None:
        self.context = context
        self.progress = progress
        options = override_options(options_from_entry(progress.host), context.requested)
        self.benchmarks = options.benchmarks or Plan().benchmarks
        self._resources = ExitStack()
        self._connection: Connection | None = None

    @property
    def host(self) -> Host:
        """The host."""
        return self.progress.host

    @property
    def connection(self) -> Connection:
        """The open connection."""
        assert self._connection is not None  # noqa: S101 - entered
        return self._connection

    @property
    def lock(self) -> LockPolicy:
        """The session's policy where another controller measures, else that of the inventory."""
        return self.context.lock or self.host.lock

    def __enter__(self) -> Self:
        """Connect; retry if sshd drops the connection before authentication (MaxStartups)."""
        self.enter("connect")
        for tried, pause in enumerate(retry_pauses_s(), 1):
            try:
                self._connect()
            except UnreachableError as err:
                if not err.passing or tried == FIRST_TRIES:
                    raise
                self.progress.note(f"{err} Trying again ({tried} of {FIRST_TRIES - 1}).")
                self.context.cancellation.pause(pause)
            else:
                break
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. Safe to call twice."""
        self._resources.close()

    def enter(self, stage: str, run: Run | None = None, detail: str = "") -> None:
        """Enter a stage of this host. Raises Cancelled."""
        self.context.cancellation.raise_if_requested()
        self.progress.enter(stage, run, detail)

    def gather_facts(self) -> Facts:
        """Enter the stage and ask the host what it is. Raises ProbeError."""
        self.enter("facts")
        return self.ask_facts()

    def ask_facts(self) -> Facts:
        """Ask the host what it is. Raises ProbeError."""
        return require_storable(gather(self.connection, self.host), self.host)

    def deploy_agent(self, facts: Facts) -> tuple[Facts, Agent]:
        """Put an agent on the host; return the facts with the topology that it reports, and the agent."""
        self.enter("deploy")
        agent = deploy(
            self.connection, self.host, facts, self.context.builder, self.progress.note, self.benchmarks
        )
        _log.info("%s: agent %s, built %s", self.host.name, agent.build, agent.place)
        return require_storable(ask_topology(self.connection, agent, facts), self.host), agent

    def reconnect(self, lost: LinkError, give_up: float) -> tuple[Facts, Agent]:
        """Reconnect until the host is ready. Raises LinkError after `give_up` (time.monotonic)."""
        self.progress.note(f"{lost} Reconnecting.")
        for pause in retry_pauses_s():
            self.close()
            self.context.cancellation.pause(pause)
            self.enter("reconnect")
            try:
                self._connect()
                return self.deploy_agent(self.gather_facts())
            except (LinkError, UnreachableError) as err:
                if time.monotonic() >= give_up:
                    raise LinkError(f"{lost} Could not reconnect; the last attempt: {err}") from err
        raise AssertionError("pauses never end")

    def _connect(self) -> None:
        self._connection = self._resources.enter_context(self.context.connection(self.host))
        self.progress.note_once(*self._connection.notes)


def require_storable(facts: Facts, host: Host) -> Facts:
    """Return the facts. Raises ProbeError if the tables cannot hold them."""
    try:
        check_machine(facts)
    except ValueError as err:
        raise ProbeError(
            f"{host.name}: what the host says of itself cannot be stored: {err}. `fleet check "
            f"{host.name}` prints all it answered."
        ) from err
    return facts
