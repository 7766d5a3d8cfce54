"""The schema of the inventory: keys, types, bounds and the messages for what is
wrong.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

from fleet.addresses import read_address, read_hop, read_user
from fleet.inventory.document import Document, KeyPath
from fleet.model import (
    ARCHES,
    OSES,
    BuildPlace,
    HostKeyPolicy,
    InputError,
    LockPolicy,
    Via,
    normalize_arch,
)
from fleet.plan import kinds
from fleet.plan.options import BY_NAME, OPTIONS
from fleet.text import LABEL_KEY, quote_short, suggest_similar

SECRET = re.compile(
    r"pass(word|phrase|wd)|secret|token|credential|private_?key|api_?key", re.IGNORECASE
)
NO_SECRETS = (
    "this file must hold no secret; use an SSH agent, or a key file named in"
    " `identity_files`"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
_Reader = Callable[[Any], Any]
"""Converts a value, or raises InputError with a message for the user."""


class _Items(NamedTuple):
    """The schema of a list, or of a text that `split` turns into one. read: converts
    each item.
    """

    read: _Reader
    split: Callable[[str], list[str]]


class _Names(NamedTuple):
    """The schema of a mapping from names to values. pattern: of valid names. advice:
    how to write one.
    """

    schema: "_Schema"
    pattern: str = ".*"
    advice: str = ""
    secrets: bool = True  # whether a name may look like that of a secret


_Schema = _Reader | _Items | _Names | Mapping[str, Any]
"""A Mapping holds the schema of each known key. No key is required."""


def check(document: Document) -> dict[str, Any]:
    """Return the document's values, converted by the schema; add problems to `document`
    for invalid ones.
    """
    return _convert(_FILE, document.data, (), document) or {}


def convert_settings(document: Document) -> dict[str, Any]:
    """Return the values of the table `fleet:`, by parameter; add problems to
    `document`.
    """
    return _convert(SETTINGS, document.data.get("fleet"), ("fleet",), document) or {}


def _convert(schema: _Schema, value: Any, path: KeyPath, document: Document) -> Any:
    """Return the value at a path, converted by a schema. If it is invalid, add a
    problem and return None.
    """
    try:
        match schema:
            case _Items(read, split):
                items = (
                    split(value)
                    if isinstance(value, str)
                    else _require(list, "a list", value)
                )
                return tuple(
                    _convert(read, item, (*path, n), document)
                    for n, item in enumerate(items)
                )
            case Mapping() if value is None:
                return None
            case _Names() | Mapping():
                mapping = _require(
                    dict, "a mapping (lines of `key: value` below it)", value
                )
                return _convert_mapping(schema, mapping, path, document)
            case read:
                return read(value)
    except InputError as err:
        document.reject(path, str(err))
    return None


def _convert_mapping(
    schema: _Names | Mapping[str, Any],
    mapping: Mapping[str, Any],
    path: KeyPath,
    document: Document,
) -> dict[str, Any]:
    converted = {}
    for key, value in mapping.items():
        here = (*path, key)
        if isinstance(schema, _Names):
            if SECRET.search(key) and not schema.secrets:
                document.reject(here, NO_SECRETS)
            elif not re.fullmatch(schema.pattern, key, re.DOTALL):
                document.reject(
                    path, f"{quote_short(key)} is not a valid name; {schema.advice}"
                )
            converted[key] = _convert(schema.schema, value, here, document)
        elif key in schema:
            item = (
                None if value is None else _convert(schema[key], value, here, document)
            )
            converted |= {} if item is None else {key: item}
        elif SECRET.search(key):
            document.reject(here, NO_SECRETS)
        else:
            advice = (
                f"{suggest_similar(key, schema)} Known here:"
                f" {', '.join(sorted(schema))}"
            )
            document.reject(here, f"unknown key{advice}")
    return converted


def _require(kind: type, words: str, value: Any) -> Any:
    if isinstance(value, kind):
        return value
    names = {dict: "a mapping", list: "a list", type(None): "nothing"}
    raise InputError(
        f"must be {words}, not {names.get(type(value)) or quote_short(str(value))}"
    )


def _make_reader(
    convert: Callable[[str], Any] = str, words: str = "one piece of text"
) -> _Reader:
    """Return a reader that requires one line of text and converts it. words: its name
    in an error.
    """

    def read(value: Any) -> Any:
        if _CONTROL.search(_require(str, words, value)):
            raise InputError("must be one line of text without control characters")
        return convert(value)

    return read


def _make_kind_reader(kind: kinds.Kind) -> _Reader:
    """Return a reader of an option's value: one text, or a list of texts where the kind
    is a list.
    """
    read_text = _make_reader(kind.read, kind.allowed)

    def read(value: Any) -> Any:
        is_list = (
            kind.lists
            and isinstance(value, list)
            and all(isinstance(item, str) for item in value)
        )
        return read_text(",".join(value) if is_list else value)

    return read


def _make_pattern_reader(pattern: str, advice: str) -> _Reader:
    def read(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise InputError(f"{advice}; not {quote_short(value)}")
        return value

    return _make_reader(read)


def _read_address(value: str) -> str:
    if match := re.fullmatch(r"([^:\[\]]+):([0-9]+)", value):
        raise InputError(
            f"write the port on a line of its own: `address: {match[1]}` and `port:"
            f" {match[2]}`"
        )
    if "@" in value:
        raise InputError("write the user on a line of its own, as `user:`")
    read_address(value.replace("{name}", "name"))
    return value[1:-1] if value.startswith("[") else value


def _make_target_reader(words: Iterable[str]) -> _Reader:
    def read(value: str) -> str | None:
        word = normalize_arch(value.lower()) or value.lower()
        if word == "auto":
            return None
        if word not in words:
            raise InputError(
                f"must be auto or one of {', '.join(words)}; not {quote_short(value)}"
            )
        return word

    return _make_reader(read)


def _refuse_client_text(value: str) -> NoReturn:
    words = value.split() or ["docker", "exec", "-i", "{address}"]
    raise InputError(f"must be a list, since no shell splits it: [{', '.join(words)}]")


def _check_client_word(value: str) -> str:
    if any(SECRET.search(name) for name in re.findall(r"\{env:([^}]*)", value)):
        raise InputError(
            "must not hold a secret: every user can read a program's arguments"
        )
    return value


def _split_flags(value: str) -> list[str]:
    try:
        return shlex.split(value)
    except ValueError as err:
        raise InputError(
            f"cannot be split into flags ({err}); check the quotes"
        ) from err


def _split_commas(value: str) -> list[str]:
    return [part.strip() for part in value.split(",")]


_PATH = _make_pattern_reader(r"\S.*", "must be a path")
_COMMANDS = _Items(
    _make_pattern_reader(r".*\S.*", "must be a command"), lambda text: [text]
)
_WORKDIR = r"(/|~/)(?!.*(^|/)\.\.(/|$)).*[^/].*"
_ENV_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
TOOLCHAIN: Mapping[str, _Schema] = {
    "cc": _make_pattern_reader(
        r"[^\s\-].*", "must be a compiler command such as gcc-12"
    ),
    "cflags": _Items(_make_reader(), _split_flags),
    "binary": _PATH,
    "sdp": _PATH,
    "build_host": _make_pattern_reader(
        r"[^\s\-]\S*", "must be the name of a host in this file"
    ),
}
_IN_PLANS = [option for option in OPTIONS if option.key[:1] == ("plan",)]
PLAN: Mapping[str, _Schema] = {
    option.name: _make_kind_reader(option.kind) for option in _IN_PLANS
}
ENTRY: Mapping[str, _Schema] = {
    "address": _make_reader(_read_address),
    "port": _make_kind_reader(kinds.make_integer_kind(1, 65_535)),
    "user": _make_reader(read_user),
    "identity_files": _Items(_PATH, lambda text: [text]),
    "jump": _Items(
        _make_reader(lambda value: read_hop(value) and value), _split_commas
    ),
    "via": _make_kind_reader(kinds.make_word_kind(Via)),
    "command": _Items(_make_reader(_check_client_word), _refuse_client_text),
    "host_key": _make_kind_reader(kinds.make_word_kind(HostKeyPolicy)),
    "os": _make_target_reader(OSES),
    "os_release": _make_pattern_reader(
        r"[0-9]{1,3}(\.[0-9]{1,5}){0,3}", "must be a QNX release such as 8.0"
    ),
    "arch": _make_target_reader(sorted(ARCHES)),
    "build": _make_kind_reader(kinds.make_word_kind(BuildPlace)),
    "toolchain": TOOLCHAIN,
    "workdir": _make_pattern_reader(
        _WORKDIR, "must be an absolute path, or begin with ~/, without `..`"
    ),
    "priority": _make_kind_reader(BY_NAME["priority"].kind),
    "lock": _make_kind_reader(kinds.make_word_kind(LockPolicy)),
    "require": _make_kind_reader(kinds.CONDITIONS),
    "wait": _make_kind_reader(kinds.make_duration_kind(0, kinds.LONGEST_WAIT_S)),
    "before": _COMMANDS,
    "after": _COMMANDS,
    "cpus": _make_kind_reader(BY_NAME["cpus"].kind),
    "env": _Names(
        _make_reader(),
        _ENV_NAME,
        "letters, digits and _ only, no digit first",
        secrets=False,
    ),
    "labels": _Names(
        _make_reader(), LABEL_KEY, "letters, digits, dot, dash and _ only"
    ),
    "plan": PLAN,
}
SETTINGS: Mapping[str, _Schema] = {
    "connect_timeout": _make_kind_reader(kinds.make_duration_kind(0.1, 3600)),
    "label": _Items(_make_reader(), _split_commas),
    "lock": _make_kind_reader(kinds.make_word_kind(LockPolicy)),
    "parallel": _make_kind_reader(kinds.make_integer_kind(1, 1000)),
    "quiet": _make_kind_reader(kinds.SWITCH),
    "reconnect": _make_kind_reader(kinds.make_duration_kind(0, 86_400)),
    "results": _PATH,
    "verbose": _make_kind_reader(kinds.make_integer_kind(0, 2)),
}
_NAMES = _Items(_make_reader(), _split_commas)
_FILE: Mapping[str, _Schema] = {
    "defaults": ENTRY,
    "groups": _Names({**ENTRY, "hosts": _NAMES, "children": _NAMES}),
    "hosts": _Names(ENTRY),
    "hosts_from": lambda _: None,  # taken out before
    "fleet": lambda _: None,  # read by `convert_settings`
}
