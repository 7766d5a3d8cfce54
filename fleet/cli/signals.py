"""Lets a signal end a session as Ctrl-C does, and a second one end it at once."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

import typer

from fleet.errors import EXIT_INTERRUPTED

SAME_SIGNAL_S = 1.0
_STOPPING = (signal.SIGINT, signal.SIGTERM)


def _print_to_stderr(text: str) -> None:
    typer.echo(text, err=True)


@contextmanager
def stop_on_signals(
    on_second_signal: Callable[[], None] = lambda: None,
    announce: Callable[[str], None] = _print_to_stderr,
) -> Iterator[None]:
    """Make SIGTERM end a session as Ctrl-C does, by KeyboardInterrupt in the block, and
    a second signal end the program at once. Journals keep what arrived.

    Signals within SAME_SIGNAL_S count as one, since `timeout` signals its child and
    then the process group.
    on_second_signal: called before the program ends at once. announce: shows the user
    that the session is stopping.
    """
    interrupter = _Interrupter(on_second_signal, announce)
    before = {number: signal.signal(number, interrupter) for number in _STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            # after a first signal, its repetition must not disturb how we end
            is_signalled = interrupter.signalled_at is not None
            restored = signal.SIG_IGN if is_signalled else handler
            signal.signal(number, restored)


class _Interrupter:
    """Handles signals: the first interrupts, a later one ends the program.
    signalled_at: of the first, in seconds of the monotonic clock.
    """

    def __init__(
        self, on_second_signal: Callable[[], None], announce: Callable[[str], None]
    ) -> None:
        self.signalled_at: float | None = None
        self._announce = announce
        self._on_second_signal = on_second_signal

    def __call__(self, _signal: int, _frame: FrameType | None) -> None:
        """Interrupt at the first signal; end the program at once at a second one. A
        signal within SAME_SIGNAL_S of the first repeats the first, and is ignored.
        """
        now = time.monotonic()
        if self.signalled_at is None:
            self.signalled_at = now
            self._announce("stopping the agents; once more to leave at once")
            raise KeyboardInterrupt
        if now - self.signalled_at > SAME_SIGNAL_S:
            self._leave_at_once()

    def _leave_at_once(self) -> NoReturn:
        self._on_second_signal()
        os._exit(EXIT_INTERRUPTED)
