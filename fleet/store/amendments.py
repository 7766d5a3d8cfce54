"""Amend published runs: each change is a file in `amendments`; later changes override
earlier ones.
"""

import json
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple
from warnings import warn

from fleet.errors import (
    DamagedFileError,
    DataError,
    StoreError,
    StoreWarning,
    UsageError,
)
from fleet.store.checksums import seal_json, unseal_json
from fleet.store.files import draft_path, read_regular, store_errors, sync
from fleet.store.places import Folder, Place, require_key
from fleet.store.reading import damage_errors, map_in_threads

FILES = "amendments/*.json"
_NAME = re.compile(r"amendments/(?P<run_id>.+)-[0-9]+-[0-9a-f]{8}\.json")
_MAX_BYTES = 2 << 20  # as of the labels of a run
# a counter is one more than those before it; files moved away leave gaps
_MAX_STEP = 1_000_000
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
        words = [f"{key}={value or ''}" for key, value in self.labels.items()]
        state = "withdrawn" if self.withdrawn else "not withdrawn"
        return " ".join([*words, state])

    def combine(self, later: "Amendment") -> "Amendment":
        """Return one amendment with the effect of this one followed by `later`."""
        labels = {**self.labels, **later.labels}
        withdrawn = self.withdrawn if later.withdrawn is None else later.withdrawn
        return Amendment(labels, withdrawn)

    def apply(self, labels: Iterable[tuple[str, str]]) -> dict[str, str]:
        """Return a run's `labels` after the amendment."""
        amended: dict[str, str | None] = {**dict(labels), **self.labels}
        return {key: value for key, value in amended.items() if value is not None}


class AmendmentFile(NamedTuple):
    """The content of an amendment file. counter: higher than every counter that its
    writer saw.
    """

    counter: int
    run_id: str
    amendment: Amendment


class _Content(NamedTuple):
    """The amendments of a root. error_by_run: why an amendment of a run cannot be
    read, by run ID.
    """

    files: list[AmendmentFile]
    error_by_run: Mapping[str, StoreError]


def amend(place: Place, run_ids: Collection[str], amendment: Amendment) -> None:
    """Amend each run, or none. Raises StoreError if that fails, if an amendment of a
    run cannot be read, or if another command amends a run meanwhile.

    A higher counter overrides lower ones, so the new files get the highest.
    """
    earlier = _read_files(place)
    for run_id in run_ids:
        if run_id in earlier.error_by_run:
            raise earlier.error_by_run[run_id]
    highest_counter = max((file.counter for file in earlier.files), default=0)
    names_placed = list[str]()
    try:
        for run_id in run_ids:
            file = AmendmentFile(highest_counter + 1, run_id, amendment)
            name = _place_file(place, file)
            names_placed.append(name)
        _require_in_effect(place, run_ids, amendment)
    except BaseException:  # then no run is amended
        for name in names_placed:
            with suppress(OSError):
                place.remove(name)
        raise


def _place_file(place: Place, file: AmendmentFile) -> str:
    """Store an amendment under a name that no other has; return the name. Raises
    StoreError, UsageError.
    """
    writer = os.urandom(4).hex()
    run_id = require_key(file.run_id, "run")
    name = f"{run_id}-{file.counter}-{writer}.json"
    content = {
        "run_id": run_id,
        "counter": file.counter,
        "labels": dict(file.amendment.labels),
        "withdrawn": file.amendment.withdrawn,
    }
    try:
        data = seal_json(json.dumps(content, ensure_ascii=False))
        _parse_amendment(data)  # only to see whether readers will take it
    except (DataError, UnicodeError) as err:
        raise UsageError(f"{run_id}: cannot be amended: {err}.") from err
    with (
        store_errors("amend runs", place),
        draft_path(place.state_dir, name) as path,
    ):
        path.write_bytes(data)
        sync(path)
        place.put(path, f"amendments/{name}")
    return f"amendments/{name}"


def _require_in_effect(
    place: Place, run_ids: Collection[str], amendment: Amendment
) -> None:
    """Raise StoreError if another command has amended one of the runs after this
    amendment, which was just stored for each.
    """
    current = read_amendments(place)
    for run_id in run_ids:
        in_effect = current.get(run_id, Amendment())
        # to combine this amendment once more changes nothing, unless another command
        # has set one of its values since
        if in_effect.combine(amendment) != in_effect:
            raise StoreError(
                f"{place}: {run_id}: another command has amended it meanwhile:"
                f" {in_effect}. Repeat yours."
            )


def read_amendments(place: Place) -> dict[str, Amendment]:
    """Return each run's combined amendments, by run ID. A run with an amendment that
    cannot be read counts as withdrawn, with a StoreWarning. Raises StoreError.
    """
    content = _read_files(place)
    amendments: dict[str, Amendment] = {}
    for _, run_id, amendment in content.files:
        earlier = amendments.get(run_id, Amendment())
        amendments[run_id] = earlier.combine(amendment)
    for run_id, err in content.error_by_run.items():
        amendments[run_id] = Amendment(withdrawn=True)
        # the error ends with what to do: restore the file, or move it away
        text = f"{err} Until then {run_id} is left out."
        warn(text, StoreWarning, stacklevel=2)
    return amendments


def find_bad_amendments(place: Place, names: Sequence[str]) -> list[str]:
    """Return a sentence for each file of amendments that cannot be read."""
    _, errors = _read_good_files(place, names)
    return [str(err) for err in errors.values()]


def _read_files(place: Place) -> _Content:
    """Read the files of amendments. Raises StoreError if they cannot be listed. The
    error of an unreadable file is kept for its run; it is raised if the file's name
    does not say which run that is.
    """
    with store_errors("read the amendments", place):
        names = place.files(FILES)
    files, error_by_name = _read_good_files(place, names)
    error_by_run = dict[str, StoreError]()
    for name, err in error_by_name.items():
        match = _NAME.fullmatch(name)
        if match is None:
            raise err
        error_by_run[match["run_id"]] = err
    return _Content(files, error_by_run)


def _read_good_files(
    place: Place, names: Sequence[str]
) -> tuple[list[AmendmentFile], dict[str, StoreError]]:
    """Return the contents of the good files, sorted by counter (not by time), then by
    name; and the errors of the other files, by name. A file is good if it can be read
    and its counter is at most _MAX_STEP above that of the last good file before it:
    counters rise by one, but for files that were moved away.
    """
    readable, errors = _read_each_file(place, names)
    good = list[AmendmentFile]()
    last_counter = 0
    for name in sorted(readable, key=lambda name: (readable[name].counter, name)):
        file = readable[name]
        if file.counter > last_counter + _MAX_STEP:
            errors[name] = DamagedFileError(
                f"{place}: {name} has the counter {file.counter}, though the one before"
                f" it is {last_counter}. {_REMEDY}"
            )
        else:
            good.append(file)
            last_counter = file.counter
    return good, errors


def _read_each_file(
    place: Place, names: Sequence[str]
) -> tuple[dict[str, AmendmentFile], dict[str, StoreError]]:
    """Return the contents of the files that can be read, and the errors of the others,
    by name.
    """

    def read(name: str) -> AmendmentFile | DamagedFileError:
        try:
            return read_amendment(place, name)
        except DamagedFileError as err:
            return err

    readable = dict[str, AmendmentFile]()
    errors = dict[str, StoreError]()
    for name, result in zip(names, map_in_threads(read, names), strict=True):
        if isinstance(result, DamagedFileError):
            errors[name] = result
        else:
            readable[name] = result
    return readable, errors


def read_amendment(place: Place, name: str) -> AmendmentFile:
    """Read one amendment file. Raises StoreError."""
    with damage_errors(f"{place}: {name} cannot be read as an amendment", _REMEDY):
        if isinstance(place, Folder):  # not by pyarrow, which is slower for small files
            data = read_regular(place.root / name)
        else:
            with place.filesystem.open_input_file(place.path(name)) as file:
                data = bytes(file.read())
        return _parse_amendment(data)


def _parse_amendment(data: bytes) -> AmendmentFile:
    """Parse the content of an amendment file. Raises DataError."""
    if len(data) > _MAX_BYTES:
        raise DataError(f"it has more than {_MAX_BYTES} bytes")
    content = unseal_json(data)
    match content:
        case {
            "run_id": str(run_id),
            "counter": int(counter),
            "labels": dict(labels),
            "withdrawn": (bool() | None) as withdrawn,
        } if len(content) == 4 and counter > 0:
            if all(
                value is None or isinstance(value, str) for value in labels.values()
            ):
                return AmendmentFile(counter, run_id, Amendment(labels, withdrawn))
    raise DataError("it has other keys or values than those of docs/tables.md")
