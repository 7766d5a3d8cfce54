"""Finds a host's keys in known_hosts files (sshd(8)) and adds new ones. paramiko's
loader is quadratic.
"""

import base64
import fnmatch
import hashlib
import hmac
import os
import re
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_REVOKED, _AUTHORITY = "@revoked", "@cert-authority"
_loaded: "dict[str, tuple[tuple[int, int] | None, KnownHosts]]" = {}
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a known_hosts file. marker: "" for an ordinary key. place:
    "file:line".
    """

    names: str
    key_type: str
    blob: bytes
    marker: str
    place: str

    def matches(self, name: str) -> bool:
        """Report whether the line's names, wildcards and negations match `name`. Not
        for hashed lines.
        """
        patterns = self.names.split(",")
        if any(
            matches_pattern(name, pattern[1:])
            for pattern in patterns
            if pattern.startswith("!")
        ):
            return False
        return any(matches_pattern(name, pattern) for pattern in patterns)


class KnownHosts:
    """The entries of one file. Plain names are looked up; patterns and hashes are tried
    one by one.
    """

    def __init__(self, path: str, text: str) -> None:
        self._plain: dict[str, list[Entry]] = defaultdict(list)
        self._others: list[Entry] = []
        self._hashed: list[tuple[hmac.HMAC, bytes, Entry]] = []
        for number, line in enumerate(text.split("\n"), 1):
            entry = _parse_entry(line, f"{path}:{number}")
            if entry is None:
                continue
            if entry.names.startswith("|1|"):
                with suppress(ValueError):  # it cannot be read
                    salt, digest = (
                        base64.b64decode(part) for part in entry.names[3:].split("|")
                    )
                    self._hashed.append(
                        (hmac.new(salt, digestmod="sha1"), digest, entry)
                    )
            elif any(mark in entry.names for mark in "*?!"):
                self._others.append(entry)
            else:
                for name in entry.names.lower().split(","):
                    self._plain[name].append(entry)

    def find(self, name: str) -> Iterator[Entry]:
        """Yield the lines about `name`."""
        yield from self._plain.get(name, ())
        yield from (entry for entry in self._others if entry.matches(name))
        for salted, digest, entry in self._hashed:
            candidate = salted.copy()
            candidate.update(name.encode())
            if candidate.digest() == digest:
                yield entry


def find_entries(files: Sequence[str], name: str) -> list[Entry]:
    """Return the lines about `name` in all `files`; a file that does not exist has
    none.
    """
    return [entry for file in files for entry in _load_file(file).find(name)]


def append_key(file: str, name: str, key_type: str, blob: bytes) -> None:
    """Append a key to `file`; create a private file if there is none. Raises
    OSError.
    """
    path = Path(file)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # One write to a descriptor in append mode: lines of controllers working side by
    # side stay whole.
    descriptor = os.open(
        path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
    )
    try:
        size = os.fstat(descriptor).st_size
        begin = "" if size == 0 or os.pread(descriptor, 1, size - 1) == b"\n" else "\n"
        line = f"{begin}{name} {key_type} {base64.b64encode(blob).decode()}\n"
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def fingerprint(blob: bytes) -> str:
    """Format a public key's fingerprint as `ssh-keygen -l` does."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip(
        "="
    )


def _load_file(file: str) -> KnownHosts:
    """Return the entries of `file`, reading it only if it changed since the last
    time.
    """
    with _lock:
        stamp = read_stamp(file)
        if file not in _loaded or _loaded[file][0] != stamp:
            text = b""
            with suppress(
                OSError
            ):  # it is not there, or not ours to read: it knows nobody, as for OpenSSH
                text = Path(file).read_bytes()
            _loaded[file] = (stamp, KnownHosts(file, text.decode(errors="replace")))
        return _loaded[file][1]


def read_stamp(file: str) -> tuple[int, int] | None:
    """Return a file's modification time in ns and its size; None if they cannot be
    read.
    """
    try:
        status = os.stat(file)  # noqa: PTH116
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _parse_entry(line: str, place: str) -> Entry | None:
    """Parse a line; return None if it has no entry. As in OpenSSH, only blanks and tabs
    separate fields.
    """
    fields = re.findall(r"[^ \t]+", line.rstrip("\r"))
    if not fields or fields[0].startswith("#"):
        return None
    marker = fields.pop(0) if fields[0].startswith("@") else ""
    if len(fields) < 3 or marker not in ("", _REVOKED, _AUTHORITY):
        return None
    try:
        blob = base64.b64decode(fields[2], validate=True)
    except ValueError:
        return None
    return Entry(fields[0], fields[1], blob, marker, place)


def matches_pattern(name: str, pattern: str) -> bool:
    """Report whether `name` matches a pattern of known_hosts or ssh_config, with
    wildcards * and ?.
    """
    return fnmatch.fnmatchcase(name, pattern.lower().replace("[", "[[]"))
