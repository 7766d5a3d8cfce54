"""Connect to a host by `ssh` or a client program, as its inventory entry says.

Each is imported when a host needs it, because paramiko and fabric take long to load.
"""

from fleet.model import Host, Via
from fleet.remote.connection import Connection


def connect(host: Host, *, timeout_s: float = 15.0) -> Connection:
    """Open a connection to `host`; each step of the handshake may take `timeout_s`.

    Raises UnreachableError, HostKeyError or AuthError. The caller closes the connection.
    """
    if host.via is Via.SSH:
        from fleet.remote.ssh.connection import SshConnection  # noqa: PLC0415  see above

        return SshConnection.open(host, timeout_s)
    from fleet.remote.clients import client_of  # noqa: PLC0415  see above
    from fleet.remote.command import CommandConnection  # noqa: PLC0415

    return CommandConnection.open(host, client_of(host, timeout_s))
