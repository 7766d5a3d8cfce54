"""Changes to a run after it was published, a file each in `amendments`; later ones outweigh earlier ones."""

import json
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from fleet.errors import DataError
from fleet.store.checksums import opened_json, sealed_json
from fleet.store.files import read_regular, storing, write
from fleet.store.ids import checked_key
from fleet.store.places import Folder, Place
from fleet.store.reading import readable, reading

_FOLDER = "amendments"
FILES = f"{_FOLDER}/*.json"
_REMEDY = "Restore it from a copy; or move it away, and repeat `fleet label` or `fleet withdraw`."


@dataclass(frozen=True, slots=True)
class Amendment:
    """Of one run: labels to set, None for those to remove; whether it is withdrawn, None for no change."""

    labels: Mapping[str, str | None] = field(default_factory=dict)
    withdrawn: bool | None = None

    def then(self, later: "Amendment") -> "Amendment":
        """Both, of which `later` outweighs this one."""
        withdrawn = self.withdrawn if later.withdrawn is None else later.withdrawn
        return replace(self, labels={**self.labels, **later.labels}, withdrawn=withdrawn)

    def applied(self, labels: Iterable[tuple[str, str]]) -> dict[str, str]:
        """The labels of a run as amended."""
        both: dict[str, str | None] = {**dict(labels), **self.labels}
        return {key: value for key, value in both.items() if value is not None}


def amend(place: Place, run_ids: Collection[str], amendment: Amendment) -> None:
    """Write an amendment of each run. Raises StoreError."""
    moment = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
    staging = place.state_dir / "staging"
    content = {"labels": dict(amendment.labels), "withdrawn": amendment.withdrawn}
    with storing("amend runs", place):
        staging.mkdir(parents=True, exist_ok=True)
        for run_id in run_ids:
            name = f"{checked_key(run_id, 'run')}-{moment}-{os.urandom(4).hex()}.json"
            write(staging / name, sealed_json(json.dumps({"run_id": run_id, **content}, ensure_ascii=False)))
            place.put(staging / name, f"{_FOLDER}/{name}")


def amended(place: Place) -> dict[str, Amendment]:
    """All amendments by run id; one that cannot be read is named by a StoreWarning and left out."""
    with storing("read the amendments", place):
        names = place.files(FILES)
    found: dict[str, Amendment] = {}
    names.sort(key=lambda name: name.split("-")[-2:])
    for run_id, later in readable(names, lambda name: read_amendment(place, name)).values():
        found[run_id] = found.get(run_id, Amendment()).then(later)
    return found


def read_amendment(place: Place, name: str) -> tuple[str, Amendment]:
    """Return the ID of the run that an amendment is of, and the amendment. Raises StoreError."""
    with reading(f"{place}: {name} cannot be read as an amendment", _REMEDY):
        return _decoded(opened_json(_bytes(place, name)))


def _decoded(content: Any) -> tuple[str, Amendment]:
    match content:
        case {"run_id": str(run_id), "labels": dict(labels), "withdrawn": (bool() | None) as withdrawn} if (
            len(content) == 3 and all(value is None or isinstance(value, str) for value in labels.values())
        ):
            return run_id, Amendment(labels, withdrawn)
    raise DataError("it has other keys or values than those of docs/tables.md")


def _bytes(place: Place, name: str) -> bytes:
    """What is in a file; without pyarrow where it lies in a folder of this machine."""
    if isinstance(place, Folder):
        return read_regular(place.root / name)
    with place.filesystem.open_input_file(place.path(name)) as file:
        return bytes(file.read())
