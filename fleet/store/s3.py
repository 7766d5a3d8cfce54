"""A results root in an object store that speaks S3 (docs/scale.md); one of the two kinds of `places`."""

import hashlib
import os
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from fleet.errors import UsageError
from fleet.late import fs, pa
from fleet.store.files import user_state_dir

_OPTIONS = ("endpoint_override", "region", "scheme")
_CONNECT_TIMEOUT_S = 10.0
_REQUEST_TIMEOUT_S = 60.0
_SHAPE = "s3://bucket/prefix, and after a ? endpoint_override=…, region=…, scheme=https"


class Bucket:
    """A root in an object store that speaks S3. Credentials come from the environment only."""

    def __init__(self, base: str, options: Mapping[str, str]) -> None:
        self.base = base
        self._options = dict(options)
        if endpoint := os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL"):
            self._options.setdefault("endpoint_override", endpoint)  # pyarrow's client does not look there

    def __str__(self) -> str:
        return f"s3://{self.base}"

    @property
    def address(self) -> str:
        """The address with its options, the endpoint among them."""
        return f"{self}?{urlencode(self._options)}" if self._options else str(self)

    @cached_property
    def state_dir(self) -> Path:
        """A folder of this root's own under $XDG_STATE_HOME/fleet."""
        endpoint = self._options.get("endpoint_override", "").rstrip("/")
        which = hashlib.sha256(f"{endpoint} {self.base}".encode()).hexdigest()[:8]
        slug = re.sub(r"[^A-Za-z0-9.]+", "-", self.base)[:60]
        return user_state_dir() / f"s3-{slug}-{which}"

    @cached_property
    def filesystem(self) -> Any:
        """A patient S3 client, without the checksums that only AWS takes for sure unless asked for."""
        os.environ.setdefault("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
        return fs.S3FileSystem(
            connect_timeout=_CONNECT_TIMEOUT_S,
            request_timeout=_REQUEST_TIMEOUT_S,
            allow_delayed_open=True,  # small files are one PUT, large ones a multipart upload
            **self._options,
        )

    def path(self, name: str) -> str:
        """Bucket and key."""
        return f"{self.base}/{name}"

    def check_reachable(self) -> None:
        """Ask for the bucket, which is never made by us."""
        bucket = self.base.split("/", 1)[0]
        if self.filesystem.get_file_info(bucket).type == fs.FileType.NotFound:
            raise FileNotFoundError(f"there is no bucket {bucket!r}")

    def exists(self, name: str) -> bool:
        """Whether the object is there."""
        return bool(self.filesystem.get_file_info(self.path(name)).is_file)

    def files(self, pattern: str) -> list[str]:
        """The objects that match, sorted; one request per thousand objects below the pattern's fixed part."""
        return [name for name, _ in self._list_objects(pattern)]

    def _list_objects(self, pattern: str) -> list[tuple[str, Any]]:
        parts = pattern.split("/")
        fixed = next((at for at, part in enumerate(parts) if "*" in part or "?" in part), len(parts) - 1)
        folder = "/".join([self.base, *parts[:fixed]])
        deep = fixed < len(parts) - 1
        selector = fs.FileSelector(folder, allow_not_found=True, recursive=deep)
        below = len(self.base) + 1
        objects = [info for info in self.filesystem.get_file_info(selector) if info.is_file]
        named = ((info.path[below:], info) for info in objects)
        return sorted((item for item in named if _matches(item[0], parts)), key=lambda item: item[0])

    def samples(self) -> dict[tuple[str, str], str]:
        """Stamp each samples file: its size and time, by host and run; a request per thousand objects."""
        stamps = {}
        for name, info in self._list_objects("samples/host_id=*/run_id=*/samples.parquet"):
            _, host, run, _ = name.split("/")
            key = host.removeprefix("host_id="), run.removeprefix("run_id=")
            stamps[key] = f"{info.size}:{info.mtime_ns}"
        return stamps

    def stamp(self, name: str) -> str | None:
        """Stamp an object with its size and time; None for no object."""
        info = self.filesystem.get_file_info(self.path(name))
        return f"{info.size}:{info.mtime_ns}" if info.is_file else None

    def last_change_ns(self, name: str) -> int:
        """Return when an object was put there, which nobody can set; 0 if that cannot be known."""
        return int((self.stamp(name) or "").rpartition(":")[2] or 0)

    def put(self, draft: Path, name: str) -> bool:
        """Upload the draft whole, in one call that no signal can end early; the store shows it once it is."""
        if self.exists(name):
            return False
        with pa.memory_map(str(draft)) as source:
            data = source.read_buffer()
            stream = self.filesystem.open_output_stream(self.path(name))
            stream.write(data)
            stream.close()
        draft.unlink()
        return True


def parse_bucket(text: str) -> Bucket:
    """Read s3://bucket/prefix?…. Raises UsageError, which repeats no part that may be secret."""
    try:
        url = urlsplit(text)
        options = dict(parse_qsl(url.query, keep_blank_values=True, strict_parsing=bool(url.query)))
    except ValueError:
        raise UsageError(f"--results s3://…: not an address: {_SHAPE}.") from None
    if "@" in url.netloc or "@" in options.get("endpoint_override", ""):
        raise UsageError(
            "--results s3://…@…: no credentials in the address: it stands in process lists and histories. "
            "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE."
        )
    if unknown := sorted(set(options) - set(_OPTIONS)):
        raise UsageError(
            f"--results {url.scheme}://{url.netloc}{url.path}?…: unknown: {', '.join(unknown)}. "
            f"There are {', '.join(_OPTIONS)}."
        )
    prefix = [part for part in unquote(url.path).split("/") if part]
    if not url.netloc or url.fragment or ".." in prefix:
        raise UsageError(f"--results {url.scheme}://{url.netloc}{url.path}: not an address: {_SHAPE}.")
    return Bucket("/".join([url.netloc, *prefix]), options)


def _matches(name: str, parts: list[str]) -> bool:
    found = name.split("/")
    return len(found) == len(parts) and all(map(fnmatchcase, found, parts))
