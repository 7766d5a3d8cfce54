"""Calls functions at a time limit, unless it is lifted: one thread for all, where Timer starts one each."""

import heapq
import threading
import time
from collections.abc import Callable
from itertools import count

_Calls = list[Callable[[], None]]  # what is called at a limit; empty once that is lifted


class Watchdog:
    """Fires limits when they are due, each in a thread of its own."""

    def __init__(self) -> None:
        self._limits: list[tuple[float, int, _Calls]] = []
        self._numbers = count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def after(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        """Call `call` after so many seconds; return what lifts this limit, from any thread, also twice."""
        calls = [call]
        with self._changed:
            entry = (time.monotonic() + seconds, next(self._numbers), calls)
            heapq.heappush(self._limits, entry)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
                self._thread.start()
            elif self._limits[0] is entry:
                self._changed.notify()
        return calls.clear

    def _watch(self) -> None:
        while True:
            due = self._next_due()
            threading.Thread(target=_call, args=(due,), daemon=True).start()  # closing may take a while

    def _next_due(self) -> _Calls:
        with self._changed:
            while True:
                while self._limits and not self._limits[0][2]:
                    heapq.heappop(self._limits)
                left = self._limits[0][0] - time.monotonic() if self._limits else None
                if left is not None and left <= 0:
                    return heapq.heappop(self._limits)[2]
                self._changed.wait(left)


def _call(due: _Calls) -> None:
    for call in due.copy():
        call()


WATCHDOG = Watchdog()
