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
from collections.abc import Sequence
from typing import IO, Any

from fleet.errors import UnreachableError
from fleet.remote.ssh.route import Endpoint

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
            self._acknowledge_at_once()
        data = self._ahead[:size]
        self._ahead = self._ahead[size:]
        return data

    def _acknowledge_at_once(self) -> None:
        if _QUICKACK is not None:
            with contextlib.suppress(OSError):
                self.setsockopt(socket.IPPROTO_TCP, _QUICKACK, 1)


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
        child = self.child
        self.child = None
        if child is not None:
            _end_group(child)
            if self.stderr is not None:
                self.printed = _read_joined(self.stderr)


def _end_group(child: subprocess.Popen[bytes]) -> None:
    """Wait for the child; kill it and its children if it does not end."""
    try:
        child.wait(1.0)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _read_joined(file: IO[bytes]) -> str:
    """Return the end of a file's text, its lines joined, and close it."""
    with file:
        file.seek(0)
        lines = file.read().decode("utf-8", "replace").split("\n")
    return "; ".join(lines).strip("; ")[-_SHOWN:]


def open_tcp(host_name: str, endpoint: Endpoint, timeout_s: float) -> socket.socket:
    """Connect to the first of the endpoint's addresses that answers, in the resolver's
    order. Raises UnreachableError; its reason is that of the last address.
    """
    addresses = _resolve(host_name, endpoint)
    deadline = time.monotonic() + timeout_s
    refusals = []
    last_reason = ""
    for index, (family, kind, protocol, _, address) in enumerate(addresses):
        # what is left of the time is divided among the addresses that are left
        addresses_left = len(addresses) - index
        share_s = (deadline - time.monotonic()) / addresses_left
        link = ReadAheadSocket(family, kind, protocol)
        link.settimeout(max(0.1, share_s))
        ip = address[0]
        try:
            _set_tcp_options(link)
            link.connect(address)
        except OSError as error:
            link.close()
            last_reason = _describe_refusal(error, timeout_s)
            refusals.append(f"{ip}: {last_reason}")
            _log.info("%s: no TCP connection to %s: %s", host_name, ip, last_reason)
        else:
            return link
    raise UnreachableError(
        f"{host_name}: no TCP connection to {endpoint.address} port {endpoint.port}"
        f" ({'; '.join(refusals)}). Is the host up, its sshd running, and the address"
        " and port right?",
        reason=last_reason,
    )


def _describe_refusal(error: OSError, timeout_s: float) -> str:
    """Say why an address did not let us connect: as the system has it, or that our own
    time was up.
    """
    # the error of Python's own timeout has no number, that of the system's has one
    is_our_timeout = isinstance(error, TimeoutError) and error.errno is None
    if is_our_timeout:
        return f"no answer within {timeout_s:g} s"
    return _system_reason(error)


def _resolve(host_name: str, endpoint: Endpoint) -> Sequence[tuple[Any, ...]]:
    """Return (family, kind, protocol, name, address) of each of the endpoint's
    addresses, as socket.getaddrinfo does. Raises UnreachableError.
    """
    try:
        return socket.getaddrinfo(
            endpoint.address,
            endpoint.port,
            family=endpoint.address_family,
            type=socket.SOCK_STREAM,
        )
    except (OSError, UnicodeError) as error:
        raise UnreachableError(
            f"{host_name}: the name {endpoint.address!r} cannot be resolved:"
            f" {_system_reason(error)}. Correct `address` in the inventory, or HostName"
            " in ssh_config."
        ) from error


def _set_tcp_options(link: socket.socket) -> None:
    """Send without delay, and notice a peer that is gone."""
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        timeout_ms = DEAD_PEER_S * 1000
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout_ms)


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
    """Return the text of an error, beginning with a small letter."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text[0].lower() + text[1:]
