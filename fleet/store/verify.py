"""Reads every file of a results root and compares it with what was written: `fleet verify`."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from fleet.errors import StoreError
from fleet.store.amendments import FILES as AMENDMENTS
from fleet.store.amendments import read_amendment
from fleet.store.files import storing
from fleet.store.places import Place
from fleet.store.publish import samples_name
from fleet.store.reading import TableFile, each
from fleet.store.samples import content_sha256, record_of


@dataclass(frozen=True, slots=True)
class Verified:
    """What was read of a root. problems: a sentence for each file that is not as it was written."""

    runs: int
    samples: int
    files: int
    problems: tuple[str, ...]


def verify(place: Place) -> Verified:
    """Read everything in `place`. Raises StoreError where the root itself cannot be read.

    Samples are compared with the digest they were published with, page by page; rows of `_runs` with the
    samples; counters, derived and imported tables only with their own checksums; amendments are decoded.
    Nothing is changed.
    """
    with storing("verify the results", place):
        samples, amendments = place.samples(), place.files(AMENDMENTS)
        others = {
            table: place.files(pattern)
            for table, pattern in (
                ("runs", "_runs/*.parquet"),
                ("cpus", "_cpus/*.parquet"),
                ("pairs", "_pairs/host_id=*/run_id=*/pairs.parquet"),
                ("summaries", "_summaries/*.parquet"),
                ("counters", "_counters/*.parquet"),
            )
        }
    found = each(lambda name: _samples_file(place, name), samples.values())
    digests = {run_id: digest for run_id, (digest, _, _) in zip(samples, found, strict=True)}
    problems = [problem for _, _, problem in found if problem]
    problems += [problem for name in others["runs"] for problem in _runs_file(place, name, digests)]
    for table in ("cpus", "pairs", "summaries", "counters"):
        problems += [problem for name in others[table] if (problem := _read_whole(place, name, table))]
    problems += [problem for name in amendments if (problem := _amendment(place, name))]
    files = len(samples) + len(amendments) + sum(map(len, others.values()))
    return Verified(len(samples), sum(count for _, count, _ in found), files, tuple(problems))


def _samples_file(place: Place, name: str) -> tuple[str | None, int, str | None]:
    """The digest a file was published with, its samples, and what is wrong with it."""
    digest = None
    try:
        file = TableFile(place, name, "samples")
        row = record_of(file).row
        digest = str(row["content_sha256"])
        if name != samples_name(row["host_id"], row["run_id"]):
            return digest, 0, f"{name}: holds run {row['run_id']} of {row['host_id']}. Move it to its place."
        if content_sha256(file) != digest:
            return digest, 0, f"{name}: not the samples that were published. Restore it from a copy."
        return digest, file.values("ticks"), None
    except StoreError as err:
        return digest, 0, str(err)


def _runs_file(place: Place, name: str, digests: dict[str, str | None]) -> Iterator[str]:
    try:
        rows = TableFile(place, name, "runs").read().to_pylist()
    except StoreError as err:
        yield str(err)
        return
    for row in rows:
        with suppress(KeyError):  # the samples were removed
            if digests[row["run_id"]] not in (None, row["content_sha256"]):
                yield f"{name}: its row of {row['run_id']} is not that of the samples. Remove the file."


def _read_whole(place: Place, name: str, table: str) -> str | None:
    try:
        for _ in TableFile(place, name, table).stretches():
            pass
    except StoreError as err:
        return str(err)
    return None


def _amendment(place: Place, name: str) -> str | None:
    try:
        read_amendment(place, name)
    except StoreError as err:
        return str(err)
    return None
