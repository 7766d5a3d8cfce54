"""Dials a host with fabric, one hop after the other, with our own host-key policy, keys
and socket.
"""

import contextlib
import logging
import socket
import threading
from functools import partial

import fabric
import paramiko
from paramiko.ssh_exception import SSHException

from fleet.errors import UnreachableError
from fleet.model import Host
from fleet.remote.ssh.failures import describe_failure, has_closed_early
from fleet.remote.ssh.host_keys import HostKeyCheck
from fleet.remote.ssh.identities import Identities, SilentError
from fleet.remote.ssh.route import Endpoint, resolve_route
from fleet.remote.ssh.sockets import open_proxy, open_tcp
from fleet.remote.ssh.transport import make_transport

# without traffic of its own a link would not notice that its peer is gone
KEEPALIVE_S = 5
# an sshd lets in ten strangers at a time, and each costs CPU on both sides
_HANDSHAKES_AT_ONCE = 8
_handshakes = threading.BoundedSemaphore(_HANDSHAKES_AT_ONCE)

# Every failure is raised as one of our errors; paramiko would print tracebacks as well.
logging.getLogger("paramiko").addHandler(logging.NullHandler())
_log = logging.getLogger(__name__)


def dial(host: Host, timeout_s: float) -> tuple[fabric.Connection, tuple[str, ...]]:
    """Open a session with `host`, each step within `timeout_s`; return the session and
    notes for the user. Raises UnreachableError, HostKeyError or AuthError.

    Each session on the way goes through the session before, which is its `gateway`.
    `hang_up` of the last session hangs up all.
    """
    endpoints = resolve_route(host)
    notes = [note for endpoint in endpoints for note in endpoint.notes]
    link: fabric.Connection | None = None
    try:
        for endpoint in endpoints:
            link, key_notes = _open_session(host.name, endpoint, link, timeout_s)
            notes += key_notes
    except BaseException:
        hang_up(link)
        raise
    return link, tuple(notes)


def hang_up(link: fabric.Connection | None) -> None:
    """End a session, then those with the jump hosts that carry it, which fabric would
    leave open.
    """
    while isinstance(link, fabric.Connection):
        with contextlib.suppress(SSHException, EOFError, OSError):
            link.client.close()
        link = link.gateway


def _open_session(
    host_name: str,
    endpoint: Endpoint,
    gateway: fabric.Connection | None,
    timeout_s: float,
) -> tuple[fabric.Connection, list[str]]:
    """Open a session with one server; return the session and notes on the server's key.
    gateway: the session with the jump host before the server; None without a jump host.
    """
    where = f"{endpoint.address} port {endpoint.port} as {endpoint.user}"
    way = _describe_way(endpoint, gateway)
    _log.info("%s: connecting to %s%s", host_name, where, way)
    check = HostKeyCheck(host_name, endpoint)
    link = _prepare_session(endpoint, gateway, check, timeout_s)
    try:
        with _handshakes:  # at most _HANDSHAKES_AT_ONCE at a time
            link.open()
    except (SSHException, SilentError, EOFError, OSError) as error:
        message = describe_failure(host_name, endpoint, link, timeout_s, error)
        # the host may have been busy: another try may succeed
        is_transient = has_closed_early(link, error)
        link.client.close()
        raise UnreachableError(message, is_transient=is_transient) from error
    except BaseException:
        link.client.close()
        raise
    version = link.transport.remote_version
    _log.info("%s: logged in to %s, %s", host_name, where, version)
    link.transport.set_keepalive(KEEPALIVE_S)
    # paramiko's own 0.1 s would cost 19 ms of CPU a host and minute
    link.transport.sock.settimeout(1.0)
    return link, check.notes


def _prepare_session(
    endpoint: Endpoint,
    gateway: fabric.Connection | None,
    check: HostKeyCheck,
    timeout_s: float,
) -> fabric.Connection:
    """Return a session to be opened. Without a gateway, its socket is connected here.
    With a gateway, the gateway's session carries it.
    """
    connect_kwargs = {
        "auth_strategy": Identities(check.host_name, endpoint),
        "transport_factory": partial(make_transport, check, timeout_s),
        "timeout": timeout_s,
        "banner_timeout": timeout_s,
        "auth_timeout": timeout_s,
        "channel_timeout": timeout_s,
    }
    if gateway is None:
        connect_kwargs["sock"] = _open_socket(check.host_name, endpoint, timeout_s)
    link = fabric.Connection(
        host=endpoint.address,
        user=endpoint.user,
        port=endpoint.port,
        gateway=False if gateway is None else gateway,
        # one for each session, as threads cannot share it
        config=fabric.Config(lazy=True, ssh_config=paramiko.SSHConfig()),
        connect_kwargs=connect_kwargs,
        forward_agent=False,
    )
    link.client.set_missing_host_key_policy(check)
    return link


def _describe_way(endpoint: Endpoint, gateway: fabric.Connection | None) -> str:
    if gateway is not None:
        return f" through the jump host {gateway.host}"
    if endpoint.proxy_command:
        return f" through {endpoint.proxy_command}"
    return ""


def _open_socket(host_name: str, endpoint: Endpoint, timeout_s: float) -> socket.socket:
    if endpoint.proxy_command:
        return open_proxy(host_name, endpoint.proxy_command)
    return open_tcp(host_name, endpoint, endpoint.connect_timeout_s or timeout_s)
