"""Ends all work in progress on Ctrl-C: first agents, then connections that are still
open.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fleet.remote.output import Stream


class Cancelled(Exception):  # noqa: N818 - not an error: the user asked for it
    """The user cancelled the session before this host was done."""


class Cancellation:
    """The cancellation of a session, shared by all its hosts. Thread-safe: list
    operations are atomic.
    """

    def __init__(self) -> None:
        self._requested = threading.Event()
        self._streams: list[Stream] = []
        # what `close_all` calls
        self._closers_on_close_all: list[Callable[[], None]] = []
        # what is called as soon as the user cancels
        self._closers_on_request: list[Callable[[], None]] = []
        self._closing = False  # whether `close_all` has begun

    @property
    def is_requested(self) -> bool:
        """Whether the user has cancelled the session."""
        return self._requested.is_set()

    def raise_if_requested(self) -> None:
        """Raise Cancelled if the session is cancelled."""
        if self._requested.is_set():
            raise Cancelled

    def pause(self, seconds: float) -> None:
        """Sleep for `seconds`; raise Cancelled as soon as the session is cancelled."""
        if self._requested.wait(seconds):
            raise Cancelled

    def stop_on_request(self, stream: Stream) -> None:
        """Stop the stream on cancellation, at once if the session is already
        cancelled.
        """
        self._streams.append(stream)
        if self._requested.is_set():
            stream.stop()

    @contextmanager
    def call_on_close_all(self, close: Callable[[], None]) -> Iterator[None]:
        """While the block runs, let `close_all` call `close`, from any thread."""
        self._closers_on_close_all.append(close)
        try:
            # `close_all` may have looked at the list before we added to it
            if self._closing:
                close()
            yield
        finally:
            self._closers_on_close_all.remove(close)

    @contextmanager
    def call_on_request(self, close: Callable[[], None]) -> Iterator[None]:
        """While the block runs, call `close` as soon as the session is cancelled, from
        any thread.
        """
        self._closers_on_request.append(close)
        try:
            # the session may have been cancelled before we added to the list
            if self._requested.is_set():
                close()
            yield
        finally:
            self._closers_on_request.remove(close)

    def request_and_stop_streams(self) -> None:
        """Cancel the session: no host starts another stage, every agent is stopped, and
        what `call_on_request` was given is called.
        """
        self._requested.set()
        for stream in list(self._streams):
            stream.stop()
        for close in list(self._closers_on_request):
            close()

    def close_all(self) -> None:
        """Call every `close` of `call_on_close_all` now, and later ones as soon as
        they are registered.
        """
        self._closing = True
        for close in list(self._closers_on_close_all):
            close()
