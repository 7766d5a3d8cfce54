"""Ends all work in progress on Ctrl-C: agents first, then connections that are still open."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fleet.remote.stream import Stream


class Cancelled(Exception):  # noqa: N818 - not an error: the user asked for it
    """The user cancelled the session before this host got any further."""


class Cancellation:
    """Shared by all hosts of a session; every method may be called from any thread."""

    def __init__(self) -> None:
        self._requested = threading.Event()
        self._guard = threading.Lock()
        self._streams: list[Stream] = []
        self._open: list[Callable[[], None]] = []
        self._closing = False

    @property
    def requested(self) -> bool:
        """Whether the user has cancelled the session."""
        return self._requested.is_set()

    def check(self) -> None:
        """Raise Cancelled if the session is cancelled."""
        if self._requested.is_set():
            raise Cancelled

    def pause(self, seconds: float) -> None:
        """Sleep for `seconds`; raise Cancelled as soon as the session is cancelled."""
        if self._requested.wait(seconds):
            raise Cancelled

    def stop_on_request(self, stream: Stream) -> None:
        """Stop the stream on cancellation; at once if the session is cancelled already."""
        with self._guard:
            self._streams.append(stream)
        if self._requested.is_set():
            stream.stop()

    @contextmanager
    def closing(self, close: Callable[[], None]) -> Iterator[None]:
        """Close what does not end in time after a cancellation. close: may be called from any thread."""
        with self._guard:
            self._open.append(close)
            late = self._closing
        try:
            if late:
                close()
            yield
        finally:
            with self._guard:
                self._open.remove(close)

    def request(self) -> None:
        """Let no host begin another stage, and stop every agent."""
        self._requested.set()
        with self._guard:
            streams = list(self._streams)
        for stream in streams:
            stream.stop()

    def close_all(self) -> None:
        """Close whatever is still open, and at once whatever is opened later."""
        with self._guard:
            self._closing = True
            still_open = list(self._open)
        for close in still_open:
            close()
