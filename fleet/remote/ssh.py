"""A host over SSH: the Connection protocol on the channels of a session that `ssh_dial` opened.

No invoke runner, and SFTP only for hosts with hardly anything else: one channel per command, stdout and
stderr drained together, a time limit on every wait, and every way a link can break told as a LinkError
with words.
"""

import contextlib
import select
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self

import paramiko
from paramiko.ssh_exception import SSHException

from fleet.errors import LinkError
from fleet.model import Host
from fleet.remote import frugal
from fleet.remote.connection import Completed
from fleet.remote.output import Lines, Tail, Whole
from fleet.remote.sftp import SftpChannel, open_sftp
from fleet.remote.shell import put_command, remote_command
from fleet.remote.sockets import DEAD_PEER_S
from fleet.remote.ssh_dial import Dialled, dial

_SLICE_BYTES = 32 << 10  # Channel.sendall copies its whole rest after every packet
_READ_BYTES = 256 << 10
_WINDOW_TICK_S = 0.01  # paramiko has no event for "the host reads again"
_HANG_UP_AFTER_S = 1.0
_STOP_GRACE_S = 5.0  # for a command to end after end-of-file on its stdin
_LOST = (SSHException, EOFError, OSError)


class SshConnection:
    """An open SSH session with one host."""

    def __init__(self, host: Host, dialled: Dialled) -> None:
        self.host_name = host.name
        self.notes = dialled.notes
        self._env = dict(host.env)
        self._frugal = False
        self._dialled = dialled
        self._closed = False

    @classmethod
    def open(cls, host: Host, timeout_s: float) -> Self:
        """Dial `host`. Raises UnreachableError, HostKeyError or AuthError."""
        return cls(host, dial(host, timeout_s))

    def run(self, command: str, *, stdin: bytes = b"", timeout_s: float = 30.0) -> Completed:
        """See Connection.run. A command whose time is up is left to itself, without stdin and stdout."""
        stdout, stderr = Whole(self.host_name), Whole(self.host_name)
        with self._limit(timeout_s, _never_ended(timeout_s)) as deadline:
            channel, head = self._start(command, timeout_s)
            try:
                for is_stderr, data in _talk(channel, head + stdin, deadline):
                    (stderr if is_stderr else stdout).feed(data)
                exit_code = self._exit_code(channel, deadline)
            finally:
                _close(channel)
        return Completed(exit_code, stdout.bytes(), stderr.bytes())

    def stream(self, command: str, *, idle_timeout_s: float) -> "SshStream":
        """See Connection.stream."""
        return SshStream(self, command, idle_timeout_s)

    def put(self, data: bytes, path: str, *, mode: int = 0o600, timeout_s: float = 60.0) -> Completed:
        """See Connection.put."""
        if self._frugal:
            return frugal.put(self, data, path, mode, timeout_s)
        return self.run(put_command(path, mode, len(data)), stdin=data, timeout_s=timeout_s)

    def make_do(self, path: str) -> None:
        """See Connection.make_do."""
        self._env["PATH"] = path
        self._frugal = True

    @contextlib.contextmanager
    def sftp(self, timeout_s: float) -> Iterator[SftpChannel | None]:
        """Open a file transfer for as long as the block lasts; None if the host has none."""

        def limit() -> contextlib.AbstractContextManager[object]:
            return self._limit(timeout_s, f"a file transfer was not done within {timeout_s:g} s.")

        with limit():
            opened = open_sftp(self._dialled.transport, limit)
        try:
            yield opened
        finally:
            if opened is not None:
                opened.close()

    def close(self) -> None:
        """See Connection.close."""
        self._closed = True
        self._dialled.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self, command: str, timeout_s: float) -> tuple[paramiko.Channel, bytes]:
        """Open a channel and start the loader; return the channel and what its stdin must get first."""
        text, head = remote_command(command, self._env)
        channel = self._dialled.transport.open_session(timeout=timeout_s)
        channel.settimeout(timeout_s)
        channel.exec_command(text)
        return channel, head

    def _exit_code(self, channel: paramiko.Channel, deadline: float) -> int:
        if not channel.status_event.wait(max(0.0, deadline - time.monotonic())):
            raise TimeoutError
        if channel.exit_status >= 0:
            return channel.exit_status
        # paramiko's word both for a lost link and for a shell that was killed.
        if not self._dialled.transport.is_active():
            raise EOFError
        raise LinkError(
            f"{self.host_name}: the command ended without an exit code: something on the host killed its "
            "shell. Look at the host's system log (out of memory?)."
        )

    @contextlib.contextmanager
    def _limit(self, timeout_s: float, too_late: str) -> Iterator[float]:
        """Hand out the deadline, and turn whatever breaks inside into a LinkError.

        paramiko cannot be told to give up a write on a link that takes nothing, so a timer ends the
        whole session a little after the deadline.
        """
        hung_up = threading.Event()

        def hang_up() -> None:
            hung_up.set()
            self._dialled.close()

        timer = threading.Timer(timeout_s + _HANG_UP_AFTER_S, hang_up)
        timer.daemon = True
        timer.start()
        try:
            yield time.monotonic() + timeout_s
        except _LOST as error:
            late = hung_up.is_set() or _is_timeout(error)
            raise LinkError(f"{self.host_name}: {too_late}" if late else self._broken(error)) from error
        finally:
            timer.cancel()

    def _broken(self, error: Exception) -> str:
        transport = self._dialled.transport
        if self._closed:
            return f"{self.host_name}: the connection has been closed on our side."
        if transport.is_active():
            return f"{self.host_name}: the host ended the command's channel: {error or type(error).__name__}."
        cause = transport.get_exception() or error
        match cause:
            case EOFError():
                what = "the connection was cut (end of file)"
            case TimeoutError():
                what = f"the host has acknowledged nothing for {DEAD_PEER_S} s"
            case _:
                what = str(cause) or type(cause).__name__
        return (
            f"{self.host_name}: the SSH session broke: {what}. What the command did is unknown. "
            "Is the host still up, and the network between?"
        )


class SshStream:
    """A command running over SSH; see Stream."""

    def __init__(self, connection: SshConnection, command: str, idle_timeout_s: float) -> None:
        self.exit_code: int | None = None
        self.stderr = b""
        self._connection = connection
        self._idle_timeout_s = idle_timeout_s
        self._lines = Lines(connection.host_name)
        self._tail = Tail()
        self._given_up = False
        with connection._limit(idle_timeout_s, f"the command did not start within {idle_timeout_s:g} s."):
            self._channel, head = connection._start(command, idle_timeout_s)
            for begin in range(0, len(head), _SLICE_BYTES):
                self._channel.sendall(head[begin : begin + _SLICE_BYTES])

    def __iter__(self) -> Iterator[bytes]:
        try:
            for is_stderr, data in self._pieces():
                if is_stderr:
                    self._tail.feed(data)
                else:
                    yield from self._lines.feed(data)
        except LinkError:
            self._given_up = True
            raise
        finally:
            self.stderr = self._tail.bytes()
        yield from self._lines.rest()

    def stop(self) -> None:
        """See Stream.stop."""
        with contextlib.suppress(*_LOST):
            self._channel.shutdown_write()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if kind is None and not self._given_up:
            self._let_it_end()
        _close(self._channel)

    def _pieces(self) -> Iterator[tuple[bool, bytes]]:
        """Yield (is it stderr, data) to the end, then set the exit code."""
        silence = f"the command printed nothing for {self._idle_timeout_s:g} s; is the host still there?"
        try:
            yield from _listen(self._channel, self._idle_timeout_s)
            deadline = time.monotonic() + self._idle_timeout_s
            self.exit_code = self._connection._exit_code(self._channel, deadline)
        except _LOST as error:
            said = f"{self._connection.host_name}: {silence}" if _is_timeout(error) else None
            raise LinkError(said or self._connection._broken(error)) from error

    def _let_it_end(self) -> None:
        """Throw away what the command still says, for a little while, so that it ends in its own way."""
        deadline = time.monotonic() + _STOP_GRACE_S
        with contextlib.suppress(*_LOST):
            for _ in _listen(self._channel, _STOP_GRACE_S):
                if time.monotonic() > deadline:
                    return
            self._channel.status_event.wait(max(0.0, deadline - time.monotonic()))


def _never_ended(timeout_s: float) -> str:
    return (
        f"a command did not end within {timeout_s:g} s. Log in by hand: is the host overloaded, or does its "
        "login shell wait for something?"
    )


def _talk(channel: paramiko.Channel, stdin: bytes, deadline: float) -> Iterator[tuple[bool, bytes]]:
    """Feed `stdin`, then end-of-file, and yield (is it stderr, data) to the end of both outputs.

    Raises TimeoutError at `deadline` (time.monotonic).
    """
    left = memoryview(stdin)
    heard_some = _poll(channel)
    while True:
        ended = _ended(channel)  # before reading: what is not there after this never comes
        heard = _hear(channel)
        yield from heard
        if ended and not heard:
            return
        if (time_left := deadline - time.monotonic()) <= 0:
            raise TimeoutError
        if left and (channel.closed or channel.send_ready()):
            left = _send(channel, left)
            if not left:
                channel.shutdown_write()
        elif not heard:
            heard_some.poll(1000 * (min(time_left, _WINDOW_TICK_S) if left else time_left))


def _listen(channel: paramiko.Channel, idle_timeout_s: float) -> Iterator[tuple[bool, bytes]]:
    """Yield (is it stderr, data) to the end of both outputs; TimeoutError after so long a silence."""
    heard_some = _poll(channel)
    while True:
        ended = _ended(channel)
        heard = _hear(channel)
        yield from heard
        if heard:
            continue
        if ended:
            return
        if not heard_some.poll(1000 * idle_timeout_s):
            raise TimeoutError


def _poll(channel: paramiko.Channel) -> select.poll:
    """Return a poll object that wakes up when either output has data or has ended."""
    poll = select.poll()
    poll.register(channel.fileno(), select.POLLIN)
    return poll


def _ended(channel: paramiko.Channel) -> bool:
    return bool(channel.eof_received) or channel.closed


def _hear(channel: paramiko.Channel) -> list[tuple[bool, bytes]]:
    """Take what has arrived on stdout and stderr, without waiting."""
    heard = []
    if channel.recv_ready():
        heard.append((False, channel.recv(_READ_BYTES)))
    if channel.recv_stderr_ready():
        heard.append((True, channel.recv_stderr(_READ_BYTES)))
    return heard


def _send(channel: paramiko.Channel, left: memoryview) -> memoryview:
    """Send one slice; return what is left, nothing if the command has ended without wanting it."""
    try:
        return left[channel.send(bytes(left[:_SLICE_BYTES])) :]
    except OSError:
        if channel.closed and channel.get_transport().is_active():
            return left[:0]
        raise


def _close(channel: paramiko.Channel) -> None:
    with contextlib.suppress(*_LOST):
        channel.close()


def _is_timeout(error: Exception) -> bool:
    """Tell a wait of ours that was too long (paramiko has two words for it) from a dead link."""
    if isinstance(error, TimeoutError):
        return error.errno is None
    return isinstance(error, SSHException) and str(error).startswith("Timeout")
