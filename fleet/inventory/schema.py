"""The schema of the inventory: keys, types, bounds and the messages for what is wrong."""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from typing import Any

from fleet.addresses import read_address, read_hop, read_user
from fleet.inventory.document import Document, Path, format_path
from fleet.model import ARCHES, OSES, BuildPlace, HostKeyPolicy, LockPolicy, Via, find_arch
from fleet.plan.kinds import (
    CONDITIONS,
    LONGEST_WAIT_S,
    SWITCH,
    Kind,
    make_duration_kind,
    make_integer_kind,
    word_from,
)
from fleet.plan.options import BY_NAME, OPTIONS
from fleet.text import LABEL_KEY, quote, suggest_similar

SECRET = re.compile(r"pass(word|phrase|wd)|secret|token|credential|private_?key|api_?key", re.IGNORECASE)
NO_SECRETS = "this file must hold no secret; use an SSH agent, or a key file named in `identity_files`"
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
_Reader = Callable[[Any], Any]
"""Converts a value, or raises ValueError with a message for the user."""
_Schema = Callable[[Any, Path, Document], Any]
"""Converts the value at a path; None where it is wrong, with its problems added to the document."""


def check(document: Document) -> dict[str, Any]:
    """Return the document's values, each of its type and under a known key; add problems to `document`."""
    return _FILE(_drop_secrets(document, document.data, ()), (), document) or {}


def check_settings(document: Document) -> dict[str, Any]:
    """Return the values of the table `fleet:`, by parameter; add problems to `document`."""
    return _SETTINGS(document.data.get("fleet") or {}, ("fleet",), document) or {}


def list_programs(document: Document) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each key that starts programs, or sends results to a bucket."""
    for path, line in document.lines.items():
        starts = path == ("hosts_from",) or (path[-1:] and path[-1] in _STARTING and _is_entry(path[:-1]))
        if starts or _is_remote_root(path, document):
            value = reduce(lambda data, key: data[key], path, document.data)
            text = "" if path[-1] == "env" else f": {json.dumps(value, ensure_ascii=False)}"  # maybe secret
            yield line, f"{format_path(path)}{text}"


def _drop_secrets(document: Document, data: Any, path: Path) -> Any:
    """Return the data without keys that look like secrets, each a problem; names and labels are exempt."""
    if not isinstance(data, dict):
        return data
    public = {}
    for key, value in data.items():
        if SECRET.search(key) and not _is_entry((*path, key)) and path[-1:] != ("labels",):
            document.problem((*path, key), NO_SECRETS)
        else:
            public[key] = _drop_secrets(document, value, (*path, key))
    return public


def _convert(value: Any, path: Path, document: Document, *readers: _Reader) -> Any:
    """Return what the readers make of a value, in turn; None, and a problem, where one refuses it."""
    for reader in readers:
        try:
            value = reader(value)
        except ValueError as err:
            document.problem(path, str(err))
            return None
    return value


def _require(kind: type, words: str) -> _Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, kind):
            actual = "a mapping" if isinstance(value, dict) else "a list" if isinstance(value, list) else None
            actual = actual or ("nothing" if value is None else quote(str(value)))
            raise ValueError(f"must be {words}, not {actual}")  # noqa: TRY004  as every reader
        return value

    return read


def _make_text_schema(*readers: _Reader) -> _Schema:
    """Return the schema of one line of text, which the readers convert in turn."""
    checks = (_require(str, "one piece of text"), _require_line, *readers)
    return lambda value, path, document: _convert(value, path, document, *checks)


def _list(item: _Schema, split: _Reader) -> _Schema:
    """Return the schema of a list, or of one text that `split` makes into a list."""

    def read(value: Any, path: Path, document: Document) -> Any:
        split_text = (
            lambda value: split(value) if isinstance(value, str) else value,
            _require(list, "a list"),
        )
        items = _convert(value, path, document, *split_text) or ()
        return tuple(item(value, (*path, index), document) for index, value in enumerate(items))

    return read


def _make_mapping_schema(
    choose_schema: Callable[[str, Path, Document], _Schema], *readers: _Reader
) -> _Schema:
    """Return the schema of a mapping. choose_schema: returns that of a key's value."""
    checks = (_require(dict, "a mapping (lines of `key: value` below it)"), *readers)

    def read(value: Any, path: Path, document: Document) -> Any:
        mapping = _convert(value, path, document, *checks) or {}
        return {
            key: choose_schema(key, path, document)(value, (*path, key), document)
            for key, value in mapping.items()
        }

    return read


def _any_keys(schema: _Schema, *readers: _Reader) -> _Schema:
    """Return the schema of a mapping with any keys that the readers accept."""
    return _make_mapping_schema(lambda _key, _path, _document: schema, *readers)


def _make_keys_schema(fields: Mapping[str, _Schema]) -> _Schema:
    """Return the schema of a mapping with these keys only, none required. Drops keys without a value."""

    def choose_schema(key: str, path: Path, document: Document) -> _Schema:
        if key in fields:
            return _make_optional(fields[key])
        advice = f"{suggest_similar(key, fields)} Known here: {', '.join(sorted(fields))}"
        document.problem((*path, key), f"unknown key{advice}")
        return lambda *_: None

    mapping = _make_mapping_schema(choose_schema)
    return lambda value, path, document: {
        key: value for key, value in mapping(value, path, document).items() if value is not None
    }


def _make_optional(schema: _Schema) -> _Schema:
    return lambda value, path, document: None if value is None else schema(value, path, document)


def _make_kind_schema(kind: Kind) -> _Schema:
    """Return the schema of an option's value: one text, or a list of texts where the kind is a list."""

    def read(value: Any) -> Any:
        if kind.lists and isinstance(value, list) and all(isinstance(item, str) for item in value):
            value = ",".join(value)
        return kind.read(_require_line(_require(str, kind.allowed)(value)))

    return lambda value, path, document: _convert(value, path, document, read)


def _require_line(value: str) -> str:
    if _CONTROL.search(value):
        raise ValueError("must be one line of text without control characters")
    return value


def _match(pattern: str, advice: str) -> _Reader:
    def read(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"{advice}; not {quote(value)}")
        return value

    return read


def _read_address(value: str) -> str:
    if match := re.fullmatch(r"([^:\[\]]+):([0-9]+)", value):
        raise ValueError(f"write the port on a line of its own: `address: {match[1]}` and `port: {match[2]}`")
    if "@" in value:
        raise ValueError("write the user on a line of its own, as `user:`")
    read_address(value.replace("{name}", "name"))
    return value[1:-1] if value.startswith("[") else value


def _check_hop(value: str) -> str:
    read_hop(value)
    return value


def _target_word(words: Iterable[str]) -> _Reader:
    def read(value: str) -> str | None:
        word = find_arch(value.lower()) or value.lower()
        if word == "auto":
            return None
        if word not in words:
            raise ValueError(f"must be auto or one of {', '.join(words)}; not {quote(value)}")
        return word

    return read


def _refuse_client_text(value: str) -> list[str]:
    words = value.split() or ["docker", "exec", "-i", "{address}"]
    raise ValueError(f"no shell splits it, so write a list: [{', '.join(words)}]")


def _check_client_word(value: str) -> str:
    if any(SECRET.search(name) for name in re.findall(r"\{env:([^}]*)", value)):
        raise ValueError("every user of this machine can read a program's words; they may hold no secret")
    return value


def _split_flags(value: str) -> list[str]:
    try:
        return shlex.split(value)
    except ValueError as err:
        raise ValueError(f"cannot be split into flags ({err}); check the quotes") from err


def _require_names(pattern: str, advice: str) -> _Reader:
    """Return a reader that checks every key of a mapping."""

    def read(mapping: dict[str, str]) -> dict[str, str]:
        for name in mapping:
            if not re.fullmatch(pattern, name):
                raise ValueError(f"{quote(name)} is not a valid name; {advice}")
        return mapping

    return read


def _split_commas(value: str) -> list[str]:
    return [part.strip() for part in value.split(",")]


_PATH = _make_text_schema(_match(r"\S.*", "must be a path"))
_TOOLCHAIN = {
    "cc": _make_text_schema(_match(r"[^\s\-].*", "must be a compiler command such as gcc-12")),
    "cflags": _list(_make_text_schema(), _split_flags),
    "binary": _PATH,
    "sdp": _PATH,
    "build_host": _make_text_schema(_match(r"[^\s\-]\S*", "must be the name of a host in this file")),
}
_PLAN = {
    option.name: _make_kind_schema(option.kind) for option in OPTIONS if option.inventory_path == ("plan",)
}
_COMMANDS = _list(_make_text_schema(_match(r".*\S.*", "must be a command")), lambda text: [text])
_WORKDIR = r"(/|~/)(?!.*(^|/)\.\.(/|$)).*[^/].*"
_ENTRY = {
    "address": _make_text_schema(_read_address),
    "port": _make_kind_schema(make_integer_kind(1, 65_535)),
    "user": _make_text_schema(read_user),
    "identity_files": _list(_PATH, lambda text: [text]),
    "jump": _list(_make_text_schema(_check_hop), _split_commas),
    "via": _make_kind_schema(word_from(Via)),
    "command": _list(_make_text_schema(_check_client_word), _refuse_client_text),
    "host_key": _make_kind_schema(word_from(HostKeyPolicy)),
    "os": _make_text_schema(_target_word(OSES)),
    "os_release": _make_text_schema(
        _match(r"[0-9]{1,3}(\.[0-9]{1,5}){0,3}", "must be a QNX release such as 8.0")
    ),
    "arch": _make_text_schema(_target_word(sorted(ARCHES))),
    "build": _make_kind_schema(word_from(BuildPlace)),
    "toolchain": _make_keys_schema(_TOOLCHAIN),
    "workdir": _make_text_schema(
        _match(_WORKDIR, "must be an absolute path, or begin with ~/, without `..`")
    ),
    "priority": _make_kind_schema(BY_NAME["priority"].kind),
    "lock": _make_kind_schema(word_from(LockPolicy)),
    "require": _make_kind_schema(CONDITIONS),
    "wait": _make_kind_schema(make_duration_kind(0, LONGEST_WAIT_S)),
    "before": _COMMANDS,
    "after": _COMMANDS,
    "cpus": _make_kind_schema(BY_NAME["cpus"].kind),
    "env": _any_keys(
        _make_text_schema(),
        _require_names(r"[A-Za-z_][A-Za-z0-9_]*", "letters, digits and _ only, no digit first"),
    ),
    "labels": _any_keys(
        _make_text_schema(), _require_names(LABEL_KEY, "letters, digits, dot, dash and _ only")
    ),
    "plan": _make_keys_schema(_PLAN),
}
_SETTINGS_FIELDS = {
    "connect_timeout": _make_kind_schema(make_duration_kind(0.1, 3600)),
    "label": _list(_make_text_schema(), _split_commas),
    "lock": _make_kind_schema(word_from(LockPolicy)),
    "parallel": _make_kind_schema(make_integer_kind(1, 1000)),
    "quiet": _make_kind_schema(SWITCH),
    "reconnect": _make_kind_schema(make_duration_kind(0, 86_400)),
    "results": _PATH,
    "verbose": _make_kind_schema(make_integer_kind(0, 2)),
}
_SETTINGS = _make_keys_schema(_SETTINGS_FIELDS)
# Keys that start programs; `env` can load a library into one.
_STARTING = ("command", "env", "toolchain", "before", "after")
_NAMES = _list(_make_text_schema(), _split_commas)
_ENTRIES = {"groups": _ENTRY | {"hosts": _NAMES, "children": _NAMES}, "hosts": _ENTRY}
_FILE = _make_keys_schema(
    {
        "defaults": _make_keys_schema(_ENTRY),
        **{section: _any_keys(_make_optional(_make_keys_schema(keys))) for section, keys in _ENTRIES.items()},
        "hosts_from": lambda *_: None,  # taken out before
        "fleet": lambda *_: None,  # read by `check_settings`
    }
)
ENTRY_KEYS, TOOLCHAIN_KEYS, PLAN_KEYS = tuple(_ENTRY), tuple(_TOOLCHAIN), tuple(_PLAN)
SETTINGS_KEYS = tuple(_SETTINGS_FIELDS)


def _is_remote_root(path: Path, document: Document) -> bool:
    """Report whether the path is that of a results root which would send what is measured away."""
    return path == ("fleet", "results") and "://" in str(document.data["fleet"]["results"])


def _is_entry(path: Path) -> bool:
    """Report whether a path is that of `defaults`, or of the entry of a group or host."""
    return path == ("defaults",) or (len(path) == 2 and path[0] in _ENTRIES)
