"""Connects to a host over SSH with a shell that runs one command after another. Every
wait is limited.
"""

import contextlib
import logging
import math
import select
import threading
import time
from collections.abc import Iterator
from functools import partial

import paramiko
from paramiko.common import cMSG_CHANNEL_REQUEST
from paramiko.ssh_exception import ChannelException, SSHException

from fleet.errors import LinkError, TimeLimitError
from fleet.model import Host
from fleet.remote import output, shell
from fleet.remote.connection import Connection
from fleet.remote.output import (
    Answer,
    Completed,
    RefusedError,
    Stream,
    collect_answer,
    timeout_message,
)
from fleet.remote.sftp import SftpChannel
from fleet.remote.ssh.dial import dial, hang_up
from fleet.remote.ssh.sockets import DEAD_PEER_S

_log = logging.getLogger(__name__)
_HANG_UP_AFTER_S = 1.0
_STOP_GRACE_S = 5.0  # for a command to end after end-of-file on its stdin
_SFTP_OPENS_S = 15.0  # a host whose SFTP does not answer counts as having none
LOST = (SSHException, paramiko.SFTPError, EOFError, OSError)


class SshConnection(Connection):
    """An open SSH session with one host."""

    def __init__(self, host: Host, timeout_s: float) -> None:
        """Dial `host`. Raises UnreachableError, HostKeyError or AuthError."""
        super().__init__(host)
        self._link, self.notes = dial(host, timeout_s)
        self._transport: paramiko.Transport = self._link.transport
        self.banner = self._transport.remote_version
        self._shell: paramiko.Channel | None = None  # one that waits
        self._mark = shell.new_mark()
        self._closed = False

    def run(
        self, command: str, *, stdin: bytes = b"", timeout_s: float = 30.0
    ) -> Completed:
        """See Connection.run. After a timeout the command may run on, without stdin and
        stdout.
        """
        too_late = timeout_message(self.host_name, timeout_s)
        with self._limit(timeout_s, too_late) as deadline:
            channel = self._take_shell(timeout_s)
            try:
                return self._run_by_shell(channel, command, stdin, deadline)
            finally:
                if self._shell is None:
                    _close_channel(channel)

    def _run_by_shell(
        self, channel: paramiko.Channel, command: str, stdin: bytes, deadline: float
    ) -> Completed:
        """Run a command; afterwards the shell waits for the next one, unless it had
        stdin or has ended.
        """
        mark = self._mark
        text = shell.render_command(command, self._env, mark, last=bool(stdin))
        out = Answer(self.host_name, mark)
        err = Answer(self.host_name, mark)
        received = _exchange(channel, text + stdin, deadline, no_eof=not stdin)
        done = collect_answer(received, out, err)
        if done is None:
            code = self._exit_code(channel, deadline)
            return Completed(code, bytes(out.data), bytes(err.data))
        if not stdin:
            self._shell = channel
        return done

    def stream(
        self,
        command: str,
        *,
        idle_timeout_s: float,
        limit_s: float = math.inf,
        stdin: bytes = b"",
    ) -> "SshStream":
        """See Connection.stream."""
        return SshStream(self, command, idle_timeout_s, limit_s, stdin)

    @contextlib.contextmanager
    def sftp(self, timeout_s: float) -> Iterator[SftpChannel | None]:
        """Open an SFTP session for the block; yield None if the host has no SFTP."""
        too_late = (
            f"{self.host_name}: a file transfer was not done within {timeout_s:g} s."
        )
        limit = partial(self._limit_sftp, timeout_s, too_late)
        with self._limit(timeout_s, too_late):
            channel = self._transport.open_session(timeout=_SFTP_OPENS_S)
            channel.settimeout(_SFTP_OPENS_S)
        opened = None
        try:
            with contextlib.suppress(RefusedError), limit():
                channel.invoke_subsystem("sftp")
                opened = SftpChannel(paramiko.SFTPClient(channel), limit)
            outcome = "sftp opened"
            if opened is None:
                outcome = "no sftp there; files go through the shell"
            _log.info("%s: %s", self.host_name, outcome)
            yield opened
        finally:
            _close_channel(channel)

    @contextlib.contextmanager
    def _limit_sftp(self, timeout_s: float, too_late: str) -> Iterator[None]:
        """Do as `_limit`, but raise RefusedError where the host refuses a request."""
        with self._limit(timeout_s, too_late):
            try:
                yield
            except LOST as err:
                if not self._transport.is_active():
                    raise
                raise RefusedError(str(err) or type(err).__name__) from err

    def close(self) -> None:
        """See Connection.close."""
        self._closed = True
        hang_up(self._link)

    def _take_shell(self, timeout_s: float) -> paramiko.Channel:
        """Return the waiting shell, else a new one. Some hosts allow one session
        only.
        """
        waiting = self._shell
        self._shell = None
        if waiting is not None:
            return waiting
        return _start_command(self._transport, shell.LOADER + self._mark, timeout_s)

    def _exit_code(self, channel: paramiko.Channel, deadline: float) -> int:
        if not channel.status_event.wait(max(0.0, deadline - time.monotonic())):
            raise TimeoutError
        if channel.exit_status >= 0:
            return channel.exit_status
        # paramiko's word both for a lost link and for a shell that was killed.
        if not self._transport.is_active():
            raise EOFError
        if not channel.event_ready:  # the server would not start the command
            raise SSHException("Channel closed.")
        raise LinkError(f"{self.host_name}: {output.KILLED}")

    @contextlib.contextmanager
    def _limit(self, timeout_s: float, too_late: str) -> Iterator[float]:
        """Yield the deadline; turn a failure of the link into LinkError. Hang up if the
        block hangs.
        """
        hung_up = threading.Event()

        def give_up() -> None:
            hung_up.set()
            hang_up(self._link)

        timer = threading.Timer(timeout_s + _HANG_UP_AFTER_S, give_up)
        timer.daemon = True
        timer.start()
        try:
            yield time.monotonic() + timeout_s
        except LOST as error:
            if hung_up.is_set() or _is_timeout(error):
                raise TimeLimitError(too_late) from error
            raise LinkError(self._broken_link_message(error)) from error
        finally:
            timer.cancel()

    def _broken_link_message(self, error: Exception) -> str:
        transport = self._transport
        if self._closed:
            return f"{self.host_name}: {output.CLOSED}"
        if transport.is_active():
            if isinstance(error, ChannelException):
                return (
                    f"{self.host_name}: the host's sshd opened no session for a"
                    f" command: {error.text}. Does its sshd_config limit MaxSessions?"
                )
            why = str(error) or type(error).__name__
            return f"{self.host_name}: the host ended the command's channel: {why}."
        cause = transport.get_exception() or error
        description = str(cause) or type(cause).__name__
        if isinstance(cause, EOFError):
            description = "the connection was cut (end of file)"
        elif isinstance(cause, TimeoutError):
            description = f"the host has acknowledged nothing for {DEAD_PEER_S} s"
        return (
            f"{self.host_name}: the SSH session broke: {description}. What the command"
            " did is unknown. Is the host still up, and the network between?"
        )


class SshStream(Stream):
    """A command running over SSH; see Stream."""

    def __init__(
        self,
        connection: SshConnection,
        command: str,
        idle_timeout_s: float,
        limit_s: float,
        stdin: bytes,
    ) -> None:
        super().__init__(connection.host_name, idle_timeout_s, limit_s, stdin)
        self._connection = connection
        late = (
            f"{connection.host_name}: the command did not start within"
            f" {idle_timeout_s:g} s."
        )
        with connection._limit(idle_timeout_s, late):
            self._channel = connection._take_shell(idle_timeout_s)
            self._mark = connection._mark
            head = shell.render_command(command, connection._env, self._mark, last=True)
            for begin in range(0, len(head), _SLICE_BYTES):
                self._channel.sendall(head[begin : begin + _SLICE_BYTES])

    def stop(self) -> None:
        """See Stream.stop."""
        with contextlib.suppress(*LOST):
            self._channel.shutdown_write()

    def _receive(self) -> Iterator[tuple[bool, bytes]]:
        try:
            yield from _exchange(
                self._channel,
                self._stdin,
                self._deadline,
                no_eof=True,
                idle_timeout_s=self._idle_timeout_s,
            )
            deadline = time.monotonic() + self._idle_timeout_s
            self.exit_code = self._connection._exit_code(self._channel, deadline)
        except LOST as error:
            if _is_timeout(error):
                raise self._time_limit_error() from error
            raise LinkError(self._connection._broken_link_message(error)) from error

    def _end_command(self, *, given_up: bool) -> None:
        """Let the command end by itself for a while, discarding its output, unless
        given up; then close.
        """
        if not given_up and self.exit_code is None:
            deadline = time.monotonic() + _STOP_GRACE_S
            with contextlib.suppress(*LOST):
                for _ in _exchange(self._channel, b"", deadline, no_eof=True):
                    pass
                self._channel.status_event.wait(max(0.0, deadline - time.monotonic()))
        _close_channel(self._channel)


_SLICE_BYTES = 32 << 10  # Channel.sendall copies its whole rest after every packet
_READ_BYTES = 256 << 10
_WINDOW_TICK_S = 0.01  # paramiko has no event for "the host reads again"


def _start_command(
    transport: paramiko.Transport, command: str, timeout_s: float
) -> paramiko.Channel:
    """Open a channel and request `command` without waiting for the answer."""
    channel = transport.open_session(timeout=timeout_s)
    channel.settimeout(timeout_s)
    request = paramiko.Message()
    request.add_byte(cMSG_CHANNEL_REQUEST)
    request.add_int(channel.remote_chanid)
    request.add_string("exec")
    request.add_boolean(True)  # we want an answer, and take it whenever it comes
    request.add_string(command)
    channel._event_pending()  # type: ignore[attr-defined]  # as exec_command does, and waits
    transport._send_user_message(request)  # type: ignore[attr-defined]
    return channel


def _exchange(
    channel: paramiko.Channel,
    stdin: bytes,
    deadline: float,
    *,
    no_eof: bool = False,
    idle_timeout_s: float = math.inf,
) -> Iterator[tuple[bool, bytes]]:
    """Send `stdin`, then end-of-file unless no_eof; yield (is_stderr, data). Raises
    TimeoutError.
    """
    unsent = memoryview(stdin)
    readable = select.poll()  # wakes up when either output has data or has ended
    readable.register(channel.fileno(), select.POLLIN)
    while True:
        # before reading: what is not there after this never comes
        has_ended = channel.eof_received or channel.closed
        received = _read_outputs(channel)
        yield from received
        if has_ended and not received:
            return
        time_left = deadline - time.monotonic()
        if time_left <= 0:
            raise TimeoutError
        if unsent and (channel.closed or channel.send_ready()):
            unsent = _send(channel, unsent)
            if not unsent and not no_eof:
                channel.shutdown_write()
        elif not received:
            longest_s = _WINDOW_TICK_S if unsent else idle_timeout_s
            wait_s = min(time_left, longest_s)
            is_readable = readable.poll(1000 * wait_s)
            if not is_readable and wait_s == idle_timeout_s:
                raise TimeoutError


def _read_outputs(channel: paramiko.Channel) -> list[tuple[bool, bytes]]:
    """Return (is_stderr, data) of the outputs that have data."""
    received = []
    if channel.recv_ready():
        received.append((False, channel.recv(_READ_BYTES)))
    if channel.recv_stderr_ready():
        received.append((True, channel.recv_stderr(_READ_BYTES)))
    return received


def _send(channel: paramiko.Channel, data: memoryview) -> memoryview:
    """Send one slice and return the rest, which is empty if the command has ended
    without reading it.
    """
    try:
        sent = channel.send(bytes(data[:_SLICE_BYTES]))
    except OSError:
        if channel.closed and channel.get_transport().is_active():
            return data[:0]
        raise
    return data[sent:]


def _close_channel(channel: paramiko.Channel) -> None:
    """End the command's stdin and output; ignore a dead link."""
    with contextlib.suppress(*LOST):
        channel.close()


def _is_timeout(error: Exception) -> bool:
    """Report whether our own wait, not the link, timed out. paramiko raises one of two
    errors for that.
    """
    if isinstance(error, TimeoutError):
        return error.errno is None
    return isinstance(error, SSHException) and str(error).startswith("Timeout")
