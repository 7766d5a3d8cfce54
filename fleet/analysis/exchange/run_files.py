"""Writes runs to a file for others, and takes in such files. Several runs are a zip (docs/exchange.md)."""

import shutil
import tempfile
import zipfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fleet.errors import UsageError
from fleet.plan.options import choice
from fleet.store.places import samples_name
from fleet.store.publish import stored_record
from fleet.store.runs import Root, listing_of
from fleet.store.shared import KEEP, export_run, import_run
from fleet.text import counted

SUFFIXES = (".parquet", ".zip")
_MOST_RUNS, _MOST_BYTES = 10_000, 8 << 30


def export_runs(root: Root, run_ids: Sequence[str], output: Path, keep: Collection[str]) -> str:
    """Write these runs, unless to a zip the last alone; what was done. Raises UsageError, StoreError."""
    for word in keep:
        choice("keep", word, tuple(KEEP))
    if output.exists():
        raise UsageError(f"{output}: exists; it was not changed. Name another file.")
    listing = listing_of(root)
    hosts = {run.run_id: run.host_id for run in listing.runs}
    chosen = run_ids if output.suffix == ".zip" else run_ids[-1:]
    lines = []
    with tempfile.TemporaryDirectory(dir=output.absolute().parent, prefix=".fleet-") as folder:
        drafts = []
        for run_id in chosen:
            record = stored_record(listing.place, samples_name(hosts[run_id], run_id))
            draft = Path(folder) / run_id
            made = export_run(listing.place, record, draft, keep)
            drafts.append(draft.rename(draft.with_name(f"{made.row['run_id']}.parquet")))
            lines.append(f"{run_id} as {made.row['run_id']} of {made.row['host_name']}")
        if output.suffix == ".zip":
            every = Path(folder) / "all.zip"
            with zipfile.ZipFile(every, "x", zipfile.ZIP_STORED) as archive:
                for file in sorted(drafts):
                    archive.write(file, file.name)
            drafts = [every]
        drafts[0].rename(output)
    left = [word for word in ("labels", "hostname") if word not in keep]
    without = ", ".join([*left, "ids of machine, boot and session, user, notes, the probe's answer, uptime"])
    lines.append(
        f"{output}: {counted(len(chosen), 'run')}, {output.stat().st_size / 1e6:.1f} MB. Left out: {without}."
    )
    return "\n".join(lines)


def import_runs(root: Root, files: Sequence[Path], name: str | None) -> str:
    """Publish the runs in these files, of a host of this name; what was done. UsageError, StoreError."""
    place = listing_of(root).place
    lines = []
    for file in files:
        with _unpacked(file) as found:
            for one in found:
                record, is_new = import_run(place, one, name)
                what = "imported" if is_new else "is here already"
                lines.append(f"{record.row['run_id']} of {record.row['host_name']}: {what}")
    return "\n".join(lines)


@contextmanager
def _unpacked(file: Path) -> Iterator[list[Path]]:
    if file.suffix != ".zip":
        yield [file]
        return
    with tempfile.TemporaryDirectory() as folder:
        try:
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                if len(members) > _MOST_RUNS or sum(one.file_size for one in members) > _MOST_BYTES:
                    raise UsageError(f"{file}: has more than {_MOST_RUNS} files or {_MOST_BYTES >> 30} GiB.")
                for at, member in enumerate(members):
                    with archive.open(member) as packed, (Path(folder) / f"{at}.parquet").open("xb") as plain:
                        shutil.copyfileobj(packed, plain)
        except (OSError, RuntimeError, zipfile.BadZipFile) as err:
            raise UsageError(f"{file}: cannot be read as a zip: {err}.") from err
        yield sorted(Path(folder).iterdir(), key=lambda path: int(path.stem))
