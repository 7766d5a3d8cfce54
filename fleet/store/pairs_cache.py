"""Keeps what was derived from a run in `_pairs`, with what it is made of; may be deleted at any time."""

from collections.abc import Sequence
from typing import Any

from fleet.errors import DataError, StoreError
from fleet.late import pa
from fleet.store.files import draft
from fleet.store.gate import check_table
from fleet.store.ids import checked_key
from fleet.store.places import Folder, Place
from fleet.store.reading import TableFile, Where, each, joined
from fleet.store.runs import RunSummary
from fleet.store.writing import write_table

_ROW_GROUP = 4096  # rows, so that one relation is found without reading all
_SAMPLES, _VERSION = b"fleet.samples_sha256", b"fleet.stats_version"


def kept_pairs(
    place: Place, runs: Sequence[RunSummary], version: int, columns: Sequence[str] | None, where: Where
) -> list[Any]:
    """Of each run its derived pairs as a pyarrow table; None where they are missing, old or damaged."""

    def kept(run: RunSummary, *, gated: bool) -> Any | None:
        try:
            file = TableFile(place, _name(run), "pairs")
            if any(file.metadata.get(key) != value for key, value in _made_of(run, version).items()):
                return None
            return file.read(columns, where, gated=gated)
        except StoreError:
            return None

    found = each(lambda run: kept(run, gated=False), runs)
    try:  # once for all: of small files the gate would take longer than reading
        check_table("pairs", joined([part for part in found if part is not None], "pairs", columns))
    except (DataError, pa.ArrowException):  # which of them it is
        return each(lambda run: kept(run, gated=True), runs)
    return found


def keep_pairs(place: Place, run: RunSummary, version: int, pairs: Any) -> bool:
    """Keep them for the next reader; False where the place cannot be written, which costs only time."""
    pairs = pairs.replace_schema_metadata({**pairs.schema.metadata, **_made_of(run, version)})
    try:
        with draft(place.state_dir, "pairs") as new:
            write_table(new, pairs, _ROW_GROUP, lasting=False)
            if isinstance(place, Folder):
                target = place.root / _name(run)
                target.parent.mkdir(parents=True, exist_ok=True)
                new.replace(target)  # whole, for whoever opens it from now on
            else:
                with place.filesystem.open_output_stream(place.path(_name(run))) as stream:
                    stream.write(new.read_bytes())
    except OSError:
        return False
    return True


def _name(run: RunSummary) -> str:
    host, key = checked_key(run.host_id, "host"), checked_key(run.run_id, "run")
    return f"_pairs/host_id={host}/run_id={key}/pairs.parquet"


def _made_of(run: RunSummary, version: int) -> dict[bytes, bytes]:
    return {_SAMPLES: (run.content_sha256 or "").encode(), _VERSION: str(version).encode()}
