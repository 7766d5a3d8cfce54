"""paramiko's Transport with our order of algorithms, and what the server sent, for
messages.
"""

import socket
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import paramiko
from paramiko.transport import _active_threads  # type: ignore[attr-defined]  # not in the stubs

from fleet.remote.ssh.host_keys import HostKeyCheck, sort_preferred_first

_KEX_FIRST = ("mlkem768x25519-sha256", "curve25519-sha256@libssh.org")
_CIPHERS_FIRST = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")
_PREFACE = "Banner: "  # paramiko's words in its log for a line before the banner
# of such lines, and characters of each
LINES_SHOWN = 5
LINE_SHOWN = 200


class Transport(paramiko.Transport):
    """A Transport that keeps what the server sends, for messages."""

    # the server's algorithms, by paramiko's names for the lists of the key exchange
    offered: Mapping[str, list[str]] = MappingProxyType({})
    preface: tuple[str, ...] = ()  # lines before the SSH banner
    goodbye = ""  # why it ends
    _cannot_send = False

    def is_active(self) -> bool:
        """Report whether the link is up. paramiko reports it as up until it has closed
        all channels.
        """
        # paramiko's thread first leaves this private list when it ends; nothing public
        # changes so early.
        has_ended = self not in _active_threads
        return super().is_active() and not has_ended and not self._cannot_send

    def _send_message(self, data: paramiko.Message) -> None:
        try:
            super()._send_message(data)  # type: ignore[misc]
        except EOFError:
            self._cannot_send = True
            raise

    def _log(self, level: int, message: Any, *arguments: Any) -> None:
        """Log as paramiko does, and keep the lines before the banner: paramiko shows
        them nowhere else.
        """
        super()._log(level, message, *arguments)  # type: ignore[misc]
        if isinstance(message, str) and message.startswith(_PREFACE):
            line = message.removeprefix(_PREFACE)[:LINE_SHOWN]
            self.preface = (*self.preface, line)[:LINES_SHOWN]

    def _really_parse_kex_init(
        self, *arguments: Any, **options: Any
    ) -> dict[str, list[str]]:
        """Parse the server's offer as paramiko does, and keep its lists."""
        parsed: dict[str, list[str]] = super()._really_parse_kex_init(  # type: ignore[misc]
            *arguments, **options
        )
        self.offered = {
            kind: list(names)
            for kind, names in parsed.items()
            if isinstance(names, list)
        }
        return parsed

    def _parse_disconnect(self, message: paramiko.Message) -> None:
        message.get_int()  # a number for the reason
        self.goodbye = message.get_text()[:200]

    def _parse_debug(self, _message: paramiko.Message) -> None:
        """Skip sshd's debug messages; paramiko would format them for a log that nobody
        reads.
        """


def make_transport(
    check: HostKeyCheck, timeout_s: float, sock: socket.socket, **options: object
) -> paramiko.Transport:
    """Return a transport for fabric that prefers our algorithms and known keys."""
    transport = Transport(sock, **options)  # type: ignore[arg-type]
    transport.set_log_channel(f"paramiko.{check.host_name}")
    transport.handshake_timeout = timeout_s
    allowed = transport.get_security_options()
    # paramiko lists the AES-GCM ciphers last, though they cost it less than half of
    # what CTR does.
    allowed.ciphers = sort_preferred_first(_CIPHERS_FIRST, allowed.ciphers)
    allowed.kex = sort_preferred_first(_KEX_FIRST, allowed.kex)
    allowed.key_types = check.order_algorithms(allowed.key_types)
    return transport
