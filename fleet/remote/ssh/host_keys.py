"""Decides on the host key that a server shows, by known_hosts and the inventory's
policy.
"""

import logging
import shlex
from collections.abc import Collection, Sequence

import paramiko

from fleet.errors import HostKeyError
from fleet.home import expand_home
from fleet.model import HostKeyPolicy
from fleet.remote.ssh import known_hosts
from fleet.remote.ssh.known_hosts import Entry, fingerprint
from fleet.remote.ssh.route import Endpoint

_log = logging.getLogger(__name__)
# the algorithms of a key type; others have one, which has the type's name
_ALGORITHMS = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}
_KEYSCAN_TYPES = {"ssh-rsa": "rsa", "ssh-ed25519": "ed25519"}  # else ecdsa


class HostKeyCheck(paramiko.MissingHostKeyPolicy):
    """Accepts or refuses the host key of one endpoint, and records in `notes` a key it
    added.
    """

    def __init__(self, host_name: str, endpoint: Endpoint) -> None:
        """Look up the endpoint in the known_hosts files. host_name: the host's in the
        inventory, for messages.
        """
        self.notes: list[str] = []
        self.host_name = host_name
        self._endpoint = endpoint
        self._files = (*endpoint.user_known_hosts, *endpoint.global_known_hosts)
        self._entries = known_hosts.find_entries(self._files, endpoint.host_key_name)
        self._portless_entries = self._find_portless_entries()

    def _find_portless_entries(self) -> list[Entry]:
        """Return the entries for the endpoint's address without its port.

        As in OpenSSH, they may accept or revoke a key; another key than theirs is
        unknown, not changed. They do not count if ssh_config has a HostKeyAlias, which
        stands for address and port.
        """
        address = self._endpoint.address.lower()
        name_with_port = f"[{address}]:{self._endpoint.port}"
        if self._endpoint.host_key_name != name_with_port:
            return []
        return known_hosts.find_entries(self._files, address)

    def order_algorithms(self, ours: Sequence[str]) -> tuple[str, ...]:
        """Order our host key algorithms: those of the types of known keys first, so
        that the server shows such a key if it has one. If no key is known for the
        endpoint itself, the keys known for its address without the port tell the types.
        """
        known_keys = _ordinary_keys(self._entries)
        if not known_keys:
            known_keys = _ordinary_keys(self._portless_entries)
        algorithms: list[str] = []
        for entry in known_keys:
            key_type = entry.key_type
            algorithms += _ALGORITHMS.get(key_type, (key_type,))
        return sort_preferred_first(algorithms, ours)

    def missing_host_key(
        self,
        client: paramiko.SSHClient,  # noqa: ARG002  paramiko's signature
        hostname: str,  # noqa: ARG002
        key: paramiko.PKey,
    ) -> None:
        """Accept the key that the server has proved to own, or raise HostKeyError.
        paramiko calls this.

        Entries for the address without its port may accept or revoke the key. Only
        entries for the endpoint itself can tell that the key has changed.
        """
        blob = key.asbytes()
        entries = [*self._entries, *self._portless_entries]
        same_key = [entry for entry in entries if entry.blob == blob]
        for entry in same_key:
            if entry.marker == "@revoked":
                raise HostKeyError(
                    f"{self._describe_shown_key(key)}, which {entry.place} marks as"
                    " revoked. Do not connect; ask whoever runs the host."
                )
        known_keys = _ordinary_keys(same_key)
        if known_keys:
            _log.info(
                "%s: host key %s is known: %s",
                self.host_name,
                fingerprint(blob),
                known_keys[0].place,
            )
            return
        other_keys = _ordinary_keys(self._entries)
        if other_keys:
            raise HostKeyError(self._changed_key_message(other_keys, key))
        if self._endpoint.host_key is HostKeyPolicy.STRICT:
            raise HostKeyError(self._unknown_key_message(key))
        self._accept(key)

    def _accept(self, key: paramiko.PKey) -> None:
        """Keep an unknown key in the first of the user's known_hosts files, and note
        that. Raises HostKeyError if the key cannot be kept.
        """
        name = self._endpoint.host_key_name
        message = self._describe_shown_key(key)
        if not self._endpoint.user_known_hosts:
            raise HostKeyError(
                f"{message}, and there is no file to keep it in: ssh_config sets"
                " UserKnownHostsFile to none."
            )
        file = self._endpoint.user_known_hosts[0]
        key_type = key.get_name()
        kept_name = name
        if self._endpoint.hash_known_hosts:
            kept_name = known_hosts.hash_name(name)
        try:
            known_hosts.append_key(file, kept_name, key_type, key.asbytes())
        except OSError as error:
            raise HostKeyError(
                f"{message}, and {file} cannot be written to remember it: {error}. Set"
                " UserKnownHostsFile in ssh_config."
            ) from error
        self.notes.append(
            f"new host key of {name} accepted into {file}: {key_type}"
            f" {fingerprint(key.asbytes())}"
        )

    def _describe_shown_key(self, key: paramiko.PKey) -> str:
        end = self._endpoint
        return (
            f"{self.host_name}: {end.address} port {end.port} showed the"
            f" {key.get_name()} key {fingerprint(key.asbytes())}"
        )

    def _unknown_key_message(self, key: paramiko.PKey) -> str:
        """Return the message for a key that is refused because no file has it, and how
        the user can let it in.
        """
        endpoint = self._endpoint
        if endpoint.user_known_hosts:
            file = endpoint.user_known_hosts[0]
        else:
            file = expand_home("~/.ssh/known_hosts")
        # the other types are three of ECDSA, and ssh-keyscan calls all three "ecdsa"
        kind = _KEYSCAN_TYPES.get(key.get_name(), "ecdsa")
        address = shlex.quote(endpoint.address)
        scan = f"ssh-keyscan -p {endpoint.port} -t {kind} {address}"
        looked_in = ", ".join(self._files) or "none"
        message = (
            f"{self._describe_shown_key(key)}, which no known_hosts file lists as"
            f" {endpoint.host_key_name} (looked in {looked_in})."
        )
        authority_or_command = self._describe_what_only_ssh_asks()
        if authority_or_command:
            return (
                f"{message} {authority_or_command}, which only ssh itself follows: set"
                " `via: openssh` for this host in the inventory."
            )
        return (
            f"{message} Compare it with what `ssh-keygen -lf` says on the host, then"
            f" run `{scan} >> {shlex.quote(file)}`; or set `host_key: accept-new` for"
            " this host in the inventory."
        )

    def _describe_what_only_ssh_asks(self) -> str:
        """Name what may vouch for the host if ssh connects: a certificate authority, or
        a command of the user's. fleet's own SSH follows neither. "" if there is none.
        """
        for entry in (*self._entries, *self._portless_entries):
            if entry.marker == "@cert-authority":
                return f"{entry.place} names a @cert-authority for it"
        if self._endpoint.known_hosts_command:
            return "ssh_config has a KnownHostsCommand"
        return ""

    def _changed_key_message(
        self, known_keys: Sequence[Entry], key: paramiko.PKey
    ) -> str:
        """Return the message for a server that shows another key than the known
        ones.
        """
        name = shlex.quote(self._endpoint.host_key_name)
        path, _, _line_number = known_keys[0].place.rpartition(":")
        file = shlex.quote(path)
        descriptions = ", ".join(
            f"{entry.key_type} {fingerprint(entry.blob)} ({entry.place})"
            for entry in known_keys
        )
        return (
            f"{self._describe_shown_key(key)}, but the known one is {descriptions}."
            " Either the host was installed anew or somebody is in between, so nothing"
            " was sent. If you know that the new key is right, run `ssh-keygen -R"
            f" {name} -f {file}` and connect again."
        )


def _ordinary_keys(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries that are neither revoked nor of a certificate authority."""
    return [entry for entry in entries if not entry.marker]


def sort_preferred_first(
    preferred: Collection[str], offered: Sequence[str]
) -> tuple[str, ...]:
    """Return what is offered with the preferred first, each in the order offered."""
    return tuple(sorted(offered, key=lambda name: name not in preferred))
