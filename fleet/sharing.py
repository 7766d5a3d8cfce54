"""What all hosts of a session share: where results go, how hosts are reached, who may measure. Floor 4."""

import getpass
import socket
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

from fleet.agent.build import Builder
from fleet.locking import Machines
from fleet.model import Host, LockPolicy, PlanWish
from fleet.outcomes import Watcher
from fleet.remote.connection import Connection
from fleet.stopping import Stopping
from fleet.store import Store

RECONNECT_S = 60.0

Connect = Callable[[Host], AbstractContextManager[Connection]]


@dataclass(frozen=True, slots=True)
class Session:
    """One `fleet run`: what all its hosts share. `connect` is the one thing a test replaces.

    wish: what the command line asks of the plan; it wins over each host's own wishes. lock:
    likewise. reconnect_s: how long a link that broke in mid-run is dialled again for. builder: reaches
    build hosts by the same `connect`, and lets go of them, and of compilers here, when asked to stop.
    """

    session_id: str
    store: Store
    watcher: Watcher
    connect: Connect
    wish: PlanWish = field(default_factory=PlanWish)
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
