"""A first inventory.yaml: the commented one `fleet init` writes, or one made from ~/.ssh/config."""

import glob
import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from fleet.addresses import is_address
from fleet.errors import InventoryError
from fleet.hostnames import ALL, NAME

INCLUDE_DEPTH = 16  # as ssh itself


def starter() -> str:
    """The commented inventory to start from; as it is, it measures this machine."""
    return Path(__file__).with_name("starter.yaml").read_text(encoding="utf-8")


def written(
    origin: str,
    left_out: Iterable[str],
    hosts: Mapping[str, Mapping[str, object]],
    defaults: Mapping[str, object] = MappingProxyType({}),
    groups: Mapping[str, object] = MappingProxyType({}),
) -> str:
    """An inventory of these hosts that begins as `starter`; comments say where they are from."""
    lines = [starter().partition("\n\n")[0], "", f"# {comment(origin)}"]
    lines += [f"# {comment(text)}" for text in left_out]
    for title, entries in (("defaults", defaults), ("groups", groups), ("hosts", hosts)):
        lines += ["", f"{title}:"] if entries else []
        for key, value in entries.items():
            name = key if title == "defaults" else as_yaml(key)
            lines.append(f"  {name}: {as_yaml(value)}" if value else f"  {name}:")
    return "\n".join(lines) + "\n"


def as_yaml(value: object) -> str:
    """A value as YAML on one line: JSON, with unprintable characters escaped as YAML does."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(sign if sign.isprintable() else f"\\U{ord(sign):08x}" for sign in text)


def from_ssh_config(path: Path) -> str:
    """An inventory of the hosts of an ssh_config, by alias, with its Includes. Raises InventoryError."""
    found = _Found()
    _read(path, found, 0)
    origin = f"Hosts of {path}, which still sets their address, port, user and keys."
    left_out = [f"Not carried over: {text}" for text in found.left_out]
    hosts = {name: {"address": alias} if name != alias else {} for name, alias in found.hosts.items()}
    if not hosts:
        left_out.append("The file names no host; this is the local machine.")
        hosts["localhost"] = {"via": "local"}
    return written(origin, left_out, hosts)


def write_new(path: Path, text: str) -> None:
    """Write `text` to a file that must not exist yet. Raises InventoryError if it does, or cannot be made."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as err:
        raise InventoryError(f"{path}: already exists and is not overwritten. Move it away first.") from err
    except OSError as err:
        raise InventoryError(f"{path}: cannot be written: {err.strerror}. Choose another directory.") from err


@dataclass(slots=True)
class _Found:
    """Aliases by their name in the inventory, and the entries left out."""

    hosts: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


def _read(path: Path, found: _Found, depth: int) -> None:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as err:
        if depth == 0:
            raise InventoryError(f"{path}: cannot be read: {err.strerror}") from err
        found.left_out.append(f"Include {path}: {err.strerror}")
        return
    for number, line in enumerate(lines, start=1):
        _take(line, f"{path}:{number}", found, depth)


def _take(line: str, where: str, found: _Found, depth: int) -> None:
    keyword, words = _words(line)
    match keyword:
        case "host":
            for alias in words:
                _take_alias(alias, where, found)
        case "match":
            found.left_out.append(f"{where}: Match {' '.join(words)} (ssh itself still applies it)")
        case "include":
            for included in _included(words):
                if depth >= INCLUDE_DEPTH:
                    found.left_out.append(f"{where}: Include {included}, nested too deeply")
                else:
                    _read(included, found, depth + 1)


def _words(line: str) -> tuple[str, list[str]]:
    """Split `Keyword a b` or `Keyword=a b` as ssh_config(5) specifies; ("", []) for comments and blanks."""
    found = re.match(r"\s*([A-Za-z][A-Za-z0-9]*)(?:\s*=\s*|\s+)(.*)", line)
    if not found:
        return "", []
    try:
        words = shlex.split(found[2], comments=True)
    except ValueError:
        words = found[2].split()
    return found[1].lower(), words


def _take_alias(alias: str, where: str, found: _Found) -> None:
    if alias.startswith("!") or "*" in alias or "?" in alias:
        return
    name = re.sub(r"[^A-Za-z0-9._-]", "-", alias).lstrip("._-")[:100]
    if not (NAME.fullmatch(name) and name != ALL and is_address(alias)):
        found.left_out.append(f"{where}: Host {alias}, which is not a valid name")
    elif alias in found.hosts.values():
        return
    elif name.casefold() in {taken.casefold() for taken in found.hosts}:
        found.left_out.append(
            f"{where}: Host {alias}, which differs from another only by case or punctuation"
        )
    else:
        found.hosts[name] = alias


def _included(words: list[str]) -> Iterator[Path]:
    """The files an Include names; relative ones are in ~/.ssh, as ssh_config(5) specifies."""
    for word in words:
        pattern = os.path.join(Path.home(), ".ssh", os.path.expanduser(word))  # noqa: PTH111, PTH118
        yield from (Path(name) for name in sorted(glob.glob(pattern)))  # noqa: PTH207  absolute patterns


def comment(text: object) -> str:
    """Foreign text as part of a comment, without anything that could end the line."""
    return "".join(sign if sign.isprintable() else "?" for sign in str(text))
