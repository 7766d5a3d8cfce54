"""Access a results root: a folder, or a prefix in an object store. Its files are
complete or absent.
"""

import errno
import fnmatch
import hashlib
import os
import re
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit
from warnings import warn

from fleet.errors import StoreError, StoreWarning, UsageError
from fleet.late import fs, pa
from fleet.model.host import NOT_TEXT_IN_PATHS
from fleet.store.files import enter_folder, list_folder, sync, user_state_dir

Key = tuple[str, str]  # of a run: its host id and its run id
KEY = rf"^(?!(?i:{'|'.join(NOT_TEXT_IN_PATHS)})\Z)[A-Za-z][A-Za-z0-9._-]{{0,127}}\Z"
_KEY = re.compile(KEY)
RUN_FILE = "run.json"  # in a journal: what is measured
SAMPLES_FILE = "samples.parquet"
STATE_DIR = ".fleet"  # in a folder; readers and globs skip what begins with a dot
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_OPTIONS = ("endpoint_override", "region", "scheme")
_SHAPE = "s3://bucket/prefix, and after a ? endpoint_override=…, region=…, scheme=https"
_SAMPLES = f"samples/host_id=*/run_id=*/{SAMPLES_FILE}"
# this folder cannot be listed, though others can
_UNREADABLE = (errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE)
_OLD_NS = 900 * 10**9
# of a file system without hard links
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EXDEV, errno.EMLINK)


def new_run_id(now: datetime | None = None) -> str:
    """Make a run ID, `rYYYYMMDDThhmmssZ-xxxxxxxx`, which sorts by time and cannot be
    read as a number.
    """
    moment = (now or datetime.now(UTC)).astimezone(UTC)
    chance = os.urandom(4).hex()  # controllers need not coordinate
    return f"r{moment:%Y%m%dT%H%M%SZ}-{chance}"


def new_session_id(now: datetime | None = None) -> str:
    """Make a session ID: like a run ID, but with `s`."""
    return f"s{new_run_id(now)[1:]}"


def require_key(key: str, what: str) -> str:
    """Return `key` if it can stand in a path of the dataset, else raise StoreError."""
    if not _KEY.fullmatch(key):
        # programs that read paths take some words for numbers, truth values or dates
        raise StoreError(
            f"{what} {key!r} cannot be a key in the tables: a letter, then letters,"
            f" digits, '.', '_' or '-'; and not {', '.join(NOT_TEXT_IN_PATHS)}."
        )
    return key


def samples_name(host_id: str, run_id: str) -> str:
    """Return the path of a run's samples file, relative to the root. Raises
    StoreError.
    """
    host = require_key(host_id, "host")
    run = require_key(run_id, "run")
    return f"samples/host_id={host}/run_id={run}/{SAMPLES_FILE}"


def counters_name(run_id: str) -> str:
    """Return the path of a run's counters file, which only runs with counters have.
    Raises StoreError.
    """
    return f"counters/{require_key(run_id, 'run')}.parquet"


class Folder:
    """A root in a file system. state_dir: its hidden folder for journals, logs and
    drafts.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.state_dir = root / STATE_DIR
        # folders of which the disk has the names, so that they need no sync
        self._synced_folders: set[Path] = {root}

    def __str__(self) -> str:
        return str(self.root)

    @property
    def address(self) -> str:
        """Return the absolute path, which `parse_place` turns into this root in any
        process.
        """
        return str(self.root.resolve())

    @cached_property
    def filesystem(self) -> Any:
        """Return pyarrow's file system of this machine."""
        return fs.LocalFileSystem()

    def path(self, name: str) -> str:
        """Return the path by which `filesystem` opens a file of the root."""
        return str(self.root / name)

    def check_reachable(self) -> None:
        """Do nothing: folders are created when needed."""

    def require_folder(self) -> None:
        """Raise UsageError if there is no such folder to read from."""
        if not self.root.is_dir():
            raise UsageError(
                f"{self.root}: there is no such folder. `fleet run` makes one; or name"
                " another results root."
            )

    def files(self, pattern: str, unreadable: list[OSError] | None = None) -> list[str]:
        """Return the names that match a pattern, sorted; `*` does not match `/`. Raises
        OSError.

        unreadable: a list to which the errors of folders that cannot be read are added,
        instead of raised. The error of the pattern's first folder is always raised.
        """
        first, *others = pattern.split("/")
        # with other parts below it, the first part is a folder's name, without `*`
        names = [first] if others else fnmatch.filter(list_folder(self.root), first)
        # go down by one part at a time; at depth 0, `names` has only the first folder
        for depth, part in enumerate(others):
            is_first_folder = depth == 0
            names_below = list[str]()
            for folder in names:
                matching = self._list_matching(
                    folder, part, None if is_first_folder else unreadable
                )
                names_below += [f"{folder}/{name}" for name in matching]
            names = names_below
        return sorted(names)

    def _list_matching(
        self, folder: str, part: str, unreadable: list[OSError] | None
    ) -> list[str]:
        """Return the names in a folder of the root that match one part of a pattern,
        the text between two `/`. Raises OSError. unreadable: a list to which the error
        is added instead if the folder cannot be read; None: raise it.
        """
        if "*" not in part:
            return [part]
        try:
            return fnmatch.filter(list_folder(self.path(folder)), part)
        except NotADirectoryError:
            # A file stands where a folder was expected. In place of a topmost folder,
            # such as `samples` or `runs`, it is an error. Further down, anybody may
            # have put a file, which is left out.
            is_topmost = "/" not in folder
            if is_topmost:
                raise
            return []
        except OSError as err:
            if unreadable is None or err.errno not in _UNREADABLE:
                raise
            unreadable.append(err)
            return []

    def stamps(self, unreadable: list[OSError] | None = None) -> dict[Key, str]:
        """Return each samples file's stamp, by host and run. Raises OSError.
        unreadable: a list to which the errors of folders of hosts and runs that cannot
        be read are added, instead of raised.
        """
        stamps = dict[Key, str]()
        for name in self.files(_SAMPLES, unreadable):
            stamp = self.stamp(name)
            if stamp is not None:
                stamps[_parse_samples_name(name)] = stamp
        return _leave_out_misnamed(stamps, self)

    def stamp(self, name: str) -> str | None:
        """Return a file's size and modification time as text, which change when it is
        replaced; "" for a file of which they cannot be told, None if there is no file.
        """
        path = f"{self.root}/{name}"
        try:
            about = os.stat(path)  # noqa: PTH116  # a Path for each of ten thousand takes longer than looking
        except (FileNotFoundError, NotADirectoryError):
            return "" if os.path.islink(path) else None  # noqa: PTH114
        except OSError:
            return ""
        return f"{about.st_size}:{about.st_mtime_ns}"

    def can_add_rows(self, _stamp: str) -> bool:
        """Return True: whoever adds rows to the tables sees what others added."""
        return True

    def remove(self, name: str) -> None:
        """Remove a file. Raises OSError."""
        (self.root / name).unlink()

    def put(self, draft: Path, name: str) -> bool:
        """Move `draft` to `name` in one step. If `name` exists, leave both; return
        False. Raises OSError.
        """
        above, _, last = name.rpartition("/")
        with enter_folder(self.root, above) as inside:
            target = inside / last
            try:
                os.link(draft, target)
            except FileExistsError:
                return False
            except OSError as err:
                if err.errno not in _NO_LINKS:
                    raise
                # a file system without hard links; here the rename would replace a
                # file that exists, so look first
                if target.exists():
                    return False
                draft.rename(target)
            draft.unlink(missing_ok=True)
            sync(inside)
        # Each folder above may be new, and then its name has to get to the disk. Go up
        # to the first that was synced before: at the latest the root, which is among
        # them from the start.
        folder = self.root / above
        while folder not in self._synced_folders:
            sync(folder.parent)
            self._synced_folders.add(folder)
            folder = folder.parent
        return True


class Bucket:
    """A root in an object store that speaks S3. Credentials come from the environment
    only.
    """

    def __init__(self, base: str, options: Mapping[str, str]) -> None:
        """Take a bucket's name with a prefix, and options such as `endpoint_override`;
        look for the endpoint in the environment, too.
        """
        self.base = base
        self._options = dict(options)
        # pyarrow's client does not read these variables; an option of the address wins
        for variable in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"):
            endpoint = os.environ.get(variable)
            if endpoint:
                self._options.setdefault("endpoint_override", endpoint)

    def __str__(self) -> str:
        return f"s3://{self.base}"

    @property
    def address(self) -> str:
        """Return the s3:// address with options, which `parse_place` turns into this
        root in any process.
        """
        return f"{self}?{urlencode(self._options)}" if self._options else str(self)

    @cached_property
    def state_dir(self) -> Path:
        """Return this root's local folder for journals, logs and drafts, under
        $XDG_STATE_HOME/fleet.
        """
        endpoint = self._options.get("endpoint_override", "").rstrip("/")
        address = f"{endpoint} {self.base}"
        digest = hashlib.sha256(address.encode()).hexdigest()
        words = re.sub(r"[^A-Za-z0-9.]+", "-", self.base)
        return user_state_dir() / f"s3-{words[:60]}-{digest[:8]}"

    @cached_property
    def filesystem(self) -> Any:
        """Return an S3 client with long timeouts; by default, without checksums that
        some stores refuse.
        """
        os.environ.setdefault("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
        return fs.S3FileSystem(
            connect_timeout=10.0,  # seconds
            request_timeout=60.0,
            # small files are one PUT, large ones a multipart upload
            allow_delayed_open=True,
            **self._options,
        )

    def path(self, name: str) -> str:
        """Return the path by which `filesystem` opens an object: bucket and key."""
        return f"{self.base}/{name}"

    def check_reachable(self) -> None:
        """Raise FileNotFoundError if there is no such bucket; fleet never
        creates it.
        """
        bucket, _, _ = self.base.partition("/")
        if self.filesystem.get_file_info(bucket).type == fs.FileType.NotFound:
            raise FileNotFoundError(f"there is no bucket {bucket!r}")

    def require_folder(self) -> None:
        """Do nothing: a prefix is there as soon as an object begins with it."""

    def files(
        self, pattern: str, _unreadable: list[OSError] | None = None
    ) -> list[str]:
        """Return the names of matching objects, sorted. List all below the pattern's
        first folder. Raises OSError.
        """
        return sorted(name for name, _ in self._list_objects(pattern))

    def _list_objects(self, pattern: str) -> Iterator[tuple[str, Any]]:
        """Yield the name and the information of each object whose name matches a
        pattern; `*` does not match `/`.
        """
        # list as little as the pattern allows: its first folder, or, if that is not
        # named, the whole root
        first, *others = pattern.split("/")
        folder = self.base
        if "*" not in first:
            folder = f"{self.base}/{first}"
        has_folders_below = len(others) > 1
        selector = fs.FileSelector(
            folder, allow_not_found=True, recursive=has_folders_below
        )
        regular_expression = pattern.replace(".", r"\.").replace("*", "[^/]*")
        for info in self.filesystem.get_file_info(selector):
            name = info.path.removeprefix(f"{self.base}/")
            if info.is_file and re.fullmatch(regular_expression, name):
                yield name, info

    def stamps(self, _unreadable: list[OSError] | None = None) -> dict[Key, str]:
        """Return the stamp of each samples file, its size and time, by host and run.
        All objects below `samples` are listed to find the files. `_unreadable` is not
        used: a bucket has no folders that could be unreadable. Raises OSError.
        """
        stamps = dict[Key, str]()
        for name, info in self._list_objects(_SAMPLES):
            key = _parse_samples_name(name)
            stamps[key] = f"{info.size}:{info.mtime_ns}"
        in_order = dict(sorted(stamps.items()))
        return _leave_out_misnamed(in_order, self)

    def stamp(self, name: str) -> str | None:
        """Return an object's size and the time of its upload as text; None if there is
        no object.
        """
        info = self.filesystem.get_file_info(self.path(name))
        return f"{info.size}:{info.mtime_ns}" if info.is_file else None

    def can_add_rows(self, stamp: str) -> bool:
        """Report whether a run is so old that its session, on whatever machine, has
        added its rows to the tables or never will: there is no lock.
        """
        _, _, uploaded_ns = stamp.partition(":")
        return int(uploaded_ns) < time.time_ns() - _OLD_NS

    def remove(self, name: str) -> None:
        """Remove an object. Raises OSError."""
        try:
            self.filesystem.delete_file(self.path(name))
        except FileNotFoundError:
            raise
        except OSError:
            # After it has removed an object, pyarrow makes an empty one in place of the
            # folder, which some stores refuse. That is no failure to remove it.
            is_still_there = bool(self.stamp(name))
            if is_still_there:
                raise

    def put(self, draft: Path, name: str) -> bool:
        """Upload and remove `draft`, in one step for readers. If `name` exists, leave
        both; return False.
        """
        if self.stamp(name):
            return False
        with pa.memory_map(str(draft)) as source:
            data = source.read_buffer()
            stream = self.filesystem.open_output_stream(self.path(name))
            stream.write(data)
            # The object appears when the stream is closed. After an error in `write`,
            # `with` would close it too.
            stream.close()
        draft.unlink()
        return True


Place = Folder | Bucket
"""A results root. `str(place)` names it for people; it never holds a credential."""


def parse_place(root: str | Path) -> Place:
    """Parse a path or an s3:// address; open nothing. Raises UsageError, which repeats
    no secret.
    """
    text = str(root)
    match = _SCHEME.match(text)
    if not match:
        path = os.path.expanduser(text)  # noqa: PTH111  Path("./~name") forgets that no home is meant
        if path.startswith("~"):
            raise UsageError(
                f"{text}: there is no user of that name, or the user has no"
                " home. Name the folder by its whole path; one whose name begins with"
                " ~ is written ./~name."
            )
        return Folder(Path(path))
    if match[1].lower() != "s3":
        raise UsageError(
            f"{match[1]}://…: only folders and s3:// addresses can hold"
            " results. Many other stores answer as S3 too: name theirs with"
            " s3://bucket/prefix?endpoint_override=…"
        )
    return _parse_bucket(text)


def _parse_bucket(text: str) -> Bucket:
    """Parse an s3:// address. Raises UsageError."""
    options = dict[str, str]()
    try:
        url = urlsplit(text)
        if url.query:
            pairs = parse_qsl(url.query, keep_blank_values=True, strict_parsing=True)
            options = dict(pairs)
    except ValueError:
        raise UsageError(f"s3://…: not an address: {_SHAPE}.") from None
    if "@" in url.netloc or "@" in options.get("endpoint_override", ""):
        raise UsageError(
            "s3://…@…: no credentials in the address: it stands in process"
            " lists and histories. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or"
            " AWS_PROFILE."
        )
    address = f"{url.scheme}://{url.netloc}{url.path}"
    unknown = sorted(set(options) - set(_OPTIONS))
    if unknown:
        raise UsageError(
            f"{address}: unknown option {', '.join(unknown)}. There are"
            f" {', '.join(_OPTIONS)}."
        )
    prefix = [part for part in unquote(url.path).split("/") if part]
    if not url.netloc or url.fragment or ".." in prefix:
        raise UsageError(f"{address}: not an address: {_SHAPE}.")
    return Bucket("/".join([url.netloc, *prefix]), options)


def _leave_out_misnamed(stamps: dict[Key, str], place: Place) -> dict[Key, str]:
    """Return the stamps whose host and run IDs can be keys; warn of each of the others
    by a StoreWarning.
    """
    misnamed = []
    for host, run in stamps:
        if not (_KEY.fullmatch(host) and _KEY.fullmatch(run)):
            misnamed.append((host, run))
    for host, run in misnamed:
        name = f"samples/host_id={host}/run_id={run}"
        warn(
            f"{place}: {name!r} is no name of fleet's. It is left out.",
            StoreWarning,
            stacklevel=3,
        )
    return {key: stamp for key, stamp in stamps.items() if key not in misnamed}


def _parse_samples_name(name: str) -> Key:
    """Return the host ID and the run ID in the path of a samples file."""
    _, host, run, _ = name.split("/")
    return host.removeprefix("host_id="), run.removeprefix("run_id=")
