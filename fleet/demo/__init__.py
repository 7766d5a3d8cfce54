"""The made-up machines of `fleet demo` and their runs: lab.tar.xz, which `make lab`
makes.
"""

import tarfile
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from fleet.errors import StoreError, UsageError

_ARCHIVE = Path(__file__).with_name("lab.tar.xz")


def unpack_lab(folder: Path) -> None:
    """Unpack inventory.yaml and results/ into a new or empty folder. Raises UsageError
    or StoreError.
    """
    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(
                f"{folder}: already there and not empty; name a new folder."
            )
        with (
            TemporaryDirectory(prefix=".unpacking-", dir=folder) as beside,
            tarfile.open(_ARCHIVE) as archive,
        ):
            # Python before 3.11.4 has no such filter, and extracts without one
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(beside)  # noqa: S202  our own archive
            for path in Path(beside).iterdir():
                path.rename(folder / path.name)
    except OSError as err:
        if is_new:
            with suppress(OSError):
                folder.rmdir()
        raise StoreError(
            f"{folder}: cannot be made: {err.strerror}. Choose another folder."
        ) from err
