"""Import summaries: `summaries/<name>.parquet`, one number a pair, written once, never mixed with runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fleet.errors import UsageError
from fleet.late import pa
from fleet.store import schema
from fleet.store.files import draft_path, storing
from fleet.store.gate import check_table
from fleet.store.places import parse_place, require_key
from fleet.store.reading import TableFile
from fleet.store.writing import write_table

FILES = "summaries/*.parquet"


def write_summary(root: str | Path, name: str, rows: Sequence[dict[str, Any]]) -> bool:
    """Store rows (docs/tables.md) under `name`, a key; False if already stored. UsageError, StoreError."""
    place, file = parse_place(root), f"summaries/{require_key(name, 'summary')}.parquet"
    with storing("store the summary", place):
        place.check_reachable()
        try:
            table = pa.Table.from_pylist(list(rows), schema=schema.arrow_schema("summaries"))
            check_table("summaries", table)
        except (ValueError, OverflowError) as err:
            raise UsageError(f"{name}: cannot be stored as a summary: {err}.") from err
        with draft_path(place.state_dir, f"{name}-summary") as path:
            write_table(path, table)
            new = place.put(path, file)
            if not new and _rows_to_compare(TableFile(place, file, "summaries").read()) != _rows_to_compare(
                table
            ):
                raise UsageError(f"{place}: another summary {name!r} is stored already; change --name.")
    return new


def _rows_to_compare(table: "pa.Table") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.drop_columns(["imported_utc"]).to_pylist()
    return rows
