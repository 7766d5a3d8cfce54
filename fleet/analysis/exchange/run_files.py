"""Write runs to a file for others (a zip for several runs), and import such files
(docs/exchange.md).
"""

import errno
import lzma
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from fleet.analysis.base.text import to_records
from fleet.analysis.exchange.imports import PREFIX, require_free_name
from fleet.analysis.reduce.load import drop_points
from fleet.analysis.reduce.pairs import load_pairs
from fleet.errors import StoreError, UsageError
from fleet.late import pa
from fleet.model import Descriptions
from fleet.plan.options import parse_choice
from fleet.store import schema
from fleet.store.anonymized_run import KEEP, anonymize, export_run, import_run
from fleet.store.places import Folder, Place, samples_name
from fleet.store.reading import TableFile, read_table_name
from fleet.store.runs import Root, open_listing
from fleet.store.writing import write_summary, write_table
from fleet.text import format_count

SUFFIXES = (".parquet", ".zip")
_NOT_A_ZIP = (
    zipfile.BadZipFile,
    EOFError,
    RuntimeError,
    UnicodeError,
    zlib.error,
    lzma.LZMAError,
)
_MAX_RUNS, _MAX_BYTES = 10_000, 8 << 30


def export_runs(
    root: Root,
    run_ids: Sequence[str],
    output: Path,
    keep: Collection[str],
    *,
    medians: bool = False,
) -> str:
    """Write all runs if `output` is a .zip, else only the last; return a message for
    the user.

    keep: the words of KEEP that are not anonymized. medians: write each pair's median
    and interval, as a summary, instead of samples. Raises UsageError or StoreError.
    """
    for word in keep:
        parse_choice("--keep", word, tuple(KEEP))
    if output.exists():
        raise UsageError(f"{output}: exists; it was not changed. Name another file.")
    listing = open_listing(root)
    runs = {run.run_id: run for run in listing.find_runs(set(run_ids))}
    chosen, lines, drafts = (
        run_ids if output.suffix == ".zip" else run_ids[-1:],
        list[str](),
        list[Path](),
    )
    names = set[str]()
    try:
        with tempfile.TemporaryDirectory(
            dir=output.absolute().parent, prefix=".fleet-"
        ) as folder:
            for run_id in chosen:
                source, draft = (
                    samples_name(runs[run_id].host_id, run_id),
                    Path(folder) / run_id,
                )
                record = TableFile(listing.place, source, "samples").record
                if medians:
                    exported, pairs = (
                        anonymize(record, keep),
                        load_pairs(root, run_id=run_id),
                    )
                    host, own_id = (
                        str(exported.row["host_name"]),
                        exported.row["run_id"],
                    )
                    names.add(name := f"{host}-{own_id}" if host in names else host)
                    _write_median_summary(
                        draft, name, exported.row, pairs, runs[run_id].descriptions
                    )
                else:
                    exported = export_run(listing.place, record, draft, keep)
                drafts.append(
                    draft.rename(draft.with_name(f"{exported.row['run_id']}.parquet"))
                )
                lines.append(
                    f"{run_id} as {exported.row['run_id']} of"
                    f" {exported.row['host_name']}"
                )
            if output.suffix == ".zip":
                with zipfile.ZipFile(
                    Path(folder) / "all.zip", "x", zipfile.ZIP_STORED
                ) as archive:
                    for file in sorted(drafts):
                        archive.write(file, file.name)
                drafts = [Path(folder) / "all.zip"]
            drafts[0].rename(output)
    except OSError as err:
        raise StoreError(
            f"{output}: cannot be written: {err.strerror or err}. Name another place."
        ) from err
    left = [word for word in ("labels", "hostname") if word not in keep]
    without = ", ".join(
        [
            *left,
            "ids of machine, boot and session, user, notes, the probe's answer, uptime",
        ]
    )
    size = f"{format_count(len(chosen), 'run')}, {output.stat().st_size / 1e6:.1f} MB"
    lines.append(f"{output}: {size}. Left out: {without}.")
    return "\n".join(lines)


def import_runs(root: Root, files: Sequence[Path], name: str | None) -> str:
    """Store runs and summaries, as `name` if given; return a message. Raises UsageError
    or StoreError.
    """
    place, lines = open_listing(root).place, []
    with tempfile.TemporaryDirectory() as folder:
        unpacked = [path for file in files for path in _unpack(file, folder)]
        tables = {
            path: read_table_name(Folder(path.absolute().parent), path.name)
            for path in unpacked
        }
        if name and (medians := [*tables.values()].count("summaries")) > 1:
            raise UsageError(
                f"--name {name}: not for {medians} summaries; leave it out."
            )
        for path, table in tables.items():
            if table == "summaries":
                subject, is_new = _import_medians(place, path, name)
            else:
                record, is_new = import_run(place, path, name)
                subject = f"{record.row['run_id']} of {record.row['host_name']}"
            lines.append(f"{subject}: {'imported' if is_new else 'is here already'}")
    return "\n".join(lines)


def _write_median_summary(
    draft: Path,
    name: str,
    run: Mapping[str, Any],
    pairs: pd.DataFrame,
    descriptions: Descriptions,
) -> None:
    """Write a file of `summaries` with the median and interval of each pair of CPUs.

    run: the run's anonymized row. pairs: the run's pairs. Raises UsageError if there
    are none.
    """
    pairs = drop_points(pairs, descriptions)
    pairs = pairs[pairs["ping_cpu"] != pairs["pong_cpu"]]
    if pairs.empty:
        raise UsageError(
            f"{run['run_id']}: has no latencies between CPUs; export it without"
            " --medians."
        )
    constants = dict.fromkeys(column.name for column in schema.TABLES["summaries"]) | {
        **{name: run[name] for name in ("cpu_model", "os", "labels_json")},
        "summary": name,
        "tool": "fleet",
        "estimator": "median",
        "conditions": (
            f"kernel {run['kernel'] or 'unknown'}, {run['started_utc']:%Y-%m-%d}"
        ),
        "source": "fleet export --medians",
    }
    pairs = pairs.assign(latency_ns=pairs["median_ns"])
    own = ["benchmark", "variant", "relation", "ping_cpu", "pong_cpu", "samples"]
    rows = [
        constants | row
        for row in to_records(pairs[[*own, "latency_ns", "low_ns", "high_ns"]])
    ]
    write_table(draft, pa.Table.from_pylist(rows, schema.arrow_schema("summaries")))


def _import_medians(place: Place, file: Path, name: str | None) -> tuple[str, bool]:
    rows = (
        TableFile(Folder(file.absolute().parent), file.name, "summaries")
        .read()
        .to_pylist()
    )
    if not rows:
        raise UsageError(f"{file}: has no rows; export the runs again.")
    name = name or str(rows[0]["summary"])
    require_free_name(name)
    own = {"summary": name, "imported_utc": datetime.now(UTC)}
    return f"{PREFIX}{name}", write_summary(
        place.address, name, [row | own for row in rows]
    )


def _unpack(file: Path, folder: str) -> list[Path]:
    """Return the file; if it is a zip, unpack it below `folder` and return its files.
    Raises UsageError.
    """
    if not file.is_file():
        raise UsageError(f"{file}: no such file.")
    if file.suffix != ".zip":
        return [file]
    paths, own_folder = list[Path](), tempfile.mkdtemp(dir=folder)
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            if (
                len(members) > _MAX_RUNS
                or sum(member.file_size for member in members) > _MAX_BYTES
            ):
                raise UsageError(
                    f"{file}: has more than {_MAX_RUNS} files or {_MAX_BYTES >> 30}"
                    " GiB."
                )
            for number, member in enumerate(members):
                paths.append(Path(own_folder, f"{number}.parquet"))
                with archive.open(member) as packed, paths[-1].open("xb") as plain:
                    shutil.copyfileobj(packed, plain)
    except (OSError, *_NOT_A_ZIP) as err:
        if isinstance(err, OSError) and err.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise UsageError(f"{file}: cannot be read as a zip: {err}.") from err
    return paths
