"""The known_hosts files: look a host's keys up, add a new one. Format: sshd(8), SSH_KNOWN_HOSTS FILE FORMAT.

paramiko's own loader takes time quadratic in the file's length; this one reads a file once, in one pass.
Used by `host_key`.
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
    """One line of a known_hosts file. `marker` is "" for an ordinary key; `place` is "file:line"."""

    names: str
    key_type: str
    blob: bytes
    marker: str
    place: str

    def matches(self, name: str) -> bool:
        """Tell whether this line, not a hashed one, is about `name` (a wildcard or a negation may say so)."""
        found = False
        for pattern in self.names.split(","):
            if pattern.startswith("!"):
                if _like(name, pattern[1:]):
                    return False
            elif _like(name, pattern):
                found = True
        return found


def _hashed(entry: Entry) -> Iterator[tuple[hmac.HMAC, bytes, Entry]]:
    """A line made ready for many names: an HMAC begun with its salt, its hash. None if unreadable."""
    _, kind, *parts = entry.names.split("|")
    with suppress(ValueError):
        salt, digest = (base64.b64decode(part) for part in parts)
        if kind == "1":
            yield hmac.new(salt, digestmod="sha1"), digest, entry


class KnownHosts:
    """One file, read. Names written plainly are found at once, the others by going through them.

    A hashed line is about one name: once that was asked for, it is as good as a plain one.
    """

    def __init__(self, path: str, text: str) -> None:
        self._plain: dict[str, list[Entry]] = defaultdict(list)
        self._others: list[Entry] = []
        self._hashed: list[tuple[hmac.HMAC, bytes, Entry]] = []
        self._asked: set[str] = set()
        self._guard = threading.Lock()
        for number, line in enumerate(text.split("\n"), 1):
            entry = _parse(line, f"{path}:{number}")
            if entry is None:
                continue
            if entry.names.startswith("|"):
                self._hashed += _hashed(entry)
            elif any(mark in entry.names for mark in "*?!"):
                self._others.append(entry)
            else:
                for name in entry.names.lower().split(","):
                    self._plain[name].append(entry)

    def find(self, name: str) -> Iterator[Entry]:
        """Yield the lines about `name`."""
        with self._guard:
            if name not in self._asked:
                self._asked.add(name)
                self._match(name)
        yield from self._plain.get(name, ())
        yield from (entry for entry in self._others if entry.matches(name))

    def _match(self, name: str) -> None:
        """Make plain the hashed lines about `name`."""
        left = []
        for line in self._hashed:
            begun, digest, entry = line
            found = begun.copy()
            found.update(name.encode())
            if found.digest() == digest:
                self._plain[name].append(entry)
            else:
                left.append(line)
        self._hashed = left


def find(files: Sequence[str], name: str) -> list[Entry]:
    """Return the lines about `name` in all `files`; a file that does not exist knows nobody."""
    return [entry for file in files for entry in _load(file).find(name)]


def add(file: str, name: str, key_type: str, blob: bytes) -> None:
    """Append a key to `file`, which is made, private, if it does not exist. Raises OSError."""
    path = Path(file)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # One write to a descriptor in append mode: lines of controllers working side by side stay whole.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        begin = "" if size == 0 or os.pread(descriptor, 1, size - 1) == b"\n" else "\n"
        line = f"{begin}{name} {key_type} {base64.b64encode(blob).decode()}\n"
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def fingerprint(blob: bytes) -> str:
    """Write a public key's fingerprint as `ssh-keygen -l` does."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def _load(file: str) -> KnownHosts:
    """Return `file` as it is now, reading it only if it changed since the last time."""
    with _lock:
        stamp = _stamp(file)
        if file not in _loaded or _loaded[file][0] != stamp:
            _loaded[file] = (stamp, KnownHosts(file, _read(file)))
        return _loaded[file][1]


def _read(file: str) -> str:
    try:
        return Path(file).read_bytes().decode(errors="replace")
    except OSError:  # it is not there, or is not ours to read: it knows nobody, as for OpenSSH
        return ""


def _stamp(file: str) -> tuple[int, int] | None:
    try:
        status = os.stat(file)  # noqa: PTH116
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size)


def _parse(line: str, place: str) -> Entry | None:
    """A line's entry, or None. As for OpenSSH only newlines end lines, only blanks and tabs part fields."""
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


def _like(name: str, pattern: str) -> bool:
    # Only * and ? are special in known_hosts; fnmatch would also read [ as one.
    return fnmatch.fnmatchcase(name, pattern.lower().replace("[", "[[]"))
