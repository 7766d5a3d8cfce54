"""What all hosts of a session share: the store, ways to reach hosts, and one measurement per machine.

The agent holds a lock of the host's kernel for its life (agent/lock.c), so a dead controller leaves nothing
behind. Within a session, inventory entries that are one machine wait for one another here.
"""

import getpass
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

from fleet.agent.build.on_controller import Builder
from fleet.model import Host, LockPolicy, RequestedOptions, Run
from fleet.remote.connection import Connection
from fleet.session.cancellation import Stopping
from fleet.session.outcome import Watcher
from fleet.store import Store

RECONNECT_S = 60.0
LOOK_S = 0.2

Connect = Callable[[Host], AbstractContextManager[Connection]]


class Machines:
    """Whose turn it is on each machine, by its boot id, which containers on one kernel share."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._measured_by: dict[str, str] = {}

    @contextmanager
    def turn(self, run: Run, tell: Callable[[str], None], pause: Callable[[float], None]) -> Iterator[None]:
        """Wait until no other host of the session is measured on this machine; say so if it takes a wait.

        pause: waits so many seconds, and raises when the person asks to stop.
        """
        machine = run.facts.boot_id or run.facts.machine_id
        if machine is None:
            yield
            return
        name, said = run.host.name, False
        while (other := self._take(machine, name)) is not None:
            if not said:
                tell(f"{name} and {other} of the inventory are the same machine; measured in turn.")
                said = True
            pause(LOOK_S)
        try:
            yield
        finally:
            with self._guard:
                del self._measured_by[machine]

    def _take(self, machine: str, name: str) -> str | None:
        """Take the machine, or say who has it."""
        with self._guard:
            other = self._measured_by.setdefault(machine, name)
            return None if other == name else other


@dataclass(frozen=True, slots=True)
class Session:
    """One `fleet run`: what all its hosts share. `connect` is the one thing a test replaces.

    requested: the plan options of the command line; they win over those of each host's entry. lock:
    likewise. reconnect_s: how long a link that broke in mid-run is dialled again for. builder: reaches
    build hosts by the same `connect`, and lets go of them, and of compilers here, when asked to stop.
    """

    session_id: str
    store: Store
    watcher: Watcher
    connect: Connect
    requested: RequestedOptions = field(default_factory=RequestedOptions)
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    builder: Builder = field(init=False)
    stopping: Stopping = field(default_factory=Stopping)
    machines: Machines = field(default_factory=Machines)
    lock: LockPolicy | None = None
    reconnect_s: float = RECONNECT_S

    def __post_init__(self) -> None:
        """Make the builder."""
        connect = partial(self.stopping.dialled, self.connect)
        builder = Builder(connect=connect, watching=self.stopping.watching)
        object.__setattr__(self, "builder", builder)


def who() -> str:
    """Who measures, for another controller's message: user@controller."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        user = "somebody"
    return "".join(c if c.isprintable() and c != " " else "_" for c in f"{user}@{socket.gethostname()}")[:120]
