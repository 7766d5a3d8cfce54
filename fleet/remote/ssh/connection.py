"""Connects to a host over SSH with a shell that runs one command after another. Every
wait is limited.
"""

import contextlib
import logging
import math
import select
import threading
import time
from collections.abc import Callable, Iterator
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
            channel = self._take_shell(timeout_s)  # which leaves `_shell` None
            try:
                return self._run_by_shell(channel, command, stdin, deadline)
            finally:
                # `_run_by_shell` sets `_shell` again if another command may follow
                is_kept = self._shell is not None
                if not is_kept:
                    _close_channel(channel)

    def _run_by_shell(
        self, channel: paramiko.Channel, command: str, stdin: bytes, deadline: float
    ) -> Completed:
        """Run a command; afterwards keep the shell for the next command, unless this
        command had stdin or the shell has ended.
        """
        mark = self._mark
        # a command with stdin ends its shell: all that is sent after it is its stdin
        is_last = bool(stdin)
        script = shell.render_command(command, self._env, mark, last=is_last)
        out = Answer(self.host_name, mark)
        err = Answer(self.host_name, mark)
        received = _exchange(channel, script + stdin, deadline, keep_open=not is_last)
        done = collect_answer(received, out, err)
        if done is None:
            # the shell has ended without an end mark, so that only SSH has its code
            code = self._wait_for_exit_code(channel, deadline)
            return Completed(code, bytes(out.data), bytes(err.data))
        if not is_last:
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
        with self._limit(timeout_s, too_late):
            channel = self._transport.open_session(timeout=_SFTP_OPENS_S)
            channel.settimeout(_SFTP_OPENS_S)
        # each request to the channel has the limit anew, and may be refused
        limit_request = partial(self._limit_sftp, timeout_s, too_late)
        try:
            yield self._open_sftp(channel, limit_request)
        finally:
            _close_channel(channel)

    def _open_sftp(
        self,
        channel: paramiko.Channel,
        limit_request: Callable[[], contextlib.AbstractContextManager[None]],
    ) -> SftpChannel | None:
        """Start SFTP in a channel; return None if the host refuses it."""
        opened = None
        with contextlib.suppress(RefusedError), limit_request():
            channel.invoke_subsystem("sftp")
            opened = SftpChannel(paramiko.SFTPClient(channel), limit_request)
        outcome = "sftp opened"
        if opened is None:
            outcome = "no sftp there; files go through the shell"
        _log.info("%s: %s", self.host_name, outcome)
        return opened

    @contextlib.contextmanager
    def _limit_sftp(self, timeout_s: float, too_late: str) -> Iterator[None]:
        """Do as `_limit`, but raise RefusedError where the host refuses a request: the
        link is still up then, so that the caller can use the shell instead.
        """
        with self._limit(timeout_s, too_late):
            try:
                yield
            except LOST as err:  # a refusal raises the same errors as a lost link
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

    def _wait_for_exit_code(self, channel: paramiko.Channel, deadline: float) -> int:
        """Return the exit code of a channel's shell. Raises TimeoutError if it has not
        ended, EOFError if the link broke, SSHException if the server did not start the
        shell, LinkError if something killed it.
        """
        has_ended = channel.status_event.wait(max(0.0, deadline - time.monotonic()))
        if not has_ended:
            raise TimeoutError
        # paramiko has -1 if no exit code came
        if channel.exit_status >= 0:
            return channel.exit_status
        if not self._transport.is_active():
            raise EOFError
        # the server's answer to the request for a shell sets `event_ready`
        has_started = channel.event_ready
        if not has_started:
            raise SSHException("Channel closed.")
        raise LinkError(f"{self.host_name}: {output.KILLED}")

    @contextlib.contextmanager
    def _limit(self, timeout_s: float, too_late: str) -> Iterator[float]:
        """Yield the deadline, for the block to keep; turn a failure of the link into
        LinkError. Hang up if the block lasts _HANG_UP_AFTER_S beyond the deadline.
        Raises TimeLimitError with the message `too_late` if the time was up.
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
        """Return the message for an error of the link or of a channel in it."""
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
        """Start the command as the last one of a shell: its stdin stays open."""
        super().__init__(connection.host_name, idle_timeout_s, limit_s, stdin)
        self._connection = connection
        self._mark = connection._mark
        script = shell.render_command(command, connection._env, self._mark, last=True)
        too_late = (
            f"{connection.host_name}: the command did not start within"
            f" {idle_timeout_s:g} s."
        )
        with connection._limit(idle_timeout_s, too_late):
            self._channel = connection._take_shell(idle_timeout_s)
            for start in range(0, len(script), _SLICE_BYTES):
                self._channel.sendall(script[start : start + _SLICE_BYTES])

    def stop(self) -> None:
        """See Stream.stop."""
        with contextlib.suppress(*LOST):
            self._channel.shutdown_write()

    def _receive(self) -> Iterator[tuple[bool, bytes]]:
        """Yield (is_stderr, data) until the shell ends, then set its exit code."""
        try:
            yield from _exchange(
                self._channel,
                self._stdin,
                self._deadline,
                keep_open=True,
                idle_timeout_s=self._idle_timeout_s,
            )
            deadline = time.monotonic() + self._idle_timeout_s
            self.exit_code = self._connection._wait_for_exit_code(
                self._channel, deadline
            )
        except LOST as error:
            if _is_timeout(error):
                raise self._time_limit_error() from error
            raise LinkError(self._connection._broken_link_message(error)) from error

    def _end_command(self, *, given_up: bool) -> None:
        """Close the command's channel. A command that may be about to end by itself
        gets time for that.
        """
        if not given_up and self.exit_code is None:
            with contextlib.suppress(*LOST):
                self._discard_output_until_end()
        _close_channel(self._channel)

    def _discard_output_until_end(self) -> None:
        """Read on until the command ends, but not for longer than _STOP_GRACE_S."""
        deadline = time.monotonic() + _STOP_GRACE_S
        for _ in _exchange(self._channel, b"", deadline, keep_open=True):
            pass
        left_s = max(0.0, deadline - time.monotonic())
        self._channel.status_event.wait(left_s)


_SLICE_BYTES = 32 << 10  # Channel.sendall copies its whole rest after every packet
_READ_BYTES = 256 << 10
_WINDOW_TICK_S = 0.01  # how often to see whether a busy host reads again


def _start_command(
    transport: paramiko.Transport, command: str, timeout_s: float
) -> paramiko.Channel:
    """Open a channel and request `command`, as paramiko's exec_command does, but do not
    wait for the answer.
    """
    channel = transport.open_session(timeout=timeout_s)
    channel.settimeout(timeout_s)
    request = paramiko.Message()
    request.add_byte(cMSG_CHANNEL_REQUEST)
    request.add_int(channel.remote_chanid)
    request.add_string("exec")
    request.add_boolean(True)  # we want an answer, and take it whenever it comes
    request.add_string(command)
    # clears the channel's event_ready, which the answer will set
    channel._event_pending()  # type: ignore[attr-defined]  # not in the stubs
    transport._send_user_message(request)  # type: ignore[attr-defined]
    return channel


def _exchange(
    channel: paramiko.Channel,
    stdin: bytes,
    deadline: float,
    *,
    keep_open: bool = False,
    idle_timeout_s: float = math.inf,
) -> Iterator[tuple[bool, bytes]]:
    """Send `stdin` while reading: yield (is_stderr, data) until the command ends. Send
    end-of-file behind stdin, unless `keep_open`. Raises TimeoutError at `deadline`, or
    if nothing comes for `idle_timeout_s` once stdin is sent.

    Each turn of the loop reads what has come, then sends a slice of stdin. The turn
    waits only if there was nothing to read and nothing could be sent.
    """
    unsent = memoryview(stdin)
    readable = select.poll()  # wakes up when either output has data or has ended
    readable.register(channel.fileno(), select.POLLIN)
    while True:
        # asked before reading: what has not come when it ended never comes
        has_ended = channel.eof_received or channel.closed
        received = _read_outputs(channel)
        yield from received
        if has_ended and not received:
            return
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        # send to a closed channel, too: `_send` raises if the link is lost
        can_send = channel.closed or channel.send_ready()
        if unsent and can_send:
            unsent = _send(channel, unsent)
            if not unsent and not keep_open:
                channel.shutdown_write()
            continue
        if received:
            continue
        if unsent:
            # there is no event to wait for, so see soon whether the host reads again
            readable.poll(1000 * min(left_s, _WINDOW_TICK_S))
        else:
            _wait_for_output(readable, left_s, idle_timeout_s)


def _wait_for_output(
    readable: select.poll, left_s: float, idle_timeout_s: float
) -> None:
    """Wait until an output has data or has ended, at most for `left_s`. Raises
    TimeoutError if nothing comes for `idle_timeout_s`.
    """
    # `left_s` ends first; the caller then sees that no time is left
    if left_s < idle_timeout_s:
        readable.poll(1000 * left_s)
        return
    is_readable = readable.poll(1000 * idle_timeout_s)
    if not is_readable:
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
    without reading it. Raises OSError if the link is lost.
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
