"""Opens the socket that a session talks through: a TCP connection, or a
ProxyCommand's.
"""

import contextlib
import logging
import os
import signal
import socket
import subprocess
import tempfile
import time
from typing import IO

from fleet.errors import UnreachableError
from fleet.remote.ssh.config import Endpoint

DEAD_PEER_S = 15  # sent data unacknowledged for so long means that the peer is gone
_SHOWN = 500  # characters of what a ProxyCommand printed
_READ_AHEAD_BYTES = 16 << 10
_log = logging.getLogger(__name__)
_QUICKACK = getattr(socket, "TCP_QUICKACK", None)


class ReadAheadSocket(socket.socket):
    """A TCP socket that acknowledges at once and reads ahead.

    Nagle's algorithm and delayed acknowledgements cost a handshake some 80 ms. Linux
    resets TCP_QUICKACK now and then, so every read sets it. paramiko reads a packet in
    two pieces and never polls the socket.
    """

    _ahead = b""

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        """Read as socket.recv does, starting with data read ahead."""
        if not self._ahead:
            self._ahead = super().recv(max(size, _READ_AHEAD_BYTES), flags)
            if _QUICKACK is not None:
                with contextlib.suppress(OSError):
                    self.setsockopt(socket.IPPROTO_TCP, _QUICKACK, 1)
        data, self._ahead = self._ahead[:size], self._ahead[size:]
        return data


class ProxySocket(socket.socket):
    """Our end of a ProxyCommand's stdin and stdout; ends the command when closed."""

    child: subprocess.Popen[bytes] | None = None
    stderr: IO[bytes] | None = None
    printed = ""
    """The end of what the command has printed on its stderr, its lines joined; known
    once this is closed.
    """

    def close(self) -> None:
        """Close the socket, which gives the command end-of-file; kill the command if it
        does not end.
        """
        super().close()
        child, self.child = self.child, None
        if child is None:
            return
        try:
            child.wait(1.0)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        if self.stderr is not None:
            with self.stderr as stderr:
                stderr.seek(0)
                lines = stderr.read().decode("utf-8", "replace").split("\n")
            self.printed = "; ".join(lines).strip("; ")[-_SHOWN:]


def open_tcp(host_name: str, endpoint: Endpoint, timeout_s: float) -> socket.socket:
    """Connect to the first of the endpoint's addresses that answers, in the resolver's
    order.
    """
    where = f"{endpoint.address} port {endpoint.port}"
    try:
        addresses = socket.getaddrinfo(
            endpoint.address, endpoint.port, type=socket.SOCK_STREAM
        )
    except (OSError, UnicodeError) as error:
        raise UnreachableError(
            f"{host_name}: the name {endpoint.address!r} cannot be resolved:"
            f" {_system_reason(error)}. Correct `address` in the inventory, or HostName"
            " in ssh_config."
        ) from error
    deadline = time.monotonic() + timeout_s
    refusals = []
    for index, (family, kind, protocol, _, address) in enumerate(addresses):
        link = ReadAheadSocket(family, kind, protocol)
        link.settimeout(
            max(0.1, (deadline - time.monotonic()) / (len(addresses) - index))
        )
        try:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                link.setsockopt(
                    socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_PEER_S * 1000
                )
            link.connect(address)
        except OSError as error:
            link.close()
            silent = isinstance(error, TimeoutError) and error.errno is None
            reason = (
                f"no answer within {timeout_s:g} s" if silent else _system_reason(error)
            )
            refusals.append(f"{address[0]}: {reason}")
            _log.info("%s: no TCP connection to %s: %s", host_name, address[0], reason)
        else:
            return link
    raise UnreachableError(
        f"{host_name}: no TCP connection to {where} ({'; '.join(refusals)}). "
        "Is the host up, its sshd running, and the address and port right?",
        reason=reason,
    )


def open_proxy(host_name: str, command: str) -> socket.socket:
    """Start ssh_config's ProxyCommand and return the socket to talk through."""
    ours, theirs = socket.socketpair()
    link = ProxySocket(fileno=ours.detach())
    with theirs:
        try:
            link.stderr = tempfile.TemporaryFile()  # noqa: SIM115  closed with the socket
            link.child = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {command}"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=link.stderr,
                start_new_session=True,
            )
        except OSError as error:
            link.close()
            raise UnreachableError(
                f"{host_name}: ProxyCommand cannot be started: {error}."
            ) from error
    return link


def _system_reason(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text[0].lower() + text[1:]
