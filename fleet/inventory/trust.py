"""Whether an inventory that lies in the current folder, and that nobody named, may start programs."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from fleet.errors import InventoryError
from fleet.inventory.document import Document, dotted
from fleet.store.files import user_state_dir

_STARTS = ("command", "env", "toolchain")  # keys of an entry; `env` can load a library into a program


def list_programs(document: Document) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each key that says which programs to start, or how."""
    for path, line in document.lines.items():
        entry = path[:-1]
        if path == ("hosts_from",) or (path[-1:] and path[-1] in _STARTS and _is_entry(entry)):
            value: Any = document.data
            for key in path:
                value = value[key]
            shown = (
                f": {json.dumps(value, ensure_ascii=False)}" if path[-1] != "env" else ""
            )  # perhaps secret
            yield line, f"{dotted(path)}{shown}"


def check_trusted(path: Path, text: str, document: Document) -> None:
    """Raise InventoryError if an inventory starts programs and is not trusted as it is."""
    programs = list(list_programs(document))
    if not programs or _is_trusted(path, text):
        return
    line, program = programs[0]
    raise InventoryError(
        f"{path}:{line}: {program}: this would start a program, and nobody has named this file or trusts it. "
        f"Read it; then let it: `fleet trust {path}`, or name it: `-f {path}`."
    )


def trust(path: Path, text: str) -> None:
    """Trust an inventory as long as its text is this. Raises OSError."""
    record = _record(path)
    record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    record.write_text(_line(path, text), "utf-8", "surrogateescape")


def _is_trusted(path: Path, text: str) -> bool:
    with suppress(OSError):
        return _record(path).read_text("utf-8", "surrogateescape") == _line(path, text)
    return False


def _record(path: Path) -> Path:
    return user_state_dir() / "trusted" / sha256(os.fsencode(os.path.realpath(path))).hexdigest()


def _line(path: Path, text: str) -> str:
    return f"{sha256(text.encode()).hexdigest()}  {os.path.realpath(path)}\n"


def _is_entry(path: tuple[str | int, ...]) -> bool:
    return path == ("defaults",) or (len(path) == 2 and path[0] in ("hosts", "groups"))
