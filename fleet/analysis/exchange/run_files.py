"""Write runs to a file for others (a zip for several runs), and import such files
(docs/exchange.md).

A library that reads Parquet may end its process at a crafted file, so files of others
are read in a child process.
"""

import errno
import multiprocessing
import os
import resource
import shutil
import signal
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from fleet.analysis.base.text import to_records
from fleet.analysis.exchange.imports import PREFIX, require_free_name
from fleet.analysis.reduce.load import drop_points
from fleet.analysis.reduce.pairs import load_pairs
from fleet.errors import FleetError, StoreError, UsageError
from fleet.late import pa
from fleet.model import Descriptions
from fleet.plan.options import parse_choice
from fleet.store import schema
from fleet.store.anonymized_run import KEEP, anonymize, export_run, import_run
from fleet.store.places import Folder, samples_name
from fleet.store.reading import TableFile, read_table_name
from fleet.store.runs import Listing, Root, RunSummary, open_listing
from fleet.store.writing import write_summary, write_table
from fleet.text import format_count, one_line

SUFFIXES = (".parquet", ".zip")
_NOT_A_ZIP = (zipfile.BadZipFile, EOFError, RuntimeError, UnicodeError, zlib.error)
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_MAX_RUNS = 10_000
_NAMED = 3  # new names of runs that are printed
_MAX_BYTES = 8 << 30
_CPU_SECONDS = 3600  # for one file: 8 GiB take a few minutes
_Result = TypeVar("_Result")


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
    runs_by_id = {run.run_id: run for run in listing.find_runs(set(run_ids))}
    runs = [runs_by_id[run_id] for run_id in run_ids]
    if output.suffix != ".zip":
        runs = runs[-1:]
    try:
        anonymized_rows = _write_runs(listing, runs, output, keep, medians=medians)
    except OSError as err:
        raise StoreError(
            f"{output}: cannot be written: {err.strerror or err}. Name another place."
        ) from err
    new_names = _list_new_names(runs, anonymized_rows)
    count = format_count(len(runs), "run")
    megabytes = output.stat().st_size / 1e6
    size = f"{output}: {count}, {megabytes:.1f} MB"
    return "\n".join([*new_names, f"{size}. Left out: {_list_left_out(keep)}."])


def _list_new_names(
    runs: Sequence[RunSummary], anonymized_rows: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Yield a line on the new names of each of the first _NAMED runs, and one line on
    all others. anonymized_rows: a row for each run, which has its new names.
    """
    runs_and_rows = list(zip(runs, anonymized_rows, strict=True))
    for run, row in runs_and_rows[:_NAMED]:
        yield f"{run.run_id} as {row['run_id']} of {row['host_name']}"
    others = len(runs_and_rows) - _NAMED
    if others > 0:
        yield f"and {others} more, each under a name of its own"


def _write_runs(
    listing: Listing,
    runs: Sequence[RunSummary],
    output: Path,
    keep: Collection[str],
    *,
    medians: bool,
) -> list[Mapping[str, Any]]:
    """Write the runs to `output`, whole or not at all; return their anonymized rows.
    Raises OSError.
    """
    with tempfile.TemporaryDirectory(
        dir=output.absolute().parent, prefix=".fleet-"
    ) as folder:
        drafts = _Drafts(listing, Path(folder), keep)
        rows = [drafts.write(run, medians=medians) for run in runs]
        draft = drafts.files[0]  # the only file if `output` is not a zip
        if output.suffix == ".zip":
            draft = drafts.pack()
        draft.rename(output)
    return rows


def _list_left_out(keep: Collection[str]) -> str:
    """List what files of runs lack."""
    anonymized = [word for word in ("labels", "hostname") if word not in keep]
    always = "ids of machine, boot and session, user, notes, the probe's answer, uptime"
    return ", ".join([*anonymized, always])


class _Drafts:
    """Files of runs in a folder, before they are moved to their place."""

    def __init__(self, listing: Listing, folder: Path, keep: Collection[str]) -> None:
        self.files = list[Path]()
        self._listing = listing
        self._folder = folder
        self._keep = keep
        self._summaries = set[str]()

    def write(self, run: RunSummary, *, medians: bool) -> Mapping[str, Any]:
        """Write a run, or a summary of its medians; return the run's anonymized row.
        Raises UsageError if there are no medians.

        The anonymized row has a new run ID, by which the file is named.
        """
        place = self._listing.place
        name = samples_name(run.host_id, run.run_id)
        record = TableFile(place, name, "samples").record
        # `export_run` returns the new ID only when it has written the file, so the file
        # has the run's own ID first
        draft = self._folder / run.run_id
        if medians:
            row = anonymize(record, self._keep).row
            self._write_medians(draft, run, row)
        else:
            row = export_run(place, record, draft, self._keep).row
        path = self._folder / f"{row['run_id']}.parquet"
        self.files.append(draft.rename(path))
        return row

    def _write_medians(
        self, draft: Path, run: RunSummary, row: Mapping[str, Any]
    ) -> None:
        """Write the summary of a run's medians. row: the run's anonymized one."""
        name = self._choose_summary_name(row)
        pairs = load_pairs(self._listing, run_id=run.run_id)
        _write_median_summary(draft, name, row, pairs, run.descriptions)

    def _choose_summary_name(self, row: Mapping[str, Any]) -> str:
        """Name a summary by its host, and by its run if the host has another."""
        name = str(row["host_name"])
        if name in self._summaries:
            name = f"{name}-{row['run_id']}"
        self._summaries.add(name)
        return name

    def pack(self) -> Path:
        """Pack all files into a zip; return it."""
        path = self._folder / "all.zip"
        with zipfile.ZipFile(path, "x", zipfile.ZIP_STORED) as archive:
            for file in sorted(self.files):
                archive.write(file, file.name)
        return path


def import_runs(root: Root, files: Sequence[Path], name: str | None) -> str:
    """Store runs and summaries, as `name` if given; return a message. Raises UsageError
    or StoreError.

    Others made the files, and a crafted file may end the process that reads it: so a
    child process reads them. A file with the table `summaries` is a summary, any other
    is a run.
    """
    address = open_listing(root).place.address
    lines = []
    with tempfile.TemporaryDirectory() as folder, _Child() as child:
        titles = dict[Path, str]()  # by path: what errors call the file
        for file in files:
            titles |= _unpack(file, folder)
        summaries = set[Path]()
        # `call` takes the title for its own errors; the function gets the rest
        for path, title in titles.items():
            table_name = child.call(_read_table_name, path, title)
            if table_name == "summaries":
                summaries.add(path)
        if name and len(summaries) > 1:
            raise UsageError(
                f"--name {name}: not for {len(summaries)} summaries; leave it out."
            )
        for path, title in titles.items():
            store_file = _import_run
            if path in summaries:
                store_file = _import_medians
            subject, is_new = child.call(store_file, path, title, address, name)
            lines.append(_tell_of_import(subject, is_new=is_new))
    return "\n".join(lines)


def _tell_of_import(subject: str, *, is_new: bool) -> str:
    if is_new:
        return f"{subject}: imported"
    return f"{subject}: is here already"


class _Child:
    """A process that reads files of others; it starts at the first call."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(1, context, _prepare_child)

    def __enter__(self) -> "_Child":
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown()

    def call(
        self, function: Callable[..., _Result], file: Path, title: str, *others: object
    ) -> _Result:
        """Call a function, in the process, with a file and other arguments; return its
        result. Raises FleetError, also if the process ends meanwhile.

        An error names the file by `title`: its path may be one that the user does not
        know, of a file unpacked from a zip.
        """
        task = self._pool.submit(_call_within_limits, function, file, *others)
        try:
            return task.result()
        except BrokenProcessPool as err:
            raise UsageError(
                f"{title}: reading it ended the process that reads files of others. It"
                " is damaged, or made to do so; nothing of it was imported."
            ) from err
        except MemoryError as err:
            raise UsageError(
                f"{title}: reading it takes more memory than this machine has; nothing"
                " of it was imported."
            ) from err
        except FleetError as err:
            err.args = (_name_by_title(str(err), file, title),)
            raise


def _name_by_title(message: str, file: Path, title: str) -> str:
    """Name a file in a message by its title, without its folder, which may be ours."""
    text = message.replace(f"{file.absolute().parent}: ", "")
    return text.replace(str(file), title).replace(file.name, title)


def _prepare_child() -> None:
    """Let this process get no more memory than the machine has, and end without a word
    at Ctrl-C.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    _lower_limit(resource.RLIMIT_DATA, size)


def _call_within_limits(
    function: Callable[..., _Result], *arguments: object
) -> _Result:
    """Call a function; the process ends if that takes more than _CPU_SECONDS."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    seconds_used = int(usage.ru_utime + usage.ru_stime)
    _lower_limit(resource.RLIMIT_CPU, seconds_used + _CPU_SECONDS)
    return function(*arguments)


def _lower_limit(kind: int, limit: int) -> None:
    """Limit a resource of this process, unless its hard limit is lower already."""
    _, hard_limit = resource.getrlimit(kind)
    if hard_limit == resource.RLIM_INFINITY or limit < hard_limit:
        resource.setrlimit(kind, (limit, hard_limit))


def _read_table_name(file: Path) -> str:
    return read_table_name(Folder(file.absolute().parent), file.name)


def _import_run(file: Path, address: str, name: str | None) -> tuple[str, bool]:
    place = open_listing(address).place
    record, is_new = import_run(place, file, name)
    subject = f"{record.row['run_id']} of {record.row['host_name']}"
    return subject, is_new


def _write_median_summary(
    draft: Path,
    name: str,
    run: Mapping[str, Any],
    pairs: pd.DataFrame,
    descriptions: Descriptions,
) -> None:
    """Write a file of `summaries` with the median and interval of each pair of CPUs.

    run: the run's anonymized row. pairs: a row per pair or CPU that the run measured.
    Raises UsageError if there are no pairs of CPUs.
    """
    # leave out all but the usual setting of a benchmark, and numbers of single CPUs
    pairs = drop_points(pairs, descriptions)
    pairs = pairs[pairs["ping_cpu"] != pairs["pong_cpu"]]
    if pairs.empty:
        raise UsageError(
            f"{run['run_id']}: has no latencies between CPUs; export it without"
            " --medians."
        )
    names = ["benchmark", "variant", "relation", "ping_cpu", "pong_cpu", "samples"]
    numbers = pairs[[*names, "low_ns", "high_ns"]]
    numbers = numbers.assign(latency_ns=pairs["median_ns"])
    constants = _describe_summary(name, run)
    rows = [constants | row for row in to_records(numbers)]
    table = pa.Table.from_pylist(rows, schema.arrow_schema("summaries"))
    write_table(draft, table)


def _describe_summary(name: str, run: Mapping[str, Any]) -> dict[str, Any]:
    """Return, by column, what all rows of a run's summary have in common. A column that
    differs from pair to pair, or whose value is unknown, is None. name: the name of the
    summary. run: the run's anonymized row.
    """
    columns = [column.name for column in schema.TABLES["summaries"]]
    constants: dict[str, Any] = dict.fromkeys(columns)  # None for each
    kernel = run["kernel"] or "unknown"
    constants |= {
        "summary": name,
        "tool": "fleet",
        "estimator": "median",
        "cpu_model": run["cpu_model"],
        "os": run["os"],
        "labels_json": run["labels_json"],
        "conditions": f"kernel {kernel}, {run['started_utc']:%Y-%m-%d}",
        "source": "fleet export --medians",
    }
    return constants


def _import_medians(file: Path, address: str, name: str | None) -> tuple[str, bool]:
    """Store a file of `summaries` at the root `address`, as `name` if given. Return
    what it is called there, "summary:NAME", and whether it is new.
    """
    folder = Folder(file.absolute().parent)
    table = TableFile(folder, file.name, "summaries")
    rows = table.read().to_pylist()
    if not rows:
        raise UsageError(f"{file}: has no rows; export the runs again.")
    name = name or str(rows[0]["summary"])
    require_free_name(name)
    now = datetime.now(UTC)
    for row in rows:
        row["summary"] = name
        row["imported_utc"] = now
    is_new = write_summary(address, name, rows)
    return f"{PREFIX}{name}", is_new


def _unpack(file: Path, folder: str) -> dict[Path, str]:
    """Return the path of the file or, of a zip, the paths of its members, unpacked
    below `folder`; to each path the title by which errors name it. Raises UsageError.
    """
    if not file.is_file():
        raise UsageError(f"{file}: no such file.")
    if file.suffix != ".zip":
        return {file: str(file)}
    titles = dict[Path, str]()
    own_folder = Path(tempfile.mkdtemp(dir=folder))
    title = str(file)  # of what is being read: the zip, then each of its members
    try:
        with zipfile.ZipFile(file) as archive:
            members = [entry for entry in archive.infolist() if not entry.is_dir()]
            _check_members(file, members)
            for number, member in enumerate(members):
                # The member's own name may be a path that leads out of the folder. In a
                # message, `_name_by_title` replaces our name for the member. The ~ is
                # there so that no other word of the message is equal to it.
                path = own_folder / f"~{number}.parquet"
                title = f"{file}: {one_line(member.filename)}"
                titles[path] = title
                _unpack_member(archive, member, path)
    except (OSError, *_NOT_A_ZIP) as err:
        if _is_disk_full(err):
            raise
        raise UsageError(f"{title}: cannot be read as a zip: {err}.") from err
    return titles


def _is_disk_full(error: BaseException) -> bool:
    """Report whether an error says that there is no room on the disk."""
    return getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)


def _unpack_member(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path
) -> None:
    """Write a member of a zip to a new file."""
    with archive.open(member) as packed, path.open("xb") as plain:
        shutil.copyfileobj(packed, plain)


def _check_members(file: Path, members: Sequence[zipfile.ZipInfo]) -> None:
    """Raise UsageError for a zip that holds nothing, too much, or what no zip of
    `fleet export` has.
    """
    if not members:
        raise UsageError(f"{file}: holds no files; export the runs again.")
    unpacked = sum(member.file_size for member in members)
    if len(members) > _MAX_RUNS or unpacked > _MAX_BYTES:
        raise UsageError(
            f"{file}: has more than {_MAX_RUNS} files or {_MAX_BYTES >> 30} GiB."
        )
    if sum(member.compress_size for member in members) > file.stat().st_size:
        raise UsageError(
            f"{file}: its files overlap, as in a zip that is made to fill disks."
        )
    names = set[str]()
    for member in members:
        title = f"{file}: {one_line(member.filename)}"
        _check_packing(title, member)
        if member.filename in names:
            raise UsageError(f"{title}: is there twice; leave one out.")
        names.add(member.filename)


def _check_packing(title: str, member: zipfile.ZipInfo) -> None:
    """Raise UsageError for a file in a zip that is encrypted or not packed by
    `deflate`.
    """
    if member.compress_type not in _PACKINGS:
        raise UsageError(f"{title}: is not packed by `deflate`; pack it anew.")
    if member.flag_bits & 1:
        raise UsageError(f"{title}: is encrypted; pack it without a password.")
