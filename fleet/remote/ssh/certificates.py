"""Reads certificates of user keys (OpenSSH's PROTOCOL.certkeys), for `identities`."""

import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    SSHCertificate,
    load_ssh_public_identity,
)

_SIZE_LIMIT_BYTES = 1 << 20


class Certificate(NamedTuple):
    """A certificate, as a line of its file."""

    line: str
    key_blob: bytes  # of the key that it certifies


def read_certificate(path: str) -> Certificate | str:
    """Return the certificate in a file, or why it cannot be used."""
    file = Path(path)
    try:
        if not file.is_file():
            return "no such file"
        if file.stat().st_size > _SIZE_LIMIT_BYTES:
            return "is too large for a certificate"
        line = file.read_text(encoding="utf-8").strip()
    except OSError as error:
        return error.strerror or str(error)
    except ValueError:
        return "is no certificate"
    certificate = _parse(line)
    if certificate is None:
        return "is no certificate that fleet's own SSH reads; set `via: openssh`"
    key = certificate.public_key()
    # OpenSSH writes a public key as its type and its bytes in base64
    _, encoded_key = key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).split()
    return Certificate(line, base64.b64decode(encoded_key))


def describe_certificate(line: str, now: datetime | None = None) -> str:
    """Return "certificate" and, if it is not valid now, when it ended or begins, as in
    "certificate, expired 2026-01-31 12:00 UTC".
    """
    now_s = (now or datetime.now(UTC)).timestamp()
    certificate = _parse(line)
    if certificate is None:
        return "certificate"
    if certificate.valid_before <= now_s:
        return f"certificate, expired {_format_time(certificate.valid_before)}"
    if certificate.valid_after > now_s:
        return f"certificate, not valid before {_format_time(certificate.valid_after)}"
    return "certificate"


def _parse(line: str) -> SSHCertificate | None:
    try:
        identity = load_ssh_public_identity(line.encode())
    except (ValueError, UnsupportedAlgorithm):
        return None
    return identity if isinstance(identity, SSHCertificate) else None


def _format_time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
