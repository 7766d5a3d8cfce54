"""The made-up machines of `fleet demo` and their runs: lab.tar.xz, which `make lab` makes."""

import tarfile
from pathlib import Path

from fleet.errors import StoreError, UsageError

_ARCHIVE = Path(__file__).with_name("lab.tar.xz")


def unpack_lab(folder: Path) -> None:
    """Fill `folder`, new or empty, with inventory.yaml and results/. Raises UsageError, StoreError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"{folder}: already there and not empty; name a new folder.")
        with tarfile.open(_ARCHIVE) as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", None)  # before 3.11.4: none
            archive.extractall(folder)  # noqa: S202  our own archive
    except OSError as err:
        raise StoreError(f"{folder}: cannot be made: {err.strerror}. Choose another folder.") from err
