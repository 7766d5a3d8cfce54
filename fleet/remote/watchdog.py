"""Calls functions at a time limit, unless it is lifted before: one thread for all limits of all hosts.

`threading.Timer` starts a thread for each limit, three a host, and almost none of them ever fires.
"""

import heapq
import threading
import time
from collections.abc import Callable
from itertools import count


class Limit:
    """A time limit that was set; `lift` it, and nothing is called."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Callable[[], None] | None = call

    def lift(self) -> None:
        """Call nothing any more. Safe from any thread, and twice."""
        self._call = None

    @property
    def lifted(self) -> bool:
        """Whether nothing is to be called."""
        return self._call is None

    def fire(self) -> None:
        """Call the function, unless the limit was lifted."""
        call, self._call = self._call, None
        if call is not None:
            call()


class Watchdog:
    """Fires limits when they are due, each in a thread of its own."""

    def __init__(self) -> None:
        self._limits: list[tuple[float, int, Limit]] = []
        self._numbers = count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def after(self, seconds: float, call: Callable[[], None]) -> Limit:
        """Call `call` after so many seconds."""
        limit = Limit(call)
        with self._changed:
            entry = (time.monotonic() + seconds, next(self._numbers), limit)
            heapq.heappush(self._limits, entry)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
                self._thread.start()
            elif self._limits[0] is entry:
                self._changed.notify()
        return limit

    def _watch(self) -> None:
        while True:
            due = self._next_due()
            threading.Thread(target=due.fire, daemon=True).start()  # closing a session may take a while

    def _next_due(self) -> Limit:
        with self._changed:
            while True:
                while self._limits and self._limits[0][2].lifted:
                    heapq.heappop(self._limits)
                left = self._limits[0][0] - time.monotonic() if self._limits else None
                if left is not None and left <= 0:
                    return heapq.heappop(self._limits)[2]
                self._changed.wait(left)


WATCHDOG = Watchdog()
