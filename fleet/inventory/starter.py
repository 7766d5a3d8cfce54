"""Writes a first inventory.yaml: a commented one, one of given hosts, or one made from
~/.ssh/config.
"""

import glob
import json
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from fleet.addresses import is_address
from fleet.errors import InventoryError
from fleet.home import expand_home
from fleet.hostnames import ALL, NAME
from fleet.inventory.gate import read_bounded

INCLUDE_DEPTH = 16  # as ssh itself
_SIZE_LIMIT_BYTES = 8 << 20


def read_starter() -> str:
    """Return the commented inventory to start from. Unedited, it measures this
    machine.
    """
    return Path(__file__).with_name("starter.yaml").read_text(encoding="utf-8")


def render_inventory(
    origin: str,
    left_out: Iterable[str],
    hosts: Mapping[str, Mapping[str, object]],
    defaults: Mapping[str, object] = MappingProxyType({}),
    groups: Mapping[str, object] = MappingProxyType({}),
) -> str:
    """Render an inventory of these hosts below the starter's head; origin and left_out
    become comments.
    """
    # the head ends at the first blank line
    head, _, _ = read_starter().partition("\n\n")
    comments = [f"# {as_comment(text)}" for text in (origin, *left_out)]
    lines = [
        head,
        "",
        *comments,
        *_render_table("defaults", defaults),
        *_render_table("groups", groups),
        *_render_table("hosts", hosts),
    ]
    return "\n".join(lines) + "\n"


def _render_table(title: str, entries: Mapping[str, object]) -> list[str]:
    """Return the lines of a table, with a blank one above; none if it is empty."""
    if not entries:
        return []
    lines = ["", f"{title}:"]
    for key, value in entries.items():
        # keys of defaults are ours; names are foreign text
        name = key if title == "defaults" else as_yaml(key)
        line = f"  {name}:"
        if value:
            line += f" {as_yaml(value)}"
        lines.append(line)
    return lines


def as_yaml(value: object) -> str:
    """Render a value as YAML on one line: JSON, with unprintable characters escaped as
    YAML does.
    """
    text = json.dumps(value, ensure_ascii=False)
    return "".join(
        sign if sign.isprintable() else f"\\U{ord(sign):08x}" for sign in text
    )


def as_comment(text: object) -> str:
    """Make foreign text safe for a comment: replace each unprintable character, such as
    a newline, by "?".
    """
    return "".join(sign if sign.isprintable() else "?" for sign in str(text))


def as_name(text: str, taken: Collection[str]) -> str:
    """Turn a name that another program gives into the name of a host or group: special
    characters become dashes. Return "" if that is no name, or if it is taken.

    taken: the names that are taken, casefolded.
    """
    plain = re.sub(r"[^A-Za-z0-9._-]", "-", text)
    name = plain.lstrip("._-")[:100]
    if not NAME.fullmatch(name) or name == ALL:
        return ""
    if name.casefold() in taken:
        return ""
    return name


def from_ssh_config(path: Path) -> str:
    """Render an inventory of the hosts of an ssh_config and its Includes, by alias.
    Raises InventoryError.
    """
    names: dict[str, str] = {}  # by alias: the name of its host
    left_out: list[str] = []
    for where, alias in _read_origins_and_aliases(path, left_out):
        is_pattern = alias.startswith("!") or "*" in alias or "?" in alias
        if is_pattern or alias in names:
            continue
        # `as_name` returns "" if no name can be made, or if the name is taken
        can_be_name = bool(as_name(alias, taken=()))
        if not can_be_name or not is_address(alias):
            left_out.append(f"{where}: Host {alias}, which is not a valid name")
            continue
        # another alias may have made the same name before
        taken = {name.casefold() for name in names.values()}
        name = as_name(alias, taken)
        if name:
            names[alias] = name
        else:
            left_out.append(
                f"{where}: Host {alias}, which differs from another only by case or"
                " punctuation"
            )
    origin = f"Hosts of {path}, which still sets their address, port, user and keys."
    left_out = [f"Not carried over: {text}" for text in left_out]
    hosts: dict[str, dict[str, object]] = {}
    for alias, name in names.items():
        hosts[name] = {} if name == alias else {"address": alias}
    if not hosts:
        left_out.append("The file names no host; this is the local machine.")
        hosts["localhost"] = {"via": "local"}
    return render_inventory(origin, left_out, hosts)


def _read_origins_and_aliases(
    path: Path, left_out: list[str], depth: int = 0
) -> Iterator[tuple[str, str]]:
    """Yield "file:line" and each Host alias of an ssh_config and its Includes. Add to
    `left_out` what is not read. Raises InventoryError.

    depth: how many Includes lead to this file.
    """
    try:
        # only a file that the user named may be a pipe
        raw = read_bounded(path, _SIZE_LIMIT_BYTES, is_named=False)
    except OSError as err:
        why = err.strerror or err
        if depth == 0:
            raise InventoryError(f"{path}: cannot be read: {why}") from err
        left_out.append(f"Include {path}: {why}")
        return
    text = raw.decode(errors="replace")
    for number, line in enumerate(text.splitlines(), start=1):
        where = f"{path}:{number}"
        match _split_line(line):
            case "host", words:
                yield from ((where, alias) for alias in words)
            case "match", words:
                left_out.append(
                    f"{where}: Match {' '.join(words)} (ssh itself still applies it)"
                )
            case "include", words:
                for file in _expand_include(words):
                    if depth < INCLUDE_DEPTH:
                        yield from _read_origins_and_aliases(file, left_out, depth + 1)
                    else:
                        left_out.append(f"{where}: Include {file}, nested too deeply")


def _split_line(line: str) -> tuple[str, list[str]]:
    """Split `Keyword a b` or `Keyword=a b` as ssh_config(5) specifies; ("", []) for
    comments and blanks.
    """
    match = re.match(r"\s*([A-Za-z][A-Za-z0-9]*)(?:\s*=\s*|\s+)(.*)", line)
    if not match:
        return "", []
    try:
        words = shlex.split(match[2], comments=True)
    except ValueError:
        words = match[2].split()
    return match[1].lower(), words


def _expand_include(words: Iterable[str]) -> Iterator[Path]:
    """Yield the files an Include names; relative ones are in ~/.ssh, as ssh_config(5)
    specifies.
    """
    folder = Path(expand_home("~/.ssh"))
    for word in words:
        pattern = str(folder / expand_home(word))
        names = glob.glob(pattern)  # noqa: PTH207  absolute patterns
        yield from map(Path, sorted(names))
