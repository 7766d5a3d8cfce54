"""One measurement at a time on a machine: within a session here, between controllers by the agent. Floor 4.

The agent holds a lock of the host's kernel for its life (agent/lock.c), so nothing can be left behind by a
dead controller. Inside a session, inventory entries that are one machine wait for one another.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fleet.model import Run

LOOK_S = 0.2


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
