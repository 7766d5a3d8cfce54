"""Amend published runs: each change is a file in `amendments`; later changes override
earlier ones.
"""

import json
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from fleet.errors import DataError, StoreError
from fleet.store.checksums import seal_json, unseal_json
from fleet.store.files import draft_path, read_regular, store_errors, sync
from fleet.store.places import Folder, Place, require_key
from fleet.store.reading import damage_errors, read_undamaged

FILES = "amendments/*.json"
_MAX_COUNTER = 1 << 53  # a counter; JSON of other programs holds no larger number
_REMEDY = (
    "Restore it from a copy; or move it away, and repeat `fleet label` or `fleet"
    " withdraw`."
)


@dataclass(frozen=True, slots=True)
class Amendment:
    """A change to a run. labels: the values to set; None removes a label. withdrawn:
    None for no change.
    """

    labels: Mapping[str, str | None] = field(default_factory=dict)
    withdrawn: bool | None = None

    def __str__(self) -> str:
        """Return the labels as `key=value` (as typed for `fleet label`), and whether
        the run is withdrawn.
        """
        labels = [f"{key}={value or ''}" for key, value in self.labels.items()]
        return " ".join([*labels, "withdrawn" if self.withdrawn else "not withdrawn"])

    def combine(self, later: "Amendment") -> "Amendment":
        """Return one amendment with the effect of this one followed by `later`."""
        withdrawn = self.withdrawn if later.withdrawn is None else later.withdrawn
        return replace(
            self, labels={**self.labels, **later.labels}, withdrawn=withdrawn
        )

    def apply(self, labels: Iterable[tuple[str, str]]) -> dict[str, str]:
        """Return a run's `labels` after the amendment."""
        both: dict[str, str | None] = {**dict(labels), **self.labels}
        return {key: value for key, value in both.items() if value is not None}


class AmendmentFile(NamedTuple):
    """The content of an amendment file. counter: higher than every counter that its
    writer saw.
    """

    counter: int
    run_id: str
    amendment: Amendment


def amend(place: Place, run_ids: Collection[str], amendment: Amendment) -> None:
    """Amend each run. Raises StoreError if that fails, or if another command amends a
    run meanwhile.
    """
    with store_errors("read the amendments", place):
        counter = 1 + max((file.counter for file in _read_files(place)), default=0)
    writer = os.urandom(4).hex()
    content = {
        "counter": counter,
        "labels": dict(amendment.labels),
        "withdrawn": amendment.withdrawn,
    }
    with store_errors("amend runs", place):
        for run_id in run_ids:
            name = f"{require_key(run_id, 'run')}-{counter}-{writer}.json"
            with draft_path(place.state_dir, name) as path:
                path.write_bytes(
                    seal_json(
                        json.dumps({"run_id": run_id, **content}, ensure_ascii=False)
                    )
                )
                sync(path)
                place.put(path, f"amendments/{name}")
    current = read_amendments(place)
    for run_id in run_ids:
        if (now := current.get(run_id, Amendment())) != now.combine(amendment):
            text = (
                f"{place}: {run_id}: another command has amended it meanwhile: {now}."
                " Repeat yours."
            )
            raise StoreError(text)


def read_amendments(place: Place) -> dict[str, Amendment]:
    """Return each run's combined amendments, by run ID; leave out unreadable files,
    with a StoreWarning.
    """
    amendments: dict[str, Amendment] = {}
    with store_errors("read the amendments", place):
        for _, run_id, amendment in _read_files(place):
            amendments[run_id] = amendments.get(run_id, Amendment()).combine(amendment)
    return amendments


def _read_files(place: Place) -> list[AmendmentFile]:
    """Read the undamaged amendment files. Sort them by counter (not by time), then by
    name.
    """
    files = read_undamaged(place.files(FILES), lambda name: read_amendment(place, name))
    return [
        files[name]
        for name in sorted(files, key=lambda name: (files[name].counter, name))
    ]


def read_amendment(place: Place, name: str) -> AmendmentFile:
    """Read one amendment file. Raises StoreError."""
    with damage_errors(f"{place}: {name} cannot be read as an amendment", _REMEDY):
        if isinstance(place, Folder):  # without pyarrow
            data = read_regular(place.root / name)
        else:
            with place.filesystem.open_input_file(place.path(name)) as file:
                data = bytes(file.read())
        match content := unseal_json(data):
            case {
                "run_id": str(run_id),
                "counter": int(counter),
                "labels": dict(labels),
                "withdrawn": (bool() | None) as withdrawn,
            } if len(content) == 4 and 0 < counter < _MAX_COUNTER:
                if all(
                    value is None or isinstance(value, str) for value in labels.values()
                ):
                    return AmendmentFile(counter, run_id, Amendment(labels, withdrawn))
        raise DataError("it has other keys or values than those of docs/tables.md")
