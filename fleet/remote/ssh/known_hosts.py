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

_REVOKED = "@revoked"
_AUTHORITY = "@cert-authority"
_loaded: "dict[str, tuple[tuple[int, int] | None, KnownHosts]]" = {}
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a known_hosts file."""

    names: str  # as the line has them, parted by commas
    key_type: str
    blob: bytes  # the public key
    marker: str  # "@revoked" or "@cert-authority"; "" for an ordinary key
    place: str  # "file:line"

    def matches(self, name: str) -> bool:
        """Report whether one of the line's names matches `name`. The line's names may
        have wildcards, as in "*.org,!a.org". If a name that begins by ! matches, the
        line is not about `name`. Not for lines with a hashed name.
        """
        is_listed = False
        for pattern in self.names.split(","):
            if matches_pattern(name, pattern.removeprefix("!")):
                if pattern.startswith("!"):
                    return False
                is_listed = True
        return is_listed


@dataclass(frozen=True, slots=True)
class _HashedName:
    """The name of an entry, as HashKnownHosts keeps it."""

    salted: hmac.HMAC
    digest: bytes

    def matches(self, name: str) -> bool:
        candidate = self.salted.copy()
        candidate.update(name.encode())
        return candidate.digest() == self.digest


class KnownHosts:
    """The entries of one file. Plain names are looked up; patterns and hashes are tried
    one by one.
    """

    def __init__(self, path: str, text: str) -> None:
        """Parse the file's text. path: the file's, for messages."""
        self._entries_by_name = defaultdict[str, list[Entry]](list)
        self._entries_of_patterns = list[Entry]()
        self._hashed_entries = list[tuple[_HashedName, Entry]]()
        for number, line in enumerate(text.split("\n"), 1):
            place = f"{path}:{number}"
            entry = _parse_entry(line, place)
            if entry is not None:
                self._add(entry)

    def _add(self, entry: Entry) -> None:
        """Keep a line where `find` looks for it: by each of its names, unless it has a
        hashed name or patterns.
        """
        if entry.names.startswith("|1|"):
            with suppress(ValueError):  # a hash that cannot be read knows nobody
                hashed_name = _parse_hashed_name(entry.names)
                self._hashed_entries.append((hashed_name, entry))
        elif any(mark in entry.names for mark in "*?!"):
            self._entries_of_patterns.append(entry)
        else:
            for name in entry.names.lower().split(","):
                self._entries_by_name[name].append(entry)

    def find(self, name: str) -> Iterator[Entry]:
        """Yield the lines about `name`."""
        yield from self._entries_by_name.get(name, ())
        for entry in self._entries_of_patterns:
            if entry.matches(name):
                yield entry
        for hashed_name, entry in self._hashed_entries:
            if hashed_name.matches(name):
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
    encoded_key = base64.b64encode(blob).decode()
    line = f"{name} {key_type} {encoded_key}\n"
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        last_byte = os.pread(descriptor, 1, max(0, size - 1))
        is_last_line_whole = last_byte in (b"", b"\n")
        if not is_last_line_whole:
            line = f"\n{line}"
        # one write in append mode, so that lines of controllers working side by side
        # stay whole
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def hash_name(name: str) -> str:
    """Return the name as HashKnownHosts keeps it: "|1|SALT|DIGEST", both in base64."""
    salt = os.urandom(20)
    digest = hmac.digest(salt, name.encode(), "sha1")
    encoded_salt = base64.b64encode(salt).decode()
    encoded_digest = base64.b64encode(digest).decode()
    return f"|1|{encoded_salt}|{encoded_digest}"


def fingerprint(blob: bytes) -> str:
    """Format a public key's fingerprint as `ssh-keygen -l` does."""
    encoded = base64.b64encode(hashlib.sha256(blob).digest()).decode()
    return f"SHA256:{encoded.rstrip('=')}"


def _load_file(file: str) -> KnownHosts:
    """Return the entries of `file`, reading it only if it changed since the last
    time.
    """
    with _lock:
        stamp = read_stamp(file)
        if file in _loaded:
            loaded_stamp, known_hosts = _loaded[file]
            if loaded_stamp == stamp:
                return known_hosts
        content = b""
        # a file that is not there, or not ours to read, has no entries, as for OpenSSH
        with suppress(OSError):
            content = Path(file).read_bytes()
        known_hosts = KnownHosts(file, content.decode(errors="replace"))
        _loaded[file] = (stamp, known_hosts)
        return known_hosts


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
    marker = ""
    if fields[0].startswith("@"):
        marker = fields.pop(0)
    if len(fields) < 3 or marker not in ("", _REVOKED, _AUTHORITY):
        return None
    names, key_type, encoded_key = fields[:3]
    try:
        blob = base64.b64decode(encoded_key, validate=True)
    except ValueError:
        return None
    return Entry(names, key_type, blob, marker, place)


def _parse_hashed_name(text: str) -> _HashedName:
    """Parse "|1|SALT|DIGEST", both in base64. Raises ValueError."""
    salt, digest = text.removeprefix("|1|").split("|")
    salted = hmac.new(base64.b64decode(salt), digestmod="sha1")
    return _HashedName(salted, base64.b64decode(digest))


def matches_pattern(name: str, pattern: str) -> bool:
    """Report whether `name` matches a pattern of known_hosts or ssh_config, with
    wildcards * and ?.
    """
    return fnmatch.fnmatchcase(name, pattern.lower().replace("[", "[[]"))
