"""Decides on a host key, in place of fabric, which accepts all, and explains a refusal; for `dial`."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import paramiko

from fleet.errors import HostKeyError
from fleet.model import HostKeyPolicy
from fleet.remote.ssh import known_hosts
from fleet.remote.ssh.config import Endpoint
from fleet.remote.ssh.known_hosts import Entry, fingerprint

_ALGORITHMS = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}  # those that sign with the key type


class HostKeyCheck(paramiko.MissingHostKeyPolicy):
    """Decides on the key of one endpoint; records what it did in `notes`."""

    def __init__(self, host_name: str, endpoint: Endpoint) -> None:
        self.notes: list[str] = []
        self._host_name = host_name
        self._endpoint = endpoint
        self._files = (*endpoint.user_known_hosts, *endpoint.global_known_hosts)
        self._entries = known_hosts.find(self._files, endpoint.host_key_name)
        bare = endpoint.address.lower()
        # As OpenSSH does: a host known without its port is known, but never refused for it. Not so an alias.
        has_port = endpoint.host_key_name == f"[{bare}]:{endpoint.port}"
        self._bare = known_hosts.find(self._files, bare) if has_port else []

    def algorithms(self, ours: Sequence[str]) -> list[str]:
        """Order `ours` so that the server shows a key of a type we know, if it has one."""
        known = [entry.key_type for entry in _ordinary(self._entries) or _ordinary(self._bare)]
        first = [name for key_type in known for name in _ALGORITHMS.get(key_type, (key_type,))]
        return sorted(ours, key=lambda name: name not in first)

    def missing_host_key(
        self,
        client: paramiko.SSHClient,  # noqa: ARG002  paramiko's signature
        hostname: str,  # noqa: ARG002
        key: paramiko.PKey,
    ) -> None:
        """Check the key the server has just proved to own; paramiko asks us about every one."""
        blob, key_type = key.asbytes(), key.get_name()
        revoked = [e for e in (*self._entries, *self._bare) if e.marker == "@revoked" and e.blob == blob]
        if revoked:
            raise HostKeyError(
                f"{self._shown(key_type, blob)}, which {revoked[0].place} marks as revoked. Do not connect; "
                "ask whoever runs the host."
            )
        if any(entry.blob == blob for entry in _ordinary((*self._entries, *self._bare))):
            return
        if known := _ordinary(self._entries):
            raise HostKeyError(self._changed(known, key_type, blob))
        if self._endpoint.host_key is HostKeyPolicy.STRICT:
            raise HostKeyError(self._unknown(key_type, blob))
        self._accept(key_type, blob)

    def _accept(self, key_type: str, blob: bytes) -> None:
        name = self._endpoint.host_key_name
        if not self._endpoint.user_known_hosts:
            raise HostKeyError(
                f"{self._shown(key_type, blob)}, and there is no file to keep it in: ssh_config sets "
                "UserKnownHostsFile to none."
            )
        file = self._endpoint.user_known_hosts[0]
        try:
            known_hosts.add(file, name, key_type, blob)
        except OSError as error:
            raise HostKeyError(
                f"{self._shown(key_type, blob)}, and {file} cannot be written to remember it: {error}."
            ) from error
        self.notes.append(f"new host key of {name} accepted into {file}: {key_type} {fingerprint(blob)}")

    def _shown(self, key_type: str, blob: bytes) -> str:
        end = self._endpoint
        return (
            f"{self._host_name}: {end.address} port {end.port} showed the {key_type} key {fingerprint(blob)}"
        )

    def _unknown(self, key_type: str, blob: bytes) -> str:
        end = self._endpoint
        file = end.user_known_hosts[0] if end.user_known_hosts else str(Path.home() / ".ssh/known_hosts")
        kind = {"ssh-rsa": "rsa", "ssh-ed25519": "ed25519"}.get(key_type, "ecdsa")
        scan = f"ssh-keyscan -p {end.port} -t {kind} {shlex.quote(end.address)}"
        authority = any(entry.marker == "@cert-authority" for entry in self._entries)
        return (
            f"{self._shown(key_type, blob)}, which no known_hosts file lists as {end.host_key_name} "
            f"(looked in {', '.join(self._files) or 'none'}"
            f"{'; a @cert-authority line there needs `via: openssh`' if authority else ''}). "
            "Compare it with what `ssh-keygen -lf` says on the host, then run "
            f"`{scan} >> {shlex.quote(file)}`; or set `host_key: accept-new` for this host in the inventory."
        )

    def _changed(self, known: Sequence[Entry], key_type: str, blob: bytes) -> str:
        name = self._endpoint.host_key_name
        listed = ", ".join(f"{e.key_type} {fingerprint(e.blob)} ({e.place})" for e in known)
        file = known[0].place.rpartition(":")[0]
        return (
            f"{self._shown(key_type, blob)}, but the known one is {listed}. Either the host was installed "
            "anew or somebody is in between, so nothing was sent. If you know that the new key is right, run "
            f"`ssh-keygen -R {shlex.quote(name)} -f {shlex.quote(file)}` and connect again."
        )


def _ordinary(entries: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in entries if not entry.marker]
