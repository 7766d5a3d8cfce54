"""Decides on the host key that a server shows, by known_hosts and the inventory's
policy.
"""

import logging
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path

import paramiko

from fleet.errors import HostKeyError
from fleet.model import HostKeyPolicy
from fleet.remote.ssh import known_hosts
from fleet.remote.ssh.config import Endpoint
from fleet.remote.ssh.known_hosts import Entry, fingerprint

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
        return sort_preferred_first(first, ours)

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


def sort_preferred_first(
    preferred: Collection[str], offered: Sequence[str]
) -> tuple[str, ...]:
    """Return what is offered with the preferred first, each in the order offered."""
    return tuple(sorted(offered, key=lambda name: name not in preferred))
