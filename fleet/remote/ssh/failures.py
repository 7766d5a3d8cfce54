"""Says why a session with an SSH server could not be opened, and what to do about
it.
"""

import re
from typing import NamedTuple

import fabric
import paramiko
from paramiko.ssh_exception import ChannelException, IncompatiblePeer

from fleet.remote.ssh.route import Endpoint
from fleet.remote.ssh.sockets import ProxySocket
from fleet.remote.ssh.transport import LINE_SHOWN, LINES_SHOWN, Transport


class _AlgorithmKind(NamedTuple):
    """A kind of algorithm that two sides of SSH have to agree on."""

    word_in_error: str  # paramiko's
    name: str  # ours, for messages
    offer_key: str  # of the server's list in `Transport.offered`
    option: str  # paramiko's security option with our list


_ALGORITHM_KINDS = (
    _AlgorithmKind("kex", "key exchange algorithm", "kex_algo_list", "kex"),
    _AlgorithmKind(
        "host key", "host key algorithm", "server_key_algo_list", "key_types"
    ),
    _AlgorithmKind("ciphers", "cipher", "server_encrypt_algo_list", "ciphers"),
    _AlgorithmKind("macs", "MAC", "server_mac_algo_list", "digests"),
    _AlgorithmKind(
        "compression", "compression", "server_compress_algo_list", "compression"
    ),
)
_SHA1_ONLY = {"ssh-rsa", "ssh-dss"}
# words in a list of key exchanges that signal something else
_NO_ALGORITHM = re.compile(r"ext-info-|kex-strict-")
_NO_SSH = "Indecipherable"  # paramiko's word for a line that is no SSH banner


def has_closed_early(link: fabric.Connection, error: Exception) -> bool:
    """Report whether the host closed the connection before the key exchange was done,
    although it speaks an SSH that we speak. An sshd does so if more connections than
    its MaxStartups are not yet logged in, so that a later attempt may succeed.
    """
    transport = link.client.get_transport()
    if transport is None or transport.initial_kex_done or transport.is_active():
        return False
    is_timeout = isinstance(error, TimeoutError)
    is_caused_by_timeout = isinstance(error.__cause__, TimeoutError)
    if is_timeout or is_caused_by_timeout:
        return False
    is_incompatible = isinstance(error, IncompatiblePeer)
    is_other_service = _NO_SSH in str(error)
    return not is_incompatible and not is_other_service


def describe_failure(
    host_name: str,
    endpoint: Endpoint,
    link: fabric.Connection,
    timeout_s: float,
    error: Exception,
) -> str:
    """Return the message for a session that could not be opened. error: what opening
    `link` raised. The message is about the step that failed. The steps are: the jump
    host forwards the connection, the server sends its banner, both exchange keys, we
    authenticate.
    """
    if isinstance(error, ChannelException):
        return (
            f"{host_name}: jump host {link.gateway.host} cannot reach"
            f" {endpoint.address} port {endpoint.port}:"
            f" {error.text or 'no reason given'}. Does its sshd allow TCP forwarding?"
        )
    where = f"{host_name}: {endpoint.address} port {endpoint.port}"
    transport = link.client.get_transport()
    if transport is None:
        return (
            f"{where}: the jump host {link.gateway.host} did not forward the"
            f" connection: {_describe_reason(error)}."
        )
    if isinstance(error, IncompatiblePeer) and isinstance(transport, Transport):
        return f"{where}: {_no_common_algorithm_message(transport, str(error))}"
    has_sent_banner = bool(transport.remote_version)
    if not has_sent_banner and isinstance(transport.sock, ProxySocket):
        return f"{where}: {_silent_proxy_message(endpoint, transport.sock)}"
    # The server is silent if paramiko gave up waiting, which leaves the transport
    # active, or if a socket's own timeout ended it. Otherwise the server hung up.
    has_socket_timed_out = isinstance(error.__cause__, TimeoutError)
    is_silent = transport.is_active() or has_socket_timed_out
    if not has_sent_banner:
        reason = "" if is_silent else str(error)
        quote = _quote_server_text(transport)
        return _no_banner_message(where, timeout_s, reason) + quote
    # after the banner come the key exchange and authentication
    problem = f"did not go on within {timeout_s:g} s"
    if not is_silent:
        problem = f"ended the connection ({_describe_reason(error)})"
    return _ended_handshake_message(where, problem, transport)


def _ended_handshake_message(
    where: str, problem: str, transport: paramiko.Transport
) -> str:
    """Return the message for a server that ended the session, or fell silent, after its
    banner.
    """
    step = "the key exchange"
    quote = ""
    if transport.initial_kex_done:
        step = "authentication"
        quote = _quote_server_text(transport)
    return (
        f"{where} {problem} during {step}. Try again; if it stays so, look at the"
        f" host's sshd log.{quote}"
    )


def _silent_proxy_message(endpoint: Endpoint, proxy: ProxySocket) -> str:
    """Return the message for a ProxyCommand that brought no SSH banner, with what the
    command printed.
    """
    proxy.close()  # which reads what the command printed
    message = (
        f"the ProxyCommand of ssh_config gave no SSH banner: {endpoint.proxy_command!r}"
    )
    return f"{message}: {proxy.printed}" if proxy.printed else f"{message}."


def _quote_server_text(transport: paramiko.Transport) -> str:
    """Quote what the server printed before its SSH banner or at login, in a sentence to
    be appended; "" if it printed nothing.
    """
    preface_lines = getattr(transport, "preface", ())
    login_banner = transport.get_banner() or b""
    banner_lines = login_banner.decode("utf-8", "replace").splitlines()
    lines = [line for line in (*preface_lines, *banner_lines) if line.strip()]
    if not lines:
        return ""
    text = "; ".join(line[:LINE_SHOWN] for line in lines[:LINES_SHOWN])
    return f" The server says: {text!r}."


def _no_banner_message(where: str, timeout_s: float, reason: str) -> str:
    """Return the message for a server without a banner. reason: paramiko's error; "" if
    the server was silent.
    """
    if _NO_SSH in reason:
        return (
            f"{where} does not speak SSH: {reason!r}. Is this the port of another"
            " service?"
        )
    # behind "Error reading SSH protocol banner", paramiko may name no reason
    if not reason or reason.endswith("banner"):
        return (
            f"{where} accepted the connection but gave no SSH banner within"
            f" {timeout_s:g} s, or closed it. Is it an sshd, and is it overloaded"
            " (MaxStartups) or refusing us for now (PerSourcePenalties)?"
        )
    return f"{where} gave no SSH banner ({reason}). Is it an sshd?"


def _no_common_algorithm_message(transport: Transport, error: str) -> str:
    """Return a message that names both sides' algorithms, and what to change on the
    host or in the inventory. error: paramiko's, which names the kind of algorithm, as
    in "Incompatible ssh peer (no acceptable host key)".
    """
    server = f"the server ({transport.remote_version})"
    if not transport.offered:
        return f"{server} does not speak version 2 of SSH."
    kind = next(kind for kind in _ALGORITHM_KINDS if kind.word_in_error in error)
    offered = [
        name
        for name in transport.offered.get(kind.offer_key, ())
        if not _NO_ALGORITHM.match(name)
    ]
    supported = getattr(transport.get_security_options(), kind.option)
    remedy = "Allow one of ours in the host's sshd_config"
    are_all_sha1 = set(offered) <= _SHA1_ONLY
    if kind.option == "key_types" and are_all_sha1:
        remedy = (
            "These sign with SHA-1, which is broken: give the host an ed25519 key"
            " (`ssh-keygen -A` there)"
        )
    return (
        f"{server} and fleet's own SSH share no {kind.name}."
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
