"""What the streams of `local` and `openssh` share: a process that prints, its time limits, and its end."""

import abc
import time
from types import TracebackType
from typing import Self

from fleet.remote.output import Lines, Tail
from fleet.remote.process import Process


class ProcessStream(abc.ABC):
    """A running command whose output comes from a process here; see Stream."""

    def __init__(self, host_name: str, process: Process, idle_timeout_s: float, limit_s: float) -> None:
        self.exit_code: int | None = None
        self.stderr = b""
        self._host_name = host_name
        self._process = process
        self._idle_timeout_s = idle_timeout_s
        self._limit_s = limit_s
        self._deadline = time.monotonic() + limit_s
        self._lines = Lines(host_name)
        self._tail = Tail()
        self._over = False
        self._given_up = False

    @abc.abstractmethod
    def _end(self, *, given_up: bool) -> None:
        """End the process, at once if it was given up."""

    def stop(self) -> None:
        """See Stream.stop."""
        self._process.close_stdin()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._over:
            return
        self._over = True
        self.stop()
        self._end(given_up=kind is not None or self._given_up)

    def _too_late(self, silent: str = "") -> str:
        """Which limit a command has passed; `silent` follows where it printed nothing."""
        self._given_up = True
        if time.monotonic() >= self._deadline:
            return f"was still running after {self._limit_s:g} s, its time limit"
        return f"printed nothing for {self._idle_timeout_s:g} s{silent}"
