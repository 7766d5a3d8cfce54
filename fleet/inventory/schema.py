"""The schema of the inventory: keys, types, bounds and the messages for what is wrong.

Uses pydantic's engine without its model layer: importing `pydantic.BaseModel` alone takes longer than
`fleet hosts` may take in all (docs/decisions.md has the numbers).
"""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic_core import SchemaValidator, ValidationError
from pydantic_core import core_schema as cs

from fleet.inventory.document import Document, Path
from fleet.model import ARCHES, OSES, BuildPlace, HostKeyPolicy, LockPolicy, Via, arch_named
from fleet.plan.options import BY_NAME, OPTIONS, Option
from fleet.text import LABEL_KEY, nearest

SECRET = re.compile(r"pass(word|phrase|wd)|secret|token|credential|private_?key|api_?key", re.IGNORECASE)
NO_SECRETS = "this file must hold no secret; use an SSH agent, or a key file named in `identity_files`"
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
_Reader = Callable[[Any], Any]


def check(document: Document) -> dict[str, Any]:
    """The document's values, each of its type and under a known key; problems are added to `document`."""
    data = _without_secrets(document, document.data, ())
    try:
        return dict(_FILE.validate_python(data))
    except ValidationError as err:
        for error in err.errors(include_url=False, include_context=True):
            path = tuple(error["loc"])
            document.problem(path, _words(error, path))
    return {}


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


def _words(error: Mapping[str, Any], path: Path) -> str:
    """The message for one of the engine's errors, with what to do."""
    context, kind = error.get("ctx", {}), str(error["type"])
    if kind == "value_error":
        return str(context["error"])
    if kind == "extra_forbidden":
        known = _known_keys(path[:-1])
        return f"unknown key{nearest(str(path[-1]), known)} Known here: {', '.join(sorted(known))}"
    expected = str(context.get("expected", "")).replace("'", "")
    bound = context.get("ge", context.get("le"))
    must_be = _MUST_BE.get(kind, str(error["msg"])).format(expected=expected, bound=bound)
    return f"must be {must_be}, not {_kind(error['input'])}"


_MUST_BE = {
    "greater_than_equal": "at least {bound}",
    "less_than_equal": "at most {bound}",
    "literal_error": "{expected}",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "string_type": "one piece of text",
    "dict_type": "a mapping (lines of `key: value` below it)",
    "list_type": "a list",
}


def _known_keys(path: Path) -> tuple[str, ...]:
    """The keys allowed where `path` leads."""
    if not path:
        return ("defaults", "groups", "hosts", "hosts_from")
    inner = {"toolchain": _TOOLCHAIN, "plan": _PLAN}.get(str(path[-1]))
    if inner is not None and len(path) > 1:
        return tuple(inner)
    return tuple(_ENTRY) + (("hosts", "children") if path[0] == "groups" else ())


def _kind(value: Any) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    return "nothing" if value is None else _quoted(str(value))


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _of(schema: Any, *readers: _Reader) -> Any:
    """The schema, with functions that convert its value or raise ValueError with a message for the user."""
    for reader in readers:
        schema = cs.no_info_after_validator_function(reader, schema)
    return schema


def _list_of(item: Any, split: _Reader) -> Any:
    """A list, or one text that `split` makes into a list."""

    def as_list(value: Any) -> Any:
        return split(value) if isinstance(value, str) else value

    return cs.no_info_before_validator_function(as_list, _of(cs.list_schema(item), tuple))


def _whole(low: int, high: int) -> Any:
    return cs.no_info_before_validator_function(_decimal, cs.int_schema(ge=low, le=high))


def _decimal(value: Any) -> Any:
    if isinstance(value, str) and not re.fullmatch(r"-?(0|[1-9][0-9]{0,17})", value):
        raise ValueError(f"must be a whole number without leading zeros, not {_quoted(value)}")
    return value


def _one_of(kind: Any) -> Any:
    return _of(cs.literal_schema([str(member) for member in kind]), kind)


def _line_of_text(value: str) -> str:
    if _CONTROL.search(value):
        raise ValueError("must be one line of text without control characters")
    return value


def _shaped(pattern: str, advice: str) -> _Reader:
    compiled = re.compile(pattern)

    def shaped(value: str) -> str:
        if not compiled.fullmatch(value):
            raise ValueError(f"{advice}; not {_quoted(value)}")
        return value

    return shaped


def _address(value: str) -> str:
    if found := re.fullmatch(r"([^:\[\]]+):([0-9]+)", value):
        raise ValueError(f"write the port on a line of its own: `address: {found[1]}` and `port: {found[2]}`")
    if "@" in value:
        raise ValueError("write the user on a line of its own, as `user:`")
    if not re.fullmatch(r"[^\s\-][^\s]*", value):
        raise ValueError(f"must be a name or an IP address, not {_quoted(value)}")
    return value[1:-1] if value.startswith("[") and value.endswith("]") else value


def _hop(value: str) -> str:
    user = r"([^\s@:,\-][^\s@:,]*@)?"
    host = r"(\[[0-9A-Fa-f:.%\w]+\]|[^\s@:,\[\]\-][^\s@:,\[\]]*)"
    if not re.fullmatch(f"{user}{host}(:[0-9]{{1,5}})?", value):
        raise ValueError("each hop must read [user@]host[:port]; no password may stand in it")
    return value


def _target_word(known: Iterable[str]) -> _Reader:
    def read(value: str) -> str | None:
        word = arch_named(value.lower()) or value.lower()
        if word == "auto":
            return None
        if word not in known:
            raise ValueError(f"must be auto or one of {', '.join(known)}; not {_quoted(value)}")
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


def _plan_option(option: Option) -> Any:
    """The schema of a plan option: one text, or a list of texts where the option takes a list."""

    def read(value: Any) -> Any:
        if option.kind.lists and isinstance(value, list) and all(isinstance(item, str) for item in value):
            value = ",".join(value)
        if not isinstance(value, str):
            raise ValueError(f"must be {option.kind.allowed}, not {_kind(value)}")  # noqa: TRY004  pydantic's
        return option.kind.read(_line_of_text(value))

    return cs.no_info_plain_validator_function(read)


def _names(advice: str, pattern: str) -> _Reader:
    """Checks every key of a mapping; its values are already checked."""
    compiled = re.compile(pattern)

    def read(mapping: dict[str, str]) -> dict[str, str]:
        for name in mapping:
            if not compiled.fullmatch(name):
                raise ValueError(f"{_quoted(name)} is not a valid name; {advice}")
        return mapping

    return read


def _commas(value: str) -> list[str]:
    return [part.strip() for part in value.split(",")]


_TEXT = _of(cs.str_schema(), _line_of_text)
_WORD = _of(_TEXT, _shaped(r"[a-z0-9][a-z0-9_-]*", "must be a name in lower case"))
_PATH = _of(_TEXT, _shaped(r"\S.*", "must be a path"))
_HOP = _of(_TEXT, _hop)
_TOOLCHAIN = {
    "cc": _of(_TEXT, _shaped(r"[^\s\-].*", "must be a compiler command such as gcc-12")),
    "cflags": _list_of(_TEXT, _flags),
    "binary": _PATH,
    "sdp": _PATH,
    "build_host": _of(_TEXT, _shaped(r"[^\s\-]\S*", "must be the name of a host in this file")),
}
_PLAN = {option.name: _plan_option(option) for option in OPTIONS if option.below == ("plan",)}


def _mapping_of(fields: Mapping[str, Any]) -> Any:
    """A mapping with these keys only, none required; a key without a value is ignored."""
    optional = {
        name: cs.typed_dict_field(cs.nullable_schema(schema), required=False)
        for name, schema in fields.items()
    }
    mapping = cs.typed_dict_schema(optional, extra_behavior="forbid")
    return _of(mapping, lambda mapping: {key: value for key, value in mapping.items() if value is not None})


_ENTRY = {
    "address": _of(_TEXT, _address),
    "port": _whole(1, 65_535),
    "user": _of(_TEXT, _shaped(r"[^\s:\-][^\s:]*", "must be a user name")),
    "identity_files": _list_of(_PATH, lambda text: [text]),
    "jump": _list_of(_HOP, _commas),
    "via": _one_of(Via),
    "command": _list_of(_of(_TEXT, _client_word), _client),
    "host_key": _one_of(HostKeyPolicy),
    "os": _of(_TEXT, _target_word(OSES)),
    "os_release": _of(_TEXT, _shaped(r"[0-9]{1,3}(\.[0-9]{1,5}){0,3}", "must be a QNX release such as 8.0")),
    "arch": _of(_TEXT, _target_word(sorted(ARCHES))),
    "build": _one_of(BuildPlace),
    "toolchain": _mapping_of(_TOOLCHAIN),
    "workdir": _of(
        _TEXT,
        _shaped(
            r"(/|~/)(?!.*(^|/)\.\.(/|$)).*[^/].*", "must be an absolute path, or begin with ~/, without `..`"
        ),
    ),
    "priority": _plan_option(BY_NAME["priority"]),
    "lock": _one_of(LockPolicy),
    "cpus": _plan_option(BY_NAME["cpus"]),
    "env": _of(
        cs.dict_schema(cs.str_schema(), _TEXT),
        _names("letters, digits and _ only, no digit first", r"[A-Za-z_][A-Za-z0-9_]*"),
    ),
    "labels": _of(
        cs.dict_schema(cs.str_schema(), _TEXT),
        _names("letters, digits, dot, dash and _ only", LABEL_KEY),
    ),
    "plan": _mapping_of(_PLAN),
}
_NAMES = _list_of(_TEXT, _commas)
_GROUP = _ENTRY | {"hosts": _NAMES, "children": _NAMES}


ENTRY_KEYS, TOOLCHAIN_KEYS, PLAN_KEYS = tuple(_ENTRY), tuple(_TOOLCHAIN), tuple(_PLAN)


def _named(schema: Any) -> Any:
    return cs.dict_schema(cs.str_schema(), cs.nullable_schema(schema))


_FILE = SchemaValidator(
    _mapping_of(
        {
            "defaults": _mapping_of(_ENTRY),
            "groups": _named(_mapping_of(_GROUP)),
            "hosts": _named(_mapping_of(_ENTRY)),
        }
    )
)
