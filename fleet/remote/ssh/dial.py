"""Dials a host with fabric, one hop after the other, with our own host-key policy, keys
and socket.
"""

import contextlib
import logging
import os
import re
import shlex
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

import fabric
import paramiko
from paramiko.ssh_exception import ChannelException, IncompatiblePeer, SSHException
from paramiko.transport import _active_threads  # type: ignore[attr-defined]  # not in the stubs

from fleet.errors import HostKeyError, UnreachableError
from fleet.model import Host, HostKeyPolicy
from fleet.remote.ssh import known_hosts
from fleet.remote.ssh.config import Endpoint, resolve_route
from fleet.remote.ssh.identities import Identities, SilentError
from fleet.remote.ssh.known_hosts import Entry, fingerprint

KEEPALIVE_S = (
    5  # without traffic of its own a link would not notice that its peer is gone
)
_HANDSHAKES_AT_ONCE = (
    8  # an sshd lets in ten strangers at a time, and each costs CPU on both sides
)
_handshakes = threading.BoundedSemaphore(_HANDSHAKES_AT_ONCE)

_SIGNAL = re.compile(r"ext-info-|kex-strict-")  # in the list of key exchanges, but none
_KEX_FIRST = ("mlkem768x25519-sha256", "curve25519-sha256@libssh.org")
_CIPHERS_FIRST = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")

_PREFACE = "Banner: "  # paramiko's words in its log for a line before the banner
_LINES_SAID, _SAID = 5, 200  # of such lines, and characters of each

# Every failure is raised as one of our errors; paramiko would print tracebacks as well.
logging.getLogger("paramiko").addHandler(logging.NullHandler())
_log = logging.getLogger(__name__)
# those that sign with the key type
_ALGORITHMS = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}


class HostKeyCheck(paramiko.MissingHostKeyPolicy):
    """Accepts or refuses the host key of one endpoint, and records in `notes` a key it
    added.
    """

    def __init__(self, host_name: str, endpoint: Endpoint) -> None:
        self.notes: list[str] = []
        self.host_name = host_name
        self._endpoint = endpoint
        self._files = (*endpoint.user_known_hosts, *endpoint.global_known_hosts)
        self._entries = known_hosts.find_entries(self._files, endpoint.host_key_name)
        bare = endpoint.address.lower()
        # As OpenSSH does: a host known without its port is known, but never refused for
        # it. Not so an alias.
        has_port = endpoint.host_key_name == f"[{bare}]:{endpoint.port}"
        self._bare = known_hosts.find_entries(self._files, bare) if has_port else []

    def order_algorithms(self, ours: Sequence[str]) -> tuple[str, ...]:
        """Order our host key algorithms so that the server shows a key of a known type,
        if it has one.
        """
        entries = _ordinary_keys(self._entries) or _ordinary_keys(self._bare)
        first = [
            name for e in entries for name in _ALGORITHMS.get(e.key_type, (e.key_type,))
        ]
        return _sort_preferred_first(first, ours)

    def missing_host_key(
        self,
        client: paramiko.SSHClient,  # noqa: ARG002  paramiko's signature
        hostname: str,  # noqa: ARG002
        key: paramiko.PKey,
    ) -> None:
        """Accept the key that the server has proved to own, or raise HostKeyError.
        paramiko calls this.
        """
        blob, key_type = key.asbytes(), key.get_name()
        revoked = [
            e
            for e in (*self._entries, *self._bare)
            if e.marker == "@revoked" and e.blob == blob
        ]
        if revoked:
            raise HostKeyError(
                f"{self._describe_shown_key(key_type, blob)}, which {revoked[0].place}"
                " marks as revoked. Do not connect; ask whoever runs the host."
            )
        for entry in _ordinary_keys((*self._entries, *self._bare)):
            if entry.blob == blob:
                _log.info(
                    "%s: host key %s is known: %s",
                    self.host_name,
                    fingerprint(blob),
                    entry.place,
                )
                return
        if known_entries := _ordinary_keys(self._entries):
            raise HostKeyError(self._changed_key_message(known_entries, key_type, blob))
        if self._endpoint.host_key is HostKeyPolicy.STRICT:
            raise HostKeyError(self._unknown_key_message(key_type, blob))
        self._accept(key_type, blob)

    def _accept(self, key_type: str, blob: bytes) -> None:
        name, message = (
            self._endpoint.host_key_name,
            self._describe_shown_key(key_type, blob),
        )
        if not self._endpoint.user_known_hosts:
            raise HostKeyError(
                f"{message}, and there is no file to keep it in: ssh_config sets"
                " UserKnownHostsFile to none."
            )
        file = self._endpoint.user_known_hosts[0]
        try:
            known_hosts.append_key(file, name, key_type, blob)
        except OSError as error:
            why = (
                f"{file} cannot be written to remember it: {error}. Set"
                " UserKnownHostsFile in ssh_config."
            )
            raise HostKeyError(f"{message}, and {why}") from error
        self.notes.append(
            f"new host key of {name} accepted into {file}: {key_type}"
            f" {fingerprint(blob)}"
        )

    def _describe_shown_key(self, key_type: str, blob: bytes) -> str:
        end = self._endpoint
        return (
            f"{self.host_name}: {end.address} port {end.port} showed the {key_type} key"
            f" {fingerprint(blob)}"
        )

    def _unknown_key_message(self, key_type: str, blob: bytes) -> str:
        end = self._endpoint
        file = (
            end.user_known_hosts[0]
            if end.user_known_hosts
            else str(Path.home() / ".ssh/known_hosts")
        )
        kind = {"ssh-rsa": "rsa", "ssh-ed25519": "ed25519"}.get(key_type, "ecdsa")
        scan = f"ssh-keyscan -p {end.port} -t {kind} {shlex.quote(end.address)}"
        authority = any(entry.marker == "@cert-authority" for entry in self._entries)
        looked_in = ", ".join(self._files) or "none"
        if authority:
            looked_in += "; a @cert-authority line there needs `via: openssh`"
        return (
            f"{self._describe_shown_key(key_type, blob)}, which no known_hosts file"
            f" lists as {end.host_key_name} (looked in {looked_in})."
            f" Compare it with what `ssh-keygen -lf` says on the host, then run `{scan}"
            f" >> {shlex.quote(file)}`; or set `host_key: accept-new` for this host in"
            " the inventory."
        )

    def _changed_key_message(
        self, known_entries: Sequence[Entry], key_type: str, blob: bytes
    ) -> str:
        name = self._endpoint.host_key_name
        listed = ", ".join(
            f"{e.key_type} {fingerprint(e.blob)} ({e.place})" for e in known_entries
        )
        file = known_entries[0].place.rpartition(":")[0]
        return (
            f"{self._describe_shown_key(key_type, blob)}, but the known one is"
            f" {listed}. Either the host was installed anew or somebody is in between,"
            " so nothing was sent. If you know that the new key is right, run"
            f" `ssh-keygen -R {shlex.quote(name)} -f {shlex.quote(file)}` and connect"
            " again."
        )


def _ordinary_keys(entries: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in entries if not entry.marker]


def dial(host: Host, timeout_s: float) -> tuple[fabric.Connection, tuple[str, ...]]:
    """Open a session with `host`, each step within `timeout_s`; return it and notes for
    the user.

    Its `gateway` is the session with the jump host. Raises UnreachableError,
    HostKeyError or AuthError.
    """
    endpoints = resolve_route(host)
    notes = [note for endpoint in endpoints for note in endpoint.notes]
    link: fabric.Connection | None = None
    try:
        for endpoint in endpoints:
            link = _open_session(host.name, endpoint, link, timeout_s, notes)
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
    notes: list[str],
) -> fabric.Connection:
    way = (
        f"the jump host {gateway.host}"
        if gateway is not None
        else endpoint.proxy_command
    )
    where = f"{endpoint.address} port {endpoint.port} as {endpoint.user}"
    _log.info(
        "%s: connecting to %s%s", host_name, where, f" through {way}" if way else ""
    )
    check = HostKeyCheck(host_name, endpoint)
    limits = ("timeout", "banner_timeout", "auth_timeout", "channel_timeout")
    connect_kwargs = {
        "auth_strategy": Identities(host_name, endpoint),
        "transport_factory": partial(_make_transport, check, timeout_s),
        **dict.fromkeys(limits, timeout_s),
    }
    if gateway is None and endpoint.proxy_command:
        connect_kwargs["sock"] = open_proxy(host_name, endpoint.proxy_command)
    elif gateway is None:
        connect_kwargs["sock"] = open_tcp(
            host_name, endpoint, endpoint.connect_timeout_s or timeout_s
        )
    link = fabric.Connection(
        host=endpoint.address,
        user=endpoint.user,
        port=endpoint.port,
        gateway=gateway if gateway is not None else False,
        config=fabric.Config(
            lazy=True, ssh_config=paramiko.SSHConfig()
        ),  # threads cannot share one
        connect_kwargs=connect_kwargs,
        forward_agent=False,
    )
    link.client.set_missing_host_key_policy(check)
    try:
        with _handshakes:
            link.open()
    except (SSHException, SilentError, EOFError, OSError) as error:
        message = _failure_message(host_name, endpoint, link, timeout_s, error)
        passing = _closed_early(link, error)
        link.client.close()
        raise UnreachableError(message, passing=passing) from error
    except BaseException:
        link.client.close()
        raise
    _log.info(
        "%s: logged in to %s, %s", host_name, where, link.transport.remote_version
    )
    link.transport.set_keepalive(KEEPALIVE_S)
    # paramiko's 0.1 costs 19 ms of CPU a host and minute
    link.transport.sock.settimeout(1.0)
    notes.extend(check.notes)
    return link


class _Transport(paramiko.Transport):
    """A Transport that keeps what the server sends, for messages."""

    # algorithms of the key exchange
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
        return super().is_active() and self in _active_threads and not self._cannot_send

    def _send_message(self, data: paramiko.Message) -> None:
        try:
            super()._send_message(data)  # type: ignore[misc]
        except EOFError:
            self._cannot_send = True
            raise

    def _log(self, level: int, message: Any, *arguments: Any) -> None:
        super()._log(level, message, *arguments)  # type: ignore[misc]
        if isinstance(message, str) and message.startswith(_PREFACE):
            self.preface = (*self.preface, message.removeprefix(_PREFACE)[:_SAID])[
                :_LINES_SAID
            ]

    def _really_parse_kex_init(
        self, *arguments: Any, **options: Any
    ) -> dict[str, list[str]]:
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
        message.get_int()
        self.goodbye = message.get_text()[:200]

    def _parse_debug(self, _message: paramiko.Message) -> None:
        """Skip sshd's debug messages; paramiko would format them for a log that nobody
        reads.
        """


def _make_transport(
    check: HostKeyCheck, timeout_s: float, sock: socket.socket, **options: object
) -> paramiko.Transport:
    transport = _Transport(sock, **options)  # type: ignore[arg-type]
    transport.set_log_channel(f"paramiko.{check.host_name}")
    transport.handshake_timeout = timeout_s
    allowed = transport.get_security_options()
    # paramiko lists the AES-GCM ciphers last, though they cost it less than half of
    # what CTR does.
    allowed.ciphers = _sort_preferred_first(_CIPHERS_FIRST, allowed.ciphers)
    allowed.kex = _sort_preferred_first(_KEX_FIRST, allowed.kex)
    allowed.key_types = check.order_algorithms(allowed.key_types)
    return transport


def _sort_preferred_first(
    preferred: Collection[str], offered: Sequence[str]
) -> tuple[str, ...]:
    return tuple(sorted(offered, key=lambda name: name not in preferred))


def _closed_early(link: fabric.Connection, error: Exception) -> bool:
    """Report whether the host closed the connection before the key exchange, as with
    MaxStartups.
    """
    transport = link.client.get_transport()
    if transport is None or transport.initial_kex_done or transport.is_active():
        return False
    timed_out = isinstance(error, TimeoutError) or isinstance(
        error.__cause__, TimeoutError
    )
    return (
        not timed_out
        and not isinstance(error, IncompatiblePeer)
        and "Indecipherable" not in str(error)
    )


def _failure_message(
    host_name: str,
    endpoint: Endpoint,
    link: fabric.Connection,
    timeout_s: float,
    error: Exception,
) -> str:
    if isinstance(error, ChannelException):
        return (
            f"{host_name}: jump host {link.gateway.host} cannot reach"
            f" {endpoint.address} port {endpoint.port}:"
            f" {error.text or 'no reason given'}. Does its sshd allow TCP forwarding?"
        )
    where = f"{host_name}: {endpoint.address} port {endpoint.port}"
    transport = link.client.get_transport()
    if isinstance(error, IncompatiblePeer) and isinstance(transport, _Transport):
        return f"{where}: {_no_common_algorithm_message(transport, str(error))}"
    if transport is None:
        reason = _describe_reason(error)
        return (
            f"{where}: the jump host {link.gateway.host} did not forward the"
            f" connection: {reason}."
        )
    quote = _quote_server_text(transport)
    silent = transport.is_active() or isinstance(error.__cause__, TimeoutError)
    how = f"did not go on within {timeout_s:g} s"
    if not silent:
        how = f"ended the connection ({_describe_reason(error)})"
    if not transport.remote_version:
        if isinstance(transport.sock, ProxySocket):
            transport.sock.close()
            printed = transport.sock.printed
            return (
                f"{where}: the ProxyCommand of ssh_config gave no SSH banner:"
                f" {endpoint.proxy_command!r}{': ' if printed else '.'}{printed}"
            )
        return (
            _no_banner_message(where, timeout_s, "" if silent else str(error)) + quote
        )
    step, quote = (
        ("authentication", quote)
        if transport.initial_kex_done
        else ("the key exchange", "")
    )
    return (
        f"{where} {how} during {step}. Try again; if it stays so, look at the host's"
        f" sshd log.{quote}"
    )


def _quote_server_text(transport: paramiko.Transport) -> str:
    """Quote what the server printed before its SSH banner or at login; "" if it printed
    nothing.
    """
    login = (transport.get_banner() or b"").decode("utf-8", "replace").splitlines()
    lines = [
        line[:_SAID]
        for line in (*getattr(transport, "preface", ()), *login)
        if line.strip()
    ]
    return f" The server says: {'; '.join(lines[:_LINES_SAID])!r}." if lines else ""


def _no_banner_message(where: str, timeout_s: float, text: str) -> str:
    if "Indecipherable" in text:
        return (
            f"{where} does not speak SSH: {text!r}. Is this the port of another"
            " service?"
        )
    if not text or text.endswith("banner"):  # paramiko has no text for the reason
        return (
            f"{where} accepted the connection but gave no SSH banner within"
            f" {timeout_s:g} s, or closed it. Is it an sshd, and is it overloaded"
            " (MaxStartups) or refusing us for now (PerSourcePenalties)?"
        )
    return f"{where} gave no SSH banner ({text}). Is it an sshd?"


# what paramiko calls it in its error; what we call it; the server's list; our list
_KINDS = (
    ("kex", "key exchange algorithm", "kex_algo_list", "kex"),
    ("host key", "host key algorithm", "server_key_algo_list", "key_types"),
    ("ciphers", "cipher", "server_encrypt_algo_list", "ciphers"),
    ("macs", "MAC", "server_mac_algo_list", "digests"),
    ("compression", "compression", "server_compress_algo_list", "compression"),
)
_SHA1_ONLY = {"ssh-rsa", "ssh-dss"}


def _no_common_algorithm_message(transport: _Transport, error: str) -> str:
    """Return a message that names both sides' algorithms, and a remedy that keeps the
    sshd.
    """
    if not transport.offered:
        return (
            f"the server ({transport.remote_version}) does not speak version 2 of SSH."
        )
    _, kind, theirs, ours = next(row for row in _KINDS if row[0] in error)
    offered = [
        name for name in transport.offered.get(theirs, ()) if not _SIGNAL.match(name)
    ]
    can = getattr(transport.get_security_options(), ours)
    sha1 = kind.startswith("host key") and set(offered) <= _SHA1_ONLY
    return (
        f"the server ({transport.remote_version}) and fleet's own SSH share no {kind}."
        f" The server offers {', '.join(offered) or 'none'}; we offer"
        f" {', '.join(can)}. "
        + (
            "These sign with SHA-1, which is broken: give the host an ed25519 key"
            " (`ssh-keygen -A` there), or set "
            if sha1
            else "Allow one of ours in the host's sshd_config, or set "
        )
        + "`via: openssh` for this host in the inventory: fleet then connects with your"
        " own ssh program, its algorithms and its configuration."
    )


def _describe_reason(error: Exception) -> str:
    cause = error.__cause__ or error
    return (
        "end of file"
        if isinstance(cause, EOFError)
        else str(cause) or type(cause).__name__
    )


DEAD_PEER_S = 15  # sent data unacknowledged for so long means that the peer is gone
_SHOWN = 500  # characters of what a ProxyCommand printed
_READ_AHEAD_BYTES = 16 << 10
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
