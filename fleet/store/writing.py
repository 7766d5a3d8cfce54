"""Write a table as one Parquet file with its checksums. The only writer of tables; `reading` reads them."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from fleet.late import pq
from fleet.store.checksums import seal_file
from fleet.store.files import sync


class TableWriter(AbstractContextManager["TableWriter"]):
    """A new Parquet file, with its checksums and on the disk on exit. options: of pyarrow. Raises OSError.

    It has only Parquet's types, without an Arrow schema, so that every reader sees the same.
    """

    def __init__(self, path: Path, shape: Any, *, lasting: bool = True, **options: Any) -> None:
        self._path, self._lasting = path, lasting
        options = {"compression": "zstd", "write_page_checksum": True, "store_schema": False} | options
        self._file = pq.ParquetWriter(path, shape, **options)
        self.describe(shape.metadata)

    def write(self, table: Any, row_group: int | None = None) -> None:
        """Add rows, in groups of `row_group`."""
        self._file.write_table(table, row_group_size=row_group)

    def describe(self, metadata: Mapping[Any, Any]) -> None:
        """Add to the file's metadata."""
        self._file.add_key_value_metadata(metadata)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Finish the file, unless an error is being raised."""
        self._file.close()
        if kind is None:
            seal_file(self._path)
            if self._lasting:
                sync(self._path)


def write_table(path: Path, table: Any, row_group: int | None = None, **options: Any) -> None:
    """Write a table to a new file. Raises OSError."""
    with TableWriter(path, table.schema, **options) as file:
        file.write(table, row_group)
