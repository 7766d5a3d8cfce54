"""Connects to a host over SSH with a shell that runs one command after another. Every wait is limited."""

import contextlib
import math
import sched
import threading
import time
from collections.abc import Callable, Iterator
from typing import Self

import fabric
import paramiko
from paramiko.ssh_exception import ChannelException, SSHException

from fleet.errors import LinkError, TimeLimitError
from fleet.model import Host
from fleet.remote import shell
from fleet.remote.connection import Connection
from fleet.remote.output import Answer, Completed, collect_answer, timeout_message
from fleet.remote.ssh import channels
from fleet.remote.ssh.channels import LOST
from fleet.remote.ssh.dial import dial, hang_up
from fleet.remote.ssh.sftp import SftpChannel, open_sftp
from fleet.remote.ssh.sockets import DEAD_PEER_S
from fleet.remote.stream import Stream

_HANG_UP_AFTER_S = 1.0
_STOP_GRACE_S = 5.0  # for a command to end after end-of-file on its stdin


class Watchdog:
    """Calls functions at a time limit, unless it is lifted.

    One thread for all; threading.Timer starts one each.
    """

    def __init__(self) -> None:
        self._limits = sched.scheduler(time.monotonic)
        self._changed_key_message = threading.Condition()
        self._looks_at = math.inf
        self._thread: threading.Thread | None = None

    def after(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        """Call `call` after so many seconds; return a function that lifts the limit. Thread-safe."""
        calls = [call]
        with self._changed_key_message:
            due = self._limits.enter(seconds, 0, _call, (calls,)).time
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
                self._thread.start()
            elif due < self._looks_at:
                self._changed_key_message.notify()
        return calls.clear

    def _watch(self) -> None:
        with self._changed_key_message:
            while True:
                left = self._limits.run(blocking=False)
                self._looks_at = math.inf if left is None else time.monotonic() + left
                self._changed_key_message.wait(left)


def _call(calls: list[Callable[[], None]]) -> None:
    for call in calls.copy():
        threading.Thread(target=call, daemon=True).start()  # closing may take a while


WATCHDOG = Watchdog()


class SshConnection(Connection):
    """An open SSH session with one host."""

    def __init__(self, host: Host, link: fabric.Connection, notes: tuple[str, ...]) -> None:
        super().__init__(host)
        self.notes = notes
        self._link = link
        self._transport: paramiko.Transport = link.transport
        self.banner = self._transport.remote_version
        self._shell: tuple[paramiko.Channel, str] | None = None  # one that waits, and its mark
        self._closed = False

    @classmethod
    def open(cls, host: Host, timeout_s: float) -> Self:
        """Dial `host`. Raises UnreachableError, HostKeyError or AuthError."""
        return cls(host, *dial(host, timeout_s))

    def run(self, command: str, *, stdin: bytes = b"", timeout_s: float = 30.0) -> Completed:
        """See Connection.run. A command whose time is up is left to itself, without stdin and stdout."""
        with self._limit(timeout_s, timeout_message(self.host_name, timeout_s)) as deadline:
            channel, mark = self._take_shell(timeout_s)
            try:
                text = (shell.render_last_command if stdin else shell.render_command)(
                    command, self._env, mark
                )
                out, err = Answer(self.host_name, mark), Answer(self.host_name, mark)
                received = channels.exchange(channel, text + stdin, deadline, goes_on=not stdin)
                if (done := collect_answer(received, out, err)) is None:
                    return Completed(self._exit_code(channel, deadline), out.bytes(), err.bytes())
                if not stdin:
                    self._shell = (channel, mark)
                return done
            finally:
                if self._shell is None:
                    channels.close(channel)

    def stream(
        self, command: str, *, idle_timeout_s: float, limit_s: float = math.inf, stdin: bytes = b""
    ) -> "SshStream":
        """See Connection.stream."""
        return SshStream(self, command, idle_timeout_s, limit_s, stdin)

    @contextlib.contextmanager
    def sftp(self, timeout_s: float) -> Iterator[SftpChannel | None]:
        """Open a file transfer while the block runs; None if the host has none."""

        def limit() -> contextlib.AbstractContextManager[object]:
            return self._limit(
                timeout_s, f"{self.host_name}: a file transfer was not done within {timeout_s:g} s."
            )

        with limit():
            opened = open_sftp(self._transport, limit)
        try:
            yield opened
        finally:
            if opened is not None:
                opened.close()

    def close(self) -> None:
        """See Connection.close."""
        self._closed = True
        hang_up(self._link)

    def _take_shell(self, timeout_s: float) -> tuple[paramiko.Channel, str]:
        """Return the waiting shell, or a new one, with its mark: some hosts allow one session only."""
        waiting, self._shell = self._shell, None
        if waiting is not None:
            return waiting
        mark = shell.new_mark()
        return channels.start(self._transport, shell.LOADER + mark, timeout_s), mark

    def _exit_code(self, channel: paramiko.Channel, deadline: float) -> int:
        if not channel.status_event.wait(max(0.0, deadline - time.monotonic())):
            raise TimeoutError
        if channel.exit_status >= 0:
            return channel.exit_status
        # paramiko's word both for a lost link and for a shell that was killed.
        if not self._transport.is_active():
            raise EOFError
        if channels.was_refused(channel):
            raise SSHException("Channel closed.")
        raise LinkError(
            f"{self.host_name}: the command ended without an exit code: something on the host killed its "
            "shell. Look at the host's system log (out of memory?)."
        )

    @contextlib.contextmanager
    def _limit(self, timeout_s: float, too_late: str) -> Iterator[float]:
        """Yield the deadline; turn what breaks into a LinkError. The watchdog ends a session that hangs."""
        hung_up = threading.Event()

        def give_up() -> None:
            hung_up.set()
            hang_up(self._link)

        lift = WATCHDOG.after(timeout_s + _HANG_UP_AFTER_S, give_up)
        try:
            yield time.monotonic() + timeout_s
        except LOST as error:
            if hung_up.is_set() or channels.is_timeout(error):
                raise TimeLimitError(too_late) from error
            raise LinkError(self._broken_link_message(error)) from error
        finally:
            lift()

    def _broken_link_message(self, error: Exception) -> str:
        transport = self._transport
        if self._closed:
            return f"{self.host_name}: the connection has been closed on our side."
        if transport.is_active():
            if isinstance(error, ChannelException):
                return (
                    f"{self.host_name}: the host's sshd opened no session for a command: {error.text}. "
                    "Does its sshd_config limit MaxSessions?"
                )
            why = str(error) or type(error).__name__
            return f"{self.host_name}: the host ended the command's channel: {why}."
        cause = transport.get_exception() or error
        match cause:
            case EOFError():
                description = "the connection was cut (end of file)"
            case TimeoutError():
                description = f"the host has acknowledged nothing for {DEAD_PEER_S} s"
            case _:
                description = str(cause) or type(cause).__name__
        return (
            f"{self.host_name}: the SSH session broke: {description}. What the command did is unknown. "
            "Is the host still up, and the network between?"
        )


class SshStream(Stream):
    """A command running over SSH; see Stream."""

    def __init__(
        self, connection: SshConnection, command: str, idle_timeout_s: float, limit_s: float, stdin: bytes
    ) -> None:
        super().__init__(connection.host_name, idle_timeout_s, limit_s, stdin)
        self._connection = connection
        late = f"{connection.host_name}: the command did not start within {idle_timeout_s:g} s."
        with connection._limit(idle_timeout_s, late):
            self._channel, self._mark = connection._take_shell(idle_timeout_s)
            head = shell.render_last_command(command, connection._env, self._mark)
            for begin in range(0, len(head), channels.SLICE_BYTES):
                self._channel.sendall(head[begin : begin + channels.SLICE_BYTES])

    def stop(self) -> None:
        """See Stream.stop."""
        with contextlib.suppress(*LOST):
            self._channel.shutdown_write()

    def _receive(self) -> Iterator[tuple[bool, bytes]]:
        try:
            yield from channels.exchange(
                self._channel, self._stdin, self._deadline, goes_on=True, idle_timeout_s=self._idle_timeout_s
            )
            deadline = time.monotonic() + self._idle_timeout_s
            self.exit_code = self._connection._exit_code(self._channel, deadline)
        except LOST as error:
            if channels.is_timeout(error):
                raise self._time_limit_error() from error
            raise LinkError(self._connection._broken_link_message(error)) from error

    def _end_command(self, *, given_up: bool) -> None:
        """Discard further output for a while, so that the command can end by itself."""
        deadline = time.monotonic() + _STOP_GRACE_S
        if not given_up and self.exit_code is None:
            with contextlib.suppress(*LOST):
                for _ in channels.exchange(self._channel, b"", deadline, goes_on=True):
                    pass
                self._channel.status_event.wait(max(0.0, deadline - time.monotonic()))
        channels.close(self._channel)
