"""Authenticates with public keys only: chooses which to offer, in which order; for
`dial`.
"""

import base64
import binascii
import contextlib
import copy
import logging
import os
import shlex
import socket
import stat
import struct
from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import paramiko
from paramiko.agent import AgentKey, AgentSSH
from paramiko.auth_strategy import AuthResult, AuthStrategy, InMemoryPrivateKey
from paramiko.ssh_exception import (
    AuthenticationException,
    BadAuthenticationType,
    SSHException,
)

from fleet.errors import AuthError
from fleet.late import once
from fleet.remote.ssh.certificates import describe_certificate, read_certificate
from fleet.remote.ssh.known_hosts import fingerprint
from fleet.remote.ssh.route import Endpoint

_log = logging.getLogger(__name__)
_MAGIC = b"openssh-key-v1\0"
_MODE_OF_OTHERS = 0o077
_FIDO = "sk-"  # how the types of keys begin whose private half is in a token
_KEY_LIMIT_BYTES = 1 << 20
# methods other than keys for which ssh asks nobody
_METHODS_OF_OPENSSH = {"gssapi-with-mic", "gssapi-keyex", "hostbased"}
_AGENT_ANSWERS_S = 5.0
_AGENT_SIGNS_S = 60.0  # the user may have to touch a token or to confirm


class SilentError(Exception):
    """The sshd did not answer a key in time, or the link broke meanwhile."""


class Identity(InMemoryPrivateKey):
    """A key that can sign, and its name in messages."""

    def __init__(self, user: str, key: paramiko.PKey, shown: str) -> None:
        super().__init__(user, key)
        self.display_name = shown

    def get_offered_blob(self) -> bytes:
        """Return the public half or the certificate that the server is shown."""
        certificate = self.pkey.public_blob
        return self.pkey.asbytes() if certificate is None else certificate.key_blob


class _AgentKey(AgentKey):
    """A key in ssh-agent. Where the agent does not sign, paramiko's own raises an error
    that ends the connection; this one gives a signature that every server refuses, so
    that other keys can follow.
    """

    def __init__(self, agent: AgentSSH, blob: bytes, comment: str = "") -> None:
        super().__init__(agent, blob, comment)
        self.reason = ""

    def sign_ssh_data(self, data: Any, algorithm: str | None = None) -> Any:
        """Return the agent's signature. If the agent did not sign, return an empty one
        and set `reason`.
        """
        try:
            return super().sign_ssh_data(data, algorithm)
        except (SSHException, OSError):
            self.reason = "ssh-agent did not sign with it"
            if self.name.startswith(_FIDO):
                self.reason += "; is its FIDO token there, and was it touched?"
            return b""


class _SshAgent(AgentSSH):
    """The ssh-agent at the socket `path`, which must answer in time; paramiko's class
    would wait for ever.
    """

    def __init__(self, path: str) -> None:
        """Connect. Raises TimeoutError if the agent does not answer, OSError or
        SSHException if there is no agent.
        """
        super().__init__()
        link = socket.socket(socket.AF_UNIX)
        link.settimeout(_AGENT_ANSWERS_S)
        try:
            link.connect(path)
            self._connect(link)  # type: ignore[attr-defined]  # not in the stubs
        except BaseException:
            link.close()
            raise
        # from now on the agent is asked to sign, for which the user may be needed
        link.settimeout(_AGENT_SIGNS_S)

    def close(self) -> None:
        """Close the connection to the agent."""
        self._close()  # type: ignore[attr-defined]  # not in the stubs


class Identities(AuthStrategy):
    """Offers every allowed key once, in order, and stops at the first conclusive
    answer.
    """

    def __init__(self, host_name: str, endpoint: Endpoint) -> None:
        # an empty configuration: `endpoint` already has what ssh_config says
        super().__init__(ssh_config=paramiko.SSHConfig())
        self._host_name = host_name
        self._endpoint = endpoint
        self._where = f"{host_name}: {endpoint.address} port {endpoint.port}"
        self._unusable: list[str] = []  # "KEY: why it cannot be used", for messages
        self._agent: _SshAgent | None = None  # None until it is asked for its keys

    def authenticate(self, transport: paramiko.Transport) -> AuthResult:
        """Offer each key until the server accepts one. If it accepts none, ask without
        a key, which may let us in, and tells which methods the server takes. To ask
        this first, as ssh does, would cost time. Raises AuthError or SilentError.
        """
        tried: list[str] = []
        other_methods: Sequence[str] = ()
        with contextlib.closing(self.get_sources()) as sources:
            for source in sources:
                tried.append(source.display_name)
                try:
                    is_accepted = self._offer(transport, source, tried)
                except BadAuthenticationType as error:
                    other_methods = error.allowed_types  # keys are not among them
                    break
                answer = "accepted" if is_accepted else "refused"
                self._log_step(f"key {source.display_name} {answer}")
                if is_accepted:
                    return AuthResult(self)
        # the server may let us in without a key, even if it refused keys
        methods = self._ask_without_key(transport, first=not tried)
        was_let_in = not methods
        if was_let_in:
            return AuthResult(self)
        if other_methods:
            raise AuthError(self._no_keys_taken_message(other_methods))
        if "publickey" not in methods:
            raise AuthError(self._no_keys_taken_message(methods))
        raise AuthError(self._refused_message(tried))

    def _log_step(self, text: str) -> None:
        _log.info("%s: %s", self._host_name, text)

    def _ask_without_key(
        self, transport: paramiko.Transport, *, first: bool
    ) -> Sequence[str]:
        """Ask without a key; return the methods that the server would take, such as
        "publickey". If the server let us in, return no methods. first: whether no key
        was offered before. If the server does not answer then, it has said nothing at
        all: SilentError is raised.
        """
        try:
            return transport.auth_none(self._endpoint.user)
        except BadAuthenticationType as error:
            return error.allowed_types
        except (SSHException, EOFError, OSError) as error:
            if first and _is_unanswered(transport, error):
                raise SilentError from error
            # The server refused us or, after keys were offered, fell silent: as if it
            # took keys, so that the error says that ours were refused.
            return ["publickey"]

    def get_sources(self) -> Generator[Identity, None, None]:
        """Yield the keys to offer, in order, each once. ssh-agent is connected when its
        keys are needed. The connection stays until all keys were offered, as ssh-agent
        has to sign.
        """
        yielded: set[bytes] = set()
        try:
            for identity in self._allowed_identities():
                blob = identity.get_offered_blob()
                if blob not in yielded:
                    yielded.add(blob)
                    yield identity
        finally:
            if self._agent is not None:
                self._agent.close()

    def _offer(
        self, transport: paramiko.Transport, identity: Identity, tried: list[str]
    ) -> bool:
        """Offer a key. Return True if the server accepts the key, False if the next key
        is to be offered.

        tried: the names of the keys offered so far, with this one. Raises
        BadAuthenticationType if the server takes no keys, AuthError if it refuses us
        for good, SilentError if the link fails.
        """
        try:
            further_methods = identity.authenticate(transport)
        except BadAuthenticationType:  # which is an AuthenticationException
            raise
        except AuthenticationException as error:
            if _is_timeout(error):
                raise SilentError from error
            if not transport.is_active():
                raise self._make_closed_error(transport, tried) from error
            self._note_missing_signature(identity)
            return False
        except (SSHException, EOFError, OSError) as error:
            # with a text the key failed, for instance an agent refused to sign;
            # without, the link did
            has_key_failed = isinstance(error, SSHException) and str(error) != ""
            if not has_key_failed or not transport.is_active():
                raise SilentError from error
            self._unusable.append(f"{identity.display_name}: {error}")
            return False
        if further_methods:
            raise AuthError(
                f"{self._where} accepted {identity.display_name} but wants"
                f" {', '.join(further_methods)} as well, which fleet cannot give."
                " Exempt this key in the host's sshd_config (AuthenticationMethods)."
            )
        return True

    def _make_closed_error(
        self, transport: paramiko.Transport, tried: list[str]
    ) -> Exception:
        """Return the error of a session that ended when a key was refused. A server
        ends it after too many keys, or with last words. If it ends after the first key
        without last words, the link broke.
        """
        last_words = getattr(transport, "goodbye", "")
        is_link_broken = len(tried) == 1 and not last_words
        if is_link_broken:
            return SilentError()
        return AuthError(self._closed_message(tried, last_words))

    def _note_missing_signature(self, identity: Identity) -> None:
        """Note a refused key of ssh-agent as unusable if the agent did not sign."""
        key = identity.pkey
        if isinstance(key, _AgentKey) and key.reason:
            self._unusable.append(f"{identity.display_name}: {key.reason}")

    def _allowed_identities(self) -> Iterator[Identity]:
        """Yield the certificates that ssh_config names, then the inventory's keys, then
        the keys that ssh would offer, in ssh's order: the keys in ssh-agent, then those
        of ssh_config's files. If only keys of listed files may be offered, ssh-agent's
        other keys are left out.
        """
        endpoint = self._endpoint
        for path in endpoint.certificate_files:
            yield from self._certified_identities(path)
        yield from self._file_identities(endpoint.inventory_files, report_missing=True)
        if not endpoint.only_listed_identities:
            yield from self._agent_identities(endpoint.identity_files)
        # ssh's default files need not be there; those that a user lists should be
        yield from self._file_identities(
            endpoint.identity_files, report_missing=endpoint.only_listed_identities
        )

    def _file_identities(
        self, paths: Sequence[str], *, report_missing: bool
    ) -> Iterator[Identity]:
        """Yield the key of each file. If the file cannot be loaded, as without its
        passphrase, yield the key in ssh-agent with the same public half. If there is no
        such key either, record the file as unusable. report_missing: whether to record
        files that do not exist, too.
        """
        for path in paths:
            key_or_reason = _load_key_or_reason(path)
            if isinstance(key_or_reason, paramiko.PKey):
                yield from self._identities_of_key(key_or_reason, path)
                continue
            blob = _public_blob(path)
            if blob is not None and blob in self._agent_keys:
                yield self._agent_identity(blob, path)
            elif report_missing or Path(path).exists():
                self._unusable.append(f"{path}: {key_or_reason}")
                self._log_step(f"key {path} left out: {key_or_reason}")

    def _identities_of_key(self, key: paramiko.PKey, path: str) -> Iterator[Identity]:
        """Yield a file's key with the certificate in PATH-cert.pub, if that file
        exists, then without a certificate.
        """
        user = self._endpoint.user
        description = f"{path} ({fingerprint(key.asbytes())})"
        if key.public_blob is not None:  # paramiko has loaded the certificate
            line = _read_text(f"{path}-cert.pub")
            yield Identity(user, key, f"{path} ({describe_certificate(line)})")
            key = _copy_key(key)
            key.public_blob = None
        yield Identity(user, key, description)

    def _certified_identities(self, path: str) -> Iterator[Identity]:
        """Yield the key that a certificate is for, with the certificate. Record the
        file as unusable if it has no certificate, or if the certificate's key is not
        found.
        """
        certificate = read_certificate(path)
        if isinstance(certificate, str):
            self._unusable.append(f"{path}: {certificate}")
            return
        key = self._find_private_key(certificate.key_blob)
        if key is None:
            self._unusable.append(
                f"{path}: neither a key file nor ssh-agent has its key"
            )
            return
        key = _copy_key(key)
        key.load_certificate(certificate.line)
        description = f"{path} ({describe_certificate(certificate.line)})"
        yield Identity(self._endpoint.user, key, description)

    def _find_private_key(self, blob: bytes) -> paramiko.PKey | None:
        """Return the key with this public half, from a key file or ssh-agent; None if
        neither has it.
        """
        endpoint = self._endpoint
        for path in (*endpoint.inventory_files, *endpoint.identity_files):
            if _public_blob(path) == blob:
                key_or_reason = _load_key_or_reason(path)
                if isinstance(key_or_reason, paramiko.PKey):
                    return key_or_reason
        return self._agent_keys.get(blob)

    def _agent_identities(self, paths: Sequence[str]) -> Iterator[Identity]:
        """Yield the keys in ssh-agent: first the keys of the files `paths`, in that
        order, then the others.
        """
        path_by_blob: dict[bytes, str] = {}
        for path in paths:
            blob = _public_blob(path)
            if blob is not None:
                path_by_blob[blob] = path
        of_files = [blob for blob in path_by_blob if blob in self._agent_keys]
        others = [blob for blob in self._agent_keys if blob not in path_by_blob]
        for blob in (*of_files, *others):
            yield self._agent_identity(blob, path_by_blob.get(blob))

    def _agent_identity(self, blob: bytes, path: str | None) -> Identity:
        """Return a key in ssh-agent. path: its file, if that is known."""
        key = self._agent_keys[blob]
        name = path or key.comment or key.get_name()
        return Identity(
            self._endpoint.user, key, f"{name} (agent, {fingerprint(blob)})"
        )

    @cached_property
    def _agent_keys(self) -> Mapping[bytes, _AgentKey]:
        """The keys in ssh-agent, by their public halves; empty if there is no ssh-agent
        or the endpoint may not use it. ssh-agent is asked on first use.
        """
        path = os.environ.get("SSH_AUTH_SOCK")
        if not path or not self._endpoint.use_agent:
            return {}
        try:
            self._agent = _SshAgent(path)
        except TimeoutError:
            self._unusable.append(
                f"ssh-agent: no answer at {path} within {_AGENT_ANSWERS_S:g} s"
            )
            self._log_step(self._unusable[-1])
        except (SSHException, OSError, struct.error) as error:
            # a dead socket is no agent
            self._log_step(f"no ssh-agent at {path}: {error}")
        if self._agent is None:
            return {}
        keys = map(_copy_agent_key, self._agent.get_keys())
        return {key.asbytes(): key for key in keys}

    def _no_keys_taken_message(self, methods: Sequence[str]) -> str:
        """Return the message for a server that takes only other methods than keys, such
        as "password".
        """
        alternative = ""
        if _METHODS_OF_OPENSSH & {*methods}:
            alternative = ", or set `via: openssh` for this host"
        return (
            f"{self._where} takes no keys, only {', '.join(methods)}; fleet offers keys"
            " only. Allow PubkeyAuthentication in the host's"
            f" sshd_config{alternative}."
        )

    def _closed_message(self, tried: Sequence[str], last_words: str) -> str:
        """Return the message for a server that had seen enough keys. tried: the names
        of the keys. last_words: what the server said at the end; "" for nothing.
        """
        quote = f": {last_words!r}" if last_words else ""
        return (
            f"{self._where} closed the connection after {len(tried)} of our keys"
            f" ({', '.join(tried)}){quote}. Name the right one with `identity_files` in"
            " the inventory, or with IdentityFile and IdentitiesOnly in ssh_config."
        )

    def _refused_message(self, tried: list[str]) -> str:
        """Return the message for a server that refused every key. tried: the names of
        the keys.
        """
        unusable = ""
        if self._unusable:
            reasons = dict.fromkeys(self._unusable)
            unusable = f" Not usable: {'; '.join(reasons)}."
        user = self._endpoint.user
        if not tried:
            return (
                f"{self._where}: no key to offer for user {user!r}.{unusable} Load one"
                " into ssh-agent (`ssh-add`), or name one with `identity_files` in the"
                " inventory."
            )
        return (
            f"{self._where} refused user {user!r} with every key we may offer:"
            f" {', '.join(tried)}.{unusable} Put the public key into"
            f" ~{user}/.ssh/authorized_keys on the host, or set `user` or"
            " `identity_files` in the inventory."
        )


def _is_timeout(error: Exception) -> bool:
    """Report whether paramiko's error says that no answer came in time."""
    return "timeout" in str(error).lower()


def _is_unanswered(transport: paramiko.Transport, error: Exception) -> bool:
    return not transport.is_active() or _is_timeout(error)


def _load_key_or_reason(path: str) -> paramiko.PKey | str:
    """Return the private key in a file, or why it cannot be used."""
    try:
        status = os.stat(path)  # noqa: PTH116 - once a host
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            return "no such file"
        return error.strerror or str(error)
    if not stat.S_ISREG(status.st_mode):
        return "is not a file"
    if status.st_size > _KEY_LIMIT_BYTES:
        return "is too large for a key"
    # ssh's own rule: only the user's own files must be private
    is_own = status.st_uid == os.getuid()
    is_shared = is_own and status.st_mode & _MODE_OF_OTHERS
    if is_shared and not _is_public_key(path):
        return (
            f"other users may read it (mode {stat.S_IMODE(status.st_mode):04o}), so"
            f" neither ssh nor fleet uses it; run `chmod 600 {shlex.quote(path)}`"
        )
    return _parse_key_or_reason(path, status.st_mtime_ns, status.st_size)


@once
def _parse_key_or_reason(
    path: str, _written_ns: int, _size: int
) -> paramiko.PKey | str:
    """Return the private key in a file, or why it cannot be used. One key opens many
    hosts, so the file is parsed once. Its time and size, of which the cache's key is
    made, make it parsed again if it changed.
    """
    try:
        return paramiko.PKey.from_path(path)
    except TypeError:  # cryptography's word for a missing passphrase
        return f"has a passphrase; run `ssh-add {path}` first"
    except Exception as error:  # from_path lets out whatever its libraries raise
        return _describe_unusable_key(path, error)


def _describe_unusable_key(path: str, error: Exception) -> str:
    """Say why a key file cannot be used. error: what paramiko raised for it."""
    text = str(error)
    if "ncrypted" in text:  # "Encrypted" or "encrypted"
        return "has a passphrase"
    if _is_public_key(path):
        return "is a public key; name the private one"
    if "PEM" in text:
        return "holds no private key"
    if _is_fido_key(path):
        return (
            "is a key of a FIDO token; load it into ssh-agent, or set `via: openssh`"
            " for this host"
        )
    return text or type(error).__name__


def _copy_agent_key(key: AgentKey) -> _AgentKey:
    return _AgentKey(key.agent, key.blob, key.comment)


def _copy_key(key: paramiko.PKey) -> paramiko.PKey:
    """Return a copy that may get a certificate of its own."""
    if isinstance(key, AgentKey):  # which copy.copy cannot copy
        return _copy_agent_key(key)
    return copy.copy(key)


def _read_text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


def _is_public_key(path: str) -> bool:
    try:
        return Path(path).read_bytes().startswith((b"ssh-", b"ecdsa-", b"sk-"))
    except OSError:
        return False


def _is_fido_key(path: str) -> bool:
    blob = _public_blob(path)
    return blob is not None and paramiko.Message(blob).get_text().startswith(_FIDO)


def _is_key_sized(path: Path) -> bool:
    """Report whether this is a file that may be read whole: a FIFO would block."""
    return path.is_file() and path.stat().st_size <= _KEY_LIMIT_BYTES


def _public_blob(path: str) -> bytes | None:
    """Return a key file's public half, for which no passphrase is needed: from PATH.pub
    if that file exists, else from the key file itself. None if the public half cannot
    be read from there.
    """
    try:
        public = Path(f"{path}.pub")
        if _is_key_sized(public):
            return base64.b64decode(public.read_text().split()[1])
        if not _is_key_sized(Path(path)):
            return None
        return _parse_public_half(Path(path).read_text())
    except (OSError, ValueError, IndexError, binascii.Error):
        return None


def _parse_public_half(text: str) -> bytes | None:
    """Return the public half of a key in OpenSSH's own format (PROTOCOL.key), where it
    is not encrypted; None if the text is in another format or has several keys. Raises
    ValueError.
    """
    lines = [line for line in text.splitlines() if not line.startswith("-----")]
    message = paramiko.Message(base64.b64decode("".join(lines)))
    if message.get_bytes(len(_MAGIC)) != _MAGIC:
        return None
    _cipher = message.get_string()
    _key_derivation = message.get_string()
    _its_options = message.get_string()
    key_count = message.get_int()
    if key_count != 1:
        return None
    return message.get_string()
