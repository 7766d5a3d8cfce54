"""Says why a session with an SSH server could not be opened, and what to do about
it.
"""

import re

import fabric
import paramiko
from paramiko.ssh_exception import ChannelException, IncompatiblePeer

from fleet.remote.ssh.route import Endpoint
from fleet.remote.ssh.sockets import ProxySocket
from fleet.remote.ssh.transport import LINE_SHOWN, LINES_SHOWN, Transport

# what paramiko calls it in its error; what we call it; the server's list; our list
_KINDS = (
    ("kex", "key exchange algorithm", "kex_algo_list", "kex"),
    ("host key", "host key algorithm", "server_key_algo_list", "key_types"),
    ("ciphers", "cipher", "server_encrypt_algo_list", "ciphers"),
    ("macs", "MAC", "server_mac_algo_list", "digests"),
    ("compression", "compression", "server_compress_algo_list", "compression"),
)
_SHA1_ONLY = {"ssh-rsa", "ssh-dss"}
# in a list of key exchanges, but none
_SIGNAL = re.compile(r"ext-info-|kex-strict-")


def has_closed_early(link: fabric.Connection, error: Exception) -> bool:
    """Report whether the host closed the connection before the key exchange, as with
    MaxStartups.
    """
    transport = link.client.get_transport()
    if transport is None or transport.initial_kex_done or transport.is_active():
        return False
    is_timeout = isinstance(error, TimeoutError)
    is_timeout |= isinstance(error.__cause__, TimeoutError)
    is_incompatible = isinstance(error, IncompatiblePeer)
    is_other_service = "Indecipherable" in str(error)
    return not (is_timeout or is_incompatible or is_other_service)


def describe_failure(
    host_name: str,
    endpoint: Endpoint,
    link: fabric.Connection,
    timeout_s: float,
    error: Exception,
) -> str:
    """Return the message for a session that could not be opened. error: what opening
    `link` raised.
    """
    if isinstance(error, ChannelException):
        return (
            f"{host_name}: jump host {link.gateway.host} cannot reach"
            f" {endpoint.address} port {endpoint.port}:"
            f" {error.text or 'no reason given'}. Does its sshd allow TCP forwarding?"
        )
    where = f"{host_name}: {endpoint.address} port {endpoint.port}"
    transport = link.client.get_transport()
    if isinstance(error, IncompatiblePeer) and isinstance(transport, Transport):
        return f"{where}: {_no_common_algorithm_message(transport, str(error))}"
    if transport is None:
        return (
            f"{where}: the jump host {link.gateway.host} did not forward the"
            f" connection: {_describe_reason(error)}."
        )
    if not transport.remote_version and isinstance(transport.sock, ProxySocket):
        return f"{where}: {_silent_proxy_message(endpoint, transport.sock)}"
    is_silent = transport.is_active() or isinstance(error.__cause__, TimeoutError)
    if not transport.remote_version:
        reason = "" if is_silent else str(error)
        quote = _quote_server_text(transport)
        return _no_banner_message(where, timeout_s, reason) + quote
    how = f"did not go on within {timeout_s:g} s"
    if not is_silent:
        how = f"ended the connection ({_describe_reason(error)})"
    step = "the key exchange"
    quote = ""
    if transport.initial_kex_done:
        step = "authentication"
        quote = _quote_server_text(transport)
    return (
        f"{where} {how} during {step}. Try again; if it stays so, look at the host's"
        f" sshd log.{quote}"
    )


def _silent_proxy_message(endpoint: Endpoint, proxy: ProxySocket) -> str:
    proxy.close()  # then it has what the command printed
    message = (
        f"the ProxyCommand of ssh_config gave no SSH banner: {endpoint.proxy_command!r}"
    )
    return f"{message}: {proxy.printed}" if proxy.printed else f"{message}."


def _quote_server_text(transport: paramiko.Transport) -> str:
    """Quote what the server printed before its SSH banner or at login; "" if it printed
    nothing.
    """
    preface = getattr(transport, "preface", ())
    login_banner = transport.get_banner() or b""
    text = [*preface, *login_banner.decode("utf-8", "replace").splitlines()]
    lines = [line[:LINE_SHOWN] for line in text if line.strip()]
    if not lines:
        return ""
    return f" The server says: {'; '.join(lines[:LINES_SHOWN])!r}."


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


def _no_common_algorithm_message(transport: Transport, error: str) -> str:
    """Return a message that names both sides' algorithms, and a remedy that keeps the
    sshd.
    """
    server = f"the server ({transport.remote_version})"
    if not transport.offered:
        return f"{server} does not speak version 2 of SSH."
    _, kind, theirs, ours = next(row for row in _KINDS if row[0] in error)
    offered = [
        name for name in transport.offered.get(theirs, ()) if not _SIGNAL.match(name)
    ]
    supported = getattr(transport.get_security_options(), ours)
    remedy = "Allow one of ours in the host's sshd_config"
    if kind == "host key algorithm" and set(offered) <= _SHA1_ONLY:
        remedy = (
            "These sign with SHA-1, which is broken: give the host an ed25519 key"
            " (`ssh-keygen -A` there)"
        )
    return (
        f"{server} and fleet's own SSH share no {kind}."
        f" The server offers {', '.join(offered) or 'none'}; we offer"
        f" {', '.join(supported)}. {remedy}, or set"
        " `via: openssh` for this host in the inventory: fleet then connects with your"
        " own ssh program, its algorithms and its configuration."
    )


def _describe_reason(error: Exception) -> str:
    cause = error.__cause__ or error
    if isinstance(cause, EOFError):
        return "end of file"
    return str(cause) or type(cause).__name__
