"""The schema of the inventory: keys, types, bounds, what needs trust, and the messages
for what is wrong.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from fleet.addresses import read_address, read_hop, read_user
from fleet.inventory.document import Document, KeyPath, Risk, RiskyValue
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
from fleet.plan import grammars
from fleet.plan.options import BY_NAME, NAME_A_VARIANT, NAMED_BENCHMARKS, OFFERED
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


_IsSafe = Callable[[Any, Path], bool]
"""Takes a converted value and the folder of the file."""


def _never(_value: Any, _folder: Path) -> bool:
    return False


class Key(NamedTuple):
    """The schema of a key's value, and what a value may do that needs trust. is_safe:
    whether this one needs none.
    """

    schema: "_Schema"
    risk: Risk
    is_safe: _IsSafe = _never


_Schema = _Reader | _Items | _Names | Mapping[str, Key]
"""What a value must be. A _Reader is a function that converts the value, or raises
InputError. _Items: a list. _Names: a mapping with any names as keys. A Mapping: a
mapping with these keys, of which none is required.
"""


def check(document: Document) -> dict[str, Any]:
    """Return the document's values, converted by the schema; add invalid ones to its
    problems, and those that need trust to its risky values.
    """
    return _convert(FILE, document.data, (), document) or {}


def convert_entry(name: str, entry: Any, document: Document) -> dict[str, Any]:
    """Return the entry of a host that a program listed, converted as one of `hosts:`;
    add problems to `document`.
    """
    return _convert(ENTRY, entry, ("hosts", name), document) or {}


def _convert(schema: _Schema, value: Any, path: KeyPath, document: Document) -> Any:
    """Return the value at a path, converted by a schema: a list as a tuple, a mapping
    as a dict, anything else by the schema's own function. If it is invalid, add a
    problem and return None.
    """
    try:
        match schema:
            case _Items(item_schema, split):
                if isinstance(value, str):
                    items = split(value)
                else:
                    items = _require(list, "a list", value)
                return tuple(
                    _convert(item_schema, item, (*path, index), document)
                    for index, item in enumerate(items)
                )
            case _Names() | Mapping():
                if value is None:
                    return None  # `key:` with nothing below it sets nothing
                words = "a mapping (lines of `key: value` below it)"
                mapping = _require(dict, words, value)
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
    """Return the converted values of a mapping by key; add a problem for each key that
    the schema does not have, and note values that need trust. A key without a value
    counts as absent.
    """
    if isinstance(schema, _Names):
        return _convert_named_values(schema, mapping, path, document)
    converted: dict[str, Any] = {}
    for key, value in mapping.items():
        here = (*path, key)
        if key not in schema:
            document.reject(here, _unknown_key_message(key, schema))
            continue
        if value is None:
            continue
        item = _convert(schema[key].schema, value, here, document)
        if item is not None:
            converted[key] = item
            _note_risk(schema[key], item, here, document)
    return converted


def _convert_named_values(
    schema: _Names, mapping: Mapping[str, Any], path: KeyPath, document: Document
) -> dict[str, Any]:
    """Return the converted values of a mapping whose keys are names that the user
    chose; add a problem for each name that is invalid, or looks like that of a secret.
    """
    converted: dict[str, Any] = {}
    for name, value in mapping.items():
        here = (*path, name)
        if SECRET.search(name) and not schema.secrets:
            document.reject(here, NO_SECRETS)
        elif not re.fullmatch(schema.pattern, name, re.DOTALL):
            text = f"{quote_short(name)} is not a valid name; {schema.advice}"
            document.reject(path, text)
        # also if the name is refused: its value may be wrong as well
        converted[name] = _convert(schema.schema, value, here, document)
    return converted


def _unknown_key_message(key: str, schema: Mapping[str, Key]) -> str:
    """Return why a key is refused, with the known ones."""
    if SECRET.search(key):
        return NO_SECRETS
    if key == "variant" and "benchmarks" in schema:
        return f"is not an option any more; {NAME_A_VARIANT}: `benchmarks: [cas/c11]`"
    listed = ", ".join(sorted(schema))
    suggestion = suggest_similar(key, schema)  # "; did you mean 'port'?", or "."
    return f"unknown key{suggestion} Known here: {listed}"


def _note_risk(key: Key, value: Any, path: KeyPath, document: Document) -> None:
    """Note a value in the document's risky ones if it is set and needs trust."""
    if key.risk and value and not key.is_safe(value, document.folder):
        document.risky.append(RiskyValue(path, value, key.risk))


def _require(kind: type, words: str, value: Any) -> Any:
    if isinstance(value, kind):
        return value
    names = {dict: "a mapping", list: "a list", type(None): "nothing"}
    actual = names.get(type(value)) or quote_short(str(value))
    raise InputError(f"must be {words}, not {actual}")


def _make_reader(
    convert: Callable[[str], Any] = str, words: str = "one piece of text"
) -> _Reader:
    """Return a reader that takes only a text of one line, and converts the text. words:
    what a value must be, in the error for a value that is no text: "must be one piece
    of text, not a list".
    """

    def read(value: Any) -> Any:
        text = _require(str, words, value)
        if _CONTROL.search(text):
            raise InputError("must be one line of text without control characters")
        return convert(text)

    return read


def _make_grammar_reader(grammar: grammars.Grammar) -> _Reader:
    """Return a reader of an option's value: one text, or a list of texts where the
    grammar is of lists.
    """
    read_text = _make_reader(grammar.read, grammar.allowed)

    def read(value: Any) -> Any:
        if grammar.lists and _is_list_of_texts(value):
            return read_text(",".join(value))
        return read_text(value)

    return read


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _make_pattern_reader(pattern: str, advice: str) -> _Reader:
    """Return a reader of texts that match a pattern. advice: the error for others."""

    def read(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise InputError(f"{advice}; not {quote_short(value)}")
        return value

    return _make_reader(read)


def _read_address(value: str) -> str:
    """Return a host's address, without the brackets of "[::1]". It may have `{name}`,
    which is filled in later. Raises InputError.
    """
    if match := re.fullmatch(r"([^:\[\]]+):([0-9]+)", value):
        raise InputError(
            f"write the port on a line of its own: `address: {match[1]}` and `port:"
            f" {match[2]}`"
        )
    if "@" in value:
        raise InputError("write the user on a line of its own, as `user:`")
    example = value.replace("{name}", "name")
    read_address(example)  # only to see whether that raises an error
    if value.startswith("["):
        return value.removeprefix("[").removesuffix("]")
    return value


def _make_target_reader(words: Iterable[str]) -> _Reader:
    """Return a reader of an OS or an architecture: one of `words`, in any case, or
    another name of such an architecture, as amd64. It returns None for "auto".
    """

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


def _read_source(value: Any) -> str | tuple[str, ...]:
    """Return the name of a program that fleet knows, or the words of a command."""
    from fleet.inventory.clusters import (  # noqa: PLC0415  few inventories need it
        CLUSTERS,
    )

    if isinstance(value, str) and value in CLUSTERS:
        return value
    if not (value and _is_list_of_texts(value)):
        raise InputError(
            f"must be {', '.join(CLUSTERS)}, or a list [PROGRAM, WORD, ...]"
        )
    return tuple(value)


def _reaches_by_ssh_or_here(via: Via, _folder: Path) -> bool:
    return via in (Via.SSH, Via.OPENSSH, Via.LOCAL)


def _keeps_unknown_keys_out(policy: HostKeyPolicy, _folder: Path) -> bool:
    return policy is HostKeyPolicy.STRICT


def _is_inside(results: str, folder: Path) -> bool:
    """Report whether a results root is a folder below this one, links resolved."""
    path = os.path.expanduser(results)  # noqa: PTH111  as the store does
    if ":/" in path or path.startswith("~"):
        return False
    root = os.path.realpath(folder)
    return os.path.commonpath([root, os.path.realpath(folder / path)]) == root


def _split_flags(value: str) -> list[str]:
    """Split flags as a shell does. Raises InputError."""
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
# Toolchains are programs; binaries and what a build host makes run on other hosts.
TOOLCHAIN: Mapping[str, Key] = {
    "cc": Key(
        _make_pattern_reader(r"[^\s\-].*", "must be a compiler command such as gcc-12"),
        Risk.PROGRAM,
    ),
    "cflags": Key(_Items(_make_reader(), _split_flags), Risk.PROGRAM),
    "binary": Key(_PATH, Risk.PROGRAM),
    "sdp": Key(_PATH, Risk.PROGRAM),
    "build_host": Key(
        _make_pattern_reader(r"[^\s\-]\S*", "must be the name of a host in this file"),
        Risk.PROGRAM,
    ),
}
_IN_PLANS = [option for option in OFFERED if option.key[:1] == ("plan",)]
PLAN: Mapping[str, Key] = {
    option.name: Key(_make_grammar_reader(option.grammar), Risk.NONE)
    for option in _IN_PLANS
} | {"benchmarks": Key(_make_grammar_reader(NAMED_BENCHMARKS), Risk.NONE)}
# Keys are offered, and hosts jumped through, only where the host key is known.
ENTRY: Mapping[str, Key] = {
    "address": Key(_make_reader(_read_address), Risk.NONE),
    "port": Key(
        _make_grammar_reader(grammars.make_integer_grammar(1, 65_535)), Risk.NONE
    ),
    "user": Key(_make_reader(read_user), Risk.NONE),
    "identity_files": Key(_Items(_PATH, lambda text: [text]), Risk.NONE),
    "jump": Key(
        _Items(_make_reader(lambda value: read_hop(value) and value), _split_commas),
        Risk.NONE,
    ),
    "via": Key(
        _make_grammar_reader(grammars.make_word_grammar(Via)),
        Risk.PROGRAM,
        _reaches_by_ssh_or_here,
    ),
    "command": Key(
        _Items(_make_reader(_check_client_word), _refuse_client_text), Risk.PROGRAM
    ),
    "host_key": Key(
        _make_grammar_reader(grammars.make_word_grammar(HostKeyPolicy)),
        Risk.HOST_KEY,
        _keeps_unknown_keys_out,
    ),
    "os": Key(_make_target_reader(OSES), Risk.NONE),
    "os_release": Key(
        _make_pattern_reader(
            r"[0-9]{1,3}(\.[0-9]{1,5}){0,3}", "must be a QNX release such as 8.0"
        ),
        Risk.NONE,
    ),
    "arch": Key(_make_target_reader(sorted(ARCHES)), Risk.NONE),
    "build": Key(
        _make_grammar_reader(grammars.make_word_grammar(BuildPlace)), Risk.NONE
    ),
    "toolchain": Key(TOOLCHAIN, Risk.NONE),
    "workdir": Key(
        _make_pattern_reader(
            _WORKDIR, "must be an absolute path, or begin with ~/, without `..`"
        ),
        Risk.FILES,
    ),
    "priority": Key(_make_grammar_reader(BY_NAME["priority"].grammar), Risk.NONE),
    "lock": Key(
        _make_grammar_reader(grammars.make_word_grammar(LockPolicy)), Risk.NONE
    ),
    "require": Key(_make_grammar_reader(grammars.CONDITIONS), Risk.NONE),
    "wait": Key(
        _make_grammar_reader(
            grammars.make_duration_grammar(0, grammars.LONGEST_WAIT_S)
        ),
        Risk.NONE,
    ),
    "before": Key(_COMMANDS, Risk.PROGRAM),
    "after": Key(_COMMANDS, Risk.PROGRAM),
    "cpus": Key(_make_grammar_reader(BY_NAME["cpus"].grammar), Risk.NONE),
    # it can load a library into a program
    "env": Key(
        _Names(
            _make_reader(),
            _ENV_NAME,
            "letters, digits and _ only, no digit first",
            secrets=False,
        ),
        Risk.PROGRAM,
    ),
    "labels": Key(
        _Names(_make_reader(), LABEL_KEY, "letters, digits, dot, dash and _ only"),
        Risk.NONE,
    ),
    "plan": Key(PLAN, Risk.NONE),
}
SETTINGS: Mapping[str, Key] = {
    "connect_timeout": Key(
        _make_grammar_reader(grammars.make_duration_grammar(0.1, 3600)), Risk.NONE
    ),
    "label": Key(_Items(_make_reader(), _split_commas), Risk.NONE),
    "lock": Key(
        _make_grammar_reader(grammars.make_word_grammar(LockPolicy)), Risk.NONE
    ),
    "parallel": Key(
        _make_grammar_reader(grammars.make_integer_grammar(1, 1000)), Risk.NONE
    ),
    "quiet": Key(_make_grammar_reader(grammars.SWITCH), Risk.NONE),
    "reconnect": Key(
        _make_grammar_reader(grammars.make_duration_grammar(0, 86_400)), Risk.NONE
    ),
    "results": Key(_PATH, Risk.RESULTS, _is_inside),
    "verbose": Key(
        _make_grammar_reader(grammars.make_integer_grammar(0, 2)), Risk.NONE
    ),
}
_NAMES = _Items(_make_reader(), _split_commas)
GROUP: Mapping[str, Key] = {
    **ENTRY,
    "hosts": Key(_NAMES, Risk.NONE),
    "children": Key(_NAMES, Risk.NONE),
}
FILE: Mapping[str, Key] = {
    "defaults": Key(ENTRY, Risk.NONE),
    "groups": Key(_Names(GROUP), Risk.NONE),
    "hosts": Key(_Names(ENTRY), Risk.NONE),
    "hosts_from": Key(_read_source, Risk.PROGRAM),
    "fleet": Key(SETTINGS, Risk.NONE),
}
