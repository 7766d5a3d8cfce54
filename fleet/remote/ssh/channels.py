"""Uses paramiko's channels without needless waiting: starts and feeds a command in one go."""

import contextlib
import math
import select
import time
from collections.abc import Iterator

import paramiko
from paramiko.common import cMSG_CHANNEL_REQUEST
from paramiko.ssh_exception import SSHException

SLICE_BYTES = 32 << 10  # Channel.sendall copies its whole rest after every packet
_READ_BYTES = 256 << 10
_WINDOW_TICK_S = 0.01  # paramiko has no event for "the host reads again"
LOST = (SSHException, EOFError, OSError)


def start(transport: paramiko.Transport, command: str, timeout_s: float) -> paramiko.Channel:
    """Open a channel and request `command` without waiting for the answer; see `was_refused`."""
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


def was_refused(channel: paramiko.Channel) -> bool:
    """Report whether the server would not start the command of a channel that has ended."""
    return not channel.event_ready


def exchange(
    channel: paramiko.Channel,
    stdin: bytes,
    deadline: float,
    *,
    goes_on: bool = False,
    idle_timeout_s: float = math.inf,
) -> Iterator[tuple[bool, bytes]]:
    """Send `stdin`, then end-of-file unless it goes on; yield (is it stderr, data). Raises TimeoutError."""
    left = memoryview(stdin)
    readable = select.poll()  # wakes up when either output has data or has ended
    readable.register(channel.fileno(), select.POLLIN)
    while True:
        # before reading: what is not there after this never comes
        ended = channel.eof_received or channel.closed
        received = _read_available(channel)
        yield from received
        if ended and not received:
            return
        if (time_left := deadline - time.monotonic()) <= 0:
            raise TimeoutError
        if left and (channel.closed or channel.send_ready()):
            left = _send(channel, left)
            if not left and not goes_on:
                channel.shutdown_write()
        elif not received:
            wait_s = min(time_left, _WINDOW_TICK_S if left else idle_timeout_s)
            if not readable.poll(1000 * wait_s) and wait_s == idle_timeout_s:
                raise TimeoutError


def _read_available(channel: paramiko.Channel) -> list[tuple[bool, bytes]]:
    """Return what has arrived on stdout and stderr, without waiting."""
    received = []
    if channel.recv_ready():
        received.append((False, channel.recv(_READ_BYTES)))
    if channel.recv_stderr_ready():
        received.append((True, channel.recv_stderr(_READ_BYTES)))
    return received


def _send(channel: paramiko.Channel, left: memoryview) -> memoryview:
    """Send one slice; return what is left, nothing if the command has ended without wanting it."""
    try:
        return left[channel.send(bytes(left[:SLICE_BYTES])) :]
    except OSError:
        if channel.closed and channel.get_transport().is_active():
            return left[:0]
        raise


def close(channel: paramiko.Channel) -> None:
    """End the command's stdin and output; ignore a dead link."""
    with contextlib.suppress(*LOST):
        channel.close()


def is_timeout(error: Exception) -> bool:
    """Report whether our own wait timed out (paramiko raises two errors for that), not the link."""
    if isinstance(error, TimeoutError):
        return error.errno is None
    return isinstance(error, SSHException) and str(error).startswith("Timeout")
