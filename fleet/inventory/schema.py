"""The schema of the inventory: keys, types, bounds and the messages for what is wrong."""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fleet.addresses import read_address, read_hop, read_user
from fleet.inventory.document import Document, Path
from fleet.model import ARCHES, OSES, BuildPlace, HostKeyPolicy, LockPolicy, Via, find_arch
from fleet.plan.kinds import Kind, integer, word_from
from fleet.plan.options import BY_NAME, OPTIONS
from fleet.text import LABEL_KEY, nearest, quote

SECRET = re.compile(r"pass(word|phrase|wd)|secret|token|credential|private_?key|api_?key", re.IGNORECASE)
NO_SECRETS = "this file must hold no secret; use an SSH agent, or a key file named in `identity_files`"
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
_Reader = Callable[[Any], Any]
"""Converts a value, or raises ValueError with a message for the user."""
_Schema = Callable[[Any, Path, Document], Any]
"""The value at a path as it is meant, or _WRONG, with its problems added to the document."""
_WRONG = object()


def check(document: Document) -> dict[str, Any]:
    """The document's values, each of its type and under a known key; problems are added to `document`."""
    found = _FILE(_without_secrets(document, document.data, ()), (), document)
    return {} if found is _WRONG else found


def _without_secrets(document: Document, data: Any, path: Path) -> Any:
    """The data without keys that look like secrets, each a problem; hosts, groups and labels are exempt."""
    if not isinstance(data, dict):
        return data
    free = path in {("hosts",), ("groups",)} or path[-1:] == ("labels",)
    kept = {}
    for key, value in data.items():
        if not free and SECRET.search(key):
            document.problem((*path, key), NO_SECRETS)
        else:
            kept[key] = _without_secrets(document, value, (*path, key))
    return kept


def _kind(value: Any) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    return "nothing" if value is None else quote(str(value))


def _of(*readers: _Reader, of: _Schema = lambda value, _path, _document: value) -> _Schema:
    """What the schema `of` gives, converted by each reader in turn."""

    def read(value: Any, path: Path, document: Document) -> Any:
        found = of(value, path, document)
        for reader in () if found is _WRONG else readers:
            try:
                found = reader(found)
            except ValueError as err:
                document.problem(path, str(err))
                return _WRONG
        return found

    return read


def _is(kind: type, words: str) -> _Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, kind):
            raise ValueError(f"must be {words}, not {_kind(value)}")  # noqa: TRY004  as every reader
        return value

    return read


def _or_nothing(schema: _Schema) -> _Schema:
    return lambda value, path, document: None if value is None else schema(value, path, document)


def _whole_if_right(found: Any, values: Iterable[Any]) -> Any:
    return _WRONG if any(value is _WRONG for value in values) else found


def _list_of(item: _Schema, split: _Reader) -> _Schema:
    """A list, or one text that `split` makes into a list."""

    def read(value: Any, path: Path, document: Document) -> Any:
        items = listed(value, path, document)
        if items is _WRONG:
            return _WRONG
        found = tuple(item(one, (*path, at), document) for at, one in enumerate(items))
        return _whole_if_right(found, found)

    listed = _of(lambda value: split(value) if isinstance(value, str) else value, _is(list, "a list"))
    return read


def _mapping(schema_of: Callable[[str, Path, Document], _Schema]) -> _Schema:
    """A mapping; schema_of: that of a key's value."""

    def read(value: Any, path: Path, document: Document) -> Any:
        if mapping(value, path, document) is _WRONG:
            return _WRONG
        found = {
            key: schema_of(key, path, document)(one, (*path, key), document) for key, one in value.items()
        }
        return _whole_if_right(found, found.values())

    mapping = _of(_is(dict, "a mapping (lines of `key: value` below it)"))
    return read


def _each(schema: _Schema) -> _Schema:
    """A mapping with any keys."""
    return _mapping(lambda _key, _path, _document: schema)


def _mapping_of(fields: Mapping[str, _Schema]) -> _Schema:
    """A mapping with these keys only, none required; a key without a value is ignored."""

    def of_key(key: str, path: Path, document: Document) -> _Schema:
        if key in fields:
            return _or_nothing(fields[key])
        known = f"{nearest(key, fields)} Known here: {', '.join(sorted(fields))}"
        document.problem((*path, key), f"unknown key{known}")
        return lambda *_: _WRONG

    return _of(
        lambda mapping: {key: value for key, value in mapping.items() if value is not None},
        of=_mapping(of_key),
    )


def _of_kind(kind: Kind) -> _Schema:
    """One text, or a list of texts where the kind is a list."""

    def read(value: Any) -> Any:
        if kind.lists and isinstance(value, list) and all(isinstance(item, str) for item in value):
            value = ",".join(value)
        return kind.read(_line_of_text(_is(str, kind.allowed)(value)))

    return _of(read)


def _line_of_text(value: str) -> str:
    if _CONTROL.search(value):
        raise ValueError("must be one line of text without control characters")
    return value


def _shaped(pattern: str, advice: str) -> _Reader:
    def shaped(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"{advice}; not {quote(value)}")
        return value

    return shaped


def _address(value: str) -> str:
    if match := re.fullmatch(r"([^:\[\]]+):([0-9]+)", value):
        raise ValueError(f"write the port on a line of its own: `address: {match[1]}` and `port: {match[2]}`")
    if "@" in value:
        raise ValueError("write the user on a line of its own, as `user:`")
    read_address(value.replace("{name}", "name"))
    return value[1:-1] if value.startswith("[") else value


def _hop(value: str) -> str:
    read_hop(value)
    return value


def _target_word(known: Iterable[str]) -> _Reader:
    def read(value: str) -> str | None:
        word = find_arch(value.lower()) or value.lower()
        if word == "auto":
            return None
        if word not in known:
            raise ValueError(f"must be auto or one of {', '.join(known)}; not {quote(value)}")
        return word

    return read


def _client(value: str) -> list[str]:
    words = value.split() or ["docker", "exec", "-i", "{address}"]
    raise ValueError(f"no shell splits it, so write a list: [{', '.join(words)}]")


def _client_word(value: str) -> str:
    if any(SECRET.search(name) for name in re.findall(r"\{env:([^}]*)", value)):
        raise ValueError("every user of this machine can read a program's words; they may hold no secret")
    return value


def _flags(value: str) -> list[str]:
    try:
        return shlex.split(value)
    except ValueError as err:
        raise ValueError(f"cannot be split into flags ({err}); check the quotes") from err


def _names(advice: str, pattern: str) -> _Reader:
    """Checks every key of a mapping; its values are already checked."""

    def read(mapping: dict[str, str]) -> dict[str, str]:
        for name in mapping:
            if not re.fullmatch(pattern, name):
                raise ValueError(f"{quote(name)} is not a valid name; {advice}")
        return mapping

    return read


def _commas(value: str) -> list[str]:
    return [part.strip() for part in value.split(",")]


_TEXT = _of(_is(str, "one piece of text"), _line_of_text)
_PATH = _of(_shaped(r"\S.*", "must be a path"), of=_TEXT)
_HOP = _of(_hop, of=_TEXT)
_TOOLCHAIN = {
    "cc": _of(_shaped(r"[^\s\-].*", "must be a compiler command such as gcc-12"), of=_TEXT),
    "cflags": _list_of(_TEXT, _flags),
    "binary": _PATH,
    "sdp": _PATH,
    "build_host": _of(_shaped(r"[^\s\-]\S*", "must be the name of a host in this file"), of=_TEXT),
}
_PLAN = {option.name: _of_kind(option.kind) for option in OPTIONS if option.inventory_path == ("plan",)}


_ENTRY = {
    "address": _of(_address, of=_TEXT),
    "port": _of_kind(integer(1, 65_535)),
    "user": _of(read_user, of=_TEXT),
    "identity_files": _list_of(_PATH, lambda text: [text]),
    "jump": _list_of(_HOP, _commas),
    "via": _of_kind(word_from(Via)),
    "command": _list_of(_of(_client_word, of=_TEXT), _client),
    "host_key": _of_kind(word_from(HostKeyPolicy)),
    "os": _of(_target_word(OSES), of=_TEXT),
    "os_release": _of(
        _shaped(r"[0-9]{1,3}(\.[0-9]{1,5}){0,3}", "must be a QNX release such as 8.0"), of=_TEXT
    ),
    "arch": _of(_target_word(sorted(ARCHES)), of=_TEXT),
    "build": _of_kind(word_from(BuildPlace)),
    "toolchain": _mapping_of(_TOOLCHAIN),
    "workdir": _of(
        _shaped(
            r"(/|~/)(?!.*(^|/)\.\.(/|$)).*[^/].*", "must be an absolute path, or begin with ~/, without `..`"
        ),
        of=_TEXT,
    ),
    "priority": _of_kind(BY_NAME["priority"].kind),
    "lock": _of_kind(word_from(LockPolicy)),
    "cpus": _of_kind(BY_NAME["cpus"].kind),
    "env": _of(
        _names("letters, digits and _ only, no digit first", r"[A-Za-z_][A-Za-z0-9_]*"), of=_each(_TEXT)
    ),
    "labels": _of(_names("letters, digits, dot, dash and _ only", LABEL_KEY), of=_each(_TEXT)),
    "plan": _mapping_of(_PLAN),
}
_NAMES = _list_of(_TEXT, _commas)
_GROUP = _ENTRY | {"hosts": _NAMES, "children": _NAMES}


ENTRY_KEYS, TOOLCHAIN_KEYS, PLAN_KEYS = tuple(_ENTRY), tuple(_TOOLCHAIN), tuple(_PLAN)


_FILE = _mapping_of(
    {
        "defaults": _mapping_of(_ENTRY),
        "groups": _each(_or_nothing(_mapping_of(_GROUP))),
        "hosts": _each(_or_nothing(_mapping_of(_ENTRY))),
        "hosts_from": _of(),  # taken out before
    }
)
