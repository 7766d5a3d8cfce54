"""Ends what is under way when the person asks: streams first, connections if that is not enough. Floor 4."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from fleet.agent.build.on_controller import Closable
from fleet.model import Host
from fleet.remote.connection import Connection, Stream


class Stopped(Exception):  # noqa: N818 - not an error: the person asked
    """The person asked to stop before this host got any further."""


class Stopping:
    """Shared by all hosts of a session; every method may be called from any thread."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._guard = threading.Lock()
        self._streams: list[Stream] = []
        self._open: list[Closable] = []
        self._cut = False

    @property
    def asked(self) -> bool:
        """Whether the person has asked to stop."""
        return self._asked.is_set()

    def check(self) -> None:
        """Raise Stopped if the person has asked to stop."""
        if self._asked.is_set():
            raise Stopped

    def pause(self, seconds: float) -> None:
        """Wait so long; raise Stopped as soon as the person asks to stop."""
        if self._asked.wait(seconds):
            raise Stopped

    def watch_stream(self, stream: Stream) -> None:
        """Have the stream stopped when asked to; at once if that was before."""
        with self._guard:
            self._streams.append(stream)
        if self._asked.is_set():
            stream.stop()

    @contextmanager
    def watching(self, thing: Closable) -> Iterator[None]:
        """Have a connection, or a compiler at work here, closed if it does not end in time when asked to."""
        with self._guard:
            self._open.append(thing)
            late = self._cut
        try:
            if late:
                thing.close()
            yield
        finally:
            with self._guard:
                self._open.remove(thing)

    @contextmanager
    def dialled(
        self, connect: Callable[[Host], AbstractContextManager[Connection]], host: Host
    ) -> Iterator[Connection]:
        """Hand out a connection with `host` that is watched. Raises Stopped when asked to stop meanwhile."""
        self.check()
        with connect(host) as connection, self.watching(connection):
            self.check()
            yield connection

    def ask(self) -> None:
        """Let no host begin another stage, and every agent end itself."""
        self._asked.set()
        with self._guard:
            streams = list(self._streams)
        for stream in streams:
            stream.stop()

    def cut(self) -> None:
        """Close whatever is left, and at once what comes then."""
        with self._guard:
            self._cut = True
            left = list(self._open)
        for thing in left:
            thing.close()
