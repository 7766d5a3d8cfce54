"""What all hosts of a session share: connections, the store, and one measurement per
machine at a time.
"""

import getpass
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType

from fleet.agent.build.on_controller import Builder, Connect
from fleet.agent.forecast import Forecaster
from fleet.model import Host, LockPolicy, RequestedOptions, Run
from fleet.remote.cancellation import Cancellation
from fleet.remote.connection import Connection
from fleet.session.events import EventHandler
from fleet.session.host_progress import HostProgress
from fleet.store import Store

DEFAULT_PARALLEL = 32
RECONNECT_S = 60.0
POLL_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAccess:
    """How a command reaches hosts, `parallel` at once. connect: opens a connection.
    emit: receives events.
    """

    connect: Connect
    emit: EventHandler
    parallel: int = DEFAULT_PARALLEL
    cancellation: Cancellation = field(default_factory=Cancellation)

    @contextmanager
    def connection(self, host: Host) -> Iterator[Connection]:
        """Open a connection for the block; a cancellation closes it earlier. Raises
        Cancelled.
        """
        self.cancellation.raise_if_requested()
        with (
            self.connect(host) as connection,
            self.cancellation.call_on_close_all(connection.close),
        ):
            self.cancellation.raise_if_requested()  # while connecting
            yield connection


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionContext(HostAccess):
    """What one session's hosts share. `requested`, `lock`, `require`, `wait_s` override
    the hosts' own.
    """

    session_id: str
    store: Store
    # of the command line
    requested: RequestedOptions = field(default_factory=RequestedOptions)
    log_folder: str = ""
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    lock: LockPolicy | None = None
    require: tuple[str, ...] | None = None
    wait_s: float | None = None
    # how long to try to reconnect a link that breaks in mid-run
    reconnect_s: float = RECONNECT_S
    # a cancellation closes its connections and ends compilers
    builder: Builder = field(init=False)
    forecaster: Forecaster = field(init=False)
    _measured_by: dict[str, str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        builder = Builder(connect=self.connection, cancellation=self.cancellation)
        object.__setattr__(self, "builder", builder)
        object.__setattr__(self, "forecaster", Forecaster(builder))

    @contextmanager
    def wait_for_machine(self, run: Run, progress: HostProgress) -> Iterator[None]:
        """Wait until no other inventory entry uses the machine; hold it for the block.
        Raises Cancelled.
        """
        machine = run.facts.boot_id or run.facts.machine_id
        if machine is None:
            yield
            return
        name = run.host.name
        is_waiting = False
        while True:
            # one step of the dict: of several threads, the first holds the machine
            user = self._measured_by.setdefault(machine, name)
            if user == name:
                break
            if not is_waiting:
                progress.note(
                    f"{name} and {user} of the inventory are the same machine;"
                    " measured in turn."
                )
                progress.enter("wait")
                is_waiting = True
            self.cancellation.pause(POLL_S)
        try:
            yield
        finally:
            del self._measured_by[machine]


def lock_owner() -> str:
    """Return "user@controller", the owner of a machine's lock in other controllers'
    messages.
    """
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        user = "somebody"
    owner = f"{user}@{socket.gethostname()}"
    printable = [sign if sign.isprintable() else "_" for sign in owner]
    return "".join(printable).replace(" ", "_")[:120]
