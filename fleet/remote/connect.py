"""Connects to a host by `ssh` or a client program, imported only when needed: paramiko
takes long to load.
"""

import logging

from fleet.addresses import read_address, read_hop, read_user
from fleet.errors import FleetError, UnreachableError
from fleet.hostnames import strip_host_name
from fleet.model import Host, InputError, Via
from fleet.remote.connection import Connection

_log = logging.getLogger(__name__)


def connect(host: Host, *, timeout_s: float = 15.0) -> Connection:
    """Connect, each step within `timeout_s`, and log a failure before it is raised.
    Raises UnreachableError, HostKeyError, AuthError.
    """
    try:
        return _connect(host, timeout_s)
    except FleetError as error:
        _log.info(
            "%s: %s failed: %s",
            host.name,
            error.stage,
            strip_host_name(host, str(error)),
        )
        raise


def _connect(host: Host, timeout_s: float) -> Connection:
    """Connect as the host's `via` says: by fleet's own SSH, or by a client program."""
    _require_valid_names(host)
    if host.via is Via.SSH:
        from fleet.remote.ssh.connection import (  # noqa: PLC0415  paramiko is slow
            SshConnection,
        )

        return SshConnection(host, timeout_s)
    from fleet.remote.clients import choose_client  # noqa: PLC0415  not for SSH
    from fleet.remote.command import (  # noqa: PLC0415  not for SSH
        CommandConnection,
    )

    client = choose_client(host, timeout_s)
    _log.info(
        "%s: connecting through a program; by hand: %s",
        host.name,
        client.command_to_try,
    )
    return CommandConnection(host, client)


def _require_valid_names(host: Host) -> None:
    """Raise UnreachableError if the host's address, jump hosts or user are no names.

    The inventory has been checked, but a host may come from elsewhere. These words end
    up on command lines, where a shell or a program could take others for options.
    """
    try:
        read_address(host.address)
        for hop in host.jump:
            read_hop(hop)
        if host.user:
            read_user(host.user)
    except InputError as error:
        raise UnreachableError(
            f"{host.name}: not a host to connect to: {error}"
        ) from error
