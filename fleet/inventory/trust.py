"""Decides whether an inventory that the user did not name may start programs."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import reduce
from hashlib import sha256
from pathlib import Path

from fleet.errors import InventoryError
from fleet.inventory.document import Document, KeyPath, format_path
from fleet.store.files import store_errors, user_state_dir

# of the keys of entries
_DEPTHS: Mapping[KeyPath, int] = {
    ("defaults",): 2,
    ("groups",): 3,
    ("hosts",): 3,
}
# `env` can load a library into a program
_STARTING = (
    "command",
    "env",
    "toolchain",
    "before",
    "after",
)


def check_trusted(path: Path, text: str, document: Document) -> None:
    """Raise InventoryError if an inventory starts programs and its present text is not
    trusted.
    """
    programs = list(list_programs(document))
    record, trusted = _make_record(path, text)
    with suppress(OSError):
        if not programs or record.read_text("utf-8", "surrogateescape") == trusted:
            return
    line, program = programs[0]
    raise InventoryError(
        f"{path}:{line}: {program}: this would start a program or send results away,"
        " and this file is neither trusted nor named. Read it, then trust it: `fleet"
        f" trust {path}`, or name it: `-i {path}`."
    )


def list_programs(document: Document) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each key that starts programs, or sends results to
    a bucket.
    """
    for path, line in document.lines.items():
        is_of_entry = len(path) == _DEPTHS.get(path[:1])
        starts = path == ("hosts_from",) or (is_of_entry and path[-1] in _STARTING)
        if starts or (
            path == ("fleet", "results")
            and "://" in str(document.data["fleet"]["results"])
        ):
            value = reduce(lambda data, key: data[key], path, document.data)
            # maybe secret
            text = (
                ""
                if path[-1] == "env"
                else f": {json.dumps(value, ensure_ascii=False)}"
            )
            yield line, f"{format_path(path)}{text}"


def trust(path: Path, text: str) -> None:
    """Trust an inventory as long as it has this text. Raises StoreError."""
    record, trusted = _make_record(path, text)
    with store_errors(f"trust {path}", record):
        record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        record.write_text(trusted, "utf-8", "surrogateescape")


def _make_record(path: Path, text: str) -> tuple[Path, str]:
    """Return the path of an inventory's trust record, and the content that trusts this
    text.
    """
    real = os.path.realpath(path)
    record = user_state_dir() / "trusted" / sha256(os.fsencode(real)).hexdigest()
    return record, f"{sha256(text.encode()).hexdigest()}  {real}\n"
