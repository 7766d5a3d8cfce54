"""Changes to a run after it was published: other labels, or that it is withdrawn. Samples stay as written.

Each amendment is a small file of its own, `_amendments/RUN-MOMENT-RANDOM.json`, so that several controllers
may write and nothing is ever changed in place; a later one outweighs an earlier one.
"""

import json
import secrets
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from fleet.errors import StoreError
from fleet.store.files import read_regular, storing, write
from fleet.store.ids import checked_key
from fleet.store.places import Folder, Place

_FOLDER = "_amendments"
FILES = f"{_FOLDER}/*.json"


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
    staging = place.state_dir / "_staging"
    content = {"labels": dict(amendment.labels), "withdrawn": amendment.withdrawn}
    with storing("amend runs", place):
        staging.mkdir(parents=True, exist_ok=True)
        for run_id in run_ids:
            name = f"{checked_key(run_id, 'run')}-{moment}-{secrets.token_hex(4)}.json"
            write(staging / name, json.dumps({"run_id": run_id, **content}, ensure_ascii=False).encode())
            place.put(staging / name, f"{_FOLDER}/{name}")


def amended(place: Place) -> dict[str, Amendment]:
    """All amendments by run id. Raises StoreError for a file that cannot be read."""
    with storing("read the amendments", place):
        names = place.files(FILES)
    found: dict[str, Amendment] = {}
    for name in sorted(names, key=lambda name: name.split("-")[-2:]):
        run_id, later = read_amendment(place, name)
        found[run_id] = found.get(run_id, Amendment()).then(later)
    return found


def read_amendment(place: Place, name: str) -> tuple[str, Amendment]:
    """The amendment in a file, and the id of its run. Raises StoreError."""
    try:
        with storing("read the amendments", f"{place}: {name}"):
            content = json.loads(_bytes(place, name))
        labels = {str(key): value for key, value in content["labels"].items()}
        return str(content["run_id"]), Amendment(labels, content["withdrawn"])
    except ValueError as err:
        raise StoreError(f"{place}: {name} is no amendment: {err}. Move it away.") from err
    except (KeyError, TypeError, AttributeError) as err:
        raise StoreError(f"{place}: {name} is no amendment. Move it away.") from err


def _bytes(place: Place, name: str) -> bytes:
    """What is in a file; without pyarrow where it lies in a folder of this machine."""
    if isinstance(place, Folder):
        return read_regular(place.state_dir / name)
    with place.filesystem.open_input_file(place.path(name)) as file:
        return bytes(file.read())
