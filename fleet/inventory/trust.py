"""Decides whether an inventory that the user did not name may do what needs trust."""

import glob
import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from fleet.errors import InventoryError
from fleet.inventory.document import Document, Risk, RiskyValue, format_path
from fleet.inventory.gate import read_bounded
from fleet.store.files import store_errors, user_state_dir

_PIECE = re.compile(r"[^\s'\"`=:,;|&<>()$]+")  # of a command line
_TEMPLATE = re.compile(r"\{[^{}]*\}")
_PROGRAM_LIMIT_BYTES = 64 << 20


def require_trust(document: Document, risky: list[RiskyValue]) -> None:
    """Raise InventoryError if there are values that need trust, and the inventory and
    the files it names are not as they were when the user trusted them.
    """
    if not risky or _is_trusted(document):
        return
    first = min(risky, key=lambda value: document.line(value.path))
    raise InventoryError(
        f"{describe_risk(document, first)}, and this file is neither trusted nor named."
        f" Read it, then trust it: `fleet trust {document.path}`, or name it:"
        f" `FLEET_INVENTORY={document.path}`."
    )


def describe_risk(document: Document, risky: RiskyValue) -> str:
    """Return a value that needs trust, with its line and why, such as
    `inventory.yaml:7: hosts_from: ["./list"]: this would start a program`.
    """
    setting = format_path(risky.path)
    is_environment = risky.path[-1] == "env"
    # an address of results may be user:password@…
    may_have_password = risky.risk is Risk.RESULTS and "@" in risky.value
    if not is_environment and not may_have_password:
        value = json.dumps(risky.value, ensure_ascii=False)
        setting = f"{setting}: {value}"
    line = document.line(risky.path)
    return f"{document.path}:{line}: {setting}: this {risky.risk}"


def trust(document: Document) -> None:
    """Trust an inventory as long as it and the files that it names stay as they are.
    Raises StoreError, and InventoryError for a file that cannot be read.
    """
    record = _find_record(document)
    content = _describe_content(document)
    with store_errors(f"trust {document.path}", record):
        record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        record.write_text(content, "utf-8", "surrogateescape")


def _is_trusted(document: Document) -> bool:
    with suppress(OSError):
        trusted = _find_record(document).read_text("utf-8", "surrogateescape")
        return trusted == _describe_content(document)
    return False


def _find_record(document: Document) -> Path:
    real = os.fsencode(os.path.realpath(document.path))
    return user_state_dir() / "trusted" / sha256(real).hexdigest()


def _describe_content(document: Document) -> str:
    """Return a line with a checksum for the inventory and one for each file it names,
    as `sha256sum` prints them.
    """
    digest = sha256(document.text.encode()).hexdigest()
    lines = [f"{digest}  {document.path.name}\n"]
    for name in list_named_files(document):
        try:
            # only a file that the user named may be a pipe
            content = read_bounded(
                document.folder / name, _PROGRAM_LIMIT_BYTES, is_named=False
            )
        except OSError as err:
            raise InventoryError(
                f"{document.path} names {name}, which cannot be read: {err}"
            ) from err
        digest = sha256(content).hexdigest()
        lines.append(f"{digest}  {name}\n")
    return "".join(lines)


def list_named_files(document: Document) -> list[str]:
    """Return the files in the inventory's folder that any word in it names, such as
    list.sh in `[sh, -c, ./list.sh]` and in `./{name}.sh`.
    """
    pieces: set[str] = set()
    for text in _list_texts(document.data):
        pieces.add(text)
        pieces.update(_PIECE.findall(text))
    names: set[str] = set()
    for piece in pieces:
        names.update(_find_files(piece, document.folder))
    return sorted(names)


def _find_files(piece: str, folder: Path) -> Iterator[str]:
    """Yield the files that a piece of text may name, as paths relative to the
    inventory's folder. A template such as `{name}` may become any text.

    An absolute path counts only if it leads into the folder, since others, as
    `/bin/sh`, do not come with the inventory. A relative path counts even if it leads
    out of the folder.
    """
    path = os.path.expanduser(piece)  # noqa: PTH111  raises nothing
    escaped = glob.escape(path)  # which leaves the braces of templates
    pattern = _TEMPLATE.sub("*", escaped)
    # a template alone would name all files
    if pattern == "*" or "\0" in pattern:
        return
    for name in glob.glob(pattern, root_dir=folder):  # noqa: PTH207  also absolute ones
        relative = os.path.relpath(folder / name, folder)
        leads_out = relative.startswith("..")
        if leads_out and Path(name).is_absolute():
            continue
        if os.path.isfile(folder / name):  # noqa: PTH113  raises nothing
            yield relative


def _list_texts(value: Any) -> Iterator[str]:
    """Yield every key and every text of parsed YAML."""
    match value:
        case dict():
            for key, item in value.items():
                yield key
                yield from _list_texts(item)
        case list():
            for item in value:
                yield from _list_texts(item)
        case str():
            yield value
