"""The way to one host: dialled with patience, and dialled again when it breaks in mid-run. Floor 4.

Never again after a refused key or identity: sshd answers such insistence with a penalty for our address.
"""

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from fleet.agent.deploy import deploy
from fleet.agent.wire.machine import describe
from fleet.errors import LinkError, UnreachableError
from fleet.facts.gather import gather
from fleet.model import Agent, Facts, Host
from fleet.remote.connection import Connection
from fleet.session.context import Session
from fleet.session.outcome import Story

FIRST_TRIES = 4
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 15.0


def pauses() -> Iterator[float]:
    """How long to wait before each new try: about twice as long each time, never in step with others."""
    pause = FIRST_PAUSE_S
    while True:
        yield pause * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        pause = min(2 * pause, LONGEST_PAUSE_S)


class Way:
    """An open connection with a host for as long as it is needed; closed at the end."""

    def __init__(self, host: Host, session: Session, story: Story) -> None:
        self.host = host
        self._session = session
        self._story = story
        self._held = ExitStack()
        self._connection: Connection | None = None

    @property
    def connection(self) -> Connection:
        """The connection that is open now."""
        assert self._connection is not None  # noqa: S101 - entered
        return self._connection

    def __enter__(self) -> Self:
        """Dial; an sshd that hangs up before it has asked who we are (MaxStartups) is tried again."""
        for tried, pause in enumerate(pauses(), 1):
            try:
                self._dial()
            except UnreachableError as err:
                if not err.passing or tried == FIRST_TRIES:
                    raise
                self._story.tell(f"{err} Trying again ({tried} of {FIRST_TRIES - 1}).")
                self._session.stopping.pause(pause)
            else:
                break
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. Safe to call twice."""
        self._held.close()

    def ready(self) -> tuple[Facts, Agent]:
        """Gather the facts and bring the agent there."""
        self._enter("facts")
        facts = gather(self.connection, self.host)
        self._enter("deploy")
        agent = deploy(self.connection, self.host, facts, self._session.builder, self._story.tell)
        return describe(self.connection, agent, facts), agent

    def again(self, lost: LinkError, give_up: float) -> tuple[Facts, Agent]:
        """Dial again until the host is ready or `give_up` (time.monotonic) has come: LinkError."""
        self._story.tell(f"{lost} Dialling again.")
        for pause in pauses():
            self.close()
            self._session.stopping.pause(pause)
            self._enter("reconnect")
            try:
                self._dial()
                return self.ready()
            except (LinkError, UnreachableError) as err:
                if time.monotonic() >= give_up:
                    raise LinkError(f"{lost} Dialled again in vain; the last time: {err}") from err
        raise AssertionError("pauses never end")

    def _enter(self, stage: str) -> None:
        self._session.stopping.check()
        self._story.enter(stage)

    def _dial(self) -> None:
        self._connection = self._held.enter_context(self._session.connect(self.host))
        self._held.enter_context(self._session.stopping.watching(self._connection))
        self._story.tell(*(note for note in self._connection.notes if note not in self._story.notes))
