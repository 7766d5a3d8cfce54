"""Connect to a host by `ssh`, `openssh` or `local`, as its inventory entry says.

Each is imported when a host needs it, because paramiko and fabric take long to load.
"""

from fleet.model import Host, Via
from fleet.remote.connection import Connection


def connect(host: Host, *, timeout_s: float = 15.0) -> Connection:
    """Open a connection to `host`; each step of the handshake may take `timeout_s`.

    Raises UnreachableError, HostKeyError or AuthError. The caller closes the connection.
    """
    match host.via:
        case Via.LOCAL:
            from fleet.remote.local import LocalConnection  # noqa: PLC0415  see above

            return LocalConnection(host)
        case Via.OPENSSH:
            from fleet.remote.openssh import OpenSshConnection  # noqa: PLC0415  see above

            return OpenSshConnection.open(host, timeout_s)
        case Via.SSH:
            from fleet.remote.ssh.connection import SshConnection  # noqa: PLC0415  see above

            return SshConnection.open(host, timeout_s)
